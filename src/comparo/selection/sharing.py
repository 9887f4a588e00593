"""Pairs for several contexts and judges: the next pairs of each context, their assignment to judges, and first votes.

`next_pairs` has a selector for each context. `share_out` gives no judge a pair twice, including earlier sheets, and
gives some pairs to two judges, which measures their agreement. All judges get equally many rows, to within one unless
earlier sheets prevent it, and see each text first as often as second, as far as their pairs allow.

`telling_pairs` are those whose votes lower the variance of the validity most. People's scores are t = X b + rest
(`comparo.ranking.votes`), with X (n, D) the parts of the judge's view: that of a text's group, and that of the text
beyond it. The validity is the ratio of the two b; with one part, it is b. A vote about texts i and j observes x·b,
x = X_i − X_j, with a precision w from the noise of a coin and of both rests. With C the prior covariance of b and g the
gradient of the validity, the vote lowers the variance of the validity by

    (gᵀC x)² · w / (1 + w·xᵀC x)

Pairs are chosen one after the other, each by the largest decrease.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.errors import ComparisonsError, OptionError
from comparo.model.estimators.votes import Expectation
from comparo.model.likelihoods.bradley_terry import logistic_curvature
from comparo.model.linalg.graph import Graph
from comparo.model.tuning import SPREAD
from comparo.ranking.ranking import Ranking
from comparo.ranking.votes import expected_of
from comparo.rounding import first_best
from comparo.selection.selector import Selector
from comparo.types import Array, Index, Seed, as_generator

TWICE = 0.2  # share of the pairs that two judges get: 60 pairs give 12, an interval of about ±0.25 for their agreement


def share_out(
    pairs: Mapping[str, Sequence[Any]],
    judges: Sequence[Hashable],
    *,
    twice: float = TWICE,
    asked: Comparisons | None = None,
    seed: Seed = None,
) -> dict[Any, dict[str, list[Any]]]:
    """Share pairs out to judges.

    Parameters
    ----------
    pairs
        Columns first, second and, where there are contexts, context, as `next_pairs` returns them: P rows.
    judges
        The judges, at least one.
    twice
        The share of the pairs, from 0 to 1, that two judges get; with one judge there are none.
    asked
        The comparisons handed out before, with judges: no judge gets a pair again.
    seed
        A seed or a generator.

    Returns
    -------
    dict
        The columns of each judge, of P·(1 + twice)/R rows each, to within one where nothing was asked before.

    Raises
    ------
    ValueError
        If a judge is named twice, if `twice` is outside [0, 1], or if too few judges have not had a pair before.

    Examples
    --------
    >>> pairs = {"first": ["a", "b", "c", "d", "e"], "second": ["b", "c", "d", "e", "a"]}
    >>> shared = share_out(pairs, ["ana", "bo"], seed=0)
    >>> [len(columns["first"]) for columns in shared.values()]
    [3, 3]
    """
    names = list(judges)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"name each judge once, not {', '.join(map(str, names)) or 'none'}")
    if not 0 <= twice <= 1:
        raise OptionError("twice", twice, "is not a share of the pairs, from 0 to 1")
    rng = as_generator(seed)
    contexts = pairs.get("context", [None] * len(pairs["first"]))
    rows = list(zip(pairs["first"], pairs["second"], contexts, strict=True))
    had = _had(asked)
    number = round(twice * len(rows)) if len(names) > 1 else 0
    doubled = set(rng.permutation(len(rows))[:number].tolist())
    balance = {name: dict[Any, int]() for name in names}  # times each text was first minus second
    shared: dict[Any, list[tuple[Any, Any, Any]]] = {name: [] for name in names}
    for row in sorted(range(len(rows)), key=lambda row: row not in doubled):  # two judges are harder to find than one
        first, second, context = rows[row]
        key = (frozenset((first, second)), context)
        mixed = [names[k] for k in rng.permutation(len(names)).tolist()]
        free = [name for name in mixed if key not in had.get(name, ())]
        needed = 2 if row in doubled else 1
        if len(free) < needed:
            raise ValueError(
                f"{'two judges are' if row in doubled else 'a judge is'} needed for {first!r} and {second!r}, and "
                f"{', '.join(map(str, names))} had this pair before; name more judges"
            )
        for name in sorted(free, key=lambda name: len(shared[name]))[:needed]:
            lead = _lead(balance[name], (context, first), (context, second), rng)
            shared[name].append((first, second, context) if lead else (second, first, context))
    return {name: _columns(_shuffled(own, rng), "context" in pairs) for name, own in shared.items()}


def _had(asked: Comparisons | None) -> dict[Any, set[Any]]:
    """The pairs that each judge had before, by judge."""
    had: dict[Any, set[Any]] = {}
    if asked is not None and asked.judges is not None:
        columns = asked.to_columns()
        contexts = columns.get("context", np.full(len(asked), None))
        judges, ends = asked.judges[asked.judged_by].tolist(), (columns[name].tolist() for name in ("first", "second"))
        for judge, first, second, context in zip(judges, *ends, contexts.tolist(), strict=True):
            had.setdefault(judge, set()).add((frozenset((first, second)), context))
    return had


def _lead(balance: dict[Any, int], first: Any, second: Any, rng: np.random.Generator) -> bool:
    """Whether to show `first` first: if the judge saw it first less often than `second`, at random if equally often."""
    more = balance.get(first, 0) - balance.get(second, 0)
    lead = bool(more < 0 or (more == 0 and rng.random() < 0.5))
    step = 1 if lead else -1
    balance[first] = balance.get(first, 0) + step
    balance[second] = balance.get(second, 0) - step
    return lead


def _shuffled(rows: list[tuple[Any, Any, Any]], rng: np.random.Generator) -> list[tuple[Any, Any, Any]]:
    """The rows in random order, but with each context in one block, because reading a context takes time."""
    mixed = [rows[number] for number in rng.permutation(len(rows)).tolist()]
    contexts = dict.fromkeys(context for *_, context in mixed)
    place = {context: number for number, context in enumerate(contexts)}
    return sorted(mixed, key=lambda row: place[row[2]])


def _columns(rows: Sequence[tuple[Any, Any, Any]], has_contexts: bool) -> dict[str, list[Any]]:
    names = ("first", "second", "context") if has_contexts else ("first", "second")
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def next_pairs(
    items: Mapping[Any, Sequence[Hashable]],
    calls: int,
    asked: Comparisons | None = None,
    *,
    contrast: Mapping[Any, Array | None] | None = None,
    seed: Seed = None,
    **options: Any,
) -> dict[str, list[Any]]:
    """The next calls in every context.

    Parameters
    ----------
    items : The labels of the items of each context; the only context may be None.
    calls : How many calls to choose in every context.
    asked : The comparisons made so far.
    contrast : As `text_features.contrasts` returns it, by context.
    seed : A whole number or a generator.
    options : Of each `Selector`: strategy, orders and goal.

    Returns
    -------
    Columns first, second and context, a row per call; no column context where None is the only context.

    Examples
    --------
    >>> columns = next_pairs({"x": ["ana", "bo"], "y": ["ana", "cy"]}, 1, seed=0)
    >>> [set(pair) == {"ana", other} for *pair, other in zip(columns["first"], columns["second"], ["bo", "cy"])]
    [True, True]
    >>> columns["context"]
    ['x', 'y']
    """
    parts = {} if asked is None else _by_context(asked, items)
    rows: list[tuple[Any, Any, Any]] = []
    for (context, names), generator in zip(items.items(), as_generator(seed).spawn(len(items)), strict=True):
        try:
            own = None if contrast is None else contrast[context]
            selector = Selector(names, contrast=own, seed=generator, **options)
            if context in parts:
                selector.observe(parts[context])
            rows += [(*pair, context) for pair in selector.next(calls)]
        except ValueError as error:
            raise error if context is None else ValueError(f"context {context!r}: " + str(error)) from error
    return _columns(rows, list(items) != [None])


def _by_context(asked: Comparisons, items: Mapping[Any, Sequence[Hashable]]) -> dict[Any, Comparisons]:
    """The comparisons of each context, without their contexts."""
    if list(items) == [None]:
        return {None: asked}
    if asked.contexts is None:
        raise ComparisonsError("the items have contexts and the comparisons have none; add a column context to them")
    parts = {}
    for code, context in enumerate(asked.contexts.tolist()):
        if context not in items:
            raise ComparisonsError(f"the comparisons are of a context {context!r} that has no items; add its items")
        parts[context] = replace(asked.take(asked.context == code), contexts=None, context=None)
    return parts


MOST_PAIRS = 50_000  # pairs considered; if there are more, a random sample of this size


def telling_pairs(ranking: Ranking, number: int, seed: Seed = None) -> list[tuple[Any, Any, Any]]:
    """Pairs (context, item, item) whose votes best estimate the share of a judge's view that people share, best first.

    No text is used again while pairs of unused texts are left.

    Parameters
    ----------
    ranking : The judge's.
    number : The largest number of pairs to return.
    seed : A whole number or a generator; breaks ties, and samples the pairs to consider if there are very many.

    Examples
    --------
    >>> from comparo import fit
    >>> machine = fit([("a", "b", 0.9), ("b", "c", 0.6), ("c", "d", 0.9), ("d", "a", 0.1)])
    >>> telling_pairs(machine, 1)
    [(None, 'a', 'd')]
    """
    judged, expectation = ranking.judged, expected_of(ranking)[0]
    rng = as_generator(seed)
    first, second = rng.permutation(np.stack(_pairs(judged.graph, rng)), axis=1)
    chosen = _chosen(expectation, first, second, min(number, len(first)))
    labels = judged.solution.labels
    pairs = [(labels[int(first[k])], labels[int(second[k])]) for k in chosen]
    return [(context, one, other) for (context, one), (_, other) in pairs]


def _pairs(graph: Graph, rng: np.random.Generator) -> tuple[Index, Index]:
    """Pairs of candidates of one context: all of them, or `MOST_PAIRS` at random."""
    sizes = np.diff(graph.starts)
    count = sizes * (sizes - 1) // 2
    if np.sum(count) <= MOST_PAIRS:
        return graph.all_pairs()
    context = rng.choice(len(sizes), MOST_PAIRS, p=count / np.sum(count))
    first = rng.integers(sizes[context])
    second = (first + rng.integers(1, sizes[context])) % sizes[context]
    pairs = np.unique(np.sort(np.column_stack([first, second]) + graph.starts[context][:, None], axis=1), axis=0)
    return pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32)


def _chosen(expected: Expectation, first: Index, second: Index, number: int) -> list[int]:
    """The indices of the chosen pairs, in the order of choice."""
    b, covariance = SPREAD * expected.mean, SPREAD**2 * np.diag(expected.variance)
    gradient = np.array([-b[1] / b[0] ** 2, 1.0 / b[0]]) if len(b) == 2 else np.ones(1)
    x = expected.columns[first] - expected.columns[second]
    rest = 2.0 * SPREAD**2 * (expected.between + expected.within)
    weight = 1.0 / (1.0 / logistic_curvature(x @ b) + rest)
    used, chosen, taken = np.zeros(len(expected.columns), dtype=np.int64), [], np.zeros(len(x), dtype=bool)
    for _ in range(number):
        along = x @ covariance
        gain = (along @ gradient) ** 2 * weight / (1.0 + weight * np.sum(along * x, axis=1))
        often = used[first] + used[second]
        gain[taken | (often > np.min(often[~taken]))] = -1.0
        best = int(first_best(gain))
        chosen.append(best)
        taken[best] = True
        used[[first[best], second[best]]] += 1
        v = along[best]
        covariance = covariance - weight[best] / (1.0 + weight[best] * x[best] @ v) * np.outer(v, v)
    return chosen
