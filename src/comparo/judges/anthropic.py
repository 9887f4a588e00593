"""anthropic/…: Claude by the Messages API, at Anthropic or at a server that speaks it.

Claude gives no log-probabilities, so p is from sampled verdicts (`votes`). The requests ask for structured output,
which is compatible with reasoning; a forced tool call is not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import comparo.judges.verdicts as verdicts
from comparo.data.prompts import Prompt
from comparo.errors import Message
from comparo.judges.batch_endpoints import AnthropicBatches
from comparo.judges.caller import Caller, Case, Said
from comparo.judges.http import Answer, whole_characters
from comparo.judges.prices import Usage, count
from comparo.judges.refusals import Complaint
from comparo.judges.server_judge import ServerJudge
from comparo.judges.server_options import NONE, VERDICT, loader

REASONING = 16_000  # tokens of a reply with reasoning, as in the examples of Anthropic's documentation
CACHED = {"type": "ephemeral"}  # the server caches the prompt for five minutes, for the further votes
UNPAID = ("credit balance", "usage limits")  # words of a refusal (400) for lack of credit
SPENT = '"enforced_spend_limit_reached"'  # the code of a refusal (429) for the rest of the month
CUT = ("max_tokens", "model_context_window_exceeded")


@dataclass(frozen=True, kw_only=True)
class AnthropicJudge(ServerJudge):
    """Claude, with the key in the environment's ANTHROPIC_API_KEY.

    Each of the `votes` is one call. The temperature is only sent if it is given: recent models refuse it.

    >>> judge = load("claude-haiku-5-5", votes=3, effort="none")
    >>> judge.name, judge.chooses, judge.reply_tokens
    ('anthropic/claude-haiku-5-5', True, 64)
    >>> load("claude-haiku-5-5", votes=0)
    Traceback (most recent call last):
    ValueError: votes = 0 reads log-probabilities, which Claude does not give; sample verdicts, as by votes=5
    """

    version: ClassVar[str] = "/v1"
    efforts: ClassVar[tuple[str, ...]] = ("low", "medium", "high", "xhigh", "max")

    votes: int = 1

    def check_options(self) -> None:
        if not self.votes:
            remedy = Message("sample verdicts, as by {option.votes:5}")
            raise ValueError("votes = 0 reads log-probabilities, which Claude does not give; " + remedy)
        super().check_options()

    @property
    def reply_tokens(self) -> int:
        if self.max_tokens is not None:
            return self.max_tokens
        return REASONING if self.reasons else VERDICT

    def headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}

    def caller(self, prompt: Prompt) -> Caller:
        return AnthropicCaller(self, prompt)

    def batches(self, prompt: Prompt) -> AnthropicBatches:
        """Batches of questions, which Anthropic answers within a day."""
        return AnthropicBatches(self, AnthropicCaller(self, prompt))


class AnthropicCaller(Caller):
    """Sends questions to Claude and reads its messages."""

    judge: AnthropicJudge

    def request(self, case: Case, wanted: int) -> tuple[str, dict[str, Any]]:
        judge = self.judge
        body: dict[str, Any] = {
            "model": judge.model,
            "max_tokens": judge.limit(self.prompt),
            "messages": [{"role": "user", "content": case.text + self.added}],
        }
        output: dict[str, Any] = {}
        if self.put("response_format", case):
            output["format"] = {"type": "json_schema", "schema": verdicts.reply_schema(self.prompt)}
        if judge.effort == NONE:
            body["thinking"] = {"type": "disabled"}
        elif judge.effort is not None:
            body["thinking"] = {"type": "adaptive"}
            output["effort"] = judge.effort
        if output:
            body["output_config"] = output
        if judge.temperature is not None:
            body["temperature"] = judge.temperature
        if judge.samples(self.prompt) > 1:
            body["cache_control"] = CACHED
        return "/v1/messages", body

    def replies(self, answer: Any, case: Case) -> list[Said]:
        case.usage += _usage(answer.get("usage"))
        stop = answer.get("stop_reason")
        text = "".join(block["text"] for block in answer["content"] if block["type"] == "text")
        withheld = _refusal(answer.get("stop_details")) if stop == "refusal" else ""
        return [Said(whole_characters(text), withheld=withheld, cut=stop in CUT)]

    def heed(self, answer: Answer, complaint: Complaint, case: Case, body: Mapping[str, Any]) -> bool:
        judge, status = self.judge, answer.status
        if SPENT in answer.text or (status == 400 and any(sign in complaint.words for sign in UNPAID)):
            raise self.no_credit(answer)
        if status != 400:
            return False
        if judge.temperature is not None and complaint.about(case.text, "temperature"):
            raise self.unwanted("temperature", answer, "drop it")
        if judge.effort is not None and complaint.about(case.text, "effort", "thinking"):
            raise self.unwanted("effort", answer, "use another one, or drop it")
        if complaint.about(case.text, "max_tokens"):
            raise self.unwanted("max_tokens", answer, "set another max_tokens")
        words = ("output_config", "format", "schema", "structured")
        if self.put("response_format", case) and complaint.about(case.text, *words):
            case.form["response_format"] = False
            return True
        return False


def _refusal(details: Any) -> str:
    known = details if isinstance(details, dict) else {}
    said = "the model refused to answer"
    if category := known.get("category"):
        said += f" ({category})"
    if why := known.get("explanation"):
        said += f": {why}"
    return said


def _usage(usage: Any) -> Usage:
    """The tokens of a message; its `input_tokens` exclude those read from or written to the cache."""
    plain, written = count(usage, "input_tokens"), count(usage, "output_tokens")
    cached, stored = (count(usage, f"cache_{kind}_input_tokens") or 0 for kind in ("read", "creation"))
    details = usage.get("output_tokens_details") if isinstance(usage, dict) else None
    reasoning, read = count(details, "thinking_tokens") or 0, (plain or 0) + cached + stored
    return Usage(read, written or 0, cached, stored, reasoning, None not in (plain, written))


load_at = partial(loader, AnthropicJudge)
load = load_at("anthropic")
