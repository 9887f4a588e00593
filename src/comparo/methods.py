"""`fit`: all methods of the paper, by their names."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from comparo.data.comparisons import Comparisons
from comparo.model.control import Control
from comparo.model.estimators.bradley_terry import Algorithm, zermelo
from comparo.model.estimators.bt_sigma import bt_sigma
from comparo.model.estimators.mixed import mixed
from comparo.model.estimators.panel import panel
from comparo.model.estimators.poe import WIDE, Bias, Prior, davidson, multiply
from comparo.model.inference.newton import Problem
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.likelihoods.experts import Expert
from comparo.model.likelihoods.gaussian import Gaussian
from comparo.model.linalg.graph import Batch, Graph, Pattern
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.posterior import Posterior
from comparo.model.tuning import LIMITS, Limits
from comparo.ranking.consensus import check_validity, consensus
from comparo.ranking.grouping import Held, control_of, named_traits
from comparo.ranking.ranking import Estimate, Ranking
from comparo.ranking.votes import rank_votes, shared_ids
from comparo.types import Array, Index

Method = Literal[
    "win-ratio", "bt", "avg-prob", "poe-bt", "poe-g", "poe-g-hard", "davidson", "mixed", "panel", "bt-sigma"
]
PriorPairs = Literal["none", "compared", "all"]

METHODS: tuple[str, ...] = get_args(Method)
# Soft answers vary less than the coin flips of decisions: the prior WIDE would have more effect on their scores.
WIDER = 100.0
MOST_PAIRS = 50_000_000  # 400 MB of node numbers


def fit(
    data: Any,
    method: Method | Expert | None = None,
    *,
    bias: Bias | None = None,
    prior: Prior | None = None,
    groups: Mapping[Any, Hashable] | Literal["items"] | None = None,
    features: Mapping[Any, Sequence[float]] | None = None,
    control: Held | None = None,
    people: Collection[Hashable] = (),
    estimate: Estimate = "judge",
    validity: float | None = None,
    algorithm: Algorithm = "zermelo",
    prior_pairs: PriorPairs = "none",
    level: float = 0.95,
    limits: Limits = LIMITS,
) -> Ranking:
    """Estimate scores, a ranking and its uncertainty from pairwise comparisons.

    Parameters
    ----------
    data
        A file (CSV, JSONL, Parquet, each also gzipped), a pandas or polars frame, rows (first, second, p), an N × N
        matrix of P(row beats column), or `Comparisons`. With a column `context` every context is ranked on its own.
    method
        By default people's votes (a folder of `comparo vote`, a column `voter`) are ranked as everywhere
        (`comparo.ranking.votes.rank_votes`, docs/vote.md), unless an argument asks for something else than groups and
        a level; all other comparisons by "poe-bt".

        - "poe-bt": product of soft Bradley–Terry experts, with a wide Gaussian prior;
        - "poe-g": product of Gaussian experts, μ(p) = p − ½, constant variance; "poe-g-hard": the same on decisions;
        - "avg-prob": an item's mean probability; "win-ratio": its mean decision;
        - "davidson": Bradley–Terry on decisions with ties, and a tie parameter ν for each judge (docs/fitting.md);
        - "bt": Bradley–Terry on decisions by maximum likelihood, Σ w·[y·d − log(1 + e^d)];
        - "mixed": scores, position biases and noise with variances estimated from the answers (docs/fitting.md), the
          default of `comparo rank`: "poe-bt" with prior "estimated" and bias "joint";
        - "panel": the consensus of several judges, each with a scale, a taste, a position bias and noise of its own
          (docs/panel.md); with one judge the same as "mixed";
        - "bt-sigma": Bradley–Terry with a discrimination for each judge (BT-σ);
        - an expert of your own: any object with log_density, slope and curvature.

        A decision is p > ½; p = ½ is a tie. It counts as half a win, but "davidson", "mixed" and "panel" model the ties
        of a judge whose answers are decisions and ties.
    bias
        The position bias, for products of experts: "none" (default, also None), "plug-in" (from the mean p) or "joint"
        (estimated together with the scores); see `comparo.model.estimators.poe.multiply`.
    prior
        For products of experts: the standard deviation of a Gaussian prior on the scores, or "first", the paper's
        expert on the first item. Default: "first" for Gaussian experts; for others 100, or 10 where every answer is a
        decision. "estimated": the variances of scores, biases and noise are estimated from the comparisons, both orders
        of a pair are one observation, and scores are shrunk towards what their group and features predict
        (`comparo.model.estimators.mixed.mixed`).
    groups, features
        With prior "estimated", "mixed" and "panel": the group, and a sequence of numbers, for each item or pair
        (context, item). `groups="items"`: the same item in other contexts.
    control
        With prior "estimated", "mixed" and "panel": what is held equal, as {"length": {"ana": "Once …"}}: a name, and
        for each item or pair (context, item) its text, whose length it is, or a number. The ranking is as without it;
        its `controlled` is that at equal length, and `control` what a judge gives for length (docs/control.md).
    people
        With "panel": the judges that are people. The consensus is what they say, without a taste of their own.
    estimate, validity
        "judge": the scores are the judge's. "consensus", with groups (or, for one judge, features): what people would
        say, as far as the judge or the panel can tell; `validity` is the share, from 0 to 1, of its view of a text
        beyond its group that people share, by default the usual one (`comparo.ranking.consensus.consensus`).
    algorithm, prior_pairs
        For "bt". `prior_pairs="none"`: no prior, by Newton's method. The maximum does not exist in a component where
        some items won every comparison with the others (its graph from winner to loser is not strongly connected);
        there, and only there, the scores have a Gaussian prior of standard deviation 10. With "compared", each
        comparison made has 1/(N − 1) additional wins for both sides, as the paper writes, which draws the scores
        together; with "all", every pair of items has them, as in the code of its authors. Both are solved by Zermelo's
        `algorithm` to 1e-4, or by "newman" in fewer iterations.
    level
        The coverage of intervals, between 0 and 1.
    limits
        Tolerances, sizes and numbers of draws of the solvers (`comparo.model.tuning.Limits`).

    Returns
    -------
    Ranking
        Scores are centred in each connected component, except for "avg-prob" and "win-ratio", where they are means.
        Its `notes` are also issued as warnings.

    Raises
    ------
    ComparisonsError
        If the data cannot be used.
    ValueError, TypeError
        If an argument has no meaning, or not with this method.

    Examples
    --------
    >>> ranking = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.1)])
    >>> list(ranking)
    ['a', 'b', 'c']
    """
    ranking = quiet_fit(
        data,
        method,
        bias=bias,
        prior=prior,
        groups=groups,
        features=features,
        control=control,
        people=people,
        estimate=estimate,
        validity=validity,
        algorithm=algorithm,
        prior_pairs=prior_pairs,
        level=level,
        limits=limits,
    )
    for note in ranking.notes:
        warnings.warn(note, stacklevel=2)
    return ranking


def quiet_fit(
    data: Any,
    method: Method | Expert | None = None,
    *,
    bias: Bias | None = None,
    prior: Prior | None = None,
    groups: Mapping[Any, Hashable] | Literal["items"] | None = None,
    features: Mapping[Any, Sequence[float]] | None = None,
    control: Held | None = None,
    people: Collection[Hashable] = (),
    estimate: Estimate = "judge",
    validity: float | None = None,
    algorithm: Algorithm = "zermelo",
    prior_pairs: PriorPairs = "none",
    level: float = 0.95,
    limits: Limits = LIMITS,
) -> Ranking:
    """`fit` without warnings: the notes are in `Ranking.notes` only.

    >>> quiet_fit([("a", "b", 0.8), ("c", "d", 0.8)]).notes[0][:54]
    'the comparisons fall into groups that are not connecte'
    """
    comparisons = Comparisons.of(data)
    if method is None:
        is_plain = not (bias or prior or features or control or people) and (estimate, validity) == ("judge", None)
        if is_plain and comparisons.voted and comparisons.hard:
            _check("mixed", "joint", "estimated", algorithm, prior_pairs, level)
            return rank_votes(comparisons, groups or shared_ids(comparisons), level, limits)
        method = "poe-bt"
    if method in ("mixed", "panel"):
        bias, prior = bias or "joint", prior or "estimated"
    bias = "none" if bias is None else bias
    _check(method, bias, prior, algorithm, prior_pairs, level)
    _check_people(method, comparisons, people)
    if prior != "estimated" and (groups is not None or features is not None):
        raise ValueError("groups and features belong to prior='estimated'; add that, or leave them out")
    if prior != "estimated" and control is not None:
        raise ValueError("control belongs to prior='estimated' and the methods mixed and panel; add one of them")
    _one_of("estimate", estimate, get_args(Estimate))
    check_validity(validity)
    if estimate == "judge" and validity is not None:
        raise ValueError("validity belongs to estimate='consensus'; add that, or leave it out")
    if estimate == "consensus" and groups is None and features is None:
        raise ValueError("estimate='consensus' needs prior='estimated' and groups; add them, or use estimate='judge'")
    if method in ("poe-g-hard", "bt", "win-ratio", "davidson"):
        comparisons = comparisons.decisions()
    if method == "bt":
        return _bradley_terry(comparisons, algorithm, prior_pairs, level, limits)
    if method in ("win-ratio", "avg-prob"):
        return _mean(comparisons, method, level, limits)
    if method == "bt-sigma":
        sigma = bt_sigma(comparisons, WIDE, limits)
        covariance = Posterior((sigma.laplacian,))
        return Ranking(method, comparisons, sigma.graph, sigma.scores, covariance, level, converged=sigma.converged)
    expert = method if isinstance(method, Expert) else Gaussian() if method.startswith("poe-g") else BradleyTerry()
    title = method if isinstance(method, str) else type(method).__name__
    is_given = prior is not None
    if prior is None:
        prior = "first" if isinstance(expert, Gaussian) else WIDE if comparisons.hard else WIDER
    if prior == "estimated":
        group, rows = named_traits(comparisons, groups, features)
        is_panel = method == "panel" and len(np.unique(comparisons.judged_by)) > 1

        def estimated(held: Control | None) -> Ranking:
            given: dict[str, Any] = {
                "is_biased": bias == "joint",
                "groups": None if group is None else group[0],
                "features": rows,
            }
            given |= {"control": held, "limits": limits}
            if is_panel:
                several = panel(comparisons, people=people, **given)
                ranking = Ranking(
                    title, comparisons, several.graph, several.scores, several.opinion.posterior, level, panel=several
                )
                return replace(ranking, converged=several.converged, group=group)
            product = mixed(comparisons, expert, **given)
            ranking = Ranking(
                title,
                product.comparisons,
                product.graph,
                product.scores,
                product.posterior,
                level,
                product,
                product.converged,
            )
            return replace(ranking, group=group)

        found = estimated(None)
        if control is not None:
            numbers = control_of(comparisons, control)
            if not (varies := numbers.varies(found.graph)).all():
                name = numbers.names[int(np.argmin(varies))]
                raise ValueError(f"control {name!r}: all texts of a context are alike in it; leave it out")
            found = replace(found, controlled=estimated(numbers))
        return found if estimate == "judge" else consensus(found, validity)
    if method == "davidson":
        product = davidson(comparisons, prior=prior, bias=bias, is_scaled=is_given, limits=limits)
    else:
        product = multiply(comparisons, expert, prior=prior, bias=bias, is_scaled=is_given, limits=limits)
    graph, scores, posterior = product.graph, product.scores, product.posterior
    return Ranking(title, comparisons, graph, scores, posterior, level, product, product.converged)


def _check(method: object, bias: str, prior: Any, algorithm: str, prior_pairs: str, level: float) -> None:
    if isinstance(method, str):
        _one_of("method", method, METHODS)
    elif isinstance(method, type) or not isinstance(method, Expert):
        raise TypeError(f"method is a name ({', '.join(METHODS)}) or an expert such as StudentT(), not {method!r}")
    _one_of("bias", bias, get_args(Bias))
    _one_of("algorithm", algorithm, get_args(Algorithm))
    _one_of("prior_pairs", prior_pairs, get_args(PriorPairs))
    number = isinstance(prior, Real) and not isinstance(prior, bool)
    if not (prior is None or prior in ("first", "estimated") or (number and 1e-100 < prior < 1e100)):
        raise ValueError(f"prior is a standard deviation above 0, 'first' or 'estimated', not {prior!r}")
    if prior == "estimated" and bias == "plug-in":
        raise ValueError(
            "prior='estimated' finds the bias with the scores; use bias='joint' or 'none', or method='poe-bt'"
        )
    if not 0 < level < 1:
        raise ValueError(f"level is a probability between 0 and 1, not {level!r}")
    if method in ("mixed", "panel") and prior != "estimated":
        raise ValueError(
            f"'{method}' estimates its prior; leave prior out, or use method='poe-bt' with prior={prior!r}"
        )
    if method in ("win-ratio", "avg-prob", "bt", "bt-sigma"):
        if bias != "none":
            raise ValueError(
                f"'{method}' has no bias term; use method='poe-bt', 'poe-g' or 'poe-g-hard' with bias={bias!r}"
            )
        if prior is not None:
            raise ValueError(f"'{method}' takes no prior on the scores; use method='poe-bt' with prior={prior!r}")
    if method != "bt" and (algorithm, prior_pairs) != ("zermelo", "none"):
        raise ValueError("algorithm and prior_pairs belong to method='bt'")
    if prior_pairs == "none" and algorithm != "zermelo":
        raise ValueError("algorithm belongs to prior_pairs='compared' or 'all'; without them it is not used")


def _check_people(method: object, comparisons: Comparisons, people: Collection[Hashable]) -> None:
    if isinstance(people, str):
        raise TypeError(f"people is a list of judges, such as [{people!r}], not a single name")
    if people and method != "panel":
        raise ValueError("people belong to method='panel'; add that, or leave them out")
    known = [] if comparisons.judges is None else comparisons.judges.tolist()
    if missing := [name for name in people if name not in known]:
        raise ValueError(f"the comparisons have no judge {missing[0]!r}; their judges are {', '.join(map(str, known))}")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is one of {', '.join(map(repr, allowed))}, not {value!r}")


@dataclass(frozen=True)
class MeanInverse:
    """D⁻¹ L D⁻¹ of scores that are an item's mean outcome, L the Laplacian of the weights and D its diagonal.

    An outcome p for the first is 1 − p for the second, hence the negative covariance of opponents.
    """

    laplacian: Laplacian

    @property
    def pattern(self) -> Pattern:
        return self.laplacian.pattern

    def inverse(self, batch: Batch) -> Array:
        weight = self.laplacian.diagonal[batch.nodes].reshape(-1, batch.size)
        scale = 1.0 / np.where(weight > 0, weight, np.inf)
        matrix = self.laplacian.dense(batch) - self.laplacian.constants(batch)
        return np.asarray(scale[:, :, None] * matrix * scale[:, None, :])

    def variances(self, begin: int) -> Array:
        weight = self.laplacian.diagonal[begin:]
        return np.asarray(1.0 / np.where(weight > 0, weight, np.nan))

    def difference(self, one: int, other: int) -> float:
        pattern, weight = self.pattern, self.laplacian.diagonal
        ends = np.sort([pattern.first, pattern.second], axis=0)
        between = np.all(ends == np.sort([one, other])[:, None], axis=0)
        opposed = float(np.sum(self.laplacian.c[between])) / (weight[one] * weight[other])
        return float(1 / weight[one] + 1 / weight[other] + 2 * opposed)


def _mean(comparisons: Comparisons, name: str, level: float, limits: Limits) -> Ranking:
    """Σ w·p over Σ w, where an item's p is 1 − p when it is shown second."""
    graph = Graph.build(comparisons)
    n, p = graph.nodes, comparisons.p
    weight = comparisons.weights
    pattern = Pattern(graph, limits=limits)
    laplacian = Laplacian(pattern, weight[pattern.order], np.zeros(n))
    total = laplacian.diagonal
    won = np.bincount(graph.first, weight * p, n) + np.bincount(graph.second, weight * (1 - p), n)
    scores = np.divide(won, total, out=np.full(n, 0.5), where=total > 0)
    squares = np.sum(weight * ((p - scores[graph.first]) ** 2 + (1 - p - scores[graph.second]) ** 2))
    freedom = max(0, 2 * len(p) - n)
    unknown = 1.0 / (1.0 + freedom)  # weight of the variance of a coin, ¼, for very few comparisons
    variance = float((0.25 * unknown + squares) / (unknown + freedom))
    return Ranking(name, comparisons, graph, scores, Posterior((MeanInverse(laplacian),), scale=variance), level)


