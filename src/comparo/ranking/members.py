"""The voices of a panel as a table, as notes for a reader, and the scores that each gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.model.panel import Panel
from comparo.ranking.indecision import panel_ties

BLIND = 0.2  # agreement with the consensus below which a voice tells next to nothing of it: 4% of a view


def member_columns(panel: Panel, level: float) -> dict[str, NDArray[Any]]:
    """The table of `Ranking.voices`; intervals of the agreement have the coverage `level`."""
    low, high = panel.interval(level)
    names = np.array([str(name) for name in panel.names], dtype=object)
    lead = np.array([int(np.argmax(panel.family == family)) for family in panel.family])
    copied = lead != np.arange(len(lead))
    tie = panel_ties(panel)
    return {
        "judge": names,
        "calls": panel.calls,
        "agreement": panel.loading,
        "low": low,
        "high": high,
        "scale": panel.scale,
        "taste": panel.taste,
        "noise": np.sqrt([voice.noise for voice in panel.voices]),
        "gamma": np.mean(panel.bias, axis=0),
        "gamma_error": np.array([voice.bias_error for voice in panel.voices]),
        **({"tie": tie} if tie.any() else {}),
        "copy_of": np.where(copied, names[lead], ""),
    }


def view_columns(panel: Panel) -> dict[str, NDArray[Any]]:
    """The scores of each voice alone, (n,), by its name."""
    return {str(name): voice.scores for name, voice in zip(panel.names, panel.voices, strict=True)}


def member_notes(panel: Panel, for_people: bool) -> tuple[str, ...]:
    """Return a sentence for voices that are copies, for each that is reversed, and for those that tell next to nothing.

    Where the ranking is what people would say (`for_people`), also for those that do not count for it.
    """
    columns = member_columns(panel, 0.95)
    found = []
    copied = columns["copy_of"] != ""
    if copied.any():
        pairs = [
            f"'{judge}' and '{of}'"
            for judge, of in zip(columns["judge"][copied], columns["copy_of"][copied], strict=True)
        ]
        found.append(f"the views of these judges cannot be told apart: {', '.join(pairs)}; they count as one opinion")
    for r in np.flatnonzero(panel.reversed).tolist():
        rho, low, high = (f"{columns[name][r]:.2f}" for name in ("agreement", "low", "high"))
        found.append(
            f"'{columns['judge'][r]}' ranks against the others (agreement {rho}, 95% interval {low} to {high}); its "
            "answers are sign-flipped"
        )
    blind = ~panel.reversed & (columns["agreement"] < BLIND) & (columns["low"] < 0)
    if names := _named(columns, blind, "tell"):
        found.append(f"{names} next to nothing of what the others agree on")
    if for_people and (names := _named(columns, ~panel.counts, "say")):
        found.append(f"{names} too little about the texts to count for what people would say (less than ⅔ of the best)")
    return tuple(found)


def _named(columns: dict[str, NDArray[Any]], which: NDArray[np.bool_], verb: str) -> str:
    names = [f"'{name}'" for name in columns["judge"][which].tolist()]
    return f"{', '.join(names)} {verb}{'s' if len(names) == 1 else ''}" if names else ""
