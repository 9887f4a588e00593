"""How sure a ranking is as a whole, against how good it truly is."""

import re
import warnings

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import rankdata

from comparo import Comparisons, fit, load_judge, rank
from comparo.analysis.confidence import expected_spearman, top_probability, top_share
from comparo.analysis.sequential import chance_notes, log_evidence
from comparo.model.likelihoods import Gaussian, StudentT
from comparo.ranking.display import best_sentence
from comparo.rounding import mean_ranks
from inside import LIMITS, Limits, nodes_of
from oracle import simulate
from split import one_short


def decisions(comparisons, rng):
    """Answers of the same judge who only says which is better: 1 with probability p."""
    p = (rng.random(len(comparisons)) < comparisons.p).astype(float)
    return Comparisons.from_columns(comparisons.first, comparisons.second, p, context=comparisons.context)


def ranked(data, method="poe-bt", **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a few contexts are not connected
        return fit(data, method, **how)


def correlation(one, other):
    a, b = (rankdata(np.round(part, 9)) for part in (one, other))
    return np.corrcoef(a, b)[0, 1] if np.ptp(a) and np.ptp(b) else 0.0


def actual(ranking, truth):
    """Spearman's correlation with the truth (C, N), in the comparisons' order of contexts."""
    labels = [None] if ranking.context is None else ranking.comparisons.contexts
    nodes = [nodes_of(ranking, label) for label in labels]
    return np.array([correlation(ranking.scores[part], truth[c][ranking.items[part]]) for c, part in enumerate(nodes)])


REGIMES = [  # items, comparisons, spread, noise
    (6, 15, 1.0, 0.5),
    (12, 24, 1.0, 1.0),
    (12, 36, 3.0, 0.4),
    (16, 48, 0.3, 1.0),
    (16, 48, 1.0, 1.0),
    (16, 240, 0.3, 1.0),
    (40, 160, 0.6, 0.6),
    (16, 96, 0.0, 1.0),
]


def calibration(hard, contexts):
    """For every regime, its comparisons in many contexts, their ranking, and Spearman's correlation with the truth."""
    for items, rows, spread, noise in REGIMES:
        rng = np.random.default_rng([items, rows])
        data, truth = simulate(rng, items, rows, spread, noise, contexts=contexts)
        data = decisions(data, rng) if hard else data
        ranking = ranked(data)
        yield data, ranking, np.mean(actual(ranking, truth))


@pytest.mark.long
@pytest.mark.parametrize("hard", one_short([False, True]))
def test_the_expectation_is_what_happens(hard):
    errors = [np.mean(expected_spearman(ranking)) - true for _, ranking, true in calibration(hard, 120)]
    assert -0.05 < errors.pop() < 0.15  # pure noise, where the expectation cannot err downwards
    assert np.max(np.abs(errors)) < 0.07
    assert np.mean(np.abs(errors)) < 0.03


@pytest.mark.parametrize("hard", [False, True])
def test_pure_noise_is_seen_through(hard):
    rng = np.random.default_rng(1)
    data, _ = simulate(rng, 16, 96, 0.0, 1.0, contexts=150)
    ranking = ranked(decisions(data, rng) if hard else data)
    assert np.mean(top_probability(ranking, 1)) < 0.15
    alone, _ = simulate(rng, 200, 1000, 0.0, 1.0)
    assert expected_spearman(ranked(decisions(alone, rng) if hard else alone))[0] < 0.25


@pytest.mark.long
@pytest.mark.parametrize("hard", [False, True])
def test_a_context_alone_is_judged_without_the_others(hard):
    rng = np.random.default_rng(2)
    found, true = [], []
    for _ in range(40):
        data, truth = simulate(rng, 20, 100, 0.8, 0.8)
        ranking = ranked(decisions(data, rng) if hard else data)
        found.append(expected_spearman(ranking)[0])
        true.append(actual(ranking, truth)[0])
    assert np.mean(found) == pytest.approx(np.mean(true), abs=0.05)


def test_contexts_that_tell_nothing_are_told_from_those_that_do():
    rng = np.random.default_rng(3)
    good, truth = simulate(rng, 12, 60, 1.0, 0.8, contexts=60)
    bad, _ = simulate(rng, 12, 60, 0.0, 0.8, contexts=60)
    both = Comparisons.from_columns(
        *(np.concatenate([getattr(part, name) for part in (good, bad)]) for name in ("first", "second", "p")),
        context=np.concatenate([good.context, 60 + bad.context]),
    )
    ranking = ranked(both)
    found = expected_spearman(ranking)
    assert np.mean(found[:60]) == pytest.approx(np.mean(actual(ranking, np.tile(truth, (2, 1)))[:60]), abs=0.04)
    assert np.mean(found[60:]) < 0.25


def test_the_best_are_right_as_often_as_they_are_said_to_be():
    rng = np.random.default_rng(4)
    data, truth = simulate(rng, 10, 60, 1.0, 1.0, contexts=300)
    ranking = ranked(data)
    for k in (1, 3):
        right = []
        for context in ranking.comparisons.contexts:
            nodes = nodes_of(ranking, context)
            best = ranking.items[nodes][np.argsort(-ranking.scores[nodes])[:k]]
            right.append(set(best) == set(np.argsort(-truth[context])[:k]))
        assert np.mean(top_probability(ranking, k)) == pytest.approx(np.mean(right), abs=0.07)


@pytest.mark.parametrize("hard", [False, True])
def test_large_contexts_take_errors_as_independent_and_lose_little(hard):
    rng = np.random.default_rng(5)
    data, truth = simulate(rng, 200, 1000, 0.7, 0.8)
    data = decisions(data, rng) if hard else data
    ranking, independent = ranked(data), ranked(data, limits=Limits(correlated=100))
    exact, best = expected_spearman(ranking)[0], top_probability(ranking, 20)[0]
    assert expected_spearman(independent)[0] == pytest.approx(exact, abs=0.02)
    assert top_probability(independent, 20)[0] == pytest.approx(best, abs=0.1)
    assert exact == pytest.approx(actual(ranking, truth)[0], abs=0.06)


def test_more_comparisons_bring_what_was_foreseen():
    rng = np.random.default_rng(6)
    data, truth = simulate(rng, 14, 126, 0.7, 1.0, contexts=150)
    third = np.arange(len(data)) % 126 < 42
    parts = (part[third] for part in (data.first, data.second, data.p))
    little = ranked(Comparisons.from_columns(*parts, context=data.context[third]))
    much = np.mean(actual(ranked(data), truth))
    assert np.mean(actual(little, truth)) < much - 0.05
    assert np.mean(expected_spearman(little, more=2.0)) == pytest.approx(much, abs=0.04)
    assert np.all(expected_spearman(little, more=1e6) > 0.98)


def test_groups_that_nothing_joins_cannot_be_ranked_as_one():
    rng = np.random.default_rng(7)
    truth = rng.standard_normal(20)
    pairs = [(a, b) for a in range(20) for b in range(20) if a != b and (a < 10) == (b < 10)]
    rows = [(a, b, 1 / (1 + np.exp(truth[b] - truth[a]))) for a, b in pairs]
    joined = ranked([*rows, (0, 10, 1 / (1 + np.exp(truth[10] - truth[0])))])
    assert expected_spearman(joined)[0] > 0.99
    for limits in (LIMITS, Limits(correlated=10)):
        split = ranked(rows, limits=limits)
        assert 0.6 < expected_spearman(split)[0] < 0.98
        assert top_probability(split, 1)[0] < 0.95


def test_contexts_come_in_the_comparisons_order():
    rng = np.random.default_rng(8)
    vague = [("z", int(a), int(a + 1) % 5, p) for a, p in zip(range(5), rng.random(5), strict=True)]
    sure = [("y", a, b, 1 / (1 + np.exp(a - b))) for a in range(4) for b in range(4) if a != b]
    context, first, second, p = zip(*vague, *sure, strict=True)
    ranking = ranked(Comparisons.from_columns(first, second, p, context=context))
    assert ranking.comparisons.contexts.tolist() == ["z", "y"]
    assert np.diff(ranking.graph.starts).tolist() == [4, 5]
    assert expected_spearman(ranking)[1] > 0.99 > expected_spearman(ranking)[0] + 0.1


@pytest.mark.parametrize(
    "how",
    [
        {"method": "poe-g"},
        {"method": "avg-prob"},
        {"method": "win-ratio"},
        {"method": "bt"},
        {"method": "poe-g-hard"},
        {"method": StudentT()},
        {"method": Gaussian()},
        {"bias": "joint"},
        {"bias": "plug-in"},
    ],
)
def test_any_method_and_bias_can_be_judged(how):
    rng = np.random.default_rng(9)
    data, truth = simulate(rng, 12, 60, 0.8, 0.5, gamma=0.6 if "bias" in how else 0.0, contexts=80)
    ranking = ranked(data, **how)
    assert np.mean(expected_spearman(ranking)) == pytest.approx(np.mean(actual(ranking, truth)), abs=0.06)


def test_two_items_and_never_compared_ones():
    assert expected_spearman(ranked([("a", "b", 0.9)])).shape == (1,)
    matrix = np.full((4, 4), np.nan)
    matrix[0, 1], matrix[1, 0], matrix[1, 2], matrix[2, 1] = 0.8, 0.2, 0.7, 0.3
    ranking = ranked(matrix)
    assert -1 < expected_spearman(ranking)[0] < 0.95
    assert top_probability(ranking, 4)[0] == 1.0


def test_mistakes_are_told():
    ranking = ranked([("a", "b", 0.9)])
    with pytest.raises(ValueError, match=r"\bk .*not 0"):
        top_probability(ranking, 0)
    with pytest.raises(ValueError, match=r"\bmore .*not -1"):
        expected_spearman(ranking, more=-1)


def show_calibration():
    """The table of docs/measurements/planning.md: actual, expected, and expected of each context alone."""
    for hard in (False, True):
        for regime, (data, ranking, true) in zip(REGIMES, calibration(hard, 300), strict=True):
            alone = []
            for context in range(100):
                mine = data.context == context
                alone.append(ranked(Comparisons.from_columns(data.first[mine], data.second[mine], data.p[mine])))
            found = np.mean(expected_spearman(ranking)), np.mean([expected_spearman(one)[0] for one in alone])
            cells = "{:3} {:4} {:4.1f} {:4.1f}".format(*regime)
            print("hard" if hard else "soft", cells, "  {:.3f} {:.3f} {:.3f}".format(true, *found), flush=True)


if __name__ == "__main__":
    show_calibration()


@pytest.mark.parametrize("kind", ["soft", "decisions", "orders"])
def test_evidence_is_an_even_bet_on_noise_and_grows_with_the_answers_of_a_judge(kind):
    rng, pairs = np.random.default_rng(0), [(i, j) for i in range(10) for j in range(10) if i != j]
    first, second = np.array(pairs).T

    def found(sd):
        d = sd * rng.standard_normal(10)
        if kind == "orders":
            some = [rng.permutation(10)[:5] for _ in range(20)]
            ordered = [items[np.argsort(-d[items] - rng.gumbel(size=5))] for items in some]
            rows = [{"items": a.tolist(), "order": b.tolist()} for a, b in zip(some, ordered, strict=True)]
            return log_evidence(Comparisons.from_rows(rows))
        logit = d[first] - d[second]
        noisy = expit(logit + rng.standard_normal(len(pairs)))
        p = noisy if kind == "soft" else (rng.random(len(pairs)) < expit(logit)).astype(float)
        return log_evidence(Comparisons.from_columns(first, second, p))

    noise = np.exp([found(0.0) for _ in range(200)])
    assert np.mean(noise >= 20) <= 0.05
    assert 0.2 < np.mean(noise) < 2.5  # its expectation is 1
    assert np.mean([found(3.0) for _ in range(20)]) > 2 * np.log(20)


def test_mean_ranks_are_those_of_scipy():
    values = np.random.default_rng(0).integers(5, size=(3, 4, 9)).astype(float)
    np.testing.assert_array_equal(mean_ranks(values), rankdata(values, axis=-1))
    values[1, 2, 3] = np.nan
    np.testing.assert_array_equal(mean_ranks(values), rankdata(values, axis=-1))
    assert mean_ranks(np.empty((2, 0))).shape == (2, 0)


def test_the_share_of_the_best_is_between_the_chances_of_all_and_of_any():
    data, _ = simulate(np.random.default_rng(4), 12, 40, 1.0, 0.5)
    ranking = ranked(data, "mixed")
    for k in (1, 3, 6):
        share, every = top_share(ranking, k)[0], top_probability(ranking, k)[0]
        assert every <= share <= 1.0
        assert k > 1 or share == every
        assert share == pytest.approx(np.mean(ranking.top(k)["probability"][:k]), abs=0.06)
    assert top_share(ranking, 12)[0] == 1.0


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("items", "k", "budget", "lineup", "answers"),
    [(60, 10, "100%", 2, "soft"), (100, 50, "60n", 2, "soft"), (60, 5, "8n", 8, "soft"), (40, 5, "8n", 8, "hard")],
)
def test_a_run_that_stops_at_a_share_of_the_best_has_found_it(items, k, budget, lineup, answers):
    shares = []
    for seed in range(24):
        scores = dict(enumerate(1.5 * np.random.default_rng([7, seed]).standard_normal(items)))
        rows = [{"id": item, "text": f"text {item}"} for item in scores]
        asked = load_judge(f"simulated/{answers}", scores=scores, noise=float(answers == "soft"), seed=seed)
        how = {"goal": f"top-{k}", "until": 0.9, "budget": budget, "lineup": lineup, "seed": seed}
        ranking = rank(rows, "better", judge=asked, **how)
        best = set(sorted(scores, key=scores.get)[-k:])
        shares.append(len(best.intersection(list(ranking)[:k])) / k)
    assert np.mean(shares) > 0.9 - 2.0 * np.std(shares) / np.sqrt(len(shares))


