"""Names that say nothing by themselves, such as numbers, and the beginning of a text to show beside them."""

import re
from collections.abc import Sequence
from typing import Any

SNIPPET = 60  # characters of a text beside its name in a table: about a line of a telephone
ENDING = " ,;:."  # what a beginning does not end with
SAMPLE = 1000  # names that are looked at
_CODE = re.compile(r"[0-9a-f]{8,}", re.IGNORECASE)  # with a digit a hash, or a part of a UUID
_WORD = re.compile(r"[^\W\d_]{3,}|[^\W\d_a-zA-Z]")


def are_codes(names: Sequence[Any]) -> bool:
    """Whether most names say nothing to a reader: they hold no word of three letters, or only hashes.

    >>> are_codes([17, 4]), are_codes(["s17", "a"]), are_codes(["dm-8764fb95bfad8ee8"]), are_codes(["the fox", "羊"])
    (True, True, True, False)
    """
    some = list(map(str, names[:SAMPLE]))
    mute = sum(not all(map(str.isalpha, _CODE.findall(name))) or _WORD.search(name) is None for name in some)
    return 2 * mute > len(some)


def snippet(text: str | None, most: int = SNIPPET) -> str:
    """The beginning of a text in one line, cut between two words where it is long.

    >>> snippet("Once upon a time\\nthere was", 12)
    'Once upon a…'
    """
    line = " ".join((text or "")[: 4 * most].split())
    if len(line) <= most:
        return line
    begun = line[:most]
    kept = begun.rsplit(" ", 1)[0] if line[most] != " " and " " in begun else begun
    return f"{kept.rstrip(ENDING)}…"
