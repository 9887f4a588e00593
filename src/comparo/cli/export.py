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
    run: Annotated[Path, typer.Argument(callback=groups.run_folder)],
    output: Annotated[Format | None, typer.Option("--format")] = None,
    out: Path | None = None,
    texts: bool = False,
    prompt: Annotated[str, typer.Option("--dpo-prompt")] = CONTEXT,
    conversational: bool = False,
    least_margin: float = 0.0,
    force: bool = False,
) -> None:
    """What a run found as a file for other tools: comparisons, preference pairs, a data set for Hugging Face.

    Prints the path. A preference pair is one that was judged, in any order and by any voice; its margin is the
    difference of the two scores in the run's ranking. Ties, and pairs whose answers contradict the scores, are left out
    and counted.

    Parameters
    ----------
    run : A run folder, such as comparo-runs/TIME-NAME.
    output : csv, parquet, jsonl: the comparisons, a row per answer, as comparo fit reads them. dpo: preference pairs to
        train on, lines of JSON with prompt, chosen, rejected and margin. hf: a data set folder in the layout of Hugging
        Face, with a card; nothing is uploaded. Default: by the ending of --out, or csv.
    out : The file, or the folder for hf. Default: the name of RUN, in the working folder.
    texts : Comparisons with the texts: first_text, second_text, context_text.
    prompt : For dpo: what both texts answer; {context} stands for the text of their context, as in 'Summarise:
        {context}'.
    conversational : For dpo: prompt and texts as messages, with role and content.
    least_margin : For dpo: leave out pairs whose scores differ by less. Scores are in logits: at 1, the model expects
        the better one to win with probability 0.73.
    force : Overwrite what is there.
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
