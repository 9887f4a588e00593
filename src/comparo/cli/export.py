"""comparo export: what a run found, for other tools."""

from pathlib import Path
from typing import Annotated

import typer

from comparo.cli import flags as groups
from comparo.cli.printing import print_text, say
from comparo.export import Format, export_run
from comparo.export.preferences import CONTEXT

EPILOG = (
    "Example: `comparo export comparo-runs/20260301-120000-answers --format dpo --least-margin 0.5 --out pairs.jsonl`"
)


def export_command(
    run: Annotated[
        Path, typer.Argument(help="A run folder, such as comparo-runs/TIME-NAME.", callback=groups.run_folder)
    ],
    output: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="csv, parquet, jsonl: the comparisons, a row per answer, as comparo fit reads them. dpo: preference "
            "pairs to train on, lines of JSON with prompt, chosen, rejected and margin. hf: a data set folder in the "
            "layout of Hugging Face, with a card; nothing is uploaded. Default: by the ending of --out, or csv.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The file, or the folder for hf. Default: the name of RUN, in the working folder."),
    ] = None,
    texts: Annotated[
        bool, typer.Option("--texts", help="Comparisons with the texts: first_text, second_text, context_text.")
    ] = False,
    prompt: Annotated[
        str,
        typer.Option(
            "--dpo-prompt",  # not --prompt, which a comparo.toml may have for the judge's
            help="For dpo: what both texts answer; {context} stands for the text of their context, as in 'Summarise: "
            "{context}'.",
        ),
    ] = CONTEXT,
    conversational: Annotated[
        bool,
        typer.Option("--conversational", help="For dpo: prompt and texts as messages, with role and content."),
    ] = False,
    least_margin: Annotated[
        float,
        typer.Option(
            help="For dpo: leave out pairs whose scores differ by less. Scores are in logits: at 1, the model expects "
            "the better one to win with probability 0.73."
        ),
    ] = 0.0,
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
) -> None:
    """What a run found as a file for other tools: comparisons, preference pairs, a data set for Hugging Face.

    Prints the path. A preference pair is one that was judged, in any order and by any voice; its margin is the
    difference of the two scores in the run's ranking. Ties, and pairs whose answers contradict the scores, are left out
    and counted.
    """
    done = export_run(
        run,
        out,
        format=output,
        texts=texts,
        prompt=prompt,
        conversational=conversational,
        least_margin=least_margin,
        force=force,
    )
    rows = ", ".join(f"{count:,} {name}" for name, count in done.rows.items())
    say(f"{rows}; left out: {done.left_out}" if done.left_out else rows)
    print_text(f"{done.path}\n")
