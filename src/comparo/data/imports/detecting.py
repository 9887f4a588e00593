"""`import_file`: the layout of a file by its content, and the reader of that layout."""

import os
from collections.abc import Callable
from typing import Literal, get_args

from comparo.data.columns import Table
from comparo.data.imports.battles import ANNOTATIONS, BATTLES, GAMES, read_annotations, read_battles, read_games
from comparo.data.imports.gathering import Imported
from comparo.data.imports.promptfoo import RESULTS, read_results, results_table
from comparo.data.reading import read_document
from comparo.errors import ComparisonsError

Source = Literal["promptfoo", "alpaca_eval", "arena", "mt_bench"]
# By the columns that a file of the tool always has, and its reader; the first that fits is taken.
SOURCES: dict[Source, tuple[frozenset[str], Callable[[Table], Imported]]] = {
    "promptfoo": (RESULTS, read_results),
    "alpaca_eval": (ANNOTATIONS, read_annotations),
    "mt_bench": (GAMES, read_games),
    "arena": (BATTLES, read_battles),
}


def import_file(path: str | os.PathLike[str], source: Source | None = None) -> Imported:
    """The comparisons, and the texts where there are any, of a file that another tool wrote (docs/runs.md).

    Parameters
    ----------
    path
        The file: JSON, JSONL, CSV or Parquet, also gzipped.
    source
        - "promptfoo": results of `promptfoo eval -o results.json`;
        - "alpaca_eval": annotations.json;
        - "arena": battles of Chatbot Arena, or the table of its Kaggle competition;
        - "mt_bench": FastChat's model_judgment/…_pair.jsonl.

        By default the one whose columns the file has.

    Returns
    -------
    Imported
        `comparisons`, `items` (columns id, text, context_id, context), and `left_out`, the number of rows without a
        comparison by reason.

    Raises
    ------
    ComparisonsError
        If the layout is not known, or a row is malformed; it names the row.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> row = {"instruction": "Why?", "output_1": "So.", "output_2": "Because.", "generator_1": "old",
    ...        "generator_2": "new", "annotator": "gpt-4", "preference": 1.75}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "annotations.json")
    ...     _ = path.write_text(json.dumps([row]))
    ...     found = import_file(path)
    >>> found.source, found.comparisons.p.tolist(), found.items["text"]
    ('alpaca_eval', [0.25], ['So.', 'Because.'])
    """
    if source is not None and source not in get_args(Source):
        raise ValueError(f"the layout is one of {', '.join(get_args(Source))}, not {source!r}")
    document = read_document(path)
    table = document if isinstance(document, Table) else results_table(document, str(path))
    names = set(table.columns)
    fitting = [tool for tool, (needed, _) in SOURCES.items() if needed <= names]
    if not fitting or (source is not None and source not in fitting):
        raise ComparisonsError(_unknown(str(path), names, source))
    return SOURCES[source or fitting[0]][1](table)


def _unknown(path: str, names: set[str], source: Source | None) -> str:
    there = f"it has {', '.join(sorted(names)[:12])}{' …' if len(names) > 12 else ''}" if names else "it has no rows"
    if source is not None:
        missing = sorted(SOURCES[source][0] - names)
        return f"{path} is not a file of {source}: there is no {', '.join(missing)}; {there}"
    known = "; ".join(f"{tool}: {', '.join(sorted(needed))}" for tool, (needed, _) in SOURCES.items())
    return f"{path} is of no known layout ({known}); {there}. comparo fit reads first, second, p as they are"
