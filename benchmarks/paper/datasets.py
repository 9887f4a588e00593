"""The data sets of the paper, in comparo's own layout: files of `items` with people's scores for each attribute.

TopicalChat's attributes have other names in the paper than in the file: the paper's continuity is what people were
asked as "Maintains Context", in the file `coherence`; the paper's coherence is their "Understandable", in the file
`understandability`. The file's names are kept, and `continuity` is a second name for the file's `coherence`.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.paper.prompts import PAPER
from comparo.data.formats import read_columns
from comparo.data.items import Items
from comparo.errors import ComparisonsError
from comparo.studies.recorded import Opened, open_set

NAMES = ("summeval", "topicalchat", "hanna", "cmcqrd")


@dataclass(frozen=True, eq=False)
class DataSet:
    """N items with people's scores for each of `attributes`; the system that wrote an item, if known, is its group."""

    name: str
    items: Items
    attributes: tuple[str, ...]


def load_dataset(name: str, file: str | os.PathLike[str]) -> DataSet:
    """A data set of the paper by its name, from a file.

    Attributes are those of the paper's prompts that the file has scores for.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "stories.jsonl")
    ...     row = '{"context_id": "h", "id": "%s", "system": "GPT", "text": "A story.", "scores": {"surprise": %d}}\\n'
    ...     _ = file.write_text(row % ("7", 3) + row % ("8", 1))
    ...     data = load_dataset("hanna", file)
    >>> data.attributes, data.items.group
    (('surprise',), array(['GPT', 'GPT'], dtype=object))
    """
    items = Items.of(file, group="system" if "system" in read_columns(Path(file)).columns else None)
    if items.group is None and name in ("summeval", "topicalchat"):
        items = replace(items, group=items.ids)  # there an item is called after the system that wrote it
    if name == "topicalchat" and "coherence" in items.scores:
        items = replace(items, scores={"continuity": items.scores["coherence"], **items.scores})
    scored = [attribute for attribute, scores in items.scores.items() if not np.isnan(scores).all()]
    asked = tuple(key.split("/")[1] for key in PAPER if key.split("/")[0] == name and key.split("/")[1] in scored)
    if not asked:
        raise ComparisonsError(f"{file} has no human scores for the attributes of {name}; a study needs some")
    return DataSet(name, items, asked)


def open_dataset(name: str, data: Path, judgements: Path | None = None, *, attributes: Iterable[str] = ()) -> Opened:
    """A data set in the folder `data`, in comparo's own layout, with its recorded judgements; see `open_set`."""
    file = data / f"{name}.jsonl"
    found = load_dataset(name, file)
    scores = {attribute: found.items.scores[attribute] for attribute in found.attributes}
    return open_set(file, judgements, attributes=attributes, items=replace(found.items, scores=scores))
