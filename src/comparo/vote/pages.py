"""The pages: filled templates, with texts shown plainly, as Markdown, or with their differing words marked.

Texts are untrusted: templates and this file escape them, and Markdown makes tags without attributes, links or images.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markupsafe import Markup, escape

from comparo.data.images import is_image
from comparo.data.prompts import Question
from comparo.data.wordings import LETTERS
from comparo.log.questions import Ballot
from comparo.ranking.tabular import rows_of
from comparo.report.making import question
from comparo.report.page import environment
from comparo.vote.booth import Booth
from comparo.vote.session import LONGEST
from comparo.vote.standing import Live, Standing, members_of

HERE = Path(__file__).parent
FILES = {"page.css": "text/css"} | dict.fromkeys(("judge.js", "join.js", "organiser.js"), "text/javascript")
REASON = 200  # most characters of the reason for a skip, or of a written reason beside the ticked ones
SHOWN = 200  # rows of the ranking on the organiser's page; ranking.csv has all
MARKDOWN = 20_000  # most characters of a text shown as Markdown: a hostile text of that length takes about 0.5 s
WORDS = 2000  # most words of a text whose differences are marked: hostile texts of that length take 0.7 s
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Pages:
    """The pages of a booth.

    `kind` and `heading` are the names of the texts and of their context, `each` the votes asked of each judge. `origin`
    begins the links for others, with the prefix of a proxy if there is one. `reasons` can be ticked beside a vote, and
    a judge can write another one; None: votes have no reasons.
    """

    booth: Booth
    kind: str = "Text"
    heading: str = "Context"
    each: int | None = None
    markdown: bool = False
    origin: str = ""
    has_invitation: bool = False
    reasons: tuple[str, ...] | None = None

    @cached_property
    def live(self) -> Live:
        return Live(self.booth)

    def path(self, page: str, token: str) -> str:
        """The path of a page as a browser asks for it."""
        return f"{urlsplit(self.origin).path}/{page}/{token}/"

    def _filled(self, template: str, **values: Any) -> str:
        prompt = self.booth.voting.prompt
        return environment(HERE).get_template(template).render(question=question(prompt), size=prompt.size, **values)

    def judge(self, base: str, name: str) -> str:
        """The page of a judge."""
        return self._filled("judge.html.j2", base=base, name=name, **self._turn(name))

    def turn(self, name: str) -> str:
        """The part of a judge's page that a vote changes."""
        return self._filled("turn.html.j2", **self._turn(name))

    def _turn(self, name: str) -> dict[str, Any]:
        turn = self.booth.turn(name)
        shown: dict[str, Any] = {"turn": turn, "each": self.each, "kind": self.kind, "heading": self.heading}
        shown |= {"reasons": self.reasons, "longest": REASON}
        if turn.ballot is None:
            return shown
        asked = self._asked(turn.ballot)
        texts = [shown_text(text, self.markdown) for text in asked.texts]
        return shown | {
            "texts": dict(zip(LETTERS, texts, strict=False)),
            "context": None if asked.context_text is None else shown_text(asked.context_text, self.markdown),
            "has_image": any(map(is_image, asked.texts)),
            "code": list(self.booth.voting.items.groups).index(turn.ballot.context),
        }

    def _asked(self, ballot: Ballot) -> Question:
        return self.booth.voting.items.question(ballot.context, ballot.first, ballot.second)

    def differences(self, ballot: Ballot) -> list[str] | None:
        """Both texts of a ballot as HTML with the differing words marked; None if they are too long or images."""
        asked = self._asked(ballot)
        found = None if any(map(is_image, asked.texts)) else differences(asked.first_text, asked.second_text)
        return None if found is None else [f'<div class="plain">{side}</div>' for side in found]

    def join(self, base: str) -> str:
        """The page of the invitation."""
        return self._filled("join.html.j2", base=base, longest=LONGEST)

    def organiser(self, base: str) -> str:
        """The page of the organiser."""
        values = {"base": base, "folder": str(self.booth.store.folder), "origin": self.origin}
        return self._filled("organiser.html.j2", **values, **self._standing(self.live.latest))

    def standing(self) -> str:
        """The part of the organiser's page that votes change."""
        return self._filled("live.html.j2", **self._standing(self.live.look()))

    def _standing(self, standing: Standing | None) -> dict[str, Any]:
        shown, links = self.booth.shown(), self.booth.links
        votes = [ballot for ballot in shown if ballot.is_vote]
        pairs = {ballot.pair for ballot in votes}
        rows, hidden = ([], 0) if standing is None else _rows(standing)
        return {
            "standing": standing,
            "total": len(votes),
            "pairs": f"{len(pairs):,}",
            "skipped": sum(ballot.is_skip for ballot in shown),
            "members": members_of([], list(links.judges)) if standing is None else standing.members,
            "links": {name: self.path("vote", token) for name, token in links.active.items()},
            "invitation": self.path("join", links.invitation) if self.has_invitation else None,
            "each": self.each,
            "until": self.booth.voting.until,
            "rows": rows,
            "hidden": hidden,
            "has_contexts": len(self.booth.voting.items.contexts) > 1,
            "notes": () if standing is None or standing.ranking is None else standing.ranking.notes,
            "problem": self.live.problem,
            "nan": math.nan,
        }


