"""What an audition leaves behind: what each voice showed, and the answers, with which a run may begin.

A run takes the answers of those of its voices that were asked then: the same judge with the same settings and the same
prompt. They are answered questions of the run like any other, within its budget, and are not asked again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.data.items import Items
from comparo.judges import Judgement
from comparo.ranking.display import json_rows
from comparo.ranking.ranking import Ranking
from comparo.run.database import key_of
from comparo.run.item_rows import texts_of
from comparo.run.store import differences, read_configuration, read_judgements, stored_items
from comparo.run.voices import Voice

BLIND = 0.05  # content, at an end of its interval, of a voice that hardly sees the texts


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of an audition, the items that they are about, and the identity of each of its voices by name.

    `source` is where they are from, in words for the user.
    """

    source: str
    items: Items
    voices: Mapping[str | None, Mapping[str, Any]]
    judgements: Sequence[Judgement]

    @classmethod
    def read(cls, folder: str | Path) -> Answers:
        """The answers in the run folder of an audition; a StoreError where it is none."""
        folder = Path(folder)
        identity = read_configuration(folder)["identity"]
        voices = identity.get("voices") or {None: {name: identity[name] for name in ("judge", "settings", "prompt")}}
        return cls(str(folder), stored_items(folder), voices, read_judgements(folder))

    def given_to(self, items: Items, voices: Sequence[Voice]) -> tuple[Judgement, ...]:
        """The answers that count in a run of these items and voices, as questions of that run.

        Raises
        ------
        ValueError
            If a text is not among the items as it was then, or none of the voices was asked.
        """
        labels = self._labels(items)
        names = self._names(voices)
        given = {}
        for one in self.judgements:
            if not one.failed and one.question.voice in names:
                place, *pair, _ = key_of(one.question)
                (context, first), (_, second) = (labels[place, item] for item in pair)
                question = replace(items.question(context, first, second), voice=names[one.question.voice])
                given[key_of(question)] = replace(one, question=question)
        return tuple(given[key] for key in sorted(given, key=str))  # not in the order in which they came

    def taken(self, given: Sequence[Judgement]) -> dict[str, Any]:
        """What run.json says of the answers that a run begins with: their source, number, and cost in dollars."""
        costs = [one.cost for one in given if one.cost >= 0]
        return {"source": self.source, "answers": len(given), "cost": sum(costs) if costs else None}

    def _labels(self, items: Items) -> dict[tuple[str, str], tuple[Any, Any]]:
        """Context and id, as the items have them, of the texts of the audition by their encoded labels."""
        now = texts_of(items)
        for label, texts in texts_of(self.items).items():
            if label not in now or now[label][1:] != texts[1:]:
                how = "is not among" if label not in now else "is another one in"
                raise ValueError(
                    f"{self.source} is an audition of other texts: that of {label[1]} {how} these items; give the "
                    "items of the audition, or leave --audition out"
                )
        return {label: found[0] for label, found in now.items()}

    def _names(self, voices: Sequence[Voice]) -> dict[str | None, str | None]:
        """The name in the run of each voice of the audition that it has."""
        wanted = {voice.name: json.loads(json.dumps(voice.identity, default=str)) for voice in voices}
        names: dict[str | None, str | None] = {}
        apart: list[list[str]] = []
        for old, before in self.voices.items():
            for new, now in wanted.items():
                if differing := differences(before, now):
                    apart.append(differing)
                else:
                    names[old] = new
        if not names:
            fewest = sorted(apart, key=len)[0]
            raise ValueError(
                f"none of the voices of this run was asked in {self.source}: {'; '.join(fewest)}; give "
                "the judge, its options, the criterion and the wording of the audition, or leave --audition out"
            )
        return names


def fingerprint(given: Sequence[Judgement]) -> str:
    """How many answers a run begins with, and a digest of them: what must be the same for it to go on.

    >>> from comparo.data.prompts import Question
    >>> fingerprint([Judgement(Question("ana", "bo"), p=0.7)])[:19]
    '1 answers, fdf43b46'
    """
    rows = sorted([*map(str, key_of(one.question)), repr(float(one.p)), repr(float(one.weight))] for one in given)
    return f"{len(rows)} answers, {hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class Audition:
    """What the voices showed.

    Parameters
    ----------
    table : A row per voice, the most content first: the columns of `comparo.reliability`, length (the share of an
        answer that the length of the texts explains, with its interval), cost (dollars for a call) and seconds (of a
        call), nan where not known.
    best : The voice of most content that does not contradict the others.
    rivals : Voices of which the answers do not show that they have less content than the best: the 95% interval of the
        difference contains 0. With any of them, it is too close to call.
    panel : The voices that are nearly as good, the best first; copies of another are left out, and voices whose
        agreement with the others may be 0 or less.
    notes : Sentences about voices that are reversed, blind, possibly coins, or that answer mostly by position.
    ranking : What the voices say together of the texts that were compared.
    answers : What they answered, for `rank(…, audition=…)`.
    """

    table: Mapping[str, NDArray[Any]]
    best: str
    rivals: tuple[str, ...]
    panel: tuple[str, ...]
    notes: tuple[str, ...]
    ranking: Ranking
    answers: Answers = field(repr=False)

    @property
    def advice(self) -> str:
        """Which voice to use, if any."""
        if not np.any(self.table["content_high"] >= BLIND):
            return (
                "No voice sees these texts: a ranking by them would mean little. Try another judge, or another wording."
            )
        if self.rivals:
            return (
                f"Too close to call: {self.best} has the most content, but these answers do not show that it has more "
                f"than {', '.join(self.rivals)}. Ask more pairs (--pairs)."
            )
        return f"Use {self.best}: of all voices, the largest share of what it says is about the texts."

    def to_dict(self) -> dict[str, Any]:
        """All but the ranking and the answers, as a JSON object; the voices are its rows."""
        names = {"best": self.best, "rivals": list(self.rivals), "panel": list(self.panel)}
        return names | {"advice": self.advice, "notes": list(self.notes), "voices": json_rows(self.table)}
