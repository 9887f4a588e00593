"""The items to rank: ids and texts, the context that each belongs to, and people's scores if there are any.

Every source of items becomes a `Table` first, and all are checked in the same way before a judge is called. The roles
`id`, `text`, `context`, `context_id` and `group` are columns of that name unless another name is given.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import Table, factorise, shown
from comparo.data.images import cleaned_image, is_image
from comparo.data.prompts import Question
from comparo.data.sources import (
    check_characters,
    checked_numbers,
    checked_scores,
    checked_texts,
    column_of_numbers,
    column_of_role,
    context_codes,
    table_of,
)
from comparo.errors import ComparisonsError, Message
from comparo.types import Array, Index, LongIndex


@dataclass(frozen=True, eq=False)
class Items:
    """N items in C contexts. The class method `of` checks its input; the constructor does not.

    Parameters
    ----------
    ids : The labels of the items, shape (N,).
    texts : What a judge reads, shape (N,).
    contexts, context_texts : The labels of the contexts and their texts, shape (C,); a text is None if there is nothing
        to show. Items without a context have one context, labelled None.
    context : The code of each item's context, shape (N,).
    scores : People's scores by name, each of shape (N,), NaN where missing.
    group : What items have in common, such as the system that wrote them, shape (N,); None if unknown.
    numbers : Other numbers of the items by name, such as a price, to control for, each of shape (N,).
    anchor : Known scores of some items, in a column of that name, shape (N,), NaN for others; None if there are none.

    Examples
    --------
    >>> items = Items.of({"ana": "A story.", "bo": "Another."})
    >>> items.ids, items.texts, items.contexts
    (array(['ana', 'bo'], dtype=object), ('A story.', 'Another.'), array([None], dtype=object))
    """

    ids: NDArray[Any]
    texts: tuple[str, ...] = field(repr=False)
    contexts: NDArray[Any]
    context: Index
    context_texts: tuple[str | None, ...] = field(repr=False)
    scores: Mapping[str, Array] = field(default_factory=dict)
    group: NDArray[Any] | None = None
    numbers: Mapping[str, Array] = field(default_factory=dict)
    anchor: Array | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of(
        cls,
        data: Any,
        *,
        id: str | None = None,  # noqa: A002
        text: str | None = None,
        context: str | None = None,
        context_id: str | None = None,
        group: str | None = None,
        scores: str | Sequence[str] | None = None,
        numbers: Sequence[str] | Mapping[str, str] = (),
        old: Items | None = None,
        has_images: bool = False,
    ) -> Items:
        """Items from any source, every row checked.

        - A .csv, .tsv, .jsonl, .ndjson, .json (a list of objects), .parquet or .xlsx file, also gzipped; a .txt file
          with one text per line, which is its own id; a folder of .txt, .md, .docx or .pdf files, each an item named
          after it; a run folder, for the items of that run.
        - "-", standard input: JSON if it begins with { or [{, CSV if its first line names a column `id` or `text` (or
          an argument names a column) or if all lines have equally many fields, at least two; else one text per line.
        - A list of texts, numbered from 0; a mapping from id to text; a list of mappings; a pandas, polars or pyarrow
          frame; a Hugging Face data set; or items.

        The arguments name columns. Without a column of ids the rows are numbered from 0. `context` is shown to the
        judge, `context_id` is its label; a context without one is its own label, shortened if it is long, and one that
        is a number is only a label. `group` is what items have in common, such as the system that wrote them. `scores`
        are chosen by name from the object `scores` of a row and the columns `score` and `score_…` (all of these if
        None), or are any other columns. `numbers` are columns of numbers to control for, or for the option
        that each is mapped to. `old` are the items of a
        run to which these are added: a context of `old` may get a single item, and its text may be missing.
        With `has_images`, .png and .jpg files of a folder are items too, for people to read.

        >>> rows = [{"story": "Once.", "score_wit": 2}, {"story": "Twice.", "score_wit": None}]
        >>> Items.of(rows, text="story").scores
        {'wit': array([ 2., nan])}
        """
        if isinstance(data, Items):
            return data
        named = {"id": id, "text": text, "context": context, "context_id": context_id, "group": group}
        table = table_of(data, scores is not None or any(named.values()), has_images)
        column = {role: column_of_role(table, role, name) for role, name in named.items()}
        texts = checked_texts(table, column["text"])
        images = [row for row, text in enumerate(texts) if is_image(text)]
        if images and not has_images:
            problem = "this is an image, which only people can read: comparo vote shows it; or recognise its text (OCR)"
            raise table.error(images, column["id"], problem)
        cleaned = {row: cleaned_image(texts[row], table.place(row, column["text"])) for row in images}
        shared = None
        if column["group"] is not None:
            labels, (codes,) = factorise(table, column["group"])
            shared = labels[codes]
        known = table.columns.get("anchor")
        options = numbers if isinstance(numbers, Mapping) else dict.fromkeys(numbers, "control")
        return replace(
            _joined(table, column, old),
            texts=tuple(cleaned.get(row, text) for row, text in enumerate(texts)),
            scores=checked_scores(table, scores),
            numbers=checked_numbers(table, options),
            anchor=None if known is None else column_of_numbers(table, "anchor", known, "anchors"),
            group=shared,
        )

    def take(self, rows: NDArray[np.integer]) -> Items:
        """Some of the items, by their numbers, with their contexts.

        >>> Items.of({"ana": "A story.", "bo": "Another.", "cy": "A third."}).take(np.array([0, 2])).ids
        array(['ana', 'cy'], dtype=object)
        """
        kept, context = np.unique(self.context[rows], return_inverse=True)
        return Items(
            ids=self.ids[rows],
            texts=tuple(self.texts[row] for row in rows.tolist()),
            contexts=self.contexts[kept],
            context=context.astype(np.int32),
            context_texts=tuple(self.context_texts[code] for code in kept.tolist()),
            scores={name: scores[rows] for name, scores in self.scores.items()},
            group=None if self.group is None else self.group[rows],
            numbers={name: numbers[rows] for name, numbers in self.numbers.items()},
            anchor=None if self.anchor is None else self.anchor[rows],
        )

    @cached_property
    def groups(self) -> dict[Any, LongIndex]:
        """The rows of each context, in order.

        >>> Items.of([{"text": letter, "context_id": "xyx"[k % 2]} for k, letter in enumerate("abcd")]).groups
        {'x': array([0, 2]), 'y': array([1, 3])}
        """
        ends = np.cumsum(np.bincount(self.context, minlength=len(self.contexts)))
        rows = np.split(np.argsort(self.context, kind="stable"), ends[:-1])
        return dict(zip(self.contexts.tolist(), rows, strict=True))

    @property
    def alone(self) -> LongIndex:
        """The rows of items that are the only one in their context."""
        return np.flatnonzero(np.bincount(self.context)[self.context] == 1)

    def loneliness(self, row: int) -> str:
        """The error text for an item alone in its context."""
        group = self.contexts[self.context[row]]
        name, place = shown(self.ids[row]), "" if group is None else f" in context {shown(group)}"
        return f"{name} is the only item{place}; there is nothing to compare it with: add another or drop it"

    @property
    def names(self) -> dict[Any, list[Any]]:
        """The ids of each context, in order.

        >>> Items.of(["A story.", "Another."]).names
        {None: [0, 1]}
        """
        return {context: self.ids[rows].tolist() for context, rows in self.groups.items()}

    @property
    def labels(self) -> list[tuple[Any, Any]]:
        """The context and the id of each item."""
        return list(zip(self.contexts[self.context].tolist(), self.ids.tolist(), strict=True))

    @property
    def anchors(self) -> dict[Any, float]:
        """The known scores, by context and id, or by id alone where there are no contexts.

        >>> Items.of([{"id": "ana", "text": "A story.", "anchor": 80}, {"id": "bo", "text": "Another."}]).anchors
        {'ana': 80.0}
        """
        found: dict[Any, float] = {}
        if self.anchor is None:
            return found
        for (context, item), value in zip(self.labels, self.anchor.tolist(), strict=True):
            if not np.isnan(value):
                found[item if context is None else (context, item)] = value
        return found

    @cached_property
    def _rows(self) -> dict[tuple[Any, Any], int]:
        return {label: row for row, label in enumerate(self.labels)}

    def row(self, context: Any, item: Any) -> int:
        """The row of an item, by the label of its context and its id.

        >>> Items.of({"ana": "A story.", "bo": "Another."}).row(None, "bo")
        1
        """
        if (context, item) not in self._rows:
            place = "" if context is None else f" in context {shown(context)}"
            raise ComparisonsError(f"there is no item {shown(item)}{place}; add it to the items, or correct its name")
        return self._rows[context, item]

    def question(self, context: Any, first: Any, second: Any) -> Question:
        """The question about two items in this order; a `Rest` as `second` holds several items.

        >>> Items.of({"ana": "A story.", "bo": "Another."}).question(None, "bo", "ana").first_text
        'Another.'
        """
        rows = [self.row(context, item) for item in Question(first, second).items]
        shared = self.context_texts[self.context[rows[0]]]
        return Question(first, second, context, context_text=shared).with_texts([self.texts[row] for row in rows])

    def digest(self) -> str:
        """The SHA-256, in hex, of contexts, ids and texts in their order, without scores.

        >>> Items.of(["A story.", "Another."]).digest() == Items.of(["A story.", "Another?"]).digest()
        False
        """
        return self._digest

    @cached_property
    def _digest(self) -> str:
        encode = json.JSONEncoder(default=repr).encode
        contexts = zip(self.contexts.tolist(), self.context_texts, strict=True)
        items = zip(self.context.tolist(), self.ids.tolist(), self.texts, strict=True)
        digest = hashlib.sha256()
        for row in chain(contexts, items):
            digest.update(encode(row).encode())
        return digest.hexdigest()


def read_items(
    path: str | os.PathLike[str],
    *,
    id: str | None = None,  # noqa: A002
    text: str | None = None,
    context: str | None = None,
    context_id: str | None = None,
) -> Items:
    """The items of a file or folder; `texts` is empty if there is no column of texts.

    The arguments name columns, as in `Items.of`. Without a column `id` the first that is not a context holds the ids.
    """
    table = table_of(path, header=True)
    contexts = {
        role: column_of_role(table, role, name) for role, name in (("context", context), ("context_id", context_id))
    }
    others = (name for name in table.columns if name not in contexts.values())
    items = _joined(table, {"id": column_of_role(table, "id", id) or next(others, None), **contexts})
    text = column_of_role(table, "text", text)
    return items if text is None else replace(items, texts=checked_texts(table, text))


def identified(table: Table, column: Mapping[str, str | None], known: Mapping[Any, str | None] | None = None) -> Items:
    """The items of a table, without texts; `column` maps roles to columns, and every name is checked.

    `known` maps contexts to texts that the table may lack.
    """
    rows = len(next(iter(table.columns.values()), ()))
    if not rows:
        raise ComparisonsError(f"there are no items in {table.source or 'the data'}; give at least two, one per row")
    for used in filter(None, column.values()):
        check_characters(table, used)
    name, context_name, context_id = (column.get(role) for role in ("id", "context", "context_id"))
    labels, (codes,) = factorise(table, name) if name else (np.arange(rows), (np.arange(rows),))
    contexts, context, texts = context_codes(table, rows, context_name, context_id)
    key = context.astype(np.int64) * len(labels) + codes
    order = np.argsort(key, kind="stable")
    twice = np.sort(order[1:][np.diff(key[order]) == 0])
    if twice.size:
        label = shown(labels[codes[twice[0]]])
        is_known = context_name or context_id
        remedy = "" if is_known else Message(", or name the column of its context with {context}")
        raise table.error(twice, name, f"{label} stands there before; give each item its own name" + remedy)
    shared = zip(contexts.tolist(), texts, strict=True)
    texts = tuple((known or {}).get(group) if text is None else text for group, text in shared)
    return Items(labels[codes], (), contexts, context, texts)


def _joined(table: Table, column: Mapping[str, str | None], old: Items | None = None) -> Items:
    """The items of a table; an error if one is alone in its context and the context is not in `old`."""
    known = {} if old is None else dict(zip(old.contexts.tolist(), old.context_texts, strict=True))
    items = identified(table, column, known)
    alone = [row for row in items.alone.tolist() if items.contexts[items.context[row]] not in known]
    if alone:
        raise table.error(alone, column["id"], items.loneliness(alone[0]))
    return items
