"""Items as a run folder stores them, and the items of a folder together with those that a user gives."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import shown
from comparo.data.items import Items
from comparo.run.database import clean, encode, plain

Label = tuple[str, str]  # an item by its context and id, both encoded


def texts_of(items: Items) -> dict[Label, tuple[tuple[Any, Any], str, str | None]]:
    """Labels, text and context of each item, by its encoded labels."""
    shared = [None if text is None else clean(text) for text in items.context_texts]
    contexts = items.contexts.tolist()
    rows = zip(items.context.tolist(), items.ids.tolist(), map(clean, items.texts), strict=True)
    return {
        (encode(contexts[code]), encode(label)): ((contexts[code], label), text, shared[code])
        for code, label, text in rows
    }


def item_rows(items: Items) -> tuple[list[tuple[str, str | None]], list[tuple[str, str, str, str, str | None]]]:
    """The rows of the table of contexts (label, text), and of the items (context, id, text, scores, group).

    >>> item_rows(Items.of({"ana": "A story.", "bo": "Another."}))[1][0]
    ('null', '"ana"', 'A story.', '{}', None)
    """
    contexts = [encode(label) for label in items.contexts.tolist()]
    names = list(items.scores)
    scores = zip(*(items.scores[name].tolist() for name in names), strict=True) if names else repeat((), len(items))
    groups = repeat(None, len(items)) if items.group is None else map(encode, items.group.tolist())
    columns = zip(items.context, items.ids.tolist(), map(clean, items.texts), scores, groups, strict=False)
    rows = [
        (contexts[context], encode(label), text, json.dumps(dict(zip(names, map(plain, values), strict=True))), of)
        for context, label, text, values, of in columns
    ]
    shared = [None if text is None else clean(text) for text in items.context_texts]
    return list(zip(contexts, shared, strict=True)), rows


def merged(stored: Items, given: Items, left: Collection[Label]) -> Items:
    """The items that are stored, but for those that are `left`, in their order, and behind them those that are given.

    What both have is taken as it is given, with its scores, group and numbers. Items that are stored and not given keep
    what is stored of them.

    >>> stored, given = Items.of({"ana": "A story.", "bo": "Another."}), Items.of({"cy": "A third.", "bo": "Another."})
    >>> merged(stored, given, ()).ids.tolist()
    ['ana', 'bo', 'cy']

    Raises
    ------
    ValueError
        If one of the two has groups, or a number that is held equal, and the other has not, or if a context has
        another text in each.
    """
    old, new = ({label: (of, row) for row, label in enumerate(texts_of(of))} for of in (stored, given))
    kept = {label: new.get(label, place) for label, place in old.items() if label not in left}
    places = kept | {label: place for label, place in new.items() if label not in kept}
    rows = list(places.values())
    if any(of is stored for of, _ in rows):
        _check(stored, given)
    contexts: dict[str, tuple[Items, int]] = {}
    for (context, _), (of, row) in places.items():
        number = int(of.context[row])
        known, at = contexts.get(context, (of, number))
        if known is not of and clean(known.context_texts[at] or "") != clean(of.context_texts[number] or ""):
            raise ValueError(
                f"context {shown(of.contexts[number])} has another text in the run; give it as it is there"
            )
        contexts[context] = of, number
    code = {context: number for number, context in enumerate(contexts)}
    names = {id(of): of.ids.tolist() for of in (stored, given)}

    def numbers(name: str, column: str) -> NDArray[np.float64]:
        values = ((getattr(of, column).get(name), row) for of, row in rows)
        return np.array([np.nan if found is None else found[row] for found, row in values])

    return Items(
        _objects([names[id(of)][row] for of, row in rows]),
        tuple(of.texts[row] for of, row in rows),
        _objects([of.contexts.tolist()[number] for of, number in contexts.values()]),
        np.array([code[context] for context, _ in places], dtype=np.int32),
        tuple(of.context_texts[number] for of, number in contexts.values()),
        {name: numbers(name, "scores") for name in dict.fromkeys([*given.scores, *stored.scores])},
        None if given.group is None else _objects([of.group[row] for of, row in rows if of.group is not None]),
        {name: numbers(name, "numbers") for name in given.numbers},
    )


def _check(stored: Items, given: Items) -> None:
    """Raise a ValueError where items that are stored only lack what the others have, or the other way round."""
    if (stored.group is None) != (given.group is None):
        has, lack = ("the items of the run", "the new ones") if given.group is None else ("the new items", "the run's")
        raise ValueError(f"{has} have groups and {lack} have none; give all items in one file, with --group")
    if missing := [name for name in given.numbers if name not in stored.numbers]:
        raise ValueError(f"the items of the run have no numbers {missing[0]!r}; give all items in one file")


def _objects(labels: Sequence[Any]) -> NDArray[Any]:
    found = np.empty(len(labels), dtype=object)
    found[:] = labels
    return found
