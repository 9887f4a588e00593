"""A run as a data set folder in the layout of Hugging Face: Parquet files, and a card that says what they are.

    README.md                   the card: a YAML header with the three configurations, and what is in them
    data/comparisons.parquet    a row per answer
    data/items.parquet          a row per text
    data/ranking.parquet        a row per text, best first

Nothing is uploaded. The card names judges, question, method and date, and no setting of a judge: no address, no key.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from comparo.data.columns import Column, installed
from comparo.data.writing import write_columns
from comparo.errors import ComparisonsError
from comparo.export.preferences import comparison_columns, item_columns
from comparo.report.making import METHODS, prompt_of, question, score_meaning
from comparo.report.page import environment
from comparo.report.record import Record

CARD = "README.md"
LABELS = ("first", "second", "context", "judge", "id", "context_id", "group", "item")


def write_dataset(folder: Path, record: Record) -> dict[str, int]:
    """Write a run as a data set folder, and return the number of rows of each configuration."""
    tables: dict[str, dict[str, Column]] = {
        "comparisons": comparison_columns(record.judgements, record.configuration),
        "items": item_columns(record.items),
        "ranking": dict(record.ranking.to_columns()),
    }
    # Columns of Parquet have types; lines of JSON need no library.
    ending = ".jsonl" if installed("pyarrow", "polars") is None else ".parquet"
    try:
        (folder / "data").mkdir(parents=True, exist_ok=True)
        for name, columns in tables.items():
            for other in {".jsonl", ".parquet"} - {ending}:
                (folder / "data" / f"{name}{other}").unlink(missing_ok=True)
            write_columns(folder / "data" / f"{name}{ending}", _as_text(columns))
        (folder / CARD).write_text(card(record, tables, ending), encoding="utf-8")
    except OSError as error:
        raise ComparisonsError(f"{folder} cannot be written ({error.strerror}); choose another `out`") from error
    return {name: _rows(columns) for name, columns in tables.items()}


def _as_text(columns: Mapping[str, Column]) -> dict[str, Column]:
    """The columns with labels as text: a column of Parquet has one type, and ids may be numbers and text."""
    return {name: list(map(str, column)) if name in LABELS else column for name, column in columns.items()}


def _rows(columns: Mapping[str, Column]) -> int:
    return len(next(iter(columns.values())))


def card(record: Record, tables: Mapping[str, Mapping[str, Column]], ending: str) -> str:
    """The card of a data set: its header, and in words what its files hold, who judged, when, and how to load it."""
    prompt, ranking = prompt_of(record.configuration), record.ranking
    rows = {name: _rows(columns) for name, columns in tables.items()}
    templates = environment(Path(__file__).parent, is_html=False)
    templates.filters |= {"tojson_text": json.dumps, "plain": _plain, "code": _code, "fenced": _fenced}
    return templates.get_template("card.md.j2").render(
        title=f"Comparisons: {question(prompt)}",
        tables=tables,
        rows=rows,
        contexts=len(record.items.contexts),
        judges=list(dict.fromkeys(map(str, tables["comparisons"]["judge"]))),
        date=str(record.configuration.get("started", "unknown"))[:10],
        failed=len(record.judgements) - rows["comparisons"],
        method=METHODS.get(ranking.method, ranking.method),
        meaning=score_meaning(ranking.method, ranking.estimate),
        level=f"{ranking.level:.0%}",
        templates=_templates(record.configuration["identity"]),
        ending=ending,
    )


def _templates(identity: Mapping[str, Any]) -> list[str]:
    """The prompts of a run, each once."""
    asked = [voice["prompt"] for voice in identity.get("voices", {}).values()] or [identity["prompt"]]
    return list(dict.fromkeys(prompt["template"] for prompt in asked))


def _code(text: Any) -> str:
    """A name as code in a line or a cell of Markdown, where nothing in it has a meaning.

    >>> _code("a`b|c")
    '`a b c`'
    """
    return "`" + re.sub(r"[`|\s]+", " ", str(text)).strip() + "`"


def _plain(text: str) -> str:
    r"""Words in a line of Markdown, with what could be a mark or a tag escaped.

    >>> _plain("is <b>better</b>")
    'is \\<b\\>better\\</b\\>'
    """
    return re.sub(r"([\\`*_\[\]<>#|&])", r"\\\1", " ".join(text.split()))


def _fenced(text: str, language: str) -> str:
    """A block of code that ends where the text does, whatever fences are in it."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"
