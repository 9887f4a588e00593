"""What a judge gives for length, or another number of a text that is held equal: a table, and sentences about it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from comparo.data.comparisons import Comparisons
from comparo.model.control import Held
from comparo.model.panel import Panel
from comparo.model.product import Product
from comparo.ranking.indecision import named
from comparo.ranking.traits import DOUBLING

Columns = dict[str, NDArray[Any]]


def held_of(comparisons: Comparisons, product: Product | None, panel: Panel | None) -> list[tuple[str, Held]]:
    """The coefficients of each judge, by its name; empty where nothing is held equal."""
    if panel is not None:
        every = zip(panel.names, panel.voices, strict=True)
        return [(str(name), voice.held) for name, voice in every if voice.held is not None]
    if product is None or product.held is None:
        return []
    judges = comparisons.judges
    return [("judge" if judges is None or len(judges) > 1 else str(judges[0]), product.held)]


def control_columns(found: list[tuple[str, Held]], level: float) -> Columns:
    """The table of `Ranking.control`: a row per judge and number that is held equal."""
    rows = [
        (judge, name, unit, float(beta), float(error))
        for judge, held in found
        for name, unit, beta, error in zip(held.names, held.unit, held.coefficient, held.std, strict=True)
    ]
    judge, column, unit, beta, error = (list(part) for part in zip(*rows, strict=True))
    reach = -float(ndtri((1.0 - level) / 2)) * np.array(error)
    return {
        "judge": np.array(judge, dtype=object),
        "column": np.array(column, dtype=object),
        "step": np.array(unit, dtype=object),
        "coefficient": np.array(beta),
        "std": np.array(error),
        "low": np.array(beta) - reach,
        "high": np.array(beta) + reach,
    }


def control_name(table: Columns) -> str:
    """What is held equal, as the names of columns have it, from the table of `Ranking.control`.

    >>> held = Held(("length", "price"), ("twice", "3"), np.zeros(2), np.eye(2))
    >>> control_name(control_columns([("judge", held)], 0.95))
    'equal_length_price'
    """
    return "_".join(["equal", *dict.fromkeys(table["column"].tolist())])


def control_sentences(table: Columns | None) -> list[str]:
    """A sentence per row of `Ranking.control`.

    >>> held = Held(("length",), ("twice",), np.array([0.4]), np.array([[0.01]]))
    >>> control_sentences(control_columns([("ana", held)], 0.95))
    ["'ana' prefers longer texts: twice the length is worth 0.40 logits (0.20 to 0.60)"]
    """
    if table is None:
        return []
    found = []
    for judge, column, step, beta, _, low, high in zip(*(part.tolist() for part in table.values()), strict=True):
        is_length = step == DOUBLING
        more, less = ("longer texts", "shorter texts") if is_length else (f"more {column}", f"less {column}")
        taste = f"prefers {more if beta > 0 else less}" if low > 0 or high < 0 else f"shows no clear taste for {column}"
        worth = f"twice the {column} is" if is_length else f"{step} more of it is"
        found.append(f"{named(judge)} {taste}: {worth} worth {beta:.2f} logits ({low:.2f} to {high:.2f})")
    return found
