"""Cases in which estimated variances once went wrong, each as a user would meet it."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import f as f_distribution

from comparo import Comparisons, Items, fit
from comparo.analysis.confidence import expected_spearman
from comparo.analysis.correlations import spearman
from comparo.model.inference.soft import equality
from inside import Fitting, next_pairs, nodes_of
from split import one_short

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

RECORDED = Path(__file__).parents[2] / "shared" / "data"


def covered(ranking, truth):
    """The share of items whose true score is inside the interval."""
    true = truth[ranking.items.astype(int)]
    true = true - true.mean()
    return float(np.mean((ranking.low < true) & (true < ranking.high)))


def drawn(rng, n, calls, both=True):
    """Random pairs of n items, each item in about as many."""
    ends = [rng.permutation(n) for _ in range(2 * -(-calls // 2))]
    first, second = np.concatenate(ends[::2]), np.concatenate(ends[1::2])
    kept = first != second
    first, second = first[kept], second[kept]
    return (np.concatenate([first, second]), np.concatenate([second, first])) if both else (first, second)


@pytest.mark.parametrize("seed", range(4))
def test_an_item_that_wins_all_its_calls_is_not_pulled_below_those_it_beat(seed):
    """Two styles six logits apart, and one item of the low style that wins all its 8 calls (p from 0.68 to 0.88)."""
    rng = np.random.default_rng(seed)
    style = np.repeat([-0.5, 0.5], 50)
    truth = 6 * style + 0.5 * rng.standard_normal(100)
    first, second = drawn(rng, 100, 8, both=False)
    others = (first != 0) & (second != 0)
    first, second = first[others], second[others]
    p = expit(truth[first] - truth[second] + 0.3 * rng.standard_normal(len(first)))
    beaten = rng.choice(np.arange(50, 100), 8, replace=False)
    data = Comparisons.from_columns(
        np.append(first, np.zeros(8, dtype=int)), np.append(second, beaten), np.append(p, rng.uniform(0.68, 0.88, 8))
    )
    features = {item: [value] for item, value in enumerate(style.tolist())}
    styled, plain = fit(data, prior="estimated", features=features), fit(data, prior="estimated")
    assert styled[0].rank <= 4
    assert styled[0].score == pytest.approx(plain[0].score, abs=0.5)
    assert styled.solution.converged


def two_kinds(rng, n, gap):
    """Texts of two vocabularies, and scores `gap` apart."""
    words = [
        "alpha beta gamma delta epsilon zeta eta theta".split(),
        "rain snow hail sleet fog mist wind frost".split(),
    ]
    kind = np.arange(n) % 2
    texts = [" ".join(rng.choice(words[one], 20)) + f" {number}" for number, one in enumerate(kind.tolist())]
    return Items.of(dict(enumerate(texts))), gap * (kind - 0.5) + rng.standard_normal(n)


def asked(items, calls, answer, contrast=None):
    """The answers to the calls of a run, n at a time."""
    columns, data = {"first": [], "second": []}, None
    for _ in range(calls):
        more = next_pairs(items.names, len(items), data, contrast=contrast, seed=0)
        columns = {name: columns[name] + more[name] for name in columns}
        first, second = (np.array(columns[name], dtype=int) for name in ("first", "second"))
        data = Comparisons.from_columns(first, second, answer(first, second))
    return data


def paths(items, truth, calls, answer):
    """Spearman's correlation of the default and of the plain way with the truth."""
    found = []
    for fitting in (Fitting(items), Fitting(items, plain=True)):
        ranking = fitting.rank(asked(items, calls, answer, None if fitting.plain else fitting.contrast))
        found.append(float(spearman(ranking.scores, truth[ranking.items.astype(int)])))
    return found


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_two_kinds_of_text_are_ranked_as_well_with_style_as_without(seed):
    rng = np.random.default_rng(seed)
    items, truth = two_kinds(rng, 120, gap=6.0)
    noise = rng.standard_normal((120, 120))
    default, plain = paths(items, truth, 6, lambda i, j: expit(truth[i] - truth[j] + noise[i, j]))
    assert default > plain - 0.01


@pytest.mark.long
def test_comparisons_within_a_topic_are_not_starved():
    """Two topics of equal quality, judged by decisions."""
    gains = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        items, truth = two_kinds(rng, 100, gap=0.0)
        luck = rng.random((100, 100))
        default, plain = paths(items, 2 * truth, 10, partial(_decide, 2 * truth, luck))
        gains.append(default - plain)
    assert np.mean(gains) > -0.01


def _decide(truth, luck, first, second):
    return (luck[first, second] < expit(truth[first] - truth[second])).astype(float)


