"""Questions to a server that speaks OpenAI's API: what is sent, and what replies and refusals mean."""

import json
import math
import re
import time
from dataclasses import dataclass, field
from typing import Any

import comparo.judges.openai.verdicts as verdicts
from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError
from comparo.judges.openai.complaints import FILTERED, Complaint, read_complaint, spoken, whole_characters
from comparo.judges.openai.settings import KEY, ROOM, Settings, is_openai
from comparo.judges.openai.usage import Usage
from comparo.judges.openai.wire import Answer, NoAnswerError, Wire
from comparo.judges.prices import cost
from comparo.judges.protocol import Judgement
from comparo.judges.replies import model_of, most_tokens, shown

FORMS = 8  # in which a question is sent: the first, five with a part of `Dialect` changed, two with the prompt cut
HALVINGS = 5  # of the room for reasoning, before a prompt is cut: to 781 tokens
TEMPLATE = 64  # tokens that a chat template may add to a prompt: SmolLM2's adds 30, with its system prompt
ANSWER = 2**24  # bytes of an answer that are read
TOKEN = 2**14  # further bytes for each token asked for: with 20 alternatives in indented JSON one takes 3,600


class _AnswerError(Exception):
    """Why a question has no answer."""


@dataclass
class Case:
    """A question, its prompt, and what was returned so far; `form` is where its request differs from the dialect."""

    question: Question
    text: str = ""
    cut: int = 0
    reply: str = ""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    form: dict[str, Any] = field(default_factory=dict)
    each: dict[str, tuple[float, float, float] | str] = field(default_factory=dict)  # of several criteria

    @property
    def texts(self) -> list[str]:
        question = self.question
        return [question.first_text, question.second_text, question.context_text or ""]