def _bradley_terry(
    comparisons: Comparisons, algorithm: Algorithm, prior_pairs: PriorPairs, level: float, limits: Limits
) -> Ranking:
    graph = Graph.build(comparisons)
    if prior_pairs == "none":
        ridge = np.where(_has_maximum(graph, comparisons)[graph.component], 0.0, 1.0 / WIDE**2)
        problem = Problem.of(Pattern(graph, limits=limits), BradleyTerry(), comparisons, ridge)
        found = problem.maximise(np.zeros(graph.nodes))
        covariance, scores = Posterior((found.laplacian,)), graph.centre(found.x)
        return Ranking("bt", comparisons, graph, scores, covariance, level, converged=found.converged)
    weight = comparisons.weights
    position = graph.position
    extra = 1.0 / (np.diff(graph.starts) - 1.0)
    won, lost = weight * comparisons.p, weight * (1 - comparisons.p)
    played = graph
    if prior_pairs == "compared":
        prior = np.where(weight > 0, extra[position[graph.first]], 0.0)
        won, lost = won + prior, lost + prior
    else:
        first, second = _all_pairs(graph)
        prior = extra[position[first]]
        won, lost = np.concatenate([won, prior]), np.concatenate([lost, prior])
        both = np.concatenate([graph.first, first]), np.concatenate([graph.second, second])
        graph = replace(graph, component=position)
        played = replace(graph, first=both[0], second=both[1])
    scores, _, converged = zermelo(played, won, lost, algorithm, limits=limits)
    difference = scores[played.first] - scores[played.second]
    curvature = BradleyTerry().curvature(difference, won)
    pattern = Pattern(played, limits=limits)
    laplacian = Laplacian(pattern, ((won + lost) * curvature)[pattern.order], np.zeros(graph.nodes))
    # A small last step does not show that the algorithm has arrived: on a long chain all steps are small.
    left = laplacian.solve(pattern.gather((won - (won + lost) * expit(difference))[pattern.order]), accuracy=1e-2)
    converged = converged and float(np.max(np.abs(left))) <= limits.zermelo_error
    return Ranking("bt", comparisons, graph, scores, Posterior((laplacian,)), level, converged=converged)


