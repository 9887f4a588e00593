"""Texts as the page shows them: as they are, as Markdown, or with the words marked that another text does not have.

Texts are untrusted. They are escaped before anything else is done with them, and only the tags of this file come out:
no links, no images, no attributes, no HTML of their own.
"""

import re
from difflib import SequenceMatcher

from markupsafe import Markup, escape

SPAN = 1000  # characters between two marks such as ** at most, so that many marks that never close cost little time
WORDS = 6000  # of each text that are compared at most: unrelated texts of that length take 0.2 s

_CODE = re.compile(rf"(?<!`)(`{{1,3}})(?!`)(.{{1,{SPAN}}}?)(?<!`)\1(?!`)")
_LINK = re.compile(r"!?\[([^][]{0,500})\]\((?:[^()\s]|\([^()\s]*\)){0,2000}(?:\s[^()]{0,200})?\)")
_BOLD = re.compile(rf"(\*\*|__)(?=\S)([^<>]{{1,{SPAN}}}?)(?<=\S)\1")
_ITALIC = re.compile(
    rf"(?<![\w*])\*(?=[^\s*])([^<>*]{{1,{SPAN}}}?)(?<=\S)\*(?!\w)|(?<!\w)_(?=[^\s_])([^<>_]{{1,{SPAN}}}?)(?<=\S)_(?!\w)"
)
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*")
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
            blocks.append(f"<h{level}>{_inline(heading[2])}</h{level}>")
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


def _inline(text: str) -> str:
    """Escaped text with code, bold and italics; what is in code stays as it is."""
    parts, at = [], 0
    for code in _CODE.finditer(text):
        parts += [_emphasised(text[at : code.start()]), f"<code>{escape(code[2].strip())}</code>"]
        at = code.end()
    return "".join([*parts, _emphasised(text[at:])])


def _emphasised(text: str) -> str:
    safe = str(escape(_LINK.sub(r"\1", text)))
    safe = _BOLD.sub(r"<strong>\2</strong>", safe)
    return _ITALIC.sub(lambda found: f"<em>{found[1] or found[2]}</em>", safe)


def differences(one: str, other: str) -> tuple[Markup, Markup] | None:
    """Two texts, escaped, with the words marked that the other does not have at that place; None for long ones.

    >>> differences("The cat <sat>.", "The dog <sat>.")
    (Markup('The <mark>cat</mark> &lt;sat&gt;.'), Markup('The <mark>dog</mark> &lt;sat&gt;.'))
    """
    words = [list(_WORD.finditer(text)) for text in (one, other)]
    if max(map(len, words)) > WORDS:
        return None
    a, b = ([word[0] for word in each] for each in words)
    spans: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for tag, *ends in SequenceMatcher(None, a, b).get_opcodes():
        for side, (begin, end) in enumerate((ends[:2], ends[2:])):
            if tag != "equal" and begin < end:
                spans[side].append((words[side][begin].start(), words[side][end - 1].end()))
    return _marked(one, spans[0]), _marked(other, spans[1])


def _marked(text: str, spans: list[tuple[int, int]]) -> Markup:
    parts, at = [], 0
    for begin, end in spans:
        parts += [escape(text[at:begin]), Markup("<mark>{}</mark>").format(text[begin:end])]
        at = end
    return Markup("").join([*parts, escape(text[at:])])
