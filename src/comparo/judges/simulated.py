"""A judge made of known scores, for tests, studies and planning: no model, no cost."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.prompts import Prompt, Question
from comparo.data.wordings import LETTERS
from comparo.judges.protocol import Judgement, Several, about

Answers = Literal["soft", "hard"]


@dataclass(frozen=True)
class Simulated:
    """Answers from known scores; an answer depends only on the question and the seed, not on the order of questions.

        p = σ( strength·(s_first − s_second) + bias + effect·(e_first + e_second) + noise·ε )

    ε is drawn for each ordered pair and the position effect e for each item, both standard normal. A hard judge
    answers 1 with probability p, else 0. Line-ups are answered by log-probabilities, or by an order (`_line_up`).
    `scores` maps an item to its score or, with contexts, (context, item) to it; an item without one gets a standard
    normal score. Each of several criteria has its own draws, and `scores` may map its name to its scores.

    >>> judge = Simulated(scores={"ana": 1.0, "bo": 0.0}, noise=0.0)
    >>> [round(answer.p, 3) for answer in judge.judge([Question("ana", "bo"), Question("bo", "ana")])]
    [0.731, 0.269]
    >>> load("hard", seed=3).name
    'simulated/hard'
    """

    answers: Answers = "soft"
    scores: Mapping[Any, Any] = field(default_factory=dict, repr=False)
    strength: float = 1.0
    noise: float = 0.5
    bias: float = 0.0
    effect: float = 0.0
    seed: int = 0

    ahead = 64
    several = lines_up = True
    cacheable = False  # an answer costs nothing, and depends on the items' names

    def __post_init__(self) -> None:
        if self.answers not in get_args(Answers):
            raise ValueError(f"there is no judge simulated/{self.answers}; there are simulated/soft and simulated/hard")
        for name in ("noise", "effect"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} = {getattr(self, name)} is not a number from 0 up")

    @property
    def name(self) -> str:
        return f"simulated/{self.answers}"

    @property
    def settings(self) -> dict[str, Any]:
        names = ("strength", "noise", "bias", "effect", "seed")
        known = repr(sorted(self.scores.items(), key=repr)).encode()
        return {name: getattr(self, name) for name in names} | {"scores": hashlib.sha256(known).hexdigest()[:16]}

    @property
    def chooses(self) -> bool:
        return self.answers == "hard"

    def judge(self, questions: Iterable[Question], prompt: Prompt | None = None) -> Iterator[Judgement]:
        for question in questions:
            if isinstance(prompt, CriteriaPrompt):
                yield Several.of([self._by(name)._answer(about(question, name)) for name in prompt.parts])
            else:
                yield self._answer(question)

    def _answer(self, question: Question) -> Judgement:
        if len(question.items) > 2:
            return self._line_up(question)
        p = self.probability(question)
        if self.answers == "hard":
            p = float(self._uniform("decision", question.context, question.first, question.second) < p)
        return Judgement(question, p=p, mass=1.0, reply="A" if p >= 0.5 else "B", seconds=0.0, cost=0.0)

    def _line_up(self, question: Question) -> Judgement:
        """Log softmax over k slots a of strength·s_a + bias·(k − 1 − 2a)/2 + noise·ε_a/√2; hard: an order."""
        context, items = question.context, question.items
        scores = [
            self.strength * self.score(context, item)
            + self.bias * (len(items) - 1 - 2 * slot) / 2
            + self.noise * self._normal("slot", context, items, slot) / math.sqrt(2)
            for slot, item in enumerate(items)
        ]
        if self.answers == "hard":
            gumbel = [-math.log(-math.log(self._uniform("order", context, items, slot))) for slot in range(len(items))]
            order = sorted(range(len(items)), key=lambda slot: -(scores[slot] + gumbel[slot]))
            said, p = ">".join(LETTERS[slot] for slot in order), float(order[0] == 0)
        else:
            logp = [score - math.log(sum(map(math.exp, scores))) for score in scores]
            said, p, order = "|".join(map(repr, logp)), math.exp(logp[0]), [logp.index(max(logp))]
        reply = LETTERS[order[0]]
        return Judgement(question, p=p, mass=1.0, reply=reply, seconds=0.0, cost=0.0, lineup=said)

    def _by(self, criterion: str) -> Simulated:
        """The judge of one criterion, with its own scores and seed."""
        own = self.scores.get(criterion, {})
        seed = int(self._uniform("criterion", criterion) * 2**53)
        return replace(self, scores=own if isinstance(own, Mapping) else {}, seed=seed)

    def probability(self, question: Question) -> float:
        """p by the formula of the class, before a hard judge's draw."""
        context, first, second = question.context, question.first, question.second
        logit = self.strength * (self.score(context, first) - self.score(context, second)) + self.bias
        if self.effect:
            logit += self.effect * (self._normal("effect", context, first) + self._normal("effect", context, second))
        if self.noise:
            logit += self.noise * self._normal("noise", context, first, second)
        return 0.5 + 0.5 * math.tanh(logit / 2)

    def score(self, context: Any, item: Any) -> float:
        for key in ((context, item), item):
            if key in self.scores:
                return float(self.scores[key])
        return self._normal("score", context, item)

    def _uniform(self, *key: Any) -> float:
        digest = hashlib.blake2b(repr((self.seed, *key)).encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") + 0.5) / 2.0**64

    def _normal(self, *key: Any) -> float:
        return math.sqrt(-2 * math.log(self._uniform(1, *key))) * math.cos(2 * math.pi * self._uniform(2, *key))


load = Simulated
