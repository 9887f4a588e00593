"""The page of an audit: the biases of each judge with intervals, judges side by side, and an example of each bias.

It is made from audit.json and the texts of the run folder.
"""

from pathlib import Path
from typing import Any

from comparo.data.probes import ORIGINAL
from comparo.report.embed import SENTENCE, excerpt, label, presentable
from comparo.report.making import prompt_of, question, settings
from comparo.report.page import filled
from comparo.report.record import Record
from comparo.report.voices_section import probe_tables
from comparo.run.audit import Audit, Card

TEXT = 600  # characters of each text of an example


def audit_page(folder: Path, record: Record) -> str:
    """The page of the audit in a run folder as text; a ValueError where the folder holds none."""
    found = Audit.read(folder)
    configuration = presentable(record.configuration)
    count = sum(len(card.biases) for card in found.cards)
    names = [one.probe for one in found.cards[0].findings]
    return filled(
        "audit.html.j2",
        title=f"Audit: {count} {'bias' if count == 1 else 'biases'} found",
        summaries=[label(card.summary, SENTENCE) for card in found.cards],
        question=label(question(prompt_of(configuration)), SENTENCE),
        judges=[label(card.name) for card in found.cards] if len(found.cards) > 1 else [],
        side_by_side=[(name, [card.finding(name) for card in found.cards]) for name in names],
        cards=probe_tables(found),
        examples=_examples(found.cards, record),
        command=configuration.get("command", ""),
        settings=settings(configuration, record.judgements),
    )


def _examples(cards: tuple[Card, ...], record: Record) -> list[tuple[str, Any, Any]]:
    """An original and its variant for each bias that was found."""
    found = []
    for name in dict.fromkeys(one.probe for card in cards for one in card.biases):
        if f"{name} 1" in record.items.groups:
            asked = record.items.question(f"{name} 1", ORIGINAL, name)
            found.append((name, excerpt(asked.first_text, TEXT), excerpt(asked.second_text, TEXT)))
    return found
