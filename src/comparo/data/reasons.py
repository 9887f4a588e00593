"""Candidate reasons of a preference: what may make one text win against another.

A reason is a question that a judge can be asked about two texts ("which text is more specific?"), or a number of a text
where that is enough. Counts of words and signs are rates, n per 100 words as log₂(1 + n), so that they do not
depend on the length. The words that they look for are English.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from comparo.data.criteria_prompt import LONGEST, check_names
from comparo.data.items import Items
from comparo.data.text_features import markup, number_of
from comparo.data.wordings import is_attribute
from comparo.types import Array

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SENTENCE = re.compile(r"[.!?]+(?:\s|$)")
_CONTENT = 4  # least letters of a content word; shorter words are mostly function words
ALIKE = 0.5  # least Jaccard similarity of two wordings of one reason
MOST = 8  # proposed reasons that are kept
_ARTICLES = frozenset("a an the it its is are was be more less of to in and or that this than text".split())


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _sentence_length(text: str) -> float:
    return math.log2(max(len(_words(text)), 1) / max(len(_SENTENCE.findall(text)), 1))


def _word_length(text: str) -> float:
    words = _words(text)
    return sum(map(len, words)) / max(len(words), 1)


def _variety(text: str) -> float:
    """Guiraud's index, distinct words / √words, which is comparable between texts of different length."""
    words = [word.casefold() for word in _words(text)]
    return len(set(words)) / math.sqrt(max(len(words), 1))


def _grounded(text: str, context: str) -> float:
    """The share of content words that the context has too."""
    known = {word.casefold() for word in _words(context)}
    own = [word.casefold() for word in _words(text) if len(word) >= _CONTENT]
    return sum(word in known for word in own) / max(len(own), 1)


def _rate(pattern: str, flags: re.RegexFlag = re.IGNORECASE) -> Callable[[str], float]:
    """How often a pattern is in a text, per 100 words, as log₂(1 + rate)."""
    known = re.compile(pattern, flags)

    def rate(text: str) -> float:
        return math.log2(1 + 100 * len(known.findall(text)) / max(len(_words(text)), 1))

    return rate


@dataclass(frozen=True)
class Reason:
    """What may make a text win.

    Parameters
    ----------
    name : A short name, as of a criterion.
    words : The end of "Which text is …" or "Which text …".
    against : The opposite in words, where the effect is negative.
    compute : The number of a text; None where a judge is asked.
    of_context : The number of a text and its context, or whether the judge is asked only where there is a context.
    """

    name: str
    words: str
    against: str
    compute: Callable[[str], float] | None = None
    of_context: Callable[[str, str], float] | bool = False

    @property
    def is_computed(self) -> bool:
        return self.compute is not None or callable(self.of_context)


LIBRARY: tuple[Reason, ...] = (
    Reason("length", "longer", "shorter", lambda text: number_of("length", text)),
    Reason("sentences", "has longer sentences", "has shorter sentences", _sentence_length),
    Reason("long-words", "uses longer words", "uses shorter words", _word_length),
    Reason("variety", "repeats itself less", "repeats itself more", _variety),
    Reason("markup", "has more headings and lists", "has fewer headings and lists", markup),
    Reason("numbers", "gives more numbers", "gives fewer numbers", _rate(r"\d[\d.,]*")),
    Reason("sources", "cites more sources", "cites fewer sources",
           _rate(r"https?://|www\.|et al|\[\d+\]|according to")),
    Reason("quotes", "quotes more", "quotes less", _rate(r"[\"“”«»]|(?<!\w)'(?=\w)")),
    Reason("examples", "gives more examples", "gives fewer examples",
           _rate(r"\be\.g\.|for (?:example|instance)|such as")),
    Reason("causes", "argues more by causes", "argues less by causes",
           _rate(r"\b(?:because|therefore|thus|hence|since|consequently|so that|as a result)\b")),
    Reason("hedges", "is more tentative", "is more definite",
           _rate(r"\b(?:maybe|perhaps|might|may|could|seems?|probably|possibly|likely|i think|i guess)\b")),
    Reason("polite", "uses more polite words", "uses fewer polite words",
           _rate(r"\b(?:please|thanks?|thank you|sorry|appreciate\w*|kindly|welcome|glad|grateful|respect\w*)\b")),
    Reason("personal", "speaks more of the writer", "speaks less of the writer", _rate(r"\b(?:i|me|my|mine|myself)\b")),
    Reason("reader", "addresses the reader more", "addresses the reader less", _rate(r"\b(?:you|your|yours)\b")),
    Reason("questions", "asks more questions", "asks fewer questions", _rate(r"\?+")),
    Reason("emphasis", "is more emphatic", "is less emphatic", _rate(r"!+|\b[A-Z]{4,}\b", re.NOFLAG)),
    Reason("careless", "is written more carelessly", "is written more carefully",
           _rate(r"\bi\b|(?:^|[.!?]\s+)[a-z]|\s,|[.!?,]{2,}|\b(?:dont|cant|wont|im|u|ur|alot|thier)\b", re.MULTILINE)),
    Reason("grounded", "uses more of the context's words", "uses fewer of the context's words", None, _grounded),
    Reason("specific", "more specific", "more general"),
    Reason("structured", "better structured", "structured worse"),
    Reason("clear", "easier to understand", "harder to understand"),
    Reason("concise", "more to the point", "less to the point"),
    Reason("complete", "more complete", "less complete"),
    Reason("correct", "has fewer errors", "has more errors"),
    Reason("supported", "backs its claims better", "backs its claims worse"),
    Reason("balanced", "more balanced", "more one-sided"),
    Reason("original", "more original", "more usual"),
    Reason("engaging", "more engaging", "less engaging"),
    Reason("friendly", "friendlier", "less friendly"),
    Reason("useful", "more useful in practice", "less useful in practice"),
    Reason("faithful", "more grounded in the context", "less grounded in the context", of_context=True),
)  # fmt: skip


