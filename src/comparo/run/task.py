"""What a run is asked to do, what identifies it, and what it will take."""

from __future__ import annotations

import math
import platform
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from numbers import Real
from typing import Any, get_args

import numpy as np

from comparo.analysis.confidence import expected_spearman, top_probability
from comparo.data.items import Items
from comparo.data.prompts import Prompt, Question
from comparo.judges import Judge
from comparo.methods import Method, fit
from comparo.model.product import Bias
from comparo.run.budget import Budget
from comparo.run.recipe import Fitting
from comparo.selection.defaults import Orders, Strategy, top_of

CHARACTERS = 4  # of English text, about one token


@dataclass(frozen=True)
class Task:
    """What is to be ranked, by whom, on what question, and how pairs are chosen.

    A `plain` task does as the paper does: it chooses pairs without a look at their texts and estimates no variances.
    Where no strategy is given it is greedy, and adaptive for a goal top-k; where no bias is, it is joint with a product
    of experts and none with other methods. `least_mass` is how much of its probability the judge must put on the labels
    in its first answers, on the mean, for the run to go on.
    """

    items: Items
    prompt: Prompt
    judge: Judge
    budget: Budget
    until: float | None = None
    goal: str = "ranking"
    strategy: Strategy | None = None
    orders: Orders = "both"
    method: Method = "poe-bt"
    bias: Bias | None = None
    seed: int = 0
    plain: bool = False
    least_mass: float = 0.5

    def __post_init__(self) -> None:
        if self.strategy is None:
            object.__setattr__(self, "strategy", "greedy" if self.goal == "ranking" else "adaptive")
        if self.bias is None:
            object.__setattr__(self, "bias", "joint" if str(self.method).startswith("poe") else "none")
        if self.until is not None and not (isinstance(self.until, Real) and 0 < self.until < 1):
            raise ValueError(f"until = {self.until!r} is not between 0 and 1; 0.95 is a usual choice")
        if not (isinstance(self.least_mass, Real) and 0 <= self.least_mass < 1):
            raise ValueError(f"least_mass = {self.least_mass!r} is not a share of 1; 0.5 is the usual one")
        for name, value, known in (("strategy", self.strategy, Strategy), ("orders", self.orders, Orders)):
            if value not in get_args(known):
                raise ValueError(f"{name} is one of {', '.join(get_args(known))}, not {value!r}")
        if not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed = {self.seed!r} is not a whole number from 0 up")
        top = top_of(self.goal, min(map(len, self.items.names.values())), str(self.strategy))
        self._rehearse(top)

    def _rehearse(self, top: int | None) -> None:
        """Fit four comparisons as the answers will be, so that what cannot be done is refused before money is spent."""
        rows = [("a", "b", 0.7), ("b", "c", 0.6), ("c", "a", 0.4), ("b", "a", 0.2)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # four comparisons call for notes that mean nothing here
            ranking = fit(rows, self.method, bias=self.bias or "none")
        if self.until is not None:
            if top is None:
                expected_spearman(ranking)
            else:
                top_probability(ranking, 1)

    def check(self) -> None:
        """A ValueError or a JudgeError where the run cannot be made: too small a budget, or a judge without its key."""
        self.estimate()
        ready = getattr(self.judge, "ready", None)
        if ready is not None:
            ready()

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
        return Fitting(self.items, self.method, self.bias or "none", self.plain)

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
            lengths.append(self._characters(question))
        tokens = sum(lengths) / len(lengths) / CHARACTERS
        cost = self._cost(tokens)
        calls = self.budget.calls(sizes, self.orders, cost)
        total = sum(number for number, _ in calls.values())
        return Estimate(calls, total, round(total * tokens), total * cost)

    def price_of(self, question: Question) -> float:
        """About what a question will cost in dollars, by the length of its prompt; nan where the price is not known."""
        return self._cost(self._characters(question) / CHARACTERS)

    def _characters(self, question: Question) -> int:
        """About how many characters its prompt has; a prompt of long texts takes long to write."""
        return sum(
            map(len, (self.prompt.template, question.first_text, question.second_text, question.context_text or ""))
        )

    def _cost(self, tokens: float) -> float:
        price = getattr(self.judge, "price", None)
        return math.nan if price is None else (tokens * price[0] + price[1]) / 1e6


@dataclass(frozen=True, slots=True)
class Estimate:
    """Calls and orders of each context, calls in all, about how many tokens, and dollars (nan if not known)."""

    by_context: Mapping[Any, tuple[int, Orders]]
    calls: int
    tokens: int
    cost: float
