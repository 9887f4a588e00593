"""What a fit says of each judge: position bias, voices, ties and controlled numbers, as tables and in sentences."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, ndtri

from comparo.data.wordings import LETTERS
from comparo.model.design import Held
from comparo.model.estimators.panel_covariance import Panel
from comparo.model.inference.choices import Choices
from comparo.model.likelihoods import is_logit
from comparo.model.likelihoods.bradley_terry import Davidson
from comparo.model.solution import Solution
from comparo.ranking.scores import Scores
from comparo.ranking.tabular import Columns, columns_from, rows_of
from comparo.types import Array

DOUBLING = "twice"  # the step of a length: its numbers are logarithms to the base 2


def bias_columns(solution: Solution) -> Columns | None:
    """γ by context and judge; where it is a logit also σ(−γ) = P(the first of two equal texts wins)."""
    bias, graph, comparisons = solution.bias, solution.graph, solution.comparisons
    if not bias.size:
        return None
    bias = bias[np.argsort(graph.context[graph.starts[:-1]], kind="stable")]
    names, slots = comparisons.judges, comparisons.slots
    if solution.panel is not None:
        names, slots = np.array(solution.panel.names, dtype=object), slots[:0]
    columns: Columns = {}
    if comparisons.contexts is not None:
        columns["context"] = np.repeat(comparisons.contexts[: len(bias)], bias.shape[1])
    if names is not None:
        codes = slots[:, 0] if len(slots) else np.arange(len(names))
        columns["judge"] = np.tile(names[codes[: bias.shape[1]]], len(bias))
    if np.any(slots[:, 1] > 2):
        columns["slots"] = np.tile([f"{LETTERS[low]}{LETTERS[high]} of {k}" for _, k, low, high in slots], len(bias))
    columns["gamma"] = bias.ravel()
    if solution.expert is None or is_logit(solution.expert):
        columns["first_wins"] = np.asarray(expit(-bias.ravel()))
    return columns


def member_columns(panel: Panel, level: float) -> Columns:
    """A row for each voice; intervals of the agreement have the coverage `level`."""
    low, high = panel.interval(level)
    names = np.array([str(name) for name in panel.names], dtype=object)
    # Of copies the first by name, because voices are in the order in which their answers arrived.
    lead = np.array([min(np.flatnonzero(panel.family == family), key=lambda r: names[r]) for family in panel.family])
    tie = _panel_ties(panel)
    ties = {"tie": tie} if tie.any() else {}
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
        **ties,
        "copy_of": np.where(lead != np.arange(len(lead)), names[lead], ""),
    }


def tie_columns(solution: Solution) -> Columns | None:
    """A row for each judge with a tie parameter; None where ties are not modelled."""
    each, panel, comparisons = comparison_ties(solution), solution.panel, solution.comparisons
    if each is None:
        return None
    judge, names = comparisons.judged_by.astype(np.intp), comparisons.judges
    if panel is not None:
        judge, names = panel.voice, np.array(panel.names, dtype=object)
    if names is None:
        names = np.array(["judge"], dtype=object)
    nu = np.zeros(len(names))
    nu[judge] = each
    kept = nu > 0
    answers = np.bincount(judge, minlength=len(names))
    tied = np.bincount(judge, comparisons.p == 0.5, len(names))
    columns = {
        "judge": names,
        "answers": answers,
        "ties": tied / np.maximum(answers, 1),
        "nu": nu,
        "equals": nu / (2.0 + nu),
    }
    return {name: column[kept] for name, column in columns.items()}


def comparison_ties(solution: Solution) -> Array | None:
    """ν of the judge of each comparison, (K,), 0 where it has none; None where no judge has one."""
    if solution.panel is not None:
        nu = _panel_ties(solution.panel)[solution.panel.voice]
    elif isinstance(solution.expert, Davidson):
        nu = np.broadcast_to(solution.expert.nu, len(solution.comparisons))
    else:
        return None
    return nu if nu.any() else None


def _panel_ties(panel: Panel) -> Array:
    """ν of each voice of a panel, (R,); 0 where it has none."""
    models = [voice.model for voice in panel.voices]
    return np.array([float(one.nu[0]) if isinstance(one, Choices) else 0.0 for one in models])


def tie_sentences(columns: Columns | None) -> list[str]:
    """A sentence for each judge that calls ties.

    >>> one = {"judge": ["ana"], "answers": [10], "ties": [0.3], "nu": [1.0], "equals": [1 / 3]}
    >>> tie_sentences({name: np.array(column) for name, column in one.items()})
    ["'ana' called 30% of its 10 answers a tie; of two equal texts it does so with probability 0.33 (ν = 1.00)"]
    """
    return [
        f"{called(str(row['judge']))} called {row['ties']:.0%} of its {row['answers']:,} answers a tie; of two equal "
        f"texts it does so with probability {row['equals']:.2f} (ν = {row['nu']:.2f})"
        for row in rows_of(columns or {})
    ]


def control_columns(ranking: Scores, level: float) -> Columns | None:
    """A row per judge and controlled number; None where nothing is controlled."""
    reach = -float(ndtri((1.0 - level) / 2))
    spread = float(np.mean(ranking.graph.centre(ranking.scores) ** 2))
    rows = []
    for judge, held in held_of(ranking.solution):
        parts = held.coefficient**2 * held.varied
        for name, unit, beta, error, part in zip(
            held.control.names, held.control.unit, held.coefficient, held.std, parts, strict=True
        ):
            share = part / (part + spread) if part > 0 else 0.0
            low, high = beta - reach * error, beta + reach * error
            rows.append((judge, name, unit, beta, error, low, high, share))
    if not rows:
        return None
    names = ("judge", "column", "step", "coefficient", "std", "low", "high", "explains")
    return columns_from(rows, names, texts=3)


def held_of(solution: Solution) -> list[tuple[str, Held]]:
    """The name and the control coefficients of each judge that has any."""
    if solution.panel is not None:
        every = [(str(name), one.held) for name, one in zip(solution.panel.names, solution.panel.voices, strict=True)]
    else:
        judges = solution.comparisons.judges
        every = [("judge" if judges is None or len(judges) > 1 else str(judges[0]), solution.held)]
    return [(name, held) for name, held in every if held is not None]


def control_name(table: Columns) -> str:
    """The controlled numbers as a prefix of column names, from the table "control".

    >>> control_name({"column": np.array(["length", "price"])})
    'equal_length_price'
    """
    return "_".join(["equal", *dict.fromkeys(table["column"].tolist())])


def control_sentences(table: Columns | None) -> list[str]:
    """A sentence per row of the table "control".

    >>> names = ("judge", "column", "step", "coefficient", "std", "low", "high", "explains")
    >>> row = ("ana", "length", "twice", 0.4, 0.1, 0.2, 0.6, 0.12)
    >>> print(*control_sentences({name: np.array([value]) for name, value in zip(names, row)}))
    'ana' prefers longer texts: twice the length is worth 0.40 logits (0.20 to 0.60), 12% of the variance of its scores
    """
    found = []
    for row in rows_of(table or {}):
        column, step, beta, low, high = (row[name] for name in ("column", "step", "coefficient", "low", "high"))
        if step == DOUBLING:
            more, less = "longer texts", "shorter texts"
            worth = f"twice the {column} is"
        else:
            more, less = f"more {column}", f"less {column}"
            worth = f"{step} more of it is"
        taste = f"shows no clear taste for {column}"
        if low > 0 or high < 0:
            taste = f"prefers {more if beta > 0 else less}"
        size = f"{beta:.2f} logits ({low:.2f} to {high:.2f}), {row['explains']:.0%} of the variance of its scores"
        found.append(f"{called(row['judge'])} {taste}: {worth} worth {size}")
    return found


def called(judge: str) -> str:
    """A judge in a sentence."""
    return "the judge" if judge == "judge" else repr(judge)
