"""The tokens of a call and their cost, by a dated table of list prices or by the user's price.

    cost = (read − cached − stored)·price.read + cached·price.cached + stored·price.stored + written·price.written

in USD per million tokens. `read` counts all tokens of the prompt, `cached` those read from the server's cache, `stored`
those written to it. Tokens of reasoning are among the written ones.

`python -m benchmarks.price_table` makes the table `prices.json` from the package genai-prices. The date of the table is
the latest day on which that package says that it checked a price. Prices are for standard processing of prompts below
the limit (272,000 tokens for OpenAI) above which some models cost more. Nothing is downloaded.
"""

from __future__ import annotations

import json
import math
import operator
import re
from dataclasses import astuple, dataclass, replace
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, Self

TABLE = "prices.json"
TOKENS = 10**9  # a larger count is an error of the server: no model reads as many


class Price(NamedTuple):
    """USD per million tokens read, written, read from the server's cache and stored there; None: as `read`.

    `day` is the date of the table of list prices, None for the user's price. `share` is the ratio to the ordinary
    price: a batch costs less.

    >>> Price(0.10, 0.50, cached=0.01, day="2026-10-26").sentence(date(2026, 11, 16))
    '$0.1 read, $0.5 written, $0.01 cached for a million tokens, list prices of 2026-10-26, 21 days old'
    """

    read: float
    written: float
    cached: float | None = None
    stored: float | None = None
    day: str | None = None
    share: float = 1.0

    def times(self, share: float) -> Self:
        """The price of a batch: `share` times this price.

        >>> price = Price(1.0, 2.0, cached=0.1).times(0.5)
        >>> price[:3], price.source()
        ((0.5, 1.0, 0.05), 'as given, 50% of that for a batch')
        """
        cached, stored = (None if rate is None else share * rate for rate in (self.cached, self.stored))
        return type(self)(share * self.read, share * self.written, cached, stored, self.day, share * self.share)

    def sentence(self, today: date | None = None) -> str:
        """The price in words, and how old it is."""
        known = {"read": self.read, "written": self.written, "cached": self.cached}
        amounts = ", ".join(f"${amount:g} {name}" for name, amount in known.items() if amount is not None)
        return f"{amounts} for a million tokens, {self.source(today)}"

    def source(self, today: date | None = None) -> str:
        """Where the price is from.

        >>> Price(1.0, 2.0).source()
        'as given'
        """
        part = "" if self.share == 1 else f", {self.share:.0%} of that for a batch"
        if self.day is None:
            return f"as given{part}"
        days = ((today or date.today()) - date.fromisoformat(self.day)).days
        return f"list prices of {self.day}, {days} day{'' if days == 1 else 's'} old{part}"


def find_price(model: str, base_url: str = "", provider: str = "openai") -> Price | None:
    """The list price of a model, or of the model of a dated version; None if the table has none.

    If the table knows the server at `base_url`, the price is that server's, else that of `provider`.

    >>> find_price("gpt-6-luna-2026-09-22")[:3], find_price("gpt-6-luna-realtime")
    ((0.1, 0.5, 0.01), None)
    """
    providers = _table()["providers"]
    known = [name for name, entry in providers.items() if base_url and re.match(entry["address"], base_url)]
    found = providers.get(known[0] if known else provider, {"models": {}})
    fitting = [name for name in found["models"] if re.fullmatch(re.escape(name) + r"(-latest|-\d[\d-]*)?", model)]
    if not fitting:
        return None
    read, written, *cache = found["models"][max(fitting, key=len)]
    cached, stored = [*cache, None, None][:2]
    return Price(read, written, cached, stored, _table()["date"])


def read_price(value: object) -> Price:
    """Read a user's price: two or three numbers, or a text such as "0.15,0.60"; "0,0" for a free server.

    >>> read_price("0.15,0.60")[:3], read_price("0.15,0.60,0.015").cached
    ((0.15, 0.6, None), 0.015)
    >>> read_price("cheap")
    Traceback (most recent call last):
    ValueError: price = 'cheap' is not two numbers, USD per million tokens read and written, such as 0.15,0.60 (a third
    is for cached tokens)
    """
    parts = value.split(",") if isinstance(value, str) else value
    try:
        read, written, *rest = (float(part) for part in parts)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        read = written = math.nan
        rest = []
    if len(rest) > 1 or not all(0 <= amount < math.inf for amount in (read, written, *rest)):
        meant = "USD per million tokens read and written, such as 0.15,0.60 (a third is for cached tokens)"
        raise ValueError(f"price = {value!r} is not two numbers, {meant}")
    return Price(read, written, cached=rest[0] if rest else None)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more answers; `counted` is False if the server did not state all of them.

    `tokens_in` includes those read from the server's cache (`cached`, at a lower price) and those written to it
    (`stored`, at a higher one); `tokens_out` includes those of reasoning.

    >>> Usage(90, 40, reasoning=32) + Usage(90, 40, reasoning=32)
    Usage(tokens_in=180, tokens_out=80, cached=0, stored=0, reasoning=64, counted=True)
    """

    tokens_in: int = 0
    tokens_out: int = 0
    cached: int = 0
    stored: int = 0
    reasoning: int = 0
    counted: bool = True

    def __add__(self, other: Usage) -> Usage:
        sums = map(operator.add, astuple(self)[:-1], astuple(other)[:-1])
        return replace(Usage(*sums), counted=self.counted and other.counted)

    def cost(self, price: Price | None) -> float:
        """The cost of the tokens in USD; nan if the price or a count is unknown, or a paid model's tokens are all 0.

        >>> price = Price(0.15, 0.60, cached=0.015)
        >>> Usage(1000, 2).cost(price), Usage(1000, 2, cached=800).cost(price), Usage().cost(price)
        (0.0001512, 4.32e-05, nan)
        >>> Usage(counted=False).cost(Price(0.0, 0.0))
        0.0
        """
        if price is not None and not any(price[:2]):
            return 0.0
        if price is None or not self.counted or not (self.tokens_in or self.tokens_out):
            return math.nan
        cached, stored = (price.read if rate is None else rate for rate in (price.cached, price.stored))
        plain = (self.tokens_in - self.cached - self.stored) * price.read + self.tokens_out * price.written
        return (plain + self.cached * cached + self.stored * stored) / 1e6


def count(counts: Any, name: str, most: float = TOKENS) -> int | None:
    """Read a count from a server's answer; None if it is missing, or not a whole number from 0 to `most`.

    >>> count({"tokens": 12.0}, "tokens"), count({"tokens": -1}, "tokens"), count(None, "tokens")
    (12, None, None)
    """
    value = counts.get(name) if isinstance(counts, dict) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None


@cache
def _table() -> dict[str, Any]:
    return dict(json.loads(files("comparo.judges").joinpath(TABLE).read_text(encoding="utf-8")))
