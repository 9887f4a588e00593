"""Questions to the Gemini API by Google's library: what is sent, and what replies and refusals mean."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import comparo.judges.openai.verdicts as verdicts
from comparo.errors import JudgeError
from comparo.judges.gemini.settings import GeminiSettings
from comparo.judges.hosted.caller import AnswerError, Case, HostedCaller, Said
from comparo.judges.openai.complaints import Complaint, whole_characters
from comparo.judges.openai.usage import Usage
from comparo.judges.openai.wire import Answer, NoAnswerError, http_client
from comparo.judges.replies import count

if TYPE_CHECKING:
    from google.genai import Client
    from httpx2 import AsyncClient

    from comparo.data.prompts import Prompt

ENDED = ("STOP", "MAX_TOKENS", "FINISH_REASON_UNSPECIFIED", None)  # reasons for an end that leave the reply as it is
LASTING = {"x-should-retry": "false"}  # added to refusals that no pause ends


class Gemini(HostedCaller):
    """Sends questions to Gemini and reads its answers."""

    def __init__(self, judge: GeminiSettings, prompt: Prompt) -> None:
        super().__init__(judge, prompt)
        self.gemini = judge

    @cached_property
    def client(self) -> AsyncClient:
        self.gemini.need_library()
        return http_client(self.gemini.base_url, {}, self.gemini.timeout)

    @cached_property
    def _library(self) -> Client:
        return library(self.gemini, self.client)

    async def _send(self, case: Case, wanted: int) -> Answer:
        config = self.gemini.config(self.prompt, wanted) | {"should_return_http_response": True}
        text = case.text + self.gemini.adds(self.prompt)

        async def call() -> Answer:
            made = await self._library.aio.models.generate_content(
                model=self.gemini.model,
                contents=text,
                config=config,  # type: ignore[arg-type]
            )
            raw = made.sdk_http_response
            return Answer(200, (raw and raw.headers) or {}, (raw and raw.body) or "")

        return await answered(call)

    def _read(self, told: Any, case: Case) -> list[Said]:
        case.usage += _usage(told.get("usageMetadata"))
        feedback = told.get("promptFeedback") or {}
        if reason := feedback.get("blockReason"):
            return [Said(withheld=f"Gemini blocked the prompt ({reason})")]
        candidates = told["candidates"]
        if not candidates:
            raise ValueError
        return [self._said(candidate) for candidate in candidates]

    def _said(self, candidate: Any) -> Said:
        parts = (candidate.get("content") or {}).get("parts") or []
        text = whole_characters("".join(part["text"] for part in parts if "text" in part and not part.get("thought")))
        reason, why = candidate.get("finishReason"), candidate.get("finishMessage")
        withheld = "" if reason in ENDED else f"Gemini withheld its reply ({reason})" + (f": {why}" if why else "")
        try:
            positions = verdicts.token_logprobs(_as_openai(candidate.get("logprobsResult")))
        except ValueError:
            raise AnswerError("the log-probabilities are not in the form of Gemini's API") from None
        return Said(text, positions, withheld, reason == "MAX_TOKENS")

    def _heed(self, answer: Answer, complaint: Complaint, case: Case) -> bool:
        judge, status, asked = self.gemini, answer.status, case.text
        if is_bad_key(answer.text):
            raise self._bad_key(status)
        if is_spent(answer.text):
            raise self._no_credit(answer)
        if status == 429 and is_daily(answer.text):
            raise JudgeError(
                f"{judge.base_url} takes no more requests today {self._told(answer)}; run this again tomorrow"
            )
        if status != 400:
            return False
        if "FAILED_PRECONDITION" in _reasons(answer.text):
            raise JudgeError(f"{judge.base_url} does not serve this key {self._told(answer)}; check its billing")
        if not judge.votes and complaint.about(asked, "logprobs"):
            raise self._without_logprobs() if not self.dialect.logprobs else AnswerError(self._told(answer))
        if self.dialect.several and judge.votes > 1 and complaint.about(asked, "candidate"):
            self.dialect.several = False
            return True
        vague = not self.dialect.serves and "contains an invalid argument" in complaint.words
        if judge.effort is not None and (vague or complaint.about(asked, "thinking", "budget")):
            raise self._unwanted("effort", answer, "use another one, thinking=TOKENS, or neither")
        if judge.thinking is not None and (vague or complaint.about(asked, "thinking", "budget")):
            raise self._unwanted("thinking", answer, "use another number, effort=low, medium or high, or neither")
        if judge.votes and self.dialect.format and complaint.about(asked, "json", "schema", "mime"):
            self.dialect.format = False
            return True
        return False


async def tell(judge: GeminiSettings) -> Answer:
    """What Google's list of models says of a judge's model."""
    async with http_client(judge.base_url, {}, judge.timeout) as client:
        models = library(judge, client).aio.models

        async def call() -> Answer:
            return Answer(200, {}, (await models.get(model=judge.model)).model_dump_json())

        return await answered(call)


def library(judge: GeminiSettings, client: AsyncClient) -> Client:
    """Google's library with this judge's key and address; it neither tries again nor sets times."""
    from google.genai import Client

    key, headers = judge.access()
    options: dict[str, Any] = {
        "base_url": judge.base_url,
        "api_version": judge.version.strip("/"),
        "headers": headers,
        "httpx_async_client": client,
    }
    return Client(vertexai=False, api_key=key, http_options=options)  # type: ignore[arg-type]


async def answered(call: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer to a call of the library, a refusal too; a NoAnswerError where there is none."""
    import httpx2
    from google.genai.errors import APIError, UnknownApiResponseError

    try:
        return await call()
    except APIError as error:
        text = json.dumps(error.details)
        headers = dict(getattr(error.response, "headers", None) or {})
        if is_daily(text) or is_spent(text):
            headers |= LASTING
        elif pause := _pause(text):
            headers = {"retry-after": pause} | headers
        return Answer(error.code, headers, text)
    except (httpx2.HTTPError, httpx2.StreamError, OSError) as error:
        refused = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
        raise NoAnswerError(f"{type(error).__name__}: {error}", refused=refused) from None
    except (UnknownApiResponseError, ValueError) as error:
        raise NoAnswerError(f"{type(error).__name__}: {error}", lasting=True) from None


