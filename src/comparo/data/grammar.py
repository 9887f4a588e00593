"""What options are, and how their values are read and checked, whether they come from Python or as texts.

The options themselves are groups in `comparo.options`.

A text may have settings behind it, 'openai/m; effort=low, price=0.15,0.60': NAME=VALUE with commas between; a comma
that no NAME= follows belongs to the value. Other values are read by functions that take the name of the option, and
raise an OptionError with it.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Signature, signature
from numbers import Real
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, get_args

from comparo.data.lineups import LARGEST_LINEUP
from comparo.data.wordings import few
from comparo.errors import OptionError

P = ParamSpec("P")
T = TypeVar("T")
Result = TypeVar("Result")
Estimand = Literal["auto", "judge", "consensus"]
AUTO: Literal["auto"] = "auto"  # the number of texts that a pilot chooses


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options that belong together.

    The metadata of a field: what `read` makes of its name and a given value, or a ValueError; `choices` of a text; and
    `identity`, where it must stay the same to continue a run.
    """

    def __post_init__(self) -> None:
        for each in fields(self):
            if read := each.metadata.get("read"):
                object.__setattr__(self, each.name, read(each.name, getattr(self, each.name)))


def part(given: object, group: type[Options]) -> dict[str, Any]:
    """The values of those options of a group that `given` has, by their names.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Share(Options):
    ...     share: float = 0.5
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Many(Share):
    ...     seed: int = 0
    >>> part(Many(share=0.25), Share)
    {'share': 0.25}
    """
    return {each.name: getattr(given, each.name) for each in fields(group) if hasattr(given, each.name)}


def accepts(
    options: Callable[P, T],
) -> Callable[[Callable[[Any, T], Result]], Callable[Concatenate[Any, P], Result]]:
    """Give a function of data and a group of options a parameter for each option.

    >>> @dataclass(frozen=True, kw_only=True)
    ... class Share(Options):
    ...     share: float = 0.5
    >>> @accepts(Share)
    ... def some(data: float, options: Share) -> float:
    ...     return data * options.share
    >>> some(8), some(8, share=0.25), list(signature(some).parameters)
    (4.0, 2.0, ['data', 'share'])
    """
    known = signature(options).parameters

    def decorate(function: Callable[[Any, T], Result]) -> Callable[Concatenate[Any, P], Result]:
        @wraps(function)
        def call(data: Any, *args: P.args, **given: P.kwargs) -> Result:
            if unknown := [name for name in given if name not in known]:
                there = few(known, like=unknown[0])
                raise TypeError(f"{function.__name__} has no parameter {unknown[0]!r}; it has {there}")
            return function(data, options(*args, **given))

        first, *_ = (one for one in signature(function).parameters.values())
        call.__signature__ = Signature([first, *known.values()])  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]  # `data` may be named, too

    return decorate


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


def read_margin(name: str, given: Any) -> Any:
    """Read a win rate below a half; None is none."""
    if given is not None and not (isinstance(given, Real) and 0 < float(given) < 0.5):
        raise OptionError(name, given, "is not a win rate between 0 and 0.5; 0.45 is a usual choice")
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


def read_estimate(name: str, given: Any) -> Any:
    """Read "auto", "judge", "consensus", or the validity of a consensus.

    >>> read_estimate("estimate", "0.5")
    0.5
    """
    names = get_args(Estimand)
    try:
        return given if given in names else float(given)
    except (TypeError, ValueError):
        shown = ", ".join(names)
        raise OptionError(name, given, f"is none of {shown}, and no share from 0 to 1") from None
