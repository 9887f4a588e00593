"""What a server accepts and gives, found by questions of a few words before any text is sent.

A run asks one question with its own settings (and one more where the reply is begun): what the server refuses costs
nothing, and changes the question as `caller` does. Anthropic and Google also list their models, which costs nothing; a
server of the user's own may not have such a list. `survey` tries all that there is, for `comparo judge --probe`.
"""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from math import nan
from typing import Any, ClassVar, TypeAlias

from comparo.data.prompts import Prompt, Question, criterion_prompt
from comparo.errors import JudgeError
from comparo.judges.caller import ANSWER
from comparo.judges.calls import ServerJudge
from comparo.judges.http import Answer, HttpClient, NoAnswerError
from comparo.judges.protocol import Judgement, Probe
from comparo.judges.settings import NONE, Dialect

QUESTION = Question("7", "3", None, "This is number 7.", "This is number 3.")
PROMPT = criterion_prompt("larger", kind="Number")
# A model that goes on says "four"; one that does not see the beginning says it again.
COUNTING = Prompt("Count from one to six in words.{first}{second}", ("four", "One"), "One, two, three,")
CLEAR = 0.1  # mass of "four" and "One" below which it is not clear what the model does
EFFORTS = ("none", "low")  # those that decide what a judge can do; the others differ in cost
SECONDS = 20.0  # for what a provider's list says of a model, connecting included

Findings: TypeAlias = list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class ListedJudge(ServerJudge):
    """A model that its provider's list of models describes; `thinking` is how many tokens it may reason with."""

    efforts: ClassVar[tuple[str, ...]]  # that the API knows; a model may have fewer

    thinking: int | None = None

    def check_options(self) -> None:
        known = (NONE, *self.efforts)
        if self.effort is not None and self.effort not in known:
            raise ValueError(f"effort = {self.effort!r} is not one of {', '.join(known)}")
        if self.effort is not None and self.thinking is not None:
            raise ValueError("effort and thinking both set how long the model reasons; drop one of them")

    @property
    def listing(self) -> str:
        """The route to what the list says of the model."""
        raise NotImplementedError

    def check(self, listed: dict[str, Any]) -> Findings:
        """Return what the list says of the model; a JudgeError where the settings do not go with it."""
        raise NotImplementedError

    def probe(self) -> Probe:
        """Read the list of models and ask one small question; a JudgeError names the remedy."""
        return self.survey()[1]

    def survey(self) -> tuple[Findings, Probe]:
        """Return what the list and a question of a few words show: by name, and as a sentence."""
        self.ready()
        facts = self.check(self._listed())
        answer, _ = replace(self, votes=min(self.votes, 1)).ask_once(PROMPT, QUESTION)
        self.dialect.written = answer.tokens_out or None
        form = "structured output" if self.dialect.response_format else "text"
        found = [*facts, ("answers", f"verdicts as {form}" if self.votes else "log-probabilities")]
        found.append(("effort", self.effort or "the model's own"))
        if answer.tokens_reasoning:
            found.append(("reasoning", f"{answer.tokens_reasoning:,} tokens for a question of a few words"))
        if answer.failed:
            found.append(("trouble", str(answer.error)))
        probe = _probe(self, ", ".join(f"{name}: {finding}" for name, finding in found), [answer])
        return found + _price(self), probe

    def _listed(self) -> dict[str, Any]:
        """What the provider's list says of the model; empty where it says nothing: a question shows why."""

        async def ask() -> Answer:
            async with HttpClient(self.base_url, self.access()[0], SECONDS, ANSWER) as client:
                return await client.ask("GET", self.listing)

        try:
            with ThreadPoolExecutor(1) as apart:  # there may be an event loop in this thread, as in notebooks
                answer = apart.submit(asyncio.run, ask()).result()
            listed = json.loads(answer.text) if answer.status < 300 else None
        except (NoAnswerError, ValueError, RecursionError):
            listed = None
        return listed if isinstance(listed, dict) else {}


