"""New items into a run that is there: from a task and a folder to a task that has grown, and its store.

`grown` compares the items of a task with those of the folder. It returns the task with all items, the answers that are
there as given, and a budget for what is new. `open_grown` writes the change to the folder in one transaction, so that a
process that is killed leaves a folder that has grown or one that has not; the same command then goes on.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from comparo.data.columns import shown
from comparo.data.items import Items
from comparo.errors import StoreError, WrongFolderError
from comparo.judges import Judgement
from comparo.run.budget import paid_and_spent
from comparo.run.database import DATABASE, decode, key_of, reading, stored_judgements
from comparo.run.growth import Growth, History, count_growths
from comparo.run.item_rows import Label, item_rows, merged, texts_of
from comparo.run.store import KEPT, Store, differences, read_configuration, stored_items
from comparo.run.task import Task

DIFFERS = ("items", "audition")  # in what the identity of a run that grows may differ from that of its folder
NAMED = 3  # items that a message names


@dataclass(frozen=True)
class Change:
    """How the items that are given differ from those of a folder."""

    added: tuple[Label, ...]
    changed: tuple[Label, ...]
    removed: tuple[Label, ...]

    @classmethod
    def between(cls, stored: Items, given: Items, last: frozenset[Label]) -> Change:
        """The change from the stored items to those given; `last` are those that the last growth brought.

        Where none of the stored items is given, or only those of the last growth are, the others stay.
        """
        old, new = texts_of(stored), texts_of(given)
        changed = tuple(label for label in old if label in new and old[label][1:] != new[label][1:])
        others = old.keys() - new.keys()
        adds_only = others == old.keys() or (bool(last) and new.keys() == last and not changed)
        removed = () if adds_only else tuple(label for label in old if label in others)
        return cls(tuple(label for label in new if label not in old), changed, removed)

    def described(self, with_added: bool = False) -> str:
        """How many items were removed, changed and, if wanted, added, with the first names."""
        kinds = [(self.removed, "not given now"), (self.changed, "with another text now")]
        kinds += [(self.added, "more now")] if with_added else []
        parts = []
        for labels, what in kinds:
            if labels:
                names = ", ".join(shown(decode(item)) for _, item in labels[:NAMED])
                more = ", …" if len(labels) > NAMED else ""
                parts.append(f"{len(labels):,} item{'s' if len(labels) > 1 else ''} {what} ({names}{more})")
        return " and ".join(parts)


def grown(task: Task, folder: Path | None, allow_changes: bool = False) -> Task:
    """The task of a folder with the items that are there and those that are given; the same task for another folder.

    Raises
    ------
    WrongFolderError
        If the run is of another judge, prompt or way to choose pairs, or if texts were changed or removed and that is
        not allowed.
    ValueError
        If the goal is about groups, or the new items lack what the others have.
    """
    if folder is None or not (folder / DATABASE).is_file():
        return task
    with reading(folder) as connection:
        if (growths := count_growths(connection)) is None:
            return task
        configuration = read_configuration(folder)
        before, now = configuration["identity"], json.loads(json.dumps(task.identity, default=str))
        if not growths and before.get("items") == now["items"]:
            return task
    if before == now and len(stored_items(folder)) < len(task.items):  # damage took some, so that none of them is new
        with closing(Store(folder, before, configuration)) as store:
            store.add_items(task.items)
    with reading(folder) as connection:
        history = History.read(connection, str(folder))
        stood = list(stored_judgements(connection))
        (mark,) = connection.execute("SELECT coalesce(max(number), 0) FROM judgements").fetchone()
    since = history.since(history.growth)
    last = frozenset(label for label, growth in since.items() if growth == history.growth > 0)
    stored = stored_items(folder)
    change = Change.between(stored, task.items, last)
    if differing := differences(before, now, DIFFERS):
        raise WrongFolderError(
            f"{folder} holds another run: {'; '.join(differing)}. To add items to it, give its judge, criterion and "
            "options; else choose another --out, or start anew with --fresh"
        )
    if (change.changed or change.removed) and not allow_changes:
        raise WrongFolderError(_refusal(folder, change))
    gone = {*change.changed, *change.removed}
    if gone >= since.keys():
        raise WrongFolderError(f"no item of {folder} is as it was, so nothing of it can be used; choose another --out")
    items = merged(stored, task.items, gone)
    if not (change.added or gone or history.growth):
        return replace(task, items=items)
    if task.compares_groups:
        raise ValueError(f"a run with --goal {task.goal} cannot grow; rank all items in another --out")
    is_new = bool(change.added or gone)
    new = {*change.added, *change.changed} if is_new else last
    counts = Counter(context for context, _ in new)
    labels = {label: names for label, (names, *_) in texts_of(items).items()}
    limit = mark if is_new else history.marks[-1]
    kept = [(number, one) for number, _, one in stood if number <= limit]
    left = sum(bool(gone & set(_labels(one))) for _, one in kept)
    given = _given([one for _, one in kept if not gone & set(_labels(one))], labels, items)
    if not given:
        raise WrongFolderError(
            f"{folder} holds no answers to go by, so there is no ranking to add to; finish it with the items that it "
            "has, or start anew with --fresh"
        )
    number = history.growth + is_new
    growth = Growth(
        number,
        items.digest() if is_new else before["items"],
        {context: counts[label] for label, context in _contexts(items).items()},
        given,
        paid_and_spent(one for _, one in kept),
        before.get("audition"),
        history.past(number, left if is_new else history.left_out, gone),
        mark,
        change.changed,
        change.removed,
        configuration if is_new else None,
    )
    return replace(task, items=items, given=given, growth=growth)


def items_there(folder: Path) -> Items | None:
    """The items of a run to which others may be added; None where there is no such run."""
    if not (folder / DATABASE).is_file():
        return None
    with reading(folder) as connection:
        if count_growths(connection) is None:
            return None
    return stored_items(folder)


def open_grown(folder: Path | None, task: Task, notes: Mapping[str, Any]) -> Store:
    """The store of a task in its folder; where the task grows, the folder has grown when this returns."""
    now, growth = {**task.configuration, **notes}, task.growth
    if growth is None or growth.configuration is None:
        return Store(folder, task.identity, now)
    before = dict(growth.configuration)
    store = Store(folder, before.pop("identity"), before)
    try:
        kept = {name: before[name] for name in KEPT if name in before}
        identity = json.loads(json.dumps(task.identity, default=str))
        store.change(partial(_write, str(folder), growth, task.items), {"identity": identity, **now, **kept})
    except BaseException:
        store.close()
        raise
    return store


def growth_sentence(task: Task) -> str:
    """What a growth adds and leaves out, before anything is asked; "" for a run that does not grow now."""
    growth = task.growth
    if growth is None:
        return ""
    new = sum(growth.new.values())
    gone = len(growth.changed) + len(growth.removed)
    left = f", {growth.past.left_out:,} judgements about {gone:,} changed or removed texts are left out" if gone else ""
    return f"{new:,} of {len(task.items):,} items are new, {len(growth.given):,} answers from before count{left}"


def _labels(judgement: Judgement) -> tuple[Label, Label]:
    context, first, second, _ = key_of(judgement.question)
    return (context, first), (context, second)


def _given(
    judgements: Sequence[Judgement], labels: Mapping[Label, tuple[Any, Any]], items: Items
) -> tuple[Judgement, ...]:
    """The last answer to each question, as questions of these items."""
    found = {}
    for one in judgements:
        if not one.failed:
            (context, first), (_, second) = (labels[label] for label in _labels(one))
            question = replace(items.question(context, first, second), voice=one.question.voice)
            found[key_of(question)] = replace(one, question=question)
    return tuple(found.values())


def _contexts(items: Items) -> dict[str, Any]:
    return {label: names[0] for (label, _), (names, *_) in texts_of(items).items()}


def _refusal(folder: Path, change: Change) -> str:
    return (
        f"{folder} has {change.described()}. Give them as they were; or add --allow-changes, which leaves the "
        "judgements about them out of the ranking and keeps them in the folder; or choose another --out"
    )


def _write(folder: str, growth: Growth, items: Items, connection: sqlite3.Connection) -> None:
    """Change the tables of a run; a StoreError where another process has changed them since they were read."""
    (mark,) = connection.execute("SELECT coalesce(max(number), 0) FROM judgements").fetchone()
    (growths,) = connection.execute("SELECT count(*) FROM growths").fetchone()
    if (mark, growths) != (growth.mark, growth.number - 1):
        raise StoreError(f"{folder} was changed by another process in the meantime; run the same command again")
    at = datetime.now(UTC).isoformat(timespec="seconds")
    connection.execute("INSERT INTO growths VALUES (?, ?, ?, ?)", (growth.number, at, mark, growth.past.left_out))
    for label in (*growth.changed, *growth.removed):
        connection.execute(
            "INSERT INTO former (place, context, context_text, id, text, scores, shared, since, until) "
            "SELECT items.number, items.context, contexts.text, id, items.text, scores, shared, coalesce(since, 0), ? "
            "FROM items JOIN contexts ON contexts.context = items.context WHERE items.context = ? AND id = ?",
            (growth.number, *label),
        )
        connection.execute("DELETE FROM items WHERE context = ? AND id = ?", label)
        connection.execute(
            "INSERT OR IGNORE INTO withdrawn SELECT number FROM judgements WHERE context = ? AND ? IN (first, second)",
            label,
        )
    rows = connection.execute("SELECT number, context, id FROM items")
    there = {(context, name): number for number, context, name in rows}
    contexts, items_now = item_rows(items)
    connection.executemany("INSERT OR REPLACE INTO contexts VALUES (?, ?)", contexts)
    for context, name, text, scores, shared in items_now:
        if (number := there.get((context, name))) is not None:
            connection.execute("UPDATE items SET scores = ?, shared = ? WHERE number = ?", (scores, shared, number))
        else:
            connection.execute(
                "INSERT INTO items (context, id, text, scores, shared, since) VALUES (?, ?, ?, ?, ?, ?)",
                (context, name, text, scores, shared, growth.number),
            )