def computed_reasons(items: Items) -> dict[Reason, Array]:
    """The values (n,) of the texts for every computed reason that differs within some context.

    >>> items = Items.of({"ana": "A dog.", "bo": "A dog barks, because it is glad."})
    >>> [reason.name for reason in computed_reasons(items)][:2]
    ['length', 'sentences']
    """
    found = {}
    for reason in LIBRARY:
        if reason.compute is not None:
            values = [reason.compute(text) for text in items.texts]
        elif callable(reason.of_context):
            about = (items.context_texts[number] or "" for number in items.context.tolist())
            values = [reason.of_context(text, context) for text, context in zip(items.texts, about, strict=True)]
        else:
            continue
        column = np.array(values, dtype=np.float64)
        if any(np.ptp(column[rows]) > 0 for rows in items.groups.values()):
            found[reason] = column
    return found


def judged_reasons(has_contexts: bool) -> list[Reason]:
    """The built-in reasons that a judge is asked about."""
    return [one for one in LIBRARY if not one.is_computed and (has_contexts or not one.of_context)]


def own_reasons(because: Sequence[str], known: Iterable[str] = ()) -> list[Reason]:
    """Reasons in the user's words, with names that no other reason has.

    Raises
    ------
    ValueError
        If the words do not end "Which text is …".

    Examples
    --------
    >>> own_reasons(["cites sources", "more polite"])[0].name
    'cites-sources'
    """
    taken, found = {name.casefold() for name in known}, []
    for given in dict.fromkeys(because):
        words = " ".join(given.split()).rstrip("?.,;")
        if not words:
            raise ValueError('because="" says nothing; give what may make a text win, such as "cites sources"')
        if is_attribute(words):
            raise ValueError(f'because={words!r} does not end "Which text is …"; compare: "more coherent"')
        slug = "-".join(_words(words.casefold()))[: LONGEST - 3].strip("-") or "reason"
        name, number = slug, 2
        while name in taken:
            name, number = f"{slug}-{number}", number + 1
        check_names({name: words})
        taken.add(name)
        found.append(Reason(name, words, f"not so: {words}"))
    return found


def clustered(wordings: Sequence[str], most: int = MOST) -> dict[str, int]:
    """Cluster similar wordings: the commonest wording of each cluster with its size, largest first.

    Wordings are similar if at least half of the words of either, without function words, are in both.

    >>> clustered(["cites sources", "cites more sources", "is polite"])
    {'cites sources': 2, 'is polite': 1}
    """
    groups: list[tuple[set[str], Counter[str]]] = []
    for wording in wordings:
        own = {word.casefold() for word in _words(wording)} - _ARTICLES
        if not own:
            continue
        alike = [(len(own & words) / len(own | words), -number) for number, (words, _) in enumerate(groups)]
        share, place = max(alike, default=(0.0, 0))
        if share >= ALIKE:
            groups[-place][1][wording] += 1
        else:
            groups.append((own, Counter([wording])))
    order = sorted(groups, key=lambda group: -group[1].total())
    return {counts.most_common(1)[0][0]: counts.total() for _, counts in order[:most]}
