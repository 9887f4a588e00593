"""The ranking: scores with their uncertainty, ranks and tiers, and its tables, text and pictures."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import frame_from_columns
from comparo.data.sanitize import visible
from comparo.data.writing import csv_text
from comparo.model.estimators.panel import Panel
from comparo.model.estimators.poe import Product
from comparo.model.inference.random_effects import Effects
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.likelihoods.experts import is_logit
from comparo.ranking.display import bias_columns, json_rows, plain, table_html, table_text
from comparo.ranking.grouping import Groups, asked_groups, leaderboard, why_not
from comparo.ranking.growth import Grown, People, moved_columns, new_columns
from comparo.ranking.leaderboard import Leaderboard, Over
from comparo.ranking.notes import (
    consensus_sentence,
    control_columns,
    control_name,
    held_of,
    member_columns,
    member_notes,
    notes,
    tie_columns,
    view_columns,
)
from comparo.ranking.ordering import Placed
from comparo.types import Array, Index

Estimate = Literal["judge", "consensus"]
Whose = Literal["judge", "consensus", "people"]


@dataclass(frozen=True)
class Ranking(Placed):
    """Scores of candidates (items of contexts) with their uncertainty.

    Attributes that are arrays have one entry per candidate, shape (n,), in the order of `items` and `context`, which
    differs from that of the table. Tables (`to_columns`, `to_frame`, `top`, `rank_intervals`) name the item of each row
    and all have the same rows, best first. Arrays with one entry per context are in the order of `contexts`.
    `len(ranking)` is n, iteration gives the items best first, `ranking["ana"]` is the row of an item, with contexts
    `ranking["context", "ana"]`, and `print(ranking)` shows the table.

    Scores are centred in each connected component, since comparisons do not determine the difference between
    components; ranks and tiers are within components.

    Parameters
    ----------
    method, comparisons, graph, scores, covariance, level, converged
        The name of the method, its input and estimates, the coverage of intervals, and whether the solver converged.
    product
        The solution (bias, dispersion, log-probability) where the method is a product of experts.
    validity, opinion
        Where the scores are the consensus estimate (`comparo.ranking.consensus`): the share of the judge's view of
        single texts that people share, and the judge's own ranking. None where the scores are the judge's.
    panel
        The solution for several voices where the method is "panel" and there is more than one judge.
    controlled
        The ranking with the length of the texts, or something else, held equal (docs/control.md); else None.
    group
        The number of each candidate's group, (n,), and the names of the groups, where there are any.
    people
        What people's votes told, where the scores are people's (`comparo.with_votes`); else None.
    grown
        What each candidate was before items were added to the run (docs/runs.md); None where none were.

    Examples
    --------
    >>> from comparo import fit
    >>> ranking = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.1)])
    >>> ranking.rank.tolist()
    [1, 2, 3]
    """

    product: Product | None = None
    converged: bool = True
    validity: float | None = None
    opinion: Ranking | None = field(default=None, repr=False)
    panel: Panel | None = field(default=None, repr=False)
    controlled: Ranking | None = field(default=None, repr=False)
    group: tuple[Index, NDArray[Any]] | None = field(default=None, repr=False)
    people: People | None = None
    grown: Grown | None = field(default=None, repr=False)

    @property
    def estimate(self) -> Whose:
        """Whose ranking it is: "judge"; "consensus" for what people would say, as far as one judge can tell; "people".

        The last has votes of people (`comparo.ranking.votes`).
        """
        if self.people is not None:
            return "people"
        return "judge" if self.opinion is None else "consensus"

    @property
    def judged(self) -> Ranking:
        """The judge's own ranking, from which a consensus is estimated."""
        return self if self.opinion is None else self.opinion

    @property
    def bias(self) -> Array | None:
        """γ by context and judge, or voice of a panel, (C, J), in the order of `contexts`; None without a bias term."""
        bias = np.empty((0, 0)) if self.product is None else self.product.bias
        if self.panel is not None:
            bias = self.panel.bias
        if bias.size == 0:
            return None
        return bias[np.argsort(self.graph.context[self.graph.starts[:-1]], kind="stable")]

    @property
    def effects(self) -> Effects | None:
        """The variances of scores, groups, styles, biases and noise; None where the prior was not estimated.

        >>> from comparo import fit
        >>> rows = [("a", "b", 0.8), ("b", "a", 0.3), ("b", "c", 0.7), ("c", "b", 0.4)]
        >>> effects = fit(rows, prior="estimated").effects
        >>> effects.scores > 0, effects.groups
        (True, None)
        """
        return None if self.product is None else self.product.effects

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems that a reader must know of; also issued as warnings by `fit`."""
        found = notes(self.comparisons, self.graph, self.product, self.converged)
        if self.panel is not None:
            found += member_notes(self.panel, for_people=self.estimate == "consensus" and self.validity != 1.0)
        return found if self.people is None else (*found, *self.people.notes)

    @property
    def voices(self) -> dict[str, NDArray[Any]] | None:
        """What each voice of a panel is worth: a table with a row per judge (docs/panel.md); None without a panel."""
        return None if self.panel is None else member_columns(self.panel, self.level)

    @property
    def ties(self) -> dict[str, NDArray[Any]] | None:
        """The tie parameter ν of each judge, and P(tie) of two equal texts (docs/fitting.md); None without ties."""
        return tie_columns(self.comparisons, self.product, self.panel)

    @property
    def control(self) -> dict[str, NDArray[Any]] | None:
        """What each judge gives for one step of what is held equal, in logits: a table; None where nothing is."""
        source = self if self.controlled is None else self.controlled
        held = held_of(source.comparisons, source.product, source.panel)
        return control_columns(held, self.level) if held else None

    @property
    def moved(self) -> dict[str, NDArray[Any]] | None:
        """Old items that moved beyond their interval when items were added: a table; None where none were added."""
        return None if self.grown is None else moved_columns(self, self.grown)

    @property
    def views(self) -> dict[str, NDArray[Any]] | None:
        """The scores that each voice of a panel gives on its own, in its own logits: a table; None without a panel."""
        return None if self.panel is None else self._table({"item": self.items} | view_columns(self.panel))

    def groups(self, by: Groups | None = None, contexts: Over = "new") -> Leaderboard:
        """The leaderboard: mean scores of groups of candidates, such as the systems that wrote them, with intervals.

        Parameters
        ----------
        by
            The group of each item, or pair (context, item); "items": the same item in several contexts. Default: the
            groups that the ranking was fitted with, else the items, where contexts share them.
        contexts
            "new": the contexts are a random sample, and intervals hold for the mean over all that could have been
            drawn; "these": they hold for the contexts at hand.

        Returns
        -------
        Leaderboard
            The groups best first, in logits of the judge, by the mixed model (`comparo.ranking.leaderboard`). Where
            the ranking was not made by it with these groups, the same comparisons are fitted again. With votes of
            people (`comparo.with_votes`) it is people's leaderboard, in logits of their votes.

        Raises
        ------
        ValueError
            If there are no groups, or no chain of comparisons connects them.

        Examples
        --------
        >>> from comparo import fit
        >>> rows = [{"context": c, "first": a, "second": b, "p": p + c / 9} for c in range(4)
        ...         for a, b, p in (("new", "old", 0.6), ("old", "new", 0.1))]
        >>> board = fit(rows, "mixed", groups="items").groups()
        >>> board.group.tolist(), board.tier.tolist()
        (['new', 'old'], [1, 2])
        """
        group, names = asked_groups(self.comparisons, self.graph, self.group, by)
        return leaderboard(self.judged if self.people is None else self, group, names, contexts)

    @cached_property
    def leaderboard(self) -> Leaderboard | None:
        """`groups()` of the groups that the ranking was fitted with; None where it has none that can be compared."""
        if self.group is None or why_not(self.graph, *self.group) is not None:
            return None
        return self.groups()

    @property
    def board_notes(self) -> tuple[str, ...]:
        """The notes of the `leaderboard`, where there is one; `notes` leave them out, since it takes time to make."""
        return () if self.leaderboard is None else self.leaderboard.notes

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """The table as columns, best first: item, score, std, low, high, rank, tier, comparisons.

        With contexts, a column context comes first; where the graph is not connected, a column component is added. A
        consensus has the columns judge_score and judge_rank after score and rank. Where the length is held equal,
        equal_length_score, equal_length_std and equal_length_rank come last. A ranking that has grown has a column new.
        """
        columns = {"item": self.items, "score": self.scores}
        if self.opinion is not None:
            columns |= {"judge_score": self.opinion.scores}
        columns |= {"std": self.std, "low": self.low, "high": self.high}
        columns |= {"rank": self.rank}
        if self.opinion is not None:
            columns |= {"judge_rank": self.opinion.rank}
        columns |= {"tier": self.tier, "comparisons": self.counts}
        if (equal := self.controlled) is not None and (control := self.control) is not None:
            name = control_name(control)
            columns |= {f"{name}_score": equal.scores, f"{name}_std": equal.std, f"{name}_rank": equal.rank}
        if self.grown is not None:
            columns["new"] = self.grown.new
        return self._table(columns)

    def to_frame(self, backend: str | None = None) -> Any:
        """The table of `to_columns` as a pandas, polars or pyarrow frame: the first that is installed, or `backend`."""
        return frame_from_columns(self.to_columns(), backend)

    @overload
    def to_csv(self) -> str: ...
    @overload
    def to_csv(self, path: str | os.PathLike[str]) -> None: ...
    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Return the table of `to_columns` as CSV, or write it to `path`; missing numbers are empty fields."""
        if path is None:
            return self._csv
        Path(path).write_text(self._csv, encoding="utf-8", newline="")
        return None

    @cached_property
    def _csv(self) -> str:
        return csv_text(self.to_columns())

    def to_json(self) -> str:
        """The table with method, estimate, level, notes, bias, variances and the leaderboard, as one JSON object.

        >>> from comparo import fit
        >>> json.loads(fit([("a", "b", 0.8)], method="poe-g").to_json())["ranking"][0]["item"]
        'a'
        """
        document: dict[str, Any] = {"method": self.method, "estimate": self.estimate, "validity": self.validity}
        document |= {"level": self.level, "notes": list(self.notes)}
        if self.people is not None:
            document["people"] = {name: plain(value) for name, value in asdict(self.people).items()}
        if self.product is not None:
            document["dispersion"] = plain(self.product.dispersion)
            document["bias"] = json_rows(self._bias_columns())
        if self.panel is not None and self.voices is not None and self.views is not None:
            document |= {"voices": json_rows(self.voices), "views": json_rows(self.views)}
        if (ties := self.ties) is not None:
            document["ties"] = json_rows(ties)
        if (control := self.control) is not None:
            document["control"] = json_rows(control)
        if self.effects is not None:
            names = ("scores", "groups", "style", "noise", "freedom", "gap", "bias")
            document["variances"] = {name: plain(getattr(self.effects, name)) for name in names}
        if self.grown is not None:
            tables = {"new": new_columns(self, self.grown), "moved": moved_columns(self, self.grown)}
            document["growth"] = {name: json_rows(table) for name, table in tables.items()}
            document["growth"]["left_out"] = self.grown.left_out
        if self.leaderboard is not None:
            document["groups"] = json_rows(self.leaderboard.to_columns())
        return json.dumps(
            document | {"ranking": json_rows(self.to_columns())}, ensure_ascii=False, default=str, allow_nan=False
        )

    def bias_frame(self, backend: str | None = None) -> Any:
        """`bias` as a frame with columns context, judge (where there are such), gamma and, as in JSON, first_wins."""
        return frame_from_columns(self._bias_columns(), backend)

    def _bias_columns(self) -> dict[str, NDArray[Any]]:
        names = self.comparisons.judges if self.panel is None else np.array(self.panel.names, dtype=object)
        expert = BradleyTerry() if self.product is None else self.product.expert
        return bias_columns(self.comparisons.contexts, names, self.bias, is_logit(expert))

    def __repr__(self) -> str:
        contexts = "" if self.context is None else f" in {self.graph.contexts} contexts"
        best = [visible(item, lines=False) for item in self.items[self._order[:3]]] + ["…"] * (self.graph.nodes > 3)
        shared = ""
        if self.people is not None:
            shared = f", with {self.people.votes:,} votes of people"
        elif self.opinion is not None:
            shared = f", consensus with validity {self.validity:.2f}"
        return f"<Ranking of {self.graph.nodes} candidates{contexts} by {self.method}{shared}: {', '.join(best)}>"

    @property
    def meaning(self) -> str:
        """What a consensus is, and how to get the judge's own ranking; "" for other rankings."""
        if self.estimate != "consensus" or self.validity is None:
            return ""
        return consensus_sentence(
            self.validity, self.group is not None, self.context is not None, self.panel is not None
        )

    def __str__(self) -> str:
        return (f"{self.meaning}\n" if self.meaning else "") + table_text(self.to_columns(), self.notes)

    def _repr_html_(self) -> str:
        return table_html(self.to_columns(), self.level, self.notes)
