"""The language inside options: a text with settings behind it, 'openai/m; effort=low, price=0.15,0.60'.

Settings are NAME=VALUE with commas between; a comma that no NAME= follows belongs to the value.
"""

import re
from collections.abc import Iterator

from comparo.data.wordings import few


def read_settings(text: str, *known: str) -> Iterator[tuple[str, str]]:
    """The names and values in NAME=VALUE, NAME=VALUE; where names are `known`, there are no others.

    >>> list(read_settings("effort=low, base-url=x; price=0.15,0.60"))
    [('effort', 'low'), ('base_url', 'x'), ('price', '0.15,0.60')]
    """
    for part in re.split(r";|,(?=\s*[\w-]+\s*=)", text):
        name, _, value = (each.strip() for each in part.partition("="))
        if not name or "=" not in part:
            raise ValueError(f"{part.strip()!r} is not NAME=VALUE, in {text.strip()!r}")
        name = name if " " in name else name.replace("-", "_")
        if known and name not in known:
            raise ValueError(f"there is no {name!r} to set, in {text.strip()!r}; there are {few(known, like=name)}")
        yield name, value


def with_settings(text: str, *known: str) -> tuple[str, dict[str, str]]:
    """Split a text from the settings behind it, which begin at a semicolon.

    >>> with_settings("openai/m; effort=low"), with_settings("Summary; heading=Article", "heading")
    (('openai/m', {'effort': 'low'}), ('Summary', {'heading': 'Article'}))
    """
    head, *rest = re.split(r";(?=\s*[\w-]+\s*=)" if known else ";", text, maxsplit=1)
    return head.strip(), dict(read_settings(rest[0], *known)) if rest and rest[0].strip() else {}