@pytest.mark.long
def test_expected_agreement_is_honest_for_weak_judges():
    """40 items whose scores vary by 0.3 with noise of 1, and pure noise."""
    said, true = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        truth = 0.3 * rng.standard_normal(40)
        first, second = drawn(rng, 40, 12)
        data = Comparisons.from_columns(
            first, second, expit(truth[first] - truth[second] + rng.standard_normal(len(first)))
        )
        ranking = fit(data, bias="joint", prior="estimated")
        said.append(expected_spearman(ranking)[0])
        true.append(spearman(ranking.scores, truth[ranking.items]))
    assert np.mean(said) < np.mean(true) + 0.05
    noise = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        first, second = drawn(rng, 40, 12)
        data = Comparisons.from_columns(first, second, expit(rng.standard_normal(len(first))))
        noise.append(expected_spearman(fit(data, bias="joint", prior="estimated"))[0])
    assert np.mean(noise) < 0.4


@pytest.mark.long
@pytest.mark.parametrize(("n", "spread", "seeds"), one_short([(100, 3.0, 6), (3000, 1.0, 1)]))
def test_the_variance_of_scores_is_found_from_decisions(n, spread, seeds):
    variances, shares = [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        truth = spread * rng.standard_normal(n)
        first, second = drawn(rng, n, 4)
        p = (rng.random(len(first)) < expit(truth[first] - truth[second])).astype(float)
        ranking = fit(Comparisons.from_columns(first, second, p), bias="joint", prior="estimated")
        variances.append(ranking.solution.effects.scores / np.var(truth))
        shares.append(covered(ranking, truth))
    assert 0.7 < np.mean(variances) < 1.4
    assert 0.91 < np.mean(shares) < 0.98


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0])
def test_intervals_cover_with_a_prior_of_the_true_spread(sigma):
    shares = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        truth = sigma * rng.standard_normal(40)
        first, second = drawn(rng, 40, 6, both=False)
        p = expit(truth[first] - truth[second] + 0.5 * rng.standard_normal(len(first)))
        shares.append(covered(fit(Comparisons.from_columns(first, second, p), prior=sigma), truth))
    assert 0.85 < np.mean(shares) < 0.98


@pytest.mark.parametrize("spread", [3.0, 5.0])
def test_sure_judges_are_ranked_as_well_as_by_the_plain_way(spread):
    gains, shares = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        truth = spread * rng.standard_normal(60)
        first, second = drawn(rng, 60, 4)
        data = Comparisons.from_columns(
            first, second, expit(truth[first] - truth[second] + 0.5 * rng.standard_normal(len(first)))
        )
        estimated, plain = fit(data, bias="joint", prior="estimated"), fit(data, bias="joint")
        gains.append(spearman(estimated.scores, truth[estimated.items]) - spearman(plain.scores, truth[plain.items]))
        shares.append(covered(estimated, truth))
    assert np.mean(gains) > -0.001
    assert np.mean(shares) > 0.9


def test_a_tie_in_both_orders_leaves_two_items_nearly_equal():
    ranking = fit([("a", "b", 1), ("b", "a", 0), ("b", "c", 0.5), ("c", "b", 0.5)], bias="joint", prior="estimated")
    a, b, c = (ranking[item].score for item in "abc")
    assert abs(b - c) < 0.2 * (a - b)  # b lost twice, c never: that is a little of the distance
    assert 0.4 < ranking.probability("c", "b") < 0.7


@pytest.mark.long
def test_a_path_of_many_items_has_its_maximum():
    ranking = fit([(item, item + 1, 1.0) for item in range(400)], "bt", prior_pairs="compared")
    assert ranking.solution.converged
    np.testing.assert_allclose(-np.diff(ranking.scores), np.log(401.0), rtol=1e-6)


def test_a_judge_that_always_says_first_is_noted():
    rows = [(one, other, 1.0) for one in range(8) for other in range(8) if one != other]
    ranking = fit(rows, bias="joint", prior="estimated")
    assert any("28 of 28" in note for note in ranking.notes)
    assert np.max(ranking.std) < 2.0
    assert np.max(np.abs(ranking.scores)) < 1e-6


def test_a_soft_judge_with_a_strong_bias_is_not_noted():
    """All its answers favour the first, but by how much depends on the texts."""
    truth = np.linspace(-0.5, 0.5, 8)
    rows = [(i, j, float(expit(3 + truth[i] - truth[j]))) for i in range(8) for j in range(8) if i != j]
    ranking = fit(rows, bias="joint", prior="estimated")
    assert not ranking.notes
    assert list(ranking) == list(range(7, -1, -1))


