"""An extension of griffe, for `make docs`: an example in the text of a docstring is shown as code.

Griffe knows the examples of a section "Examples". One without that heading, as short docstrings have it, would become a
quotation, because Markdown reads `>>>` as one.
"""

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"(?m)^(>>> .*(?:\n.+)*)")
SECTION = re.compile(r"(?m)^Examples\n-+$")


def fenced(text: str) -> str:
    """The text of a docstring with its examples as fenced code, except those of a section "Examples"."""
    section = SECTION.search(text)
    end = section.start() if section else len(text)
    return EXAMPLE.sub(r"```pycon\n\1\n```", text[:end]) + text[end:]


class FencedExamples(Extension):
    """Rewrites docstrings when griffe has read them."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
