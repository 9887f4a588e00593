"""Published files by the name of their data set: downloaded once, kept in the user's cache, never overwritten.

The cache is `comparo` in the folder XDG_CACHE_HOME, or in ~/.cache. A file appears there whole or not at all.
"""

from __future__ import annotations

import http.client
import os
import shutil
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from comparo.frames import ComparisonsError

LARGEST = 64 * 2**20  # bytes, several times the largest of the files
SECONDS = 30.0  # without a byte from the server


@dataclass(frozen=True, slots=True)
class Published:
    """Where a file lies, the name that it has in the cache, and the page on which its authors publish it."""

    url: str
    file: str
    page: str


PUBLISHED = {
    "summeval": Published(
        "https://huggingface.co/datasets/mteb/summeval/resolve/2cdabb83bf207713f8871b57de188e17773b2bd3"
        "/data/test-00000-of-00001-35901af5f6649399.parquet",
        "summeval.parquet",
        "https://huggingface.co/datasets/mteb/summeval",
    ),
    "topicalchat": Published(
        "https://raw.githubusercontent.com/maszhongming/UniEval/9d9b51dc716f40f6b454a4455c7fe2f843aabfbb"
        "/reproduce/data/dialogue/topical_chat.json",
        "topicalchat.json",
        "https://github.com/maszhongming/UniEval",
    ),
    "hanna": Published(
        "https://raw.githubusercontent.com/dig-team/hanna-benchmark-asg/main/hanna_stories_annotations.csv",
        "hanna.csv",
        "https://github.com/dig-team/hanna-benchmark-asg",
    ),
}


def cache_folder() -> Path:
    """The folder of downloaded data sets; it need not exist.

    >>> cache_folder().name
    'comparo'
    """
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if os.path.isabs(root) else Path.home() / ".cache") / "comparo"


def fetch(name: str, folder: Path | None = None, mirror: str | None = None) -> Path:
    """The file of a data set in `folder` (the cache if None), downloaded if it is not there yet.

    `mirror` is a server such as "https://mirror.example" that holds the published paths.

    >>> fetch("cmcqrd")
    Traceback (most recent call last):
    comparo.frames.ComparisonsError: cmcqrd cannot be downloaded: Cambridge gives it to those who register at ...
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
        _download(url, temporary)
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


def _download(url: str, path: Path) -> None:
    with urllib.request.urlopen(url, timeout=SECONDS) as reply, path.open("xb") as file:
        shutil.copyfileobj(_Limited(reply), file)
        if reply.length:
            raise OSError(f"the connection ended {reply.length} bytes too early")


class _Limited:
    """A reply that is an OSError once it is larger than any of the files."""

    def __init__(self, reply: http.client.HTTPResponse) -> None:
        self.reply, self.room = reply, LARGEST

    def read(self, size: int = -1, /) -> bytes:
        data = self.reply.read(size)
        self.room -= len(data)
        if self.room < 0:
            raise OSError(f"the server sent more than {LARGEST} bytes")
        return data
