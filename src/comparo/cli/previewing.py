"""What a judge will be sent, before anything is asked."""

from __future__ import annotations

from dataclasses import replace

from comparo.run.task import Task

LONGEST = 400  # characters of a text that are shown
BEGIN = ("local", "hf", "vllm")  # providers whose models always go on with an answer that was begun


def first_question(task: Task) -> str:
    """The first question of a run in full, but for long texts, and how the answer is begun, if it is.

    >>> from comparo.run.budget import Budget
    >>> from comparo.data.items import Items
    >>> from comparo.judges import load_judge
    >>> from comparo.data.prompts import criterion_prompt
    >>> items, judge = Items.of(["A story.", "Another."]), load_judge("openai/gpt-4o-mini")
    >>> print(first_question(Task(items, criterion_prompt("funnier", kind="Story"), judge, Budget.of(2))))
    Story A: A story.
    <BLANKLINE>
    Story B: Another.
    <BLANKLINE>
    Which Story is funnier, Story A or Story B?
    <BLANKLINE>
    Answer only with Story A or Story B.
    """
    context, (first, second, *_) = next(iter(task.items.names.items()))
    question = task.items.question(context, first, second)
    question = replace(
        question,
        first_text=_short(question.first_text),
        second_text=_short(question.second_text),
        context_text=None if question.context_text is None else _short(question.context_text),
    )
    begins, adds = (getattr(task.judge, name, None) for name in ("begins", "adds"))
    text = task.prompt.text(question) + (adds(task.prompt) if adds else "")
    is_begun = begins(task.prompt) if begins else task.judge.name.partition("/")[0] in BEGIN
    return text + (f"\n\nThe answer is begun with: {task.prompt.answer}" if is_begun and task.prompt.answer else "")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()}… ({len(text):,} characters)"
