"""From what a caller gives to a run that is begun: judges and prompts by name, the folder, the store."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comparo.data.criteria_prompt import CriteriaPrompt, criteria_prompt
from comparo.data.items import Items
from comparo.data.prompts import PAPER, Prompt, choose_prompt
from comparo.data.wordings import DEFAULT_WORDING
from comparo.data.writing import csv_text
from comparo.judges import Judge, as_judge, load_judge
from comparo.ranking.ranking import Ranking
from comparo.run.batch import BatchRun, Mode, check_batch
from comparo.run.batch_store import check_no_batch
from comparo.run.budget import PROBES
from comparo.run.caching_judge import recalled, remembering
from comparo.run.criteria_run import CriteriaRun, CriteriaStore
from comparo.run.dry_run import warnings_of
from comparo.run.folders import set_aside
from comparo.run.loop import Run, logger
from comparo.run.probing import probe_judges
from comparo.run.resume import grown, open_grown
from comparo.run.store import VOTES, Store
from comparo.run.task import Task
from comparo.run.watch import Watch, Watcher, finish_watched

Asked = str | Judge | Callable[..., float]
Folder = str | Path | Callable[[Task], Path] | None
NO_READERS = ("simulated/", "replay/")  # judges that read no prompt


@dataclass(frozen=True)
class Start:
    """Where a run is stored, what is added to its run.json, and who is told of it; as for `rank`.

    A run that `grows` takes new items into the folder that is there.
    """

    out: Folder = None
    fresh: bool = False
    notes: Mapping[str, Any] | None = None
    watch: Watch = None
    say: Callable[[str], None] = logger.warning
    finish: Callable[[Run], Ranking] = Run.finish
    batch: Mode | None = None
    grows: bool = False
    allow_changes: bool = False

    def go(self, task: Task) -> Ranking:
        """Choose the folder of a task, make the run, and let `finish` complete it."""
        judges = task.judges  # also at the ordinary price, at which they are probed
        if self.batch is not None:
            task = check_batch(task, self.out is not None)
        folder = self.out(task) if callable(self.out) else None if self.out is None else Path(self.out)
        if self.grows and not self.fresh and not _is_several(task):
            task = grown(task, folder, self.allow_changes)
        if self.batch is not None and task.growth is not None:
            raise ValueError("--batch cannot place new items: each of their pairs goes by answers; leave --batch out")
        task.check()
        for words in warnings_of(task):
            self.say(words)
        found = {PROBES: probe_judges(judges, None if self.fresh else folder, self.say)}
        if folder is not None and self.fresh:
            set_aside(folder)
        with closing(self._store(folder, task, {**found, **(self.notes or {})})) as store:
            store.add_items(task.items)
            if task.votes is not None:
                store.write(VOTES, csv_text(task.votes.to_columns()))
            if self.batch is None:
                check_no_batch(store)
            finish = _finish if self.finish is Run.finish else self.finish
            with recalled(task, store):
                return finish_watched(lambda watch: self._make(task, store, watch), self.watch, finish)

    def _store(self, folder: Path | None, task: Task, notes: Mapping[str, Any]) -> Store:
        if _is_several(task):
            return CriteriaStore(folder, task.identity, {**task.configuration, **notes})
        return open_grown(folder, task, notes)

    def _make(self, task: Task, store: Store, watch: Watcher | None) -> Run:
        if self.batch is not None:
            return BatchRun(task, store, watch, self.say, self.batch)
        return (CriteriaRun if _is_several(task) else Run)(task, store, watch, self.say)


def _finish(run: Run) -> Ranking:
    """Complete a run in its own way: one by several criteria has another."""
    return run.finish()


def _is_several(task: Task) -> bool:
    return isinstance(task.prompt, CriteriaPrompt)


def make_judges(judge: Asked | Sequence[Asked], options: Any = None, cache: str | Path | None = None) -> list[Judge]:
    """The judges that are given by name, as judges or as functions, with one mapping of options each or for all.

    With a `cache`, they look for answers there before they are asked.

    >>> [judge.name for judge in make_judges(["simulated/soft", "simulated/hard"], {"seed": 3})]
    ['simulated/soft', 'simulated/hard']
    """
    judges = listed(judge)
    given = listed(options) if isinstance(options, list | tuple) else [options] * len(judges)
    if not judges or len(given) != len(judges):
        raise ValueError(f"{len(given)} mappings of options for {len(judges)} judges; give one each, or one for all")
    made = [
        load_judge(each, **(own or {})) if isinstance(each, str) else as_judge(each)
        for each, own in zip(judges, given, strict=True)
    ]
    return remembering(made, cache)


def reader_among(judge: Asked | Sequence[Asked]) -> str:
    """The name of a judge that reads prompts, "" for one that is given without a name."""
    return reader([each if isinstance(each, str) else "" for each in listed(judge)])


def listed(given: Any) -> list[Any]:
    """What is given, as a list."""
    return list(given) if isinstance(given, list | tuple) else [given]


def reader(judges: Sequence[str]) -> str:
    """The name of a judge that reads prompts, or of the first where none does; "" is a judge without a name.

    >>> reader(["simulated/soft", "openai/gpt-6-luna"])
    'openai/gpt-6-luna'
    """
    return next((judge for judge in judges if not judge.startswith(NO_READERS)), judges[0])


def make_prompt(
    items: Items,
    criterion: str | Mapping[str, str] | None,
    prompt: str | Prompt | None,
    judge: str = "",
    *,
    kind: str = "Text",
    heading: str | None = None,
    context: str | None = None,
    wording: str | None = None,
    labels: tuple[str, str] | None = None,
    answer: str | None = None,
) -> Prompt:
    """The prompt for some items: a criterion, a template, the path of one, or the name of one of the paper's prompts.

    Several criteria are given by name. A simulated or recorded judge reads no prompt, so it needs neither.
    """
    if criterion is None and prompt is None and judge.startswith(NO_READERS):
        criterion = "better"
    has_contexts = any(text is not None for text in items.context_texts)
    if has_contexts and heading is None:
        heading = (context or "context").replace("_", " ").capitalize()
    if isinstance(criterion, Mapping):
        if prompt is not None or labels is not None or answer is not None:
            raise ValueError("several criteria have a prompt of their own; leave --prompt out")
        return criteria_prompt(criterion, kind, heading if has_contexts else None, wording or DEFAULT_WORDING)
    if isinstance(prompt, str) and prompt not in PAPER and "{" not in prompt:
        if not Path(prompt).is_file():
            raise ValueError(f"--prompt {prompt}: no such file, and none of the paper's prompts: {', '.join(PAPER)}")
        prompt = Path(prompt).read_text(encoding="utf-8")
    return choose_prompt(
        criterion,
        prompt,
        kind=kind,
        heading=heading if has_contexts else None,
        wording=wording,
        labels=labels,
        answer=answer,
    )
