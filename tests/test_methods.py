"""The six methods against naive versions, other libraries and the paper's identities."""

import itertools

import choix
import numpy as np
import pytest
from hypothesis import given
from scipy.special import expit

from comparo import Comparisons, ComparisonsError, fit
from comparo.errors import OptionError
from comparo.model.likelihoods import BradleyTerry, Gaussian, StudentT
from comparo.types import as_generator
from inside import METHODS, Limits, multiply, nodes_of, quiet_fit
from oracle import comparisons_of, design_log_det, incidence, simulate, weights

each_method = pytest.mark.parametrize("method", METHODS)


def everything(rng, items):
    """Every ordered pair of `items`, answered by a noisy and biased judge."""
    first, second = np.array(list(itertools.permutations(range(items), 2))).T
    return Comparisons.from_columns(first, second, rng.uniform(0.05, 0.95, len(first)))


def naive_mean(comparisons, hard):
    """An item's weighted mean outcome, one comparison after another."""
    won, played = np.zeros((2, len(comparisons.items)))
    for i, j, p, weight in zip(comparisons.first, comparisons.second, comparisons.p, weights(comparisons), strict=True):
        outcome = (p > 0.5) + 0.5 * (p == 0.5) if hard else p
        won[i] += weight * outcome
        won[j] += weight * (1 - outcome)
        played[i] += weight
        played[j] += weight
    return won / played


def naive_zermelo(comparisons, prior_pairs, iterations=20_000):
    """Zermelo's algorithm with the prior's wins, by loops over a matrix of wins."""
    n = len(comparisons.items)
    wins = np.zeros((n, n))
    for i, j, p, weight in zip(comparisons.first, comparisons.second, comparisons.p, weights(comparisons), strict=True):
        wins[i, j] += weight * ((p > 0.5) + 0.5 * (p == 0.5))
        wins[j, i] += weight * ((p < 0.5) + 0.5 * (p == 0.5))
        if prior_pairs == "compared":
            wins[i, j] += 1 / (n - 1)
            wins[j, i] += 1 / (n - 1)
    strength = np.ones(n)
    for _ in range(iterations):
        updated = strength.copy()
        for i in range(n):
            shared = sum((wins[i, j] + wins[j, i]) / (strength[i] + strength[j]) for j in range(n) if j != i)
            updated[i] = wins[i].sum() / shared
        updated /= np.exp(np.log(updated).mean())
        if np.abs(np.log(updated / strength)).max() < 1e-10:
            break
        strength = updated
    return np.log(updated)


@given(comparisons=comparisons_of())
@pytest.mark.parametrize(("method", "hard"), [("win-ratio", True), ("avg-prob", False)])
def test_means(comparisons, method, hard):
    assert np.allclose(fit(comparisons, method=method).scores, naive_mean(comparisons, hard))


