"""What a run would read and write, and what that costs, in words for `--dry-run`.

How many tokens a call writes is what the probe of the judge saw, if an earlier run has left that in its folder or in
the cache; else as many as the settings allow, which is a limit: a model that reasons seldom uses all of it. A budget in
dollars goes by neither (`Task.price_of`): it counts the reply alone, and learns from the calls what they cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from comparo.data.injection import injection_sentence
from comparo.run.budget import dollars
from comparo.run.task import Expense, Task

# Tokens that a hosted model reads at least, usually: 120 of the 142 models of OpenAI, Anthropic and Google whose
# `context_window` genai-prices 0.2.1 states read 128,000 or more.
USUAL_WINDOW = 128_000


def expense_words(task: Task, expense: Expense) -> str:
    """The tokens that a run would read and write at most, how that is known, and their price.

    Examples
    --------
        about 52,800 tokens read and at most 960 written (8 a call, as many as the settings allow), at most $0.0058
    """
    writing = [(voice, voice.judge.writes(voice.prompt)) for voice in task.voices if hasattr(voice.judge, "writes")]
    if not writing:
        return f"about {expense.tokens:,} tokens, {_price('about', expense.cost)}"
    read = f"about {expense.tokens:,} tokens read"
    known = {voice.name: one.tokens for voice, one in writing if one is not None}
    if len(known) < len(writing):
        return (
            f"{read} for {_price('about', expense.cost)}; how many are written is not known before a probe: the model "
            "reasons as long as it likes, unless --option max_tokens=N sets a limit"
        )
    is_seen = all(one.probed for _, one in writing)
    much, why = ("about", "as a probe by a few words saw") if is_seen else ("at most", "as many as the settings allow")
    if any(getattr(voice.judge, "reasons", False) for voice, _ in writing):
        why = f"reasoning included, {why}"
    each = max(known.values())
    cost = math.nan if math.isnan(expense.cost) else expense.calls * max(_costs(task, expense, known))
    return (
        f"{read} and {much} {expense.calls * each:,} written ({each:,} a call, {why}), "
        f"{_price(much, min(cost, task.budget.dollars))}"
    )


def longest_prompt_words(task: Task) -> str:
    """The approximate tokens of the longest prompt, and the judges whose context window may be too small for it.

    Examples
    --------
        The longest prompt has about 1,000,034 tokens: too long for openai/gpt-6-luna (128,000 tokens, the usual ...
    """
    return f"The longest prompt has about {task.longest_prompt:,} tokens{window_warning(task)}"


def window_warning(task: Task) -> str:
    """Which judges may read only part of the longest prompt, "" if none; one without the setting `window` reads any."""
    windows = {judge.name: judge.settings["window"] for judge in task.judges if "window" in judge.settings}
    small = [
        f"{name} ({window:,} tokens)" if window else f"{name} ({USUAL_WINDOW:,} tokens, the usual context window)"
        for name, window in windows.items()
        if task.longest_prompt > (window or USUAL_WINDOW)
    ]
    if not small:
        return ""
    return f": too long for {', '.join(small)}; texts that do not fit are cut, so shorten them or use another model"


def warnings_of(task: Task) -> list[str]:
    """What to know before the first call: prompts that are too long for a judge, and texts that may address it."""
    too_long = longest_prompt_words(task) if window_warning(task) else ""
    return [words for words in (too_long, injection_sentence(task.items, task.prompt)) if words]


def _costs(task: Task, expense: Expense, known: Mapping[str | None, int]) -> Iterator[float]:
    """What a call of each voice costs, in dollars, if it writes as many tokens as are `known` of it."""
    for voice in task.voices:
        price = getattr(voice.judge, "price", None)
        more = known.get(voice.name, 0) - task.replies[voice.name]
        yield expense.costs[voice.name] + (more * price[1] / 1e6 if price is not None and voice.name in known else 0.0)


def _price(much: str, cost: float) -> str:
    return "price not known (set it by --price)" if math.isnan(cost) else f"{much} {dollars(cost)}"
