"""comparo import: files of other tools as comparisons and items; comparo export: a run as files for other tools."""

from pathlib import Path
from typing import Annotated

import typer

from comparo.cli import flags as groups
from comparo.cli.printing import print_text, say
from comparo.data.formats import write_columns
from comparo.data.imports import Imported, import_file
from comparo.export import CONTEXT, ExportFormat, export_run


def import_command(
    file: Path,
    out: Path | None = None,
    items: Path | None = None,
    force: bool = False,
) -> None:
    """Comparisons, and texts if any, from files of promptfoo, AlpacaEval and Chatbot Arena.

    A system is an item, and a question a context. Prints the paths of the files that it wrote. Rows that hold no
    comparison are left out and counted; a malformed row is an error that names it, and nothing is written.

    Parameters
    ----------
    file : Results of promptfoo (results.json or .jsonl), annotations of AlpacaEval (annotations.json), or
        battles of Chatbot Arena (JSON, JSONL or Parquet); also gzipped.
    out : The file of comparisons: .csv, .jsonl or .parquet. Default: FILE-comparisons.csv, in the working folder.
    items : The file of the texts, written where FILE holds them: .jsonl, .csv or .parquet. Default: FILE-items.jsonl,
        or named after --out.
    force : Overwrite what is there.

    Examples
    --------
    `comparo import annotations.json --out judged.csv`, then `comparo fit judged.csv --leaderboard` for the systems, or
    `comparo rank judged-items.jsonl --criterion 'more helpful'` to judge the texts again
    """
    stem = file.name.removesuffix(".gz").rpartition(".")[0]
    judged = out or Path(f"{stem}-comparisons.csv")
    texts = items or (Path(f"{stem}-items.jsonl") if out is None else out.with_name(f"{out.stem}-items.jsonl"))
    found = import_file(file)
    for path in (judged, texts) if found.items else (judged,):
        if path.exists() and not force:
            raise ValueError(f"{path} is there already; choose another --out or --items, or overwrite it by --force")
    found.comparisons.write(judged)
    print_text(f"{judged}\n")
    if found.items:
        write_columns(texts, found.items)
        print_text(f"{texts}\n")
    say(_summary(found))


def _summary(found: Imported) -> str:
    """What was read, in one line."""
    data = found.comparisons
    contexts = "" if data.contexts is None else f" in {len(data.contexts):,} contexts"
    judges = [] if data.judges is None else data.judges.tolist()
    who = ""
    if len(judges) == 1:
        who = f" by {judges[0]}"
    elif judges:
        who = f" by {len(judges):,} judges"
    left = ", ".join(f"{count:,} {why}" for why, count in found.left_out.items())
    said = f"{found.source}: {len(data):,} comparisons of {len(data.items):,} items{contexts}{who}"
    return f"{said}; left out: {left}" if left else said


def export_command(
    run: Annotated[Path, typer.Argument(callback=groups.run_folder)],
    output: Annotated[ExportFormat | None, typer.Option("--format")] = None,
    out: Path | None = None,
    texts: bool = False,
    prompt: Annotated[str, typer.Option("--dpo-prompt")] = CONTEXT,
    top: groups.Count = None,
    force: bool = False,
) -> None:
    """What a run found as a file for other tools: comparisons, preference pairs to train on, or a TREC run.

    Prints the path. A preference pair is one that was judged, in any order and by any voice; its margin is the
    difference of the two scores in the run's ranking. Ties, and pairs whose answers contradict the scores, are left out
    and counted.

    Parameters
    ----------
    run : A run folder, such as comparo-runs/TIME-NAME.
    output : csv, parquet, jsonl: the comparisons, a row per answer, as comparo fit reads them. dpo: preference pairs to
        train on, lines of JSON with prompt, chosen, rejected and margin. trec: the ranking for ranx and trec_eval, a
        context as a query. Default: by the ending of --out, or csv.
    out : The file. Default: the name of RUN, in the working folder.
    texts : Comparisons with the texts: first_text, second_text, context_text.
    prompt : For dpo: what both texts answer; {context} stands for the text of their context, as in 'Summarise:
        {context}'.
    top : For trec: only the best so many of each query.
    force : Overwrite what is there.

    Examples
    --------
    `comparo export comparo-runs/20260301-120000-answers --format dpo --out pairs.jsonl`
    """
    done = export_run(run, out, format=output, texts=texts, prompt=prompt, top=top, force=force)
    rows = ", ".join(f"{count:,} {name}" for name, count in done.rows.items())
    say(f"{rows}; left out: {done.left_out}" if done.left_out else rows)
    print_text(f"{done.path}\n")
