"""comparo fit: scores and a ranking from recorded comparisons."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from comparo.cli.printing import Format, print_board, print_notes, print_ranking, say
from comparo.data.comparisons import Comparisons
from comparo.data.items import LENGTH, Items
from comparo.data.several import read_several
from comparo.data.sources import database_of
from comparo.methods import Method, PriorPairs, quiet_fit
from comparo.model.product import Bias
from comparo.model.zermelo import Algorithm
from comparo.ranking.equal import control_sentences
from comparo.ranking.grouping import group_codes
from comparo.ranking.indecision import tie_sentences

EPILOG = "Example: `comparo fit comparisons.csv --method poe-bt --bias joint --format csv`; `comparo fit sheets/*.xlsx`"


def fit_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Comparisons: CSV, TSV, JSONL, JSON, Parquet or .xlsx, also gzipped, or a run folder; several are "
            "read as one. Columns first, second, p (the probability that the first is better) and, if you have them, "
            "weight, context, judge; or a column winner in place of p: first, second, A, B, an item's name, or tie; "
            "also model_a, model_b, winner; or left, right, winner. Rows without a winner were not judged: left out."
        ),
    ],
    method: Annotated[
        Method | None,
        typer.Option(
            help="How comparisons become scores. poe-bt and poe-g combine the judge's probabilities; bt, poe-g-hard "
            "and win-ratio use only who won, davidson also who tied; avg-prob is the mean probability. mixed estimates "
            "all variances from the comparisons, as comparo rank does. panel is the consensus of several judges "
            "(column judge), and tells what each is worth; bt-sigma is Bradley–Terry with one discrimination per "
            "judge. Default: poe-bt, and mixed for several files with several judges."
        ),
    ] = None,
    bias: Annotated[
        Bias | None,
        typer.Option(
            help="A judge may favour what it sees first. joint: estimate by how much, along with the scores, for each "
            "context and judge. plug-in: from the mean probability. Default: joint for mixed and panel, else none."
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="Standard deviation of a Gaussian prior on the scores, or 'first' to fix only the first item, as the "
            "paper does. Default: first for poe-g and poe-g-hard; for poe-bt 100, or 10 if all answers are decisions."
        ),
    ] = None,
    algorithm: Annotated[
        Algorithm, typer.Option(help="For bt: how to solve it; newman needs fewer steps.")
    ] = "zermelo",
    prior_pairs: Annotated[
        PriorPairs, typer.Option(help="For bt: which pairs get the prior of 1/(N − 1) wins for either side.")
    ] = "compared",
    people: Annotated[
        list[str] | None,
        typer.Option(help="For panel: a judge that is a person. The consensus is what people say. May be repeated."),
    ] = None,
    control: Annotated[
        list[str] | None,
        typer.Option(
            help="For mixed and panel: what is held equal, length or a column of numbers of --items. Prints scores at "
            "equal length beside the others, and what each judge gives for length. May be repeated."
        ),
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option(
            help="For --control: the file of the texts, with columns id, text and, if you have them, context_id. "
            "Default: those of a run folder."
        ),
    ] = None,
    leaderboard: Annotated[
        bool,
        typer.Option(
            "--leaderboard",
            help="Rank the items over all contexts too, as when systems (the items) answer many questions (contexts).",
        ),
    ] = False,
    level: Annotated[
        float, typer.Option(help="Coverage of the intervals low to high, and what separates tiers.")
    ] = 0.95,
    top: Annotated[int | None, typer.Option(min=1, help="Print only the best TOP of each context.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to print the ranking.")] = "table",
) -> None:
    """Scores and a ranking from recorded comparisons.

    Prints, best first: score, its standard error and interval, rank, tier (items that cannot be told apart share one)
    and how many comparisons the item is in. A panel adds a table of its judges: agreement with the consensus, scale,
    taste, noise and position bias.
    """
    comparisons = read_several(files)
    ranking = quiet_fit(
        comparisons,
        method or _usual(files, comparisons, prior),
        bias=bias,
        prior=_prior(prior),
        control=_held(files, control, items),
        people=people or (),
        algorithm=algorithm,
        prior_pairs=prior_pairs,
        level=level,
    )
    if leaderboard:
        ranking = replace(ranking, group=group_codes(ranking.comparisons, ranking.graph, "items"))
        board = ranking.groups()  # says what is wrong where items cannot be compared
        if output == "table":
            print_board(board)
    print_ranking(ranking, output, top)
    print_notes(ranking.notes)
    for sentence in (*tie_sentences(ranking.ties), *control_sentences(ranking.control)):
        say(sentence)


def _usual(files: list[Path], comparisons: Comparisons, prior: str | None) -> Method:
    """The method where none is named; one file is fitted as it always was."""
    judges = len(np.unique(comparisons.judged_by))
    if len(files) == 1 or judges == 1 or prior is not None:
        return "poe-bt"
    say(
        f"{judges} judges: method mixed, with a position bias and ties of each; --method panel also estimates what "
        "each judge is worth, and --method poe-bt takes all answers as those of one judge"
    )
    return "mixed"


def _held(files: list[Path], control: list[str] | None, items: Path | None) -> dict[str, dict[Any, Any]] | None:
    """What is held equal, by the labels of the comparisons: CSV has text where the items may have numbers."""
    if not control:
        if items is not None:
            raise ValueError("--items belongs to --control; add it, or leave --items out")
        return None
    if items is None and (len(files) > 1 or database_of(files[0]) is None):
        raise ValueError("--control needs the texts; name their file by --items")
    texts = Items.of(str(items or files[0]), numbers=[name for name in control if name != LENGTH])
    found: dict[str, dict[Any, Any]] = {}
    for name, of_item in texts.held(control).items():
        found[name] = of_item | {(None if a is None else str(a), str(b)): value for (a, b), value in of_item.items()}
        if len(set(texts.ids.tolist())) == len(texts):
            found[name] |= {spelt: value for (_, b), value in of_item.items() for spelt in (b, str(b))}
    return found


def _prior(text: str | None) -> Any:
    if text in (None, "first", "estimated"):
        return text
    try:
        return float(str(text))
    except ValueError:
        raise ValueError(f"--prior is a number above 0, 'first' or 'estimated', not {text!r}") from None
