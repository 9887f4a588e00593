"""Values as the page shows them: safe JSON, texts cut to a size, numbers and names in words, coordinates of charts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from comparo.data.sanitize import without_login
from comparo.ranking.why import Found
from comparo.run.audit_card import Audit
from comparo.types import Array

LONGEST = 20_000  # characters of one text, and of one setting
LABEL = 120  # characters of an id or a context's name that are shown
SENTENCE = 1000  # characters of a question, a note or a step
SNIPPET = 60  # characters of a text beside its name in a table: about a line of a telephone
NAMED = 4  # judges that are named in a sentence
SAMPLE = 1000  # names that `are_codes` looks at
_CODE = re.compile(r"[0-9a-f]{8,}", re.IGNORECASE)  # if it has a digit, a hash or a part of a UUID
_WORD = re.compile(r"[^\W\d_]{3,}|[^\W\d_a-zA-Z]")

Chart = dict[str, Any]  # width and height of the picture, ticks of its axes x and y, and what is drawn

WIDTH, HEIGHT = 320.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 24.0, 10.0, 26.0  # room around the marks, for the numbers at the axes
DRAWN = 2000  # points of a scatter
LEAST_WIDTH = 0.05  # least share that the full width of a bar stands for
LEAST_REACH, MOST_REACH = 0.2, 4.0  # logits between the middle and the end of a probe's axis, at least and at most


def script_json(data: Any) -> str:
    r"""JSON for a script element: it holds no character that has a meaning in HTML or ends a line of a script.

    >>> script_json({"text": "</script>"})
    '{"text":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def size(data: Any) -> int:
    """The number of bytes of data inside a page."""
    return len(script_json(data).encode())


def common_length(texts: Sequence[str], room: int) -> int:
    """The number of characters to which texts are cut so that they take about `room` bytes as JSON, up to `LONGEST`.

    The bytes per character are the mean over the texts cut to `room` characters in all.

    >>> common_length(["short", "a long one"], 16), common_length(["short", "a long one"], 30)
    (5, 20000)
    """
    longest = _length(texts, room)
    begun = [text[:longest] for text in texts]
    wide = size(begun) / max(sum(map(len, begun)), 1)
    return _length(texts, int(room / wide))


def _length(texts: Sequence[str], room: int) -> int:
    """The largest length, up to `LONGEST`, to which texts can be cut so that they have `room` characters in all."""
    left, longest = max(room, 0), 0
    for place, characters in enumerate(sorted(map(len, texts))):
        longest = left // (len(texts) - place)
        if characters > longest:
            return min(longest, LONGEST)
        left -= characters
    return LONGEST


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
    """An id or a context's name, cut to `most` characters."""
    text = str(name)
    return text if len(text) <= most else text[:most] + "…"


def listed(names: Sequence[Any], most: int = NAMED) -> str:
    """Names in a sentence; of more than `most`, the first and the number of the others.

    >>> listed(["ana"]), listed(["ana", "bo"]), listed(["ana", "bo", "cy"], 1)
    ('ana', 'ana and bo', 'ana and 2 more')
    """
    shown = [label(name) for name in names[:most]]
    last = f"{len(names) - most:,} more" if len(names) > most else shown.pop()
    return f"{', '.join(shown)} and {last}" if shown else last


def figure(value: float) -> str:
    """A probability or correlation in two digits, three where it is close to 1."""
    return "unknown" if math.isnan(value) else f"{value:.{3 if 0.99 <= value < 1 else 2}f}"


def signed(value: float) -> str:
    """A number with its sign, in two digits.

    >>> signed(-0.5), signed(-0.001)
    ('−0.50', '+0.00')
    """
    return "unknown" if math.isnan(value) else f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")


def in_hundred(share: float) -> str:
    """A share as a count out of 100.

    >>> in_hundred(0.786), in_hundred(0.9987), in_hundred(0.0)
    ('79 of 100', 'almost all of 100', '0 of 100')
    """
    number = round(100 * share)
    return "almost all of 100" if number == 100 and share < 1 else f"{number} of 100"


def are_codes(names: Sequence[Any]) -> bool:
    """Whether most names are opaque: without a word of three letters, or with a hash.

    >>> are_codes([17, 4]), are_codes(["s17", "a"]), are_codes(["dm-8764fb95bfad8ee8"]), are_codes(["the fox", "羊"])
    (True, True, True, False)
    """
    some = list(map(str, names[:SAMPLE]))
    mute = 0
    for name in some:
        has_hash = not all(map(str.isalpha, _CODE.findall(name)))
        if has_hash or _WORD.search(name) is None:
            mute += 1
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
    return f"{kept.rstrip(' ,;:.')}…"


class Scale:
    """A linear map from numbers low…high to coordinates begin…end."""

    def __init__(self, low: float, high: float, begin: float, end: float) -> None:
        self.low, self.high, self.begin, self.end = low, high if high > low else low + 1.0, begin, end

    def __call__(self, value: float) -> float:
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self, about: int) -> list[tuple[float, str]]:
        """Round numbers within the scale, approximately `about` of them, each after its coordinate."""
        raw = (self.high - self.low) / about
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= raw * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        digits = max(0, -math.floor(math.log10(step) + 1e-9)) + (step / unit == 2.5 and step < 2.5)
        return [
            (self(number * step), f"{number * step:,.{digits}f}".replace("-", "−")) for number in range(first, last + 1)
        ]


def scatter_chart(x: Array, y: Array) -> Chart:
    """At most `DRAWN` points, drawn at random, each a stroke of length 0 in one path.

    >>> scatter_chart(np.array([0.0, 1.0]), np.array([0.0, 1.0]))["points"]
    'M52.2 226.7h0M287.8 17.3h0'
    """
    drawn = np.random.default_rng(0).permutation(len(x))[:DRAWN]
    x, y = x[drawn], y[drawn]
    across, up = (
        Scale(float(np.min(values) - 0.035 * np.ptp(values)), float(np.max(values) + 0.035 * np.ptp(values)), *ends)
        for values, ends in ((x, (LEFT, WIDTH - RIGHT)), (y, (HEIGHT - BOTTOM, TOP)))
    )
    points = "".join(f"M{across(a):.1f} {up(b):.1f}h0" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    return {"width": WIDTH, "height": HEIGHT, "x": across.ticks(4), "y": up.ticks(4), "points": points}


def reason_reach(reasons: Sequence[Found]) -> float:
    """The share that the full width of a reason's bar stands for: the largest end of an interval."""
    return max([LEAST_WIDTH, *(one.share_high for each in reasons for one in (each.alone, each.beyond))])


def probe_reach(found: Audit) -> float:
    """The logits between the middle and the end of a probe's axis: the largest effect or end of an interval."""
    every = (end for card in found.cards for one in card.findings for end in (one.low, one.effect, one.high))
    return min(max([LEAST_REACH, *(abs(end) for end in every if not math.isnan(end))]), MOST_REACH)
