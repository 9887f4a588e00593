"""comparo rank: the whole job, from texts to a ranking."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from comparo.cli import flags as groups
from comparo.cli.finishing import RankingFlags, fail_if_unreliable, rank_by
from comparo.cli.flags import ColumnFlags, CriteriaFlags, JudgeFlags, SeedFlag, named
from comparo.data.covariates import columns_in
from comparo.data.sheets import read_several
from comparo.methods import METHODS
from comparo.run.audit_card import audited_terms
from comparo.run.budget import Budget
from comparo.run.rank import prepare_rank
from comparo.run.resume import items_before
from comparo.run.task import DEFAULT_LEAST_MASS
from comparo.selection.designs import DEFAULT_BUDGET, DEFAULT_GOAL, DEFAULT_ORDERS, Orders, Strategy

MUCH = "How much is asked"  # where --help shows some flags


@dataclass(frozen=True)
class BudgetFlags:
    """How much is asked.

    Parameters
    ----------
    budget : Calls: 500, 10n (per item) or 5% (of all pairs); or 300k tokens, or $2.50.
    lineup : How many texts a call is about, 2 to 8 (docs/lineups.md); auto: by a pilot.
    until : Stop once the goal is this sure: the expected Spearman correlation with the true order, or the probability
        that the best are right.
    goal : ranking, top-K (who is among the best K), systems (distinguish groups) or best-system (find the best group).
    least_mass : Stop if the judge puts less than this share of its probability on the labels; 0 never.
    """

    budget: str = DEFAULT_BUDGET
    lineup: str = "2"
    until: float | None = None
    goal: str = DEFAULT_GOAL
    least_mass: float = DEFAULT_LEAST_MASS


@dataclass(frozen=True)
class How:
    """How pairs are chosen, and how answers become scores.

    Parameters
    ----------
    strategy : random, greedy (best connected) or adaptive (by the answers). Default: greedy, adaptive for other goals
        than ranking.
    orders : Ask each pair in both orders (two calls), or in one.
    seed : The same seed and answers give the same run.
    plain : As in the paper: texts not looked at, equal weights, method poe-bt.
    estimate : Whose ranking: judge; consensus, what people would say as far as a judge knows; auto: that where texts
        share groups; or a consensus by the share of the judge's view of single texts that people share, such as 0.5.
    control : Control for length, markup, opening, a column of numbers, or what an audit found, by its folder; may be
        repeated.
    """

    strategy: Strategy | None = None
    orders: Orders = DEFAULT_ORDERS
    seed: SeedFlag = 0
    plain: bool = False
    method: Annotated[
        str | None,
        typer.Option(
            help=f"As of comparo fit: {', '.join(METHODS)}; also with its position bias (none, plug-in, joint): 'poe-bt"
            "; bias=joint'. Default: mixed; panel for several voices."
        ),
    ] = None
    estimate: str = "auto"
    control: list[str] | None = None


def rank_command(
    data: str,
    *,
    columns: ColumnFlags,
    group: groups.GroupColumn = None,
    votes: Annotated[list[Path] | None, typer.Option(rich_help_panel=groups.TEXTS)] = None,
    question: CriteriaFlags,
    asked: JudgeFlags,
    plan: BudgetFlags,
    audition: Annotated[Path | None, typer.Option(rich_help_panel=MUCH)] = None,
    link: Annotated[Path | None, typer.Option(rich_help_panel=MUCH)] = None,
    batch: groups.BatchFlag = None,
    how: How,
    flags: RankingFlags,
    fail_if_judge_unreliable: groups.FailIfJudgeUnreliable = False,
) -> None:
    """Rank texts by a judge, from few comparisons, safe to stop and start again.

    The ranking goes to stdout, progress to stderr, and everything asked to a run folder with a report to open in a
    browser. The same command continues a run that was stopped.

    Parameters
    ----------
    data : The texts: JSONL, JSON, CSV, TSV, Parquet or .xlsx with columns id, text (and context, and anchor: scores
        that are known, docs/grades.md), a folder of .txt or .md files, a .txt file with a text a line, a run folder, or
        - for stdin.
    votes : People's votes about some texts, in a file or folder (docs/people.md): the ranking is then what they would
        say of all. May be repeated.
    audition : The folder of an audition; its answers count within the budget.
    link : The folder of another run: all texts are ranked on its scale, by pairs of both (docs/grades.md).
    dry_run : Say calls, tokens, price and the first question; ask nothing.
    out : The run folder; new items are added to its run. Default: comparo-runs/TIME-NAME.

    Examples
    --------
    `comparo rank stories.jsonl --criterion 'more surprising' --kind Story`, or with a server: `comparo rank
    summaries.csv --context article --criterion 'more coherent' --judge openai/gpt-6-luna --budget 20n --until 0.95`
    """
    Budget.of(plan.budget)
    numbers = columns_in(audited_terms(how.control or ()))
    old = items_before(flags.out, link, flags.fresh)
    items = columns.read(data, group=group, numbers=numbers, old=old)
    if len({*items.anchors.values(), *(old.anchors.values() if old else ())}) == 1:
        raise ValueError("the column anchor has one score only; give texts of different quality, or drop the column")
    prompts = question.make(items, columns, asked.judges)
    prepared = prepare_rank(
        items,
        prompt=prompts,
        judge=asked.make(items),
        **asdict(plan) | asdict(how) | {"control": how.control or ()},
        audition=audition,
        votes=read_several(votes) if votes else None,
        weights=question.weights,
        out=flags.storage(named(data), batch=batch, link=link),
    )
    ranking = rank_by(prepared, flags)
    if fail_if_judge_unreliable:
        fail_if_unreliable(ranking, flags.console)
