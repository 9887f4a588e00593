"""The ranking: scores of candidates with their uncertainty, ranks, tiers and probabilities, and tables of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from comparo.data.sanitize import visible
from comparo.model.solution import Solution
from comparo.ranking.columns import columns_of
from comparo.ranking.display import consensus_sentence, notes, tables, whose
from comparo.ranking.grouping import Groups, asked_groups, leaderboard, why_not
from comparo.ranking.leaderboard import Leaderboard, Over
from comparo.ranking.ranks import Candidate, places
from comparo.ranking.scores import Scores, node_of, table_of
from comparo.ranking.tabular import Columns, Tabular, json_rows, json_text, plain, table_html, table_text


@dataclass(frozen=True)
class Ranking(Scores, Tabular):
    """Scores of candidates (items of contexts) with their uncertainty.

    Attributes that are arrays have one entry per candidate, shape (n,), in the order of `items` and `context`, which
    differs from that of the table. Tables (`to_columns`, `to_frame`, `top`, `rank_intervals`) name the item of each row
    and all have the same rows, best first. Arrays with one entry per context are in the order of
    `comparisons.contexts`.
    `len(ranking)` is n, iteration gives the items best first, `ranking["ana"]` is the row of an item, with contexts
    `ranking["context", "ana"]`, and `print(ranking)` shows the table.

    Scores are centred in each connected component, since comparisons do not determine the difference between
    components; ranks and tiers are within components.

    Parameters
    ----------
    solution
        What the method found: position bias, variances, voices (`comparo.model.solution.Solution`). Of a consensus, and
        of a ranking with votes, it is the solution of the judge's own ranking.
    scores, covariance, level
        The scores, their covariance, and the coverage of intervals.
    controlled
        The ranking controlled for the length of the texts, or for other numbers (docs/control.md); else None.
    people
        The summary of people's votes, where the scores are people's (`comparo.with_votes`); else None.
    grown
        The scores before items were added to the run (docs/runs.md); None where none were.

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
        node = node_of(self, key)
        score, std, low, high = (float(column[node]) for column in (self.scores, self.std, self.low, self.high))
        places = (int(column[node]) for column in (self.rank, self.tier, self.graph.degrees()))
        return Candidate(*self.solution.labels[node], score, std, low, high, *places)

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems that a reader must know of; also issued as warnings by `fit`."""
        return notes(self)

    @cached_property
    def tables(self) -> dict[str, Columns]:
        """Tables beside that of the scores, by name; only those that the fit has.

        "bias" has γ by context and judge and, where it is a logit, P(the first of two equal texts wins); "voices" the
        agreement, scale, noise and bias of each voice of a panel (docs/panel.md), and "views" the scores that each
        gives on its own, in its own logits; "ties" the tie parameter ν of each judge, and P(tie) of two equal texts
        (docs/fitting.md); "control" the coefficient of each controlled number by judge, in logits per step; "new" and
        "moved" the items that were added, and the old ones whose score left its interval then (docs/runs.md).

        >>> from comparo import fit
        >>> list(fit([("a", "b", 0.8), ("b", "a", 0.3)], "mixed").tables)
        ['bias']
        """
        return tables(self)

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
        group, names = asked_groups(self.comparisons, self.graph, self.solution.groups, by)
        return leaderboard(self.judged if self.people is None else self, group, names, contexts)

    @cached_property
    def leaderboard(self) -> Leaderboard | None:
        """`groups()` of the groups that the ranking was fitted with; None where it has none that can be compared."""
        own = self.solution.groups
        return None if own is None or why_not(self.graph, *own) is not None else self.groups()

    def rank_intervals(self) -> Columns:
        """The best and the worst rank of each candidate at `level`: a table with columns best_rank and worst_rank.

        From 1000 draws of all scores of a component; in contexts of more than 4096 items, the ranks that the ends of
        the score's interval would have.

        >>> from comparo import fit
        >>> fit([("a", "b", 0.2), ("b", "c", 0.9), ("c", "a", 0.2)]).rank_intervals()["item"].tolist()
        ['b', 'a', 'c']
        """
        best, worst, _ = places(self.scores, self.covariance, self.level)
        return table_of(self, {"item": self.items, "rank": self.rank, "best_rank": best, "worst_rank": worst})

    def top(self, k: int) -> Columns:
        """P(each candidate is among the best k of its component): a table with a column probability.

        From 1000 draws; in contexts of more than 4096 items, P(its true score is above the mean of the k-th and the
        next score).

        >>> from comparo import fit
        >>> top = fit([("a", "b", 0.01), ("b", "a", 0.99), ("a", "b", 0.02)], "poe-bt").top(1)
        >>> top["item"].tolist(), top["probability"].round(2).tolist()
        (['b', 'a'], [0.99, 0.01])
        """
        if not isinstance(k, int) or k < 1:
            raise ValueError(f"k is a whole number from 1 on, not {k!r}")
        probability = places(self.scores, self.covariance, self.level, k)[2]
        return table_of(self, {"item": self.items, "rank": self.rank, "probability": probability})

    def to_columns(self) -> Columns:
        """The table as columns, best first: item, score, std, low, high, rank, tier, comparisons.

        With contexts, a column context comes first; where the graph is not connected, a column component is added. A
        consensus has the columns judge_score and judge_rank after score and rank. With control of the length,
        equal_length_score, equal_length_std and equal_length_rank come last. A ranking that has grown has a column new.
        A run with the goal "top-k" has P(among the best k) as p_best (docs/top.md).
        """
        return table_of(self, columns_of(self))

    def to_json(self) -> str:
        """The table with method, estimate, level, notes, bias, variances and the leaderboard, as one JSON object.

        >>> import json
        >>> from comparo import fit
        >>> json.loads(fit([("a", "b", 0.8)], method="poe-g").to_json())["ranking"][0]["item"]
        'a'
        """
        document: dict[str, Any] = {"method": self.method, "estimate": self.estimate}
        document |= {"validity": self.solution.validity, "level": self.level, "notes": list(self.notes)}
        if self.people is not None:
            document["people"] = {name: plain(value) for name, value in asdict(self.people).items()}
        effects = self.solution.effects
        if self.solution.expert is not None:
            document["dispersion"] = plain(self.solution.dispersion)
        if effects is not None:
            first = () if effects.first_stage is None else ("first_stage",)
            names = ("scores", "groups", "style", *first, "noise", "gap", "bias")
            document["variances"] = {name: plain(getattr(effects, name)) for name in names}
        beside = {name: json_rows(table) for name, table in self.tables.items()}
        if self.grown is not None:
            document["growth"] = {name: beside.pop(name) for name in ("new", "moved")}
            if (link := self.grown.link) is not None:
                document["link"] = {"error": plain(link.error), "common": json_rows(link.common)}
        document |= beside
        if self.leaderboard is not None:
            document["groups"] = json_rows(self.leaderboard.to_columns())
        return json_text(document | {"ranking": json_rows(self.to_columns())})

    def __repr__(self) -> str:
        contexts = "" if self.context is None else f" in {self.graph.contexts} contexts"
        best = [visible(item, lines=False) for item in self.items[self._order[:3]]]
        if self.graph.nodes > 3:
            best.append("…")
        shared = "" if self.estimate == "judge" else ", " + whose(self).replace(", ", " with ")
        return f"<Ranking of {self.graph.nodes} candidates{contexts} by {self.method}{shared}: {', '.join(best)}>"

    def __str__(self) -> str:
        above = f"{consensus_sentence(self)}\n" if self.estimate == "consensus" else ""
        return above + table_text(self.to_columns(), self.notes)

    def _repr_html_(self) -> str:
        return table_html(self.to_columns(), self.notes)


def ranking_of(solution: Solution, level: float = 0.95) -> Ranking:
    """The ranking of a solution, with intervals of coverage `level`: the one place where a `Ranking` is made."""
    return Ranking(solution, solution.scores, solution.covariance, level)


def with_solution(ranking: Ranking, **changes: Any) -> Ranking:
    """The ranking with some fields of its solution changed, such as the groups."""
    return replace(ranking, solution=replace(ranking.solution, **changes))


def estimated(judged: Ranking, validity: float | None, **changes: Any) -> Ranking:
    """A ranking of people's view, estimated from a judge's with a validity; the judge's stays its `judged`."""
    return replace(with_solution(judged, validity=validity), _judged=judged, **changes)


def all_notes(ranking: Ranking) -> tuple[str, ...]:
    """The notes of a ranking and of its leaderboard, which `Ranking.notes` omit, because its fit takes time."""
    return (*ranking.notes, *(() if ranking.leaderboard is None else ranking.leaderboard.notes))
