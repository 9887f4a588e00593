"""The published files of the paper's data sets, downloaded once into a cache.

An address names one revision and the SHA-256 one content, so a file is either the published one or refused.
"""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from comparo.errors import ComparisonsError

LARGEST = 64 * 2**20  # bytes, several times the largest of the files
CHUNK = 2**16  # bytes read at a time
SECONDS = 30.0  # without a byte from the server


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
