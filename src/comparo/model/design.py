"""The covariates of the candidates: groups, features, a first stage, and a control.

A control is a number of each text, such as its length, whose effect is removed from the scores. If a judge prefers
long texts, its view of candidate i is

    s_i = group + style + own_i + β·x_i,

with x the length (or another number) of the text. β has no prior, or the prior of an audit. The view at equal x is

    s_i − β·(x_i − mean x).

β is identified only because own_i is random and independent of x. Independence fails where groups are known (systems
that wrote the texts): a group that writes well may also write at length. There x is split into its group mean b and the
rest w, each with a coefficient: β is the coefficient of w, estimated within groups, and the coefficient of b is part of
the group means. Style is orthogonalised to x by least squares, because letter sequences correlate with length.

A first stage is a number x of each text too, but its effect stays in the scores: β·x, with β ~ N(0, ω²) and ω
estimated, is where scores are expected to be, as by group and style. ω is 0 where x does not tell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comparo.model.linalg.graph import Graph
from comparo.types import Array, Index, Mask

LEAST_VARIATION = 1e-9  # variation of x within or between groups, relative to all of it, below which it is rounding


@dataclass(frozen=True, eq=False)
class Control:
    """D numbers of every candidate: `values` (n, D), and `unit` (D,), the name of one step of each.

    `prior` (D, 2) holds mean and standard deviation of each β; β has no prior where it is None or the latter infinite.

    >>> Control(("length",), np.zeros((3, 1)), ("twice",)).names
    ('length',)
    """

    names: tuple[str, ...]
    values: Array
    unit: tuple[str, ...]
    prior: Array | None = None

    def informed(self, theta: Array, covariance: Array) -> tuple[Array, Array]:
        """Combine the mean θ (M,) and covariance (M, M) of coefficients, of which the first D are β, with the prior.

        >>> control = Control(("length",), np.zeros((3, 1)), ("twice",), np.array([[1.0, 1.0]]))
        >>> control.informed(np.array([0.0]), np.array([[1.0]]))
        (array([0.5]), array([[0.5]]))
        """
        if self.prior is None:
            return theta, covariance
        known = np.flatnonzero(np.isfinite(self.prior[:, 1]))
        mean, error = self.prior[known].T
        own = covariance[np.ix_(known, known)] + np.diag(error**2)
        gain = np.linalg.solve(own, covariance[known]).T
        return theta + gain @ (mean - theta[known]), covariance - gain @ covariance[known]

    def columns(self, graph: Graph, group: NDArray[np.integer] | None) -> Array:
        """w (n, D), or with groups w and b side by side (n, 2D), centred in components.

        >>> from comparo.data.comparisons import Comparisons
        >>> graph = Graph.build(Comparisons.from_rows([("a", "b", 1), ("b", "c", 1), ("c", "d", 1)]))
        >>> control = Control(("length",), np.array([[1.0], [3.0], [6.0], [10.0]]), ("twice",))
        >>> control.columns(graph, np.array([0, 0, 1, 1])).T
        array([[-1., 1., -2., 2.],
               [-3., -3., 3., 3.]])
        """
        held = graph.centre(self.values)
        if group is None:
            return held
        member = graph.centre(np.eye(int(group.max()) + 1)[group])
        between = member @ np.linalg.lstsq(member, held, rcond=None)[0]
        within = held - between
        least = LEAST_VARIATION * np.sqrt(np.mean(held**2, axis=0))
        within, between = (np.where(np.sqrt(np.mean(part**2, axis=0)) > least, part, 0.0) for part in (within, between))
        return np.column_stack([within, between])

    def varies(self, graph: Graph) -> Mask:
        """Whether each number differs between texts of one component, (D,)."""
        return np.asarray(np.ptp(graph.centre(self.values), axis=0) > 0)


@dataclass(frozen=True, eq=False)
class Held:
    """The coefficients β (D,) of one judge, for one step of each number, and their covariance (D, D).

    `varied` (D,) is the variance of each number within components, in steps.
    """

    control: Control
    coefficient: Array
    covariance: Array
    varied: Array

    @property
    def std(self) -> Array:
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def surprise(self) -> Array:
        """The z-score of each β against its prior mean, (D,); 0 without a prior.

        Under the prior, the posterior mean of β has the variance: prior variance − posterior variance.

        >>> control = Control(("length",), np.zeros((3, 1)), ("twice",), np.array([[1.0, 1.0]]))
        >>> Held(control, np.array([0.5]), np.array([[0.75]]), np.ones(1)).surprise
        array([-1.])
        """
        if self.control.prior is None:
            return np.zeros(len(self.coefficient))
        mean, std = self.control.prior.T
        learnt = np.maximum(std**2 - self.std**2, 1e-9 * std**2)
        return np.asarray((self.coefficient - mean) / np.sqrt(learnt))


def without(columns: Array, held: Array) -> Array:
    """The columns (n, M) at equal x: subtract `held` (n, D) from the first D, which are those of β.

    >>> without(np.ones((2, 2)), np.array([[1.0], [-1.0]]))
    array([[0., 1.],
           [2., 1.]])
    """
    found = columns.copy()
    found[:, : held.shape[1]] -= held
    return found


@dataclass(frozen=True, eq=False)
class Design:
    """The covariates of the n candidates, in the order of `Graph.build`.

    `groups` (n,) are numbered from 0, `features` are (n, D), and scores are estimated at equal values of `control`.
    `first_stage` (n,) is a number of each candidate with which scores rise or fall, such as that of a search engine.
    With `is_biased`, γ of each context and judge is estimated with the scores.

    >>> Design(features=np.zeros((3, 1))).is_biased
    True
    """

    groups: NDArray[np.integer] | None = None
    features: Array | None = None
    control: Control | None = None
    is_biased: bool = True
    first_stage: Array | None = None


PLAIN = Design()


@dataclass(frozen=True)
class Shared:
    """The `columns` QM (n, M) of the design, and their `kind` (M,), an index into `kinds` ("groups", "style",
    "first_stage").

    Rows of one kind have a mean squared norm of about 1, so ω² is the variance of scores that the kind explains.
    Columns of the control come first: their kind is −1, and their coefficients have no prior. `held` (n, D) are the
    values of the control, centred in components; D = 0 without a control. `group` (n,) is the group of each candidate;
    None if "groups" is not among the kinds.
    """

    kinds: tuple[str, ...]
    kind: NDArray[np.intp]
    columns: Array
    held: Array
    group: Index | None = None

    @classmethod
    def of(cls, graph: Graph, design: Design, entries: int) -> Shared:
        """Omit groups if their matrix has more than `entries` entries, if there is one group, or one per candidate."""
        groups, features, control = design.groups, design.features, design.control
        found = {}
        count = 0 if groups is None else int(groups.max()) + 1
        if groups is not None and 1 < count < graph.nodes and graph.nodes * count <= entries:
            found["groups"] = graph.centre(np.eye(count)[groups])
        group = groups.astype(np.int32) if groups is not None and "groups" in found else None
        flat = held = np.zeros((graph.nodes, 0))
        if control is not None:
            flat, held = control.columns(graph, group), graph.centre(control.values)
        if features is not None and features.shape[1]:
            found["style"] = graph.centre(features)
        if design.first_stage is not None:
            x = graph.centre(design.first_stage[:, None])
            if np.std(x) > LEAST_VARIATION * np.max(np.abs(design.first_stage)):
                found["first_stage"] = x / np.std(x)
        if control is not None:  # residuals of the regression on the control
            for kind in {*found} - {"groups"}:
                found[kind] = found[kind] - flat @ np.linalg.lstsq(flat, found[kind], rcond=None)[0]
        columns = np.concatenate([flat, *found.values()], axis=1)
        kinds = np.repeat(np.arange(len(found)), [block.shape[1] for block in found.values()])
        return cls(tuple(found), np.concatenate([np.full(flat.shape[1], -1), kinds]), columns, held, group)

    @property
    def is_group(self) -> Mask:
        """Which of the columns are groups, (M,)."""
        number = self.kinds.index("groups") if "groups" in self.kinds else len(self.kinds)
        return np.asarray(self.kind == number)
