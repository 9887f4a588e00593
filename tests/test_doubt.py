"""Doubt about what style expects of extreme texts: uneven priors against dense matrices, and coverage by simulation."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from benchmarks.simulation import Cell
from benchmarks.soundness import run_cell
from comparo import Comparisons
from comparo.model.inference.choices import style_inflation
from comparo.model.inference.random_effects import solve
from comparo.model.inference.reml import Variances
from comparo.model.linalg.spectrum import log_det
from comparo.model.posterior import difference_variances
from inside import BradleyTerry, Design, Graph, Limits, Pattern, Posterior, Shared, Spectrum, System, mixed

A = 1.7  # σ²
RATIO = 0.8  # ω²
SMALL, LARGE = Limits(), Limits(batched=4, spectral=4)  # all dense, and by iterations


def uneven(limits, n=30, rows=150):
    """A system of two components with a doubt, its design (K, n), precisions, pulls, and columns (n, 2)."""
    rng = np.random.default_rng(3)
    first, second = rng.integers(n, size=(2, rows))
    apart = (first != second) & ((first < n // 3) == (second < n // 3))
    pairs = np.unique(np.sort([first[apart], second[apart]], axis=0), axis=1)
    data = Comparisons(np.arange(n), *pairs.astype(np.int32), np.full(len(pairs[0]), 0.5))
    graph = Graph.build(data)
    pattern = Pattern(graph, limits=limits)
    c, y = rng.uniform(0.2, 2.0, len(data)), rng.standard_normal(len(data))
    design = np.zeros((len(data), n))
    design[np.arange(len(data)), graph.first], design[np.arange(len(data)), graph.second] = 1.0, -1.0
    system = System(pattern, c[pattern.order], (c * y)[pattern.order], np.zeros(0), np.zeros(0), rng.uniform(1, 6, n))
    return system, design, c, y, graph.centre(rng.standard_normal((n, 2)))


def centring(graph):
    same = graph.component[:, None] == graph.component
    return np.eye(graph.nodes) - same / same.sum(axis=1)


@pytest.mark.parametrize("limits", [SMALL, LARGE], ids=["dense", "iterated"])
def test_an_uneven_prior_is_that_of_the_dense_gaussian_model(limits):
    """Scores ~ N(Mθ, a·diag(h)) and θ ~ N(0, r), integrated as one dense matrix; levels of components are free."""
    system, design, c, y, columns = uneven(limits)
    graph = system.pattern.graph
    centre, n = centring(graph), graph.nodes
    assert graph.components == 2
    prior = A * np.diag(system.inflation)
    hessian = design.T @ (c[:, None] * design) + np.linalg.inv(prior)
    b = design.T @ (c * y)

    expected = columns @ np.array([1.0, -2.0])
    found = system.solve(1 / A, expected)
    np.testing.assert_allclose(found, centre @ np.linalg.solve(hessian, b + expected / np.diag(prior)), atol=1e-7)
    start, further = system.given(A, columns, np.eye(n))
    np.testing.assert_allclose(start, centre @ np.linalg.solve(hessian, b), atol=1e-7)
    follow = np.linalg.solve(hessian, columns / np.diag(prior)[:, None])
    np.testing.assert_allclose(further[:, :2], centre @ follow, atol=1e-7)
    inverse = centre @ np.linalg.inv(hessian) @ centre
    np.testing.assert_allclose(further[:, 2:], inverse, atol=1e-7)

    covariance = np.diag(1 / c) + design @ (prior + RATIO * columns @ columns.T) @ design.T
    spectrum = Spectrum.of(system, columns)
    variances = Variances(spectrum, np.zeros(2, dtype=np.intp), len(c), True, A, np.array([RATIO]), np.array([A]))
    given, theta = variances.precision(A)
    gram = (design @ columns).T @ np.linalg.inv(np.diag(1 / c) + design @ prior @ design.T)
    precision = gram @ design @ columns + np.eye(2) / RATIO
    near = 1e-9 if limits is SMALL else 1e-4  # so far Lanczos goes
    np.testing.assert_allclose(given, np.linalg.inv(precision), rtol=near)
    np.testing.assert_allclose(theta, np.linalg.solve(precision, gram @ y), rtol=near)
    if limits is SMALL:  # above, traces are estimated
        evidence = np.sum(c * y**2) - np.linalg.slogdet(covariance).logabsdet - np.sum(np.log(c))
        assert variances.evidence == pytest.approx(0.5 * (evidence - y @ np.linalg.solve(covariance, y)), rel=1e-9)
        shared = Shared(("style",), np.zeros(2, dtype=np.intp), columns, np.zeros((len(columns), 0)))
        solution, spread, _ = solve(system, variances, shared)
        np.testing.assert_allclose(spread, centre @ follow, atol=1e-7)
        whole = design.T @ (c[:, None] * design) + np.linalg.inv(prior + RATIO * columns @ columns.T)
        np.testing.assert_allclose(solution.x, centre @ np.linalg.solve(whole, b), atol=1e-7)


def test_the_covariance_with_an_uneven_ridge_is_that_of_the_dense_matrix():
    system, design, c, _, _ = uneven(SMALL)
    graph, laplacian = system.pattern.graph, system.laplacian(1 / A)
    hessian = design.T @ (c[:, None] * design) + np.diag(1 / (A * system.inflation))
    centre = centring(graph)
    inverse = centre @ np.linalg.inv(hessian) @ centre
    (batch,) = system.pattern.batches
    np.testing.assert_allclose(laplacian.block(batch)[0], inverse, atol=1e-10)
    np.testing.assert_allclose(Posterior((laplacian,)).std ** 2, np.diagonal(inverse), rtol=1e-9)
    exact = np.einsum("ki,ij,kj->k", design, inverse, design)[system.pattern.order]
    np.testing.assert_allclose(difference_variances(laplacian), exact, rtol=1e-9)
    assert log_det(laplacian) == pytest.approx(np.linalg.slogdet(hessian).logabsdet, rel=1e-12)
    many = replace(SMALL, error_draws=6_000, error_columns=1_000)
    drawn = Pattern(graph, limits=many)
    sampled = replace(system, pattern=drawn).laplacian(1 / A).variances(0)
    np.testing.assert_allclose(sampled, np.diagonal(inverse), rtol=0.05)


def decided(rng, n, rows, slope):
    """Decisions about n candidates, and two features of which the first tells a part of the score."""
    style = rng.standard_normal((n, 2))
    scores = slope * style[:, 0] + rng.standard_normal(n)
    first = np.concatenate([np.arange(1, n), rng.integers(n, size=rows)])
    second = np.concatenate([np.arange(n - 1), (first[n - 1 :] + rng.integers(1, n, size=rows)) % n])
    p = (rng.random(len(first)) < expit(scores[first] - scores[second])).astype(float)
    return Comparisons(np.arange(n), first.astype(np.int32), second.astype(np.int32), p), style


def test_what_style_expects_is_doubted_by_its_distance_and_nothing_else_is():
    rng = np.random.default_rng(0)
    data, style = decided(rng, 60, 400, 3.0)
    product = mixed(data, BradleyTerry(), Design(features=style))
    ridge = product.laplacian.ridge[:60]  # of the scores
    expected = product.effects.mean
    assert np.corrcoef(1 / ridge, expected**2)[0, 1] > 0.99
    assert 1.5 < np.max(ridge) * np.mean(1 / ridge) < 2.0  # the mean of h is 1 + the share that style explains
    for features, groups in ((None, None), (None, np.arange(60, dtype=np.int32) % 5)):
        assert np.ptp(mixed(data, BradleyTerry(), Design(groups, features)).laplacian.ridge[:60]) == 0
    soft = replace(data, p=np.clip(data.p, 0.1, 0.9) + 0.05 * rng.random(len(data)))
    assert np.ptp(mixed(soft, BradleyTerry(), Design(None, style, is_biased=False)).laplacian.ridge[:60]) == 0
    shared = Shared(("style",), np.zeros(2, dtype=np.intp), np.zeros((60, 2)), np.zeros((60, 0)))
    told = Variances(
        Spectrum.of(uneven(SMALL)[0], np.zeros((30, 2))), shared.kind, 9, True, 1.0, np.ones(1), np.ones(1)
    )
    np.testing.assert_array_equal(style_inflation(told, shared, 4.0), 1.0)


@pytest.mark.long
def test_intervals_of_extreme_texts_cover_where_style_saturates():
    """Without the doubt they cover 88%."""
    cell = Cell("votes", 6.0, None, "none", 2, "predicts", "none", "both", (30, 6), 5)
    runs = [run_cell((cell, seed)) for seed in range(3)]
    assert not any(run.error for run in runs)
    assert np.mean([run.covered / run.items for run in runs]) > 0.92
