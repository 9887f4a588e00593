"""The answers and the items of a run as columns, for files."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from comparo.data.frames import Column
from comparo.data.items import Items
from comparo.judges import Judgement


def comparison_columns(
    judgements: Sequence[Judgement], configuration: Mapping[str, Any], texts: Items | None = None
) -> dict[str, Column]:
    """The answers in the order of their arrival: first, second, p; weight, context, judge, mass and model.

    The judge is always named, so that files of several runs can be put together; `weight` and `context` are there where
    they say something, and `mass`, the share of its probability that the judge put on the two labels, and `model`, its
    name in the server's reply, where they are known. With `texts`, first_text, second_text and context_text follow.
    Failed judgements are left out.

    >>> from comparo.data.prompts import Question
    >>> answers = [Judgement(Question("ana", "bo"), p=0.7), Judgement(Question("ana", "cy"), error="refused")]
    >>> comparison_columns(answers, {"identity": {"judge": "openai/any"}})
    {'first': ['ana'], 'second': ['bo'], 'p': [0.7], 'judge': ['openai/any']}
    """
    answered = [one for one in judgements if not one.failed]
    asked = [one.question for one in answered]
    columns: dict[str, Column] = {
        "first": [question.first for question in asked],
        "second": [question.second for question in asked],
        "p": [one.p for one in answered],
    }
    if any(one.weight != 1 for one in answered):
        columns["weight"] = [one.weight for one in answered]
    if any(question.context is not None for question in asked):
        columns["context"] = [question.context for question in asked]
    columns["judge"] = [question.voice or configuration["identity"]["judge"] for question in asked]
    if any(not math.isnan(one.mass) for one in answered):
        columns["mass"] = [None if math.isnan(one.mass) else one.mass for one in answered]
    if any(one.model for one in answered):
        columns["model"] = [one.model or None for one in answered]
    if texts is not None:
        shown = [texts.question(question.context, question.first, question.second) for question in asked]
        columns |= {name: [getattr(each, name) for each in shown] for name in ("first_text", "second_text")}
        if any(each.context_text is not None for each in shown):
            columns["context_text"] = [each.context_text for each in shown]
    return columns


def item_columns(items: Items) -> dict[str, Column]:
    """The items as `Items.of` reads them again: id, text and, where there are any, context_id, context, group, scores.

    >>> list(item_columns(Items.of([{"id": "a", "text": "A.", "score": 1.0}, {"id": "b", "text": "B.", "score": 2.0}])))
    ['id', 'text', 'score']
    """
    columns: dict[str, Column] = {"id": items.ids.tolist(), "text": list(items.texts)}
    if items.contexts.tolist() != [None]:
        columns["context_id"] = items.contexts[items.context].tolist()
    if any(text is not None for text in items.context_texts):
        columns["context"] = [items.context_texts[code] for code in items.context.tolist()]
    if items.group is not None:
        columns["group"] = items.group.tolist()
    people = {name if name == "score" else f"score_{name}": each for name, each in items.scores.items()}
    numbers = {**people, **items.numbers}
    return columns | {name: [_known(value) for value in each.tolist()] for name, each in numbers.items()}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
