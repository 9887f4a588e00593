"""gemini/…: Gemini by Google's own library, at Google or at a server that speaks the Gemini API.

p is read from the log-probabilities of the reply's tokens, which some models give, or from sampled verdicts (`votes`)
or a grade (`graded`), which are asked for in structured output.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from comparo.data.prompts import Prompt, Question
from comparo.judges.calls import Calls
from comparo.judges.gemini.caller import Gemini, tell
from comparo.judges.gemini.settings import GeminiSettings
from comparo.judges.hosted.probing import describe, survey
from comparo.judges.openai.probing import PROMPT
from comparo.judges.prices import Price
from comparo.judges.protocol import Judgement, Probe


@dataclass(frozen=True, kw_only=True)
class GeminiJudge(GeminiSettings):
    """Gemini; `load` explains its options.

    >>> judge = load("gemini-3.8-flash", votes=5, effort="low")
    >>> judge.name, judge.chooses
    ('gemini/gemini-3.8-flash', True)
    """

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """The answers as they come, from `concurrency` calls at once; the first question goes alone."""
        with Calls([Gemini(self, prompt)], questions, self) as calls:
            yield from calls.answers()

    def probe(self) -> Probe:
        """What Google's list of models and one small question tell; a JudgeError names the remedy."""
        return self.survey()[1]

    def survey(self) -> tuple[list[tuple[str, str]], Probe]:
        """All that the list and the question tell of the model."""
        self.ready()
        facts = self.check(describe(self, lambda: tell(self)))
        return survey(self, Gemini(replace(self, votes=min(self.votes, 1)), PROMPT), facts)


def load(
    model: str,
    *,
    base_url: str | None = None,
    concurrency: int = 32,
    votes: int = 0,
    graded: bool = False,
    effort: str | None = None,
    thinking: int | None = None,
    price: Price | str | None = None,
    timeout: float | None = None,
    retries: int = 5,
    window: int | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> GeminiJudge:
    """Gemini as a judge, with the key in the environment's GEMINI_API_KEY or GOOGLE_API_KEY.

    Parameters
    ----------
    model
        The model's name, such as gemini-3.8-flash.
    base_url
        The server, by default the environment's GOOGLE_GEMINI_BASE_URL, else Google's.
    concurrency
        The most calls at a time.
    votes
        How many verdicts to sample in place of reading log-probabilities; 0 reads log-probabilities.
    graded
        Whether verdicts are from A>>B to B>>A.
    effort
        How much the model reasons: none, minimal, low, medium or high; by default as the model does by itself.
    thinking
        Tokens that the model may reason with, for models without levels of effort (Gemini 2.5).
    price
        USD per million tokens read and written; by default that of a known model.
    timeout
        Seconds for the whole of one try; by default 60 without reasoning, else 600.
    retries
        How many more tries may follow; no pause before one is longer than `timeout`.
    window
        How many tokens a prompt may have.
    temperature
        By default 0 for log-probabilities; for votes it is only sent if given.
    max_tokens
        The most tokens of a reply, reasoning included; by default as many as it needs.

    Raises
    ------
    ValueError
        An option is outside its range, or two do not go together.

    Examples
    --------
    >>> load("gemini-3.8-flash").base_url
    'https://generativelanguage.googleapis.com'
    >>> load("gemini-3.8-flash", effort="max")
    Traceback (most recent call last):
    ValueError: effort = 'max' is not one of none, minimal, low, medium, high
    """
    return GeminiJudge.checked(
        model,
        base_url=base_url,
        concurrency=concurrency,
        votes=votes,
        graded=graded,
        effort=effort,
        thinking=thinking,
        price=price,
        timeout=timeout,
        retries=retries,
        window=window,
        temperature=temperature,
        max_tokens=max_tokens,
    )
