"""The data sets of the paper: items with people's scores, the attributes scored, and the prompt for each.

Each is read from a path, in the layout in which it is published (`layouts`) or in comparo's own JSON Lines: one row per
item, with `context_id`, `context`, `id`, `text`, the object `scores` and, where it is known, `system`. Three are
downloaded by their name (`download`); CMCQRD is given by Cambridge to those who register, and needs a path.

TopicalChat's attributes have other names in the paper than in the file: the paper's continuity is what people were
asked as "Maintains Context", in the file `coherence`; the paper's coherence is their "Understandable", in the file
`understandability`. The file's names are kept, and `continuity` is a second name for the file's `coherence`.
"""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from comparo.data.items import Items
from comparo.data.prompts import PAPER
from comparo.data.reading import read_columns
from comparo.errors import ComparisonsError
from comparo.studies.layouts import read_cmcqrd, read_hanna, read_own, read_summeval, read_topicalchat

READERS = {
    "summeval": ("machine_summaries", read_summeval),
    "topicalchat": ("system_output", read_topicalchat),
    "hanna": ("Story ID", read_hanna),
    "cmcqrd": ("questions", read_cmcqrd),
}
LARGEST = 64 * 2**20  # bytes, several times the largest of the files
CHUNK = 2**16  # bytes read at a time
SECONDS = 30.0  # without a byte from the server


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


@dataclass(frozen=True, slots=True)
class Published:
    """Where a file lies, the name that it has in the cache, its authors' page, and the SHA-256 of its content."""

    url: str
    file: str
    page: str
    sha256: str


PUBLISHED = {
    "summeval": Published(
        "https://huggingface.co/datasets/mteb/summeval/resolve/bfc121155064afa2d81b5505682ffc0d96f4334c"
        "/data/test-00000-of-00001-35901af5f6649399.parquet",
        "summeval.parquet",
        "https://huggingface.co/datasets/mteb/summeval",
        "7ff6f3f4d044223bd6922c5434d27bf28473950346fcfc2a3b7352c19163690e",
    ),
    "topicalchat": Published(
        "https://raw.githubusercontent.com/maszhongming/UniEval/9d9b51dc716f40f6b454a4455c7fe2f843aabfbb"
        "/reproduce/data/dialogue/topical_chat.json",
        "topicalchat.json",
        "https://github.com/maszhongming/UniEval",
        "f6361daa6fe162f636d2071a60322a784acd770be0bf3a6920ac949d751b978a",
    ),
    "hanna": Published(
        "https://raw.githubusercontent.com/dig-team/hanna-benchmark-asg/282f27536a5d05ad4ce14298abcd70c45668fed2"
        "/hanna_stories_annotations.csv",
        "hanna.csv",
        "https://github.com/dig-team/hanna-benchmark-asg",
        "ef59054d27fa32def06cfdc57243b1dd09c7e71f40b6d9d43fecfbf60e59026b",
    ),
}


def cache_folder() -> Path:
    """The folder of downloaded data sets, `comparo` in XDG_CACHE_HOME or in ~/.cache; it need not exist."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if os.path.isabs(root) else Path.home() / ".cache") / "comparo"


def fetch(name: str, folder: Path | None = None, mirror: str | None = None, largest: int = LARGEST) -> Path:
    """The file of a data set in `folder` (the cache if None), downloaded if it is not there yet.

    It appears there whole or not at all, and only if it is the very file that is pinned here: an address names one
    revision, and the SHA-256 one content. `mirror` is a server, "https://mirror.example", that holds the same paths.
    A reply of more than `largest` bytes is refused.

    >>> fetch("cmcqrd")
    Traceback (most recent call last):
    comparo.errors.ComparisonsError: cmcqrd cannot be downloaded: Cambridge gives it to those who register at ...
    """
    if name == "cmcqrd":
        raise ComparisonsError(
            "cmcqrd cannot be downloaded: Cambridge gives it to those who register at https://englishlanguageitutoring.com"
            "/datasets/cambridge-multiple-choice-questions-reading-dataset; unpack its .jsonl and give the path of it"
        )
    published = PUBLISHED[name]
    path = (folder or cache_folder()) / published.file
    if path.exists():
        return path
    url = published.url
    if mirror is not None:
        server = urlsplit(mirror)
        if server.scheme not in ("http", "https") or not server.netloc:
            raise ComparisonsError(f"{mirror!r} is not a mirror; give one such as https://mirror.example")
        url = urlunsplit((server.scheme, server.netloc, server.path.rstrip("/") + urlsplit(url).path, "", ""))
    temporary = path.with_name(f".{uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        found = _download(url, temporary, largest)
        if found != published.sha256:
            raise OSError(f"its SHA-256 is {found}, not {published.sha256}: it is another file")
        os.replace(temporary, path)
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error or type(error).__name__
        raise ComparisonsError(
            f"{url} could not be downloaded to {path} ({reason}); check the network, or get the file from "
            f"{published.page} by other means and give its path"
        ) from error
    finally:
        with suppress(OSError):  # it is not there, or its folder is none
            temporary.unlink()
    return path


def _download(url: str, path: Path, largest: int) -> str:
    """Write what lies at an address to a file; the SHA-256 of it, in hex."""
    digest = hashlib.sha256()
    with urllib.request.urlopen(url, timeout=SECONDS) as reply, path.open("xb") as file:
        while data := reply.read(CHUNK):
            digest.update(data)
            if file.tell() + file.write(data) > largest:
                raise OSError(f"the server sent more than {largest} bytes")
        if reply.length:
            raise OSError(f"the connection ended {reply.length} bytes too early")
    return digest.hexdigest()
