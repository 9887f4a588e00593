"""openai/…: OpenAI's API, or any server that speaks it (vLLM, llama.cpp, Ollama, …), at `base_url`.

p is read from the log-probabilities of the reply's tokens or, where there are none, from a number of sampled verdicts.
The key comes from the environment and goes to the server alone: whatever is handed on is searched for it first.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.prompts import Prompt, Question
from comparo.judges.batches import SHARE
from comparo.judges.calls import Calls
from comparo.judges.openai.batches import OpenAIBatches
from comparo.judges.openai.caller import Caller
from comparo.judges.openai.criteria import CriteriaCaller
from comparo.judges.openai.probing import probe, survey
from comparo.judges.openai.settings import OPENAI, ROOM, Settings
from comparo.judges.options import address, number
from comparo.judges.prices import Price, find_price, read_price
from comparo.judges.protocol import Judgement, Probe

BASE_URL = "OPENAI_BASE_URL"
SHARED = 8  # calls at once that share a client, whose every call searches all of its connections


@dataclass(frozen=True)
class OpenAIJudge(Settings):
    """A model behind an API; `load` explains its options.

    >>> judge = load("gpt-6-luna", votes=5)
    >>> judge.name, judge.price.written, judge.settings["temperature"]
    ('openai/gpt-6-luna', 0.5, 1.0)
    """

    def probe(self) -> Probe:
        """What the server accepts and gives, by one or two questions of a few words; a JudgeError names the remedy."""
        return probe(self, _ask_once)

    def survey(self) -> tuple[list[tuple[str, str]], Probe]:
        """All that can be found about the model by a handful of small questions."""
        return survey(self, _ask_once)

    def learn(self, found: Mapping[str, Any]) -> None:
        """Take over what was found in an earlier probe."""
        self.dialect.learn(found)

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """The answers as they come, from `concurrency` calls at once; the first question goes alone."""
        clients = -(-self.concurrency // SHARED) if self.base_url.startswith("http:") else 1
        several = isinstance(prompt, CriteriaPrompt)
        callers = [CriteriaCaller(self, prompt) if several else Caller(self, prompt) for _ in range(clients)]
        with Calls(callers, questions, self) as calls:
            yield from calls.answers()

    def batches(self, prompt: Prompt) -> OpenAIBatches:
        """Batches of questions, which a server answers within a day."""
        return OpenAIBatches(self, prompt)

    def at_batch_price(self) -> Self:
        """The same judge, at what a batch costs."""
        return self if self.price is None else replace(self, price=self.price.times(SHARE))


def load(
    model: str,
    *,
    base_url: str | None = None,
    concurrency: int = 32,
    endpoint: Literal["chat", "completion"] = "chat",
    votes: int = 0,
    graded: bool = False,
    prefill: bool = False,
    price: Price | tuple[float, ...] | str | None = None,
    timeout: float | None = None,
    retries: int = 5,
    window: int | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    effort: str | None = None,
) -> OpenAIJudge:
    """A judge behind OpenAI's API or one like it, with the key in the environment's OPENAI_API_KEY.

    Parameters
    ----------
    model
        The model's name at the server.
    base_url
        The server, by default the environment's OPENAI_BASE_URL, else OpenAI's.
    concurrency
        The most calls at a time.
    endpoint
        "chat", or "completion" for a model without a chat template.
    votes
        How many verdicts to sample in place of reading log-probabilities; 0 reads log-probabilities.
    graded
        Whether verdicts are from A>>B to B>>A.
    prefill
        Whether the beginning of the reply is sent too, where the server can go on with it.
    price
        USD per million tokens read and written (and a third for those from the server's cache); by default the list
        price of a known model.
    timeout
        Seconds for the whole of one try; by default 60, and 600 for a model that reasons.
    retries
        How many more tries may follow; no pause before one is longer than `timeout`.
    window
        How many tokens a prompt may have.
    temperature
        By default 0 for log-probabilities and 1 for votes.
    max_tokens
        The most tokens of a reply, by default as many as it needs; for a model that reasons 25,000, reasoning included.
    effort
        How much the model reasons before it answers: "none", "low", "medium", "high", or what else the server takes.
        By default the server decides, and "none" is asked for where that is needed for log-probabilities.

    Raises
    ------
    ValueError
        An option is outside its range, or two do not go together.

    Examples
    --------
    >>> load("llama", base_url="http://user:secret@localhost:8000/v1").base_url
    'http://localhost:8000/v1'
    >>> load("llama", votes=-1)
    Traceback (most recent call last):
    ValueError: votes = -1 is not a whole number from 0 up
    """
    if not model:
        raise ValueError("openai/ needs a model, such as openai/gpt-6-luna")
    if endpoint not in ("chat", "completion"):
        raise ValueError(f"endpoint = {endpoint!r} is not one of chat, completion")
    for name, value in (("graded", graded), ("prefill", prefill)):
        if not isinstance(value, bool):
            raise ValueError(f"{name} = {value!r} is not one of true, false")
    if (prefill and (votes or graded)) or (graded and endpoint == "completion"):
        raise ValueError(
            "prefill is for log-probabilities (votes = 0) and graded for endpoint = chat; drop one of them"
        )
    votes = number("votes", votes, 0, whole=True) or int(graded)
    if effort is not None and not (isinstance(effort, str) and effort.isidentifier()):
        raise ValueError(f"effort = {effort!r} is not a word such as none, low, medium, high")
    if effort is not None and endpoint == "completion":
        raise ValueError("effort is for endpoint = chat; drop one of them")
    reasons = effort not in (None, "none")
    if reasons and not votes:
        raise ValueError(
            f"effort = {effort} goes with verdicts, because a model that reasons gives no log-probabilities of its "
            "answer; add votes=5 (or graded=true), or use effort=none"
        )
    if temperature is None:
        temperature = 1.0 if votes else 0.0
    limited = max_tokens is not None
    if max_tokens is None:
        max_tokens = ROOM if reasons else 1 if prefill or endpoint == "completion" else 64 if votes else 8
    url, login = address(base_url or os.environ.get(BASE_URL) or OPENAI)
    return OpenAIJudge(
        model=model,
        base_url=url,
        login=login,
        concurrency=number("concurrency", concurrency, 1, 1000, whole=True),
        endpoint=endpoint,
        votes=votes,
        graded=graded,
        prefill=prefill,
        price=find_price(model, url) if price is None else read_price(price),
        timeout=None if timeout is None else number("timeout", timeout, 0.001),
        retries=number("retries", retries, 0, whole=True),
        window=None if window is None else number("window", window, 1, whole=True),
        temperature=number("temperature", temperature, 0, 2),
        max_tokens=number("max_tokens", max_tokens, 1, whole=True),
        effort=effort,
        limited=limited,
    )


def _ask_once(judge: Settings, prompt: Prompt, question: Question) -> tuple[Judgement, bool]:
    """The answer to one question, and whether it ended at the limit of its tokens."""
    caller = Caller(judge, prompt)
    with Calls([caller], [question], judge) as calls:
        (answer,) = calls.answers()
    return answer, caller.was_cut
