"""What voters are shown of a text or an image: nothing but its words, its pixels and its colours."""

import base64
import html
import re
import time
import zlib

import pytest

from comparo import ComparisonsError, Items
from comparo.vote.pages import MARKDOWN, as_markdown, differences, shown_text
from inside import are_codes
from voting import PIXEL

SECRET = b"Ana Lima, 52.5 N 13.4 E"
MOST = 5 << 20  # bytes of an image
LONG = 100_000  # characters of a hostile text


def chunk(name, data):
    return len(data).to_bytes(4) + name + data + zlib.crc32(name + data).to_bytes(4)


def segment(code, data):
    return bytes([0xFF, code]) + (len(data) + 2).to_bytes(2) + data


def exif(order, tag=0x112, value=6):
    """EXIF data with two entries, the second an orientation, and a place after them."""
    begin = b"II*\0" if order == "little" else b"MM\0*"
    other, turned = (
        number.to_bytes(2, order) + (3).to_bytes(2, order) + (1).to_bytes(4, order) + what.to_bytes(2, order) + b"\0\0"
        for number, what in ((0x8825, 1), (tag, value))
    )
    return begin + (8).to_bytes(4, order) + (2).to_bytes(2, order) + other + turned + bytes(4) + SECRET


FRAME = segment(0xC0, b"\x08\x00\x02\x00\x03\x01\x01\x11\x00")  # 3 × 2 pixels
SCANS = segment(0xDA, b"\x01\x01\x00\x00\x3f\x00") + b"\x12\xff\x00\x34\xff\xd0\x56"
JFIF = b"JFIF\0\x01\x02\x01\x00\x48\x00\x48"


def photo(*parts, frame=FRAME):
    return b"".join([b"\xff\xd8", *parts, segment(0xDB, bytes(65)), frame, SCANS, b"\xff\xd9"])


def shown(content, folder):
    """The bytes of an image as a voter's browser gets them, be it from a file or from a table."""
    (folder / "ana.jpg").write_bytes(content)
    row = {"id": "ana", "text": f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"}
    file, table = (Items.of(given, has_images=True).texts for given in (folder, [row, row | {"id": "bo"}]))
    assert file[0] == table[0]
    return base64.b64decode(file[0].partition(",")[2])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bo.txt").write_text("A typed essay.")
    return tmp_path


def test_of_a_photograph_only_pixels_colours_and_a_turn_are_shown(folder):
    colours = [segment(0xE2, b"ICC_PROFILE\0\x01\x01profile"), segment(0xEE, b"Adobe\0\x64\0\0\0\0\x01")]
    names = [segment(code, SECRET) for code in (*range(0xE1, 0xF0), 0xFE)]
    thumbnail = segment(0xE0, JFIF + b"\x01\x01" + SECRET)
    for order in ("little", "big"):
        given = photo(thumbnail, segment(0xE1, b"Exif\0\0" + exif(order)), *colours, *names) + photo() + SECRET
        turned = segment(0xE1, b"Exif\0\0" + exif("big")[:8] + b"\0\x01" + exif("big")[22:34] + bytes(4))
        assert shown(given, folder) == photo(segment(0xE0, JFIF + b"\0\0"), turned, *colours)
    for upright in (exif("big", value=1), exif("big", value=9), exif("little", tag=1), exif("big")[:9], b"MM" * 40):
        assert shown(photo(segment(0xE1, b"Exif\0\0" + upright)), folder) == photo()
    several = photo().replace(b"\xff\xd9", segment(0xFE, SECRET) + segment(0xC4, b"\0") + SCANS + b"\xff\xd9")
    assert shown(several, folder) == several.replace(segment(0xFE, SECRET), b"")
    assert shown(photo()[:-1], folder) == photo()[:-1]  # a download that was cut off


def test_of_a_png_only_pixels_and_colours_are_shown(folder):
    header, body = PIXEL[:33], PIXEL[33:]
    colours = b"".join(chunk(name, b"1234") for name in (b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT", b"pHYs"))
    names = b"".join(chunk(name, SECRET) for name in (b"tEXt", b"zTXt", b"iTXt", b"eXIf", b"tIME", b"caBX", b"prVt"))
    assert shown(PIXEL, folder) == PIXEL
    assert shown(header + colours + names + body + SECRET, folder) == header + colours + body


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"no image", b"\xff\xd8\xff", photo(frame=b""), PIXEL[:-12], PIXEL[:20], b"\xff\xd8\xff\xe0\0\0" * 9),
        b"\xff\xd8" + b"\xff" * (MOST - 2),
        photo(frame=segment(0xC2, b"\x08" + (50_000).to_bytes(2) * 2 + b"\x01\x01\x11\x00")),
        PIXEL[:16] + (50_000).to_bytes(4) * 2 + PIXEL[24:],
        PIXEL + bytes(MOST),
    ],
)
def test_an_image_that_is_broken_or_too_large_is_named_before_a_page_opens(content, folder):
    (folder / "ana.jpg").write_bytes(content)
    with pytest.raises(ComparisonsError, match=r"ana\.jpg"):
        Items.of(folder, has_images=True)


