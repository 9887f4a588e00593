"""comparo rank: the whole job, from texts to a ranking."""

from dataclasses import dataclass, replace
from pathlib import Path

from comparo.cli.finishing import FailFlags, RankingFlags, rank_by
from comparo.cli.flags import GroupFlags, JudgeFlags, named
from comparo.log.folders import Mode
from comparo.options import AmountOptions, PairOptions, QuestionOptions, RankOptions, ScoreOptions, VoteOptions
from comparo.run.budget import Budget
from comparo.run.rank import items_of, plan_rank


@dataclass(frozen=True)
class LinkFlags:
    """How much is asked.

    Parameters
    ----------
    link : The folder of another run: all texts are ranked on its scale, by pairs of both (docs/grades.md).
    batch : Ask the server for a batch at half the price (openai/, anthropic/; docs/batch.md): wait for it, also days
        later; submit it, and collect later; cancel it, and keep what was answered.
    """

    link: Path | None = None
    batch: Mode | None = None


def rank_command(
    data: str,
    *,
    columns: GroupFlags,
    votes: VoteOptions,
    question: QuestionOptions,
    asked: JudgeFlags,
    amount: AmountOptions,
    known: LinkFlags,
    pairs: PairOptions,
    scores: ScoreOptions,
    flags: RankingFlags,
    fails: FailFlags,
) -> None:
    """Rank texts by a judge, from few comparisons, safe to stop and start again.

    The ranking goes to stdout, progress to stderr, and everything asked to a run folder with a report to open in a
    browser. The same command continues a run that was stopped.

    Parameters
    ----------
    data : The texts: JSONL, JSON, CSV, TSV, Parquet or .xlsx with columns id, text (and context, and anchor: scores
        that are known, docs/grades.md), a folder of .txt or .md files, a .txt file with a text a line, a run folder, or
        - for stdin.
    dry_run : Say calls, tokens, price and the first question; ask nothing.
    out : The run folder; new items are added to its run. Default: comparo-runs/TIME-NAME.

    Examples
    --------
    `comparo rank stories.jsonl --criterion 'more surprising' --kind Story`, or with a server: `comparo rank
    summaries.csv --context article --criterion 'more coherent' --judge openai/gpt-6-luna --budget 20n --until 0.95`
    """
    Budget.of(amount.budget)
    given = vars(votes) | vars(question) | vars(amount) | vars(pairs) | vars(scores) | columns.names
    options = RankOptions(**given, out=flags.storage(named(data), **vars(known)))
    items = items_of(data, options)
    prepared = plan_rank(items, replace(options, judge=asked.make(items)))
    ranking = rank_by(prepared, flags)
    fails.check(ranking, flags.console)
