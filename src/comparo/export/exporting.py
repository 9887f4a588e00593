"""`export_run`: a run folder into files that other tools read."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from comparo.data.reading import split_ending
from comparo.data.writing import write_columns
from comparo.errors import StoreError
from comparo.export.preferences import CONTEXT, comparison_columns, preference_columns
from comparo.report.record import read_record
from comparo.run.store import read_configuration, read_judgements, stored_items

Format = Literal["csv", "parquet", "jsonl", "dpo"]
ENDINGS: dict[Format, str] = {"csv": ".csv", "parquet": ".parquet", "jsonl": ".jsonl", "dpo": "-dpo.jsonl"}


@dataclass(frozen=True)
class Exported:
    """What was written: the path, the number of rows by table, and a sentence about rows that were left out."""

    path: Path
    rows: dict[str, int]
    left_out: str = ""


def export_run(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    format: Format | None = None,  # noqa: A002
    texts: bool = False,
    prompt: str = CONTEXT,
    conversational: bool = False,
    least_margin: float = 0.0,
    force: bool = False,
) -> Exported:
    """Write what a run found into a file for other tools (docs/runs.md).

    Parameters
    ----------
    run
        A run folder.
    out
        The file; by default named after the run, in the working folder.
    format
        By default that of the ending of `out`, or "csv":

        - "csv", "parquet", "jsonl": the comparisons, a row per answer; `comparo.fit` reads them;
        - "dpo": preference pairs in lines of JSON: prompt, chosen, rejected, margin, p, answers and the ids. The margin
          is the difference of the scores in the run's ranking; ties, and pairs whose answers contradict the scores, are
          left out (`comparo.export.preferences`).
    texts
        Comparisons with the texts: first_text, second_text and context_text.
    prompt, conversational, least_margin
        For "dpo": what both texts answer, {context} standing for the text of their context; messages in place of
        texts; and the smallest margin of a pair.
    force
        Overwrite files that are there.

    Returns
    -------
    Exported

    Raises
    ------
    ValueError
        If the file is there already, or an option does not belong to the format.
    StoreError
        If the folder is none of a run, or holds no answers.

    Examples
    --------
    >>> import tempfile
    >>> from comparo import load_judge, rank
    >>> quality = {"ana": 2.0, "bo": 0.0, "cy": -2.0}
    >>> judge = load_judge("simulated/soft", scores=quality)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = rank({name: f"A story by {name}." for name in quality}, "better", judge=judge, out=f"{folder}/run")
    ...     export_run(f"{folder}/run", f"{folder}/pairs.jsonl", format="dpo", prompt="Write a story.").rows
    {'pairs': 3}
    """
    if format is None:
        ends = {ending: name for name, ending in ENDINGS.items()}
        format = ends.get(Path(str(out).removesuffix(".gz")).suffix, "csv")  # noqa: A001
    if format not in get_args(Format):
        raise ValueError(f"format is one of {', '.join(get_args(Format))}, not {format!r}")
    if format != "dpo" and (prompt != CONTEXT or conversational or least_margin):
        raise ValueError("`prompt`, `conversational` and `least_margin` belong to format='dpo'; leave them out")
    if texts and format == "dpo":
        raise ValueError("`texts` belongs to csv, parquet and jsonl; format='dpo' always has them")
    if least_margin < 0:
        raise ValueError(f"`least_margin` is a difference of scores, 0 or more, not {least_margin:g}")
    folder = Path(run)
    path = Path(f"{folder.resolve().name}{ENDINGS[format]}") if out is None else Path(out)
    split_ending(path, [Path(f"run{ENDINGS[format]}").suffix])
    if (path.exists() or path.is_symlink()) and not force:
        raise ValueError(f"{path} is there already; choose another `out`, or overwrite it by force=True")
    if format == "dpo":
        columns, pairs = preference_columns(read_record(folder), least_margin, prompt, conversational)
        write_columns(path, columns)
        why = {"tied": pairs.ties, "contradicted by the scores": pairs.contradicted, "of a smaller margin": pairs.close}
        left = ", ".join(f"{count:,} {name}" for name, count in why.items() if count)
        return Exported(path, {"pairs": len(pairs.margin)}, left)
    judgements = read_judgements(folder)
    columns = comparison_columns(judgements, read_configuration(folder), stored_items(folder) if texts else None)
    if not (rows := len(columns["judge"])):
        raise StoreError(f"{folder} holds no answers yet; run its command again to go on")
    write_columns(path, columns)
    failed = sum(one.failed for one in judgements)
    return Exported(path, {"comparisons": rows}, f"{failed:,} failed" if failed else "")
