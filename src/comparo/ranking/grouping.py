"""Groups, features and controlled numbers of candidates by their labels, and the leaderboard of groups of a ranking."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from comparo.data.columns import as_number, look_up
from comparo.data.comparisons import Comparisons
from comparo.data.covariates import length
from comparo.errors import Message
from comparo.model.design import Control, Design
from comparo.model.estimators.mixed import mixed
from comparo.model.estimators.panel import panel as fit_panel
from comparo.model.estimators.votes import Voted
from comparo.model.inference.random_effects import Predicted
from comparo.model.likelihoods import is_logit
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.linalg.graph import Graph
from comparo.model.posterior import Covariance, mixture_moments
from comparo.model.solution import Solution
from comparo.ranking.judge_tables import DOUBLING, held_of
from comparo.ranking.leaderboard import Leaderboard, Over, win_probability
from comparo.ranking.ranks import places
from comparo.ranking.scores import Scores
from comparo.types import Array, Index, Mask

Groups = Mapping[Any, Hashable] | Literal["items"]
SINGLE = (
    "every context was decided by one choice, so that nothing tells how far texts of one group differ: scores are on "
    "the scale of the win rate (the difference of two is its logit), and 'won' counts the contexts that a group won"
)
CONFOUNDED = (
    "position and group cannot be told apart, as where one group is always shown first: the leaderboard takes the "
    "position bias as 0; show the groups in both orders"
)
UNSETTLED = "the leaderboard's scores did not settle and may be wrong; compare more, or leave out judges of few answers"
SINGULAR = 1e-8  # added to the diagonal of PᵀP, relative to it: the mean of all groups is not determined


def group_codes(comparisons: Comparisons, graph: Graph, groups: Groups) -> tuple[Index, NDArray[Any]]:
    """The number of each candidate's group (n,), from 0, and the names of the groups (G,).

    >>> data = Comparisons.from_rows([("a1", "b1", 0.7), ("a2", "b1", 0.4)])
    >>> codes, names = group_codes(data, Graph.build(data), {"a1": "a", "a2": "a", "b1": "b"})
    >>> codes.tolist(), names.tolist()
    ([0, 1, 0], ['a', 'b'])
    """
    if groups == "items":
        return graph.item, comparisons.items
    found = [entry("groups", groups, label) for label in graph.labels(comparisons)]
    names = list(dict.fromkeys(found))
    return look_up(found, names), np.array([*names, None], dtype=object)[:-1]  # names that are tuples stay names


def entry(name: str, given: Mapping[Any, Any], label: tuple[Any, Any]) -> Any:
    """The value in the mapping `given`, called `name`, at `label` (context, item), else at the item alone."""
    for key in (label, label[1]):
        if key in given:
            return given[key]
    place = "" if label[0] is None else f" of context {label[0]!r}"
    raise ValueError(f"{name} have no entry for item {label[1]!r}{place}; give every item its own")


def numbers_by_label(name: str, given: Mapping[Any, Any], labels: Sequence[tuple[Any, Any]]) -> Array:
    """The number of each candidate (context, item) in a mapping called `name`, (n,)."""
    values = np.array([as_number(entry(name, given, label)) for label in labels])
    if not np.isfinite(values).all():
        bad = labels[int(np.argmin(np.isfinite(values)))]
        raise ValueError(f"{name} of item {bad[1]!r} is not a number; give every item one")
    return values


def group_counts(graph: Graph, group: Index, count: int, rows: Any = slice(None)) -> dict[str, Any]:
    """The number of texts, contexts and comparisons of each group, (G,), in the comparisons `rows`."""
    nodes = np.concatenate([graph.first[rows], graph.second[rows]])
    texts = np.unique(nodes)
    pairs = np.unique(group[texts].astype(np.int64) * graph.contexts + graph.position[texts])
    there = pairs // graph.contexts
    found = {"texts": group[texts], "contexts": there, "calls": group[nodes]}
    return {name: np.bincount(groups, minlength=count) for name, groups in found.items()}


def group_means(graph: Graph, group: Index) -> tuple[Array, Array]:
    """P (n, G), group indicators centred in components, and W = (PᵀP)⁻¹Pᵀ (G, n): W·scores are group means."""
    columns = graph.centre(np.eye(int(group.max()) + 1)[group])
    square = columns.T @ columns
    ridge = SINGULAR * np.mean(np.diag(square)) * np.eye(len(square))
    return columns, np.asarray(np.linalg.solve(square + ridge, columns.T), dtype=np.float64)


def leaderboard(ranked: Scores, group: Index, names: NDArray[Any], contexts: Over) -> Leaderboard:
    """The leaderboard of the groups of a judge's ranking, or of people's; see `comparo.Ranking.groups`."""
    if contexts not in ("new", "these"):
        raise ValueError(f"contexts is 'new' or 'these', not {contexts!r}")
    graph = ranked.graph
    if problem := why_not(graph, group, names):
        raise ValueError(problem)
    means = group_means(graph, group)[1]
    covariance: Covariance = ranked.covariance
    notes, is_single = list[str](), np.zeros(graph.contexts, dtype=bool)
    if isinstance(covariance, Voted):
        scores, freedom = covariance.scores, float("inf")
        score, cov = covariance.means(means, group, is_new=contexts == "new")
    else:
        is_panel = ranked.solution.panel is not None
        is_confounded = not is_panel and _are_confounded(ranked, group)
        solution, predicted = _model(ranked, group, is_biased=not is_confounded)
        scores, covariance = solution.scores, solution.covariance
        if not is_panel and predicted[0].variances.has_known_noise:
            is_single = _are_single(ranked)
        known = {SINGLE: np.all(is_single), CONFOUNDED: is_confounded, UNSETTLED: not solution.converged}
        notes = [note for note, holds in known.items() if holds]
        # Without loops in the comparison graph, noise cannot be separated from variation between contexts.
        is_new = contexts == "new" or predicted[0].freedom(is_new=False) <= 0
        each = [one.new(means, group) if is_new else one.these(means) for one in predicted]
        scored, errors = (np.array(part) for part in zip(*each, strict=True))
        score, cov = mixture_moments(scored, errors, np.full(len(each), 1.0 / len(each)))
        freedom = predicted[0].freedom(is_new)
    count = len(names)
    centre = np.eye(count) - 1.0 / count
    _, _, best = places(scores, covariance, ranked.level)
    best = np.where(is_single[graph.position], _observed_best(ranked), best)
    columns = {"group": names, "won": np.bincount(group, best, count)} | group_counts(graph, group, count)
    wins = _wins(graph, group, scores, covariance, count)
    how: dict[str, Any] = {"freedom": freedom, "level": ranked.level, "over": contexts, "notes": tuple(notes)}
    return Leaderboard.ordered(centre @ score, centre @ cov @ centre, wins, columns, **how)


def _are_single(ranked: Scores) -> Mask:
    """Whether a context has fewer choices than texts, (C,): they form no loop, and none confirms another."""
    graph = ranked.graph
    choices = np.bincount(graph.position[graph.first], ranked.comparisons.weights, graph.contexts)
    return choices <= np.diff(graph.starts) - 1


def _are_confounded(ranked: Scores, group: Index) -> bool:
    """Whether a position bias could explain every group mean, as where one group is always shown first.

    So it is if no context has a loop, and some f (G,) has f_first − f_second = 1 in all comparisons.
    """
    graph, count = ranked.graph, int(group.max()) + 1
    if not np.all(_are_single(ranked)):
        return False
    first, second = group[graph.first], group[graph.second]
    pairs = np.bincount(first * count + second, minlength=count * count).reshape(count, count)
    both = pairs + pairs.T
    laplacian = np.diag(np.sum(both, axis=1)) - both
    f = np.linalg.lstsq(laplacian, np.sum(pairs, axis=1) - np.sum(pairs, axis=0), rcond=None)[0]
    return bool(np.max(np.abs(f[first] - f[second] - 1.0)) < SINGULAR)


def _observed_best(ranked: Scores) -> Array:
    """1 for the text with the highest mean p in its context, else 0, (n,); k equal texts have 1/k each."""
    graph, p = ranked.graph, ranked.comparisons.p
    ends = np.concatenate([graph.first, graph.second])
    share = np.bincount(ends, np.concatenate([p, 1.0 - p]), graph.nodes) / np.maximum(graph.degrees(), 1)
    most = np.maximum.reduceat(share, graph.starts[:-1])[graph.position]
    is_best = (share == most).astype(float)
    return np.asarray(is_best / np.add.reduceat(is_best, graph.starts[:-1])[graph.position])


def asked_groups(
    comparisons: Comparisons, graph: Graph, own: tuple[Index, NDArray[Any]] | None, by: Groups | None
) -> tuple[Index, NDArray[Any]]:
    """The groups `by`; by default a ranking's `own`, else the items where several contexts share them."""
    if by is None and own is not None:
        return own
    if by is None and (graph.contexts == 1 or graph.nodes == len(np.unique(graph.item))):
        raise ValueError(
            "no two texts share a group; say which group each item belongs to, such as by={'text 1': 'system A', …}"
        )
    return group_codes(comparisons, graph, by or "items")


