"""openai/…, and every provider whose server speaks OpenAI's API (`comparo.judges.servers`), also at `base_url`.

p is read from the log-probabilities of the reply's tokens or, with `votes`, from that many sampled verdicts.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import comparo.judges.verdicts as verdicts
from comparo.data.prompts import Prompt
from comparo.errors import JudgeError, Message
from comparo.judges.batch_endpoints import OpenAIBatches
from comparo.judges.caller import AnswerError, Caller, Case, Said
from comparo.judges.http import Answer, whole_characters
from comparo.judges.prices import Usage, count
from comparo.judges.refusals import FILTERED, Complaint
from comparo.judges.server_judge import Findings, ServerJudge
from comparo.judges.server_options import LABEL, NONE, ROOM, VERDICT, loader
from comparo.judges.servers import SERVERS

OPENAI = SERVERS["openai"].home
ROUTE = "/chat/completions"
HALVINGS = 5  # of the token limit for reasoning, down to 781, before a prompt is cut


@dataclass(frozen=True, kw_only=True)
class OpenAIJudge(ServerJudge):
    """A model behind OpenAI's API or one like it, with the key in the environment's OPENAI_API_KEY.

    The temperature is 1 for votes. `effort` is none, low, medium, high, or another value that the server accepts; by
    default the request has "none" if log-probabilities need it. A model that reasons may write 25,000 tokens. `prefill`
    also sends the beginning of the reply, to a server that can continue it.

    >>> judge = load("gpt-6-luna", votes=5)
    >>> judge.name, judge.price.written, judge.settings["temperature"]
    ('openai/gpt-6-luna', 0.5, 1.0)
    >>> load("llama", base_url="http://user:secret@localhost:8000/v1").base_url
    'http://localhost:8000/v1'
    >>> load("llama", votes=-1)
    Traceback (most recent call last):
    ValueError: votes = -1 is not a whole number from 0 up
    """

    named: ClassVar[str] = "model base_url votes prefill window temperature"

    prefill: bool = False

    @classmethod
    def checked(cls, **options: Any) -> Self:
        judge = super().checked(**options)
        return replace(judge, temperature=float(judge.votes > 0)) if judge.temperature is None else judge

    def check_options(self) -> None:
        effort = self.effort
        if not isinstance(self.prefill, bool):
            raise ValueError(f"prefill = {self.prefill!r} is not one of true, false")
        if self.prefill and self.votes:
            raise ValueError("prefill is for log-probabilities, without votes; drop one of them")
        if effort is not None and not (isinstance(effort, str) and effort.isidentifier()):
            raise ValueError(f"effort = {effort!r} is not a word such as none, low, medium, high")
        if effort not in (None, NONE) and not self.votes:
            remedy = Message("add {option.votes:5}, or use {option.effort:'none'}")
            raise ValueError(f"effort = {effort} is for verdicts: who reasons gives no log-probabilities; " + remedy)

    @property
    def several(self) -> bool:
        """Whether one call can ask about several criteria: with `prefill` a reply answers one."""
        return not self.prefill

    def begins(self, prompt: Prompt) -> bool:
        return self.prefill and bool(prompt.answer)

    @property
    def settings(self) -> dict[str, Any]:
        effort = {} if self.effort is None else {"effort": self.effort}
        return super().settings | {"max_tokens": self.asked_tokens} | effort

    @property
    def reasons(self) -> bool:
        """Whether the model reasons before it answers: by `effort` or, without it, by the server's answers."""
        return self.dialect.reasons if self.effort is None else self.effort != NONE

    @property
    def asked_tokens(self) -> int:
        """The most tokens of a reply by the user's options alone, without what the server's answers showed."""
        if self.max_tokens is not None:
            return self.max_tokens
        if self.effort not in (None, NONE):
            return ROOM
        return 1 if self.prefill else VERDICT if self.votes else LABEL

    @property
    def reply_tokens(self) -> int:
        return self.dialect.most if self.reasons and self.max_tokens is None else self.asked_tokens

    @property
    def reserved(self) -> int:
        return min(self.asked_tokens, self.dialect.most)

    def limit(self, prompt: Prompt) -> int:
        room = super().limit(prompt) or 0
        return max(room, verdicts.label_tokens(prompt)) if self.begins(prompt) else room

    def headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def caller(self, prompt: Prompt) -> Caller:
        return OpenAICaller(self, prompt)

    def batches(self, prompt: Prompt) -> OpenAIBatches:
        """Batches of questions, which a server answers within a day."""
        return OpenAIBatches(self, OpenAICaller(self, prompt), f"/v1{ROUTE}")

    def findings(self) -> Findings:
        limit, temperature = self.dialect.max_tokens, self.dialect.temperature
        found = [(limit, f"{self.reply_tokens:,}")]
        found.append(("temperature", f"{self.temperature:g}" if temperature else "the server's own"))
        return super().findings() + found


