"""The data sets of the paper: items with people's scores, the attributes scored, and the prompt for each.

Each is read from a path, in the layout in which it is published (`layouts`) or in comparo's own JSON Lines: one row per
item, with `context_id`, `context`, `id`, `text`, the object `scores` and, where it is known, `system`. Three are
downloaded by their name (`download`); CMCQRD is given by Cambridge to those who register, and needs a path.

TopicalChat's attributes have other names in the paper than in the file: the paper's continuity is what people were
asked as "Maintains Context", in the file `coherence`; the paper's coherence is their "Understandable", in the file
`understandability`. The file's names are kept, and `continuity` is a second name for the file's `coherence`.
"""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.items import Items
from comparo.data.prompts import PAPER
from comparo.data.reading import read_columns
from comparo.errors import ComparisonsError
from comparo.studies.download import fetch
from comparo.studies.layouts import read_cmcqrd, read_hanna, read_own, read_summeval, read_topicalchat

READERS = {
    "summeval": ("machine_summaries", read_summeval),
    "topicalchat": ("system_output", read_topicalchat),
    "hanna": ("Story ID", read_hanna),
    "cmcqrd": ("questions", read_cmcqrd),
}


@dataclass(frozen=True, eq=False)
class DataSet:
    """N items with people's scores for each of `attributes`, and which system wrote each item, shape (N,), if known."""

    name: str
    items: Items
    attributes: tuple[str, ...]
    systems: NDArray[Any] | None = field(default=None, repr=False)


def load_dataset(
    name_or_path: str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    *,
    cache: str | os.PathLike[str] | None = None,
    mirror: str | None = None,
) -> DataSet:
    """A data set by its name, downloaded once into the folder `cache`, or from a path, by its name and layout.

    `load_dataset("summeval")` downloads, `load_dataset("summeval", path)` reads a file, `load_dataset(path)` finds out
    which set the file holds: by its layout or, in comparo's own, by its name. Attributes are those of the paper's
    prompts that the file has scores for; of a set that is not the paper's, all that are scored. `mirror` is a server
    that holds the published paths.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "hanna.jsonl")
    ...     row = '{"context_id": "h", "id": "%s", "system": "GPT", "text": "A story.", "scores": {"surprise": %d}}\\n'
    ...     _ = file.write_text(row % ("7", 3) + row % ("8", 1))
    ...     data = load_dataset(file)
    >>> data.name, data.attributes, data.systems
    ('hanna', ('surprise',), array(['GPT', 'GPT'], dtype=object))
    """
    name = str(name_or_path)
    if path is None:
        if name in READERS:
            path = fetch(name, None if cache is None else Path(cache), mirror)
        elif os.path.exists(name):
            name, path = "", name
        else:
            known = ", ".join(READERS)
            raise ComparisonsError(f"{name} is neither a data set nor a file; the data sets are {known}")
    elif name not in READERS:
        raise ComparisonsError(f"there is no data set {name!r}; the paper's are {', '.join(READERS)}")
    file = Path(path)
    table = read_columns(file)
    layout = next((known for known, (mark, _) in READERS.items() if mark in table.columns), None)
    if layout is not None and name not in ("", layout):
        raise ComparisonsError(f"{file} holds {layout}, not {name}; name the set that it holds")
    name = name or layout or file.name.split(".")[0]
    items, systems = READERS[layout][1](table) if layout else read_own(table, file)
    if systems is None and layout is None and name in ("summeval", "topicalchat"):
        systems = items.ids  # there an item is called after the system that wrote it
    if name == "topicalchat" and "coherence" in items.scores:
        items = replace(items, scores={"continuity": items.scores["coherence"], **items.scores})
    scored = [attribute for attribute, scores in items.scores.items() if not np.isnan(scores).all()]
    if name in READERS:
        scored = [key.split("/")[1] for key in PAPER if key.split("/")[0] == name and key.split("/")[1] in scored]
    if not scored:
        raise ComparisonsError(f"{file} has no human scores for the attributes of {name}; a study needs some")
    return DataSet(name, items, tuple(scored), systems)
