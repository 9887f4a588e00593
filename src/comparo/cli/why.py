"""comparo why: why did it win?"""

from pathlib import Path
from typing import Annotated, Any

import typer

from comparo.cli import flags as groups
from comparo.cli.finishing import RunFlags, complete, print_plan
from comparo.cli.flags import JudgeFlags
from comparo.cli.printing import Format, cost_words, print_as, print_table, print_text
from comparo.data.sanitize import visible
from comparo.model.estimators.coefficients import DISCOVERY, ReasonEffect
from comparo.options import ShareOptions
from comparo.ranking.tabular import rows_of, with_interval
from comparo.report.command_pages import write_why
from comparo.report.record import read_record
from comparo.run.why import FEEDBACK, Explanation, prepare_why

SHOWN = 12  # reasons in the table, beside those that are found
WHO = ("judge", "people")


def why_command(
    run: Annotated[Path, typer.Argument(callback=groups.run_folder)],
    asked: JudgeFlags,
    because: list[str] | None = None,
    propose: Annotated[int, typer.Option(min=0)] = 0,
    votes: Path | None = None,
    between: list[str] | None = None,
    item: str | None = None,
    *,
    share: ShareOptions,
    flags: RunFlags,
) -> None:
    """Why texts win: how much of a ranking each reason explains, and what would raise a text.

    Without --judge, reasons are computed from the texts, and nothing is asked: length, long words, examples, sources.
    With --judge, about 13 more are asked in one call about each pair of the run. Writes why.html, why.json and
    why.csv, a sentence per text, to RUN.

    Parameters
    ----------
    run : A run folder, such as comparo-runs/TIME-NAME.
    because : A reason in your words, to end "Which text is …" or "Which text …": "cites sources". May be repeated.
    propose : Ask the judge about so many of the most decisive pairs what made one win, and count its reasons too.
    votes : A file of people's votes about the same texts, with a column reason if they wrote why; shows what moves
        people beside what moves the judge.
    between : The names of two groups of texts, such as systems, given twice: why the first beats the second.
    item : The id of a text, or CONTEXT/ID: what would raise it most, with two pairs that show it.
    out : The folder of the calls. Default: beside RUN, one for each set of reasons.

    Examples
    --------
    `comparo why comparo-runs/20260301-120000-stories --judge openai/gpt-6-luna --because 'cites sources'`
    """
    if between and not len(between) == len(set(between)) == 2:
        raise ValueError("--between names two groups: --between A --between B")
    if len(asked.judge or ()) > 1:
        raise ValueError("comparo why asks one judge; give one --judge")
    record = read_record(run)
    judge = asked.make(record.items)[0] if asked.judge else None
    plan = prepare_why(
        run,
        record.ranking,
        judge,
        because=because or (),
        propose=propose,
        budget=share.budget,
        votes=votes,
        between=between or (),
        item=item,
        out=flags.storage(),
    )
    if flags.dry_run:
        if plan.base is None:
            print_text("no calls: all reasons are computed from the texts; --judge asks about more\n")
        else:
            print_plan(plan.base)
        if plan.proposals is not None:
            print_text("before these, for reasons of its own: " + plan.proposals.words + "\n")
        return
    console, found = flags.console, complete(plan, flags)
    _print(found, flags.output)
    found.write(run)
    console.print(visible(found.why.summary))
    if found.judge is None:
        console.print("Computed from the texts; --judge NAME asks about more reasons, and --dry-run says the price")
    elif words := cost_words(found.cached, found.calls, found.cost):
        console.print("; ".join(words))
    console.print(f"Report: {write_why(run, found, record)}; a sentence per text: {run / FEEDBACK}")


def _print(found: Explanation, output: Format) -> None:
    if print_as(output, found.why.to_columns(), found.to_dict()):
        return
    header = ["reason", "on its own", "beyond the others", "logits", "verdict"]
    rows: list[list[Any]] = []
    for number, one in enumerate(found.why.reasons):
        if number < SHOWN or one.verdict != "not shown":
            effect, *ends = (one.sign * part for part in (one.beyond.effect, one.beyond.low, one.beyond.high))
            logits = with_interval(effect, min(ends), max(ends), "+.2f")
            rows.append([one.words, _share(one.alone), _share(one.beyond), logits, one.verdict])
    print_table(header, rows)
    if found.between:
        these, those = found.between
        table = found.why.between(these, those, most=SHOWN // 2)
        print_text(f"\nWhy {visible(these)} is {found.place} {visible(those)}, in logits:\n")
        parts = []
        for row in rows_of(table):
            part = with_interval(row["part"], row["low"], row["high"], "+.2f")
            parts.append([row["words"], part])
        print_table(["reason", "part (95% interval)"], parts)
    if found.advice is not None:
        _print_advice(found.advice)
    if found.people is not None:
        print_text(
            "\nWhat moves the judge and people, in standard deviations of their scores (−: the opposite wins):\n"
        )
        said = []
        for row in rows_of(found.why.beside(found.people)):
            both = [with_interval(row[who], row[f"{who}_low"], row[f"{who}_high"], "+.2f") for who in WHO]
            said.append([row["words"], *both, "yes" if row["adjusted"] <= DISCOVERY else ""])
        print_table(["reason", *WHO, "differ"], said)
    if found.stated:
        said_most = "; ".join(f"{words} ({count:,})" for words, count in found.stated.items())
        print_text(f"\nPeople wrote most often: {visible(said_most, lines=False)}\n")


def _share(one: ReasonEffect) -> str:
    return with_interval(one.share, one.share_low, one.share_high, ".0%")


def _print_advice(advice: dict[str, Any]) -> None:
    if not advice["raise"]:
        print_text(f"\n{visible(advice['item'])}: no reason was shown that would raise it\n")
        return
    gain = f"+{advice['gain']:.2f} logits, as the best quarter of its context"
    print_text(f"\n{visible(advice['item'])} would rise most if it were or did this: {advice['raise']} ({gain})\n")
    for pair in advice["pairs"]:
        text = visible(" ".join(pair["text"].split())[:160], lines=False)
        print_text(f"  lost to {visible(pair['winner'])} ({pair['p']:.0%}): {text}\n")