@dataclass(frozen=True, kw_only=True)
class AskedJudge(ServerJudge):
    """A model that no list describes: its answers show what it accepts.

    With `prefill` the beginning of the reply is sent too, where the server can go on with it.
    """

    prefill: bool = False

    @property
    def several(self) -> bool:
        """Whether several criteria can be asked in one call: a reply that is begun for the model answers one."""
        return not self.prefill

    def begins(self, prompt: Prompt) -> bool:
        return self.prefill and bool(prompt.answer)

    def probe(self) -> Probe:
        """Ask one or two questions of a few words, as the judge is set; a JudgeError names the remedy."""
        self.ready()
        if self.dialect.serves:  # it has answered in this process, such as in an audition
            return _probe(self, ", ".join(self._parts()), [])
        answer, was_cut = replace(self, votes=min(self.votes, 1)).ask_once(PROMPT, QUESTION)
        if was_cut and self.max_tokens is not None:
            raise JudgeError(
                f"{self.name} uses up max_tokens = {self.max_tokens} before it answers a question of a few words; "
                "raise it, or leave it out"
            )
        self.dialect.written = answer.tokens_out or None
        answers, parts = [answer], self._parts()
        if self.prefill:
            answers.append(self.ask_once(COUNTING, Question("", ""))[0])
            if goes_on(answers[-1]) is False:
                raise JudgeError(f"{self.base_url} does not go on with a reply that was begun; drop prefill")
            parts.append("goes on with a reply that was begun" if goes_on(answers[-1]) else "prefill unclear")
        if answer.failed:
            parts.append(f"its answer could not be used ({answer.error})")
        return _probe(self, ", ".join(parts), answers)

    def survey(self) -> tuple[Findings, Probe]:
        """All that can be found about a model: names and findings, and what it took."""
        self.ready()
        plain = replace(self, votes=0, graded=False, prefill=False, effort=None, temperature=0.0, max_tokens=None)
        soft = replace(plain, dialect=Dialect())
        voting = replace(plain, votes=1, temperature=1.0, dialect=Dialect())
        answers: list[Judgement] = []

        def tried(asked: ServerJudge, prompt: Prompt = PROMPT, question: Question = QUESTION) -> str:
            try:
                answers.append(asked.ask_once(prompt, question)[0])
            except JudgeError as error:
                if not asked.dialect.answers:
                    raise
                return str(error)
            return answers[-1].error or ""

        refused = tried(soft)
        gives = soft.dialect.gives_logprobs
        effort = f" with effort {soft.dialect.effort}" if soft.dialect.effort else ""
        found = [("log-probabilities", f"of {soft.dialect.top_logprobs} tokens{effort}" if gives else f"no: {refused}")]
        if gives:
            begun = tried(replace(soft, prefill=True), COUNTING, Question("", ""))
            states = {True: "goes on with it", False: "no", None: f"not clear{f': {begun}' if begun else ''}"}
            found.append(("a reply that was begun", states[None if begun else goes_on(answers[-1])]))
        trouble = tried(voting)
        spoken = voting.dialect
        found.append(
            ("structured output", f"no verdict: {trouble}" if trouble else "yes" if spoken.response_format else "no")
        )
        found.append(("reasons if not told otherwise", "yes" if spoken.reasons else "no"))
        for level in EFFORTS:
            problem = tried(replace(voting, effort=level, dialect=replace(spoken)))
            found.append((f"effort {level}", f"no: {problem}" if problem else "not refused"))
        found.append(("limit of tokens", spoken.max_tokens))
        is_taken = soft.dialect.temperature and gives
        found.append(("temperature", f"taken{effort}" if is_taken else "only the server's own"))
        found += _price(self)
        return found, _probe(self, "; ".join(": ".join(pair) for pair in found), answers)

    def _parts(self) -> list[str]:
        """What the question showed, in words."""
        dialect = self.dialect
        if self.votes:
            parts = ["verdicts as structured output" if dialect.response_format else "verdicts as text"]
        elif dialect.gives_logprobs:
            parts = [f"log-probabilities of {dialect.top_logprobs} tokens"]
        else:
            parts = ["no log-probabilities"]
        if effort := self.effort or dialect.effort:
            parts.append(f"effort {effort}")
        elif self.reasons:
            parts.append("reasons before it answers")
        parts.append(f"{dialect.max_tokens} {self.reply_tokens:,}")
        parts.append(f"temperature {self.temperature:g}" if dialect.temperature else "the server's own temperature")
        return parts


def goes_on(answer: Judgement) -> bool | None:
    """Whether a model counted on from where its reply was begun; None where that is not clear.

    >>> [goes_on(Judgement(Question("", ""), p=p, mass=0.9)) for p in (0.99, 0.01)]
    [True, False]
    """
    return answer.p > 0.5 if answer.mass >= CLEAR else None


def _price(judge: ServerJudge) -> Findings:
    return [] if judge.price is None else [("price", judge.price.sentence())]


def _probe(judge: ServerJudge, sentence: str, answers: list[Judgement]) -> Probe:
    costs = [answer.cost for answer in answers if answer.tokens_in or answer.tokens_out]
    return Probe(
        f"{judge.name}: {sentence}",
        asdict(judge.dialect),
        len(answers),
        sum(answer.tokens_in + answer.tokens_out for answer in answers),
        nan if judge.price is None else sum(costs),
    )
