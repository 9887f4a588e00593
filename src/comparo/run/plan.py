"""From a task to a run: `prepare` checks everything and asks nothing, `Plan.run` asks.

task, experiment ─► prepare ─► Plan (folder, growth, expense, first question) ─► run ─► result of the experiment
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Generic, cast, overload

from comparo.data.formats import csv_text
from comparo.data.items import Items
from comparo.data.prompts import Question
from comparo.data.run_folder import DATABASE, key_of
from comparo.errors import Message, WrongFolderError
from comparo.judges import Judge, Judgement
from comparo.log.cache import Cache
from comparo.log.configuration import PROBES
from comparo.log.files import set_aside
from comparo.log.folders import IN_MEMORY, choose_folder
from comparo.log.questions import check_no_batch
from comparo.log.store import CHANGED, LINK, VOTES, Store, read_configuration
from comparo.options import Storage
from comparo.ranking.ranking import Ranking
from comparo.run.batch import BatchRun, check_batch
from comparo.run.budget import Expense
from comparo.run.cached_judge import CachedJudge, head_of, key_of_answer, probe_judges
from comparo.run.check import calls_before, check_before, task_after
from comparo.run.loop import Experiment, Rank, Result, Run
from comparo.run.progress import Watch, watching
from comparo.run.resume import grown, growth_sentence, items_there, linked, merged, open_grown
from comparo.run.task import Task
from comparo.run.worker import JudgeThreads

logger = logging.getLogger(__name__)

# Tokens that a hosted model reads at least, usually: 120 of the 142 models of OpenAI, Anthropic and Google whose
# `context_window` genai-prices 0.2.1 states read 128,000 or more.
USUAL_WINDOW = 128_000


@dataclass
class Plan(Generic[Result]):
    """A run that is checked and counted, and has not asked anything.

    `experiment` makes of a run what decides on its contexts and its result. `given` are answers of other voices that
    are stored first; `loop` is the run once it has begun. `judges` are those of the task at their ordinary price, at
    which they are probed. Where there are items `restarts`, a judge that has changed is asked everything again, in
    their order, because only its new answers count.
    """

    task: Task
    expense: Expense
    storage: Storage
    folder: Path | None
    judges: Sequence[Judge]
    experiment: Callable[[Run], Experiment[Result]]
    given: Sequence[Judgement] = ()
    loop: Run | None = None
    restarts: Items | None = None

    @property
    def base(self) -> Plan[Result]:
        """The plan of the calls."""
        return self

    def run(self, watch: Watch = None) -> Result:
        """Ask all questions, and return the result."""
        with self.started(watch) as run:
            found: Result = run.experiment.result()
            return found

    @cached_property
    def check_calls(self) -> int:
        """The most calls that check whether the judges changed since the answers in the folder."""
        if self.storage.batch is not None or self.storage.fresh:
            return 0
        return sum(calls_before(self.task, self.source).values())

    @property
    def source(self) -> Path | None:
        """The folder of the answers from before: its own, or that of the run to which it is linked."""
        growth = self.task.growth
        return self.folder if growth is None or growth.linked_to is None else growth.linked_to

    @contextmanager
    def started(self, watch: Watch = None) -> Iterator[Run]:
        """Probe the judges, open the folder and yield the run; `watch` gets its progress.

        Where the run would add to old answers, the judges are checked first.
        """
        task, storage = self.task, self.storage
        for judge in task.judges:
            getattr(judge, "ready", lambda: None)()
        for words in warnings_of(task):
            logger.warning(words)
        probes = probe_judges(self.judges, None if storage.fresh else self.folder)
        notes = {PROBES: probes, **storage.notes}
        if self.folder is not None and storage.fresh:
            set_aside(self.folder)
        with watching(watch) as watcher, closing(open_grown(self.folder, task, notes)) as store:
            store.add_items(task.items)
            if self.given:
                known = store.known()
                store.add(one for one in self.given if key_of(one.question) not in known)
            if task.votes is not None:
                store.write(VOTES, csv_text(task.votes.to_columns()))
            if storage.batch is None:
                check_no_batch(store)
            task, paid = self._restarted(task, store), list[Judgement]()
            if self.check_calls and self._asks(task, store):
                task, paid = check_before(task, store)
            self.task = task = self._restarted(task, store)
            with recalled(task, store):
                mode = storage.batch
                if mode is None:
                    self.loop = Run(task, store, watcher, self.experiment)
                else:
                    self.loop = BatchRun(task, store, watcher, mode)
                self.loop.pay(paid)
                logger.info(self._begin())
                yield self.loop
                if watcher is not None:
                    watcher(self.loop.progress)

    def _restarted(self, task: Task, store: Store) -> Task:
        """The task without answers from before, where a judge that changed is asked everything again."""
        if self.restarts is None or CHANGED not in store.configuration:
            return task
        return replace(task, items=merged(self.restarts, task.items), growth=None, given=())

    def _asks(self, task: Task, store: Store) -> bool:
        """Whether a judge is asked anything that neither the folder nor the cache answers; nothing is asked."""
        voices = {voice.name: voice for voice in task.voices}
        asked = [
            (voices[question.voice], question)
            for question in _first_questions(Run(task, store, experiment=self.experiment))
        ]
        with recalled(task, store):  # at its end the cache forgets what was found
            return any(
                not isinstance(voice.judge, CachedJudge) or voice.judge.find(question, voice.prompt) is None
                for voice, question in asked
            )

    def _begin(self) -> str:
        total = 0 if self.loop is None else self.loop.progress.total
        begin = f"{total:,} calls at most{given_words(self.task)}; run folder {self.folder}"
        return "\n".join(filter(None, (growth_sentence(self.task), begin)))


@overload
def prepare(task: Task, storage: Storage = IN_MEMORY) -> Plan[Ranking]: ...
@overload
def prepare(task: Task, storage: Storage, experiment: Callable[[Run], Experiment[Result]]) -> Plan[Result]: ...
def prepare(task: Task, storage: Storage = IN_MEMORY, experiment: Callable[[Run], Experiment[Any]] = Rank) -> Plan[Any]:
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
        task = check_batch(task, (storage.out or storage.name) is not None, storage.batch)
    folder, joined = storage.out, task
    if storage.link is not None and not _is_begun(folder, storage):  # else the folder has all that it needs
        joined = linked(task, storage.link)
    if folder is None and storage.name is not None:
        folder = choose_folder(storage.name, joined.identity, storage.fresh)
    if storage.link is not None and not _is_begun(folder, storage):
        task = task_after(joined, read_configuration(storage.link))
    elif task.grows and not storage.fresh:
        _check_link(folder, storage.link)
        task = grown(task, folder)
    if folder is not None and (folder / DATABASE).is_file() and not storage.fresh:
        task = task_after(task, read_configuration(folder))
    if storage.batch is not None and task.growth is not None:
        raise ValueError(Message("{batch} cannot place new items: each of their pairs goes by answers; leave it out"))
    return Plan(task, task.expense, storage, folder, judges, experiment)


def _is_begun(folder: Path | None, storage: Storage) -> bool:
    """Whether the folder has a run with items, which is continued."""
    return folder is not None and not storage.fresh and items_there(folder) is not None


def _check_link(folder: Path | None, link: Path | None) -> None:
    """Raise a WrongFolderError where the run of a folder is not linked to the one that is named."""
    if folder is not None and link is not None:
        known = (read_configuration(folder).get(LINK) or {}).get("run")
        if known != str(link.resolve()):
            linked_to = known or "no run"
            remedy = Message("choose another {out}")
            raise WrongFolderError(f"the run in {folder} is linked to {linked_to}, not to {link}; " + remedy)


def given_words(task: Task) -> str:
    """How many of a run's calls were answered before, to be put after their number."""
    where = "in the audition" if task.growth is None else "before"
    return f", {len(task.given):,} of them answered {where}" if task.given else ""


