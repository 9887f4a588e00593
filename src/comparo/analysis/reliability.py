"""The reliability of each voice without labels: the share of signal in its answers.

One answer of voice r about two texts, in logits and one order, is (`panel`, `comparo.model.estimators.voice`)

    y = a_r·(t_i − t_j) + (u_ri − u_rj) − γ_rc + (e_ri + e_rj) + noise,

the consensus t, the voice's own taste u, its position bias by context γ and by text e, and noise. The mean square M of
y is the sum of theirs, and each part is a share of M:

    content  = 2·v_r / M,    v_r = a_r² + τ_r²                depends on the texts
    position = (γ̄² + Var γ + 2·Var e) / M                     depends on the order
    noise    = φ_r / M                                        the rest,        M = 2·v_r + γ̄² + Var γ + 2·Var e + φ_r
    signal   = 2·a_r² / M = ρ_r²·content                      the part of its content that other voices confirm

The noise of a decision is that of the logistic distribution behind Bradley–Terry, φ = π²/3.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from comparo.analysis.correlations import mean_known
from comparo.data.comparisons import Comparisons
from comparo.data.formats import read_columns
from comparo.data.run_folder import database_of, judged
from comparo.model.estimators.panel_members import PanelMembers, fit_members
from comparo.ranking.ranking import Ranking
from comparo.ranking.self_consistency import count_flips
from comparo.types import Array, check_level

PARTS = 20  # of the jackknife: each leaves out a twentieth; Student's t with 19 degrees of freedom
CONTEXTS = 20  # fewest contexts to leave out whole ones, else texts: with 12 contexts, intervals were too short
LEAST_TEXTS = 10  # texts, and parts with a voice's answers, for an interval
MEASURES = ("signal", "agreement", "content", "position", "noise", "gamma", "flips", "ties", "mass")


def reliability(data: Any, *, level: float = 0.95, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Return reliability measures of each voice from the answers alone: a table with a row per voice.

    A voice is a judge of the comparisons; with none named, all answers are those of one voice. Voices of fewer than 30
    comparisons are pooled as "others".

    Parameters
    ----------
    data
        Comparisons in any form that `fit` reads, or what `fit` returned. A file may have a column `mass`; a run folder
        has it.
    level
        The coverage of intervals, between 0 and 1.
    seed
        Of the parts of the jackknife, which leaves out a twentieth of the contexts, or of the texts where there are
        fewer than 20 contexts.

    Returns
    -------
    dict of ndarrays of shape (R,)
        judge, calls and, each with its interval in …_low and …_high:

        - signal: the share of the mean square of an answer (in logits, one order) that is the consensus of the voices;
        - agreement: ρ, the correlation of its scores with the consensus; negative for a reversed voice;
        - content, position, noise: the shares about the texts, about the order, and the rest; their sum is 1, and
          signal = agreement²·content;
        - gamma: the mean position bias in logits;
        - flips: the share of pairs asked in both orders whose verdicts contradict each other;
        - ties: the share of answers p = ½;
        - mass: the mean probability of the labels.

        NaN where the comparisons do not determine a number: signal and agreement of a single voice, agreement of voices
        that contradict each other without a majority, flips without pairs in both orders, mass where it was not
        recorded, intervals of fewer than 10 texts.

    Raises
    ------
    ComparisonsError
        If the data cannot be used.
    ValueError
        If `level` is not between 0 and 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth, rows = rng.standard_normal(40), []
    >>> for judge, noise in (("ana", 0.5), ("bo", 0.5), ("coin", 5.0)):
    ...     i, j = rng.integers(40, size=(2, 400))
    ...     p = 1 / (1 + np.exp(truth[j] - truth[i] - noise * rng.standard_normal(400)))
    ...     rows += [{"first": a, "second": b, "p": q, "judge": judge} for a, b, q in zip(i, j, p) if a != b]
    >>> table = reliability(rows)
    >>> table["judge"].tolist(), table["signal"].round(1).tolist()
    (['ana', 'bo', 'coin'], [0.8, 0.8, 0.1])
    """
    check_level(level)
    comparisons = data.comparisons if isinstance(data, Ranking) else Comparisons.of(data)
    return Jackknife.of(comparisons, _mass(data), seed).table(level)


@dataclass(frozen=True)
class Jackknife:
    """The `MEASURES` of R voices: `found` (M, R) from all answers, `parts` from all but one part, each (M, R)."""

    heard: PanelMembers
    found: Array
    parts: list[Array]

    @classmethod
    def of(cls, comparisons: Comparisons, mass: Array | None = None, seed: int = 0) -> Jackknife:
        """The measures of some comparisons; `mass` (K,) where it was recorded."""
        whole, parts = fit_members(comparisons), []
        for kept in _parts(comparisons, np.random.default_rng(seed)):
            some = comparisons.take(kept)
            parts.append(_placed(whole.names, some, None if mass is None else mass[kept]))
        return cls(whole, measured(comparisons, whole, mass), parts)

    def table(self, level: float) -> dict[str, NDArray[Any]]:
        """The table that `reliability` returns."""
        names = self.heard.names
        table: dict[str, NDArray[Any]] = {
            "judge": np.array([str(name) for name in names], dtype=object),
            "calls": np.array([voice.answers for voice in self.heard.voices]),
        }
        for number, name in enumerate(MEASURES):
            least = np.array([voice.bias_error if name == "gamma" else 0.0 for voice in self.heard.voices])
            low, high = _interval(name, self.found[number], [part[number] for part in self.parts], least, level)
            table |= {name: self.found[number], f"{name}_low": low, f"{name}_high": high}
        return table

    def lead(self, measure: Callable[[Array], Array], best: int, level: float) -> tuple[Array, Array]:
        """The ends (R,) of intervals of the measure of voice `best` less that of each voice; NaN where not known.

        `measure` computes it (R,) from the `MEASURES` (M, R).

        The R − 1 intervals hold jointly with probability `level` (Bonferroni). The jackknife is of the difference,
        since voices answered about the same texts: it may be above 0 where the intervals of two voices overlap.
        """
        found = measure(self.found)
        value = found[best] - found
        if not self.parts:
            return np.full_like(value, np.nan), np.full_like(value, np.nan)
        each = np.array([(values := measure(part))[best] - values for part in self.parts])
        error, count = _error(each)
        reach = stdtrit(count - 1, 1.0 - (1.0 - level) / 2 / max(len(value) - 1, 1)) * error
        return value - reach, value + reach


