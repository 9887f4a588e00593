"""What a model's tokens cost, in USD per million tokens read and written.

The table holds OpenAI's list prices of November 2026 for standard processing, without discounts for cached prompts or
batches. Prices change: the user gives those that are missing or out of date.
"""

import math
import re

Price = tuple[float, float]

PRICES: dict[str, Price] = {
    "gpt-5.4": (2.50, 15.00),
    "gpt-5.4-mini": (0.75, 4.50),
    "gpt-5.2": (1.75, 14.00),
    "gpt-5.1": (1.25, 10.00),
    "gpt-5": (1.25, 10.00),
    "gpt-5-mini": (0.25, 2.00),
    "gpt-5-nano": (0.05, 0.40),
    "gpt-4.1": (2.00, 8.00),
    "gpt-4.1-mini": (0.40, 1.60),
    "gpt-4.1-nano": (0.10, 0.40),
    "gpt-4o": (2.50, 10.00),
    "gpt-4o-2024-05-13": (5.00, 15.00),
    "gpt-4o-mini": (0.15, 0.60),
    "gpt-4-turbo": (10.00, 30.00),
    "gpt-4-0125-preview": (10.00, 30.00),
    "gpt-4-1106-preview": (10.00, 30.00),
    "gpt-4": (30.00, 60.00),
    "gpt-3.5-turbo": (0.50, 1.50),
    "gpt-3.5-turbo-instruct": (1.50, 2.00),
    "davinci-002": (2.00, 2.00),
    "babbage-002": (0.40, 0.40),
    "o1": (15.00, 60.00),
    "o3": (2.00, 8.00),
    "o3-mini": (1.10, 4.40),
    "o4-mini": (1.10, 4.40),
}


def find_price(model: str) -> Price | None:
    """The price of a model, of a dated version by the model's name; None where the table has none.

    >>> find_price("gpt-4o-mini-2024-07-18")
    (0.15, 0.6)
    >>> find_price("gpt-4o-realtime")
    """
    fitting = [name for name in PRICES if re.fullmatch(re.escape(name) + r"(-\d[\d-]*)?", model)]
    return PRICES[max(fitting, key=len)] if fitting else None


def read_price(value: object) -> Price:
    """A price as a user gives it: two numbers, or a text such as "0.15,0.60"; "0,0" for a server that is free.

    >>> read_price("0.15,0.60"), read_price("0,0")
    ((0.15, 0.6), (0.0, 0.0))
    >>> read_price("cheap")
    Traceback (most recent call last):
    ValueError: price = 'cheap' is not two numbers, USD per million tokens read and written, such as 0.15,0.60
    """
    parts = value.split(",") if isinstance(value, str) else value
    try:
        read, written = (float(part) for part in parts)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        read = written = math.nan
    if not (0 <= read < math.inf and 0 <= written < math.inf):
        raise ValueError(
            f"price = {value!r} is not two numbers, USD per million tokens read and written, such as 0.15,0.60"
        )
    return read, written


def cost(price: Price | None, tokens_in: int, tokens_out: int) -> float:
    """What the tokens cost in USD; nan where the price is unknown, or a paid model's tokens were not counted.

    >>> cost((0.15, 0.60), 1000, 2), cost((0.15, 0.60), 0, 0), cost((0.0, 0.0), 0, 0)
    (0.0001512, nan, 0.0)
    """
    if price == (0, 0):
        return 0.0
    if price is None or not (tokens_in or tokens_out):
        return math.nan
    return (tokens_in * price[0] + tokens_out * price[1]) / 1e6