def why_not(graph: Graph, group: Index, names: NDArray[Any]) -> str | None:
    """Why groups cannot be compared, in a sentence; None where they can."""
    count = len(names)
    if count < 2:
        return f"there is only one group, {names[0]!r}; a leaderboard needs two or more"
    if count == graph.nodes:
        return "every group has one text only; the ranking itself is their leaderboard"
    links = sparse.coo_array(
        (np.ones(graph.nodes), (group, count + graph.component)), shape=(count + graph.components,) * 2
    )
    found = connected_components(links, directed=False)[1][:count]
    if np.all(found == found[0]):
        return None
    one, other = names[0], names[int(np.argmax(found != found[0]))]
    return (
        f"no chain of comparisons connects the groups {one!r} and {other!r}, so that they cannot be compared; compare "
        "their texts in some contexts"
    )


def _model(judged: Scores, group: Index, is_biased: bool) -> tuple[Solution, list[Predicted]]:
    """The solution of a ranking in logits, or a new one, and its prediction by groups, one for each sign."""
    solution, effects = judged.solution, judged.solution.effects
    comparisons, panel, limits = judged.comparisons, solution.panel, judged.covariance.pattern.limits
    fitted = panel.group if panel is not None else None if effects is None else effects.group
    is_ours = fitted is not None and np.array_equal(fitted, group)
    holds = bool(held_of(solution))
    if holds and not is_ours:
        remedy = Message("give fit {groups} together with {control}")
        raise ValueError("what is held equal was found without these groups; " + remedy)
    if panel is not None:
        if not is_ours:
            people = [name for name, own in zip(panel.names, panel.anchored.tolist(), strict=True) if own]
            solution = fit_panel(comparisons, Design(groups=group), people, limits)
        each = [one.panel.opinion.predicted for one in solution.either or (solution,) if one.panel is not None]
        known = [predicted for predicted in each if predicted is not None]
        if not known:
            raise ValueError("a context is too large for groups in a panel; rank smaller contexts, or one judge")
        return solution, known
    predicted = None if effects is None else effects.predicted
    # Choices are fitted again for the means of groups (`mixed`).
    has_choices = predicted is not None and predicted.variances.has_known_noise and not holds
    expert = solution.expert
    if expert is None or not is_ours or has_choices or not is_biased or not is_logit(expert):
        control = None if predicted is None else predicted.control
        design = Design(group, _style(predicted), control, is_biased)
        solution = mixed(comparisons, BradleyTerry(), design, for_groups=True, limits=limits)
    effects = solution.effects
    if effects is None or effects.predicted is None or effects.group is None:
        raise ValueError(f"{int(group.max()) + 1:,} groups are too many for a leaderboard; choose a coarser group")
    return solution, [effects.predicted]


