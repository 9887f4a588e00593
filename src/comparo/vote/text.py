"""Texts as the page shows them: as they are, as Markdown, or with the words marked that another text does not have.

Texts are untrusted. They are escaped before anything else is done with them, and only the tags of this file come out:
no links, no images, no attributes, no HTML of their own.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from itertools import accumulate

from markupsafe import Markup, escape

# Every pattern takes time proportional to the length of a text, whatever it holds: nothing repeated is matched twice.
SPAN = 1000  # characters between two marks such as ** at most: farther ones are not meant as a pair
WORDS = 6000  # of each text that are compared at most: unrelated texts of that length take 0.2 s
STEPS = 5_000_000  # of the search for equal words, about 1 s; texts made of few words would take minutes

_TICKS = re.compile("`+")
_DOUBLE = re.compile(r"\*\*|__")
_SINGLE = re.compile(r"[*_]")
_LINK = re.compile(r"!?\[([^][]{0,500})\]\((?:[^()\s]|\([^()\s]*\)){0,2000}(?:\s[^()]{0,200})?\)")
_HEADING = re.compile(r"(#{1,6})\s(.*)")
_ITEM = re.compile(r"\s*(?:([-*+])|\d{1,9}[.)])\s+(.*)")
_FENCE = re.compile(r"\s{0,3}(```+|~~~+)")
_WORD = re.compile(r"\w+|[^\w\s]")


def as_markdown(text: str) -> Markup:
    """Paragraphs, headings, lists, bold, italics and code; of a link only its words are left.

    >>> print(as_markdown("# A *title*\\n\\nSee [this](https://example.org), `a < b`."))
    <h3>A <em>title</em></h3>
    <p>See this, <code>a &lt; b</code>.</p>
    >>> print(as_markdown("<script>alert(1)</script>\\n- **one**\\n- two"))
    <p>&lt;script&gt;alert(1)&lt;/script&gt;</p>
    <ul><li><strong>one</strong></li><li>two</li></ul>
    """
    blocks: list[str] = []
    paragraph: list[str] = []
    items: list[str] = []
    kind, fence, code = "", "", list[str]()

    def end() -> None:
        if paragraph:
            blocks.append(f"<p>{_inline(chr(10).join(paragraph))}</p>")
        if items:
            blocks.append(f"<{kind}>{''.join(f'<li>{_inline(each)}</li>' for each in items)}</{kind}>")
        paragraph.clear()
        items.clear()

    for line in text.split("\n"):
        opening = _FENCE.match(line)
        if fence:
            if opening and opening[1].startswith(fence) and line.strip() == opening[1]:
                blocks.append(f"<pre><code>{escape(chr(10).join(code))}</code></pre>")
                fence = ""
                code.clear()
            else:
                code.append(line)
        elif opening:
            end()
            fence = opening[1]
        elif not line.strip():
            end()
        elif heading := _HEADING.fullmatch(line):
            end()
            level = min(len(heading[1]) + 2, 6)  # the page has headings of its own
            blocks.append(f"<h{level}>{_inline(_title(heading[2]))}</h{level}>")
        elif item := _ITEM.fullmatch(line):
            named = "ul" if item[1] else "ol"
            if paragraph or (items and named != kind):
                end()
            kind = named
            items.append(item[2])
        elif items:
            items[-1] += f"\n{line.strip()}"
        else:
            paragraph.append(line)
    end()
    if code:  # a fence that never ends
        blocks.append(f"<pre><code>{escape(chr(10).join(code))}</code></pre>")
    return Markup("\n".join(blocks))


def _title(text: str) -> str:
    """The text of a heading without the marks that may close it."""
    text = text.strip()
    bare = text.rstrip("#")
    return bare.rstrip() if bare[-1:].isspace() or not bare else text


def _inline(text: str) -> str:
    """Escaped text with code, bold and italics; what is in code stays as it is."""
    return _wrapped(text, _TICKS, "code", lambda code: str(escape(code.strip())), _strong)


def _strong(text: str) -> str:
    return _wrapped(str(escape(_LINK.sub(r"\1", text))), _DOUBLE, "strong", _emphasised, _emphasised)


def _emphasised(text: str) -> str:
    return _wrapped(text, _SINGLE, "em", str, str)


def _wrapped(
    text: str, mark: re.Pattern[str], tag: str, inside: Callable[[str], str], outside: Callable[[str], str]
) -> str:
    """The text with each pair of marks as a tag, what is inside and outside of them made by these functions."""
    parts, at = [], 0
    for begin, end in _pairs(text, mark):
        parts += [outside(text[at : begin.start()]), f"<{tag}>{inside(text[begin.end() : end.start()])}</{tag}>"]
        at = end.end()
    return "".join([*parts, outside(text[at:])])


def _pairs(text: str, mark: re.Pattern[str]) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """The opening and closing marks that belong together, found in one pass."""
    opened: dict[str, re.Match[str]] = {}
    for found in mark.finditer(text):
        sign, before, after = (
            found[0],
            text[max(found.start() - 1, 0) : found.start()],
            text[found.end() : found.end() + 1],
        )
        is_code, is_single = sign[0] == "`", len(sign) == 1
        begun = opened.get(sign)
        if begun is not None and found.start() - begun.end() > SPAN:
            begun = None
        closes = is_code or not (before.isspace() or (is_single and after.isalnum()))
        if begun is not None and closes and begun.end() < found.start():
            yield begun, found
            opened.clear()
        elif begun is None and (len(sign) <= 3 if is_code else after.strip() and not (is_single and before.isalnum())):
            opened[sign] = found


def differences(one: str, other: str) -> tuple[Markup, Markup] | None:
    """Two texts, escaped, with the words marked that the other does not have at that place; None for long ones.

    >>> differences("The cat <sat>.", "The dog <sat>.")
    (Markup('The <mark>cat</mark> &lt;sat&gt;.'), Markup('The <mark>dog</mark> &lt;sat&gt;.'))
    """
    words = [list(_WORD.finditer(text)) for text in (one, other)]
    if max(map(len, words)) > WORDS:
        return None
    equal: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for start, other_start, size in _blocks(*([word[0] for word in each] for each in words)):
        for side, begin in enumerate((start, other_start)):
            equal[side].append((begin, begin + size))
    shown = (
        _marked(text, list(_gaps(own, found))) for text, own, found in zip((one, other), words, equal, strict=True)
    )
    return next(shown), next(shown)


def _blocks(one: list[str], other: list[str]) -> list[tuple[int, int, int]]:
    """Where equal words begin in each, and how many, in order; at `STEPS` the search ends, and the rest differs."""
    matcher, times = SequenceMatcher(None, one, other), Counter(other)
    popular = 1 + len(other) // 100  # words that occur more often are no beginnings of equal words for the matcher
    cost = [0, *accumulate(1 + (times[word] if times[word] <= popular else 0) for word in one)]
    found, ranges, steps = [], [(0, len(one), 0, len(other))], 0
    while ranges and steps < STEPS:
        low, high, other_low, other_high = ranges.pop()
        steps += cost[high] - cost[low]
        start, other_start, size = matcher.find_longest_match(low, high, other_low, other_high)
        if size:
            found.append((start, other_start, size))
            ranges += [(low, start, other_low, other_start), (start + size, high, other_start + size, other_high)]
    return sorted(found)


def _gaps(words: list[re.Match[str]], equal: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The places in the text of the words between those that are equal."""
    at = 0
    for begin, end in [*equal, (len(words), len(words))]:
        if at < begin:
            yield words[at].start(), words[begin - 1].end()
        at = end


def _marked(text: str, spans: list[tuple[int, int]]) -> Markup:
    parts, at = [], 0
    for begin, end in spans:
        parts += [escape(text[at:begin]), Markup("<mark>{}</mark>").format(text[begin:end])]
        at = end
    return Markup("").join([*parts, escape(text[at:])])
