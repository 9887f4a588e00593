"""Several criteria in one question: their names and weights, and the prompt that asks about all of them.

The texts stand first and are the same for every criterion. A judge that runs its model itself reads them once and then
each question alone (`CriteriaPrompt.parts`), so no answer can depend on another. A judge behind an API is sent one
prompt with all questions, and its reply has a line per criterion:

    Article: {context}

    Summary A: {first}

    Summary B: {second}

    Compare Summary A and Summary B by each of these criteria.
    coherence: Which Summary is more coherent, Summary A or Summary B?
    fluency: Which Summary is more fluent, Summary A or Summary B?
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from comparo.data.grammar import with_settings
from comparo.data.prompts import Prompt, criterion_prompt
from comparo.data.wordings import DEFAULT_WORDING, LABELS, escape, few, wording_named
from comparo.errors import OptionError

LINE = 12  # tokens of a line or of a key and its value, besides the name and the kind: signs, a label, a line break
LONGEST = 40  # characters of a name, which is a column and part of the names of files
TAKEN = "a b context component item overall std low high rank tier comparisons criterion".split()  # texts, columns
_NAME = re.compile(r"[^\W_][\w-]*")
_NAMED = re.compile(rf"\s*({_NAME.pattern})\s*=(.*)", re.DOTALL)


@dataclass(frozen=True)
class CriteriaPrompt(Prompt):
    """A prompt with a question for each of several criteria, in `each`: a name and the prompt that asks it alone.

    All prompts of `each`, and this prompt, have the same text before the question, the same labels and the same
    beginning of the answer.

    >>> prompt = criteria_prompt({"coherence": "more coherent", "fluency": "more fluent"}, kind="Summary")
    >>> print(prompt.template.rpartition("\\n\\n")[2])
    Compare Summary A and Summary B by each of these criteria.
    coherence: Which Summary is more coherent, Summary A or Summary B?
    fluency: Which Summary is more fluent, Summary A or Summary B?
    >>> print(prompt.instruction)
    Answer with one line for each criterion, in this order, and nothing else:
    coherence: A or B
    fluency: A or B
    """

    each: tuple[tuple[str, Prompt], ...] = field(default=())

    @property
    def parts(self) -> dict[str, Prompt]:
        """The prompt of each criterion alone, by its name."""
        return dict(self.each)

    @property
    def instruction(self) -> str:
        """How the reply is to be written."""
        lines = [f"{name}: {self.labels[0]} or {self.labels[1]}" for name, _ in self.each]
        return "\n".join(["Answer with one line for each criterion, in this order, and nothing else:", *lines])

    @property
    def identity(self) -> dict[str, Any]:
        """What must stay the same to continue a run."""
        return super().identity | {"criteria": {name: part.template for name, part in self.each}}


def criteria_prompt(
    criteria: Mapping[str, str], kind: str = "Text", context: str | None = None, wording: str = DEFAULT_WORDING
) -> CriteriaPrompt:
    """The prompt for several criteria by name, each worded as for `criterion_prompt`.

    Raises
    ------
    ValueError
        If a name or a criterion cannot be used, or the wording asks its question before the texts too.

    Examples
    --------
    >>> list(criteria_prompt({"wit": "funnier", "length": "shorter"}).parts)
    ['wit', 'length']
    >>> criteria_prompt({"A": "funnier"})
    Traceback (most recent call last):
    ValueError: a criterion cannot be named 'A', as a text or a column is; give it another name
    """
    check_names(criteria)
    form = wording_named(wording)
    if form.is_twice:
        raise ValueError(f"the wording {wording!r} asks before the texts too, which criteria share; choose another one")
    parts = {name: criterion_prompt(words, kind, context, wording) for name, words in criteria.items()}
    first = next(iter(parts.values()))
    texts = first.template.rpartition("\n\n")[0]
    names = (f"{kind.strip()} {label}" for label in LABELS)
    asked = [escape(f"Compare {' and '.join(names)} by each of these criteria.")]
    asked += [f"{name}: {part.template.removeprefix(texts).strip()}" for name, part in parts.items()]
    template = "\n\n".join([texts, "\n".join(asked)])
    return CriteriaPrompt(template, first.labels, first.answer, wording, tuple(parts.items()))


def reply_tokens(prompt: CriteriaPrompt) -> int:
    """The largest number of tokens of a reply; a name takes at most one token per two characters.

    >>> reply_tokens(criteria_prompt({"coherence": "more coherent", "fluency": "more fluent"}))
    35
    """
    return sum(LINE + (len(name) + len(prompt.answer)) // 2 for name in prompt.parts)


def check_names(criteria: Mapping[str, str]) -> None:
    """Raise a ValueError for names that cannot be distinguished in a reply, in a table or among files."""
    if not criteria:
        raise ValueError('there is no criterion; give at least one, such as {"coherence": "more coherent"}')
    folded = [str(name).casefold() for name in criteria]
    for name, words in criteria.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > LONGEST:
            allowed = f"at most {LONGEST} letters, digits, - and _, a letter or a digit first"
            raise ValueError(f"{name!r} cannot name a criterion: a name has {allowed}")
        if not isinstance(words, str):
            raise ValueError(f"the criterion {name!r} is {words!r}; give words that end a question: 'more coherent'")
        if folded.count(name.casefold()) > 1:
            raise ValueError(f"two criteria are named {name!r}, if capitals are ignored; give each its own name")
        if name.casefold() in TAKEN:
            raise ValueError(f"a criterion cannot be named {name!r}, as a text or a column is; give it another name")


def read_criteria(given: Sequence[str]) -> str | dict[str, str] | None:
    """The criteria in a list of texts: one criterion without a name, several by name, or nothing.

    >>> read_criteria(["more coherent"]), read_criteria(["coherence=more coherent", "fluency=more fluent"])
    ('more coherent', {'coherence': 'more coherent', 'fluency': 'more fluent'})
    >>> read_criteria(["more coherent", "fluency=more fluent"])
    Traceback (most recent call last):
    comparo.errors.OptionError: criterion = 'more coherent' has no name, and there are several; write NAME=more coherent
    """
    named = [_NAMED.fullmatch(text) for text in given]
    if not any(named) and len(given) < 2:
        if given and with_settings(given[0], "weight")[1]:
            raise ValueError(f"weights are of several criteria, and {given[0]!r} is one; leave its weight out")
        return given[0] if given else None
    criteria: dict[str, str] = {}
    for text, match in zip(given, named, strict=True):
        if match is None:
            raise OptionError("criterion", text, f"has no name, and there are several; write NAME={text}")
        name, words = match[1], match[2].strip()
        if name in criteria:
            raise OptionError("criterion", name, "is there twice; give each criterion once")
        criteria[name] = words
    return criteria


def split_weights(criteria: Mapping[str, str]) -> tuple[dict[str, str], dict[str, float] | None]:
    """The criteria, and the weights that are written after them.

    >>> split_weights({"coherence": "more coherent; weight=2", "fluency": "more fluent"})
    ({'coherence': 'more coherent', 'fluency': 'more fluent'}, {'coherence': 2.0})
    """
    words, weights = {}, {}
    for name, text in criteria.items():
        words[name], given = with_settings(text, "weight")
        for weight in given.values():
            try:
                weights[name] = float(weight)
            except ValueError:
                raise ValueError(f"the weight of {name}: {weight!r} is not a number, such as 2") from None
    return words, weights or None


def shares(names: Iterable[str], weights: Mapping[str, float] | None = None) -> dict[str, float]:
    """The share of each criterion in the overall, w_c / Σ w; a criterion without a weight has 1.

    >>> shares(["coherence", "fluency"], {"coherence": 3})
    {'coherence': 0.75, 'fluency': 0.25}
    """
    known, given = list(names), dict(weights or {})
    if unknown := [name for name in given if name not in known]:
        raise ValueError(
            f"there is a weight for {unknown[0]!r}, which is no criterion; there are {few(known, like=unknown[0])}"
        )
    found = {name: given.get(name, 1.0) for name in known}
    for name, weight in found.items():
        if not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise ValueError(f"the weight of {name!r} is {weight!r}; give a number from 0 up")
    total = sum(found.values())
    if not total > 0:
        raise ValueError("all weights are 0, so there is no overall; give one criterion a weight above 0")
    return {name: weight / total for name, weight in found.items()}


def shares_in(configuration: Mapping[str, Any]) -> dict[str, float]:
    """The share of each criterion of a run, from the configuration in its folder; {} in a run of one.

    >>> prompt = criteria_prompt({"wit": "funnier", "length": "shorter"})
    >>> shares_in({"identity": {"prompt": prompt.identity}, "weights": {"wit": 3.0}})
    {'wit': 0.75, 'length': 0.25}
    """
    match configuration["identity"]:
        case {"prompt": {"criteria": names}}:
            return shares(names, configuration.get("weights"))
    return {}
