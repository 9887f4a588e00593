"""Makes a judge from a user's argument: a name provider/model with options, or a function of two texts."""

import hashlib
import inspect
import math
import reprlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from importlib.metadata import entry_points
from types import CodeType
from typing import Any

from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.grammar import read_settings, with_settings
from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError
from comparo.judges.protocol import Judge, Judgement, shared_call
from comparo.judges.servers import SERVERS

PROVIDERS = ("local", "hf", "vllm", "simulated", "replay", *SERVERS)
RAY = ("replicas", "gpus", "cpus", "address")  # options of every judge with engine=ray
MEANT = (
    "a judge is provider/model, an object with name, settings, ahead and judge, or a function of the two texts that "
    "returns the probability that the first is better"
)


def load_judge(name: str, **options: Any) -> Judge:
    """Load a judge by its name.

    Parameters
    ----------
    name
        provider/model, such as local/smollm2, hf/PATH or openai/gpt-6-luna, also with options:
        'openai/gpt-6-luna; effort=low, price=0.15,0.60'.
    options
        Keyword arguments of the provider's function `load`. With engine="ray", also those of `ray_judge`: the judge
        then runs on a Ray cluster, and its method `close` ends it.

    Raises
    ------
    ValueError
        The provider or an option is unknown; the message lists the known ones.

    Examples
    --------
    >>> load_judge("simulated/soft", scores={"ana": 1.0, "bo": 0.0}).name
    'simulated/soft'
    >>> load_judge("oracle/delphi")
    Traceback (most recent call last):
    ValueError: there is no judge 'oracle/delphi'; a judge is provider/model, and the providers are local, hf, ...
    """
    name, own = parse_judge(name)
    options |= own
    if options.pop("engine", None) == "ray":
        cluster = {option: options.pop(option) for option in RAY if option in options}
        replicated: Judge = import_module("comparo.judges.ray").ray_judge(name, options, **cluster)
        return replicated
    provider, _, model = name.partition("/")
    accepted = accepted_options(name)
    if unknown := [option for option in options if option not in accepted]:
        raise ValueError(
            f"{provider}/ judges have no option {unknown[0]!r}; they have {', '.join(accepted) or 'no options'}"
        )
    return _provider(name)(model, **options)


def parse_judge(text: str) -> tuple[str, dict[str, Any]]:
    """Split a judge's text into its name and options.

    >>> parse_judge("openai/gpt-6-luna; effort=low, price=0.15,0.60")
    ('openai/gpt-6-luna', {'effort': 'low', 'price': '0.15,0.60'})
    """
    name, options = with_settings(text)
    return name, {option.replace("-", "_"): _value(value) for option, value in options.items()}


def parse_options(texts: Iterable[str]) -> dict[str, Any]:
    """Read options written NAME=VALUE.

    >>> parse_options(["base-url=http://localhost", "votes=3"])
    {'base_url': 'http://localhost', 'votes': 3}
    """
    read = (each for text in texts for each in read_settings(text))
    return {option.replace("-", "_"): _value(value) for option, value in read}


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def accepted_options(name: str) -> list[str]:
    """The options that a judge has, by its name.

    >>> accepted_options("simulated/soft")[:3]
    ['scores', 'strength', 'noise']
    """
    return list(inspect.signature(_provider(name)).parameters)[1:]


def _provider(name: str) -> Callable[..., Judge]:
    provider = name.partition("/")[0]
    if provider in PROVIDERS:
        server = SERVERS.get(provider)
        module = import_module(f"comparo.judges.{server.api if server else provider}")
        load: Callable[..., Judge] = module.load_at(provider) if server else module.load
        return load
    others = entry_points(group="comparo.judges")
    if provider in others.names:
        found: Callable[..., Judge] = others[provider].load()
        return found
    known = ", ".join([*PROVIDERS, *sorted(others.names)])
    raise ValueError(f"there is no judge {name!r}; a judge is provider/model, and the providers are {known}")