@pytest.mark.parametrize("seed", range(3))
def test_bradley_terry_with_prior_wins_is_zermelos(seed):
    comparisons, _ = simulate(np.random.default_rng(seed), 6, 15)
    ranking = fit(comparisons, method="bt", prior_pairs="compared")
    assert np.allclose(ranking.scores, naive_zermelo(comparisons, "compared"), atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_bradley_terry_is_maximum_likelihood(seed):
    comparisons, _ = simulate(np.random.default_rng(seed), 6, 200, spread=0.5, noise=2.0)
    comparisons = Comparisons.from_columns(**comparisons.to_columns(), weight=np.arange(200) % 3)
    assert np.allclose(quiet_fit(comparisons, "bt").scores, naive_zermelo(comparisons, "none"), atol=1e-6)


def test_odds_of_three_are_log_3():
    ranking = fit([("x", "y", 1.0)] * 150 + [("y", "x", 1.0)] * 50, "bt")
    assert ranking.scores[0] - ranking.scores[1] == pytest.approx(np.log(3), abs=1e-6)
    assert 2 * ranking.std[0] == pytest.approx(np.sqrt(1 / 150 + 1 / 50), rel=1e-6)  # the error of a log odds


def test_only_components_without_a_maximum_have_a_prior():
    """a and b each won once, which alone determines them; x won all, and has the prior of "poe-bt" on decisions."""
    rows = [("a", "b", 1.0)] * 3 + [("b", "a", 1.0)]
    ranking = quiet_fit([*rows, ("x", "y", 1.0), ("y", "z", 1.0)], "bt")
    assert ranking.scores[0] - ranking.scores[1] == pytest.approx(np.log(3), abs=1e-6)
    assert np.allclose(ranking.scores[2:], fit([("x", "y", 1.0), ("y", "z", 1.0)], "poe-bt").scores)
    assert ranking.solution.converged


@pytest.mark.parametrize("battles", [400, 4000])
def test_intervals_of_bradley_terry_cover(battles):
    truth, runs = np.array([1.0, 0.5, 0.0, -0.5, -1.0]), 60
    rng = np.random.default_rng(battles)
    covered = np.empty((runs, 5))
    for run in range(runs):
        first = rng.integers(0, 5, battles)
        second = (first + rng.integers(1, 5, battles)) % 5
        won = rng.random(battles) < expit(truth[first] - truth[second])
        ranking = fit(Comparisons.from_columns(first, second, won.astype(float)), "bt")
        covered[run] = np.abs(ranking.scores - truth) <= 1.96 * ranking.std
    tolerance = 3 * np.sqrt(0.95 * 0.05 / (4 * runs))  # five scores that sum to 0
    assert np.mean(covered) == pytest.approx(0.95, abs=tolerance)


def test_steps_that_do_not_settle_are_said():
    with pytest.warns(UserWarning, match="did not settle"):
        fit([("a", "b", 1.0), ("b", "c", 1.0)], "bt", prior_pairs="compared", limits=Limits(newton_steps=1))


@pytest.mark.parametrize("seed", range(4))
def test_hard_decisions_agree_with_choix(seed):
    comparisons, _ = simulate(np.random.default_rng(seed), 12, 60)
    decisions = comparisons.decisions()
    games = [(i, j) if p else (j, i) for i, j, p in zip(decisions.first, decisions.second, decisions.p, strict=True)]
    penalty = 0.05
    theirs = choix.opt_pairwise(12, games, alpha=penalty, tol=1e-10)
    ours = multiply(decisions, BradleyTerry(), prior=(2 * penalty) ** -0.5).scores
    assert np.allclose(ours, theirs - theirs.mean(), atol=1e-6)


@pytest.mark.parametrize("items", [2, 4, 9])
def test_with_all_comparisons_the_gaussian_product_is_a_shift_of_the_average_probability(items):
    comparisons = everything(np.random.default_rng(items), items)
    for product, mean in (("poe-g", "avg-prob"), ("poe-g-hard", "win-ratio")):
        scores, average = fit(comparisons, method=product).scores, fit(comparisons, method=mean).scores
        # both orders: N(N − 1) comparisons, each item in 2(N − 1), and (W̃ᵀW̃)⁻¹ is 1/2N on sums of outcomes
        assert np.allclose(scores, (average - average.mean()) * 2 * (items - 1) / items / 2, atol=1e-9)


def test_the_inverse_for_four_items():
    """The paper's (W̃ᵀW̃)⁻¹ = (N+1)/N·11ᵀ + 1/N·M, centred, is the covariance of the scores."""
    rows = [(i, j, 0.5) for i, j in itertools.combinations(range(4), 2)]
    anchored = np.vstack([[1, 0, 0, 0], incidence(Comparisons.from_rows(rows))])
    inverse = np.linalg.inv(anchored.T @ anchored)
    assert np.allclose(inverse[0], 1)
    assert np.allclose(np.diag(inverse)[1:], 1.5)
    assert np.allclose(inverse[1:, 1:][~np.eye(3, dtype=bool)], 1.25)
    split = np.diag([-1.0, 1.0, 1.0, 1.0])
    split[0, 1:] = split[1:, 0] = -1.0
    assert np.allclose(inverse, 5 / 4 + split / 4)
    centring = np.eye(4) - 1 / 4
    product = multiply(Comparisons.from_rows(rows), Gaussian())
    (batch,) = product.laplacian.pattern.batches
    assert np.allclose(product.laplacian.block(batch)[0], centring @ inverse @ centring)


@given(comparisons=comparisons_of(weighted=False))
def test_determinant_and_inverse_follow_an_added_comparison(comparisons):
    n = len(comparisons.items)
    anchored = np.vstack([np.eye(n)[0], incidence(comparisons)])
    inverse = np.linalg.inv(anchored.T @ anchored)
    row = np.eye(n)[0] - np.eye(n)[-1]
    more = Comparisons.from_columns(
        np.append(comparisons.first, 0), np.append(comparisons.second, n - 1), np.append(comparisons.p, 0.5)
    )
    gain = row @ inverse @ row
    assert design_log_det(more) - design_log_det(comparisons) == pytest.approx(np.log1p(gain), abs=1e-8)
    updated = inverse - np.outer(inverse @ row, inverse @ row) / (1 + gain)
    centring = np.eye(n) - 1 / n
    product = multiply(more, Gaussian())
    (batch,) = product.laplacian.pattern.batches
    assert np.allclose(product.laplacian.block(batch)[0], centring @ updated @ centring)


@each_method
def test_weights_are_repetitions(method):
    comparisons, _ = simulate(np.random.default_rng(7), 6, 20)
    weight = np.arange(20) % 3 + 1.0
    rows = np.repeat(np.arange(20), weight.astype(int))
    columns = [column[rows] for column in (comparisons.first, comparisons.second, comparisons.p)]
    weighted = Comparisons.from_columns(comparisons.first, comparisons.second, comparisons.p, weight)
    assert np.allclose(
        fit(weighted, method=method).scores, fit(Comparisons.from_columns(*columns), method=method).scores
    )


KINDS = {
    "rounded": lambda p: np.round(p, 1),
    "soft": lambda p: p,
    "ties": lambda p: np.round(2 * p) / 2,
    "won": np.round,
}


def asked(kind):
    """Sixty weighted answers of two judges in two contexts, some of them 0 or 1 unless they are soft."""
    rng = np.random.default_rng(9)
    truth, rows = 2.0 * rng.standard_normal(8), []
    for k in range(60):
        i, j = rng.permutation(8)[:2]
        p = KINDS[kind](expit(truth[i] - truth[j] + 0.5 + 0.7 * rng.standard_normal()))
        rows.append((f"t{i}", f"t{j}", p, [1.0, 0.5, 2.5][k % 3], f"c{k % 2}", f"j{k // 30}"))
    return rows, rng.random(60) < 0.5


def fitted(rows, method, **options):
    names = ("first", "second", "p", "weight", "context", "judge")
    ranking = quiet_fit([dict(zip(names, row, strict=True)) for row in rows], method, **options)
    found = np.column_stack([ranking.scores, ranking.std])
    return found[np.lexsort((ranking.items.astype(str), ranking.context.astype(str)))], ranking.solution.bias


@each_method
@pytest.mark.parametrize("kind", KINDS)
def test_the_order_in_which_two_texts_stand_in_a_row_changes_no_score(method, kind):
    """All rows turned: γ changes its sign. Any rows turned, without γ: the same answers."""
    rows, some = asked(kind)
    has_bias = method not in ("win-ratio", "avg-prob", "bt")
    for bias, turned in (("none", some), ("joint", np.ones(60, dtype=bool))):
        options = {"bias": bias} if has_bias else {}
        other = [
            (b, a, 1.0 - p, *rest) if turn else (a, b, p, *rest)
            for (a, b, p, *rest), turn in zip(rows, turned, strict=True)
        ]
        (one, gamma), (two, minus) = (fitted(each, method, **options) for each in (rows, other))
        np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-6)
        if has_bias and bias == "joint":
            np.testing.assert_allclose(minus, -gamma, rtol=1e-6, atol=1e-6)