def _rows(standing: Standing) -> tuple[list[dict[str, Any]], int]:
    """The first rows of the ranking and the number of others; `x`: low, score and high in per cent of the axis."""
    if standing.ranking is None:
        return [], 0
    rows = rows_of(standing.ranking.to_columns(), SHOWN)
    known = [row[name] for row in rows for name in ("low", "score", "high") if math.isfinite(row[name])]
    low, high = min(known, default=0.0), max(known, default=1.0)
    width = max(high - low, 1e-9)
    for row in rows:
        ends = [row[name] if math.isfinite(row[name]) else row["score"] for name in ("low", "score", "high")]
        row["x"] = [f"{100 * (end - low) / width:.1f}" for end in ends]
    return rows, len(standing.ranking) - len(rows)


_PARSER = MarkdownIt("commonmark", {"html": False})
_PARSER.validateLink = lambda *_: True  # type: ignore[method-assign]  # a link is shown as its words
_PARSER.add_render_rule("link_open", lambda *_: "")
_PARSER.add_render_rule("link_close", lambda *_: "")
_PARSER.add_render_rule("image", lambda _, tokens, number, *__: escapeHtml(tokens[number].content))


def shown_text(text: str, is_markdown: bool) -> Markup:
    """The HTML of a text: an image, Markdown (up to `MARKDOWN` characters), or plain text.

    >>> str(shown_text("a *b* <i>", is_markdown=False))
    '<div class="plain">a *b* &lt;i&gt;</div>'
    """
    if is_image(text):
        return Markup('<div class="image"><img src="{}" alt=""></div>').format(text)
    if is_markdown and len(text) <= MARKDOWN:
        return Markup('<div class="markdown">{}</div>').format(as_markdown(text))
    return Markup('<div class="plain">{}</div>').format(text)


def as_markdown(text: str) -> Markup:
    """Markdown as HTML without attributes; a link or an image becomes its words.

    >>> print(as_markdown("# A *title*\\n\\nSee [this](https://example.org), `a < b`."))
    <h3>A <em>title</em></h3>
    <p>See this, <code>a &lt; b</code>.</p>
    <BLANKLINE>
    """
    tokens = _PARSER.parse(text)
    for token in tokens:
        token.attrs, token.info = {}, ""
        if token.type.startswith("heading"):
            token.tag = f"h{min(int(token.tag[1]) + 2, 6)}"  # the page has headings of its own
    return Markup(_PARSER.renderer.render(tokens, _PARSER.options, {}))


def differences(one: str, other: str) -> tuple[Markup, Markup] | None:
    """Two escaped texts with the words marked in which they differ; None above `WORDS` words.

    >>> differences("The cat <sat>.", "The dog <sat>.")
    (Markup('The <mark>cat</mark> &lt;sat&gt;.'), Markup('The <mark>dog</mark> &lt;sat&gt;.'))
    """
    left, right = list(_WORD.finditer(one)), list(_WORD.finditer(other))
    if max(len(left), len(right)) > WORDS:
        return None
    matcher = SequenceMatcher(None, [word[0] for word in left], [word[0] for word in right])
    blocks = matcher.get_matching_blocks()
    return (
        _marked(one, left, [(block.a, block.size) for block in blocks]),
        _marked(other, right, [(block.b, block.size) for block in blocks]),
    )


def _marked(text: str, words: list[re.Match[str]], equal: list[tuple[int, int]]) -> Markup:
    """The text with marks around the words outside the `equal` blocks (first word, size), the last of size 0."""
    shown, at, word = Markup(""), 0, 0
    for begin, size in equal:
        if word < begin:
            start, end = words[word].start(), words[begin - 1].end()
            shown += escape(text[at:start]) + Markup("<mark>{}</mark>").format(text[start:end])
            at = end
        word = begin + size
    return shown + escape(text[at:])
