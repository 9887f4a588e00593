"""Text made safe to show: nothing in it moves a terminal's cursor, and no address in it holds a password."""

import re

# What a terminal executes instead of printing it: control characters, marks that change the direction of the text, line
# separators, and halves of surrogate pairs, which cannot be printed at all.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_SPACING = re.compile("[\t\n]")
_LOGIN = re.compile(r"(?<=://)[^/?#\s]*@")


def visible(text: object, lines: bool = True) -> str:
    r"""Text with every control character for a terminal written as an escape; `lines` keeps tabs and newlines.

    >>> visible("a\x1b[31mb")
    'a\\u001b[31mb'
    >>> visible("one\ntwo", lines=False)
    'one\\ntwo'
    """
    shown = _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))
    return shown if lines else _SPACING.sub(lambda match: "\\t" if match[0] == "\t" else "\\n", shown)


def without_login(text: str) -> str:
    """A text with no user and password in the addresses that it holds.

    >>> without_login("base_url=http://me:secret@localhost:8000/v1")
    'base_url=http://localhost:8000/v1'
    """
    return _LOGIN.sub("", text)
