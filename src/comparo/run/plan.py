"""From a task to a run: `prepare` checks everything and asks nothing, `Plan.run` asks.

task ─► prepare ─► Plan (folder, growth, expense, first question) ─► run ─► ranking
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, cast

from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.items import Items
from comparo.data.prompts import Question
from comparo.data.run_folder import DATABASE, key_of
from comparo.data.writing import csv_text
from comparo.errors import JudgeError, StoreError
from comparo.judges import Judge, Judgement, Probe
from comparo.ranking.ranking import Ranking
from comparo.run.batch import BatchRun, Mode, check_batch
from comparo.run.batch_transport import check_no_batch
from comparo.run.budget import PROBES, dollars
from comparo.run.cache import Cache
from comparo.run.check import calls_before, check_before, task_after
from comparo.run.criteria_run import CriteriaRun, CriteriaStore
from comparo.run.files import set_aside
from comparo.run.folders import choose_folder
from comparo.run.loop import Run
from comparo.run.plan_text import given_words, warnings_of
from comparo.run.progress import Watch, watching
from comparo.run.recalling import Recalling, head_of, key_of_answer
from comparo.run.resume import grown, growth_sentence, merged, open_grown
from comparo.run.store import CHANGED, VOTES, Store, count_judgements, read_configuration
from comparo.run.task import Expense, Task
from comparo.run.worker import Asking

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Storage:
    """Where a run is stored, and how.

    Parameters
    ----------
    out : The run folder; None: a folder of comparo-runs named after `name`, or memory where there is no name.
    fresh : Whether an existing folder is renamed first.
    allow_changes : Whether texts may be changed or removed in a run that grows.
    batch : Whether questions go to the server as a batch, and what to do with it.
    notes : What is added to run.json.
    """

    out: Path | None = None
    name: str | None = None
    fresh: bool = False
    allow_changes: bool = False
    batch: Mode | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    def beside(self, suffix: str) -> Storage:
        """The storage of a first part of the run, in a folder beside it."""
        out = None if self.out is None else self.out.with_name(f"{self.out.name}-{suffix}")
        return replace(self, out=out, name=None if self.name is None else f"{self.name}-{suffix}")


IN_MEMORY = Storage()


@dataclass
class Plan:
    """A run that is checked and counted, and has not asked anything.

    `given` are answers of other voices that are stored first; `loop` is the run once it has begun. `judges` are those
    of the task at their ordinary price, at which they are probed. Where there are items `restarts`, a judge that has
    changed is asked everything again, in their order, because its answers alone decide.
    """

    task: Task
    expense: Expense
    storage: Storage
    folder: Path | None
    judges: Sequence[Judge]
    given: Sequence[Judgement] = ()
    loop: Run | None = None
    restarts: Items | None = None

    @property
    def base(self) -> Plan:
        """The plan of the calls."""
        return self

    @property
    def is_several(self) -> bool:
        """Whether one call answers several criteria."""
        return isinstance(self.task.prompt, CriteriaPrompt)

    def run(self, watch: Watch = None) -> Ranking:
        """Ask all questions, write the ranking to the folder, and return it."""
        with self.started(watch) as run:
            return run.finish()

    @cached_property
    def check_calls(self) -> int:
        """How many calls check at most that the judges are those of the answers in the folder."""
        if self.storage.batch is not None or self.storage.fresh:
            return 0
        return sum(calls_before(self.task, self.folder).values())

    @contextmanager
    def started(self, watch: Watch = None, limit: Callable[[Run], None] | None = None) -> Iterator[Run]:
        """Probe the judges and open the folder; `watch` sees how the run ended, `limit` sets when the run stops.

        Where the run would add to old answers, the judges are checked first.
        """
        task, storage = self.task, self.storage
        for judge in task.judges:
            getattr(judge, "ready", lambda: None)()
        for words in warnings_of(task):
            logger.warning(words)
        probes = probe_judges(self.judges, None if storage.fresh else self.folder)
        if self.folder is not None and storage.fresh:
            set_aside(self.folder)
        with watching(watch) as watcher, closing(self._store({PROBES: probes, **storage.notes})) as store:
            store.add_items(task.items)
            if self.given:
                known = store.known()
                store.add(one for one in self.given if key_of(one.question) not in known)
            if task.votes is not None:
                store.write(VOTES, csv_text(task.votes.to_columns()))
            if storage.batch is None:
                check_no_batch(store)
            task, paid = self._restarted(task, store), list[Judgement]()
            if self.check_calls and self._asks(task, store, limit):
                task, paid = check_before(task, store)
            self.task = task = self._restarted(task, store)
            with recalled(task, store):
                if storage.batch is not None:
                    self.loop = BatchRun(task, store, watcher, storage.batch)
                else:
                    self.loop = (CriteriaRun if self.is_several else Run)(task, store, watcher)
                self.loop.pay(paid)
                if limit is not None:
                    limit(self.loop)
                logger.info(self._begin())
                yield self.loop
                if watcher is not None:
                    watcher(self.loop.progress)

    def _restarted(self, task: Task, store: Store) -> Task:
        """The task without answers from before, where a judge that changed is asked everything again."""
        if self.restarts is None or CHANGED not in store.configuration:
            return task
        return replace(task, items=merged(self.restarts, task.items, ()), growth=None, given=())

    def _asks(self, task: Task, store: Store, limit: Callable[[Run], None] | None) -> bool:
        """Whether a judge is asked anything that neither the folder nor the cache answers; nothing is asked."""
        trial, listener = Run(task, store), _Listener()
        if limit is not None:
            limit(trial)
        trial._fill(cast(Asking, listener))
        voices = {voice.name: voice for voice in task.voices}
        asked = ((voices[question.voice], question) for question in listener.asked)
        with recalled(task, store):  # which forgets at the end what was looked for
            return any(
                not isinstance(voice.judge, Recalling) or voice.judge.find(question, voice.prompt) is None
                for voice, question in asked
            )

    def _store(self, notes: Mapping[str, Any]) -> Store:
        if self.is_several:
            return CriteriaStore(self.folder, self.task.identity, {**self.task.configuration, **notes})
        return open_grown(self.folder, self.task, notes)

    def _begin(self) -> str:
        total = 0 if self.loop is None else self.loop.progress.total
        begin = f"{self.task.title}{total:,} calls at most{given_words(self.task)}; run folder {self.folder}"
        return "\n".join(filter(None, (growth_sentence(self.task), begin)))


def prepare(task: Task, storage: Storage = IN_MEMORY) -> Plan:
    """Choose the folder of a task, add its items to those of the folder, and check the budget; nothing is asked.

    Raises
    ------
    ValueError
        If the options do not fit together, or the budget cannot connect the items.
    WrongFolderError
        If the folder is of another run.

    Examples
    --------
    >>> from comparo.data.items import Items
    >>> from comparo.data.prompts import criterion_prompt
    >>> from comparo.judges import load_judge
    >>> from comparo.run.budget import Budget
    >>> items = Items.of({name: f"A story by {name}." for name in ("ana", "bo", "cy")})
    >>> plan = prepare(Task(items, criterion_prompt("better"), load_judge("simulated/soft"), Budget.of(6)))
    >>> plan.expense.calls, len(plan.run())
    (6, 3)
    """
    judges = task.judges
    if storage.batch is not None:
        task = check_batch(task, (storage.out or storage.name) is not None)
    folder = storage.out
    if folder is None and storage.name is not None:
        folder = choose_folder(storage.name, task.identity, storage.fresh)
    if task.grows and not storage.fresh:
        task = grown(task, folder, storage.allow_changes)
    if folder is not None and (folder / DATABASE).is_file() and not storage.fresh:
        task = task_after(task, read_configuration(folder))
    if storage.batch is not None and task.growth is not None:
        raise ValueError("`batch` cannot place new items: each of their pairs goes by answers; leave it out")
    return Plan(task, task.expense, storage, folder, judges)


@contextmanager
def recalled(task: Task, store: Store) -> Iterator[None]:
    """Open the caches of a task's judges for its run, and close them afterwards; a StoreError where one is damaged."""
    heads = {
        voice.name: (voice.judge.cache, head_of(voice.judge.asked, voice.prompt))
        for voice in task.voices
        if isinstance(voice.judge, Recalling)
    }
    had: dict[Cache, list[bytes]] = {cache: [] for cache, _ in heads.values()}
    # Else no two questions of the run have the same key, and it need not be known which answers it has had.
    if len(set(heads.values())) < len(heads) or (heads and len(set(task.items.texts)) < len(task.items)):
        answered = (one.question for one in chain(store.judgements(), task.given) if not one.failed)
        for question in {key_of(question): question for question in answered if question.voice in heads}.values():
            cache, head = heads[question.voice]
            shown = task.items.question(question.context, question.first, question.second)
            had[cache].append(key_of_answer(head, shown))
    for cache, keys in had.items():
        cache.begin(keys)
    try:
        yield
    finally:
        for cache in had:
            cache.close()


