"""Voices heard one by one, and how far they agree: a panel before its consensus (`panel`)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from comparo.data.comparisons import Comparisons
from comparo.model.control import Control
from comparo.model.estimators.panel_loadings import Agreement, copies, loadings, signs
from comparo.model.estimators.voice import Voice
from comparo.model.linalg.graph import Graph
from comparo.model.tuning import LIMITS, Limits
from comparo.types import Array

FEW = 30  # comparisons below which a voice has no variances of its own: their logarithms would have errors above ¼
OTHERS = "others"  # the name of all such voices together


@dataclass(frozen=True)
class Heard:
    """R voices heard one by one, and what each knows of what they agree on.

    Parameters
    ----------
    names : The name of each voice, (R,); voices of fewer than `FEW` comparisons are one, called "others".
    voice : The voice of each comparison, (K,).
    voices : What each says on its own.
    agreement : The correlation of the views of every two voices.
    family : The family of each voice, numbered from 0, (R,).
    loading, loading_error : The best ρ of each voice, with its sign, and the standard error, (R,).
    believed : ρ of each voice as the consensus takes it, (R,): the mean of what is open about it; negative only for
        reversed voices.
    anchored : Which voices are people, (R,).
    """

    graph: Graph
    names: tuple[Any, ...]
    voice: NDArray[np.intp]
    voices: tuple[Voice, ...]
    agreement: Agreement
    family: NDArray[np.intp]
    loading: Array
    loading_error: Array
    believed: Array
    anchored: NDArray[np.bool_]

    @property
    def reversed(self) -> NDArray[np.bool_]:
        """Which voices significantly rank the other way round, so that their answers are sign-flipped, (R,)."""
        return self.believed < 0

    def interval(self, level: float) -> tuple[Array, Array]:
        """The ends of the interval of each ρ, of coverage `level`, (R,)."""
        reach = -float(ndtri((1.0 - level) / 2)) * self.loading_error
        return np.maximum(self.loading - reach, -1.0), np.minimum(self.loading + reach, 1.0)

    def only(self, kept: NDArray[np.bool_]) -> Heard | None:
        """Some of the voices (R,), with the same signs; None where they connect fewer candidates."""
        rows = kept[self.voice]
        graph = self.graph.only(rows)
        if graph is None:
            return None
        names, voices = (tuple(part[r] for r in np.flatnonzero(kept)) for part in (self.names, self.voices))
        code, sign = (np.cumsum(kept) - 1)[self.voice[rows]], np.where(self.reversed, -1.0, 1.0)
        return _agreeing(graph, names, code, voices, self.anchored[kept], sign[kept])


def hear(
    comparisons: Comparisons,
    *,
    is_biased: bool = True,
    people: Collection[Any] = (),
    control: Control | None = None,
    groups: NDArray[np.integer] | None = None,
    limits: Limits = LIMITS,
) -> Heard:
    """Each voice on its own, and how far they agree: a panel before its consensus.

    With `control` each voice is heard at equal numbers of it, whose coefficients are found within `groups` (n,).

    >>> rows = [{"first": a, "second": b, "p": p} for a, b, p in (("a", "b", 0.8), ("b", "a", 0.3), ("b", "c", 0.7))]
    >>> hear(Comparisons.from_rows(rows)).names
    ('judge',)
    """
    graph = Graph.build(comparisons)
    names, code = _named(comparisons, people)
    parts = ((comparisons, graph, code == r, is_biased, limits, control, groups) for r in range(len(names)))
    voices = tuple(_voice(*part) for part in parts)
    return _agreeing(graph, names, code, voices, np.array([name in people for name in names]))


def _agreeing(
    graph: Graph,
    names: tuple[Any, ...],
    code: NDArray[np.intp],
    voices: tuple[Voice, ...],
    anchored: NDArray[np.bool_],
    sign: Array | None = None,
) -> Heard:
    """How far voices agree; `sign` (R,) where it is known which of them are reversed."""
    agreement = Agreement.of(voices)
    family = copies(agreement)
    sign = signs(agreement, anchored) if sign is None else sign
    of_family = np.array([anchored[family == k].any() for k in range(int(family.max()) + 1)])
    content = np.array([voice.content for voice in voices])
    shown = np.bincount(family, content) / np.bincount(family)
    rho, believed, error = (part[family] for part in loadings(agreement.merged(family, sign), of_family, shown))
    return Heard(graph, names, code, voices, agreement, family, sign * rho, error, sign * believed, anchored)


def _named(comparisons: Comparisons, people: Collection[Any]) -> tuple[tuple[Any, ...], NDArray[np.intp]]:
    """The names of the voices (R,) and the voice of each comparison (K,); people are never among the others."""
    if comparisons.judges is None:
        return ("judge",), np.zeros(len(comparisons), dtype=np.intp)
    labels = comparisons.judges.tolist()
    calls = np.bincount(comparisons.judged_by, minlength=len(labels))
    own = (calls >= FEW) | (np.array([label in people for label in labels]) & (calls > 0))
    number = np.where(own, np.cumsum(own) - 1, np.count_nonzero(own))
    names = [label for label, is_own in zip(labels, own.tolist(), strict=True) if is_own]
    code = number[comparisons.judged_by]
    return tuple(names if int(code.max()) < len(names) else [*names, OTHERS]), code


def pooled(comparisons: Comparisons) -> Comparisons:
    """The comparisons with the judges of fewer than `FEW` as one, "others": they tell no bias of each.

    >>> rows = [{"first": "a", "second": "b", "p": 1, "judge": person} for person in range(100)]
    >>> pooled(Comparisons.from_rows(rows)).judges.tolist()
    ['others']
    """
    names, code = _named(comparisons, ())
    if comparisons.judges is None or len(names) == len(np.unique(comparisons.judged_by)):
        return comparisons
    return replace(comparisons, judges=np.array(names, dtype=object), judge=code.astype(np.int32))


def _voice(
    comparisons: Comparisons,
    graph: Graph,
    rows: NDArray[np.bool_],
    is_biased: bool,
    limits: Limits,
    control: Control | None,
    groups: NDArray[np.integer] | None,
) -> Voice:
    own = replace(comparisons.take(rows), judges=None, judge=None)
    seen = replace(graph, first=graph.first[rows], second=graph.second[rows])
    return Voice.of(own, seen, is_biased, limits, control, groups)
