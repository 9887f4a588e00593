"""gemini/…: Gemini by `generateContent`, at Google or at a server that speaks the Gemini API.

p is read from the log-probabilities of the reply's tokens, which some models give, or from sampled verdicts (`votes`)
in structured output.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar
from urllib.parse import quote

import comparo.judges.verdicts as verdicts
from comparo.data.prompts import Prompt
from comparo.errors import JudgeError
from comparo.judges.caller import AnswerError, Caller, Case, Said
from comparo.judges.http import Answer, whole_characters
from comparo.judges.prices import Usage, count
from comparo.judges.refusals import Complaint
from comparo.judges.server_judge import ServerJudge
from comparo.judges.server_options import LABEL, NONE, TOP, VERDICT, loader

CANDIDATES = 8  # replies to one request: the most that Gemini's API allows
ENDED = ("STOP", "MAX_TOKENS", "FINISH_REASON_UNSPECIFIED", None)  # finish reasons with which the reply is not withheld
BAD_KEY = {"api_key_invalid", "api_key_expired"}  # reasons: Gemini's API has no separate status for a bad key
SPENT = re.compile("credits are depleted", re.IGNORECASE)
DAILY = re.compile(r'"quotaId":\s*"[^"]*PerDay')  # a limit of requests per day, which no pause ends
PAUSE = re.compile(r'"retryDelay":\s*"([\d.]+)s"')  # the seconds to wait, which Gemini's API states in the body


@dataclass(frozen=True, kw_only=True)
class GeminiJudge(ServerJudge):
    """Gemini, with the key in the environment's GEMINI_API_KEY or GOOGLE_API_KEY.

    The temperature of votes is only sent if it is given.

    >>> judge = load("gemini-3.8-flash", votes=5, effort="low")
    >>> judge.name, judge.chooses
    ('gemini/gemini-3.8-flash', True)
    >>> load("gemini-3.8-flash", effort="max")
    Traceback (most recent call last):
    ValueError: effort = 'max' is not one of none, minimal, low, medium, high
    """

    version: ClassVar[str] = "/v1beta"
    efforts: ClassVar[tuple[str, ...]] = ("minimal", "low", "medium", "high")

    @property
    def reply_tokens(self) -> int | None:
        if self.max_tokens is not None or self.reasons:
            return self.max_tokens
        return VERDICT if self.votes else LABEL

    def headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key}

    def caller(self, prompt: Prompt) -> Caller:
        return GeminiCaller(self, prompt)


class GeminiCaller(Caller):
    """Sends questions to Gemini and reads its answers."""

    judge: GeminiJudge

    def request(self, case: Case, wanted: int) -> tuple[str, dict[str, Any]]:
        judge = self.judge
        config: dict[str, Any] = {
            "maxOutputTokens": judge.limit(self.prompt),
            "temperature": 0.0 if judge.temperature is None and not judge.votes else judge.temperature,
        }
        if not judge.votes:
            config |= {"responseLogprobs": True, "logprobs": TOP}
        elif self.put("response_format", case):
            schema = verdicts.reply_schema(self.prompt)
            config |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
        if wanted > 1 and self.put("n", case):
            config["candidateCount"] = min(wanted, CANDIDATES)
        if judge.effort == NONE:
            config["thinkingConfig"] = {"thinkingBudget": 0}
        elif judge.effort is not None:
            config["thinkingConfig"] = {"thinkingLevel": judge.effort.upper()}
        body = {
            "contents": [{"parts": [{"text": case.text + self.added}], "role": "user"}],
            "generationConfig": {name: value for name, value in config.items() if value is not None},
        }
        name = judge.model if "/" in judge.model else f"models/{judge.model}"
        return f"/v1beta/{quote(name)}:generateContent", body

    def replies(self, answer: Any, case: Case) -> list[Said]:
        case.usage += _usage(answer.get("usageMetadata"))
        if reason := (answer.get("promptFeedback") or {}).get("blockReason"):
            return [Said(withheld=f"Gemini blocked the prompt ({reason})")]
        return [_said(candidate) for candidate in (answer["candidates"][0], *answer["candidates"][1:])]

    def annotate(self, answer: Answer) -> Answer:
        """Add the headers for the pause that a refusal states in its body, or for no retry."""
        if answer.status < 300:
            return answer
        if DAILY.search(answer.text) or SPENT.search(answer.text):
            return Answer(answer.status, {**answer.headers, "x-should-retry": "false"}, answer.text)
        asked = PAUSE.search(answer.text)
        pause = {"retry-after": asked[1]} if asked else {}
        return Answer(answer.status, {**pause, **answer.headers}, answer.text)

    def heed(self, answer: Answer, complaint: Complaint, case: Case, body: Mapping[str, Any]) -> bool:
        judge, status, asked = self.judge, answer.status, case.text
        if BAD_KEY & complaint.codes:
            raise self.bad_key(status)
        if SPENT.search(answer.text):
            raise self.no_credit(answer)
        if status == 429 and DAILY.search(answer.text):
            raise JudgeError(
                f"{judge.base_url} takes no more requests today {self.quoted(answer)}; run this again tomorrow"
            )
        if status != 400:
            return False
        if "failed_precondition" in complaint.codes:
            raise JudgeError(f"{judge.base_url} does not serve this key {self.quoted(answer)}; check its billing")
        if not judge.votes and complaint.about(asked, "logprobs"):
            raise AnswerError(self.quoted(answer)) if self.dialect.gives_logprobs else self.without_logprobs()
        if "candidateCount" in body["generationConfig"] and complaint.about(asked, "candidate"):
            case.form["n"] = False
            return True
        if judge.max_tokens is not None and complaint.about(asked, "max_output_tokens", "maxoutputtokens"):
            raise self.unwanted("max_tokens", answer, "set another max_tokens")
        vague = not self.dialect.serves and "contains an invalid argument" in complaint.words
        if judge.effort is not None and (vague or complaint.about(asked, "thinking", "budget")):
            raise self.unwanted("effort", answer, "use another one, or drop it")
        if "responseJsonSchema" in body["generationConfig"] and complaint.about(asked, "json", "schema", "mime"):
            case.form["response_format"] = False
            return True
        return False


def _said(candidate: Any) -> Said:
    parts = (candidate.get("content") or {}).get("parts") or []
    text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    reason, why = candidate.get("finishReason"), candidate.get("finishMessage")
    withheld = ""
    if reason not in ENDED:
        withheld = f"Gemini withheld its reply ({reason})"
        if why:
            withheld += f": {why}"
    rows = _rows(candidate.get("logprobsResult"))
    return Said(whole_characters(text), rows, withheld, reason == "MAX_TOKENS")


def _rows(result: Any) -> Iterator[verdicts.TokenLogprobs]:
    if isinstance(result, dict):
        chosen, top = (result.get(f"{name}Candidates") or [] for name in ("chosen", "top"))
        for one, likeliest in zip(chosen, top, strict=True):
            yield (*_row(one), [_row(each) for each in likeliest["candidates"]])


def _row(token: dict[str, Any]) -> tuple[Any, Any]:
    return token.get("token"), token.get("logProbability")


def _usage(usage: Any) -> Usage:
    """The tokens of an answer; its prompt count includes cached tokens, its candidates count excludes thoughts."""
    names = ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount")
    read, said, thought, cached = (count(usage, name) for name in names)
    is_counted = read is not None and (said is not None or thought is not None)
    return Usage(read or 0, (said or 0) + (thought or 0), cached or 0, 0, thought or 0, is_counted)


load_at = partial(loader, GeminiJudge)
load = load_at("gemini")
