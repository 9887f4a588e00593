"""Compare the identities of two runs: the settings that must stay the same to continue a run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe every difference between two identities; nested settings are named individually.

    >>> differences({"judge": "a", "seed": 0}, {"judge": "b", "seed": 0})
    ["judge was 'a' and is 'b'"]
    """
    found: list[str] = []
    for name in dict.fromkeys([*before, *now]):
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += [f"{name}: {difference}" for difference in differences(old, new)]
        elif old != new:
            was, now_is = _excerpts(repr(old), repr(new))
            found.append(f"{name} was {was} and is {now_is}")
    return found


def _excerpts(old: str, new: str, around: int = 30, most: int = 80) -> tuple[str, str]:
    """Two texts; long ones are shortened to an excerpt around their first difference.

    >>> _excerpts("'" + "x" * 200 + "more coherent'", "'" + "x" * 200 + "more fluent'", around=5)
    ("…more coherent'", "…more fluent'")
    """
    if max(len(old), len(new)) <= most:
        return old, new
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    begin, end = max(0, same - around), max(0, same - around) + most
    was, now = (f"{'…' if begin else ''}{text[begin:end]}{'…' if end < len(text) else ''}" for text in (old, new))
    return was, now