@each_method
@pytest.mark.parametrize("kind", ["ties", "won"])
def test_what_is_within_rounding_of_a_decision_is_that_decision(method, kind):
    rows, some = asked(kind)
    near = [
        (a, b, abs(p - (1e-13 if turn or p == 1 else -1e-13)), *rest)
        for (a, b, p, *rest), turn in zip(rows, some, strict=True)
    ]
    np.testing.assert_array_equal(fitted(near, method)[0], fitted(rows, method)[0])


@each_method
@pytest.mark.parametrize("kind", ["soft", "rounded"])
def test_only_the_ratios_of_weights_below_1_matter_where_the_noise_is_estimated(method, kind):
    """In "bt" and "davidson" a weight is a number of decisions."""
    rows, _ = asked(kind)
    each = [
        fitted([(a, b, p, weight * scale, *rest) for a, b, p, weight, *rest in rows], method)[0]
        for scale in (0.75, 0.01, 1 / 78, 1.0, 137.3)  # 0.75: their mean is 1; 1/78: their sum
    ]
    if method not in ("bt", "davidson"):
        for less in each[1:3]:
            np.testing.assert_allclose(less, each[0], rtol=1e-6, atol=1e-6)
        for more in each[3:] if kind == "soft" else ():  # a text that always wins has the prior's width
            np.testing.assert_allclose(more[:, 1], each[0][:, 1], rtol=0.2)