def warnings_of(task: Task) -> list[str]:
    """What to know before the first call: prompts that are too long for a judge, and texts that may address it."""
    too_long = longest_prompt_words(task) if _window_warning(task) else ""
    return [words for words in (too_long, task.injections) if words]


def longest_prompt_words(task: Task) -> str:
    """The approximate tokens of the longest prompt, and the judges whose context window may be too small for it.

    Examples
    --------
        The longest prompt has about 1,000,034 tokens: too long for openai/gpt-6-luna (128,000 tokens, the usual ...
    """
    return f"The longest prompt has about {task.longest_prompt:,} tokens{_window_warning(task)}"


def _window_warning(task: Task) -> str:
    """Which judges may read only part of the longest prompt, "" if none; one without the setting `window` reads any."""
    windows = {judge.name: judge.settings["window"] for judge in task.judges if "window" in judge.settings}
    small = []
    for name, window in windows.items():
        usual = "" if window else ", the usual context window"
        size = window or USUAL_WINDOW
        if task.longest_prompt > size:
            small.append(f"{name} ({size:,} tokens{usual})")
    if not small:
        return ""
    return f": too long for {', '.join(small)}; texts that do not fit are cut, so shorten them or use another model"


@contextmanager
def recalled(task: Task, store: Store) -> Iterator[None]:
    """Open the caches of a task's judges for its run, and close them afterwards; a StoreError where one is damaged."""
    heads = {
        voice.name: (voice.judge.cache, head_of(voice.judge.asked, voice.prompt))
        for voice in task.voices
        if isinstance(voice.judge, CachedJudge)
    }
    had: dict[Cache, list[bytes]] = {cache: [] for cache, _ in heads.values()}
    # Otherwise all questions of the run have different keys, and earlier answers cannot be confused.
    if len(set(heads.values())) < len(heads) or (heads and len(set(task.items.texts)) < len(task.items)):
        answered = (one.question for one in chain(store.judgements(), task.given) if not one.failed)
        by_key = {key_of(question): question for question in answered if question.voice in heads}
        for question in by_key.values():
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
    with closing(Store(None, {})) as store:
        return next(iter(_first_questions(Run(task, store))), None)


def _first_questions(run: Run) -> list[Question]:
    """What a run asks before it has answers."""
    listener = _Listener()
    run._fill(cast(JudgeThreads, listener))
    return listener


class _Listener(list[Question]):
    """Takes the place of the judges of a run, and holds the questions to them."""

    open = property(len)
    ask = list.append
