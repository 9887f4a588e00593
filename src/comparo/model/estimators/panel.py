"""Several voices in one model: their consensus, each voice's own taste, and noise.

A voice is a judge with a wording, or a person. Voice r sees candidate i as

    x_ri = a_r·t_i + u_ri,      t = group + style + own,    u_r ~ N(0, τ_r²),

and answers with its own position bias and noise φ_r (`voice`). t is the consensus; a_r may be small, or negative for a
voice that ranks the other way round. Voices with the same taste are a family and count as one opinion with several
answers (`panel_members`). Given the variances, the model is one linear system (`panel_covariance`). The covariance of t
includes the disagreement of the voices: it stays large with many answers of few voices. Scores are in logits of the
mean voice: mean |a_r| = 1. Voices that contradict each other without a majority do not identify the sign of t; its
posterior is the mixture of both signs, with equal shares.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from comparo.data.comparisons import Comparisons
from comparo.model.design import PLAIN, Design, Shared
from comparo.model.estimators.panel_covariance import Panel, PanelGraph, PanelInformation
from comparo.model.estimators.panel_members import PanelMembers, fit_members
from comparo.model.estimators.voice import VoiceModel
from comparo.model.inference.choices import Choices
from comparo.model.inference.ep import distance, settle
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.posterior import difference_variances, evenly
from comparo.model.solution import Solution
from comparo.model.tuning import LIMITS, Limits
from comparo.types import Array

ACCURACY = 1e-6  # of the solution, relative: far below any standard error


def panel(
    comparisons: Comparisons, design: Design = PLAIN, people: Collection[Any] = (), limits: Limits = LIMITS
) -> Solution:
    """Fit the model of several voices, one for each judge of the comparisons.

    Voices named in `people` have no taste of their own: they observe the consensus. With a control each voice has its
    own coefficients.

    >>> rng = np.random.default_rng(0)
    >>> truth, rows = rng.standard_normal(30), []
    >>> for judge, scale in (("ana", 1.0), ("bo", 1.0), ("cy", -1.0)):
    ...     i, j = rng.integers(30, size=(2, 300))
    ...     p = 1 / (1 + np.exp(-scale * (truth[i] - truth[j]) - 0.5 * rng.standard_normal(300)))
    ...     rows += [{"first": a, "second": b, "p": q, "judge": judge} for a, b, q in zip(i, j, p) if a != b]
    >>> found = panel(Comparisons.from_rows(rows))
    >>> np.sign(found.panel.loading), bool(np.corrcoef(found.scores, truth)[0, 1] > 0.98)
    (array([ 1.,  1., -1.]), True)
    """
    heard = fit_members(comparisons, design, people, limits)
    control, shared = design.control, Shared.of(heard.graph, replace(design, control=None), limits.shared_entries)
    leans = None if control is None else heard.graph.centre(control.values)
    return _together(comparisons, heard, shared, leans, limits)


def of_those_that_count(solution: Solution) -> Solution:
    """The solution of a panel refitted with the voices in `Panel.counts` only."""
    panel = solution.panel
    if panel is None or panel.counts.all():
        return solution
    comparisons, heard = solution.comparisons.take(panel.counts[panel.voice]), panel.only(panel.counts)
    return _together(comparisons, heard, panel.shared, panel.leans, panel.opinion.panel_graph.limits)


def _together(
    comparisons: Comparisons, heard: PanelMembers, shared: Shared, leans: Array | None, limits: Limits
) -> Solution:
    """The solution; of voices that are undecided, the mixture of those with either of their signs."""
    if not heard.undecided.any():
        return _with_signs(comparisons, heard, shared, leans, limits)
    sure, either = np.zeros_like(heard.undecided), []
    for turn in (1.0, np.where(heard.undecided, -1.0, 1.0)):
        loading, shrunk = turn * heard.loading, turn * heard.shrunk_loading
        one = replace(heard, loading=loading, shrunk_loading=shrunk, undecided=sure)
        either.append(_with_signs(comparisons, one, shared, leans, limits))
    scores, posterior = evenly([(one.scores, one.covariance) for one in either])
    panel = either[0].panel
    assert panel is not None
    panel = replace(panel, undecided=heard.undecided)
    return replace(either[0], scores=scores, covariance=posterior, panel=panel, either=tuple(either))


def _with_signs(
    comparisons: Comparisons, heard: PanelMembers, shared: Shared, leans: Array | None, limits: Limits
) -> Solution:
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
    panel = Panel(
        **vars(heard) | {"voices": tuple(voices)},
        scale=alpha / unit,
        opinion=opinion,
        group=group,
        shared=shared,
        leans=leans,
    )
    converged = settled and all(voice.converged for voice in voices)
    scores = unit * graph.centre(scores)
    return Solution(comparisons, graph, scores, opinion.posterior, converged, panel.bias, panel=panel)


def _coefficient_errors(voices: list[VoiceModel], loading: Array) -> Array:
    """A root of the covariance of all voices' coefficients of the control, (R·D, R·D).

    The error of a coefficient is mostly a chance correlation of a voice's view with length. Voices share these errors
    as they share their views: the errors of r and s have the correlation ρ_r·ρ_s.
    """
    roots = [np.linalg.cholesky(voice.held.covariance) for voice in voices if voice.held is not None]
    alike = np.outer(loading, loading)
    np.fill_diagonal(alike, 1.0)
    wide = np.kron(np.linalg.cholesky(alike), np.eye(len(roots[0])))
    return block_diag(*roots) @ wide


def _counted_once(voices: list[VoiceModel], family: NDArray[np.intp], turn: Array) -> Array:
    """The weight of each voice (R,): 1, or less where its residuals correlate with those of a copy.

    The weight of r is 1 / (1 + Σ κ_rs·share_rs) over its copies s, with κ the correlation of the residuals on pairs
    that both compared, and share_rs the fraction of r's observations on such pairs.
    """
    repeated = np.zeros(len(voices))
    for r, s in permutations(range(len(voices)), 2):
        if family[r] == family[s]:
            _, mine, other = np.intersect1d(voices[r].pairs, voices[s].pairs, return_indices=True)
            one, two = turn[r] * voices[r].residuals[mine], turn[s] * voices[s].residuals[other]
            size = float(np.sqrt(np.sum(one**2) * np.sum(two**2)))
            alike = max(np.sum(one * two) / size, 0.0) if size > 0 else 0.0
            repeated[r] += alike * len(mine) / len(voices[r].pairs)
    return 1.0 / (1.0 + repeated)


def _settled(
    star: PanelGraph, voices: list[VoiceModel], alpha: Array, ties: Array, share: Array
) -> tuple[list[VoiceModel], Array, Laplacian, bool]:
    """The voices with their sites updated from the joint solution, the solution (m,), its precision, and convergence.

    The site of a choice depends on what the other voices say about the same difference.
    """
    changing = [r for r, voice in enumerate(voices) if isinstance(voice.model, Choices)]
    edges = np.concatenate([[0], np.cumsum([len(voice.c) for voice in voices])])
    before: Array | float = np.inf

    def solved(voices: list[VoiceModel], _: int) -> tuple[list[VoiceModel], tuple[Array, Laplacian], float]:
        nonlocal before
        c = np.concatenate([share[r] * voice.c for r, voice in enumerate(voices)])
        pull = np.concatenate([share[r] * voice.pull for r, voice in enumerate(voices)])
        laplacian = star.laplacian(c, alpha, ties)
        last, before = before, laplacian.solve(star.rhs(pull, alpha), accuracy=ACCURACY)
        return voices, (before, laplacian), distance(before, last) if changing else 0.0

    def learn(voices: list[VoiceModel], found: tuple[Array, Laplacian], _: int) -> list[VoiceModel]:
        x, laplacian = found
        difference, variance = x[star.first] - x[star.second], star.observed(difference_variances(laplacian))
        voices = voices.copy()
        for r in changing:
            rows = slice(edges[r], edges[r + 1])
            voices[r] = voices[r].learn(alpha[r] * difference[rows], alpha[r] ** 2 * variance[rows])
        return voices

    voices, (x, laplacian), converged = settle(
        voices, solved, learn, star.limits.mixed_change, star.limits.mixed_rounds
    )
    return voices, x, laplacian, converged
