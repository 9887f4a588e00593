"""What reaches the scores of position effects and noise, against dense matrices and simulated judges."""

import numpy as np
import pytest
from scipy.special import expit

from comparo import Comparisons, fit
from comparo.model.inference.position import leaked_share
from inside import Graph, Limits, Pattern, System


def in_one_order(rng, contexts, n, scores=1.0, noise=0.5, effects=0.7):
    """All pairs of each context, each in one order, every text as often first as second up to one; y (M,)."""
    rows = [(c, *((i, j) if (i + j) % 2 else (j, i))) for c in range(contexts) for i in range(n) for j in range(i)]
    context, first, second = np.array(rows).T
    s, e = scores * rng.standard_normal((contexts, n)), effects * rng.standard_normal((contexts, n))
    y = s[context, first] - s[context, second] - e[context, first] - e[context, second] - 0.4
    y += noise * rng.standard_normal(len(y))
    data = Comparisons.from_columns(first, second, expit(y), None, context)
    return data, y, s


def system_of(data, y, weight, limits):
    graph = Graph.build(data)
    pattern = Pattern(graph, np.zeros(len(y), dtype=np.int32), limits)
    c = weight[pattern.order]
    return System(pattern, c, c * y[pattern.order], np.full(graph.contexts, 1e-9), np.zeros(graph.contexts))


def dense_reach(system):
    """The same by the matrices X, |B| and their projections."""
    pattern, n, c = system.pattern, system.nodes, system.c
    rows = np.arange(len(c))
    x, both = np.zeros((len(c), pattern.unknowns)), np.zeros((len(c), n))
    x[rows, pattern.first], x[rows, pattern.second], x[rows, pattern.bias_index] = 1.0, -1.0, -1.0
    both[rows, pattern.first] = both[rows, pattern.second] = 1.0
    root = np.sqrt(c)[:, None]
    x, both, y = root * x, root * both, root[:, 0] * system.pull / c
    whole, biases = (part @ np.linalg.pinv(part) for part in (x, x[:, n:]))
    left = np.eye(len(c)) - whole
    free, t = np.linalg.matrix_rank(left, tol=1e-6), both.T @ left @ both
    moments = [y @ left @ y, np.sum((both.T @ left @ y) ** 2)]
    noise, variance = np.linalg.solve([[free, np.trace(t)], [np.trace(t), np.sum(t**2)]], moments)
    reached = np.trace(both.T @ (whole - biases) @ both) / (np.linalg.matrix_rank(x) - x[:, n:].shape[1])
    return (noise + variance * reached) / (moments[0] / free)


@pytest.mark.parametrize(("contexts", "n"), [(1, 12), (3, 7)])
def test_the_share_that_reaches_scores_is_that_of_dense_matrices(contexts, n):
    rng = np.random.default_rng(n)
    data, y, _ = in_one_order(rng, contexts, n)
    system = system_of(data, y, rng.uniform(0.5, 2.0, len(y)), Limits())
    found = leaked_share(system, np.ones(len(y), dtype=bool))
    assert found < 0.9
    np.testing.assert_allclose(found, dense_reach(system), rtol=1e-6)


def test_random_signs_find_the_share_in_large_contexts():
    """Five random round trips through 200 texts, in which each is first and second once."""
    rng = np.random.default_rng(1)
    trips = [rng.permutation(200) for _ in range(5)]
    first, second = np.concatenate(trips), np.concatenate([np.roll(trip, 1) for trip in trips])
    effect = rng.standard_normal(200)
    y = effect[first] + effect[second] + rng.standard_normal(1000)
    data = Comparisons.from_columns(first, second, expit(y))
    exact, drawn = (system_of(data, y, np.ones(1000), limits) for limits in (Limits(batched=300), Limits()))
    every = np.ones(1000, dtype=bool)
    assert leaked_share(exact, every) < 0.8
    np.testing.assert_allclose(leaked_share(drawn, every), leaked_share(exact, every), rtol=0.05)


def test_noise_alone_is_rarely_taken_for_effects_of_texts():
    shares = []
    for seed in range(40):
        data, y, _ = in_one_order(np.random.default_rng(seed), 5, 8, effects=0.0)
        system = system_of(data, y, np.ones(len(y)), Limits())
        shares.append(leaked_share(system, np.ones(len(y), dtype=bool)))
    assert np.mean(np.array(shares) < 1.0) <= 0.15  # 5% are expected; three standard errors above are 15%


def test_effects_of_texts_asked_in_one_order_do_not_hide_how_scores_vary():
    """Counted as noise they would: the spread of 0.2 was found as 0.1 to 0.15, and intervals covered 70 to 88%."""
    spreads, covered = [], []
    for seed in range(4):
        data, _, scores = in_one_order(np.random.default_rng(seed), 100, 6, scores=0.2, noise=0.3, effects=0.5)
        ranking = fit(data, "mixed")
        truth = (scores - scores.mean(axis=1, keepdims=True))[ranking.context, ranking.items]
        spreads.append(np.sqrt(ranking.solution.effects.scores))
        covered.append(np.mean((ranking.low <= truth) & (truth <= ranking.high)))
    assert 0.18 < np.mean(spreads) < 0.24
    assert 0.93 < np.mean(covered) < 0.97


@pytest.mark.parametrize(("effects", "low", "high"), [(0.0, 0.24, 0.36), (1.0, 0.0, 0.8)])
def test_the_sums_of_both_orders_tell_the_noise_unless_texts_have_effects(effects, low, high):
    """A cycle of 16 pairs leaves one degree of freedom; the sums have 15. With effects they vary by 1.4 and more."""
    noises = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        s, e = 2.0 * rng.standard_normal(16), effects * rng.standard_normal(16)
        first = np.concatenate([np.arange(16), (np.arange(16) + 1) % 16])
        second = np.concatenate([first[16:], first[:16]])
        y = s[first] - s[second] - e[first] - e[second] + 0.3 * rng.standard_normal(32)
        noises.append(np.sqrt(fit(Comparisons.from_columns(first, second, expit(y)), "mixed").solution.effects.noise))
    assert low < np.median(noises) < high


def test_a_file_with_p_and_its_opposite_is_not_asked_twice():
    rng = np.random.default_rng(0)
    first = np.concatenate([np.arange(16), np.arange(16)])
    second = np.concatenate([(first[:16] + 1) % 16, (first[:16] + 2) % 16])
    p = expit(rng.standard_normal(16)[first] - rng.standard_normal(16)[second])
    once = fit(Comparisons.from_columns(first, second, p, np.full(32, 2.0)), "mixed", bias="none")
    ends = np.concatenate([first, second]), np.concatenate([second, first])
    twice = fit(Comparisons.from_columns(*ends, np.concatenate([p, 1.0 - p])), "mixed")
    np.testing.assert_allclose(twice.std, once.std, rtol=1e-3)
