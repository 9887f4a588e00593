"""comparo.rank: the whole job in one call, from texts to a ranking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from comparo.data.items import Items
from comparo.data.prompts import Prompt, choose_prompt
from comparo.judges import Judge, load_judge
from comparo.judges.function import as_judge
from comparo.methods import Method
from comparo.model.product import Bias
from comparo.ranking.ranking import Ranking
from comparo.run.budget import Budget
from comparo.run.loop import Progress, Run
from comparo.run.store import Store
from comparo.run.task import Task
from comparo.selection.defaults import Orders, Strategy


def rank(
    data: Any,
    criterion: str | None = None,
    *,
    judge: str | Judge | Callable[..., float] = "local/smollm2",
    budget: str | int = "10n",
    until: float | None = None,
    goal: str = "ranking",
    kind: str = "Text",
    heading: str = "Context",
    prompt: str | Prompt | None = None,
    strategy: Strategy | None = None,
    orders: Orders = "both",
    method: Method = "poe-bt",
    bias: Bias | None = None,
    seed: int = 0,
    plain: bool = False,
    least_mass: float = 0.5,
    out: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    watch: Callable[[Progress], None] | None = None,
    id: str | None = None,  # noqa: A002
    text: str | None = None,
    context: str | None = None,
    context_id: str | None = None,
    group: str | None = None,
    scores: str | Sequence[str] | None = None,
) -> Ranking:
    """A ranking of texts by a judge, from few comparisons.

    `data` is anything that `Items.of` reads: a list of texts, a mapping from id to text, a data frame, a file, with the
    columns that `id`, `text`, `context`, `context_id`, `group` and `scores` name. The judge is asked which of two is
    `criterion` ("more coherent"), or the question of your own `prompt`; it is provider/model with `options`, any object
    with the protocol of a judge, or a function of two texts that returns P(the first is better).

    `budget` is a number of calls, "10n" calls an item, "5%" of all ordered pairs, or "$2.50"; `until` stops earlier,
    once the expected Spearman correlation with the true ranking (for the goal "top-5": the probability that the best
    five are right) reaches it. A `plain` run does as the paper does: texts do not count in the choice of pairs, and no
    variances are estimated. Where the judge's first answers put less than `least_mass` of its probability on the
    labels, they mean little, and the run stops. With `out`, a folder, everything asked is kept there, and a call that
    was stopped goes on where it was.

    >>> from comparo.judges import load_judge
    >>> quality = {"ana": 2.0, "bo": 0.0, "cy": -2.0}
    >>> texts = {name: f"A story by {name}." for name in quality}
    >>> rank(texts, "more surprising", judge=load_judge("simulated/soft", scores=quality)).to_columns()["item"].tolist()
    ['ana', 'bo', 'cy']
    """
    columns = {"id": id, "text": text, "context": context, "context_id": context_id, "group": group}
    items = Items.of(data, **columns, scores=scores)
    shown = any(text is not None for text in items.context_texts)
    question = choose_prompt(criterion, prompt, kind=kind, heading=heading if shown else None)
    whoever = load_judge(judge, **(options or {})) if isinstance(judge, str) else as_judge(judge)
    task = Task(
        items,
        question,
        whoever,
        Budget.of(budget),
        until,
        goal,
        strategy,
        orders,
        method,
        bias,
        seed,
        plain,
        least_mass,
    )
    task.check()
    store = Store(None if out is None else Path(out), task.identity, task.configuration)
    try:
        store.add_items(items)
        ranking = Run(task, store, watch).go()
        store.write("ranking.csv", ranking.to_csv())
        return ranking
    finally:
        store.close()
