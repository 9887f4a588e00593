"""What choices tell about a position bias while scores are not known, against dense algebra and known judges."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from comparo import Comparisons
from comparo.model.inference.position import information_share, slot_effects
from comparo.model.inference.random_effects import solve
from comparo.model.inference.reml import estimate
from comparo.model.tuning import SLOTS
from inside import BradleyTerry, Choices, Design, Graph, Limits, Shared, Spectrum, mixed
from split import one_short


def decisions(rng, contexts, pairs, spread, both=False):
    """Decisions about random `pairs` of 8 texts in each context, the score's sd 1, γ of mean 0.5 with this spread."""
    columns = []
    for context in range(contexts):
        scores, gamma = rng.standard_normal(8), 0.5 + spread * rng.standard_normal()
        chosen = rng.permutation(np.column_stack(np.triu_indices(8, 1)))[:pairs]
        ends = rng.permuted(chosen, axis=1)
        first, second = (np.concatenate([ends, ends[:, ::-1]]) if both else ends).T
        chosen_first = rng.random(len(first)) < expit(scores[first] - scores[second] - gamma)
        columns.append(np.column_stack([first, second, chosen_first, np.full(len(first), context)]))
    first, second, p, context = np.concatenate(columns).T
    return Comparisons.from_columns(first.astype(int), second.astype(int), p, context=context.astype(int))


@pytest.mark.parametrize("judges", [1, 2])
def test_the_share_is_that_of_the_dense_covariance(judges):
    rng = np.random.default_rng(0)
    data = decisions(rng, 3, 20, 0.5)
    some = rng.random(len(data)) < 0.4  # a few pairs in both orders, which lean to none
    ends = [np.concatenate([one, other[some]]) for one, other in ((data.first, data.second), (data.second, data.first))]
    p, context = np.concatenate([data.p, 1.0 - data.p[some]]), np.concatenate([data.context, data.context[some]])
    judge = rng.integers(judges, size=len(data))
    data = Comparisons.from_columns(
        *ends, p, context=context, judge=np.concatenate([judge, judge[some]]) if judges > 1 else None
    )
    graph = Graph.build(data)
    model = Choices.of(data, graph, True, Limits())
    shared = Shared.of(graph, Design(features=rng.standard_normal((graph.nodes, 2))), 10**6)
    variances = estimate(Spectrum.of(model.system, shared.columns), shared.kind, len(model.c), True)
    found = information_share(*solve(model.system, variances, shared), model.c, model.weight, model.family, model.slots)

    apart = np.zeros((len(model.c), graph.nodes))
    apart[np.arange(len(model.c)), model.pattern.first] += 1.0
    apart[np.arange(len(model.c)), model.pattern.second] -= 1.0
    prior = variances.ratio * np.eye(graph.nodes) + variances.shared[0] * shared.columns @ shared.columns.T
    covariance = np.linalg.inv(apart.T @ (model.c[:, None] * apart) + np.linalg.inv(prior))
    lean = (model.weight[0] - model.weight[1]) / np.sum(model.weight, axis=0)
    for family in range(model.gamma.size):
        own = np.where(model.family == family, model.c, 0.0)
        sums = (own * lean) @ apart
        assert found.ravel()[family] == pytest.approx(1.0 - sums @ covariance @ sums / np.sum(own), rel=1e-3)
    assert np.all(found < 1.0)


def test_both_orders_tell_all():
    model = Choices.of(
        data := decisions(np.random.default_rng(1), 4, 10, 0.5, both=True), Graph.build(data), True, Limits()
    )
    shared = Shared.of(model.pattern.graph, Design(), 10**6)
    variances = estimate(Spectrum.of(model.system, shared.columns), shared.kind, len(model.c), True)
    solved = solve(model.system, variances, shared)
    assert np.all(information_share(*solved, model.c, model.weight, model.family, model.slots) == 1.0)


