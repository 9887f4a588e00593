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

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from comparo.data.columns import Column, installed
from comparo.data.writing import write_columns
from comparo.errors import ComparisonsError
from comparo.export.preferences import comparison_columns, item_columns
from comparo.report.making import METHODS, prompt_of, question, score_meaning
from comparo.report.record import Record

CARD = "README.md"
SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))  # names of the Hub
LABELS = ("first", "second", "context", "judge", "id", "context_id", "group", "item")
MEANINGS = {
    "comparisons": {
        "first": "the id of the text shown first",
        "second": "the id of the text shown second",
        "p": "the judge's probability that the first is better; 0, 0.5 and 1 from a judge that only decides",
        "weight": "the weight of the answer",
        "context": "the context_id that both texts belong to",
        "judge": "who answered: the judge, with its wording where there were several",
        "mass": "the share of its probability that the judge put on the two labels",
    },
    "items": {
        "id": "the name of the text; unique within its context",
        "text": "what the judge read",
        "context_id": "the name of the context",
        "context": "what the judge read before the two texts",
        "group": "what texts have in common, such as the system that wrote them",
    },
    "ranking": {
        "context": "the context_id; every context is ranked on its own",
        "item": "the id of the text",
        "score": "the score; what it says is above",
        "judge_score": "the judge's own score, where the score is a consensus",
        "std": "the standard error of the score",
        "low": "the lower end of its interval",
        "high": "the upper end of its interval",
        "rank": "1 for the best of its context",
        "judge_rank": "the rank by the judge alone, where the score is a consensus",
        "tier": "texts that cannot be told apart share one",
        "comparisons": "how many answers the text is in",
        "component": "texts of different components were never compared, not even through others",
    },
}


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
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        autoescape=False,  # Markdown; what is not of this package goes through one of the filters
    )
    environment.filters |= {"tojson_text": json.dumps, "plain": _plain, "code": _code, "fenced": _fenced}
    return environment.get_template("card.md.j2").render(
        title=f"Comparisons: {question(prompt)}",
        size=next((name for most, name in SIZES if rows["comparisons"] < most), "1M<n<10M"),
        tables={name: {column: _meaning(name, column) for column in of} for name, of in tables.items()},
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


def _meaning(table: str, column: str) -> str:
    """What a column is; those that are not known by name are people's scores, or controlled numbers."""
    if (known := MEANINGS[table].get(column)) is not None:
        return known
    if table == "items":
        return "a score by people" if column.startswith("score") else "a number that was held equal"
    return "the same with something held equal, as the name says"


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
