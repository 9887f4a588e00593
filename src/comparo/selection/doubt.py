"""The goal top-k in line-ups: a text is asked about as long as it is open whether it is among the best k.

Scores have a prior N(b·x_i, σ²), and answers the likelihood of Bradley and Terry or of Plackett and Luce. x is a first
stage, 0 where there is none, and b ~ N(0, σ²) is estimated with the scores. With s_i a score and v_i its variance,

    P_i = Φ(z_i),    z_i = (s_i − t)/√v_i,    t such that Σ P_i = k,

is the probability that text i is among the best k. An answer with the information c about it lowers v_i by c·v_i² and
P_i(1 − P_i), in expectation and to first order, by

    n(z_i)²·v_i·c,    n the normal density.

So texts are drawn by n(z)²·v, divided by 1 + the questions about a text whose answers are not known. Squares of these
weights find more than the weights (python -m benchmarks.top). The largest of log weight + Gumbel noise are such a draw.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from comparo.data.comparisons import Comparisons
from comparo.data.lineups import luce_weights
from comparo.model.estimators.poe import product_at
from comparo.model.inference.newton import Maximum
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.tuning import SPREAD
from comparo.types import Array

STEPS, NEAR = 30, 1e-3  # most steps of a fit, and the largest step that ends it: far below any standard error
ACCURACY = 1e-6  # of a step
LONGEST = 2.0  # of a step, in logits
HALVINGS = 60  # of the interval of t
DIGITS = 9  # of a weight relative to the largest: CPUs differ in later ones
LEAST = 1e-9  # smallest weight relative to the largest


Codes = NDArray[np.intp]


class Doubt:
    """Scores of N texts by the answers so far, and the weights with which texts are drawn for the goal top-k.

    >>> doubt = Doubt(4, top=1)
    >>> doubt.learn(Comparisons.from_rows([(0, 1, 1.0), (1, 0, 0.0), (0, 2, 0.9), (0, 3, 0.8), (2, 3, 0.5)]))
    >>> doubt.chance.round(1).tolist(), round(float(np.sum(doubt.chance)), 6)
    ([0.7, 0.0, 0.1, 0.1], 1.0)
    """

    def __init__(self, items: int, top: int, first_stage: Array | None = None) -> None:
        self.top, self.x, self.slope = top, np.zeros(items), 0.0
        if first_stage is not None and np.ptp(first_stage) > 0:
            self.x = (first_stage - np.mean(first_stage)) / np.std(first_stage)
        self.scores, self.dispersion = np.zeros(items), 1.0
        self.chance, self.weight = np.full(items, top / items), np.ones(items)

    def learn(self, answers: Comparisons) -> None:
        """Fit scores, and the dispersion of soft answers; the items of `answers` are the codes 0…N − 1."""
        graph = Graph.build(answers)
        pattern, whole = Pattern(graph), answers.weights
        scores, x = self.scores[graph.item], self.x[graph.item]
        for _ in range(STEPS):
            d = scores[graph.first] - scores[graph.second]
            told = whole if answers.lineup is None else luce_weights(answers.lineup, answers.p, whole, d)
            chance = expit(d)
            slope, curvature = told * (answers.p - chance), told * chance * (1.0 - chance)
            ridge = np.full(graph.nodes, self.dispersion / SPREAD**2)
            laplacian = Laplacian(pattern, curvature[pattern.order], ridge)
            pull = pattern.gather(slope[pattern.order])
            step = laplacian.solve(pull - ridge * (scores - self.slope * x), ACCURACY)
            if x.any():
                felt = pattern.gather((curvature * (x[graph.first] - x[graph.second]))[pattern.order])
                less = laplacian.solve(felt, ACCURACY)  # the decrease of δ = s − b·x by a unit of b
                left = x @ pull - ridge[0] * self.slope - felt @ step
                moved = left / (ridge[0] + felt @ (x - less))
                self.slope, step = self.slope + moved, step + moved * (x - less)
            scores = scores + np.clip(step, -LONGEST, LONGEST)
            if np.max(np.abs(step)) < NEAR:
                break
        product = product_at(
            replace(answers, weight=told), graph, BradleyTerry(), Maximum(scores, laplacian, STEPS, True)
        )
        self.dispersion = product.dispersion
        variance = self.dispersion * laplacian.tree_variances()
        self.scores[graph.item] = scores
        known = np.empty(len(self.scores))
        known[graph.item] = variance
        self._weigh(self.scores, known)

    def _weigh(self, scores: Array, variance: Array) -> None:
        """P of each text, and the weights."""
        error = np.sqrt(variance)
        low, high = np.min(scores - 10.0 * error), np.max(scores + 10.0 * error)
        for _ in range(HALVINGS):
            border = 0.5 * (low + high)
            self.chance = ndtr((scores - border) / error)
            low, high = (border, high) if np.sum(self.chance) > self.top else (low, border)
        weight = np.exp(-(((scores - border) / error) ** 2)) * variance
        self.weight = np.maximum(np.round(weight / np.max(weight), DIGITS), LEAST)

    def draw(self, size: int, component: NDArray[np.integer], waiting: Array, rng: np.random.Generator) -> Codes:
        """The texts of the next line-up: drawn by (weight / (1 + `waiting`))², without replacement.

        `component` (N,) are the connected components of the questions so far. Until there is one, a text that was asked
        about comes first, then those that never were, then one of each other component: so good texts meet early, and
        ⌈(N − 1)/(k − 1)⌉ line-ups of k connect all.
        """
        key = 2.0 * np.log(self.weight / (1.0 + waiting)) + rng.gumbel(size=len(waiting))
        is_joint = np.bincount(component) > 1
        is_asked = is_joint[component]
        groups = [np.flatnonzero(is_asked), np.flatnonzero(~is_asked)]
        # Where no further component is reached, only the first of each group can be drawn: sorting all takes long.
        most = size if len(groups[1]) >= size or np.count_nonzero(is_joint) <= 1 else len(key)
        best = (own[key[own] >= np.partition(key[own], -most)[-most]] if len(own) > most else own for own in groups)
        asked, new = (own[np.argsort(-key[own], kind="stable")] for own in best)
        order = np.concatenate([asked[:1], new, asked[1:]])
        leads = np.unique(component[order], return_index=True)[1]
        return order[np.argsort(~np.isin(np.arange(len(order)), leads), kind="stable")][:size]