def said_by_chance(judge, lineup, budget, seeds):
    """The share of runs for the best 5 of 30 that say that their answers may be chance."""
    said = []
    for seed in range(seeds):
        scores = dict(enumerate(1.5 * np.random.default_rng([9, seed]).standard_normal(30)))
        rows = [{"id": item, "text": f"text {item}"} for item in scores]
        asked = load_judge(judge[0], scores=scores, seed=seed, **judge[1])
        found = chance_notes(rank(rows, "better", judge=asked, goal="top-5", lineup=lineup, budget=budget, seed=seed))
        assert all("best 5" in note and "audition" in note for note in found)
        said.append(len(found))
    return np.mean(said)


COINS = (("simulated/hard", {"strength": 0.0, "noise": 0.0}), ("simulated/soft", {"strength": 0.0}))
READERS = (("simulated/hard", {"noise": 0.0}), ("simulated/soft", {"noise": 1.0}))


@pytest.mark.parametrize(("judge", "lineup", "is_said"), [(COINS[0], 6, 1), (READERS[0], 6, 0), (COINS[1], 2, 1)])
def test_a_run_for_the_best_few_says_that_its_answers_may_be_chance(judge, lineup, is_said):
    assert said_by_chance(judge, lineup, 60, 1) == is_said


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(("lineup", "calls"), [(2, 120), (5, 12), (6, 20)])
@pytest.mark.parametrize("kind", [0, 1])
def test_coins_are_told_from_judges_that_read(kind, lineup, calls):
    """Of 30 texts, from two looks per text in line-ups on; pairs need more, because the first of them form no loop."""
    assert said_by_chance(COINS[kind], lineup, calls, 20) >= 0.5
    assert said_by_chance(READERS[kind], lineup, calls, 20) <= 0.05