def _mass(data: Any) -> Array | None:
    """The column mass of a file or of a run folder, (K,); None for anything else."""
    if not isinstance(data, (str, os.PathLike)):
        return None
    database = database_of(data)
    table = read_columns(data, wanted=["mass"]) if database is None else judged(database)
    column = table.columns.get("mass")
    return None if column is None else np.asarray(column, dtype=np.float64)


def measured(comparisons: Comparisons, found: PanelMembers, mass: Array | None) -> Array:
    """The `MEASURES` of each voice, (len(MEASURES), R), without intervals; `mass` (K,) where it was recorded."""
    gamma = np.array([np.mean(voice.mean_bias) for voice in found.voices])
    content, position, noise = np.array([voice.parts for voice in found.voices]).T
    total = content + position + noise
    shared = found.loading if len(found.names) > 1 else np.full(1, np.nan)
    agreement = np.where(found.undecided, np.nan, shared)
    model = [shared**2 * content / total, agreement, content / total, position / total, noise / total, gamma]
    counted = []
    for r in range(len(found.names)):
        own = comparisons.take(found.voice == r)
        labels = np.nan if mass is None else mean_known(mass[found.voice == r])
        counted.append([count_flips(own).share, np.mean(own.p == 0.5), labels])
    return np.array([*model, *zip(*counted, strict=True)])


def _parts(comparisons: Comparisons, rng: np.random.Generator) -> list[NDArray[np.bool_]]:
    """The comparisons that remain, (K,), when each of up to `PARTS` parts of the contexts or texts is left out."""
    contexts = 1 if comparisons.contexts is None else len(comparisons.contexts)
    context = np.zeros(len(comparisons), dtype=np.int64) if comparisons.context is None else comparisons.context
    if contexts >= CONTEXTS:
        ends = [np.unique(context, return_inverse=True)[1]]
    else:
        codes = [context * len(comparisons.items) + end for end in (comparisons.first, comparisons.second)]
        ends = list(np.unique(np.concatenate(codes), return_inverse=True)[1].reshape(2, -1))
    units = int(max(end.max() for end in ends)) + 1
    if units < LEAST_TEXTS:
        return []
    parts = min(PARTS, units)
    part = rng.permutation(np.arange(units) % parts)
    return [np.all([part[end] != number for end in ends], axis=0) for number in range(parts)]


def _placed(names: tuple[Any, ...], comparisons: Comparisons, mass: Array | None) -> Array:
    """The measures (M, R) of the voices `names`, NaN where too few of a voice's comparisons remain."""
    placed = np.full((len(MEASURES), len(names)), np.nan)
    if len(comparisons):
        found = fit_members(comparisons)
        values = measured(comparisons, found, mass)
        for r, name in enumerate(found.names):
            if name in names:
                placed[:, names.index(name)] = values[:, r]
    return placed


def _interval(name: str, value: Array, parts: list[Array], least: Array, level: float) -> tuple[Array, Array]:
    """The ends (R,) of the jackknife interval, computed on a variance-stabilising scale.

    Var = (G − 1)/G·Σ (θ_g − θ̄)², with θ = arcsin √x of a share, arcsin ρ of the agreement, and γ as it is. The standard
    error is at least `least` (R,): that of γ over contexts, which a jackknife over texts misses.
    """
    if not parts:
        return np.full_like(value, np.nan), np.full_like(value, np.nan)
    turn, back, ends = _SCALES.get(name, _SHARE)
    theta, each = turn(value), turn(np.array(parts))
    error, count = _error(each)
    reach = stdtrit(count - 1, 0.5 + level / 2) * np.maximum(error, least)
    low, high = (back(np.clip(theta + side * reach, *ends)) for side in (-1, 1))
    return low, high


def _error(each: Array) -> tuple[Array, Array]:
    """The jackknife standard error (R,) of values (G, R), NaN below `LEAST_TEXTS` parts, and the number of parts."""
    count = np.sum(~np.isnan(each), axis=0)
    known = count >= LEAST_TEXTS
    count = np.where(known, count, 2)
    square = np.nansum((each - np.nansum(each, axis=0) / count) ** 2, axis=0)
    return np.where(known, np.sqrt((count - 1) / count * square), np.nan), count


Transformation = tuple[Callable[[Array], Array], Callable[[Array], Array], tuple[float, float]]
_SHARE: Transformation = (
    lambda x: np.arcsin(np.sqrt(np.clip(x, 0.0, 1.0))),
    lambda x: np.sin(x) ** 2,
    (0.0, np.pi / 2),
)
_SCALES: dict[str, Transformation] = {
    "agreement": (lambda x: np.arcsin(np.clip(x, -1.0, 1.0)), np.sin, (-np.pi / 2, np.pi / 2)),
    "gamma": (lambda x: x, lambda x: x, (-np.inf, np.inf)),
}
