"""What a reader must know before trusting a ranking.

The voices of a panel as a table, as notes for a reader, and the scores that each gives.

How readily each judge calls a tie: the tie parameter ν of Davidson's model, as a table and as sentences.

What a judge gives for length, or another number of a text that is held equal: a table, and sentences about it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from comparo.data.comparisons import Comparisons
from comparo.model.control import Held
from comparo.model.estimators.panel import Panel
from comparo.model.estimators.poe import Product
from comparo.model.inference.choices import Choices
from comparo.model.likelihoods.davidson import Davidson
from comparo.model.linalg.graph import Graph
from comparo.ranking.flips import unexplained_flips
from comparo.ranking.grouping import DOUBLING
from comparo.types import Array


def notes(comparisons: Comparisons, graph: Graph, product: Product | None, converged: bool) -> tuple[str, ...]:
    """Return a sentence for each of: a graph that is not connected, no convergence, a bias that is not determined."""
    found = []
    split = np.diff(np.append(graph.component[graph.starts[:-1]], graph.components)) > 1
    if split.any():
        place = ""
        if comparisons.contexts is not None:
            label = comparisons.contexts[graph.context[graph.starts[:-1]][split][0]]
            others = np.count_nonzero(split) - 1
            place = f" in context '{label}'" + (f" and {others} more" if others else "")
        found.append(
            f"the comparisons{place} fall into groups that are not connected: each group is ranked on its own, and "
            "scores do not compare across groups; compare items of different groups to join them"
        )
    if not converged:
        found.append("the scores did not settle and may be wrong; try method='poe-bt' with a firm prior, as prior=1")
    if product is not None and not product.is_bias_determined:
        found.append(
            "the position bias cannot be estimated from these comparisons: show items in both positions, or use "
            "bias='none'"
        )
    if judge := judge_note(comparisons):
        found.append(judge)
    return tuple(found)


def consensus_sentence(validity: float, has_groups: bool, has_contexts: bool, is_panel: bool) -> str:
    """What a consensus is, and how to get the judge's own ranking, to stand above its table."""
    expected = "the mean score of its group in all contexts" if has_groups else "what its style predicts"
    first = ", so that one group may be first in every context" if has_groups and has_contexts else ""
    who = "the panel" if is_panel else "the judge"
    return (
        f"This is what people would say, as far as {who} can tell: a text counts by {expected}, and by {validity:.0%} "
        f"of what {who} says of the text beyond that{first}. judge_rank is the rank by {who} alone; --estimate judge "
        '(in Python, estimate="judge") ranks by it, without new calls.'
    )


def judge_note(comparisons: Comparisons) -> str:
    """That the judge hardly reads, where too many winners change with the order of the texts; else an empty string.

    >>> judge_note(Comparisons.from_rows([row for k in range(9) for row in ((k, -k - 1, 0.9), (-k - 1, k, 0.9))]))
    '9 of 9 winners change with the order of the texts (95% interval: 70 to 100%): this judge hardly reads them, or ...
    """
    found = unexplained_flips(comparisons)
    if not found.are_many:
        return ""
    low, high = found.interval
    return (
        f"{found.flipped:,} of {found.pairs:,} winners change with the order of the texts (95% interval: "
        f"{100 * low:.0f} to {100 * high:.0f}%): this judge hardly reads them, or they hardly differ; try another "
        "judge or wording before you ask more"
    )


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
