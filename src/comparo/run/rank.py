"""comparo.rank: the whole job in one call, from texts to a ranking."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from comparo.data.items import Items
from comparo.data.prompts import PAPER, Prompt, choose_prompt
from comparo.judges import Judge, as_judge, load_judge
from comparo.methods import Method
from comparo.model.product import Bias
from comparo.ranking.ranking import Ranking
from comparo.run.budget import Budget
from comparo.run.folders import set_aside
from comparo.run.loop import Progress, Run, logger
from comparo.run.recipe import Scores
from comparo.run.store import Store
from comparo.run.task import DEFAULT_JUDGE, DEFAULT_LEAST_MASS, DEFAULT_METHOD, Task
from comparo.run.voices import voices_of
from comparo.selection.defaults import DEFAULT_BUDGET, DEFAULT_GOAL, DEFAULT_ORDERS, Orders, Strategy

Asked = str | Judge | Callable[..., float]
NO_READERS = ("simulated/", "replay/")  # judges that read no prompt


def rank(
    data: Any,
    criterion: str | None = None,
    *,
    judge: Asked | Sequence[Asked] = DEFAULT_JUDGE,
    budget: str | int = DEFAULT_BUDGET,
    until: float | None = None,
    goal: str = DEFAULT_GOAL,
    kind: str = "Text",
    heading: str | None = None,
    wording: str | Sequence[str] | None = None,
    prompt: str | Prompt | Sequence[Prompt] | None = None,
    labels: tuple[str, str] | None = None,
    answer: str | None = None,
    strategy: Strategy | None = None,
    orders: Orders = DEFAULT_ORDERS,
    method: Method = DEFAULT_METHOD,
    bias: Bias | None = None,
    seed: int = 0,
    plain: bool = False,
    estimate: Scores = "auto",
    validity: float | None = None,
    least_mass: float = DEFAULT_LEAST_MASS,
    out: str | Path | Callable[[Task], Path] | None = None,
    fresh: bool = False,
    notes: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    watch: Callable[[Progress], None] | None = None,
    say: Callable[[str], None] = logger.warning,
    finish: Callable[[Run], Ranking] = Run.finish,
    id: str | None = None,  # noqa: A002
    text: str | None = None,
    context: str | None = None,
    context_id: str | None = None,
    group: str | None = None,
    scores: str | Sequence[str] | None = None,
) -> Ranking:
    """Rank texts by a judge, from few comparisons.

    Parameters
    ----------
    data
        Anything that `Items.of` reads: a list of texts, a mapping from id to text, a data frame, a file. `id`, `text`,
        `context`, `context_id`, `group` and `scores` name its columns.
    criterion, kind, heading, wording
        The judge is asked which of two texts is `criterion` ("more coherent"). `kind` is what the texts are called
        ("Summary"), `heading` what stands above the context; by default the name of its column. `wording` is the name
        of the way to put the question, such as "between"; by default the paper's.
    prompt, labels, answer
        Instead of a criterion: a template with {first} and {second}, a file that holds one, or the name of one of the
        paper's prompts; the two labels that name the texts in it, and how the judge's answer begins.
    judge, options
        provider/model with its options, any object with the protocol of a judge, or a function of two texts that
        returns P(the first is better). With a list of judges (and a list of options, one mapping for each), or of
        wordings, every judge with every wording is a voice: the ranking is the consensus of all voices, and the calls
        go to those that tell most of it for their price.
    budget, until, goal
        A number of calls, "10n" calls per item, "5%" of all ordered pairs, or "$2.50". `until` stops earlier, once the
        expected Spearman correlation with the true ranking (for the goal "top-5": the probability that the best five
        are right) reaches it. The goals "systems" and "best-system" are about groups of texts in all contexts together:
        to tell them apart (`until`: the expected correlation of their order), or to find the best (`until`: the
        probability that it is).
    strategy, orders, plain, seed
        How pairs are chosen. A plain run follows the paper: the choice of pairs ignores the texts, and no variances are
        estimated.
    method, bias
        How comparisons become scores; see `fit`.
    estimate, validity
        Whose ranking it is: "judge", or "consensus", what people would say, as far as one judge can tell; `validity` is
        the share of the judge's view of single texts that people share, by default estimated. "auto" is a consensus
        where texts share groups (a column group, or the same ids in several contexts), else the judge's.
    least_mass
        The run stops early if the judge's first answers put less than this share of its probability on the labels.
    out, fresh, notes
        A folder in which everything asked is stored, or a function that chooses it for the `Task`; a call that was
        stopped continues there. With `fresh` an existing folder is renamed first. `notes` are added to its run.json.
    watch, say, finish
        Called with the progress about twice per second, with a sentence that the user should read at once, and with
        the `Run`, to complete it and return its ranking.

    Returns
    -------
    Ranking

    Raises
    ------
    ValueError
        Before anything is asked, if the options do not fit together or the budget cannot connect the items.
    JudgeError, RunError, StoreError
        If the judge, the run or the folder cannot continue; all answers so far are stored.

    Examples
    --------
    >>> from comparo.judges import load_judge
    >>> quality = {"ana": 2.0, "bo": 0.0, "cy": -2.0}
    >>> texts = {name: f"A story by {name}." for name in quality}
    >>> rank(texts, "more surprising", judge=load_judge("simulated/soft", scores=quality)).to_columns()["item"].tolist()
    ['ana', 'bo', 'cy']
    """
    columns = {"id": id, "text": text, "context": context, "context_id": context_id, "group": group}
    items = Items.of(data, **columns, scores=scores)
    judges, prompts = _listed(judge), _listed(prompt)
    given = _listed(options) if isinstance(options, list | tuple) else [options] * len(judges)
    if not judges or len(given) != len(judges):
        raise ValueError(f"{len(given)} mappings of options for {len(judges)} judges; give one each, or one for all")
    named = reader([each if isinstance(each, str) else "" for each in judges])
    words = partial(make_prompt, kind=kind, heading=heading, context=context, labels=labels, answer=answer)
    prompts = [words(items, criterion, text, named, wording=each) for text in prompts for each in _listed(wording)]
    asked = [
        load_judge(each, **(own or {})) if isinstance(each, str) else as_judge(each)
        for each, own in zip(judges, given, strict=True)
    ]
    voices = voices_of(asked, prompts)
    how = (strategy, orders, method, bias, seed, plain, least_mass, estimate, validity)
    several = voices if len(voices) > 1 else ()
    task = Task(items, prompts[0], asked[0], Budget.of(budget), until, goal, *how, several)
    folder = out(task) if callable(out) else None if out is None else Path(out)
    task.check()
    if folder is not None and fresh:
        set_aside(folder)
    with closing(Store(folder, task.identity, {**task.configuration, **(notes or {})})) as store:
        store.add_items(items)
        return finish(Run(task, store, watch, say))


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def reader(judges: Sequence[str]) -> str:
    """The name of a judge that reads prompts, or of the first where none does; "" is a judge without a name.

    >>> reader(["simulated/soft", "openai/gpt-4o-mini"])
    'openai/gpt-4o-mini'
    """
    return next((judge for judge in judges if not judge.startswith(NO_READERS)), judges[0])


def make_prompt(
    items: Items,
    criterion: str | None,
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

    A simulated or recorded judge reads no prompt, so it needs neither.
    """
    if criterion is None and prompt is None and judge.startswith(NO_READERS):
        criterion = "better"
    has_contexts = any(text is not None for text in items.context_texts)
    if has_contexts and heading is None:
        heading = (context or "context").replace("_", " ").capitalize()
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
