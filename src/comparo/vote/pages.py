"""The pages: templates filled in, every text escaped by them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from comparo.report.making import question
from comparo.vote.ballots import Ballot
from comparo.vote.booth import Booth
from comparo.vote.people import LONGEST
from comparo.vote.standing import Live, Standing, members_of
from comparo.vote.text import as_markdown, differences

HERE = Path(__file__).parent
FILES = {"page.css": "text/css", "judge.js": "text/javascript", "join.js": "text/javascript"}
FILES |= {"organiser.js": "text/javascript"}
REASON = 200  # characters of the reason for a skip
SHOWN = 200  # rows of the ranking on the organiser's page; ranking.csv has all


@dataclass(frozen=True)
class Look:
    """How the pages look: what the texts and their context are called, votes asked of each judge, minutes to a break.

    With `markdown`, texts are shown as Markdown. `origin` begins the links that are given to others.
    """

    kind: str = "Text"
    heading: str = "Context"
    each: int | None = None
    rest: float = 0.0
    markdown: bool = False
    origin: str = ""


@dataclass(frozen=True)
class Pages:
    """The pages of a booth."""

    booth: Booth
    live: Live
    look: Look
    has_invitation: bool = False

    @cached_property
    def _environment(self) -> Environment:
        return Environment(
            loader=FileSystemLoader(HERE),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
        )

    @cached_property
    def _question(self) -> str:
        return question(self.booth.prompt)

    def _filled(self, template: str, **values: Any) -> str:
        return self._environment.get_template(template).render(question=self._question, **values)

    def judge(self, base: str, name: str) -> str:
        """The page of a judge."""
        values = {"base": base, "name": name, "rest": self.look.rest, "longest": REASON}
        return self._filled("judge.html.j2", **values, **self._turn(name))

    def turn(self, name: str) -> str:
        """The part of a judge's page that a vote changes."""
        return self._filled("turn.html.j2", **self._turn(name))

    def _turn(self, name: str) -> dict[str, Any]:
        turn = self.booth.turn(name)
        look = {"turn": turn, "each": self.look.each, "kind": self.look.kind, "heading": self.look.heading}
        if turn.ballot is None:
            return look
        asked = self._asked(turn.ballot)
        return look | {
            "left": self._text(asked.first_text),
            "right": self._text(asked.second_text),
            "context": None if asked.context_text is None else self._text(asked.context_text),
            "code": list(self.booth.items.groups).index(turn.ballot.context),
        }

    def _asked(self, ballot: Ballot) -> Any:
        return self.booth.items.question(ballot.context, ballot.first, ballot.second)

    def _text(self, text: str) -> Markup:
        if self.look.markdown:
            return Markup('<div class="markdown">{}</div>').format(as_markdown(text))
        return Markup('<div class="plain">{}</div>').format(text)

    def differences(self, ballot: Ballot) -> list[str] | None:
        """Both texts of a ballot with the words marked in which they differ; None where they are too long."""
        asked = self._asked(ballot)
        found = differences(asked.first_text, asked.second_text)
        return None if found is None else [f'<div class="plain">{side}</div>' for side in found]

    def join(self, base: str) -> str:
        """The page of the invitation."""
        return self._filled("join.html.j2", base=base, longest=LONGEST)

    def organiser(self, base: str) -> str:
        """The page of the organiser."""
        values = {"base": base, "folder": str(self.booth.store.folder), "origin": self.look.origin}
        return self._filled("organiser.html.j2", **values, **self._standing())

    def standing(self) -> str:
        """The part of the organiser's page that votes change."""
        return self._filled("live.html.j2", **self._standing())

    def _standing(self) -> dict[str, Any]:
        standing, shown, links = self.live.look(), self.booth.shown(), self.booth.links
        rows, hidden = ([], 0) if standing is None else _rows(standing)
        votes = [ballot for ballot in shown if ballot.is_vote]
        return {
            "standing": standing,
            "total": len(votes),
            "pairs": f"{len({ballot.pair for ballot in votes}):,}",
            "skipped": sum(ballot.is_skip for ballot in shown),
            "members": members_of([], list(links.judges)) if standing is None else standing.members,
            "links": {name: f"/vote/{token}/" for name, token in links.judges.items()},
            "invitation": f"/join/{links.invitation}/" if self.has_invitation else None,
            "each": self.look.each,
            "until": self.booth.until,
            "rows": rows,
            "hidden": hidden,
            "has_contexts": len(self.booth.items.contexts) > 1,
            "notes": () if standing is None or standing.ranking is None else standing.ranking.notes,
            "problem": self.live.problem,
            "nan": math.nan,
        }


def _rows(standing: Standing) -> tuple[list[Mapping[str, Any]], int]:
    """The first rows of the ranking, each with the places of its interval in per cent, and how many more there are."""
    if standing.ranking is None:
        return [], 0
    columns = {name: column.tolist() for name, column in standing.ranking.to_columns().items()}
    known = [value for name in ("low", "score", "high") for value in columns[name][:SHOWN] if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    rows: list[Mapping[str, Any]] = []
    for number in range(min(SHOWN, len(columns["item"]))):
        row = {name: column[number] for name, column in columns.items()}
        ends = [row[name] if math.isfinite(row[name]) else row["score"] for name in ("low", "score", "high")]
        rows.append({**row, "x": [f"{100 * (end - low) / max(high - low, 1e-9):.1f}" for end in ends]})
    return rows, len(columns["item"]) - len(rows)
