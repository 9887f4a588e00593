"""Images as data URLs, which only people can read: of a file its pixels, and nothing else.

A photograph also names its place, its camera and its author, and may hold a second picture. So only these parts are
kept: those that a decoder needs, those about colours, and the orientation, without which the picture is turned.
"""

import base64
import re
from collections.abc import Iterator
from contextlib import suppress
from math import prod
from typing import Literal

from comparo.errors import ComparisonsError

LARGEST = 5 << 20  # bytes: a page of handwriting at 200 dots per inch has about 1 MB
PIXELS = 64_000_000  # the most: a browser needs four bytes for each, and A4 at 600 dots per inch has 35 million
BEGINS = {"png": b"\x89PNG\r\n\x1a\n", "jpeg": b"\xff\xd8\xff"}
CHUNKS = b"IHDR PLTE IDAT IEND tRNS gAMA cHRM sRGB iCCP sBIT pHYs".split()
BEGIN, SCAN, END = 0xD8, 0xDA, 0xD9  # markers of a JPEG file
FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # a frame begins with its precision, height and width
TABLES = {0xC4, 0xCC, 0xDB, 0xDC, 0xDD}
NAMED = {0xE2: b"ICC_PROFILE\0", 0xEE: b"Adobe"}  # applications' parts that are about colours
ORIENTATION = 0x112  # a tag of EXIF
_MARKER = re.compile(rb"\xff([^\x00\xff\xd0-\xd7])", re.DOTALL)  # compressed data has none of these
_IMAGE = re.compile("data:image/(png|jpeg);base64,[A-Za-z0-9+/]+=*")

Part = tuple[bytes, tuple[int, int] | None]  # what is kept, and the width and height if it states them


def is_image(text: str) -> bool:
    """Whether a text is a data URL of an image.

    >>> is_image("data:image/png;base64,iVBORw0KGgo="), is_image("data:image/svg+xml;base64,PHN2Zz4=")
    (True, False)
    """
    return text.startswith("data:image/") and _IMAGE.fullmatch(text) is not None


def image_url(content: bytes, source: str) -> str:
    """The data URL of a .png or .jpg file; an error, which names the source, if it is none or is too large."""
    if len(content) > LARGEST:
        raise ComparisonsError(f"{source} has more than {LARGEST >> 20} MB; save it with a lower resolution")
    kind = next((kind for kind, begin in BEGINS.items() if content.startswith(begin)), None)
    parts = [] if kind is None else list(_png(content) if kind == "png" else _jpeg(content))
    width, height = max((size for _, size in parts if size), key=prod, default=(0, 0))
    if not width * height:
        raise ComparisonsError(f"{source} is not a whole .png or .jpg file; save it again")
    if width * height > PIXELS:
        raise ComparisonsError(
            f"{source} has {width:,} × {height:,} pixels, and {PIXELS:,} are the most; save it with a lower resolution"
        )
    return f"data:image/{kind};base64,{base64.b64encode(b''.join(part for part, _ in parts)).decode()}"


def cleaned_image(url: str, source: str) -> str:
    """The data URL of the same image, as `image_url` makes it; for one from elsewhere, such as the cell of a table."""
    content = b""
    with suppress(ValueError):
        content = base64.b64decode(url.partition(",")[2])
    return image_url(content, source)


def _png(content: bytes) -> Iterator[Part]:
    """The chunks of a PNG file that are kept, up to its end; no size if there is no end."""
    size: tuple[int, int] | None = None
    at, name = len(BEGINS["png"]), b""
    yield BEGINS["png"], None
    while name != b"IEND" and at < len(content):
        end = at + 12 + int.from_bytes(content[at : at + 4])
        name = content[at + 4 : at + 8]
        if name == b"IHDR":
            size = int.from_bytes(content[at + 8 : at + 12]), int.from_bytes(content[at + 12 : at + 16])
        if name in CHUNKS:
            yield content[at:end], None
        at = end
    yield b"", size if name == b"IEND" else None


def _jpeg(content: bytes) -> Iterator[Part]:
    """The segments and scans of a JPEG file that are kept, up to its end."""
    at, code = 0, 0
    while code != END and (found := _MARKER.search(content, at)):
        if code == SCAN:
            yield content[at : found.start()], None
        code, start = found[1][0], found.end()
        at = start + (0 if code in (BEGIN, END) else int.from_bytes(content[start : start + 2]))
        data = content[start + 2 : at]
        if code in FRAMES:
            yield _segment(code, data), (int.from_bytes(data[3:5]), int.from_bytes(data[1:3]))
        elif code in (BEGIN, END):
            yield bytes([0xFF, code]), None
        elif code in TABLES or code == SCAN or (code in NAMED and data.startswith(NAMED[code])):
            yield _segment(code, data), None
        elif code == 0xE0 and data.startswith(b"JFIF"):
            yield _segment(code, data[:12] + b"\0\0"), None  # without the thumbnail
        elif code == 0xE1 and data.startswith(b"Exif") and (turned := _orientation(data[6:])):
            yield _segment(code, data[:6] + turned), None
    yield content[at:] if code == SCAN else b"", None  # of a file that is cut off


def _segment(code: int, data: bytes) -> bytes:
    return bytes([0xFF, code]) + (len(data) + 2).to_bytes(2) + data


def _orientation(exif: bytes) -> bytes:
    """EXIF data with only the orientation of the given data; empty if the picture is not turned."""
    order: Literal["little", "big"] = "little" if exif.startswith(b"II") else "big"

    def number(at: int, size: int = 2) -> int:
        return int.from_bytes(exif[at : at + size], order)

    start = number(4, 4)
    for at in range(start + 2, start + 2 + 12 * number(start), 12):
        if number(at) == ORIENTATION and 1 < number(at + 8) < 9:
            return b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0" + bytes([number(at + 8), *[0] * 6])
    return b""
