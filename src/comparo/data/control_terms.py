"""Control terms of a ranking: covariates of the texts, and priors of their coefficients.

A term names a column of numbers, or a number computed from the text: "length", "markup" or "opening". With a prior,
β ~ N(mean, std²) in logits per unit, it is written "length=0.31±0.12"; an audit gives such terms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from comparo.types import Array

_TERM = re.compile(r"(.+)=([+-]?[\d.]+(?:e[+-]?\d+)?)±([\d.]+(?:e[+-]?\d+)?)")
_MARKUP = re.compile(r"^\s{0,3}(?:#{1,6}\s|[-*+]\s|\d+[.)]\s|>|```)|\*\*|__", re.MULTILINE)
_CONFIDENT = re.compile(r"\b(?:certain(?:ly)?|definite(?:ly)?|undoubtedly|doubt|clearly|absolutely|of course)\b", re.I)
_APOLOGETIC = re.compile(r"\b(?:sorry|apolog\w+|unfortunately|afraid|not sure|unsure|may be wrong|as an ai)\b", re.I)
OPENING = 120  # characters of a text that are its opening


def markup(text: str) -> float:
    """log₂(1 + number of Markdown marks): headings, bullets, numbered points, quotes, code and bold.

    >>> markup("Plain."), markup("## Title\\n- one\\n- two")
    (0.0, 2.0)
    """
    return math.log2(1 + len(_MARKUP.findall(text)))


def opening(text: str) -> float:
    """1 where an English text opens with confidence, −1 where it opens with an apology or doubt, else 0.

    >>> opening("This is certainly so."), opening("I am sorry, I am not sure."), opening("A story.")
    (1.0, -1.0, 0.0)
    """
    begin = text[:OPENING]
    if _APOLOGETIC.search(begin):
        return -1.0
    return float(_CONFIDENT.search(begin) is not None)


# "length" keeps the text: `comparo.ranking.grouping.control_of` takes log₂ of its characters.
COMPUTED: Mapping[str, Callable[[str], Any]] = {"length": str, "markup": markup, "opening": opening}


def number_of(name: str, text: str) -> float:
    """The covariate of a text by the name of a computed term."""
    return math.log2(max(len(text), 1)) if name == "length" else float(COMPUTED[name](text))


@dataclass(frozen=True)
class Term:
    """A covariate, and the prior of its coefficient; an infinite `std` means no prior.

    >>> Term.of("length=0.31±0.12"), str(Term.of("price"))
    (Term(name='length', mean=0.31, std=0.12), 'price')
    """

    name: str
    mean: float = 0.0
    std: float = math.inf

    @classmethod
    def of(cls, text: str) -> Term:
        """Parse a term; a ValueError unless the `std` of its prior is above 0."""
        match = _TERM.fullmatch(text)
        if match is None:
            return cls(text)
        name, mean, std = match[1], float(match[2]), float(match[3])
        if not std > 0:
            raise ValueError(f"control={text!r}: the prior of {name} has no width; give one above 0")
        return cls(name, mean, std)

    def __str__(self) -> str:
        return self.name if math.isinf(self.std) else f"{self.name}={self.mean:.6g}±{self.std:.6g}"


class Numbers(dict[Any, Any]):
    """The covariate of each item by its label (a text for "length"), with the `prior` of the coefficient."""

    prior: tuple[float, float] = 0.0, math.inf


def columns_in(control: Iterable[str]) -> list[str]:
    """The names of the terms that are columns of a file.

    >>> columns_in(["length", "price=2±1"])
    ['price']
    """
    return [name for name in (Term.of(text).name for text in control) if name not in COMPUTED]


def combined(effects: Array, errors: Array, steps: Array) -> tuple[float, float]:
    """β and its standard error from `effects` δ = β·step with standard `errors`, all (m,), by least squares.

    Where √(χ²/(m − 1)) is above 1, because the effects disagree, the standard error is multiplied by it.

    >>> import numpy as np
    >>> round(combined(np.array([0.5, 1.0]), np.array([0.1, 0.1]), np.array([1.0, 2.0]))[0], 6)
    0.5
    """
    information = float(((steps / errors) ** 2).sum())
    beta = float((effects * steps / errors**2).sum()) / information
    apart = float((((effects - beta * steps) / errors) ** 2).sum()) / max(len(effects) - 1, 1)
    return beta, math.sqrt(max(apart, 1.0) / information)
