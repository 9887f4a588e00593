"""Numbers and names as the page writes them."""

import math
from collections.abc import Sequence

import numpy as np

LABEL = 120  # characters of an id or a context's name that are shown


def label(name: object, most: int = LABEL) -> str:
    """An id or a context's name as it is shown; a long one by its beginning."""
    text = str(name)
    return text if len(text) <= most else text[:most] + "…"


def figure(value: float) -> str:
    """A probability or correlation in two digits, three where it is close to 1.

    >>> figure(0.5), figure(0.996)
    ('0.50', '0.996')
    """
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
