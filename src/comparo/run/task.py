"""The task of a run, the settings that identify it, and an estimate of its calls and cost."""

from __future__ import annotations

import math
import platform
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
from comparo.methods import Method, quiet_fit
from comparo.model.product import Bias
from comparo.run.budget import Budget
from comparo.run.recipe import Fitting, Scores
from comparo.selection.defaults import DEFAULT_GOAL, DEFAULT_ORDERS, Orders, Strategy, default_strategy, top_of

DEFAULT_JUDGE = "local/smollm2"  # runs everywhere, without a key
DEFAULT_METHOD: Method = "poe-bt"  # docs/defaults.md compares the methods
DEFAULT_LEAST_MASS = 0.5  # below, most of the model's probability is on something else than the labels
CHARACTERS = 4  # characters of English text per token, approximately


@dataclass(frozen=True)
class Task:
    """What is ranked, by which judge and question, and how pairs are chosen.

    A `plain` task follows the paper: the choice of pairs ignores the texts, and no variances are estimated. The default
    strategy is greedy, or adaptive for a goal top-k; the default bias is joint for products of experts and none for
    other methods. `estimate` and `validity` say whose ranking the scores are (`Fitting`); no call depends on them. The
    run stops if the judge's first answers put on average less than `least_mass` of the probability
    on the labels.
    """

    items: Items
    prompt: Prompt
    judge: Judge
    budget: Budget
    until: float | None = None
    goal: str = DEFAULT_GOAL
    strategy: Strategy | None = None
    orders: Orders = DEFAULT_ORDERS
    method: Method = DEFAULT_METHOD
    bias: Bias | None = None
    seed: int = 0
    plain: bool = False
    least_mass: float = DEFAULT_LEAST_MASS
    estimate: Scores = "auto"
    validity: float | None = None

    def __post_init__(self) -> None:
        if self.strategy is None:
            object.__setattr__(self, "strategy", default_strategy(self.goal))
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
        self.fitting.check()

    def _rehearse(self, top: int | None) -> None:
        """Fit four comparisons with the given options, so that impossible ones fail before any call is made."""
        rows = [("a", "b", 0.7), ("b", "c", 0.6), ("c", "a", 0.4), ("b", "a", 0.2)]
        ranking = quiet_fit(rows, self.method, bias=self.bias)
        if self.until is not None:
            if top is None:
                expected_spearman(ranking)
            else:
                top_probability(ranking, 1)

    def check(self) -> None:
        """Raise a ValueError if the budget is too small, or a JudgeError if the judge is not ready (no key)."""
        self.expense()
        ready = getattr(self.judge, "ready", None)
        if ready is not None:
            ready()

    @property
    def weighs_pairs(self) -> bool:
        """Whether the choice of pairs takes the contrast of their texts into account."""
        return not (self.plain or self.strategy == "random" or getattr(self.judge, "chooses", False))

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that must stay the same to continue a run."""
        prompt = {"template": self.prompt.template, "labels": list(self.prompt.labels), "answer": self.prompt.answer}
        pairs = {"pairs": "by contrast"} if self.weighs_pairs else {}
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
        whose = self.estimate, self.validity
        return Fitting(self.items, self.method, self.bias or "none", self.plain, True, *whose)

    @property
    def configuration(self) -> dict[str, Any]:
        """The other contents of run.json: how and with which versions the run was started."""
        packages = {name: version(name) for name in ("comparo", "numpy", "scipy")}
        return {
            "budget": f"{'$' if self.budget.unit == '$' else ''}{self.budget.number:g}{self.budget.unit.strip('$')}",
            "wording": self.prompt.wording,
            "until": self.until,
            "method": self.method,
            "bias": self.bias,
            "plain": self.plain,
            "estimate": self.estimate,
            "validity": self.validity,
            "ahead": self.judge.ahead,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": {"python": platform.python_version(), **packages},
        }

    def expense(self) -> Expense:
        """The maximum number of calls, tokens and dollars, estimated from the lengths of a hundred prompts."""
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
        return Expense(calls, total, round(total * tokens), total * cost)

    def price_of(self, question: Question) -> float:
        """The approximate cost of a question in dollars, from the length of its prompt; nan if the price is unknown."""
        return self._cost(self._characters(question) / CHARACTERS)

    def _characters(self, question: Question) -> int:
        """The approximate length of its prompt; writing out prompts of long texts would be slow."""
        return self._bare + sum(map(len, (question.first_text, question.second_text, question.context_text or "")))

    @cached_property
    def _bare(self) -> int:
        return len(self.prompt.text(Question("", "", context_text="")))

    def _cost(self, tokens: float) -> float:
        price = getattr(self.judge, "price", None)
        return math.nan if price is None else (tokens * price[0] + price[1]) / 1e6


@dataclass(frozen=True, slots=True)
class Expense:
    """Calls and orders per context, calls in total, approximate tokens, and dollars (nan if unknown)."""

    by_context: Mapping[Any, tuple[int, Orders]]
    calls: int
    tokens: int
    cost: float
