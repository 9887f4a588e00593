"""Open a file of the user: a regular one, of which no more than a limit is read; or a new one, that is written whole.

Files are untrusted: a few kilobytes can unpack to gigabytes, and a device or a pipe may never end. One limit holds for
what a file has, what it unpacks to and, with `VALUE` bytes for each value, the table that it becomes.
"""

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO
from uuid import uuid4

from comparo.errors import ComparisonsError

VARIABLE = "COMPARO_MOST_MB"  # of the environment
MOST_MB = 256  # a million comparisons as JSON lines have about 100
VALUE = 32  # bytes: about the least that one value of a table takes in memory
PIECE = 1 << 20  # bytes to read at a time, and the least limit


def most_bytes() -> int:
    """The most bytes of one file: those of the environment's variable, else `MOST_MB`.

    >>> most_bytes() >> 20
    256
    """
    text = os.environ.get(VARIABLE) or str(MOST_MB)
    if not text.isdecimal():
        raise ComparisonsError(f"{VARIABLE}={text!r} is not a number of MB; write one such as {MOST_MB}, or unset it")
    return int(text) << 20


def check_size(size: int, source: str) -> None:
    """Raise a ComparisonsError where what is read from a `source` takes more bytes than the limit."""
    if size > PIECE and size > (most := most_bytes()):  # the environment is read rarely
        remedy = f"split it, drop what is not needed, or set {VARIABLE} in the environment to a larger number"
        raise ComparisonsError(f"{source} unpacks to more than {most >> 20} MB; {remedy}")


def check_regular(path: Path) -> None:
    """Raise a ComparisonsError where a path leads, after all links, to nothing, a folder, a device or a pipe."""
    if not os.path.exists(path):
        raise ComparisonsError(f"{path} does not exist; check the name (the working folder is {Path.cwd()})")
    if not os.path.isfile(path) and str(path) != os.devnull:
        kind = "folder; name a file in it" if os.path.isdir(path) else "device or a pipe; save what it holds as a file"
        raise ComparisonsError(f"{path} is a {kind}")


def unpacked(path: Path) -> io.BytesIO:
    """What a regular file holds, unpacked if its name ends in .gz.

    Raises
    ------
    ComparisonsError
        If it is not regular, is no whole gzip file, is too large, or cannot be read.
    """
    check_regular(path)
    try:
        check_size(os.path.getsize(path), str(path))
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            return bounded(file, str(path))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ComparisonsError(f"{path} is not a whole gzip file ({error}); copy it again or drop the .gz") from error
    except OSError as error:
        raise ComparisonsError(f"{path} cannot be read ({error.strerror}); check its permissions") from error


def bounded(file: IO[bytes] | gzip.GzipFile, source: str) -> io.BytesIO:
    """What is left in a binary file; a ComparisonsError, before all is read, where that is too large.

    >>> bounded(io.BytesIO(b"A story."), "story.txt").getvalue()
    b'A story.'
    """
    content = io.BytesIO()
    while piece := file.read(PIECE):
        content.write(piece)
        check_size(content.tell(), source)
    content.seek(0)
    return content


def check_parquet(file: io.BytesIO, library: str, source: str) -> None:
    """Raise a ComparisonsError where a file of few bytes holds too many values, or a long text in too many rows."""
    if library == "polars":
        import polars

        frame = polars.scan_parquet(file)
        check_size(VALUE * frame.select(polars.len()).collect().item() * len(frame.collect_schema()), source)
        return
    from pyarrow import parquet

    known = parquet.read_metadata(file)
    groups, leaves = [*map(known.row_group, range(known.num_row_groups))], range(known.num_columns)
    check_size(sum(group.total_byte_size for group in groups), source)
    size = sum(VALUE * group.column(leaf).num_values for group in groups for leaf in leaves)
    check_size(size, source)
    names = [known.schema.column(leaf).path for leaf in leaves]
    for batch in parquet.ParquetFile(file, read_dictionary=names).iter_batches():
        size += sum(map(_bytes_of_texts, batch.columns))
        check_size(size, source)


def _bytes_of_texts(column: Any) -> int:
    """The bytes of the texts in an Arrow array that holds equal ones once."""
    from pyarrow import compute, types

    if types.is_dictionary(column.type):
        lengths = compute.binary_length(column.dictionary).take(column.indices)
        return compute.sum(lengths).as_py() or 0
    inner = column.flatten() if types.is_nested(column.type) else []
    return sum(map(_bytes_of_texts, inner if isinstance(inner, list) else [inner]))


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing; it appears at `path` when it is complete, or not at all."""
    temporary = path.parent / f".{uuid4().hex}.tmp"
    try:
        with temporary.open("xb") as file:
            yield file
        os.replace(temporary, path)
    except UnicodeEncodeError as error:
        raise ComparisonsError(f"{path}: a label is not valid Unicode ({error.reason}); rename it") from error
    except OSError as error:
        raise ComparisonsError(f"{path} cannot be written ({error.strerror})") from error
    finally:
        with suppress(OSError):  # of a file that is not there, and of read-only storage
            temporary.unlink()
