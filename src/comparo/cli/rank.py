"""comparo rank: the whole job, from texts to a ranking."""

from pathlib import Path
from typing import Annotated, Any

import typer

from comparo.cli import flags as groups
from comparo.cli.finishing import RankingFlags, fail_if_unreliable, rank_by
from comparo.cli.flags import ColumnFlags, JudgeFlags, named
from comparo.data.covariates import columns_in
from comparo.options import AmountOptions, PairOptions, QuestionOptions, ScoreOptions, VoteOptions
from comparo.run.audit_card import audited_terms
from comparo.run.budget import Budget
from comparo.run.rank import prepare_rank
from comparo.run.resume import items_before

MUCH = "How much is asked"  # where --help shows some flags


def rank_command(
    data: str,
    *,
    columns: ColumnFlags,
    group: groups.GroupColumn = None,
    votes: VoteOptions,
    question: QuestionOptions,
    asked: JudgeFlags,
    amount: AmountOptions,
    link: Annotated[Path | None, typer.Option(rich_help_panel=MUCH)] = None,
    batch: groups.BatchFlag = None,
    pairs: PairOptions,
    scores: ScoreOptions,
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
    link : The folder of another run: all texts are ranked on its scale, by pairs of both (docs/grades.md).
    dry_run : Say calls, tokens, price and the first question; ask nothing.
    out : The run folder; new items are added to its run. Default: comparo-runs/TIME-NAME.

    Examples
    --------
    `comparo rank stories.jsonl --criterion 'more surprising' --kind Story`, or with a server: `comparo rank
    summaries.csv --context article --criterion 'more coherent' --judge openai/gpt-6-luna --budget 20n --until 0.95`
    """
    Budget.of(amount.budget)
    numbers = columns_in(audited_terms(scores.control))
    old = items_before(flags.out, link, flags.fresh)
    items = columns.read(data, group=group, numbers=numbers, old=old)
    if len({*items.anchors.values(), *(old.anchors.values() if old else ())}) == 1:
        raise ValueError("the column anchor has one score only; give texts of different quality, or drop the column")
    given: dict[str, Any] = {}
    for options in (votes, question, amount, pairs, scores):
        given |= vars(options)
    given["out"] = flags.storage(named(data), batch=batch, link=link)
    prepared = prepare_rank(items, context=columns.context_column, judge=asked.make(items), **given)
    ranking = rank_by(prepared, flags)
    if fail_if_judge_unreliable:
        fail_if_unreliable(ranking, flags.console)