def first_question(task: Task) -> Question | None:
    """The first question of a new run of this task; None where all its answers are given. No judge is asked.

    >>> from comparo.data.items import Items
    >>> from comparo.data.prompts import criterion_prompt
    >>> from comparo.judges import load_judge
    >>> from comparo.run.budget import Budget
    >>> items = Items.of({name: f"A story by {name}." for name in ("ana", "bo", "cy")})
    >>> asked = first_question(Task(items, criterion_prompt("better"), load_judge("simulated/soft"), Budget.of(6)))
    >>> asked.first_text == f"A story by {asked.first}." and asked.first != asked.second
    True
    """
    listener = _Listener()
    with closing(Store(None, {})) as store:
        Run(task, store)._fill(cast(Asking, listener))
    return listener.asked[0] if listener.asked else None


class _Listener:
    """Takes the place of the judges of a run, and remembers the questions to them."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    @property
    def open(self) -> int:
        return len(self.asked)

    def ask(self, question: Question) -> None:
        self.asked.append(question)


def probe_judges(judges: Sequence[Judge], folder: Path | None = None) -> list[dict[str, Any]]:
    """What the judges of a run accept and give, from its folder if it is there, else by asking them.

    Of several judges, one that cannot be asked is named in a warning, and is left out when the run asks it.

    Raises
    ------
    JudgeError
        No judge can be asked with these settings; the message names the remedy.

    Examples
    --------
    >>> from comparo.judges import load_judge
    >>> probe_judges([load_judge("simulated/soft")])
    []
    """
    asked = [judge for judge in judges if hasattr(judge, "probe") and hasattr(judge, "learn")]
    known, begun = _kept(folder) if asked else ([], False)
    probes, failed = [], []
    for judge in asked:
        about = _about(judge)
        before = _those_of(about, known)
        if before:
            judge.learn(before[0]["found"])
            probes.append(before[0])
        elif not begun:
            try:
                probes.append({**about, **_probed(judge.probe())})
            except JudgeError as error:
                failed.append(error)
                if len(failed) == len(judges):
                    raise
                logger.warning("%s was probed in vain: %s", judge.name, error)
    return probes


def remember_probes(judges: Sequence[Judge], folder: Path | None = None) -> None:
    """Take over what earlier probes found, from a run folder or from the judges' caches; nothing is asked."""
    asked = [judge for judge in judges if hasattr(judge, "probe") and hasattr(judge, "learn")]
    known, _ = _kept(folder) if asked else ([], False)
    for judge in asked:
        getattr(judge, "remember", lambda: None)()
        for one in _those_of(_about(judge), known):
            judge.learn(one["found"])