@pytest.mark.long
@pytest.mark.statistical
def test_about_as_many_calls_as_said_settle_half_of_the_open_texts():
    """The best 5 of 40 after 20 line-ups of eight, and after half and twice as many more as `best_sentence` says."""
    settled = {0.5: [], 2.0: []}
    for seed in range(12):
        scores = dict(enumerate(1.5 * np.random.default_rng([8, seed]).standard_normal(40)))
        asked = load_judge("simulated/soft", scores=scores, noise=1.0, seed=seed)

        def ranked_by(calls, scores=scores, asked=asked, seed=seed):
            how = {"judge": asked, "goal": "top-5", "lineup": 8, "budget": calls, "seed": seed}
            return rank({item: f"text {item}" for item in scores}, "better", **how)

        ranking = ranked_by(20)
        is_open = dict(zip(ranking.to_columns()["item"].tolist(), ranking.to_columns()["p_best"], strict=True))
        is_open = {item for item, chance in is_open.items() if 0.05 < chance < 0.95}
        if not is_open:
            continue
        more = int(re.search(r"about ([\d,]+) more", best_sentence(ranking))[1].replace(",", ""))
        for times in settled:
            columns = ranked_by(20 + round(times * more)).to_columns()
            later = dict(zip(columns["item"].tolist(), columns["p_best"], strict=True))
            settled[times].append(np.mean([not 0.05 < later[item] < 0.95 for item in is_open]))
    assert np.mean(settled[0.5]) < 0.5 < np.mean(settled[2.0]), settled
