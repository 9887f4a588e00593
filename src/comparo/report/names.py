"""The names of candidates and contexts in a sentence, with the beginning of the text where a name says nothing."""

from typing import Any

from comparo.report.embed import label
from comparo.report.record import Record
from comparo.report.snippets import snippet

SHORT = 30  # characters of a text in a sentence
CODE = 16  # characters of a hash that are shown


def told(record: Record, node: int) -> str:
    """The name of a candidate in a sentence, with the beginning of its text where names say nothing."""
    name = label(record.ranking.items[node])
    begins = snippet(record.items.texts[record.row[node]], SHORT) if record.is_coded else ""
    return f"{name} (“{begins}”)" if begins else name


def context_told(record: Record, context: Any) -> str:
    """The name of a context; where names say nothing, after the beginning of its text."""
    name = label(context)
    if not record.has_coded_contexts:
        return name
    place = record.items.context[record.items.groups[context][0]]
    begins = snippet(record.items.context_texts[place])
    return f"{begins} ({label(context, CODE)})" if begins else name