@pytest.mark.long
@pytest.mark.recorded
@pytest.mark.parametrize("calls", [2, 5])
def test_recorded_answers_as_decisions_are_ranked_as_well_as_by_the_plain_way(calls):
    """SummEval's relevance, p > ½ as a decision, 40 articles in one run; Spearman × 100 with people."""
    rows = [json.loads(line) for line in (RECORDED / "summeval.jsonl").open(encoding="utf-8")]
    articles = list(dict.fromkeys(row["context_id"] for row in rows))[:40]
    rows = [row for row in rows if row["context_id"] in articles]
    items, human = Items.of(rows), {(row["context_id"], row["id"]): row["scores"]["relevance"] for row in rows}
    recorded = Comparisons.read(RECORDED / "judgements" / "summeval.relevance.csv.gz").decisions().to_columns()
    names = ("context", "first", "second")
    decided = dict(zip(zip(*(recorded[name].tolist() for name in names), strict=True), recorded["p"], strict=True))

    def agreement(fitting, seed):
        columns, data = {name: [] for name in names}, None
        for _ in range(calls * 4):
            contrast = None if fitting.plain else fitting.contrast
            more = next_pairs(items.names, 4, data, contrast=contrast, seed=seed)
            columns = {name: columns[name] + more[name] for name in names}
            p = [decided[key] for key in zip(*columns.values(), strict=True)]
            data = Comparisons.from_columns(columns["first"], columns["second"], p, context=columns["context"])
        ranking = fitting.rank(data)
        found = []
        for article in articles:
            nodes = nodes_of(ranking, article)
            found.append(
                spearman(ranking.scores[nodes], np.array([human[article, item] for item in ranking.items[nodes]]))
            )
        return 100 * np.nanmean(found)

    default, plain = (
        np.mean([agreement(fitting, seed) for seed in range(2)])
        for fitting in (Fitting(items), Fitting(items, plain=True))
    )
    assert default > plain - 1.0


def equal_or_not(n, spread, seeds, orders="both", calls=None):
    """The share of true scores in their intervals, and of runs with more than one tier: noise of 1 logit, a bias."""
    covered, split = [], []
    for seed in range(seeds):
        rng = np.random.default_rng([n, seed])
        truth = spread * rng.standard_normal(n)
        pairs = [(i, j) for i in range(n) for j in range(i)]
        if calls is not None:  # a tree, and a few pairs more
            tree = [(k, int(rng.integers(k))) for k in range(1, n)]
            rest = [pair for pair in pairs if pair not in tree]
            pairs = tree + [rest[k] for k in rng.choice(len(rest), calls - len(tree), replace=False)]
        asked = [pair if rng.random() < 0.5 else pair[::-1] for pair in pairs]
        asked += [(j, i) for i, j in asked] if orders == "both" else []
        noise = rng.standard_normal(len(asked))
        rows = [(i, j, expit(truth[i] - truth[j] - 0.3 + e)) for (i, j), e in zip(asked, noise, strict=True)]
        ranking = fit(rows, prior="estimated", bias="joint")
        apart = truth[ranking.items.astype(int)] - np.mean(truth)
        covered.append(np.mean((ranking.low <= apart) & (apart <= ranking.high)))
        split.append(ranking.tier.max() > 1)
    return np.array(covered), float(np.mean(split))


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("n", "orders", "calls"),
    [
        (3, "both", None),
        pytest.param(4, "both", None, marks=LONG),
        pytest.param(3, "one", None, marks=LONG),
        pytest.param(16, "both", 18, marks=LONG),
    ],
)
def test_few_answers_say_how_little_they_tell_of_their_noise(n, orders, calls):
    covered, _ = equal_or_not(n, 1.0, 40, orders, calls)
    assert np.mean(covered) > 0.95 - 0.03 - 2 * np.std(covered) / np.sqrt(len(covered))


@pytest.mark.parametrize("n", [3, pytest.param(4, marks=LONG), pytest.param(6, marks=LONG)])
def test_equal_texts_are_in_one_tier(n):
    _, split = equal_or_not(n, 0.0, 60)
    assert split <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 60)


def test_different_texts_are_in_several_tiers():
    assert equal_or_not(6, 1.0, 15)[1] > 0.7


def test_the_test_of_equality_is_the_f_test_of_least_squares():
    rng = np.random.default_rng(3)
    pairs = [(i, j) for i in range(5) for j in range(i)]
    y = rng.standard_normal(len(pairs))
    design = np.array([(np.arange(5) == i) * 1.0 - (np.arange(5) == j) for i, j in pairs])
    fitted = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    ratio = (fitted @ fitted / 4) / ((y - fitted) @ (y - fitted) / 6)
    rows = [(i, j, expit(d)) for (i, j), d in zip(pairs, y, strict=True)]
    turned = [(j, i, 1 - p) for i, j, p in rows]  # the same answers: two orders are no second observation
    assert equality(Comparisons.from_rows(rows + turned)) == pytest.approx(f_distribution.sf(ratio, 4, 6))
