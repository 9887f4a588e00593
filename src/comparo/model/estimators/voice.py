"""The fit of one voice: the mixed model of its comparisons alone.

A voice is a judge with a wording, or a person. Its view of candidate i is x_i ~ N(0, v); its answers observe
differences of x with noise of variance φ and a position bias γ per context. A panel needs only the variances of a voice
and its observations as Gaussians, from which γ and the effect of a control are subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.model.design import PLAIN, Design, Held, Shared, without
from comparo.model.inference.choices import Choices, model_of
from comparo.model.inference.ep import without_site
from comparo.model.inference.random_effects import solve
from comparo.model.inference.soft import Soft
from comparo.model.likelihoods.bradley_terry import LOGISTIC
from comparo.model.linalg.graph import Graph, Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.tuning import Limits
from comparo.rounding import TINY
from comparo.types import Array, Index, LongIndex


@dataclass(frozen=True)
class VoiceModel:
    """The observations of one voice about the n candidates of a panel, and its variances.

    `model` holds them with its pattern; `variance` is v, `noise` is φ (1 for choices, whose sites have a precision of
    their own), `bias` (C, F) is γ of each context and position effect, `bias_variance` its posterior variance for
    choices (0 for others, whose γ cancels or is well known), `positions` the effect of each comparison, `answers` their
    number, and `bias_error` the standard error of the mean γ. `position` is the variance that position adds to an
    answer: that of γ between contexts, and that of position effects of single texts. `held` are the voice's
    coefficients of the control, and `offset` (M,) is their part of each observation.
    """

    model: Soft | Choices
    variance: float
    noise: float
    bias: Array
    bias_variance: Array
    positions: Index
    answers: int
    bias_error: float
    position: float
    converged: bool
    held: Held | None = None
    offset: Array | float = 0.0

    @classmethod
    def of(cls, comparisons: Comparisons, graph: Graph, design: Design, limits: Limits) -> VoiceModel:
        """Fit the comparisons of one judge; `graph` has the candidates of all voices.

        Coefficients of the control are estimated within the groups, if there are groups.

        >>> rows = [("a", "b", 0.8), ("b", "a", 0.3), ("b", "c", 0.7), ("c", "b", 0.4)]
        >>> data = Comparisons.from_rows(rows)
        >>> voice = VoiceModel.of(data, Graph.build(data), Design(), Limits())
        >>> voice.scores.round(1), voice.bias.round(2)
        (array([ 0.9, -0.2, -0.8]), array([[-0.25]]))
        """
        shared, control, is_biased = Shared.of(graph, PLAIN, 0), design.control, design.is_biased
        if control is not None:
            columns = control.columns(graph, design.groups)
            shared = Shared((), np.full(columns.shape[1], -1), columns, graph.centre(control.values))
        model = model_of(comparisons, graph, is_biased, limits)
        model, variances, converged = model.settle(shared)
        solution, _, errors = solve(model.system, variances, shared)
        bias, between, error = model.bias(solution)
        gamma = bias if bias.size else np.zeros((graph.contexts, len(comparisons.slots)))
        doubt = model.bias_variances(solution) if isinstance(model, Choices) and bias.size else np.zeros_like(gamma)
        noise = variances.noise(variances.ratio)
        # Half of the sum of both orders has the variance 2·Var e + φ/2, and the weight 2.
        position = (between or 0.0) + (
            max(model.observations.sum_variance - noise, 0.0) / 2.0
            if isinstance(model, Soft) and model.observations.sum_freedom
            else 0.0
        )
        said, variance = comparisons.positions, variances.ratio * noise
        voice = cls(model, variance, noise, gamma, doubt, said, comparisons.answers, error or 0.0, position, converged)
        if control is None:
            return voice
        count, pattern = len(control.names), model.pattern
        theta, covariance = control.informed(variances.precision(variances.ratio)[1], noise * errors)
        varied = np.mean(shared.held**2, axis=0)
        held = Held(control, theta[:count], covariance[:count, :count], varied)
        offset = (shared.held[pattern.first] - shared.held[pattern.second]) @ held.coefficient
        groups_part = without(shared.columns, shared.held) @ theta  # the group means are part of the view
        variance = voice.variance + float(np.mean(groups_part**2))
        return replace(voice, variance=variance, held=held, offset=offset)

    @property
    def parts(self) -> tuple[float, float, float]:
        """The parts of the mean square of one answer: 2v from the texts, γ̄² + `position`, and noise.

        A choice has the noise of a logistic variable, π²/3.
        """
        noise = LOGISTIC if isinstance(self.model, Choices) else self.noise
        return 2.0 * self.variance, self._mean_square + self.position, noise

    @property
    def content(self) -> float:
        """The share of the mean square of one answer that is about the texts."""
        return self.parts[0] / sum(self.parts)

    @property
    def content_around_mean(self) -> float:
        """The share of the variance of one answer that is about the texts: `content` without γ̄²."""
        texts, position, noise = self.parts
        return texts / (texts + position - self._mean_square + noise)

    @property
    def _mean_square(self) -> float:
        """The mean of γ̄² over the position effects that occur."""
        return float(np.mean(np.mean(self.bias[:, np.unique(self.positions)], axis=0) ** 2))

    @property
    def mean_bias(self) -> Array:
        """The mean γ of each context over the position effects that occur, (C,)."""
        return np.asarray(np.mean(self.bias[:, np.unique(self.positions)], axis=1))

    @property
    def pattern(self) -> Pattern:
        return self.model.pattern

    @cached_property
    def c(self) -> Array:
        """The precision of each observation, in the pattern's order, shape (M,)."""
        return self.model.c / self.noise

    @cached_property
    def pull(self) -> Array:
        """The precision times the observed difference of two views, without γ and control, shape (M,)."""
        return self.model.pull / self.noise + self.c * (self._gamma(self.bias) - self.offset)

    def _gamma(self, values: Array) -> Array:
        """The value (C, J) of the position effect of each observation, (M,); 0 where γ cancels."""
        model = self.model
        effect = model.slot if isinstance(model, Choices) else model.observations.judge[self.pattern.order]
        padded = np.column_stack([values, np.zeros(len(values))])
        return padded[self.pattern.graph.position[self.pattern.first], effect]

    @cached_property
    def pairs(self) -> LongIndex:
        """A number for the pair of candidates of each observation, equal for all voices, (M,)."""
        low, high = (edge(self.pattern.first, self.pattern.second) for edge in (np.minimum, np.maximum))
        return low.astype(np.int64) * self.pattern.graph.nodes + high

    @cached_property
    def residuals(self) -> Array:
        """Observed minus fitted differences, lower minus higher candidate of each pair, (M,)."""
        first, second, known = self.pattern.first, self.pattern.second, np.maximum(self.c, TINY)
        left = self.pull / known - (self.scores[first] - self.scores[second])
        return np.where(first < second, left, -left)

    @cached_property
    def laplacian(self) -> Laplacian:
        """The precision of the voice's view, L + 1/v; without unknowns for γ."""
        pattern = Pattern(self.pattern.graph, limits=self.pattern.limits)
        return Laplacian(pattern, self.c, np.full(pattern.unknowns, 1.0 / self.variance))

    @cached_property
    def scores(self) -> Array:
        """The mean of x, shape (n,), centred in each component."""
        return self.laplacian.solve(self.laplacian.pattern.gather(self.pull), accuracy=1e-6)

    def learn(self, mean: Array, variance: Array) -> VoiceModel:
        """Update the sites of the voice's choices, given mean and variance of every difference of views, (M,)."""
        assert isinstance(self.model, Choices)
        gamma, doubt = self._gamma(self.bias), self._gamma(self.bias_variance)
        centre, cavity = without_site(mean + self.offset, variance, self.c, self.model.pull + self.c * gamma)
        return replace(self, model=self.model.sites(centre - gamma, cavity + doubt))

    def seen(self, z: Array) -> Array:
        """A·z = (L + 1/v)⁻¹L z for z (n, q): the expected scores of the voice if its view were z."""
        centred = self.laplacian.pattern.centre(z)
        return centred - self.laplacian.solve(centred / self.variance, accuracy=1e-3)
