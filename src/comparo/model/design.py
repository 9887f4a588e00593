"""What a method knows of the candidates beside the comparisons: groups, features, and a control.

A control is a number of each text, such as its length, whose effect on a judge is taken out of the scores. A judge may
like long texts. Its view of candidate i is then

    s_i = group + style + own_i + β·x_i,

with x the length (or any other number) of the text and β without a prior, or with that of an audit; at equal x it is

    s_i − β·(x_i − mean x).

Own scores are random and independent of x: that alone determines β, since any scores could be explained without it.
Where groups are known (systems that wrote the texts), a group that writes well may also write at length, and
independence would be wrong. There x is split into its mean in the group, b, and the rest, w, each with a coefficient: β
is that of w, found within groups, and that of b is part of the groups' means. Style is made independent of x by least
squares, since its letter sequences know something of the length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from comparo.model.linalg.graph import Graph
from comparo.types import Array, Index, Mask

LEAST = 1e-9  # variation of x within or between groups, relative to all of it, below which it is rounding


@dataclass(frozen=True, eq=False)
class Control:
    """D numbers of every candidate, `values` (n, D), in units of `unit` (D,): what one step of each is called.

    `prior` (D, 2) holds mean and standard deviation of each β; without one, or where that is infinite, β has none.

    >>> Control(("length",), np.zeros((3, 1)), ("twice",)).names
    ('length',)
    """

    names: tuple[str, ...]
    values: Array
    unit: tuple[str, ...]
    prior: Array | None = None

    def informed(self, theta: Array, covariance: Array) -> tuple[Array, Array]:
        """The mean θ (M,) and covariance (M, M) of coefficients, β the first of them, given the prior as well.

        >>> control = Control(("length",), np.zeros((3, 1)), ("twice",), np.array([[1.0, 1.0]]))
        >>> control.informed(np.array([0.0]), np.array([[1.0]]))
        (array([0.5]), array([[0.5]]))
        """
        if self.prior is None:
            return theta, covariance
        known = np.flatnonzero(np.isfinite(self.prior[:, 1]))
        own = covariance[np.ix_(known, known)] + np.diag(self.prior[known, 1] ** 2)
        gain = np.linalg.solve(own, covariance[known]).T
        return theta + gain @ (self.prior[known, 0] - theta[known]), covariance - gain @ covariance[known]

    def columns(self, graph: Graph, group: NDArray[np.integer] | None) -> Array:
        """w, and b where there are groups, both centred in components: (n, D) or (n, 2D).

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
        least = LEAST * np.sqrt(np.mean(held**2, axis=0))
        within, between = (np.where(np.sqrt(np.mean(part**2, axis=0)) > least, part, 0.0) for part in (within, between))
        return np.column_stack([within, between])

    def varies(self, graph: Graph) -> Mask:
        """Whether some texts of a context differ in each number, (D,)."""
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
        """How many standard deviations the answers moved each β from its prior, (D,); 0 without a prior.

        The mean of β given the answers varies around the prior's by prior variance − posterior variance.

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
    """What columns (n, M), of which the first D are those of β, are at equal x: less `held` (n, D) there.

    >>> without(np.ones((2, 2)), np.array([[1.0], [-1.0]]))
    array([[0., 1.],
           [2., 1.]])
    """
    found = columns.copy()
    found[:, : held.shape[1]] -= held
    return found


@dataclass(frozen=True, eq=False)
class Design:
    """What is known of the n candidates, in the order of `Graph.build`.

    `groups` (n,) are numbered from 0, `features` are (n, D), and the scores are those at equal numbers of `control`.
    With `is_biased`, γ of each context and judge is estimated with the scores.

    >>> Design(features=np.zeros((3, 1))).is_biased
    True
    """

    groups: NDArray[np.integer] | None = None
    features: Array | None = None
    control: Control | None = None
    is_biased: bool = True


PLAIN = Design()


@dataclass(frozen=True)
class Shared:
    """What candidates share: the `columns` QM (n, M), and which of the `kinds` ("groups", "style") each is, (M,).

    A row of the columns of a kind has the mean square 1: ω² is the variance of the scores that it explains. Columns of
    the control come first; they are of no kind, −1, and their coefficients have no prior.
    `held` (n, D) are its numbers, centred in components. `group` (n,) is the group of each candidate, where groups are
    among the kinds.
    """

    kinds: tuple[str, ...]
    kind: NDArray[np.intp]
    columns: Array
    group: Index | None = None
    held: Array | None = None

    @classmethod
    def of(cls, graph: Graph, design: Design, entries: int) -> Shared:
        """Groups are left out if the matrix has more than so many entries, or if no two candidates share one."""
        groups, features, control = design.groups, design.features, design.control
        found = {}
        count = 0 if groups is None else int(groups.max()) + 1
        if groups is not None and 1 < count < graph.nodes and graph.nodes * count <= entries:
            found["groups"] = graph.centre(np.eye(count)[groups])
        group = groups.astype(np.int32) if groups is not None and "groups" in found else None
        flat, held = np.zeros((graph.nodes, 0)), None
        if control is not None:
            flat, held = control.columns(graph, group), graph.centre(control.values)
        if features is not None and features.shape[1]:
            found["style"] = style = graph.centre(features)
            if control is not None:  # less what its columns explain of them
                found["style"] = style - flat @ np.linalg.lstsq(flat, style, rcond=None)[0]
        columns = np.concatenate([flat, *found.values()], axis=1)
        kind = np.repeat(np.arange(len(found)), [block.shape[1] for block in found.values()])
        return cls(tuple(found), np.concatenate([np.full(flat.shape[1], -1), kind]), columns, group, held)

    @property
    def is_group(self) -> Mask:
        """Which of the columns are groups, (M,)."""
        number = self.kinds.index("groups") if "groups" in self.kinds else len(self.kinds)
        return np.asarray(self.kind == number)