@each_method
def test_no_weight_at_all_is_an_error(method):
    with pytest.raises(ComparisonsError, match="weight"):
        fit([("a", "b", 0.8, 0.0), ("b", "c", 0.7, 0.0)], method)


@each_method
def test_a_comparison_of_no_weight_changes_nothing(method):
    rows = [("a", "b", 0.8, 1.0), ("b", "c", 0.7, 2.0)]
    assert np.allclose(
        fit([*rows, ("c", "a", 0.9, 0.0)], method=method).scores, fit(rows, method=method).scores, atol=1e-3
    )


@each_method
def test_ties_are_fair(method):
    ranking = fit([("a", "b", 0.5), ("b", "c", 0.5), ("a", "c", 0.5)], method=method)
    assert np.allclose(ranking.scores, ranking.scores[0])
    assert ranking.rank.tolist() == [1, 1, 1]
    assert ranking.tier.tolist() == [1, 1, 1]
    assert ranking.probability("a", "c") == pytest.approx(0.5)


@pytest.mark.parametrize(
    "method", [name for name in METHODS if name not in ("mixed", "panel")]
)  # these share variances
def test_contexts_are_fitted_one_by_one_and_together_alike(method):
    rng = np.random.default_rng(8)
    sizes, rows = [3, 70, 4, 3, 9], []
    for context, size in enumerate(sizes):
        chain = [(i, i + 1) for i in range(size - 1)]
        pairs = chain + [tuple(rng.choice(size, 2, replace=False)) for _ in range(4 * size)]
        rows += [
            {"context": f"c{context}", "first": f"x{i}", "second": f"x{j}", "p": rng.uniform(0.1, 0.9)}
            for i, j in pairs
        ]
    rng.shuffle(rows)
    together = fit(rows, method=method)
    for context, size in enumerate(sizes):
        label = f"c{context}"
        alone = fit([row | {"context": "only"} for row in rows if row["context"] == label], method=method)
        nodes = nodes_of(together, label)
        assert nodes.stop - nodes.start == size
        mine = dict(zip(together.items[nodes], together.scores[nodes], strict=True))
        theirs = dict(zip(alone.items, alone.scores, strict=True))
        assert mine == pytest.approx(theirs, abs=1e-7)
    assert together.graph.contexts == len(sizes)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("method", name) for name in ("elo", "bt-sigma")),
        *(("prior", each) for each in (True, 1e-200, -1.0, "last")),
        ("bias", "both"),
        ("level", 95),
        ("prior_pairs", "all"),
    ],
)
def test_a_value_that_an_option_cannot_have(option, value):
    with pytest.raises(OptionError) as refused:
        fit([("a", "b", 0.8)], **{option: value})
    assert (refused.value.option, refused.value.value) == (option, value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": 3}, "method .*name .*expert .*, not 3"),
        ({"method": StudentT}, r"method .*name .*expert .*StudentT\(\), not"),
        ({"method": "bt", "bias": "joint"}, "'bt' .*bias.* method='poe-bt'"),
        ({"method": "avg-prob", "prior": 1.0}, "'avg-prob' takes no prior"),
        ({"prior_pairs": "compared"}, "belongs to method='bt'"),
    ],
)
def test_arguments_that_make_no_sense(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fit([("a", "b", 0.8)], **arguments)


def test_no_bias_may_be_written_as_none():
    rows = [("a", "b", 0.8), ("b", "c", 0.7)]
    for method in METHODS:
        if method in ("mixed", "panel"):  # their bias is estimated unless it is turned off
            assert "bias" in fit(rows, method).tables
            assert "bias" not in fit(rows, method, bias="none").tables
            continue
        assert fit(rows, method, bias=None).scores.tolist() == fit(rows, method, bias="none").scores.tolist()


def test_a_generator_is_made_from_a_seed_a_generator_or_none():
    generator = np.random.default_rng(3)
    assert as_generator(generator) is generator
    assert as_generator(np.int64(3)).random() == as_generator(3).random() == np.random.default_rng(3).random()
    assert as_generator(None).random() != as_generator(None).random()
    for wrong in ("3", 3.0, True):
        with pytest.raises(TypeError, match=r"seed .*whole number"):
            as_generator(wrong)