def _has_maximum(graph: Graph, comparisons: Comparisons) -> NDArray[np.bool_]:
    """Whether the likelihood of Bradley–Terry has a maximum in each component (Ford 1957): strongly connected wins."""
    won, lost = (comparisons.weights * share > 0 for share in (comparisons.p, 1.0 - comparisons.p))
    winner, loser = (
        np.concatenate([one[won], other[lost]])
        for one, other in ((graph.first, graph.second), (graph.second, graph.first))
    )
    beat = sparse.coo_array((np.ones(len(winner)), (winner, loser)), shape=(graph.nodes, graph.nodes))
    strong = connected_components(beat, directed=True, connection="strong")[1]
    parts = np.unique(np.column_stack([graph.component, strong]), axis=0)[:, 0]
    return np.asarray(np.bincount(parts) == 1)


def _all_pairs(graph: Graph) -> tuple[Index, Index]:
    """Every pair of nodes of every context."""
    pairs = sum(size * (size - 1) // 2 for size in np.diff(graph.starts).tolist())
    if pairs > MOST_PAIRS:
        raise ValueError(f"prior_pairs='all' would add {pairs:,} pairs; use prior_pairs='compared' for so many items")
    parts = [np.add(np.triu_indices(end - start, 1), start) for start, end in itertools.pairwise(graph.starts.tolist())]
    first, second = np.concatenate(parts, axis=1).astype(np.int32)
    return first, second
