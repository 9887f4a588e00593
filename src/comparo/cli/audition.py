"""comparo audition: which judge, and which wording, without a single label."""

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from comparo.cli.finishing import RunFlags, complete
from comparo.cli.flags import GroupFlags, JudgeFlags, named
from comparo.cli.printing import cost_words, print_as, print_notes, print_table
from comparo.cli.settings import command_line
from comparo.log.configuration import paid_and_spent
from comparo.log.files import write_text
from comparo.options import AuditionOptions, CriterionOptions, TrialOptions
from comparo.ranking.tabular import json_text
from comparo.report import write_report
from comparo.report.record import AUDITION
from comparo.run.audition import Audition, plan_audition
from comparo.run.voices import Voice, count_cached

SHARES = ("signal", "agreement", "content", "position", "flips", "mass")


def audition_command(
    data: str,
    question: CriterionOptions,
    asked: JudgeFlags,
    columns: GroupFlags,
    *,
    trial: TrialOptions,
    flags: RunFlags,
) -> None:
    """Which judge and which wording, without a single label: all get the same few pairs, in both orders.

    A voice is a judge with a wording (--wording all: every one that can put the criterion), and with --lineup 2
    --lineup 4 a number of texts in a call. Prints for each voice how
    much of its answers is about the texts, about their order, and agreed on by the others; names the voice to use.

    Parameters
    ----------
    data : The texts, as for comparo rank; some contexts and texts are chosen from them.

    Examples
    --------
    `comparo audition stories.jsonl --criterion 'more surprising' --judge openai/gpt-6-luna --judge local/smollm2
    --wording all --dry-run`
    """
    items = columns.read(data)
    given = vars(question) | vars(trial) | {"context": columns.context_column, "judge": asked.make(items)}
    plan = plan_audition(items, AuditionOptions(**given, out=flags.storage(f"{named(data)}-audition")))
    console, found, voices = flags.console, complete(plan, flags), plan.base.task.voices
    write_text(Path(found.answers.source) / AUDITION, json_text(found.to_dict()) + "\n")
    page = write_report(found.answers.source)
    _print(found, flags)
    names = [voice.name or found.best for voice in voices]
    if found.best in names:  # the best may also be all voices together, where there are few answers
        following = _following(found, asked, bool(question.wording), voices, names.index(found.best))
        console.print(f"To rank all texts by {found.best}, with the answers of the audition:\n  {following}")
    console.print(f"Report: {page}")


def _following(found: Audition, asked: JudgeFlags, is_worded: bool, voices: Sequence[Voice], best: int) -> str:
    """The command that ranks all texts by the best of these voices, and begins with its answers."""
    prompt, judge = voices[best].prompt, best * len(asked.judges) // len(voices)
    chosen = {**asked.of_one(judge), "wording": [prompt.wording] if is_worded else None}
    chosen["lineup"] = None if prompt.size == 2 else prompt.size
    usual = dict.fromkeys(("out", "pairs", "seed", "output", "dry_run", "quiet", "fresh"))
    command = command_line("rank", **chosen, **usual)
    return f"{command} {shlex.join(['--audition', found.answers.source])}"


def _print(found: Audition, flags: RunFlags) -> None:
    answers = [one for one in found.answers.judgements if not one.failed]
    cached, (_, spent) = count_cached(answers), paid_and_spent(answers)
    if not print_as(flags.output, found.table, found.to_dict() | {"cached": cached}):
        print_table(*_rows(found))
    if flags.output == "json":
        return
    if not flags.quiet:
        print_notes(found.notes)
    if words := cost_words(cached, len(answers), spent):
        flags.console.print("; ".join(words))
    flags.console.print(found.advice)
    if len(found.panel) > 1:
        others = ", ".join(found.panel[1:])
        told = f"With calls for several voices, add those that show nearly as much and agree: {others}."
        flags.console.print(told)


def _rows(found: Audition) -> tuple[list[str], list[list[Any]]]:
    """The table for people: shares in percent with their intervals, the price of a thousand calls, and speed."""
    table = found.table
    header = ["voice", "calls", *SHARES, "$ per 1,000 calls", "seconds per call"]
    header += ["shown per call", "per 1,000 tokens"] if found.has_lineups else []
    rows = []
    for row, name in enumerate(table["judge"].tolist()):
        shares = [_share(table, each, row) for each in SHARES]
        price, seconds = float(table["cost"][row]) * 1000, float(table["seconds"][row])
        shown = [float(table[each][row]) for each in ("per_call", "per_token") if found.has_lineups]
        known = ["" if math.isnan(value) else f"{value:.3g}" for value in (price, seconds, *shown)]
        rows.append([name, str(table["calls"][row]), *shares, *known])
    return header, rows


def _share(table: Any, name: str, row: int) -> str:
    value, low, high = (float(table[key][row]) for key in (name, f"{name}_low", f"{name}_high"))
    if np.isnan(value):
        return ""
    written = f"{value:.2f}" if name == "agreement" else f"{value:.0%}"
    if np.isnan(low) or np.isnan(high):
        return written
    ends = f"{low:.2f} to {high:.2f}" if name == "agreement" else f"{100 * low:.0f} to {100 * high:.0f}"
    return f"{written} ({ends})"
