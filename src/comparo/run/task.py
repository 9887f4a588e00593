"""The task of a run, the settings that identify it, and an estimate of its calls and cost."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np

from comparo.analysis.confidence import expected_spearman
from comparo.data.comparisons import Comparisons
from comparo.data.covariates import Term
from comparo.data.criteria_prompt import CriteriaPrompt, reply_tokens
from comparo.data.grammar import part
from comparo.data.items import Items
from comparo.data.probes import injection_sentence
from comparo.data.prompts import Prompt, Question
from comparo.data.run_folder import key_of
from comparo.errors import Message, named
from comparo.judges import Judge, Judgement
from comparo.judges.prices import Price
from comparo.log.files import now
from comparo.methods import quiet_fit
from comparo.options import FitOptions, TaskOptions
from comparo.run.budget import NEEDS_PRICE, TOKENS, Budget, Expense, links_of
from comparo.run.fit_policy import GROUPED, Fitting
from comparo.run.linking import Growth
from comparo.run.voices import Voice
from comparo.selection.designs import SYSTEM_GOALS, best_of, default_strategy, top_of
from comparo.selection.systems import Systems
from comparo.types import Array

PRICES = "prices"
CHARACTERS = 4  # characters of English text per token, approximately
REHEARSAL = [("a", "b", 0.7), ("b", "c", 0.6), ("c", "a", 0.4), ("b", "a", 0.2)]


@dataclass(frozen=True)
class Task(TaskOptions):
    """What is ranked, by which judge and question, and how pairs are chosen.

    The options are those of every run (`comparo.options`). A `plain` task follows the paper: the choice of pairs and
    the scores ignore the texts, and the default method is poe-bt with a joint bias. No call depends on how answers
    become scores (`Fitting`). With several voices (`panel`), `judge` and `prompt` are those of the first, and the
    ranking is their consensus. The questions of `given` answers are not asked; they count as calls within the
    budget. With `votes` of people, the ranking is what people would say; no call depends on them. Where items are
    added to a run (`growth`), the answers from before are given, and the budget is for what is asked now.
    `pairs` are the questions by context, where they are known: (first, second), with several voices (first, second,
    voice).
    """

    items: Items
    prompt: Prompt
    judge: Judge
    budget: Budget
    panel: tuple[Voice, ...] = ()
    given: tuple[Judgement, ...] = ()
    votes: Comparisons | None = None
    growth: Growth | None = None
    pairs: Mapping[Any, Sequence[tuple[Any, ...]]] | None = None
    may_grow: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strategy is None:
            object.__setattr__(self, "strategy", default_strategy(self.goal))
        # Fit four comparisons with these options: impossible ones fail before any call is made.
        ranking = quiet_fit(REHEARSAL, self.fitting.method, bias=self.bias)
        if self.compares_groups:
            self.systems()
        else:
            top_of(self.goal, sys.maxsize, str(self.strategy))  # `expense` has the number of items
            if self.until is not None:
                expected_spearman(ranking)
        self.fitting.check()

    @property
    def compares_groups(self) -> bool:
        """Whether the goal is about groups over all contexts."""
        return self.goal in SYSTEM_GOALS

    @property
    def waits(self) -> bool:
        """Whether something is decided from the answers of all contexts together (`Stops`)."""
        return self.until is not None or self.is_panel or self.compares_groups

    def systems(self) -> Systems:
        """The selector of pairs that compare groups; a ValueError where the texts have no groups."""
        group = self.fitting.group
        if group is None:
            raise ValueError(named("goal", self.goal) + " compares groups of texts; " + GROUPED)
        if self.strategy != "adaptive":
            goal, strategy = named("goal", self.goal), named("strategy", self.strategy)
            raise ValueError(goal + " goes by the answers: leave out " + strategy)
        return Systems(group, self.goal)

    @property
    def grows(self) -> bool:
        """Whether given items are added to those of its folder."""
        return self.may_grow and not isinstance(self.prompt, CriteriaPrompt)

    @property
    def subject(self) -> str:
        """What the judge is asked about."""
        contexts = f" in {len(self.items.contexts)} contexts" if len(self.items.contexts) > 1 else ""
        return f"{len(self.items):,} items{contexts}"

    @property
    def injections(self) -> str:
        """Which texts may address the judge, and what to do."""
        return injection_sentence(self.items, self.prompt)

    @cached_property
    def voices(self) -> tuple[Voice, ...]:
        """Who is asked: the voices of the panel, or the judge alone."""
        return self.panel or (Voice(None, self.judge, self.prompt),)

    @property
    def is_panel(self) -> bool:
        """Whether there are several voices."""
        return len(self.voices) > 1

    @property
    def largest(self) -> int:
        """How many texts a call is about at most."""
        return max(voice.prompt.size for voice in self.voices)

    @property
    def ahead(self) -> int:
        """How many questions the judges work on at once, all of them together."""
        return sum(judge.ahead for judge in self.judges)

    @property
    def judges(self) -> list[Judge]:
        """The judges, each of them once."""
        return list({id(voice.judge): voice.judge for voice in self.voices}.values())

    @property
    def weighs_pairs(self) -> bool:
        """Whether the choice of pairs takes the contrast of their texts into account."""
        chooses = any(getattr(judge, "chooses", False) for judge in self.judges)
        return not (self.plain or self.strategy == "random" or chooses)

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that must stay the same to continue a run."""
        asked = self.voices[0].identity
        if self.is_panel:
            asked |= {"judge": ", ".join(str(voice.name) for voice in self.voices), "settings": {}}
            asked["voices"] = {voice.name: voice.identity for voice in self.voices}
        audition = fingerprint(self.given) if self.given else None
        if self.growth is not None:
            audition = self.growth.audition
        found = {"items": self.items.digest() if self.growth is None else self.growth.digest, **asked}
        found |= {each.name: getattr(self, each.name) for each in fields(TaskOptions) if "identity" in each.metadata}
        if self.weighs_pairs:
            found["pairs"] = "by contrast"
        if audition:
            found["audition"] = audition
        if self.first_stage is not None and self.prompt.size > 2 and best_of(self.goal) is not None:
            found["first_stage"] = self.first_stage
        return found

    @cached_property
    def fitting(self) -> Fitting:
        """How the answers become a ranking."""
        past = None if self.growth is None else self.growth.past
        return Fitting(self.items, votes=self.votes, past=past, best=best_of(self.goal), **part(self, FitOptions))

    @property
    def configuration(self) -> dict[str, Any]:
        """The other contents of run.json: how and with which versions the run was started."""
        packages = {name: version(name) for name in ("comparo", "numpy", "scipy")}
        wordings = dict.fromkeys(str(voice.prompt.wording) for voice in self.voices)
        control, first = {}, self.first_stage
        for term in self.control:
            numbers = self.items.numbers.get(Term.of(term).name)
            control[term] = None if numbers is None else numbers.tolist()
        return {
            "budget": str(self.budget),
            "wording": ", ".join(wordings) if self.prompt.wording else None,
            **{each.name: getattr(self, each.name) for each in fields(TaskOptions) if "identity" not in each.metadata},
            "control": control,
            **({} if first is None else {"numbers": {first: self.items.numbers[first].tolist()}}),
            "votes": None if self.votes is None else len(self.votes),
            "ahead": self.ahead,
            **({"alike": self.expense.alike} if self.is_panel else {}),
            PRICES: prices_of(self.judges),
            "started": now(),
            "versions": {"python": platform.python_version(), **packages},
        }

    @cached_property
    def expense(self) -> Expense:
        """The maximum number of calls, tokens and dollars."""
        return self.expense_of(self.budget)

    def expense_of(self, budget: Budget) -> Expense:
        """What would be spent with another budget, estimated from the mean length of prompts.

        Raises a ValueError where a context has too few items for the goal, or only one.
        """
        sizes = {context: len(ids) for context, ids in self.items.names.items()}
        if self.items.alone.size:  # new items may be alone until they join those of the folder
            raise ValueError(self.items.loneliness(int(self.items.alone[0])))
        tokens = self.mean_tokens
        costs = {voice.name: self._cost(voice.name, tokens[voice.name]) for voice in self.voices}
        if self.pairs is not None:
            return self._expense_of_pairs(self.pairs, costs)
        if not self.compares_groups:
            top_of(self.goal, min(sizes.values()), str(self.strategy))
        dearest = float(np.max([*costs.values()]))  # nan where a price is not known
        cheapest = dearest if math.isnan(dearest) else min(filter(None, costs.values()), default=0.0)
        mean_tokens = float(np.mean([*tokens.values()]))
        groups = self.systems().count if self.compares_groups else None
        new, given = None, Counter[Any]()
        if self.growth is not None:
            new, given = self.growth.new, Counter(one.question.context for one in self.given)
        if (k := self.prompt.size) > 2:
            self.check_lineups(sizes)
        each = mean_tokens if budget.unit == TOKENS else cheapest
        calls = budget.calls(sizes, self.orders, each, len(self.voices), groups, new, given, k)
        total = sum(number for number, _ in calls.values()) - given.total()
        alike = [len(self.voices)]
        for context, (number, orders) in calls.items():
            if links := links_of(sizes[context], (new or sizes).get(context, 0), k, orders):
                alike.append((number - given[context]) // links)
        if groups is not None:
            alike = [len(self.voices), total // links_of(groups, groups, k, self.orders)]
        cost = min(total * dearest, budget.dollars) if self.is_panel else total * dearest
        return Expense(calls, total, round(total * mean_tokens), cost, costs, min(alike))

    def _expense_of_pairs(self, pairs: Mapping[Any, Sequence[Any]], costs: Mapping[str | None, float]) -> Expense:
        """The calls, tokens and dollars of questions that are known."""
        counts = Counter[str | None]()
        for some in pairs.values():
            counts.update(pair[2] if len(pair) > 2 else None for pair in some)
        read = sum(counts[name] * self.mean_tokens[name] for name in costs)
        cost = sum(counts[name] * costs[name] for name in costs)
        if self.budget.unit == "$" and not cost > 0:
            raise ValueError(NEEDS_PRICE)
        by_context = {context: (len(some), self.orders) for context, some in pairs.items()}
        return Expense(by_context, counts.total(), round(read), min(cost, self.budget.dollars), costs)

    @cached_property
    def mean_tokens(self) -> dict[str | None, float]:
        """The approximate tokens of a prompt of each voice."""
        lengths = {size: self.mean_length(size) for size in {voice.prompt.size for voice in self.voices}}
        return {voice.name: (self._bare[voice.name] + lengths[voice.prompt.size]) / CHARACTERS for voice in self.voices}

    def mean_length(self, size: int) -> float:
        """The mean characters of `size` texts and the text of their context, weighted by the texts of a context."""
        texts, shared = self._lengths
        means = [min(size, len(own)) * np.mean(own) for own in texts]
        return float(np.average(np.add(means, shared), weights=list(map(len, texts))))

    @cached_property
    def _lengths(self) -> tuple[list[Array], list[int]]:
        """The characters of the texts of each context, and of its own text."""
        lengths = np.array([*map(len, self.items.texts)])
        texts = [lengths[rows] for rows in self.items.groups.values()]
        return texts, [len(text or "") for text in self.items.context_texts]

    def check_lineups(self, sizes: Mapping[Any, int]) -> None:
        """Raise a ValueError where line-ups of this size cannot be asked."""
        k, small = self.largest, min(sizes, key=lambda context: sizes[context])
        if sizes[small] < k:
            place = "" if small is None else f" in context {small!r}"
            most = named("lineup", max(2, sizes[small]))
            raise ValueError(f"there are {sizes[small]} texts{place}; use " + most + " or less")
        for voice in self.voices:
            if voice.prompt.size > 2 and not getattr(voice.judge, "lines_up", False):
                raise ValueError(
                    f"{voice.judge.name} compares two texts; " + Message("use {lineup:2}, or another judge")
                )

    def price_of(self, question: Question) -> float:
        """The approximate cost of a question in dollars, from the length of its prompt; nan if the price is unknown."""
        return self._cost(question.voice, self.tokens_of(question))

    def tokens_of(self, question: Question) -> float:
        """The approximate number of tokens of a question's prompt."""
        return (self._bare[question.voice] + _length(question)) / CHARACTERS

    @cached_property
    def longest_prompt(self) -> int:
        """The approximate tokens of the longest prompt: the longest texts of a context, and the context's own."""
        texts, shared = self._lengths
        longest = [np.sort(own)[-self.largest :].sum() for own in texts]
        return int(max(self._bare.values()) + np.max(np.add(longest, shared))) // CHARACTERS

    @cached_property
    def _bare(self) -> dict[str | None, int]:
        """The characters of each voice's prompt without texts; formatting long texts would be slow."""
        empty = Question("", "", context_text="")
        return {
            voice.name: len(voice.prompt.text(empty.with_texts([""] * max(2, voice.prompt.size))))
            for voice in self.voices
        }

    @cached_property
    def replies(self) -> dict[str | None, int]:
        """How many tokens the reply of each voice has without reasoning: a label, an order, or a line per criterion."""
        found = {}
        for voice in self.voices:
            is_order = voice.prompt.size > 2 and getattr(voice.judge, "chooses", False)
            found[voice.name] = 2 * voice.prompt.size if is_order else 1
            if isinstance(voice.prompt, CriteriaPrompt):
                found[voice.name] = reply_tokens(voice.prompt)
        return found

    @cached_property
    def _prices(self) -> dict[str | None, tuple[float, float] | None]:
        return {voice.name: getattr(voice.judge, "price", None) for voice in self.voices}

    def _cost(self, voice: str | None, tokens: float) -> float:
        price = self._prices[voice]
        if price is None:
            return math.nan
        return (tokens * price[0] + self.replies[voice] * price[1]) / 1e6


def _length(question: Question) -> int:
    return sum(map(len, (*question.texts, question.context_text or "")))


def fingerprint(given: Sequence[Judgement]) -> str:
    """The number and digest of the answers that a run begins with: both must be the same to continue it.

    >>> from comparo.data.prompts import Question
    >>> fingerprint([Judgement(Question("ana", "bo"), p=0.7)])[:19]
    '1 answers, fdf43b46'
    """
    rows = []
    for one in given:
        key = map(str, key_of(one.question))
        rows.append([*key, repr(float(one.p)), repr(float(one.weight))])
    digest = hashlib.sha256(json.dumps(sorted(rows)).encode()).hexdigest()
    return f"{len(rows)} answers, {digest[:16]}"


def prices_of(judges: Sequence[Judge]) -> dict[str, dict[str, Any]]:
    """The prices by which costs are counted, by judge, as run.json holds them."""
    prices = {judge.name: getattr(judge, "price", None) for judge in judges}
    return {name: price._asdict() for name, price in prices.items() if isinstance(price, Price)}