@dataclass(frozen=True)
class FunctionJudge:
    """A judge that calls a function, with one to three arguments, as many as it requires:

    - one: `function(question)`, a `Question` with names, texts and context;
    - two: `function(first_text, second_text)`;
    - three: `function(first_text, second_text, context_text)`, where context_text is None without one.

    The function returns P(first is better), a number from 0 to 1, or True or False; for several criteria, a mapping
    from the name of each to such a number. Any other value and any exception is a failed judgement, never a tie; a
    `JudgeError` ends the run. The prompt is not used. A function is identified by its module, its name and its code.

    Examples
    --------
    >>> judge = FunctionJudge(lambda first, second: 0.9 if len(first) > len(second) else 0.1)
    >>> [answer.p for answer in judge.judge([Question("ana", "bo", first_text="A story.", second_text="Hm.")])]
    [0.9]
    """

    function: Callable[..., Any]

    ahead = 1
    several = True
    cacheable = False  # an answer may depend on what the function reads besides its arguments

    def __post_init__(self) -> None:
        if inspect.iscoroutinefunction(self.function):
            raise TypeError(f"{self._named} is asynchronous; give a function that returns the probability itself")
        if not 1 <= self._arguments <= 3:
            allowed = "of a question, of the two texts, or of these and their context"
            raise TypeError(f"{self._named} requires {self._arguments} arguments; a judge is a function {allowed}")

    @property
    def name(self) -> str:
        return f"function/{self._named}"

    @property
    def settings(self) -> dict[str, Any]:
        """A digest of the function's code; empty if it has no Python code."""
        code = getattr(self._whose, "__code__", None)
        return {} if code is None else {"code": hashlib.sha256(_told(code).encode()).hexdigest()[:16]}

    def judge(self, questions: Iterable[Question], prompt: Prompt | None = None) -> Iterator[Judgement]:
        for question in questions:
            begin, answer, raised = time.perf_counter(), None, None
            try:
                answer = self._ask(question)
            except JudgeError:
                raise
            except Exception as error:  # whatever a user's function raises
                raised = f"{self._named} raised {type(error).__name__}: {error}"
            seconds = time.perf_counter() - begin
            whole = Judgement(question, error=raised or self._problem(answer, prompt), seconds=seconds)
            p = None if raised else _probability(answer)
            if isinstance(prompt, CriteriaPrompt):
                given = answer if isinstance(answer, Mapping) else {}
                found = {name: _probability(given.get(name)) for name in prompt.parts}
                said = {name: whole.error or "" if p is None else (p, math.nan, 1.0) for name, p in found.items()}
                yield shared_call(whole, said)
            else:
                yield whole if p is None else replace(whole, p=p, error=None)

    def _problem(self, answer: Any, prompt: Prompt | None) -> str:
        wanted = "a mapping from every criterion to " if isinstance(prompt, CriteriaPrompt) else ""
        return f"{self._named} returned {reprlib.repr(answer)}, which is not {wanted}a probability from 0 to 1"

    def _ask(self, question: Question) -> Any:
        if self._arguments == 1:
            return self.function(question)
        texts = (question.first_text, question.second_text, question.context_text)
        return self.function(*texts[: self._arguments])

    @cached_property
    def _arguments(self) -> int:
        """How many arguments the function requires; 2 if that is unknown."""
        try:
            parameters = inspect.signature(self.function).parameters.values()
        except (TypeError, ValueError):
            return 2
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        required = sum(one.kind in positional and one.default is inspect.Parameter.empty for one in parameters)
        if not required and any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters):
            return 2
        return required

    @property
    def _whose(self) -> Any:
        """The function inside a `partial`, or the `__call__` of a callable object."""
        function = self.function
        while isinstance(function, partial):
            function = function.func
        return function if hasattr(function, "__qualname__") else type(function).__call__

    @property
    def _named(self) -> str:
        return f"{self._whose.__module__}.{self._whose.__qualname__}"


def as_judge(judge: Any) -> Judge:
    """Return `judge` if it is a judge, or a `FunctionJudge` if it is a function.

    >>> as_judge(max).name
    'function/builtins.max'
    >>> as_judge(7)
    Traceback (most recent call last):
    TypeError: 7 is not a judge: a judge is provider/model, an object with name, settings, ahead and judge, or ...
    """
    if isinstance(judge, type):
        raise TypeError(f"{judge.__name__} is a class: give a judge made of it, {judge.__name__}(…)")
    if callable(getattr(judge, "judge", None)):
        found: Judge = judge
        return found
    if not callable(judge):
        raise TypeError(f"{reprlib.repr(judge)} is not a judge: {MEANT}")
    return FunctionJudge(judge)


def _probability(answer: Any) -> float | None:
    if isinstance(answer, str | bytes):
        return None
    try:
        p = float(answer)
    except (TypeError, ValueError, OverflowError):
        return None
    return p if 0 <= p <= 1 else None


def _told(code: CodeType) -> str:
    """Code as text that is the same in every process: sets are sorted, and inner code has no memory address."""
    constants = []
    for value in code.co_consts:
        if isinstance(value, frozenset):
            value = sorted(map(repr, value))
        constants.append(_told(value) if isinstance(value, CodeType) else repr(value))
    return repr((code.co_code, code.co_names, constants))
