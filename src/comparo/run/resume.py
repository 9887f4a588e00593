"""Continue a run with more items: from a task and a folder to a task that has grown, and its store.

`grown` compares the items of a task with those of the folder. It returns the task with all items, the answers that are
there as given, and a budget for what is new. `open_grown` writes the change to the folder in one transaction: a process
that is killed leaves a folder that has grown or one that has not, and the same command continues.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import shown
from comparo.data.items import Items
from comparo.data.prompts import Rest
from comparo.data.run_folder import DATABASE, Key, clean, decode, encode, key_of, slot_labels
from comparo.errors import Message, StoreError, WrongFolderError, named
from comparo.judges import Judgement
from comparo.log.configuration import differences, paid_and_spent
from comparo.log.database import last_judgement
from comparo.log.files import as_json, now
from comparo.log.rows import Label, as_objects, texts_of, write_items
from comparo.log.store import CHANGED, KEPT, LINK, Store, read_configuration, reading, stored_items
from comparo.run.linking import UNCENTRED, Growth, History
from comparo.run.task import Task


def merged(stored: Items, given: Items) -> Items:
    """The stored items in their order, then the new ones among the given items.

    An item in both is taken as given, with its scores, group and numbers; other stored items are unchanged.

    >>> stored, given = Items.of({"ana": "A story.", "bo": "Another."}), Items.of({"cy": "A third.", "bo": "Another."})
    >>> merged(stored, given).ids.tolist()
    ['ana', 'bo', 'cy']

    Raises
    ------
    ValueError
        If only one of both has groups, if the stored items lack a number to control for, or if the text of a context
        differs.
    """
    old, new = texts_of(stored), texts_of(given)
    ids = [item for (_, item), *_ in (old | new).values()]
    places = {label: (stored, row) for row, label in enumerate(old)}
    places |= {label: (given, row) for row, label in enumerate(new)}
    rows = list(places.values())
    if any(of is stored for of, _ in rows):
        _check_alike(stored, given)
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
    group = None
    if given.group is not None:
        group = as_objects(of.group[row] for of, row in rows if of.group is not None)

    def numbers(name: str, column: str) -> NDArray[np.float64]:
        found = []
        for of, row in rows:
            values = getattr(of, column).get(name)
            found.append(np.nan if values is None else values[row])
        return np.array(found)

    return Items(
        as_objects(ids),
        tuple(of.texts[row] for of, row in rows),
        as_objects(of.contexts.tolist()[number] for of, number in contexts.values()),
        np.array([code[context] for context, _ in places], dtype=np.int32),
        tuple(of.context_texts[number] for of, number in contexts.values()),
        {name: numbers(name, "scores") for name in {**given.scores, **stored.scores}},
        group,
        {name: numbers(name, "numbers") for name in given.numbers},
        _anchors(stored, given, list(places)),
    )


def _anchors(stored: Items, given: Items, labels: Sequence[Label]) -> NDArray[np.float64] | None:
    """The known scores of the items with these labels: those that are given, else those that are stored."""
    known: dict[Label, float] = {}
    for items in (stored, given):
        if items.anchor is not None:
            known.update(zip(texts_of(items), items.anchor.tolist(), strict=True))
    if not known:
        return None
    return np.array([known.get(label, np.nan) for label in labels])


def _check_alike(stored: Items, given: Items) -> None:
    """Raise a ValueError where only one of both has groups, or the stored items lack numbers of the given ones."""
    if (stored.group is None) != (given.group is None):
        raise ValueError(Message("the run's items or the new ones have no groups; give all in one file, with {group}"))
    if missing := [name for name in given.numbers if name not in stored.numbers]:
        raise ValueError(f"the items of the run have no numbers {missing[0]!r}; give all items in one file")


DIFFERS = ("items", "audition")  # settings in which the identity of a growing run may differ from that of its folder
NAMED = 3  # items that a message names


@dataclass(frozen=True)
class Change:
    """How the items that are given differ from those of a folder."""

    added: tuple[Label, ...]
    changed: tuple[Label, ...]
    removed: tuple[Label, ...]

    @classmethod
    def between(cls, stored: Items, given: Items, last: frozenset[Label], is_linked: bool = False) -> Change:
        """The change from the stored to the given items; `last` are the items of the last growth.

        Stored items that are not given count as removed, unless the run is linked, no stored item is given, or exactly
        those of `last` are.
        """
        old, new = texts_of(stored), texts_of(given)
        changed = tuple(label for label in old if label in new and old[label][1:] != new[label][1:])
        others = old.keys() - new.keys()
        repeats_last = bool(last) and new.keys() == last and not changed
        adds_only = is_linked or others == old.keys() or repeats_last
        added = tuple(label for label in new if label not in old)
        removed = () if adds_only else tuple(label for label in old if label in others)
        return cls(added, changed, removed)

    def described(self) -> str:
        """How many items were removed, changed and added, with the first names."""
        kinds = (self.removed, "missing"), (self.changed, "changed"), (self.added, "new")
        parts = []
        for labels, what in kinds:
            if labels:
                names = ", ".join(shown(decode(item)) for _, item in labels[:NAMED])
                more = ", …" if len(labels) > NAMED else ""
                parts.append(f"{len(labels):,} {what} ({names}{more})")
        return " and ".join(parts)


def grown(task: Task, folder: Path | None, is_linked: bool = False) -> Task:
    """The task with the items of `folder` and the given ones; unchanged where the folder has no run with items.

    Where the run `is_linked` to that of the folder, it is stored in another one (`linked`).

    Raises
    ------
    WrongFolderError
        If the run is of another judge, prompt or way to choose pairs, or if texts were changed or removed.
    ValueError
        If the goal is about groups, or the new items lack what the others have.
    """
    if folder is None or (stored := items_there(folder)) is None:
        return task
    configuration = read_configuration(folder)
    before, identity = configuration["identity"], as_json(task.identity)
    with reading(folder) as connection:
        has_grown = connection.execute("SELECT 1 FROM growths").fetchone() is not None
    if not has_grown and before.get("items") == identity["items"]:
        return task
    if before == identity and not is_linked and len(stored) < len(task.items):  # some items are lost, and none is new
        with closing(Store(folder, before, configuration)) as store:
            store.add_items(task.items)
        stored = task.items
    history = History.read(folder)
    growths = len(history.marks)
    with reading(folder) as connection:
        mark = last_judgement(connection)
    last = frozenset(label for label, growth in history.since.items() if growth == growths > 0)
    change = Change.between(stored, task.items, last, is_linked or LINK in configuration)
    differing = differences(before, identity, DIFFERS)
    if differing and is_linked:
        raise WrongFolderError(
            Message("{link} names a run of another kind, ")
            + f"{folder}: {'; '.join(differing)}. Pairs of both need its judge, criterion and options; else "
            "rank some of its texts among the new ones, and link both by comparo fit --link"
        )
    if differing:
        raise WrongFolderError(
            f"{folder} holds another run: {'; '.join(differing)}. To add items to it, give its judge, "
            "criterion and options; " + Message("else choose another {out}, or start anew with {fresh:True}")
        )
    if change.changed or change.removed:
        raise WrongFolderError(
            f"{folder} has other texts: {change.described()}. Give them as they were, a changed text "
            "under another id; " + Message("or choose another {out}: the cache answers pairs of unchanged texts")
        )
    items = merged(stored, task.items)
    if not (change.added or growths):
        return replace(task, items=items)
    if task.compares_groups:
        goal = named("goal", task.goal)
        raise ValueError("a run with " + goal + Message(" cannot grow; rank all items in another {out}"))
    is_new = bool(change.added)
    counts = Counter(context for context, _ in change.added or last)
    limit = mark if is_new else history.marks[-1]
    kept = [one for number, _, one in history.judgements if number <= limit]
    given = tuple(answers_about(items, kept).values())
    if not given:
        remedy = Message("finish it with the items that it has, or start anew with {fresh:True}")
        raise WrongFolderError(f"{folder} holds no answers to go by, so there is no ranking to add to; " + remedy)
    number = growths + is_new
    link = configuration.get(LINK) or {}
    was_linked = is_linked or link.get("growth") == number
    growth = Growth(
        number=number,
        digest=items.digest() if is_new else before["items"],
        new={context: counts[encode(context)] for context in items.contexts.tolist()},
        paid=paid_and_spent(kept),
        audition=before.get("audition"),
        past=history.past(number, was_linked),
        mark=mark,
        configuration=configuration if is_new else None,
        linked_to=folder if is_linked else None,
    )
    return replace(task, items=items, given=given, growth=growth)


def linked(task: Task, run: Path) -> Task:
    """The task with the items and answers of `run`, to whose scale the given items are linked.

    Raises
    ------
    WrongFolderError
        If that is no run of the same judge, prompt and way to choose pairs, or has another text under the same id.
    ValueError
        If no pairs can compare the items of both, or the scores of the method have no scale.
    """
    if (stored := items_there(run)) is None:
        raise WrongFolderError(Message("{link} names ") + f"{run}, no run with texts; name a folder of comparo rank")
    if not task.grows:
        raise ValueError(Message("{link} puts one ranking on a scale; leave it out, or ask one criterion"))
    if task.method in UNCENTRED:
        raise ValueError(
            f"scores of {task.method} depend on whom a text met; " + Message("leave {link} or {method} out")
        )
    there = {*map(encode, stored.contexts.tolist())}
    if apart := [name for name in task.items.contexts.tolist() if encode(name) not in there]:
        name = "texts without a context" if apart == [None] else f"context {shown(apart[0])}"
        raise ValueError(
            f"nothing links {name} to {run}: only texts of one context are compared; give the contexts of that run"
        )
    found = grown(task, run, is_linked=True)
    if found.growth is None or not sum(found.growth.new.values()):
        raise ValueError(f"every text is in {run} already, so there is nothing to link; give new ones")
    return found


def items_before(out: Path | None, run: Path | None, fresh: bool) -> Items | None:
    """The items to which given ones are added: those of `out`, else of the linked run; None without either."""
    own = None if out is None or fresh else items_there(out)
    return items_there(run) if own is None and run is not None else own


def items_there(folder: Path) -> Items | None:
    """The items of a run to which others may be added; None where there is no such run."""
    if not (folder / DATABASE).is_file():
        return None
    with reading(folder) as connection:
        if not connection.execute("SELECT 1 FROM items").fetchone():
            return None
    return stored_items(folder)


def open_grown(folder: Path | None, task: Task, notes: Mapping[str, Any]) -> Store:
    """The store of a task in its folder; where the task grows, the folder has grown when this returns."""
    started, growth = {**task.configuration, **notes}, task.growth
    if growth is None or growth.configuration is None:
        return Store(folder, task.identity, started)
    before, identity = dict(growth.configuration), as_json(task.identity)
    if growth.linked_to is None:
        kept = {name: before[name] for name in KEPT if name in before}
        store = Store(folder, before.pop("identity"), before)
    else:
        kept = {name: before[name] for name in (CHANGED,) if name in before}
        kept[LINK] = {"run": str(growth.linked_to.resolve()), "growth": growth.number}
        store = Store(folder, identity, started)
    try:
        store.change(partial(_write, str(folder), growth, task.items), {"identity": identity, **started, **kept})
    except BaseException:
        store.close()
        raise
    return store


def growth_sentence(task: Task) -> str:
    """What a growth adds, before anything is asked; "" for a run that does not grow now."""
    growth = task.growth
    if growth is None:
        return ""
    new = sum(growth.new.values())
    return f"{new:,} of {len(task.items):,} items are new, {len(task.given):,} answers from before count"


def _labels(judgement: Judgement) -> tuple[Label, ...]:
    return slot_labels(key_of(judgement.question))


def answers_about(
    items: Items, judgements: Iterable[Judgement], voices: Mapping[str | None, str | None] | None = None
) -> dict[Key, Judgement]:
    """The last answer to each question about `items`; `voices` has the voices to use and their new names."""
    labels = {label: names for label, (names, *_) in texts_of(items).items()}
    found = {}
    for one in judgements:
        voice = one.question.voice
        if not one.failed and (voices is None or voice in voices):
            (context, first), *others = (labels[label] for label in _labels(one))
            rest = [item for _, item in others]
            question = items.question(context, first, rest[0] if len(rest) == 1 else Rest(rest))
            question = replace(question, voice=voice if voices is None else voices[voice])
            found[key_of(question)] = replace(one, question=question)
    return found


def _write(folder: str, growth: Growth, items: Items, connection: sqlite3.Connection) -> None:
    """Change the tables of a run; a StoreError where another process has changed them since they were read."""
    if growth.linked_to is not None:
        with reading(growth.linked_to) as other:
            for table in ("contexts", "items", "judgements", "growths"):
                found = other.execute(f"SELECT * FROM {table}")
                names = [name for name, *_ in found.description]  # an older folder has one fewer
                places = ", ".join("?" * len(names))
                connection.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})", found)
    mark = last_judgement(connection)
    (growths,) = connection.execute("SELECT count(*) FROM growths").fetchone()
    if (mark, growths) != (growth.mark, growth.number - 1):
        raise StoreError(f"{folder} was changed by another process in the meantime; run the same command again")
    connection.execute("INSERT INTO growths VALUES (?, ?, ?)", (growth.number, now(), mark))
    write_items(connection, items, growth.number)
