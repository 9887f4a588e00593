"""Finds the reason of a server's refusal in its fields and words, without the words repeated from the question.

The form differs between OpenAI, vLLM, llama.cpp, Ollama, TGI and FastAPI's servers: an object `error` with `message`,
`param`, `code` and `type`, an `error` that is a text, a `detail` that is a text or a list with `loc` and `msg`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from comparo.errors import JudgeError
from comparo.judges.http import parts, replace_parts

ECHO = 24  # characters, about four words: a run of that length in question and complaint is a repetition
CODES = ("code", "type", "status", "reason")  # of OpenAI's and Anthropic's API, and of Google's
LONGEST = 10_000  # characters of a complaint that are read: a hostile one takes some 10 ms

NEEDS_TLS = ("http request was sent to https", "http request to an https", "plain http to an ssl")  # nginx, Go, Apache
FILTERED = "a content filter of the server refused"
_FILTERS = {"content_filter", "content_policy_violation", "responsibleaipolicyviolation", "invalid_prompt"}
_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window)|max_model_len|(?:prompt|input|request) is too long|input token count"
)
_TOO_MANY = re.compile(  # the first mention in a line only: a search from each of many would be quadratic
    r"^(?>.*?max_(?:completion_|output_|new_)?tokens\W).*?(?:too large|at most|exceed|less than|maximum)", re.MULTILINE
)
_WISHES: dict[str, tuple[re.Pattern[str], object]] = {  # request parameter → pattern of its mention, and new value
    "max_tokens": (re.compile(r"max_completion_tokens"), "max_completion_tokens"),
    "temperature": (re.compile(r"temperature"), False),
    "response_format": (re.compile(r"response_format|schema|structured|grammar|guided"), False),
    "chat_template_kwargs": (re.compile(r"chat_template_kwargs"), False),
    "n": (re.compile(r"[`'\"]n[`'\"]|\bone completion|\bmultiple (?:choices|completions)"), False),
}


@dataclass(frozen=True, slots=True)
class Complaint:
    """A refusal in lower case: the parameters it names, its codes, and its words without those of the question."""

    names: frozenset[str]
    codes: frozenset[str]
    words: str

    @property
    def too_long(self) -> bool:
        """Whether the question has too many tokens.

        >>> read_complaint('{"error": {"code": "context_length_exceeded"}}').too_long
        True
        """
        return any(_TOO_LONG.search(said) for said in (*self.codes, self.words))

    @property
    def is_filter(self) -> bool:
        """Whether a content filter refused the question, by the codes of OpenAI, Azure and compatible servers.

        >>> read_complaint('{"error": {"code": "content_filter"}}').is_filter
        True
        """
        return not _FILTERS.isdisjoint(self.codes)

    def is_unpaid(self, status: int) -> bool:
        """Whether the key has no credit left."""
        return status == 402 or (status == 429 and "insufficient_quota" in self.codes)

    def about(self, asked: str, *names: str) -> bool:
        """Whether it names one of the parameters `names`, other than by repeating the question `asked`.

        >>> complaint = read_complaint('{"error": {"message": "Temperature may not be set."}}')
        >>> [complaint.about(asked, "temperature") for asked in ("Which is better?", "Which temperature is better?")]
        [True, False]
        """
        small = asked.lower()
        for name in names:
            if any(name in part for part in self.names):
                return True
            if name in self.words and name not in small:
                return True
        return False

    @property
    def too_many(self) -> bool:
        """Whether the token limit for the reply is too large.

        >>> read_complaint("max_tokens is too large: 25000. This model supports at most 16384 tokens").too_many
        True
        """
        return bool(_TOO_MANY.search(self.words))

    @property
    def share(self) -> float:
        """The share to keep of a question that is too long: 0.9·limit/sent if it states both counts, else 0.7.

        >>> read_complaint("the limit is 1000 tokens, and you sent 2000 tokens").share
        0.45
        """
        counts = [int(count) for count in re.findall(r"(\d{2,9}) (?:\w+ )?tokens", self.words)]
        return max(0.9 * min(counts) / max(counts), 0.05) if len(counts) > 1 else 0.7

    def wish(self, body: Mapping[str, Any]) -> tuple[str, object] | None:
        """The request parameter to change and its new value; None if the complaint is about no parameter in `body`.

        >>> read_complaint('{"error": {"param": "temperature"}}').wish({"n": 5, "temperature": 0.0})
        ('temperature', False)
        """
        for part, (pattern, value) in _WISHES.items():
            if part in body and (pattern.search(self.words) or (part in self.names and not value)):
                return part, value
        return None


def no_credit(address: str, said: str) -> JudgeError:
    """The error for a key without credit."""
    return JudgeError(f"{address} has no credit left for this key {said}; top it up, then run this again")


def bad_key(address: str, status: int, variable: str) -> JudgeError:
    """The error for a refused key, without the server's words, which may have parts of the key."""
    return JudgeError(f"{address} refused the key ({status}); set {variable} to one that is valid there")


def read_complaint(text: str, asked: str = "", texts: Iterable[str] = ()) -> Complaint:
    """The complaint in the body `text` of a refusal of the question `asked` with these `texts`.

    >>> body = '{"error": {"message": "Refused: My short essay on logprobs.", "param": "messages[0].content"}}'
    >>> complaint = read_complaint(body, "Text A: My short essay on logprobs.")
    >>> sorted(complaint.names), complaint.words
    (['messages'], 'refused\\n')
    """
    names, codes, said = set(), set(), []
    for field, value in _fields(text):
        if field in ("message", "msg", "detail", "error"):
            said.append(value)
        elif field in CODES:
            codes.add(value.lower())
        else:
            names.add(re.split(r"[.\[]", value.lower())[0])
    words = "\n".join(said)[:LONGEST] or text[:LONGEST]
    words = replace_parts(words, parts(asked, ECHO), ECHO, "\n").lower()
    for short in texts:
        if 0 < len(short) < ECHO:
            words = re.sub(rf"(?<!\w){re.escape(short.lower())}(?!\w)", "\n", words)
    return Complaint(frozenset(names), frozenset(codes), words)


def spoken(text: str) -> str:
    """The messages in the body of a refusal, or the whole body without one.

    >>> spoken('{"error": {"message": "Try later.", "param": "n"}}'), spoken("Try later.")
    ('Try later.', 'Try later.')
    """
    return " ".join(value for field, value in _fields(text) if field in ("message", "msg", "detail")) or text


def _fields(text: str) -> Iterator[tuple[str, str]]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return
    for part in _objects(body):
        for field in ("message", "msg", "detail", "error", "param", *CODES):
            if isinstance(value := part.get(field), str):
                yield field, value
        if isinstance(place := part.get("loc"), list):
            yield from (("loc", step) for step in place if isinstance(step, str))


def _objects(body: Any) -> Iterator[dict[str, Any]]:
    """The objects that describe an error: the body, its `error` with its `details`, and its `detail`."""
    if not isinstance(body, dict):
        return
    yield body
    error = body.get("error")
    details = error.get("details") if isinstance(error, dict) else None
    for inner in (error, body.get("detail"), details):
        each = inner if isinstance(inner, list) else [inner]
        yield from (part for part in each if isinstance(part, dict))
