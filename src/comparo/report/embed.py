"""Data inside the page: JSON that cannot end its script element, and texts cut so that the page stays small."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

MOST = 5_000_000  # bytes of a page
RESERVE = 600_000  # of these for the page around the data
LONGEST = 20_000  # characters of one text
_UNSAFE = "<>&\u2028\u2029"


def script_json(data: Any) -> str:
    r"""JSON for a script element: no character in it means anything to HTML or ends a line of a script.

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
    texts = [text[:LONGEST] for text in texts]
    low, high = 0, max(map(len, texts), default=0)
    if size(texts) <= room:
        return texts, LONGEST
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size([text[:middle] for text in texts]) <= room else (low, middle - 1)
    return [text[:low] for text in texts], low


def size(data: Any) -> int:
    """How many bytes data takes inside a page.

    >>> size(["é"])
    6
    """
    return len(script_json(data).encode())
