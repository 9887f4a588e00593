"""A ranking as a notebook shows it: the table with each interval as a bar."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHOWN = 100  # rows


def table_html(table: Mapping[str, NDArray[Any]], level: float, notes: Sequence[str]) -> str:
    """The first rows of a ranking's columns as an HTML table, and its notes; every label is escaped.

    >>> table = {"item": np.array(["<a>"]), "low": np.array([0.1]), "high": np.array([0.3])}
    >>> "<td>&lt;a&gt;</td><td>0.100</td>" in table_html(table, 0.95, ())
    True
    """
    columns = {name: column[:SHOWN].tolist() for name, column in table.items()}
    bars = _bars(columns["low"], columns["high"])
    head = "".join(f"<th>{name}</th>" for name in columns) + f"<th>{100 * level:g}% interval</th>"
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_shown(value))}</td>" for value in row) + f"<td>{bar}</td></tr>"
        for *row, bar in zip(*columns.values(), bars, strict=True)
    )
    said = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    hidden = len(table["item"]) - SHOWN
    more = f"<p>{hidden} more</p>" if hidden > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}{said}"


def _shown(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _bars(low: list[float], high: list[float]) -> list[str]:
    """Each interval as a bar in the colour of the text, all on one scale; nothing where the interval is not known."""
    known = [(begin, end) for begin, end in zip(low, high, strict=True) if np.isfinite(end - begin)]
    least = min((begin for begin, _ in known), default=0.0)
    span = max((end for _, end in known), default=0.0) - least or 1.0
    style = "height:.5em;min-width:2px;border-radius:.25em;background:currentColor;opacity:.6"
    bars = []
    for begin, end in zip(low, high, strict=True):
        place = f"margin-left:{100 * (begin - least) / span:.1f}%;width:{100 * (end - begin) / span:.1f}%"
        bar = f'<div style="{place};{style}"></div>' if np.isfinite(end - begin) else ""
        bars.append(f'<div style="width:10em" aria-hidden="true">{bar}</div>')
    return bars
