"""comparo audit: what is this judge biased by?"""

import math
from pathlib import Path
from typing import Any

import typer

from comparo.cli.finishing import RunFlags, complete, print_plan
from comparo.cli.flags import ColumnFlags, JudgeFlags, named
from comparo.cli.printing import Console, Format, cost_words, print_as, print_table, print_text
from comparo.data.columns import as_number
from comparo.data.grammar import read_settings
from comparo.data.sanitize import visible
from comparo.options import AuditOptions, CriterionOptions, ProbeOptions
from comparo.ranking.tabular import with_interval
from comparo.report import write_report
from comparo.run.audit import plan_audit
from comparo.run.audit_card import Audit, check_limits

BIASED = 3  # the exit code of --fail-if


def audit_command(
    data: str,
    question: CriterionOptions,
    asked: JudgeFlags,
    columns: ColumnFlags,
    fail_if: list[str] | None = None,
    *,
    probes: ProbeOptions,
    flags: RunFlags,
) -> None:
    """What a judge is biased by: length, style, position, words to the judge; and what it does not see.

    Shows the judge variants of your texts beside the originals, in both orders. What each variant is worth is known, so
    no label is needed. Prints the effect of each in logits with an interval; false discoveries are held at 5%.

    Parameters
    ----------
    data : The texts, as for comparo rank; some of them are varied.
    fail_if : Exit with code 3 if a judge has this bias, and of so many logits or more: padded=0.5; any=0.5 for all
        others. May be repeated.
    out : The run folder, with a folder in it for each of several judges. Default: comparo-runs/TIME-NAME-audit.

    Examples
    --------
    `comparo audit answers.jsonl --criterion 'more helpful' --kind Answer --judge openai/gpt-6-luna --fail-if any=0.5`
    """
    limits = {name: as_number(value) for text in fail_if or () for name, value in read_settings(text)}
    check_limits(limits)
    items = columns.read(data)
    given = vars(question) | vars(probes) | {"context": columns.context_column, "judge": asked.make(items)}
    plan = plan_audit(items, AuditOptions(**given, out=flags.storage(f"{Path(named(data)).stem}-audit")))
    if flags.dry_run:
        for each in plan.plans:
            print_plan(each)
        return
    console, found = flags.console, complete(plan, flags)
    _print(found, flags.output, console)
    for each in plan.plans:
        if each.folder is not None:
            console.print(f"Report: {write_report(each.folder)}")
    if failures := found.failures(limits):
        for sentence in failures:
            console.print(f"{visible(sentence)}: exit code {BIASED}", style="red")
        raise typer.Exit(BIASED)


def _print(found: Audit, output: Format, console: Console) -> None:
    if print_as(output, found.to_columns(), found.to_dict()):
        return
    header = ["probe", "right", "pairs", "logits", "of two real texts", "verdict", "what helps"]
    for card in found.cards:
        if len(found.cards) > 1:
            print_text(f"{visible(card.name)}\n")
        rows: list[list[Any]] = []
        for one in card.findings:
            ends = with_interval(one.effect, one.low, one.high, ".2f")
            relative = "" if math.isnan(one.relative) else f"× {one.relative:.1f}"
            verdict = one.sentence.partition(":")[0] if one.verdict == "bias" else one.verdict
            rows.append([one.probe, one.right, str(one.pairs), ends, relative, verdict, one.remedy])
        print_table(header, rows)
        console.print(visible(card.summary))
        if words := cost_words(card.cached, card.calls, card.cost):
            console.print("; ".join(words))