def _style(predicted: Predicted | None) -> Array | None:
    """The style and the first stage of each candidate, (n, D), that a ranking was fitted with."""
    if predicted is None:
        return None
    is_style = ~predicted.is_group & (predicted.variances.kind >= 0)
    return predicted.columns[:, is_style] if is_style.any() else None


def _wins(graph: Graph, group: Index, scores: Array, covariance: Covariance, count: int) -> Array:
    """E σ(s_i − s_j), mean over the pairs of texts of two groups in one context: (G, G), NaN where there are none.

    Contexts of more than `Limits.exact` texts, whose covariance is not known in full, are left out.
    """
    total, number = np.zeros((2, count**2))
    for batch in covariance.pattern.batches:
        if batch.size > covariance.pattern.limits.exact:
            continue
        shape = (batch.end - batch.begin, batch.size)
        own, score = group[batch.nodes].reshape(shape), scores[batch.nodes].reshape(shape)
        block = covariance.block(batch)
        variance = np.einsum("bii->bi", block)
        apart = variance[:, :, None] + variance[:, None, :] - 2 * block
        won = win_probability(score[:, :, None] - score[:, None, :], np.maximum(apart, 0.0))
        component = graph.component[batch.nodes].reshape(shape)
        meet = (component[:, :, None] == component[:, None, :]) & (own[:, :, None] != own[:, None, :])
        pair = (own[:, :, None] * count + own[:, None, :])[meet]
        total += np.bincount(pair, won[meet], count**2)
        number += np.bincount(pair, minlength=count**2)
    found = np.divide(total, number, out=np.full_like(total, np.nan), where=number > 0).reshape(count, count)
    np.fill_diagonal(found, 0.5)
    return found


