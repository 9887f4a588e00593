"""What a run would take, in words: calls, tokens, price, and what to know before the first call.

How many tokens a call writes is known from a probe of the judge, if an earlier run has left one in its folder or in the
cache; otherwise the settings give an upper bound. A budget in dollars uses neither (`Task.price_of`): it counts the
reply alone and learns from the calls what they cost.
"""

import math
from collections.abc import Iterator, Sequence

from comparo.data.prompts import Question
from comparo.judges import Judge
from comparo.judges.prices import Price
from comparo.run.budget import dollars
from comparo.run.task import CHARACTERS, Task

# Tokens that a hosted model reads at least, usually: 120 of the 142 models of OpenAI, Anthropic and Google whose
# `context_window` genai-prices 0.2.1 states read 128,000 or more.
USUAL_WINDOW = 128_000


def given_words(task: Task) -> str:
    """How many of a run's calls were answered before, to be put after their number."""
    where = "in the audition" if task.growth is None else "before"
    return f", {len(task.given):,} of them answered {where}" if task.given else ""


def expense_words(task: Task) -> str:
    """The tokens that a run would read and write at most, how that is known, and their price.

    Examples
    --------
        about 52,800 tokens read and at most 960 written (8 a call, as many as the settings allow), at most $0.0058
    """
    expense = task.expense
    writing = [(voice, voice.judge.writes(voice.prompt)) for voice in task.voices if hasattr(voice.judge, "writes")]
    if not writing:
        return f"about {expense.tokens:,} tokens, {price_words('about', expense.cost)}"
    read = f"about {expense.tokens:,} tokens read"
    known = {voice.name: one.tokens for voice, one in writing if one is not None}
    if len(known) < len(writing):
        return (
            f"{read} for {price_words('about', expense.cost)}; how many are written is not known before a probe: the "
            "model reasons as long as it likes, unless the option max_tokens=N sets a limit"
        )
    is_seen = all(one.probed for _, one in writing)
    much, why = ("about", "as a probe by a few words saw") if is_seen else ("at most", "as many as the settings allow")
    if any(getattr(voice.judge, "reasons", False) for voice, _ in writing):
        why = f"reasoning included, {why}"
    each = max(known.values())
    dearest = 0.0
    for voice in task.voices:
        price, tokens = getattr(voice.judge, "price", None), known.get(voice.name)
        more = 0.0 if price is None or tokens is None else (tokens - task.replies[voice.name]) * price[1] / 1e6
        dearest = max(dearest, expense.costs[voice.name] + more)
    cost = math.nan if math.isnan(expense.cost) else min(expense.calls * dearest, task.budget.dollars)
    return f"{read} and {much} {expense.calls * each:,} written ({each:,} a call, {why}), {price_words(much, cost)}"


def equal_words(task: Task) -> str:
    """How many calls about pairs or, in a run of pairs, about four texts the same tokens would be; "" if none can be.

    Examples
    --------
        The same tokens are 263 calls about pairs
    """
    other = 2 if task.prompt.size > 2 else 4
    can_ask = all(getattr(judge, "lines_up", False) for judge in task.judges)
    if other > 2 and (not can_ask or min(map(len, task.items.names.values())) < other):
        return ""
    try:
        prompt = task.prompt.resized(other)
    except ValueError:  # a prompt of the user's own, or several criteria
        return ""
    bare = len(prompt.text(Question("", "").with_texts([""] * other)))
    calls = task.expense.tokens * CHARACTERS / (bare + task.mean_length(other))
    return f"The same tokens are {calls:,.0f} calls about {'pairs' if other == 2 else 'line-ups of four (lineup=4)'}"


def longest_prompt_words(task: Task) -> str:
    """The approximate tokens of the longest prompt, and the judges whose context window may be too small for it.

    Examples
    --------
        The longest prompt has about 1,000,034 tokens: too long for openai/gpt-6-luna (128,000 tokens, the usual ...
    """
    return f"The longest prompt has about {task.longest_prompt:,} tokens{_window_warning(task)}"


def warnings_of(task: Task) -> list[str]:
    """What to know before the first call: prompts that are too long for a judge, and texts that may address it."""
    too_long = longest_prompt_words(task) if _window_warning(task) else ""
    return [words for words in (too_long, task.injections) if words]


def _window_warning(task: Task) -> str:
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


def price_words(much: str, cost: float) -> str:
    """A price with how exact it is, or how to set one that is not known."""
    return "price not known (set it by `price`)" if math.isnan(cost) else f"{much} {dollars(cost)}"


def price_sentences(judges: Sequence[Judge]) -> Iterator[str]:
    """How old the list prices are by which costs are counted, if any are."""
    prices = (getattr(judge, "price", None) for judge in judges)
    for source in sorted(
        {price.source() for price in prices if isinstance(price, Price) and (price.day or price.share < 1)}
    ):
        yield f"prices: {source}; `price` sets others"
