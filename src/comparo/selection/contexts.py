"""The next pairs of every context, each context with a selector of its own."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from comparo.data.comparisons import Comparisons
from comparo.errors import ComparisonsError
from comparo.selection.defaults import DEFAULT_GOAL, DEFAULT_ORDERS, Orders, Strategy
from comparo.selection.selector import Selector
from comparo.types import Array, Seed, as_generator


def next_pairs(
    items: Mapping[Any, Sequence[Hashable]],
    calls: int,
    asked: Comparisons | None = None,
    *,
    strategy: Strategy | None = None,
    orders: Orders = DEFAULT_ORDERS,
    goal: str = DEFAULT_GOAL,
    repeats: bool = False,
    contrast: Mapping[Any, Array | None] | None = None,
    rng: Seed = None,
) -> dict[str, list[Any]]:
    """The next calls in every context.

    Parameters
    ----------
    items : The labels of the items of each context; the only context may be None.
    calls : How many calls to choose in every context.
    asked : The comparisons made so far.
    strategy, orders, goal, repeats, rng : As in `Selector`.
    contrast : As `contrast.contrasts` returns it, by context.

    Returns
    -------
    Columns first, second and context, a row per call; no column context where None is the only context.

    Examples
    --------
    >>> columns = next_pairs({"x": ["ana", "bo"], "y": ["ana", "cy"]}, 1, rng=0)
    >>> [set(pair) == {"ana", other} for *pair, other in zip(columns["first"], columns["second"], ["bo", "cy"])]
    [True, True]
    >>> columns["context"]
    ['x', 'y']
    """
    parts = {} if asked is None else _by_context(asked, items)
    columns: dict[str, list[Any]] = {"first": [], "second": [], "context": []}
    for (context, names), generator in zip(items.items(), as_generator(rng).spawn(len(items)), strict=True):
        try:
            selector = Selector(
                names,
                strategy=strategy,
                orders=orders,
                goal=goal,
                repeats=repeats,
                contrast=None if contrast is None else contrast[context],
                rng=generator,
            )
            if context in parts:
                selector.observe(parts[context])
            rows = selector.next(calls)
        except ValueError as error:
            raise error if context is None else ValueError(f"context {context!r}: {error}") from error
        for first, second in rows:
            columns["first"].append(first)
            columns["second"].append(second)
            columns["context"].append(context)
    if list(items) == [None]:
        del columns["context"]
    return columns


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