def _about(judge: Judge) -> dict[str, Any]:
    """By what a probe in run.json is known."""
    return dict(json.loads(json.dumps({"judge": judge.name, "settings": dict(judge.settings)}, default=str)))


def _those_of(about: Mapping[str, Any], probes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in probes if {name: one.get(name) for name in about} == about]


def _probed(probe: Probe) -> dict[str, Any]:
    """Log a probe, and return it as run.json holds it."""
    price = "price not known" if math.isnan(probe.cost) else dollars(probe.cost)
    took = f"{probe.calls} call{'' if probe.calls == 1 else 's'}, {probe.tokens:,} tokens, {price}"
    if probe.calls:
        logger.warning("%s (a probe of %s)", probe.sentence, took)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "sentence": probe.sentence,
        "found": dict(probe.found),
        "calls": probe.calls,
        "tokens": probe.tokens,
        "cost": None if math.isnan(probe.cost) else probe.cost,
    }


def _kept(folder: Path | None) -> tuple[list[dict[str, Any]], bool]:
    """The probes in a run folder, and whether it has answers; none where there is no such folder yet."""
    if folder is None:
        return [], False
    try:
        return list(read_configuration(folder).get(PROBES) or ()), any(count_judgements(folder))
    except StoreError:  # not a run folder, or a damaged one, which is told where it is opened
        return [], False
