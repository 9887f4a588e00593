"""Format sums of money."""

from __future__ import annotations

import math


def dollars(amount: float) -> str:
    """A sum in dollars and cents; below one cent with two significant digits, so that no cost is shown as zero.

    >>> dollars(12.5), dollars(0.00042), dollars(0.0), dollars(1234.5)
    ('$12.50', '$0.00042', '$0', '$1,234.50')
    """
    if math.isnan(amount):
        return "unknown"
    if amount == 0:
        return "$0"
    rounded = float(f"{amount:.2g}")
    if not 0 < rounded < 0.01:
        return f"${amount:,.2f}"
    return f"${rounded:.{1 - math.floor(math.log10(rounded))}f}"
