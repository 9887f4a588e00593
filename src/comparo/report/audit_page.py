"""The page of an audit: the biases of each judge with intervals, judges side by side, and an example of each bias.

It is made from audit.json and the texts of the run folder.
"""

import math
from pathlib import Path
from typing import Any

from comparo.data.probes import ORIGINAL
from comparo.report.embed import SENTENCE, excerpt, label, presentable
from comparo.report.making import prompt_of, question, settings
from comparo.report.page import filled
from comparo.report.record import Record
from comparo.run.audit_card import Audit, Card, Finding
from comparo.run.budget import dollars

TEXT = 600  # characters of each text of an example
NARROW, WIDE = 0.2, 4.0  # logits from the middle of a picture to its end, at least and at most
GROUPS = {
    "equal": "Variants that are as good as the original",
    "no better": "Variants that add nothing to the original",
    "worse": "Variants that are worse: the judge should prefer the original",
}


def audit_page(folder: Path, record: Record) -> str:
    """The page of the audit in a run folder as text; a ValueError where the folder holds none."""
    found = Audit.read(folder)
    configuration = presentable(record.configuration)
    ends = [abs(end) for card in found.cards for one in card.findings for end in _ends(one)]
    widest = min(max([NARROW, *ends]), WIDE)
    count = sum(len(card.biases) for card in found.cards)
    names = [one.probe for one in found.cards[0].findings]
    return filled(
        "audit.html.j2",
        title=f"Audit: {count} {'bias' if count == 1 else 'biases'} found",
        summaries=[label(card.summary, SENTENCE) for card in found.cards],
        question=label(question(prompt_of(configuration)), SENTENCE),
        judges=[label(card.name) for card in found.cards] if len(found.cards) > 1 else [],
        side_by_side=[(name, [card.finding(name) for card in found.cards]) for name in names],
        cards=[_card(card, widest) for card in found.cards],
        examples=_examples(found.cards, record),
        command=configuration.get("command", ""),
        settings=settings(configuration, record.judgements),
    )


def _ends(one: Finding) -> list[float]:
    return [end for end in (one.low, one.effect, one.high) if not math.isnan(end)]


def _card(card: Card, widest: float) -> dict[str, Any]:
    def place(value: float) -> float:
        return round(100 + 95 * max(-1.0, min(1.0, value / widest)), 1)

    groups = [
        (words, [(one, *map(place, (one.low, one.effect, one.high))) for one in card.findings if one.right == right])
        for right, words in GROUPS.items()
    ]
    cost = f", {dollars(card.cost)}" if card.cost else ""
    facts = [("Texts varied", f"{card.texts}"), ("Calls and cost", f"{card.calls:,} calls{cost}")]
    if not math.isnan(card.spread):
        facts.append(("Typical difference of two real texts", f"{card.spread:.2f} logits"))
    return {"name": label(card.name), "groups": groups, "facts": facts}


def _examples(cards: tuple[Card, ...], record: Record) -> list[tuple[str, Any, Any]]:
    """An original and its variant for each bias that was found."""
    found = []
    for name in dict.fromkeys(one.probe for card in cards for one in card.biases):
        if f"{name} 1" in record.items.groups:
            asked = record.items.question(f"{name} 1", ORIGINAL, name)
            found.append((name, excerpt(asked.first_text, TEXT), excerpt(asked.second_text, TEXT)))
    return found