class Caller:
    """Sends questions to the server and reads its answers."""

    def __init__(self, judge: Settings, prompt: Prompt) -> None:
        headers, self.secrets = judge.access()
        self.judge, self.prompt, self.dialect = judge, prompt, judge.dialect
        self.begun = judge.begins(prompt)
        self.max_tokens = max(judge.max_tokens, verdicts.label_tokens(prompt)) if self.begun else judge.max_tokens
        limit = ANSWER + (0 if judge.votes else TOKEN * self.max_tokens)
        self.client = Wire(judge.base_url, headers, judge.patience, judge.retries, limit, judge.waiting)
        self.was_cut = False  # whether a reply ended at the limit of its tokens, before the verdict
        self.graded = judge.graded and not verdicts.is_scale(prompt)
        self.added = judge.adds(prompt)

    async def answer(self, question: Question) -> Judgement | JudgeError:
        """The answer to a question, or its failure; a JudgeError is returned where no question can be answered."""
        start, case = time.perf_counter(), Case(question)
        p, mass, weight, error = math.nan, math.nan, 1.0, None
        try:
            self._write(case, self.judge.window)
            p, mass, weight = await (self._vote(case) if self.judge.votes else self._read(case))
        except JudgeError as problem:
            return JudgeError(self._scrub(str(problem)))
        except _AnswerError as problem:
            error = self._scrub(str(problem))
        usage = case.usage
        paid = (usage.tokens_in, usage.tokens_out, usage.cached, usage.stored) if usage.counted else (0, 0)
        judgement = Judgement(
            question,
            p=p,
            mass=mass,
            weight=weight,
            reply=self._scrub(case.reply),
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            seconds=time.perf_counter() - start,
            cost=cost(self.judge.price, *paid),
            cut=case.cut,
            tokens_cached=usage.cached,
            tokens_reasoning=usage.reasoning,
            model=self._scrub(case.model),
            error=error,
        )
        return self._told(case, judgement)

    def _told(self, case: Case, judgement: Judgement) -> Judgement:
        return judgement

    async def _read(self, case: Case) -> tuple[float, float, float]:
        """p and mass where the reply names a label or, if it was begun, at its next token."""
        choice = (await self._ask(case))[0]
        if self._reasoned(choice, case) and self._stop_reasoning(case):
            before, case.usage = case.usage, Usage()
            choice = (await self._ask(case))[0]
            is_reasoned, case.usage = self._reasoned(choice, case), before + case.usage
        else:
            is_reasoned = self._reasoned(choice, case)
        reply = verdicts.reply_text(choice)
        case.reply = shown(reply)
        if is_reasoned:  # the label may be one that its reasoning mentions
            raise self._without_logprobs("it reasons before it answers")
        try:
            positions = verdicts.token_logprobs(choice)
            found = self._probability(case, positions)
        except ValueError as problem:
            raise _AnswerError(f"{problem}, of the reply {self._short(reply)}") from None
        if not positions and reply and not self.dialect.gives_logprobs:
            raise self._without_logprobs()
        self.dialect.gives_logprobs |= bool(positions)
        if found is None:
            named = " or ".join(self.prompt.labels)
            raise _AnswerError(f"the reply {self._short(reply)} does not name {named}")
        return *found, 1.0

    def _probability(self, case: Case, positions: verdicts.Positions) -> tuple[float, float] | None:
        """p and mass from the log-probabilities of a reply's tokens; None where it names no label."""
        return verdicts.read_logprobs(positions, self.prompt, begun=self.begun)

    async def _vote(self, case: Case) -> tuple[float, float, float]:
        """p, mass and weight from sampled verdicts."""
        replies: list[str] = []
        cut: list[bool] = []
        while (missing := self.judge.votes - len(replies)) > 0:
            several = self._put("n", case)
            choices = (await self._ask(case, missing))[:missing]
            ended = [choice.get("finish_reason") == "length" for choice in choices]
            if self._reasoned(choices[0], case) and not self.judge.reasons:
                self.dialect.adopt("reasons", True)
                if any(ended) and self.judge.reasons and not self.judge.limited:
                    continue  # once more, with room for reasoning
            replies += ["" if verdicts.withheld(choice) else verdicts.reply_text(choice) for choice in choices]
            cut += ended
            if several and len(choices) < missing:
                self.dialect.adopt("n", False)
        case.reply = "\n".join(map(shown, replies))
        chat = self.judge.endpoint == "chat"
        if chat and any(replies) and not any(reply.lstrip().startswith("{") for reply in replies):
            self.dialect.adopt("response_format", False)
        # What a model says before its reasoning ends is no verdict.
        whole = ["" if self.judge.reasons and is_cut else reply for reply, is_cut in zip(replies, cut, strict=True)]
        found = self._verdict(case, whole)
        if found is None:
            self.was_cut = all(cut)
            at = f", cut at {self._limit(case):,} tokens{' with its reasoning' if self.judge.reasons else ''}"
            remedy = f"{at}; raise max_tokens{', or lower effort' if self.judge.reasons else ''}" if any(cut) else ""
            raise _AnswerError(f"no verdict in the reply {self._short(case.reply)}{remedy}")
        return found

    def _verdict(self, case: Case, replies: list[str]) -> tuple[float, float, float] | None:
        """p, mass and weight from the words of replies; None where none of them is a verdict."""
        scale = verdicts.is_scale(self.prompt)
        read = verdicts.read_score if scale else verdicts.read_grade if self.graded else verdicts.read_verdict
        return verdicts.soften([read(reply, self.prompt) for reply in replies], scale or self.graded)

    def _reasoned(self, choice: dict[str, Any], case: Case) -> bool:
        return case.usage.reasoning > 0 or verdicts.has_reasoning(choice)

    def _stop_reasoning(self, case: Case) -> bool:
        """Ask for effort none, with which recent models give log-probabilities; False where that was tried."""
        if self.judge.effort is not None or self._put("effort", case) or self.judge.endpoint != "chat":
            return False
        case.form.pop("temperature", None)  # which a model may have refused because it reasons
        case.form["effort"] = "none"
        return True

    async def _ask(self, case: Case, wanted: int = 1) -> list[dict[str, Any]]:
        """The choices that the server offers; a form of the question that it accepts is used for all later ones."""
        judge, dialect = self.judge, self.dialect
        route = "/chat/completions" if judge.endpoint == "chat" else "/completions"
        for _ in range(FORMS + HALVINGS):
            body = self._body(case, wanted)
            try:
                answer = await self.client.post(route, body)
            except NoAnswerError as problem:
                if problem.refused and not dialect.answers:
                    raise problem.no_server(judge.base_url) from None
                if problem.lasting:
                    raise _AnswerError(str(problem)) from None
                tries = f"{judge.retries + 1} tries of {judge.patience:g} s each"
                raise _AnswerError(f"no answer in {tries} ({str(problem).partition(':')[0]})") from None
            dialect.answers = True
            if answer.status >= 300:
                self._heed(answer, body, case)
                continue
            choices = self._choices(answer.text, case)
            for part, value in case.form.items():
                dialect.adopt(part, value)
            dialect.serves = True
            return choices
        raise _AnswerError(f"the server refused the question in {FORMS + HALVINGS} forms")

    def _put(self, part: str, case: Case) -> Any:
        """The value of a part of the request: this question's own, else the dialect's."""
        return case.form.get(part, getattr(self.dialect, part))

    def _limit(self, case: Case) -> int:
        """The most tokens of a reply: what the user gave, else room for reasoning where the model reasons."""
        needed = ROOM if self.judge.reasons and not self.judge.limited else self.max_tokens
        return needed if self.judge.limited else min(needed, self._put("most", case))

    def _body(self, case: Case, wanted: int) -> dict[str, Any]:
        judge, answer = self.judge, self.prompt.answer
        body: dict[str, Any] = {"model": judge.model, self._put("max_tokens", case): self._limit(case)}
        if (effort := judge.effort or self._put("effort", case)) is not None:
            body["reasoning_effort"] = effort
            if effort == "none" and not is_openai(judge.base_url) and self._put("chat_template_kwargs", case):
                body["chat_template_kwargs"] = {"enable_thinking": False}  # vLLM, SGLang and llama.cpp
        if self._put("temperature", case):
            body["temperature"] = judge.temperature
        if judge.votes and wanted > 1 and self._put("n", case):
            body["n"] = wanted
        if judge.endpoint == "completion":
            body["prompt"] = f"{case.text}\n\n{answer}"
            return body if judge.votes else body | {"logprobs": self._put("top_logprobs", case)}
        body["messages"] = [{"role": "user", "content": case.text + self.added}]
        if self.begun:
            body["messages"].append({"role": "assistant", "content": answer})
            body |= {"add_generation_prompt": False, "continue_final_message": True}  # needed by vLLM, not by llama.cpp
        if not judge.votes:
            body |= {"logprobs": True, "top_logprobs": self._put("top_logprobs", case)}
        elif self._put("response_format", case):
            body["response_format"] = verdicts.reply_format(self.prompt, self.graded)
        return body

    def _heed(self, answer: Answer, body: dict[str, Any], case: Case) -> None:
        """Change the question as the server's complaint asks, so that it can be sent again, or raise what it means."""
        url, status = self.judge.base_url, answer.status
        if status < 400:
            raise self._redirected(answer)
        if status == 401:  # its words may hold parts of the key
            raise JudgeError(f"{url} refused the key (401); set {KEY} to one that is valid there")
        complaint, said = read_complaint(answer.text, case.text, case.texts), f"({status}): {self._short(answer.text)}"
        if status == 402 or (status == 429 and "insufficient_quota" in complaint.codes):
            raise JudgeError(f"{url} has no credit left for this key {said}; top it up, then run this again")
        if complaint.is_filter:
            raise _AnswerError(f"{FILTERED} the question {said}")
        if self._is_room_too_large(complaint, status, case):
            return case.form.update(most=self._limit(case) // 2)
        if status == 413 or (status in (400, 422) and complaint.too_long):
            return self._write(case, int(most_tokens(case.text) * complaint.share) + self._overhead())
        if status in (400, 403, 422) and "logprobs" in body and self._about(complaint, case, "logprobs"):
            return self._ask_for_fewer(complaint, case, said)
        if status in (400, 422) and "reasoning_effort" in body and self._is_about_effort(complaint, case):
            raise self._refused_effort(f"({status}): {self._short(spoken(answer.text))}")
        if status == 403 and not self.dialect.serves:
            raise JudgeError(f"{url} does not let this key use {self.judge.model!r} {said}; check {KEY} and the model")
        if status in (404, 405):
            raise JudgeError(f"{url} has no model {self.judge.model!r} {said}; check the model and base_url")
        if status in (400, 422):
            if (wish := complaint.wish(body)) is not None:
                return case.form.update([wish])
            if self.begun and self._about(complaint, case, "add_generation_prompt", "continue_final_message"):
                raise JudgeError(f"{url} does not go on with a reply that was begun {said}; drop prefill")
        raise _AnswerError(f"the server answered {said}")

    def _about(self, complaint: Complaint, case: Case, *names: str) -> bool:
        """Whether a complaint is certainly about a parameter: it names it, and not by repeating the question."""
        return complaint.about(case.text, *names)

    def _ask_for_fewer(self, complaint: Complaint, case: Case, said: str) -> None:
        """Ask for as many log-probabilities as the server gives; raise an error where it gives none."""
        most, words = self._put("top_logprobs", case), complaint.words.replace(self.judge.model.lower(), "")
        fewer = [int(number) for number in re.findall(r"\b1?\d\b", words) if 0 < int(number) < most]
        if fewer:
            case.form["top_logprobs"] = max(fewer)
        elif self.dialect.gives_logprobs:
            raise _AnswerError(f"the server answered {said}")
        elif not self._stop_reasoning(case):
            raise self._without_logprobs()

    def _is_about_effort(self, complaint: Complaint, case: Case) -> bool:
        """Whether the effort is refused, and not another parameter because of it."""
        named = any("effort" in name or "reasoning" in name for name in complaint.names)
        return named or (not complaint.names and self._about(complaint, case, "effort"))

    def _refused_effort(self, said: str) -> Exception:
        if self.judge.effort is None:  # it was only tried
            return self._without_logprobs("it knows no effort = none")
        where = f"{self.judge.base_url} does not take effort = {self.judge.effort} for {self.judge.model}"
        return JudgeError(f"{where} {said}; use a value that it names, or drop effort")

    def _is_room_too_large(self, complaint: Complaint, status: int, case: Case) -> bool:
        """Whether a refusal is of the room for reasoning, which is given up before any text is cut."""
        is_large = self._limit(case) > ROOM >> HALVINGS and not self.judge.limited
        return is_large and (status == 413 or (status in (400, 422) and (complaint.too_long or complaint.too_many)))

    def _redirected(self, answer: Answer) -> JudgeError:
        url, where = self.judge.base_url, self._short(answer.location(self.judge.base_url))
        return JudgeError(
            f"{url} points to {where} ({answer.status}), where nothing was sent; "
            "set base_url to the address of the API itself"
        )

    def _overhead(self) -> int:
        room = min(self.max_tokens, self.dialect.most) if self.judge.reasons else self.max_tokens
        return TEMPLATE + most_tokens(self.added + self.prompt.answer) + room

    def _write(self, case: Case, window: int | None) -> None:
        """Write the prompt, cut to the window by an upper estimate of its tokens."""
        text = self.prompt.text(case.question)
        if window is not None:
            try:
                text, case.cut = self.prompt.fit(case.question, window - self._overhead(), most_tokens)
            except ValueError as problem:
                raise _AnswerError(str(problem)) from None
        case.text = text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be sent

    def _choices(self, text: str, case: Case) -> list[dict[str, Any]]:
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            case.usage += Usage(counted=False)
            raise _AnswerError(f"the answer is not JSON: {self._short(text)}") from None
        told = answer if isinstance(answer, dict) else {}
        case.usage += Usage.read(told.get("usage"))
        case.model = model_of(told)
        choices = told.get("choices")
        if not isinstance(choices, list) or not choices or not all(isinstance(choice, dict) for choice in choices):
            raise _AnswerError(f"the answer has no choices: {self._short(text)}")
        if all(withheld := [verdicts.withheld(choice) for choice in choices]):
            raise _AnswerError(withheld[0])
        return choices

    def _without_logprobs(self, why: str = "") -> Exception:
        where = f"{self.judge.name} at {self.judge.base_url}"
        if self.dialect.gives_logprobs:
            return _AnswerError(f"{where} gives no log-probabilities for this question{f': {why}' if why else ''}")
        return JudgeError(
            f"{where} gives no log-probabilities{f' ({why})' if why else ''}; use --option votes=5 to sample verdicts "
            "instead (that is another run: give it another --out, or none)"
        )

    def _short(self, text: str) -> str:
        text = " ".join(self._scrub(text[:4000]).split())
        return repr(text if len(text) <= 200 else text[:200] + "…")

    def _scrub(self, text: str) -> str:
        return self.secrets.scrub(whole_characters(text))
