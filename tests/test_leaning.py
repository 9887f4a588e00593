"""What choices tell about a position bias while scores are not known, against dense algebra and known judges."""

import numpy as np
import pytest
from scipy.special import expit

from comparo import Comparisons
from comparo.model.design import Design, Shared
from comparo.model.estimators.mixed import mixed
from comparo.model.inference.choices import Choices
from comparo.model.inference.position import information_share
from comparo.model.inference.random_effects import solve
from comparo.model.inference.reml import estimate
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.linalg.graph import Graph
from comparo.model.linalg.spectrum import Spectrum
from comparo.model.tuning import Limits
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
    found = information_share(
        *solve(model.system, variances, shared), model.c, model.weight, model.family, model.slots
    )

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
