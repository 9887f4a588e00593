"""What all plots share: colours, the size of a figure, axes, and checks of arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which colour-blind readers can distinguish; lines also differ in style, for print in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
BLUE, VERMILION, GREEN = COLOURS[:3]
STYLES = ("-", "--", "-.", ":")
TIERS = (BLUE, VERMILION)  # of tiers, alternating
COLUMN = 3.4  # inches


def axes(ax: Axes | None, height: float = 2.6) -> Axes:
    """`ax`, or the axes of a new figure one column wide, without the frame's upper and right sides."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "comparo[plots]"') from error
    if ax is None:
        _, ax = pyplot.subplots(figsize=(COLUMN, height), layout="constrained")
        ax.tick_params(labelsize=8)
        for axis in (ax.xaxis, ax.yaxis):
            axis.label.set_fontsize(9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def whole(name: str, value: int) -> None:
    """Raise a ValueError unless a value is a whole number from 2 on."""
    if not isinstance(value, int) or value < 2:
        raise ValueError(f"{name} is a whole number from 2 on, not {value!r}")


def counted(number: int, name: str) -> str:
    """A number with its noun, in the plural where it must be."""
    return f"{number:,} {name}" + "s" * (number != 1)