def is_bad_key(text: str) -> bool:
    """Whether a refusal is about the key: Gemini's API has no status of its own for that.

    >>> is_bad_key('{"error": {"code": 400, "details": [{"reason": "API_KEY_INVALID"}]}}')
    True
    """
    return bool({"API_KEY_INVALID", "API_KEY_EXPIRED"} & set(_reasons(text)))


def is_spent(text: str) -> bool:
    """Whether a refusal is about credit that is used up."""
    return "credits are depleted" in text.lower()


def is_daily(text: str) -> bool:
    """Whether a limit of requests per day is reached, which no pause ends.

    >>> is_daily('{"error": {"details": [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]}]}}')
    True
    """
    quotas = [told.get("quotaId") for detail in _details(text) for told in detail.get("violations") or ()]
    return any("PerDay" in str(quota) for quota in quotas)


def _pause(text: str) -> str | None:
    """The seconds to wait that a refusal asks for: Gemini's API says so in its body, as in "34.5s"."""
    asked = (str(detail["retryDelay"]) for detail in _details(text) if "retryDelay" in detail)
    return next((pause.removesuffix("s") for pause in asked), None)


def _reasons(text: str) -> list[str]:
    """The reasons of a refusal, and its status."""
    told = [detail.get("reason") for detail in _details(text)]
    return [str(reason) for reason in (*told, _error(text).get("status")) if reason]


def _details(text: str) -> Iterator[dict[str, Any]]:
    details = _error(text).get("details")
    yield from (detail for detail in (details if isinstance(details, list) else ()) if isinstance(detail, dict))


def _error(text: str) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    error = told.get("error") if isinstance(told, dict) else None
    return error if isinstance(error, dict) else {}


def _as_openai(result: Any) -> dict[str, Any]:
    """Log-probabilities in the form of OpenAI's API, which `token_logprobs` checks and reads."""
    if not isinstance(result, dict):
        return {}

    def named(token: dict[str, Any]) -> dict[str, Any]:
        return {"token": token.get("token"), "logprob": token.get("logProbability")}

    try:
        chosen, top = result.get("chosenCandidates") or [], result.get("topCandidates") or []
        pairs = zip(chosen, top, strict=True)
        content = [
            {**named(one), "top_logprobs": [named(each) for each in likeliest["candidates"]]}
            for one, likeliest in pairs
        ]
    except (AttributeError, KeyError, TypeError) as problem:
        raise ValueError from problem
    return {"logprobs": {"content": content}}


def _usage(told: Any) -> Usage:
    """The tokens of an answer: those of the prompt hold those from the cache, those of thoughts are counted apart."""
    names = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount")
    read, said, thought, cached = (count(told, name) for name in names)
    written = (said or 0) + (thought or 0)
    is_counted = read is not None and (said is not None or thought is not None)
    return Usage(read or 0, written, cached or 0, 0, thought or 0, is_counted)
