"""What a run is asked to do, what identifies it, and what it will take."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from comparo.budget import Budget
from comparo.fitting import Fitting
from comparo.items import Items
from comparo.judges import Judge
from comparo.methods import Method
from comparo.product import Bias
from comparo.prompts import Prompt
from comparo.selection import Orders, Strategy, top_of

CHARACTERS = 4  # of English text, about one token


@dataclass(frozen=True)
class Task:
    """What is to be ranked, by whom, on what question, and how pairs are chosen.

    A `plain` task does as the paper does: it chooses pairs without a look at their texts and estimates no variances.
    """

    items: Items
    prompt: Prompt
    judge: Judge
    budget: Budget
    until: float | None = None
    goal: str = "ranking"
    strategy: Strategy = "greedy"
    orders: Orders = "both"
    method: Method = "poe-bt"
    bias: Bias = "joint"
    seed: int = 0
    plain: bool = False

    def __post_init__(self) -> None:
        if self.until is not None and not 0 < self.until < 1:
            raise ValueError(f"until = {self.until} is not between 0 and 1; 0.95 is a usual choice")
        top_of(self.goal, min(map(len, self.items.names.values())), self.strategy)

    @property
    def identity(self) -> dict[str, Any]:
        """What must not change when a run goes on."""
        prompt = {"template": self.prompt.template, "labels": list(self.prompt.labels), "answer": self.prompt.answer}
        pairs = {} if self.plain or self.strategy == "random" else {"pairs": "by contrast"}
        return {
            "items": self.items.digest(),
            "judge": self.judge.name,
            "settings": dict(self.judge.settings),
            "prompt": prompt,
            "strategy": self.strategy,
            "orders": self.orders,
            "goal": self.goal,
            "seed": self.seed,
            **pairs,
        }

    @cached_property
    def fitting(self) -> Fitting:
        """How the answers become a ranking."""
        return Fitting(self.items, self.method, self.bias, self.plain)

    @property
    def configuration(self) -> dict[str, Any]:
        """What run.json tells besides: how it was started, and with what."""
        packages = {name: version(name) for name in ("comparo", "numpy", "scipy")}
        return {
            "budget": f"{'$' if self.budget.unit == '$' else ''}{self.budget.number:g}{self.budget.unit.strip('$')}",
            "until": self.until,
            "method": self.method,
            "bias": self.bias,
            "plain": self.plain,
            "ahead": self.judge.ahead,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {"python": platform.python_version(), **packages},
        }

    def estimate(self) -> Estimate:
        """What the run will take at most, from the lengths of a hundred prompts."""
        rng, names = np.random.default_rng(0), self.items.names
        sizes = {context: len(ids) for context, ids in names.items()}
        contexts = list(sizes)
        lengths = []
        for _ in range(100):
            context = contexts[int(rng.integers(len(contexts)))]
            first, second = rng.choice(sizes[context], 2, replace=False).tolist()
            question = self.items.question(context, names[context][first], names[context][second])
            lengths.append(len(self.prompt.text(question)))
        tokens = sum(lengths) / len(lengths) / CHARACTERS
        price = getattr(self.judge, "price", None)
        cost = math.nan if price is None else (tokens * price[0] + price[1]) / 1e6
        calls = self.budget.calls(sizes, self.orders, cost)
        total = sum(number for number, _ in calls.values())
        return Estimate(calls, total, round(total * tokens), total * cost)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Calls and orders of each context, calls in all, about how many tokens, and dollars (nan if not known)."""

    by_context: Mapping[Any, tuple[int, Orders]]
    calls: int
    tokens: int
    cost: float
