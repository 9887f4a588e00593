"""comparo study: how few comparisons are enough, and by which method."""

import itertools
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from comparo.cli.flags import ColumnFlags, SeedFlag
from comparo.cli.printing import print_notes, print_table, print_text, say
from comparo.methods import ESTIMATES, METHODS, UNBIASED
from comparo.model.estimators.poe import Bias
from comparo.selection.designs import Orders
from comparo.studies.display import ResultTable, attributes_table, correlations_table, retention_table
from comparo.studies.draws import DrawStrategy
from comparo.studies.recorded import open_set
from comparo.studies.sweep import Results, Way, sweep

StudyFormat = Literal["table", "markdown", "csv"]
Kind = Literal["spearman", "pearson", "ndcg", "recall", "retention"]


def study_command(
    data: Path,
    *,
    judgements: Path | None = None,
    attribute: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    method: Annotated[list[str] | None, typer.Option(metavar="METHOD")] = None,
    calls: str = "2n,3n,5n,10n,all",
    draws: Annotated[int, typer.Option(min=1)] = 100,
    orders: Annotated[list[str] | None, typer.Option(metavar="both|one")] = None,
    strategy: Annotated[list[str] | None, typer.Option(metavar="random|greedy")] = None,
    bias: Annotated[list[str] | None, typer.Option(metavar="none|plug-in|joint")] = None,
    table: Kind = "spearman",
    output: Annotated[StudyFormat, typer.Option("--format")] = "table",
    out: Path | None = None,
    columns: ColumnFlags,
    seed: SeedFlag = 0,
    processes: Annotated[int, typer.Option(min=1)] = 2,
) -> None:
    """How few comparisons are enough, and by which method? From recorded judgements.

    The given number of calls is drawn at random from the recorded ones many times, every item in at least one call, and
    each method's scores are compared with people's. Repeat --orders, --strategy and --bias to compare ways of asking:
    all combinations are studied, on the same draws where they make the same calls.

    Parameters
    ----------
    data : A file of items with people's scores: JSONL, JSON, CSV, TSV, Parquet or .xlsx, a column id and columns score
        or score_….
    judgements : What a judge answered: a file of comparisons (first, second, p and, if there are contexts, context) of
        one attribute, or a folder with a file SET.ATTRIBUTE.csv for each. Default: the folder judgements beside the
        data.
    attribute : What was judged, by the name of people's scores; may be repeated. Default: all that were.
    method : How comparisons become scores: rank, as comparo rank does without texts; or as by comparo fit, except that
        win-ratio, bt and poe-g-hard without a bias have the paper's set-up: both orders of a pair are one decision, and
        bt has the paper's prior. May be repeated. Default: all.
    calls : How many calls in each context, with commas between: 48 is a number, 3n three per item, all every one that
        was recorded. In both orders a pair takes two calls.
    draws : How many times the calls are drawn from the recorded ones.
    orders : both: each pair is asked in both orders. one: in a random one. May be repeated. Default: both
    strategy : random: any pairs. greedy: the paper's selection. May be repeated. Default: random
    bias : How the position bias is taken out by methods that can, see comparo fit. May be repeated. Default: that of
        comparo fit.
    table : What to print: the Spearman or Pearson correlation with people's scores × 100, mean over contexts and
        attributes ± standard deviation over draws; nDCG or recall of the ten best, likewise; or retention, the share of
        the full set's correlation that is kept, and the calls needed for 95% of it.
    output : How to print the table.
    out : A folder for all tables, in all formats, and the figure.
    seed : The same seed gives the same study.
    processes : How many processes share the work.

    Examples
    --------
    `comparo study items.jsonl --judgements recorded.csv --columns scores=coherence --orders both --orders one
    --bias none --bias joint --method poe-bt --out study`
    """
    items = columns.read(str(data)) if data.exists() else None
    opened = open_set(data, judgements, attributes=attribute or (), items=items)
    ways = _ways(method, bias, orders, strategy)
    wanted = [each.strip() for each in calls.split(",") if each.strip()]
    results = sweep(opened.recorded, ways, wanted, draws=draws, seed=seed, processes=processes)
    _print(_table(results, table), output)
    print_notes(results.notes)
    if out is not None:
        _write(results, out)
        say(f"Tables and a figure: {out}")


def _ways(
    methods: list[str] | None, biases: list[str] | None, orders: list[str] | None, strategies: list[str] | None
) -> list[Way]:
    """All combinations of the flags; a method without this bias has its own."""
    every = itertools.product(
        _checked("--strategy", strategies, get_args(DrawStrategy), ("random",)),
        _checked("--orders", orders, get_args(Orders), ("both",)),
        _checked("--method", methods, ("rank", *METHODS), ("rank", *METHODS)),
        _checked("--bias", biases, get_args(Bias), (None,)),
    )
    ways = {}
    for strategy, order, method, bias in every:
        is_other = method in UNBIASED or (method in ("rank", *ESTIMATES) and bias == "plug-in")
        way = Way.of(method, None if is_other else bias, orders=order, strategy=strategy)
        ways[way.name] = way
    return list(ways.values())


def _checked(flag: str, values: list[str] | None, known: tuple[Any, ...], default: tuple[Any, ...]) -> tuple[Any, ...]:
    if unknown := [value for value in values or () if value not in known]:
        raise ValueError(f"{flag} is one of {', '.join(known)}, not {unknown[0]!r}")
    return tuple(values) if values else default


def _table(results: Results, kind: Kind) -> ResultTable:
    return retention_table(results) if kind == "retention" else correlations_table(results, kind)


def _print(table: ResultTable, output: StudyFormat) -> None:
    if output == "table":
        print_table(table.columns, table.texts())
        print_text(f"\n{table.title}\n")
    else:
        print_text(getattr(table, output)().rstrip("\n") + "\n")


def _write(results: Results, folder: Path) -> None:
    """All tables in all formats, and the figure."""
    from comparo.studies.display import efficiency_figure

    tables = {kind: _table(results, kind) for kind in get_args(Kind)}
    if len(results.attributes) > 1:
        tables |= {f"spearman_{calls}": attributes_table(results, calls) for calls in results.calls}
    folder.mkdir(parents=True, exist_ok=True)
    efficiency_figure(results).savefig(folder / "efficiency.png", metadata={"Software": None})
    for name, table in tables.items():
        for ending, text in (("md", table.markdown()), ("csv", table.csv())):
            (folder / f"{name}.{ending}").write_text(text.rstrip("\n") + "\n", encoding="utf-8")