def test_the_share_of_slots_is_that_of_the_dense_covariance():
    rng, k = np.random.default_rng(0), 4
    rows = [
        {"context": context, "items": [f"t{item}" for item in rng.permutation(8)[:k]], "order": ">".join("ABCD")}
        for context in range(3)
        for _ in range(10)
    ]
    data = Comparisons.from_rows(rows)
    graph = Graph.build(data)
    model = Choices.of(data, graph, True, Limits())
    shared = Shared.of(graph, Design(features=rng.standard_normal((graph.nodes, 2))), 10**6)
    variances = estimate(Spectrum.of(model.system, shared.columns), shared.kind, len(model.c), True)
    variances = replace(variances, ratio=4.0)  # of scores, which take some of what the orders tell
    solved = solve(model.system, variances, shared)
    found = information_share(*solved, model.c, model.weight, model.family, model.slots)
    apart, slot = np.zeros((2, len(model.c), max(graph.nodes, k)))
    number = np.arange(len(model.c))
    apart[number, model.pattern.first], apart[number, model.pattern.second] = 1.0, -1.0
    apart = apart[:, : graph.nodes] * np.sign(model.weight[0] - model.weight[1])[:, None]
    slot[number, model.lineup["low"]], slot[number, model.lineup["high"]] = -1.0, 1.0
    prior = variances.ratio * np.eye(graph.nodes) + variances.shared[0] * shared.columns @ shared.columns.T
    covariance = np.linalg.inv(apart.T @ (model.c[:, None] * apart) + np.linalg.inv(prior))
    for context in range(3):
        c = np.where(model.family // len(model.slots) == context, model.c, 0.0)
        known, sums = (slot.T @ (c[:, None] * part) for part in (slot, apart))
        known, lost = known[:k, :k], (sums @ covariance @ sums.T)[:k, :k]
        assert found[context, -1] == pytest.approx(1.0 - np.trace(np.linalg.pinv(known) @ lost) / (k - 1), rel=1e-3)
    assert np.all((found[:, 1:] > 0.1) & (found[:, 1:] < 0.95))


def test_slot_effects_maximise_the_restricted_likelihood():
    """Against the density of what contexts say, integrated over the mean effect by dense algebra."""
    rng, contexts, k = np.random.default_rng(0), 12, 4
    pairs = np.array([(low, high) for low in range(k) for high in range(low + 1, k)])
    slots = np.column_stack([np.zeros_like(pairs[:, 0]), np.full(len(pairs), k), pairs]).astype(np.int32)
    ends = np.eye(k)[pairs[:, 1]] - np.eye(k)[pairs[:, 0]]
    information = rng.uniform(0.5, 3.0, (contexts, len(pairs)))
    known = np.einsum("cj,ja,jb->cab", information, ends, ends)
    effects = np.array([1.0, 0.2, -0.4, -0.8]) + 0.9 * rng.standard_normal((contexts, k))
    gamma = rng.standard_normal((contexts, k)) @ ends.T  # where the step begins
    noise = [rng.multivariate_normal(np.zeros(k), part) for part in known]
    excess = information * (gamma - effects @ ends.T) - np.array(noise) @ np.linalg.pinv(ends)
    found, variance, between, _ = slot_effects(slots, gamma, information, excess)

    root = np.linalg.eigh(np.eye(k) - 1.0 / k)[1][:, 1:]  # the k − 1 contrasts of slots
    said = (information * gamma - excess) @ ends @ root
    inner = root.T @ known @ root
    prior = root.T @ ends.T @ ends @ root / SLOTS**2

    def solved(spread):
        """log of the restricted likelihood, and mean and covariance of all effects, of one Gaussian with ē last."""
        size = contexts * (k - 1)
        precision = np.zeros((size + k - 1, size + k - 1))
        precision[size:, size:] = prior
        for c in range(contexts):
            own = slice(c * (k - 1), (c + 1) * (k - 1))
            precision[own, own] = inner[c] + np.eye(k - 1) / spread
            precision[own, size:] = precision[size:, own] = -np.eye(k - 1) / spread
            precision[size:, size:] += np.eye(k - 1) / spread
        pull = np.append(said.ravel(), np.zeros(k - 1))
        mean = np.linalg.solve(precision, pull)
        height = 0.5 * pull @ mean - 0.5 * np.linalg.slogdet(precision).logabsdet - 0.5 * size * np.log(spread)
        return height, mean[:size].reshape(contexts, -1), np.linalg.inv(precision)

    spread = between[0] / 2.0
    best = solved(spread)
    assert 0.2 < spread < 2.0
    assert best[0] > max(solved(spread * factor)[0] for factor in (0.98, 1.02))
    assert found == pytest.approx(best[1] @ root.T @ ends.T, abs=1e-8)
    own = np.stack([best[2][c * (k - 1) : (c + 1) * (k - 1), c * (k - 1) : (c + 1) * (k - 1)] for c in range(contexts)])
    assert variance == pytest.approx(np.einsum("jx,cxy,jy->cj", ends @ root, own, ends @ root), abs=1e-8)


@pytest.mark.long
@pytest.mark.parametrize(
    ("spread", "both", "low", "high"),
    one_short([(0.5, False, 0.12, 0.35), (2.0, False, 3.0, 5.0), (2.0, True, 3.0, 5.0)]),
)
def test_the_spread_of_biases_is_found(spread, both, low, high):
    """The true variances are 0.25 and 4; 12 or 24 decisions per context, the mean of six judges."""
    pairs = 12 if both or spread < 1 else 24
    data = [decisions(np.random.default_rng(seed), 100, pairs, spread, both) for seed in range(6)]
    assert low < np.mean([mixed(one, BradleyTerry()).effects.bias for one in data]) < high