class OpenAICaller(Caller):
    """Sends questions to a server that speaks OpenAI's API and reads its answers."""

    judge: OpenAIJudge

    def limit(self, case: Case) -> int:
        room = self.judge.limit(self.prompt)
        return room if self.judge.max_tokens is not None else min(room, self.put("most", case))

    def request(self, case: Case, wanted: int) -> tuple[str, dict[str, Any]]:
        judge = self.judge
        body: dict[str, Any] = {"model": judge.model, self.put("max_tokens", case): self.limit(case)}
        if (effort := judge.effort or self.put("effort", case)) is not None:
            body["reasoning_effort"] = effort
            if effort == NONE and judge.base_url != OPENAI and self.put("chat_template_kwargs", case):
                body["chat_template_kwargs"] = {"enable_thinking": False}  # vLLM, SGLang and llama.cpp
        if self.put("temperature", case):
            body["temperature"] = judge.temperature
        if judge.votes and wanted > 1 and self.put("n", case):
            body["n"] = wanted
        body["messages"] = [{"role": "user", "content": case.text + self.added}]
        if self.begun:
            body["messages"].append({"role": "assistant", "content": self.prompt.answer})
            body |= {"add_generation_prompt": False, "continue_final_message": True}  # needed by vLLM, not by llama.cpp
        if not judge.votes:
            body |= {"logprobs": True, "top_logprobs": self.put("top_logprobs", case)}
        elif self.put("response_format", case):
            schema = {"name": "verdict", "strict": True, "schema": verdicts.reply_schema(self.prompt)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return ROUTE, body

    def replies(self, answer: Any, case: Case) -> list[Said]:
        usage = read_usage(answer.get("usage"))
        case.usage += usage
        first, *others = answer["choices"]
        return [_said(choice, usage.reasoning > 0) for choice in (first, *others)]

    def words(self, said: Said) -> str:
        """Ignore a reply that was cut, if the model reasons: its words may be reasoning."""
        return "" if said.cut and self.judge.reasons else super().words(said)

    def asks_again(self, case: Case, replies: list[Said], wanted: int) -> bool:
        judge, reasoned = self.judge, replies[0].reasoned
        if not judge.votes:
            return reasoned and self._stop_reasoning(case)
        if reasoned and not judge.reasons:
            self.dialect.adopt("reasons", True)
            if judge.reasons and judge.max_tokens is None and any(said.cut for said in replies):
                return True  # with room for reasoning
        if self.put("n", case) and len(replies) < wanted:
            self.dialect.adopt("n", False)
        return False

    def _stop_reasoning(self, case: Case) -> bool:
        """Set effort to none, with which recent models give log-probabilities; False if that was tried."""
        if self.judge.effort is not None or self.put("effort", case):
            return False
        case.form.pop("temperature", None)  # a model may have refused it only because it reasons
        case.form["effort"] = NONE
        return True

    def frees_room(self, case: Case) -> bool:
        """Halve the token limit for reasoning, before any text is cut; False at its least or with the user's limit."""
        limit = self.limit(case)
        if limit <= ROOM >> HALVINGS or self.judge.max_tokens is not None:
            return False
        case.form["most"] = limit // 2
        return True

    def heed(self, answer: Answer, complaint: Complaint, case: Case, body: Mapping[str, Any]) -> bool:
        status, url, said = answer.status, self.judge.base_url, self.quoted(answer)
        if status in (400, 403, 422) and "logprobs" in body and complaint.about(case.text, "logprobs"):
            return self._ask_for_fewer(complaint, case, said)
        if status not in (400, 422):
            return False
        named = any("effort" in name or "reasoning" in name for name in complaint.names)
        is_about_effort = named or (not complaint.names and complaint.about(case.text, "effort"))
        if "reasoning_effort" in body and is_about_effort:  # not about a parameter that effort excludes
            if self.judge.effort is None:  # it was only tried
                raise self.without_logprobs("it knows no effort = none")
            where = f"{url} does not take effort = {self.judge.effort} for {self.judge.model}"
            raise JudgeError(f"{where} {said}; use a value that it names, or drop effort")
        if (wish := complaint.wish(body)) is not None:
            case.form.update([wish])
            return True
        if self.begun and complaint.about(case.text, "add_generation_prompt", "continue_final_message"):
            raise JudgeError(f"{url} does not go on with a reply that was begun {said}; drop prefill")
        return False

    def _ask_for_fewer(self, complaint: Complaint, case: Case, said: str) -> bool:
        """Set `top_logprobs` to the most that the server allows; raise an error if it gives no log-probabilities."""
        most, words = self.put("top_logprobs", case), complaint.words.replace(self.judge.model.lower(), "")
        fewer = [int(number) for number in re.findall(r"\b1?\d\b", words) if 0 < int(number) < most]
        if fewer:
            case.form["top_logprobs"] = max(fewer)
        elif self.dialect.gives_logprobs:
            raise AnswerError(f"the server answered {said}")
        elif not self._stop_reasoning(case):
            raise self.without_logprobs()
        return True


def _said(choice: dict[str, Any], reasoned: bool) -> Said:
    inner, end = choice.get("message"), choice.get("finish_reason")
    message = inner if isinstance(inner, dict) else {}
    content, refusal = message.get("content"), message.get("refusal")
    text = whole_characters(content) if isinstance(content, str) else ""
    withheld = f"{FILTERED} the reply" if end == "content_filter" else ""
    if isinstance(refusal, str) and refusal:
        withheld = f"the model refused to answer: {refusal[:200]!r}"
    return Said(
        text, _rows(choice.get("logprobs")), withheld, end == "length", reasoned or has_reasoning(message, text)
    )


def has_reasoning(message: Mapping[str, Any], text: str) -> bool:
    """Whether a reply begins with reasoning: in a separate field (vLLM, SGLang, Ollama, DeepSeek) or in <think>.

    >>> has_reasoning({"reasoning_content": "Well, A is"}, "A"), has_reasoning({}, "<think>\\nWell")
    (True, True)
    """
    apart = [message.get(name) for name in ("reasoning_content", "reasoning")]
    before, begun, inside = text.partition("<think>")
    if begun and not before.strip():
        thought, ended, _ = inside.partition("</think>")
        apart.append(thought if ended else begun)  # some templates write an empty <think> pair to skip reasoning
    return any(isinstance(said, str) and said.strip() for said in apart)


def _rows(logprobs: Any) -> Iterator[verdicts.TokenLogprobs]:
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list):
        return
    for at in content:
        yield at["token"], at["logprob"], [(top["token"], top["logprob"]) for top in at.get("top_logprobs") or ()]


def read_usage(usage: Any) -> Usage:
    """Read the tokens in the field `usage` of an answer; a part that is larger than its total counts as 0.

    >>> details = {"reasoning_tokens": 32}
    >>> read_usage({"prompt_tokens": 90, "completion_tokens": 40, "completion_tokens_details": details})
    Usage(tokens_in=90, tokens_out=40, cached=0, stored=0, reasoning=32, counted=True)
    >>> read_usage({"prompt_tokens": -1}).counted
    False
    """
    read, written = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
    details = usage if isinstance(usage, dict) else {}
    prompt, completion = (details.get(f"{name}_tokens_details") for name in ("prompt", "completion"))
    cached = count(prompt, "cached_tokens", read or 0) or 0
    stored = count(prompt, "cache_write_tokens", (read or 0) - cached) or 0
    reasoning = count(completion, "reasoning_tokens", written or 0) or 0
    return Usage(read or 0, written or 0, cached, stored, reasoning, None not in (read, written))


load_at = partial(loader, OpenAIJudge)
load = load_at("openai")
