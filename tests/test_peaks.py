"""Scores with two peaks: choices about two families of texts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, log_expit

from comparo import Comparisons, fit
from comparo.model.estimators.mixture import split
from comparo.model.inference.random_effects import differences, solve
from comparo.model.likelihoods.bradley_terry import choice_evidence
from inside import LIMITS, BradleyTerry, Choices, Design, Graph, Limits, Shared, Spectrum, mixed

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def decided(rng, truth, calls):
    """Decisions about random pairs of each context, so many per item, for true scores (contexts, n)."""
    truth = np.atleast_2d(truth)
    n = truth.shape[1]
    context = np.repeat(np.arange(len(truth)), n * calls)
    first = np.tile(np.arange(n), calls * len(truth))
    second = (first + rng.integers(1, n, len(first))) % n
    p = (rng.random(len(first)) < expit(truth[context, first] - truth[context, second])).astype(float)
    return Comparisons.from_columns(first, second, p, context=context if len(truth) > 1 else None)


def families(rng, n, within, gap=6.0):
    return gap * (np.arange(n) % 2 - 0.5) + within * rng.standard_normal(n)


def covered(ranking, truth):
    true = truth[ranking.items.astype(int)]
    true = true - true.mean()
    return float(np.mean((ranking.low < true) & (true < ranking.high)))


def test_choices_about_two_families_leave_the_gap_open_and_do_not_draw_them_together():
    shares, gaps = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = families(rng, 40, 0.3)
        ranking = fit(decided(rng, truth, 10), prior="estimated")
        assert ranking.solution.converged
        assert ranking.solution.effects.gap is not None
        shares.append(covered(ranking, truth))
        gaps.append(ranking.solution.effects.gap)
    assert np.mean(shares) > 0.9
    assert 5.0 < np.mean(gaps) < 8.5


def test_orders_about_two_families_show_them():
    rng, rows = np.random.default_rng(1), []
    truth = families(rng, 40, 0.3)
    for _ in range(150):
        shown = rng.permutation(40)[:4]
        order = np.argsort(-(truth[shown] + rng.gumbel(size=4)), kind="stable")
        rows.append({"items": shown.tolist(), "order": ">".join("ABCD"[slot] for slot in order)})
    ranking = fit(rows, prior="estimated")
    assert ranking.solution.effects.gap == pytest.approx(6.0, abs=1.5)
    assert covered(ranking, truth) > 0.9


def test_two_families_in_each_of_many_contexts_are_found_though_their_shares_differ():
    rng = np.random.default_rng(0)
    high = rng.random((60, 6)) < 0.5
    truth = 6.0 * high + 0.2 * rng.standard_normal(high.shape)
    ranking = fit(decided(rng, truth, 5), prior="estimated")
    assert ranking.solution.effects.gap == pytest.approx(6.0, abs=1.5)
    true = truth[ranking.context.astype(int), ranking.items.astype(int)]
    true = true - truth.mean(axis=1)[ranking.context.astype(int)]
    assert np.mean((ranking.low < true) & (true < ranking.high)) > 0.85


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0, 6.0])
def test_normal_scores_have_one_peak(spread):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        assert fit(decided(rng, spread * rng.standard_normal(40), 6), prior="estimated").solution.effects.gap is None


def test_uniform_scores_and_soft_answers_have_one_peak():
    rng = np.random.default_rng(0)
    assert fit(decided(rng, rng.uniform(-5, 5, 100), 6), prior="estimated").solution.effects.gap is None
    truth = families(rng, 40, 0.3)
    first, second = np.arange(40).repeat(4), (np.arange(40).repeat(4) + np.tile([1, 2, 3, 5], 40)) % 40
    p = expit(truth[first] - truth[second] + 0.5 * rng.standard_normal(160))
    assert fit(Comparisons.from_columns(first, second, p), prior="estimated").solution.effects.gap is None


def test_two_peaks_are_found_above_the_size_of_exact_decompositions():
    rng = np.random.default_rng(1)
    data = decided(rng, families(rng, 80, 0.3), 8)
    exact, large = (mixed(data, BradleyTerry(), limits=limits) for limits in (Limits(), Limits(spectral=10)))
    assert large.effects.gap == pytest.approx(exact.effects.gap, abs=0.3)


def test_the_split_of_each_context_has_the_least_squares():
    rng = np.random.default_rng(2)
    data = decided(rng, np.zeros((8, 5)), 3)
    graph = Graph.build(data)
    scores = graph.centre(np.where(rng.random(40) < 0.4, 3.0, 0.0) + 0.8 * rng.standard_normal(40))
    high, gap, within = split(graph, scores)
    for begin, end in zip(graph.starts[:-1], graph.starts[1:], strict=True):
        own = scores[begin:end]

        def squares(z, own=own):
            left = own - gap * z
            return np.sum((left - left.mean()) ** 2)

        every = [np.array(list(np.binary_repr(code, len(own))), dtype=float) for code in range(2 ** len(own))]
        assert squares(high[begin:end].astype(float)) == pytest.approx(min(map(squares, every)))
    assert within == pytest.approx(np.sum((scores - gap * graph.centre(high.astype(float))) ** 2) / np.sum(scores**2))


@pytest.mark.parametrize(("mean", "variance", "p"), [(0.3, 1.0, 0.8), (-4.0, 9.0, 1.0), (5.0, 0.01, 0.0)])
def test_the_evidence_of_choices_is_their_integral(mean, variance, p):
    def density(d):
        said = 5 * (p * d + log_expit(-d))
        return np.exp(said - 0.5 * (d - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)

    centre, reach = mean, 12 * np.sqrt(variance)
    expected = np.log(quad(density, centre - reach, centre + reach, points=[centre], limit=200)[0])
    found = choice_evidence(*(np.array([part]) for part in (mean, variance, p, 5.0)))[0]
    assert found == pytest.approx(expected, abs=2e-3)


def at_variances(state, variances, shared):
    """The sites settled at fixed variances, with the mean and variance of each difference, and the evidence."""
    for _ in range(60):
        parts = solve(state.system, variances, shared)
        state, _ = state.learn(parts[0], *differences(*parts))
    apart = differences(*solve(state.system, variances, shared))
    variances = replace(variances, spectrum=Spectrum.of(state.system, shared.columns))
    return state, apart[0], state.log_evidence(variances, shared)


def test_the_evidence_of_one_pair_is_exact():
    data = Comparisons.from_columns([0, 0, 0, 1], [1, 1, 1, 0], [1.0, 1.0, 1.0, 1.0])
    graph = Graph.build(data)
    shared = Shared.of(graph, Design(), 10)
    model, variances, _ = Choices.of(data, graph, False, LIMITS).settle(shared)
    _, _, found = at_variances(model, variances, shared)
    spread = 2 * variances.ratio

    def density(d):
        return np.exp(3 * log_expit(d) + log_expit(-d) - d**2 / (2 * spread)) / np.sqrt(2 * np.pi * spread)

    assert found == pytest.approx(np.log(quad(density, -60, 60, points=[0, 1])[0]), abs=1e-3)


def test_the_derivative_of_the_evidence_is_that_of_differences():
    rng = np.random.default_rng(3)
    data = decided(rng, families(rng, 20, 0.5, gap=2.0), 6)
    graph = Graph.build(data)
    shared = Shared.of(graph, Design(features=graph.item[:, None] % 3 - 1.0), 100)
    model, variances, _ = Choices.of(data, graph, False, LIMITS).settle(shared)
    side = rng.standard_normal(len(model.c))

    def heights(gap):
        return at_variances(replace(model, offset=gap * side), variances, shared)

    state, mean, _ = heights(0.5)
    expected = (heights(0.501)[2] - heights(0.499)[2]) / 0.002
    assert side @ state.gradient(mean) == pytest.approx(expected, rel=2e-3)
