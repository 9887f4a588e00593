"""A card of the page: a figure with a verdict, and a sentence that says what it means and what to do."""

from dataclasses import dataclass

import comparo.report.bounds as bounds


@dataclass(frozen=True, slots=True)
class Sign:
    """One card: a figure to know before trusting the ranking; `plain` where it is neither good nor bad.

    The sentence is for everybody. `detail` is for specialists and is folded, as is `source`, which says where the
    bounds of the verdict come from. A card that is not `main` is among those for specialists.
    """

    name: str
    figure: str
    verdict: bounds.Verdict
    sentence: str
    source: str = ""
    detail: str = ""
    main: bool = True


def graded(name: str, text: str, bound: bounds.Bound, value: float, sentence: str, detail: str = "") -> Sign:
    """A card whose verdict is that of a bound on `value`."""
    return Sign(name, text, bound.verdict(value), sentence, bound.source, detail)


def in_hundred(share: float) -> str:
    """A share as so many of 100.

    >>> in_hundred(0.786), in_hundred(0.9987), in_hundred(0.0)
    ('79 of 100', 'almost all of 100', '0 of 100')
    """
    number = round(100 * share)
    if number == 100 and share < 1:
        return "almost all of 100"
    return f"{number} of 100"
