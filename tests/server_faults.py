"""Faults of a server that is asked one question at a time, and what becomes of the questions around them.

Three questions are asked; the server has the fault at the second, and answers the others as it should. A fault either
fails that one judgement, or stops the judge with a message; an exception of another kind, a tie in place of a failure
or a key in a message is a defect.
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import comparo
from comparo import JudgeError, Judgement, load_judge
from inside import read_judgements
from servers import KEY, PROMPT, Api, Reply, Request, choices, pairs, refusal, tokens

SURE = tokens({"A": 0.7, "B": 0.2, "The": 0.05})
SURE.body["model"] = "tiny-2026-11-01"


@dataclass(frozen=True)
class Fault:
    """What the server sends at the second question; `stops`: no question can be answered from then on.

    `says` is a part of the message; None where the answer is to be kept.
    """

    reply: Reply | Callable[[Request], Reply]
    says: str | None
    stops: bool = False


def _close(_: Request) -> Reply:
    raise ConnectionAbortedError


def _content(**changed: Any) -> Reply:
    """The usual answer with another choice."""
    return Reply(SURE.body | {"choices": [SURE.body["choices"][0] | changed]})


def _logprobs(first: Any, second: Any) -> Reply:
    top = [{"token": "A", "logprob": first}, {"token": "B", "logprob": second}]
    return _content(logprobs={"content": [{"token": "A", "logprob": first, "top_logprobs": top}]})


def _coded(status: int, code: str, **more: Any) -> Reply:
    return Reply({"error": {"message": "No.", "code": code}}, status=status, **more)


PACKED = gzip.compress(json.dumps(SURE.body).encode())
STOPPING = {401: "refused the key", 402: "no credit left", 404: "has no model", 405: "has no model"}
REFUSING = (400, 403, 406, 408, 409, 410, 418, 422, 423, 425, 429, 431, 451, 500, 501, 502, 503, 504, 507, 520, 529)

FAULTS = {
    **{f"status {status}": Fault(refusal(status, "No."), f"({status})") for status in REFUSING},
    **{f"status {status}": Fault(refusal(status, f"No: {KEY}"), says, True) for status, says in STOPPING.items()},
    "413 that does not pass": Fault(refusal(413, "too large"), "does not hold the question"),
    "no credit (429)": Fault(_coded(429, "insufficient_quota"), "no credit left", True),
    "a wait of hours": Fault(refusal(429, "No.", headers={"Retry-After": "7200"}), "2.0 hours", True),
    "a refusal of the prompt by a filter": Fault(_coded(400, "content_filter"), "content filter"),
    "a refusal by Azure's filter": Fault(_coded(400, "ResponsibleAIPolicyViolation"), "content filter"),
    "a reply that a filter withheld": Fault(_content(finish_reason="content_filter"), "content filter"),
    "a refusal by the model": Fault(
        _content(message={"content": None, "refusal": "I cannot."}, logprobs=None), "refused to answer"
    ),
    "a refusal that repeats the key": Fault(refusal(400, f"Your key {KEY} is fine."), "***"),
    "all log-probabilities NaN": Fault(_logprobs(math.nan, math.nan), "NaN"),
    "all log-probabilities null": Fault(_logprobs(None, None), "NaN"),
    "one log-probability NaN": Fault(_logprobs(-0.1, math.nan), None),
    "log-probabilities above 0": Fault(_logprobs(3.0, 2.0), "no log-probabilities"),
    "log-probabilities of text": Fault(_logprobs("x", "y"), "not in the form of the API"),
    "no log-probabilities": Fault(_content(logprobs=None), "gives no log-probabilities"),
    "a reply without a label": Fault(tokens({"The": 0.9, "Hm": 0.1}), "does not name"),
    "no body": Fault(Reply(b""), "not JSON"),
    "HTML": Fault(Reply(b"<html>Welcome to the proxy"), "not JSON"),
    "half of the JSON": Fault(Reply(json.dumps(SURE.body).encode()[:99]), "not JSON"),
    "JSON of great depth": Fault(Reply(b"[" * 100_000), "not JSON"),
    "a list": Fault(Reply([1]), "no reply in it"),
    "null": Fault(Reply(b"null"), "no reply in it"),
    "no choices": Fault(Reply(choices()), "no reply in it"),
    "a choice that holds nothing": Fault(Reply(choices({})), "does not name"),
    "choices that are none": Fault(Reply({"choices": [None]}), "no reply in it"),
    "an error with status 200": Fault(Reply({"error": {"message": "No."}}), "no reply in it"),
    "bytes that are no text": Fault(Reply(bytes(range(256))), "not JSON"),
    "a body that ends halfway": Fault(Reply(SURE.body, cut=True), "1 tries"),
    "a packed body that ends halfway": Fault(Reply(PACKED[:-20], headers={"Content-Encoding": "gzip"}), "1 tries"),
    "a packing that nobody asked for": Fault(Reply(PACKED, headers={"Content-Encoding": "br"}), "'br'"),
    "a connection that is closed": Fault(_close, "1 tries"),
    "no answer in time": Fault(Reply(SURE.body, after=20), "TimeoutError"),
    "a body that drips": Fault(
        Reply(pieces=lambda: (time.sleep(0.05) or b" " for _ in itertools.count())), "TimeoutError"
    ),
    "tokens that are no number": Fault(Reply(SURE.body | {"usage": {"prompt_tokens": 10**30}}), None),
    "a model's name that is a list": Fault(Reply(SURE.body | {"model": [1]}), None),
}


def meet(fault: Fault) -> tuple[list[Judgement], JudgeError | None]:
    """The judgements of three questions, and what stopped the judge; the fault is at the second."""

    def reply(request: Request) -> Reply:
        if "purr 1" not in request.body["messages"][0]["content"]:
            return SURE
        return fault.reply if isinstance(fault.reply, Reply) else fault.reply(request)

    judgements: list[Judgement] = []
    with Api(reply) as api:
        judge = load_judge("openai/tiny", base_url=api.url, retries=0, timeout=1.0, concurrency=1, price=(1.0, 1.0))
        try:
            judgements.extend(judge.judge(pairs(3), PROMPT))
        except JudgeError as problem:
            return judgements, problem
    return judgements, None


def defects(fault: Fault, judgements: list[Judgement], stop: JudgeError | None) -> list[str]:
    """What went wrong with the questions around a fault."""
    found = [] if (stop is not None) == fault.stops else [f"stopped by {stop}" if stop else "it went on"]
    failed = [one for one in judgements if one.failed]
    said = str(stop) if stop else " ".join(str(one.error) for one in failed)
    if fault.says is not None and fault.says not in said:
        found.append(f"it said: {said}")
    if len(failed) != (fault.says is not None and not fault.stops):
        found.append(f"{len(failed)} judgements failed")
    if not fault.stops and len(judgements) != 3:
        found.append(f"{len(judgements)} of 3 judgements")
    if any(not math.isnan(one.p) for one in failed):
        found.append("a failure with a probability")
    if any(KEY[start : start + 6] in said for start in range(len(KEY) - 5)):
        found.append("a key in a message")
    return found


def spent_of_a_dollar(folder: Path, concurrency: int, cheap: int = 0, after: float = 0.02) -> tuple[float, int]:
    """What a run with `--budget '$1'` spends, and its calls: $0.03006 each, and the first `cheap` ones $0.00306."""

    def answer(_: Request) -> Reply:
        made = tokens({"A": 0.7, "B": 0.3}, after=after)
        made.body["usage"] = {"prompt_tokens": 300 if len(api.requests) <= cheap else 3000, "completion_tokens": 2}
        return made

    texts = {f"item {number}": "A word or two. " * 20 for number in range(40)}
    with Api(answer) as api:
        judge = f"openai/any; base_url={api.url}, price=10,30, concurrency={concurrency}"
        comparo.rank(texts, "better", judge=judge, budget="$1", out=folder, cache="off")
    return sum(one.cost for one in read_judgements(folder)), len(api.requests)
