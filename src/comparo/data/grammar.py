"""How the values of options are read and checked, whether they come from Python or as texts.

A text may have settings behind it, 'openai/m; effort=low, price=0.15,0.60': NAME=VALUE with commas between; a comma
that no NAME= follows belongs to the value. Other values are read by functions that take the name of the option, and
raise a ValueError with it.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from numbers import Real
from typing import Any, Literal, get_args

from comparo.data.lineups import LARGEST_LINEUP
from comparo.data.wordings import few
from comparo.errors import OptionError

AUTO: Literal["auto"] = "auto"  # the number of texts that a pilot chooses


def read_settings(text: str, *known: str, sign: str = "=") -> Iterator[tuple[str, str]]:
    """The names and values in NAME=VALUE, NAME=VALUE; where names are `known`, there are no others.

    With another `sign` than "=", every comma separates.

    >>> list(read_settings("effort=low, base=x; price=0.15,0.60"))
    [('effort', 'low'), ('base', 'x'), ('price', '0.15,0.60')]
    >>> list(read_settings("A+>=85, A>=70", sign=">="))
    [('A+', '85'), ('A', '70')]
    """
    for part in re.split(r";|,(?=\s*[\w-]+\s*=)" if sign == "=" else "[;,]", text):
        name, _, value = (each.strip() for each in part.partition(sign))
        if not name or sign not in part:
            raise ValueError(f"{part.strip()!r} is not NAME{sign}VALUE, in {text.strip()!r}")
        if known and (name := name.replace("-", "_")) not in known:
            raise ValueError(f"{text.strip()!r} sets {name!r}, which is none of {few(known, like=name)}")
        yield name, value


def with_settings(text: str, *known: str) -> tuple[str, dict[str, str]]:
    """Split a text from the settings behind it, which begin at a semicolon.

    >>> with_settings("openai/m; effort=low"), with_settings("Summary; heading=Article", "heading")
    (('openai/m', {'effort': 'low'}), ('Summary', {'heading': 'Article'}))
    """
    head, *rest = re.split(r";(?=\s*[\w-]+\s*=)" if known else ";", text, maxsplit=1)
    return head.strip(), dict(read_settings(rest[0], *known)) if rest and rest[0].strip() else {}


def check_one(name: str, given: object, known: Iterable[str]) -> None:
    """Raise an OptionError where a value is none of those that are known."""
    if given not in (known := tuple(known)):
        raise OptionError(name, given, f"is none of {', '.join(known)}")


def one_of(kind: Any) -> Callable[[str, Any], Any]:
    """Read one of the values of a Literal, or None."""

    def read(name: str, given: Any) -> Any:
        if given is not None:
            check_one(name, given, get_args(kind))
        return given

    return read


def read_until(name: str, given: Any) -> Any:
    """Read a probability; None is none."""
    if given is not None and not (isinstance(given, Real) and 0 < float(given) < 1):
        raise OptionError(name, given, "is not between 0 and 1; 0.95 is a usual choice")
    return given


def read_share(name: str, given: Any) -> Any:
    """Read a share from 0 to below 1."""
    if not (isinstance(given, Real) and 0 <= float(given) < 1):
        raise OptionError(name, given, "is not a share of 1; 0.5 is the usual one")
    return given


def read_seed(name: str, given: Any) -> Any:
    """Read a whole number from 0 up."""
    if not isinstance(given, int) or given < 0:
        raise OptionError(name, given, "is not a whole number from 0 up")
    return given


def read_lineup(name: str, given: Any) -> Any:
    """Read a number of texts or "auto".

    >>> read_lineup("lineup", "4")
    4
    """
    found = int(given) if str(given).isdecimal() else given
    if found != AUTO and not (isinstance(found, int) and 2 <= found <= LARGEST_LINEUP):
        raise OptionError(name, given, f"is not a number of texts from 2 to {LARGEST_LINEUP} or 'auto'")
    return found


def read_lineups(name: str, given: Any) -> tuple[int, ...]:
    """Read different numbers of texts.

    >>> read_lineups("lineup", 2), read_lineups("lineup", ["2", 4])
    ((2,), (2, 4))
    """
    sizes = tuple(read_lineup(name, size) for size in (given if isinstance(given, list | tuple) else [given]))
    if AUTO in sizes:
        raise OptionError(name, given, f"is not a number of texts from 2 to {LARGEST_LINEUP}, or several")
    if len({*sizes}) < len(sizes):
        raise OptionError(name, ", ".join(map(str, sizes)), "has one of them twice; give each once")
    return sizes


def read_texts(_: str, given: Any) -> tuple[str, ...]:
    """Read a text, several, or None.

    >>> read_texts("control", "length"), read_texts("control", None)
    (('length',), ())
    """
    return (given,) if isinstance(given, str) else tuple(given or ())
