"""Several voices in one model: what they agree on, what is each one's own taste, and what is noise.

A voice is a judge with a wording, or a person. Voice r sees candidate i as

    x_ri = a_r·t_i + u_ri,      t = group + style + own,    u_r ~ N(0, τ_r²),

and answers with its own position bias and noise φ_r (`voice`). t is the consensus; a_r may be small, or negative for a
voice that ranks the other way round. Voices with the same taste are a family and count as one opinion with several
answers (`panel_members`). Given the variances, all is one linear system (`panel_covariance`); the covariance of t
includes that voices disagree, so it does not become small with many answers of few voices. Scores are in logits of the
mean voice: mean |a_r| = 1.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from comparo.data.comparisons import Comparisons
from comparo.model.design import PLAIN, Design, Shared
from comparo.model.estimators.panel_covariance import PanelGraph, PanelInformation
from comparo.model.estimators.panel_members import PanelMembers, fit_members
from comparo.model.estimators.voice import Voice
from comparo.model.inference.choices import Choices
from comparo.model.inference.ep import distance, settle
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.posterior import Posterior, difference_variances
from comparo.model.tuning import LIMITS, NEARLY, Limits
from comparo.types import Array, Index, LongIndex, Mask

ACCURACY = 1e-6  # of the solution, relative: far below any standard error


@dataclass(frozen=True)
class Panel(PanelMembers):
    """The solution for R voices in F families.

    Parameters
    ----------
    scale : a of each voice, (R,), in units of the scores.
    scores : The consensus t of each candidate, (n,), centred in each component.
    opinion : What all voices together say of t, from which its covariance is computed.
    converged : Whether variances and sites settled.
    group : The group of each candidate, (n,), where groups predict t; else None.
    shared, leans : What candidates share, and the numbers of the control, (n, D), if any.
    """

    scale: Array
    scores: Array
    opinion: PanelInformation
    converged: bool
    group: Index | None
    shared: Shared
    leans: Array | None

    @cached_property
    def counts(self) -> Mask:
        """Which voices count for what people would say, (R,): people, and those with at least `NEARLY` of the content.

        The content is that around the mean answer, since a constant bias is taken out. All voices count where fewer
        than two would be left, or where those left connect fewer candidates.
        """
        content = np.array([voice.content_around_mean for voice in self.voices])
        found: Mask = self.anchored | (content >= NEARLY * np.max(content))
        is_enough = np.count_nonzero(found) > 1 and self.graph.is_connected_by(found[self.voice])
        return found if is_enough else np.ones(len(found), dtype=bool)

    def of_those_that_count(self) -> Panel:
        """The panel of the voices that count, by their comparisons alone."""
        if self.counts.all():
            return self
        return _together(self.only(self.counts), self.shared, self.leans, self.opinion.panel_graph.limits)

    @property
    def posterior(self) -> Posterior:
        return self.opinion.posterior

    @property
    def calls(self) -> LongIndex:
        """How many answers each voice gave, (R,)."""
        return np.array([voice.answers for voice in self.voices])

    def differences(self) -> tuple[Array, Array]:
        """d = x_first − x_second − γ of each comparison as its voice sees it, and the same without γ, both (K,)."""
        views = np.array([voice.scores for voice in self.voices])
        first, second = self.graph.first, self.graph.second
        apart = views[self.voice, first] - views[self.voice, second]
        gamma = np.empty(len(apart))
        for r, voice in enumerate(self.voices):
            own = self.voice == r
            gamma[own] = voice.bias[self.graph.position[first[own]], voice.positions]
        return apart - gamma, apart

    @cached_property
    def taste(self) -> Array:
        """τ of each voice, in logits of its own answers, (R,): τ² = v·(1 − ρ²)."""
        variance = np.array([voice.variance for voice in self.voices])
        return np.sqrt(variance * (1.0 - self.shrunk_loading**2))

    @property
    def variance(self) -> float:
        """The variance of the consensus before any answer, in squares of its scores' unit."""
        return self.opinion.unit**2 * (self.opinion.variance + self.opinion.expected)

    @property
    def bias(self) -> Array:
        """γ of each context and voice, (C, R); of line-ups the mean over any two slots."""
        return np.column_stack([voice.mean_bias for voice in self.voices])


def panel(
    comparisons: Comparisons, design: Design = PLAIN, people: Collection[Any] = (), limits: Limits = LIMITS
) -> Panel:
    """The model of several voices, one for each judge of the comparisons.

    Voices named in `people` are the consensus itself, without a taste of their own. With a control each voice has its
    own coefficients.

    >>> rng = np.random.default_rng(0)
    >>> truth, rows = rng.standard_normal(30), []
    >>> for judge, scale in (("ana", 1.0), ("bo", 1.0), ("cy", -1.0)):
    ...     i, j = rng.integers(30, size=(2, 300))
    ...     p = 1 / (1 + np.exp(-scale * (truth[i] - truth[j]) - 0.5 * rng.standard_normal(300)))
    ...     rows += [{"first": a, "second": b, "p": q, "judge": judge} for a, b, q in zip(i, j, p) if a != b]
    >>> found = panel(Comparisons.from_rows(rows))
    >>> np.sign(found.loading), bool(np.corrcoef(found.scores, truth)[0, 1] > 0.98)
    (array([ 1.,  1., -1.]), True)
    """
    heard = fit_members(comparisons, design, people, limits)
    control, shared = design.control, Shared.of(heard.graph, replace(design, control=None), limits.shared_entries)
    return _together(heard, shared, None if control is None else heard.graph.centre(control.values), limits)