ControlNumbers = Mapping[str, Mapping[Any, float | str]]


def named_traits(
    comparisons: Comparisons,
    groups: Groups | None,
    features: Mapping[Any, Sequence[float]] | None,
) -> tuple[tuple[Index, NDArray[Any]] | None, Array | None]:
    """The number of each candidate's group (n,) with the names of groups, and its features (n, D).

    Both are given by its item, or by its context and item.
    """
    graph = Graph.build(comparisons)
    named = None if groups is None else group_codes(comparisons, graph, groups)
    if features is None:
        return named, None
    values = [tuple(entry("features", features, label)) for label in graph.labels(comparisons)]
    if len(set(map(len, values))) > 1:
        raise ValueError("features are of different lengths; give every item as many numbers")
    rows = np.array(values, dtype=np.float64)
    if not np.isfinite(rows).all():
        raise ValueError("features hold something that is not a finite number; give every item numbers")
    return named, rows


def control_of(comparisons: Comparisons, control: ControlNumbers) -> Control:
    """The controlled numbers of each candidate, by its item or by its context and item.

    Texts count by their length, log₂ of the number of characters: one step is twice the length. Characters need no rule
    for words, in any language. A step of other numbers is their standard deviation within contexts.

    >>> data = Comparisons.from_rows([("a", "b", 1), ("b", "c", 1)])
    >>> found = control_of(data, {"length": {"a": "x", "b": "xx", "c": "xxxx"}, "price": {"a": 1, "b": 2, "c": 3}})
    >>> found.values.T.round(2), found.unit
    (array([[0.  , 1.  , 2.  ], [1.22, 2.45, 3.67]]), ('twice', '0.816'))
    """
    if not isinstance(control, Mapping) or not control or not all(isinstance(x, Mapping) for x in control.values()):
        raise TypeError("control maps a name to a mapping from item to number or text, as {'length': {'ana': 'A …'}}")
    graph = Graph.build(comparisons)
    labels = graph.labels(comparisons)
    columns, unit, priors = [], [], []
    for name, of_item in control.items():
        found = [entry(f"control {name!r}", of_item, label) for label in labels]
        if all(isinstance(value, str) for value in found):
            values, step = np.array(list(map(length, found))), 1.0
            unit.append(DOUBLING)
        else:
            values = numbers_by_label(f"control {name!r}", of_item, labels)
            step = float(np.sqrt(np.mean(graph.centre(values) ** 2))) or 1.0
            unit.append(f"{step:.3g}")
        columns.append(values / step)
        priors.append(np.array(getattr(of_item, "prior", (0.0, np.inf))) * step)
    return Control(tuple(map(str, control)), np.column_stack(columns), tuple(unit), np.array(priors))
