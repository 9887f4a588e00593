"""Questions to the Messages API by Anthropic's library: what is sent, and what messages and refusals mean."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from comparo.judges.anthropic.settings import AnthropicSettings
from comparo.judges.hosted.caller import Case, HostedCaller, Said
from comparo.judges.openai.complaints import Complaint, whole_characters
from comparo.judges.openai.usage import Usage
from comparo.judges.openai.wire import Answer, NoAnswerError, http_client
from comparo.judges.replies import count

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from httpx2 import AsyncClient

    from comparo.data.prompts import Prompt

CACHED = {"type": "ephemeral"}  # the prompt is kept for five minutes, so that further votes on it read it from there
UNPAID = ("credit balance", "usage limits")  # words of a refusal (400) after which no more can be spent
SPENT = '"enforced_spend_limit_reached"'  # the code of a refusal (429) that does not pass within the month


class Claude(HostedCaller):
    """Sends questions to Claude and reads its answers."""

    def __init__(self, judge: AnthropicSettings, prompt: Prompt) -> None:
        super().__init__(judge, prompt)
        self.claude = judge

    @cached_property
    def client(self) -> AsyncClient:
        self.claude.need_library()
        return http_client(self.claude.base_url, {}, self.claude.timeout)

    @cached_property
    def _library(self) -> AsyncAnthropic:
        return library(self.claude, self.client)

    async def _send(self, case: Case, wanted: int) -> Answer:
        sent = self.claude.request(case.text, self.prompt)
        further = {"temperature": sent.pop("temperature")} if "temperature" in sent else None
        if self.claude.votes > 1:
            sent["cache_control"] = CACHED
        return await answered(self._library.messages.with_raw_response.create(**sent, extra_body=further))

    def _read(self, told: Any, case: Case) -> list[Said]:
        case.usage += _usage(told.get("usage"))
        stop = told.get("stop_reason")
        text = whole_characters("".join(block["text"] for block in told["content"] if block["type"] == "text"))
        withheld = _refusal(told.get("stop_details")) if stop == "refusal" else ""
        return [Said(text, withheld=withheld, short=stop in ("max_tokens", "model_context_window_exceeded"))]

    def _heed(self, answer: Answer, complaint: Complaint, case: Case) -> bool:
        judge, status = self.claude, answer.status
        if SPENT in answer.text or (status == 400 and any(sign in complaint.words for sign in UNPAID)):
            raise self._no_credit(answer)
        if status != 400:
            return False
        if judge.temperature is not None and complaint.about(case.text, "temperature"):
            raise self._unwanted("temperature", answer, "drop it")
        if judge.effort is not None and complaint.about(case.text, "effort", "thinking"):
            raise self._unwanted("effort", answer, "use another one, thinking=TOKENS, or neither")
        if judge.thinking is not None and complaint.about(case.text, "thinking", "budget_tokens"):
            raise self._unwanted("thinking", answer, "use effort=low, medium or high instead")
        if complaint.about(case.text, "max_tokens"):
            raise self._unwanted("max_tokens", answer, "set another max_tokens")
        if self.dialect.format and complaint.about(case.text, "output_config", "format", "schema", "structured"):
            self.dialect.format = False
            return True
        return False


async def tell(judge: AnthropicSettings) -> Answer:
    """What Anthropic's list of models says of a judge's model."""
    async with http_client(judge.base_url, {}, judge.timeout) as client:
        return await answered(library(judge, client).models.with_raw_response.retrieve(judge.model))


def library(judge: AnthropicSettings, client: AsyncClient) -> AsyncAnthropic:
    """Anthropic's library with this judge's key and address; it neither tries again nor sets times."""
    from anthropic import AsyncAnthropic

    key, headers = judge.access()
    return AsyncAnthropic(
        api_key=key,
        base_url=judge.base_url,
        default_headers=headers,
        max_retries=0,
        timeout=client.timeout,
        http_client=client,
    )


async def answered(call: Awaitable[Any]) -> Answer:
    """The answer to a call of the library, a refusal too; a NoAnswerError where there is none."""
    import anthropic
    import httpx2

    try:
        response = await call
        return Answer(response.status_code, response.headers, await response.text())
    except anthropic.APIStatusError as error:
        return Answer(error.status_code, error.response.headers, error.response.text)
    except (anthropic.AnthropicError, httpx2.HTTPError, httpx2.StreamError, OSError) as error:
        cause = error.__cause__ or error
        refused = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout)
        raise NoAnswerError(f"{type(cause).__name__}: {cause}", refused=refused) from None


def _refusal(details: Any) -> str:
    """Why Claude refused, as far as it says so."""
    told = details if isinstance(details, dict) else {}
    category, why = told.get("category"), told.get("explanation")
    return "the model refused to answer" + (f" ({category})" if category else "") + (f": {why}" if why else "")


def _usage(told: Any) -> Usage:
    """The tokens of a message: `input_tokens` are those that are neither from nor to the cache."""
    plain, written = count(told, "input_tokens"), count(told, "output_tokens")
    cached, stored = (count(told, f"cache_{kind}_input_tokens") or 0 for kind in ("read", "creation"))
    reasoning = count(told.get("output_tokens_details"), "thinking_tokens") if isinstance(told, dict) else None
    read = (plain or 0) + cached + stored
    return Usage(read, written or 0, cached, stored, reasoning or 0, None not in (plain, written))