def _together(heard: PanelMembers, shared: Shared, leans: Array | None, limits: Limits) -> Panel:
    """The consensus of the members."""
    graph, family, anchored, voices = heard.graph, heard.family, heard.anchored, list(heard.voices)
    variance = np.array([voice.variance for voice in voices])
    alpha = heard.shrunk_loading * np.sqrt(variance)
    lead = np.unique(family, return_index=True)[1]
    ties = heard.shrunk_loading[lead] ** 2 / (1.0 - heard.shrunk_loading[lead] ** 2)
    share = _counted_once(voices, family, np.sign(heard.shrunk_loading) / np.sqrt(variance))
    star = PanelGraph.of(graph, [(voice.pattern.first, voice.pattern.second) for voice in voices], family, limits)
    voices, x, laplacian, settled = _settled(star, voices, alpha, ties, share)
    unit = float(np.mean(np.abs(alpha[anchored] if anchored.any() else alpha)))
    opinion = PanelInformation(star, laplacian, tuple(voices), alpha, ties, share, unit)
    scores, group = x[star.consensus], None
    if leans is not None:
        opinion = replace(opinion, errors=_coefficient_errors(voices, heard.shrunk_loading))
    if shared.kinds and int(np.max(np.diff(graph.starts))) <= limits.exact:
        (opinion, scores), group = opinion.expecting(shared, leans), shared.group
    elif leans is not None:
        opinion = opinion.with_coefficient_errors(leans)
    return Panel(
        **vars(heard) | {"voices": tuple(voices)},
        scale=alpha / unit,
        scores=unit * graph.centre(scores),
        opinion=opinion,
        converged=settled and all(voice.converged for voice in voices),
        group=group,
        shared=shared,
        leans=leans,
    )


def _coefficient_errors(voices: list[Voice], loading: Array) -> Array:
    """A root of the covariance of all voices' coefficients of the control, (R·D, R·D).

    What a coefficient is wrong by is mostly that the texts which a voice likes happen to be long. Of that the voices
    share as much as of their views: the correlation of the errors of r and s is ρ_r·ρ_s.
    """
    roots = [np.linalg.cholesky(voice.held.covariance) for voice in voices if voice.held is not None]
    alike = np.outer(loading, loading)
    np.fill_diagonal(alike, 1.0)
    wide = np.kron(np.linalg.cholesky(alike), np.eye(len(roots[0])))
    return block_diag(*roots) @ wide


def _counted_once(voices: list[Voice], family: NDArray[np.intp], turn: Array) -> Array:
    """The weight of each voice (R,): 1, or less where the noise of a copy's answers to the same pairs is the same.

    1 / (1 + Σ κ_rs·share_rs) over the copies s of r, with κ the correlation of their residuals on the pairs that both
    compared, and share the part of r's observations that these are.
    """
    repeated = np.zeros(len(voices))
    for r, s in permutations(range(len(voices)), 2):
        if family[r] == family[s]:
            _, mine, other = np.intersect1d(voices[r].pairs, voices[s].pairs, return_indices=True)
            one, two = turn[r] * voices[r].residuals[mine], turn[s] * voices[s].residuals[other]
            size = float(np.sqrt(np.sum(one**2) * np.sum(two**2)))
            alike = max(float(np.sum(one * two)) / size, 0.0) if size > 0 else 0.0
            repeated[r] += alike * len(mine) / len(voices[r].pairs)
    return 1.0 / (1.0 + repeated)


def _settled(
    star: PanelGraph, voices: list[Voice], alpha: Array, ties: Array, share: Array
) -> tuple[list[Voice], Array, Laplacian, bool]:
    """The voices with the sites of their choices given what all voices say, the solution (m,) and its precision.

    A choice says more or less about a difference that other voices know already.
    """
    changing = [r for r, voice in enumerate(voices) if isinstance(voice.model, Choices)]
    edges = np.concatenate([[0], np.cumsum([len(voice.c) for voice in voices])])
    before: Array | float = np.inf

    def solved(voices: list[Voice], _: int) -> tuple[list[Voice], tuple[Array, Laplacian], float]:
        nonlocal before
        c = np.concatenate([share[r] * voice.c for r, voice in enumerate(voices)])
        pull = np.concatenate([share[r] * voice.pull for r, voice in enumerate(voices)])
        laplacian = star.laplacian(c, alpha, ties)
        last, before = before, laplacian.solve(star.rhs(pull, alpha), accuracy=ACCURACY)
        return voices, (before, laplacian), distance(before, last) if changing else 0.0

    def learn(voices: list[Voice], found: tuple[Array, Laplacian], _: int) -> list[Voice]:
        x, laplacian = found
        difference, variance = x[star.first] - x[star.second], star.observed(difference_variances(laplacian))
        voices = voices.copy()
        for r in changing:
            rows = slice(edges[r], edges[r + 1])
            voices[r] = voices[r].learn(alpha[r] * difference[rows], alpha[r] ** 2 * variance[rows])
        return voices

    voices, (x, laplacian), _, converged = settle(
        voices, solved, learn, star.limits.mixed_change, star.limits.mixed_rounds
    )
    return voices, x, laplacian, converged
