"""The solver against dense, naive answers."""

import numpy as np
import pytest
from hypothesis import given

from comparo import Comparisons, fit
from comparo.analysis.correlations import Interpolated
from comparo.model.inference.newton import Problem
from comparo.model.likelihoods import BradleyTerry, Gaussian, StudentT
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.linalg.spectrum import log_det
from inside import LIMITS, Constant, Graph, Limits, Linear, Pattern, Posterior, multiply
from oracle import best_scores, centred_inverse, comparisons_of, incidence, simulate, weights

UNEVEN = Gaussian(Interpolated((0.1, 0.9), (-1.0, 2.0)), Interpolated((0.0, 1.0), (0.5, 2.0)))
# Every way of solving, whatever the size: dense, by conjugate gradients, by a sparse factorisation.
WAYS = {
    "dense": LIMITS,
    "conjugate gradients": Limits(batched=1),
    "factorised": Limits(batched=1, gradient_steps=1),
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@given(comparisons=comparisons_of())
@pytest.mark.parametrize("expert", [BradleyTerry(), Gaussian(), UNEVEN], ids=["bt", "gaussian", "uneven"])
@pytest.mark.parametrize(("prior", "bias"), [("first", "none"), (1.5, "none"), (1.5, "joint")])
def test_scores_are_the_maximum(comparisons, expert, prior, bias):
    scores, gamma = best_scores(comparisons, expert, None if prior == "first" else prior, bias == "joint")
    ridge, rows = 0.0 if prior == "first" else prior**-2, incidence(comparisons)
    for way, limits in WAYS.items():
        product = multiply(comparisons, expert, prior=prior, bias=bias, limits=limits)
        assert product.converged, way
        assert np.allclose(product.scores, scores, atol=2e-4), way
        assert np.allclose(product.bias.ravel(), gamma, atol=2e-4), way
        d = rows @ product.scores - (product.bias.ravel() if bias == "joint" else 0.0)
        gradient = rows.T @ (weights(comparisons) * expert.slope(d, comparisons.p))
        assert np.abs(gradient - ridge * product.scores).max() < 1e-6, way


@each_way
@given(comparisons=comparisons_of())
def test_a_gaussian_product_is_one_step_and_the_closed_form(comparisons, way):
    product, graph = multiply(comparisons, UNEVEN, limits=way), Graph.build(comparisons)
    problem = Problem.of(Pattern(graph, limits=way), UNEVEN, comparisons, np.zeros(graph.nodes))
    assert problem.maximise(np.zeros(graph.nodes)).steps <= 1
    rows = np.vstack([np.eye(len(comparisons.items))[0], incidence(comparisons)])
    precision = np.append(1.0, weights(comparisons) / UNEVEN.variance(comparisons.p))
    mean = np.append(0.0, UNEVEN.mean(comparisons.p))
    curvature = rows.T @ (precision[:, None] * rows)
    closed = np.linalg.solve(curvature, rows.T @ (precision * mean))
    assert np.allclose(product.scores, closed - closed.mean(), atol=1e-9)
    wide = Laplacian(product.laplacian.pattern, product.laplacian.c, np.full(len(curvature), 0.25))
    given_prior = curvature + 0.25 * np.eye(len(curvature)) - np.outer(rows[0], rows[0])
    assert log_det(wide) == pytest.approx(np.linalg.slogdet(given_prior).logabsdet, abs=1e-8)


@given(comparisons=comparisons_of())
@pytest.mark.parametrize("prior", ["first", 2.0])
def test_covariance_is_the_centred_inverse(comparisons, prior):
    product = multiply(comparisons, BradleyTerry(), prior=prior)
    covariance = Posterior((product.laplacian,))
    rows = incidence(comparisons)
    d = rows @ product.scores
    c = weights(comparisons) * product.expert.curvature(d, comparisons.p)
    ridge = 0.0 if prior == "first" else prior**-2
    expected = centred_inverse(rows.T @ (c[:, None] * rows) + ridge * np.eye(rows.shape[1]))
    (batch,) = covariance.pattern.batches
    assert np.allclose(covariance.block(batch)[0], expected, rtol=1e-6, atol=1e-9)
    assert np.allclose(covariance.std**2, np.diag(expected), rtol=1e-6, atol=1e-9)
    variance = expected[0, 0] + expected[1, 1] - 2 * expected[0, 1]
    assert covariance.difference(0, 1) == pytest.approx(variance, rel=1e-6)


def test_many_comparisons_of_few_items_are_pooled_exactly():
    rng = np.random.default_rng(1)
    comparisons, _ = simulate(rng, 20, 2000)
    for expert in (BradleyTerry(), Gaussian()):
        product = multiply(comparisons, expert)
        assert len(product.laplacian.c) < len(comparisons)
        scores, _ = best_scores(comparisons, expert)
        assert np.allclose(product.scores, scores, atol=1e-5)
    tilted = Gaussian(Linear(1.0, 0.3), Constant(1.0))
    assert np.allclose(multiply(comparisons, tilted).scores, best_scores(comparisons, tilted)[0], atol=1e-6)


def test_a_tree_says_nothing_about_its_own_scatter():
    star = Comparisons.from_columns(
        np.zeros(500, int), np.arange(1, 501), np.random.default_rng(8).uniform(0.1, 0.9, 500)
    )
    assert fit(star, "poe-bt").solution.dispersion == 1.0


def test_certain_answers_have_finite_scores():
    rows = [("a", "b", 1.0), ("b", "c", 1.0), ("c", "d", 1.0), ("a", "d", 1.0)]
    for prior in ("first", 10.0):
        product = multiply(Comparisons.from_rows(rows), BradleyTerry(), prior=prior)
        assert product.converged
        assert np.isfinite(product.scores).all()
        assert np.all(np.diff(product.scores) < 0)


def test_a_step_too_far_is_taken_back():
    comparisons = Comparisons.from_rows([("a", "b", 0.9), ("b", "c", 0.2), ("a", "c", 0.6)])
    problem = Problem.of(Pattern(Graph.build(comparisons)), BradleyTerry(), comparisons, np.zeros(3))
    far = problem.maximise(np.array([30.0, 0.0, -30.0]))
    assert far.converged
    assert np.allclose(far.x, problem.maximise(np.zeros(3)).x, atol=1e-6)


def test_student_t_forgives_a_wild_answer():
    rng = np.random.default_rng(3)
    comparisons, truth = simulate(rng, 8, 150, noise=0.1)
    p = comparisons.p.copy()
    wild = rng.choice(len(p), 15, replace=False)
    p[wild] = 1 - p[wild].round()
    spoilt = Comparisons.from_columns(comparisons.first, comparisons.second, p)
    robust = fit(spoilt, method=StudentT(freedom=2.0, scale=0.2))
    plain = fit(spoilt, "poe-bt")
    true = truth[0] - truth[0].mean()
    assert robust.solution.converged
    assert np.abs(robust.scores - true).max() < 0.5 * np.abs(plain.scores - true).max()
    assert np.all(robust.std > 0)


def test_an_expert_without_finite_derivatives_is_named_with_the_comparison():
    class Broken:
        def log_density(self, d, p):
            return d

        def slope(self, d, p):
            return np.where(p > 0.8, np.nan, 1.0)

        def curvature(self, d, p):
            return np.ones_like(d)

    with pytest.raises(FloatingPointError, match="comparison 2"):
        fit([("a", "b", 0.5), ("b", "c", 0.9)], method=Broken())


def test_a_problem_that_does_not_settle_says_so(caplog):
    with pytest.warns(UserWarning, match="did not settle"):
        ranking = fit([("a", "b", 1.0), ("b", "c", 1.0)], "poe-bt", limits=Limits(newton_steps=1))
    assert not ranking.solution.converged
    assert "did not settle" in caplog.text


def with_limits(laplacian, limits):
    """The same curvature, for other ways of computing with it."""
    pattern = Pattern(laplacian.pattern.graph, limits=limits)
    assert np.array_equal(pattern.order, laplacian.pattern.order)
    return Laplacian(pattern, laplacian.c, laplacian.ridge)


def test_large_contexts_give_the_same_scores_and_nearly_the_same_errors():
    comparisons, _ = simulate(np.random.default_rng(4), 600, 6000)
    small = multiply(comparisons, BradleyTerry(), prior=10.0)
    many = multiply(comparisons, BradleyTerry(), prior=10.0, limits=Limits(exact=100, panel=64))
    assert many.laplacian.pattern.panelled
    assert not small.laplacian.pattern.panelled
    assert np.allclose(many.scores, small.scores, atol=1e-7)
    ratio = Posterior((many.laplacian,)).std / Posterior((small.laplacian,)).std
    assert np.abs(ratio - 1).max() < 0.03
    assert np.sqrt(np.mean((ratio - 1) ** 2)) < 0.01
    assert log_det(many.laplacian) == pytest.approx(log_det(small.laplacian), rel=3e-3)


def test_the_estimates_for_large_contexts_hold_without_a_prior_on_a_thin_graph():
    rng = np.random.default_rng(5)
    chain = np.arange(399)
    comparisons = Comparisons.from_columns(chain, chain + 1, rng.uniform(0.3, 0.7, 399))
    small = multiply(comparisons, BradleyTerry())
    std = Posterior((small.laplacian,)).std
    many = multiply(comparisons, BradleyTerry(), limits=Limits(exact=100))
    assert np.allclose(many.scores, small.scores, atol=1e-6)
    ratio = Posterior((with_limits(small.laplacian, Limits(exact=100)),)).std / std
    assert np.sqrt(np.mean((ratio - 1) ** 2)) < 2 * 0.09


def test_a_weak_bridge_between_clusters_is_crossed():
    """One light comparison decides the difference of two clusters: their gradient hardly shows it."""
    rng = np.random.default_rng(6)
    cluster = [simulate(rng, 200, 4000, spread=0.3)[0] for _ in range(2)]
    first = np.concatenate([cluster[0].first, cluster[1].first + 200, [0]])
    second = np.concatenate([cluster[0].second, cluster[1].second + 200, [200]])
    p = np.concatenate([cluster[0].p, cluster[1].p, [0.9]])
    for weight in (1.0, 1e-3, 1e-6):
        comparisons = Comparisons.from_columns(first, second, p, np.append(np.ones(8000), weight))
        scores = multiply(comparisons, BradleyTerry()).scores
        assert scores[0] - scores[200] == pytest.approx(np.log(9), abs=1e-4)


def test_standard_errors_of_clusters_are_estimated_across_their_bridge():
    rng = np.random.default_rng(7)
    cluster = [simulate(rng, 300, 6000)[0] for _ in range(2)]
    first = np.concatenate([cluster[0].first, cluster[1].first + 300, [0]])
    second = np.concatenate([cluster[0].second, cluster[1].second + 300, [300]])
    comparisons = Comparisons.from_columns(first, second, np.append(np.concatenate([c.p for c in cluster]), 0.6))
    product = multiply(comparisons, BradleyTerry())
    exact = Posterior((product.laplacian,)).std
    ratio = Posterior((with_limits(product.laplacian, Limits(exact=100)),)).std / exact
    assert np.abs(ratio - 1).max() < 0.25  # one draw in common: the bridge
    assert exact.min() > 1
