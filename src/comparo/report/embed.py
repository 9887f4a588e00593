"""What the page holds: JSON that cannot end its script element, texts cut to its size, numbers and names in words.

Names that say nothing by themselves, such as numbers, and the beginning of a text to show beside them.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from comparo.data.sanitize import without_login

LONGEST = 20_000  # characters of one text, and of one setting
_UNSAFE = "<>&\u2028\u2029"
LABEL = 120  # characters of an id or a context's name that are shown


def script_json(data: Any) -> str:
    r"""JSON for a script element: it holds no character that has a meaning in HTML or ends a line of a script.

    >>> script_json({"text": "</script>"})
    '{"text":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in _UNSAFE:
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def cut_texts(texts: Sequence[str], room: int) -> tuple[list[str], int]:
    """The beginning of each text so that all take at most `room` bytes as JSON, and how many characters are kept.

    A text that fits stays as it is; the length kept is the same for all that do not.

    >>> cut_texts(["short", "a long one"], 20)
    (['short', 'a long o'], 8)
    """
    high = _longest([min(len(text), LONGEST) for text in texts], room)
    texts = [text[:high] for text in texts]
    if size(texts) <= room:
        return texts, high
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size([text[:middle] for text in texts]) <= room else (low, middle - 1)
    return [text[:low] for text in texts], low


def _longest(lengths: Sequence[int], room: int) -> int:
    """An upper bound of the characters of each text that fit, as a character takes at least one byte."""
    ordered = np.sort(np.asarray(lengths, dtype=np.int64))
    if int(np.sum(ordered)) <= room or not len(ordered):
        return LONGEST
    before, left = np.cumsum(ordered) - ordered, len(ordered) - np.arange(len(ordered))
    shorter = int(np.searchsorted(before + left * ordered, max(room, 0)))  # number of texts that are not cut
    return int((max(room, 0) - before[shorter]) // left[shorter])


def size(data: Any) -> int:
    """How many bytes data takes inside a page."""
    return len(script_json(data).encode())


def presentable(value: Any) -> Any:
    """The content of a settings file as a page may show it.

    User names and passwords are removed from addresses, long texts are cut, and NaN and infinity become None.

    >>> presentable({"base_url": "https://ana:secret@example.org/v1", "price": [0.5, float("nan")]})
    {'base_url': 'https://example.org/v1', 'price': [0.5, None]}
    """
    if isinstance(value, str):
        whole = without_login(value.encode("utf-8", "replace").decode())
        return whole if len(whole) <= LONGEST else f"{whole[:LONGEST]}…"
    if isinstance(value, Mapping):
        return {presentable(str(name)): presentable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [presentable(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def label(name: object, most: int = LABEL) -> str:
    """An id or a context's name as it is shown; a long one by its beginning."""
    text = str(name)
    return text if len(text) <= most else text[:most] + "…"


def figure(value: float) -> str:
    """A probability or correlation in two digits, three where it is close to 1."""
    return "unknown" if math.isnan(value) else f"{value:.{3 if 0.99 <= value < 1 else 2}f}"


def signed(value: float) -> str:
    """A number with its sign, in two digits.

    >>> signed(-0.5), signed(-0.001)
    ('−0.50', '+0.00')
    """
    return "unknown" if math.isnan(value) else f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")


def percentages(parts: Sequence[float]) -> list[int]:
    """The shares of a whole in per cent, which add to 100: those with the largest fractions are rounded up.

    >>> percentages([1, 1, 1]), percentages([0.445, 0.445, 0.11])
    ([34, 33, 33], [45, 44, 11])
    """
    shares = 100 * np.asarray(parts, dtype=np.float64) / np.sum(parts)
    whole = np.floor(shares + 1e-9).astype(np.int64)
    most = np.argsort(whole - shares, kind="stable")
    whole[most[: 100 - int(np.sum(whole))]] += 1
    return [int(share) for share in whole]


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
