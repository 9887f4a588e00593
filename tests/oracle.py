"""Naive answers to compare the fast ones with: dense matrices, loops and a general-purpose optimiser."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import minimize

from comparo import Comparisons
from comparo.model.tuning import NARROWEST, SLOTS, SLOTS_ERROR, SPREAD, SPREAD_ERROR, WIDEST


def incidence(comparisons: Comparisons) -> np.ndarray:
    """W, shape (K, N), for comparisons without contexts."""
    rows = np.zeros((len(comparisons), len(comparisons.items)))
    for k, (i, j) in enumerate(zip(comparisons.first, comparisons.second, strict=True)):
        rows[k, i], rows[k, j] = 1.0, -1.0
    return rows


def weights(comparisons: Comparisons) -> np.ndarray:
    return np.ones(len(comparisons)) if comparisons.weight is None else comparisons.weight


def design_log_det(comparisons: Comparisons) -> float:
    """log det(W̃ᵀW̃): W with one further row, the paper's expert on the first item."""
    anchored = np.vstack([np.eye(len(comparisons.items))[0], incidence(comparisons)])
    return float(np.linalg.slogdet(anchored.T @ anchored).logabsdet)


def best_scores(comparisons, expert, prior_std=None, bias=False):
    """Scores (centred) and γ that maximise the product, by a quasi-Newton method on dense matrices."""
    design, weight = incidence(comparisons), weights(comparisons)
    n = design.shape[1]
    if bias:
        design = np.hstack([design, -np.ones((len(design), 1))])

    def loss(x):
        d = design @ x
        value = -np.sum(weight * expert.log_density(d, comparisons.p))
        gradient = -design.T @ (weight * expert.slope(d, comparisons.p))
        ridge = np.zeros(len(x))
        ridge[:n] = 1e-9 if prior_std is None else prior_std**-2
        ridge[n:] = 1e-6
        return value + 0.5 * np.sum(ridge * x**2), gradient + ridge * x

    found = minimize(loss, np.zeros(design.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    scores = found.x[:n]
    return scores - scores.mean(), found.x[n:]


def centred_inverse(matrix: np.ndarray) -> np.ndarray:
    """P (matrix)⁺ P with P = I − 11ᵀ/n."""
    n = len(matrix)
    centring = np.eye(n) - 1.0 / n
    return centring @ np.linalg.pinv(matrix, hermitian=True) @ centring


@st.composite
def comparisons_of(draw, most_items=8, soft=True, weighted=True):
    """Connected comparisons of a few items: a random tree and some more pairs, with repeats and both orders."""
    n = draw(st.integers(2, most_items))
    pairs = [(i, draw(st.integers(0, i - 1))) for i in range(1, n)]
    extra = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] != pair[1])
    pairs += draw(st.lists(extra, max_size=3 * n))
    pairs = [pair[::-1] if draw(st.booleans()) else pair for pair in pairs]
    answer = st.floats(0.02, 0.98) if soft else st.sampled_from([0.0, 0.5, 1.0])
    p = [draw(answer) for _ in pairs]
    weight = [draw(st.floats(0.25, 4.0)) for _ in pairs] if weighted and draw(st.booleans()) else None
    first, second = zip(*pairs, strict=True)
    return Comparisons.from_columns(np.array(first), np.array(second), np.array(p), weight)


def simulate(rng, items, rows, spread=1.0, noise=0.3, gamma=0.0, contexts=None):
    """Comparisons by a soft judge whose logit is s_first − s_second − γ + noise, and the true scores (C, N)."""
    count = 1 if contexts is None else contexts
    truth = spread * rng.standard_normal((count, items))
    context = np.repeat(np.arange(count), rows)
    first = rng.integers(items, size=count * rows)
    second = (first + rng.integers(1, items, size=count * rows)) % items
    gamma = np.broadcast_to(gamma, count)[context]
    d = truth[context, first] - truth[context, second] - gamma + noise * rng.standard_normal(count * rows)
    p = 1 / (1 + np.exp(-d))
    return Comparisons.from_columns(first, second, p, context=None if contexts is None else context), truth


def posterior_draws(log_likelihood, scores, families, steps=360, chains=60, seed=0):
    """Draws (D, n + G) of scores and position effects, given choices, by elliptical slice sampling (Murray 2010).

    `log_likelihood(x)` is that of the `scores` and effects x (chains, n + G). The standard deviation of the scores is
    σ, log σ ~ N(log SPREAD, SPREAD_ERROR²), that of the effects of each of the `families` (their numbers) is τ with
    log τ ~ N(log SLOTS, SLOTS_ERROR²). A third of the steps is left out. Scores of a draw have mean 0.
    """
    rng, size = np.random.default_rng(seed), scores + sum(map(len, families))
    groups = [np.arange(scores), *(scores + np.array(family) for family in families)]
    usual = np.log([SPREAD] + [SLOTS] * len(families))
    error = np.array([SPREAD_ERROR] + [SLOTS_ERROR] * len(families))
    low, high = (np.log([end] + [other] * len(families)) for end, other in ((NARROWEST, 1e-3), (WIDEST, 1e3)))
    z, logs, drawn = rng.standard_normal((chains, size)), np.tile(usual, (chains, 1)), []

    def likelihood(z, logs):
        x = z.copy()
        for number, group in enumerate(groups):
            x[:, group] *= np.exp(logs[:, [number]])
        return x, log_likelihood(x)

    now = likelihood(z, logs)[1]
    for step in range(steps):
        other, least = rng.standard_normal(z.shape), now + np.log(rng.random(chains))
        angle = 2 * np.pi * rng.random(chains)
        begin, end, left = angle - 2 * np.pi, angle.copy(), np.ones(chains, dtype=bool)
        old = z
        while left.any():
            tried = old * np.cos(angle)[:, None] + other * np.sin(angle)[:, None]
            height = likelihood(tried, logs)[1]
            taken = left & (height > least)
            z, now, left = np.where(taken[:, None], tried, z), np.where(taken, height, now), left & ~taken
            begin, end = np.where(left & (angle < 0), angle, begin), np.where(left & (angle >= 0), angle, end)
            angle = np.where(left, begin + (end - begin) * rng.random(chains), angle)
        for number, group in enumerate(groups):
            for keeps in ("z", "x"):
                tried, moved = logs.copy(), z.copy()
                tried[:, number] += 0.6 * rng.standard_normal(chains)
                change = tried[:, number] - logs[:, number]
                ratio = 0.5 * ((logs[:, number] - usual[number]) ** 2 - (tried[:, number] - usual[number]) ** 2)
                ratio /= error[number] ** 2
                if keeps == "x":
                    moved[:, group] *= np.exp(-change)[:, None]
                    ratio += 0.5 * np.sum(z[:, group] ** 2 - moved[:, group] ** 2, axis=1) - len(group) * change
                height = likelihood(moved, tried)[1]
                is_inside = (tried[:, number] > low[number]) & (tried[:, number] < high[number])
                taken = is_inside & (np.log(rng.random(chains)) < ratio + height - now)
                z, logs = np.where(taken[:, None], moved, z), np.where(taken[:, None], tried, logs)
                now = np.where(taken, height, now)
        if step >= steps // 3:
            x = likelihood(z, logs)[0]
            x[:, :scores] -= np.mean(x[:, :scores], axis=1, keepdims=True)
            drawn.append(x)
    return np.concatenate(drawn)
