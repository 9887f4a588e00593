"""How readily each judge calls a tie: the tie parameter ν of Davidson's model, as a table and as sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.comparisons import Comparisons
from comparo.model.choices import Choices
from comparo.model.experts import Davidson
from comparo.model.panel import Panel
from comparo.model.product import Product
from comparo.types import Array

Columns = dict[str, NDArray[Any]]


def tie_columns(comparisons: Comparisons, product: Product | None, panel: Panel | None) -> Columns | None:
    """The table of `Ranking.ties`, a row for each judge with a tie parameter; None where ties are not modelled."""
    each = comparison_ties(comparisons, product, panel)
    if each is None:
        return None
    judge = comparisons.judged_by.astype(np.intp) if panel is None else panel.voice
    names = np.array(["judge"] if panel is None else panel.names, dtype=object)
    if panel is None and comparisons.judges is not None:
        names = comparisons.judges
    nu = np.zeros(len(names))
    nu[judge] = each
    kept = nu > 0
    answers, tied = (np.bincount(judge, part, len(names)) for part in (np.ones(len(judge)), comparisons.p == 0.5))
    columns = {"judge": names, "answers": answers.astype(np.int64), "ties": tied / np.maximum(answers, 1.0), "nu": nu}
    return {name: column[kept] for name, column in columns.items()} | {"equals": nu[kept] / (2.0 + nu[kept])}


def comparison_ties(comparisons: Comparisons, product: Product | None, panel: Panel | None) -> Array | None:
    """ν of the judge of each comparison, (K,), 0 where it has none; None where no judge has one."""
    if panel is not None:
        nu = panel_ties(panel)[panel.voice]
        return nu if nu.any() else None
    if product is None or not isinstance(product.expert, Davidson) or not np.any(product.expert.nu):
        return None
    return np.broadcast_to(product.expert.nu, len(comparisons))


def named(judge: str) -> str:
    """A judge as a sentence names it.

    >>> named("judge"), named("ana")
    ('the judge', "'ana'")
    """
    return "the judge" if judge == "judge" else repr(judge)


def panel_ties(panel: Panel) -> Array:
    """ν of each voice of a panel, (R,); 0 where it has none."""
    models = [voice.model for voice in panel.voices]
    return np.array([float(one.nu[0]) if isinstance(one, Choices) and one.nu is not None else 0.0 for one in models])


def tie_sentences(columns: Columns | None) -> list[str]:
    """A sentence for each judge that calls ties.

    >>> one = {"judge": ["ana"], "answers": [10], "ties": [0.3], "nu": [1.0], "equals": [1 / 3]}
    >>> tie_sentences({name: np.array(column) for name, column in one.items()})
    ["'ana' called 30% of its 10 answers a tie; of two equal texts it does so with probability 0.33 (ν = 1.00)"]
    """
    if columns is None:
        return []
    return [
        f"{named(str(judge))} called {ties:.0%} of its {answers:,} answers a tie; of two equal texts it does so with "
        f"probability {equals:.2f} (ν = {nu:.2f})"
        for judge, answers, ties, nu, equals in zip(*(column.tolist() for column in columns.values()), strict=True)
    ]
