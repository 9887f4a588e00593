"""anthropic/…: Claude by Anthropic's own library, at Anthropic or at a server that speaks the Messages API.

Claude gives no log-probabilities, so p is from sampled verdicts (`votes`) or from a grade (`graded`). Verdicts are
asked for in structured output, which goes with reasoning; a tool that must be called does not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError
from comparo.judges.anthropic.batches import AnthropicBatches
from comparo.judges.anthropic.caller import Claude, tell
from comparo.judges.anthropic.settings import AnthropicSettings
from comparo.judges.batches import SHARE
from comparo.judges.calls import Calls
from comparo.judges.hosted.caller import AnswerError, Case
from comparo.judges.hosted.probing import describe, survey
from comparo.judges.openai.probing import PROMPT
from comparo.judges.prices import Price
from comparo.judges.protocol import Judgement, Probe

LEAST = 1024  # the least that Anthropic's API takes as a budget of reasoning


@dataclass(frozen=True, kw_only=True)
class AnthropicJudge(AnthropicSettings):
    """Claude; `load` explains its options.

    >>> judge = load("claude-haiku-5-5", votes=3, effort="none")
    >>> judge.name, judge.chooses, judge.reply_tokens
    ('anthropic/claude-haiku-5-5', True, 64)
    """

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        """The answers as they come, from `concurrency` calls at once; the first question goes alone."""
        with Calls([Claude(self, prompt)], questions, self) as calls:
            yield from calls.answers()

    def batches(self, prompt: Prompt) -> AnthropicBatches:
        """Batches of questions, which Anthropic answers within a day."""
        return AnthropicBatches(
            self,
            lambda question: self.params(question, prompt),
            lambda question, messages: self.judgement(question, prompt, messages),
        )

    def at_batch_price(self) -> Self:
        """The same judge, at what a batch costs."""
        return self if self.price is None else replace(self, price=self.price.times(SHARE))

    def params(self, question: Question, prompt: Prompt) -> dict[str, Any]:
        """The parameters of a request for one verdict, as the Messages API and its batches take them.

        With `votes` = n, a question needs n such requests. A JudgeError where the question cannot be put.

        >>> from comparo.data.prompts import criterion_prompt
        >>> judge = load("claude-haiku-5-5", effort="low")
        >>> sent = judge.params(Question("ana", "bo", None, "one", "two"), criterion_prompt("funnier"))
        >>> sorted(sent), sent["output_config"]["effort"]
        (['max_tokens', 'messages', 'model', 'output_config', 'thinking'], 'low')
        """
        case = Case(question)
        try:
            Claude(self, prompt).write(case, self.window)
        except AnswerError as problem:
            raise JudgeError(str(problem)) from None
        return self.request(case.text, prompt)

    def judgement(self, question: Question, prompt: Prompt, messages: Sequence[Mapping[str, Any]]) -> Judgement:
        """What the messages that were sent back for a question say, each as the Messages API writes it in JSON.

        >>> from comparo.data.prompts import criterion_prompt
        >>> message = {"content": [{"type": "text", "text": '{"better": "Text A"}'}], "stop_reason": "end_turn",
        ...     "usage": {"input_tokens": 90, "output_tokens": 8}}
        >>> answer = load("claude-haiku-5-5").judgement(Question("ana", "bo"), criterion_prompt("funnier"), [message])
        >>> answer.p, answer.tokens_in, answer.tokens_out
        (0.75, 90, 8)
        """
        caller, case = Claude(self, prompt), Case(question)
        try:
            caller.write(case, self.window)
            for message in messages:
                case.replies += caller.read_message(message, case)
        except AnswerError as problem:
            return caller.judgement(case, error=str(problem))
        return caller.judgement(case)

    def probe(self) -> Probe:
        """What Anthropic's list of models and one small question tell; a JudgeError names the remedy."""
        return self.survey()[1]

    def survey(self) -> tuple[list[tuple[str, str]], Probe]:
        """All that the list and the question tell of the model."""
        self.ready()
        facts = self.check(describe(self, lambda: tell(self)))
        return survey(self, Claude(replace(self, votes=1), PROMPT), facts)


def load(
    model: str,
    *,
    base_url: str | None = None,
    concurrency: int = 32,
    votes: int = 1,
    graded: bool = False,
    effort: str | None = None,
    thinking: int | None = None,
    price: Price | str | None = None,
    timeout: float | None = None,
    retries: int = 5,
    window: int | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> AnthropicJudge:
    """Claude as a judge, with the key in the environment's ANTHROPIC_API_KEY.

    Parameters
    ----------
    model
        The model's name, such as claude-haiku-5-5.
    base_url
        The server, by default the environment's ANTHROPIC_BASE_URL, else Anthropic's.
    concurrency
        The most calls at a time.
    votes
        How many verdicts to sample for a question, one call each.
    graded
        Whether verdicts are from A>>B to B>>A.
    effort
        How much the model reasons: none, low, medium, high, xhigh or max; by default as the model does by itself.
    thinking
        Tokens that the model may reason with, from 1,024 up, for models without levels of effort.
    price
        USD per million tokens read and written; by default that of a known model.
    timeout
        Seconds for the whole of one try; by default 60 without reasoning, else 600.
    retries
        How many more tries may follow; no pause before one is longer than `timeout`.
    window
        How many tokens a prompt may have.
    temperature
        Only sent if given: recent models refuse it.
    max_tokens
        The most tokens of a reply, reasoning included; by default as many as it needs.

    Raises
    ------
    ValueError
        An option is outside its range, or two do not go together.

    Examples
    --------
    >>> load("claude-haiku-5-5").base_url
    'https://api.anthropic.com'
    >>> load("claude-haiku-5-5", votes=0)
    Traceback (most recent call last):
    ValueError: votes = 0 reads log-probabilities, which Claude does not give; sample verdicts, as by votes=5
    """
    if votes == 0 and not graded:
        raise ValueError(
            "votes = 0 reads log-probabilities, which Claude does not give; sample verdicts, as by votes=5"
        )
    if thinking is not None and isinstance(thinking, int) and thinking < LEAST:
        raise ValueError(f"thinking = {thinking} is less than {LEAST}, the least that Anthropic's API takes")
    return AnthropicJudge.checked(
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
