"""The ranking: scores of candidates with their uncertainty, ranks, tiers and probabilities, and tables of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from comparo.data.columns import as_number, frame_from_columns, look_up, shown
from comparo.data.covariates import LIBRARY, computed_reasons
from comparo.data.items import Items
from comparo.data.sanitize import visible
from comparo.ranking.display import (
    bias_columns,
    consensus_sentence,
    control_columns,
    control_name,
    member_columns,
    moved_columns,
    new_columns,
    notes,
    tie_columns,
)
from comparo.ranking.grouping import Groups, asked_groups, leaderboard, numbers_by_label, why_not
from comparo.ranking.leaderboard import Leaderboard, Over
from comparo.ranking.ranks import Candidate, places
from comparo.ranking.scale import Scaled, scaled
from comparo.ranking.scores import Scores
from comparo.ranking.tabular import Columns, Tabular, json_rows, json_text, plain, table_html, table_text
from comparo.ranking.why import Why, explain


@dataclass(frozen=True)
class Ranking(Scores, Tabular):
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
        single texts that people share, None where it is not known, and the judge's own ranking. None where the scores
        are the judge's.
    panel
        The solution for several voices where the method is "panel" and there is more than one judge.
    controlled
        The ranking controlled for the length of the texts, or for other numbers (docs/control.md); else None.
    group
        The number of each candidate's group, (n,), and the names of the groups, where there are any.
    people
        The summary of people's votes, where the scores are people's (`comparo.with_votes`); else None.
    grown
        The scores before items were added to the run (docs/runs.md); None where none were.
    unreached
        The context and the name of each item of a run that no answer is about: its rows in tables have no values.

    Examples
    --------
    >>> from comparo import fit
    >>> ranking = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.1)])
    >>> ranking.rank.tolist()
    [1, 2, 3]
    """

    def __iter__(self) -> Iterator[Any]:
        """The items best first; with contexts, pairs (context, item) in the order of the table."""
        items = self.items[self._order].tolist()
        return iter(items if self.context is None else zip(self.context[self._order].tolist(), items, strict=True))

    def __getitem__(self, key: Hashable) -> Candidate:
        """The row of an item; with several contexts, of a pair (context, item).

        >>> from comparo import fit
        >>> ranking = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.1)])
        >>> ranking["b"].rank, [ranking[item].tier for item in ranking]
        (2, [1, 1, 1])
        """
        node = self._keyed(key)
        key = self.items[node]
        label = None if self.context is None else self.context[node]
        score, std = float(self.scores[node]), float(self.std[node])
        reach = float(ndtri((1 - self.level) / 2)) * std
        places = (int(column[node]) for column in (self.rank, self.tier, self.counts))
        return Candidate(label, key, score, std, score + reach, score - reach, *places)

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems that a reader must know of; also issued as warnings by `fit`."""
        return notes(self)

    @property
    def voices(self) -> Columns | None:
        """Agreement, scale, noise and bias of each voice of a panel: a table (docs/panel.md); None without a panel."""
        return None if self.panel is None else member_columns(self.panel, self.level)

    @property
    def ties(self) -> Columns | None:
        """The tie parameter ν of each judge, and P(tie) of two equal texts (docs/fitting.md); None without ties."""
        return tie_columns(self)

    @property
    def control(self) -> Columns | None:
        """The coefficient of each controlled number by judge, in logits per step: a table; None without control."""
        return control_columns(self if self.controlled is None else self.controlled, self.level)

    @property
    def moved(self) -> Columns | None:
        """Old items whose score left its interval when items were added: a table; None where none were added."""
        return None if self.grown is None else moved_columns(self, self.grown)

    @property
    def views(self) -> Columns | None:
        """The scores that each voice of a panel gives on its own, in its own logits: a table; None without a panel."""
        if self.panel is None:
            return None
        views = {str(name): voice.scores for name, voice in zip(self.panel.names, self.panel.voices, strict=True)}
        return self.table({"item": self.items} | views)

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
        """The notes of the `leaderboard`, if there is one; `notes` omit them, because its fit takes time."""
        return () if self.leaderboard is None else self.leaderboard.notes

    def on_scale(self, anchors: Mapping[Any, float] | None = None, grades: str | None = None) -> Scaled:
        """The scores on the scale of anchors, which are texts with known scores, and grades.

        Parameters
        ----------
        anchors
            The known scores by item, or by pair (context, item); at least two in each context, and three for
            intervals. May be left out where `grades` are shares.
        grades
            Cut points on the scale of the anchors, "A>=85, B>=70", or shares of the texts of each context, "A:10%,
            B:25%"; a last name may stand alone, for the texts below.

        Returns
        -------
        Scaled
            Scores with intervals that include the errors of the ranking and of the map (`comparo.ranking.scale`), the
            map, the anchors that do not fit, and the grade of each text with the probability of each.

        Raises
        ------
        ValueError
            If the anchors are no numbers or do not differ, or the grades cannot be read.
        KeyError
            If an anchor is not in the ranking.

        Examples
        --------
        >>> from comparo import fit
        >>> ranking = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "d", 0.6), ("d", "a", 0.1)])
        >>> found = ranking.on_scale({"a": 90, "d": 60}, "A>=80, B>=65")
        >>> found.ranking.items.tolist(), found.grade.tolist()
        (['a', 'b', 'c', 'd'], ['A', 'B', 'below B', 'below B'])
        """
        known = np.full(len(self), np.nan)
        for label, value in (anchors or {}).items():
            if not np.isfinite(as_number(value)):
                raise ValueError(f"the score of the anchor {shown(label)} is {shown(value)}, which is not a number")
            known[self._keyed(label)] = as_number(value)
        return scaled(self, known, grades)

    def why(
        self, data: Any = None, reasons: Mapping[str, Mapping[Any, float] | Ranking] | None = None, **columns: Any
    ) -> Why:
        """Why texts win: how much of the ranking each reason explains, on its own and beyond the others.

        Parameters
        ----------
        data, columns
            The texts, anything that `Items.of` reads with its arguments, from which numbers of texts are computed
            (length, long words, markup, …); None: only `reasons` are used.
        reasons
            Further reasons by name: a number by item, or by pair (context, item); or the `Ranking` of the same texts by
            a criterion, whose scores they are.

        Returns
        -------
        Why
            Effects with intervals, in logits for one standard deviation of a reason within contexts; shares of the
            ranking; what no reason explains; feedback for each text (docs/why.md).

        Raises
        ------
        ValueError
            If a text is not given or has no number, or there are fewer than five texts.

        Examples
        --------
        >>> from comparo import fit
        >>> texts = {k: "word " * k for k in range(1, 9)}
        >>> rows = [(i, j, 0.9 if i > j else 0.2) for i in texts for j in texts if i != j]
        >>> found = fit(rows, "mixed").why(texts)
        >>> found.reasons[0].words, found.reasons[0].alone.is_found
        ('longer', True)
        """
        labels, numbers = self.graph.labels(self.comparisons), dict[str, Any]()
        if data is not None:
            items = Items.of(data, **columns)
            known = zip(items.contexts[items.context].tolist(), items.ids.tolist(), strict=True)
            row = look_up(labels, known)
            if np.any(row < 0):
                raise ValueError(
                    f"there is no text of {labels[int(np.argmax(row < 0))]!r}; give the texts of all items"
                )
            numbers |= {reason.name: column[row] for reason, column in computed_reasons(items).items()}
        for name, given in (reasons or {}).items():
            if isinstance(given, Ranking):
                given = dict(zip(given.graph.labels(given.comparisons), given.scores.tolist(), strict=True))
            numbers[name] = numbers_by_label(f"the reason {name!r}", given, labels)
        if not numbers:
            raise ValueError("there is no reason; give the texts, or `reasons` by name")
        return explain(self, numbers, {reason.name: (reason.words, reason.against) for reason in LIBRARY})

    def rank_intervals(self) -> Columns:
        """The best and the worst rank of each candidate at `level`: a table with columns best_rank and worst_rank.

        From 1000 draws of all scores of a component; in contexts of more than 4096 items, the ranks that the ends of
        the score's interval would have.

        >>> from comparo import fit
        >>> fit([("a", "b", 0.2), ("b", "c", 0.9), ("c", "a", 0.2)]).rank_intervals()["item"].tolist()
        ['b', 'a', 'c']
        """
        best, worst, _ = places(self.scores, self.covariance, self.level)
        return self.table({"item": self.items, "rank": self.rank, "best_rank": best, "worst_rank": worst})

    def top(self, k: int) -> Columns:
        """P(each candidate is among the best k of its component): a table with a column probability.

        From 1000 draws; in contexts of more than 4096 items, P(its true score is above the mean of the k-th and the
        next score).

        >>> from comparo import fit
        >>> top = fit([("a", "b", 0.01), ("b", "a", 0.99), ("a", "b", 0.02)]).top(1)
        >>> top["item"].tolist(), top["probability"].round(2).tolist()
        (['b', 'a'], [0.99, 0.01])
        """
        if not isinstance(k, int) or k < 1:
            raise ValueError(f"k is a whole number from 1 on, not {k!r}")
        probability = places(self.scores, self.covariance, self.level, k)[2]
        return self.table({"item": self.items, "rank": self.rank, "probability": probability})

    def to_columns(self) -> Columns:
        """The table as columns, best first: item, score, std, low, high, rank, tier, comparisons.

        With contexts, a column context comes first; where the graph is not connected, a column component is added. A
        consensus has the columns judge_score and judge_rank after score and rank. With control of the length,
        equal_length_score, equal_length_std and equal_length_rank come last. A ranking that has grown has a column new.
        """
        own = self.opinion
        columns = {"item": self.items, "score": self.scores}
        columns |= {} if own is None else {"judge_score": own.scores}
        columns |= {"std": self.std, "low": self.low, "high": self.high, "rank": self.rank}
        columns |= {} if own is None else {"judge_rank": own.rank}
        columns |= {"tier": self.tier, "comparisons": self.counts}
        if (equal := self.controlled) is not None and (control := self.control) is not None:
            name = control_name(control)
            columns |= {f"{name}_score": equal.scores, f"{name}_std": equal.std, f"{name}_rank": equal.rank}
        if self.grown is not None:
            columns["new"] = self.grown.new
        return self.table(columns)

    def to_json(self) -> str:
        """The table with method, estimate, level, notes, bias, variances and the leaderboard, as one JSON object.

        >>> import json
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
        if self.effects is not None:
            names = ("scores", "groups", "style", "noise", "gap", "bias")
            document["variances"] = {name: plain(getattr(self.effects, name)) for name in names}
        if self.grown is not None:
            tables = {"new": new_columns(self, self.grown), "moved": moved_columns(self, self.grown)}
            document["growth"] = {name: json_rows(table) for name, table in tables.items()}
            if (link := self.grown.link) is not None:
                document["link"] = {"error": plain(link.error), "common": json_rows(link.common)}
        details = {
            "bias": None if self.product is None else bias_columns(self),
            "voices": self.voices,
            "views": self.views,
            "ties": self.ties,
            "control": self.control,
            "groups": None if self.leaderboard is None else self.leaderboard.to_columns(),
            "ranking": self.to_columns(),
        }
        document |= {name: json_rows(table) for name, table in details.items() if table is not None}
        return json_text(document)

    def bias_frame(self, backend: str | None = None) -> Any:
        """`bias` as a frame: columns context, judge (if there are any), gamma and, where γ is a logit, first_wins."""
        return frame_from_columns(bias_columns(self), backend)

    def __repr__(self) -> str:
        contexts = "" if self.context is None else f" in {self.graph.contexts} contexts"
        best = [visible(item, lines=False) for item in self.items[self._order[:3]]]
        if self.graph.nodes > 3:
            best.append("…")
        shared = ""
        if self.people is not None:
            shared = f", with {self.people.votes:,} votes of people"
        elif self.opinion is not None:
            shared = ", " + self.whose.replace(", ", " with ")
        return f"<Ranking of {self.graph.nodes} candidates{contexts} by {self.method}{shared}: {', '.join(best)}>"

    @property
    def meaning(self) -> str:
        """The formula of a consensus in words, and how to get the judge's own ranking; "" for other rankings."""
        return consensus_sentence(self) if self.estimate == "consensus" else ""

    def __str__(self) -> str:
        return (f"{self.meaning}\n" if self.meaning else "") + table_text(self.to_columns(), self.notes)

    def _repr_html_(self) -> str:
        return table_html(self.to_columns(), self.notes)