def test_a_broken_image_in_a_table_is_named_by_its_row():
    rows = [{"id": "ana", "text": "An essay."}, {"id": "bo", "text": "data:image/png;base64,AAAAA"}]
    with pytest.raises(ComparisonsError, match="row 2"):
        Items.of(rows, has_images=True)


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "[x](javascript:alert(1))",
        '![x](https://example.org/track.png "title")',
        "<a href='https://example.org'>x</a>",
        "**<b onmouseover=alert(1)>**",
        "`</code><script>`",
        "```\n</code></pre><script>\n```",
        "# <img src=x onerror=alert(1)>",
        "- <svg/onload=alert(1)>",
        "1. *a **b* c**",
        "&lt;script&gt; &#60;script&#62;",
        "[a]: javascript:alert(1)\n\n[a]",
        "<https://example.org>",
    ],
)
def test_markdown_makes_no_tag_but_its_own(text):
    shown = str(as_markdown(text))
    tags = re.findall(r"<[^>]*>", shown)
    assert set(tags) <= {f"<{end}{name}>" for end in ("", "/") for name in "p h3 ul ol li strong em code pre".split()}
    assert "javascript:" not in shown or "[a]" in shown
    assert "](" not in shown
    assert "example.org/track" not in shown


# Each repeats what a pattern begins with and never ends; some took minutes, so the limit is far from both.
UNENDED = "**a |__a |*a |_a | *a|`a|`a``b```c|[](|[](a|[]((x)|[|![|- |1. |*|```\n".split("|")


@pytest.mark.long
def test_no_pattern_backtracks_on_a_hostile_text():
    hostile = [part * LONG for part in UNENDED] + [f"# x{' ' * LONG}y", f"#{' ' * LONG}x", f"- {' ' * LONG}x"]
    start = time.process_time()
    for text in hostile:
        for length in (MARKDOWN, LONG):
            shown_text(text[:length], is_markdown=True)
    are_codes(["a" * LONG, f"{'a' * LONG}!"] * 10)
    for count in (101, 166, 300):
        differences(*(" ".join(f"w{k * step % count}" for k in range(2000)) for step in (1, 37)))
    assert time.process_time() - start < len(hostile)


def test_differences_mark_words_and_keep_every_character():
    one, other = "The <b>cat</b>  sat,\n& slept.", "A <b>cat</b>  sat; \n& slept!"
    for text, shown in zip((one, other), differences(one, other), strict=True):
        assert html.unescape(re.sub("</?mark>", "", shown)) == text
    assert "<mark>The</mark> &lt;b&gt;cat&lt;/b&gt;  sat<mark>,</mark>" in differences(one, other)[0]
    assert differences("a " * 2001, "b") is None
