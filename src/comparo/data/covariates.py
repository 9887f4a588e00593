"""Covariates of texts: terms of a control, with priors of their coefficients, and candidate reasons of a preference.

A term names a column of numbers, or a number computed from the text: "length", "markup" or "opening". With a prior,
β ~ N(mean, std²) in logits per unit, it is written "length=0.31±0.12"; an audit gives such terms.

A reason is a question that a judge can be asked about two texts ("which text is more specific?"), or a number of a text
where that is enough. Counts of words and signs are rates, n per 100 words as log₂(1 + n), so that they do not
depend on the length. The words that they look for are English.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from comparo.data.criteria_prompt import LONGEST, check_names
from comparo.data.items import Items
from comparo.data.wordings import is_attribute
from comparo.errors import ComparisonsError, OptionError
from comparo.types import Array

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SENTENCE = re.compile(r"[.!?](?:\s|$)")
_CONTENT = 4  # least letters of a content word; shorter words are mostly function words
ALIKE = 0.5  # least Jaccard similarity of two wordings of one reason
MOST_REASONS = 8  # proposed reasons that are kept
_ARTICLES = frozenset("a an the it its is are was be more less of to in and or that this than text".split())
_TERM = re.compile(r"(.+)=([+-]?[\d.]+(?:e[+-]?\d+)?)±([\d.]+(?:e[+-]?\d+)?)")
_MARKUP = re.compile(r"^\s{0,3}(?:#{1,6}\s|[-*+]\s|\d+[.)]\s|>|```)|\*\*|__", re.MULTILINE)
_CONFIDENT = re.compile(r"\b(?:certain(?:ly)?|definite(?:ly)?|undoubtedly|doubt|clearly|absolutely|of course)\b", re.I)
_APOLOGETIC = re.compile(r"\b(?:sorry|apolog\w+|unfortunately|afraid|not sure|unsure|may be wrong|as an ai)\b", re.I)
OPENING = 120  # characters of a text that are its opening


def length(text: str) -> float:
    """log₂ of the number of characters, which need no rule for words in any language."""
    return math.log2(max(len(text), 1))


def markup(text: str) -> float:
    """log₂(1 + number of Markdown marks): headings, bullets, numbered points, quotes, code and bold.

    >>> markup("Plain."), markup("## Title\\n- one\\n- two")
    (0.0, 2.0)
    """
    return math.log2(1 + len(_MARKUP.findall(text)))


def opening(text: str) -> float:
    """1 where an English text opens with confidence, −1 where it opens with an apology or doubt, else 0.

    >>> opening("This is certainly so."), opening("I am sorry, I am not sure."), opening("A story.")
    (1.0, -1.0, 0.0)
    """
    begin = text[:OPENING]
    if _APOLOGETIC.search(begin):
        return -1.0
    return float(_CONFIDENT.search(begin) is not None)


COMPUTED: Mapping[str, Callable[[str], float]] = {"length": length, "markup": markup, "opening": opening}


@dataclass(frozen=True)
class Term:
    """A covariate, and the prior of its coefficient; an infinite `std` means no prior.

    >>> Term.of("length=0.31±0.12"), str(Term.of("price"))
    (Term(name='length', mean=0.31, std=0.12), 'price')
    """

    name: str
    mean: float = 0.0
    std: float = math.inf

    @classmethod
    def of(cls, text: str) -> Term:
        """Parse a term; a ValueError unless the `std` of its prior is above 0."""
        match = _TERM.fullmatch(text)
        if match is None:
            return cls(text)
        name, mean, std = match[1], float(match[2]), float(match[3])
        if not std > 0:
            raise OptionError("control", text, f"gives the prior of {name} no width; give one above 0")
        return cls(name, mean, std)

    def __str__(self) -> str:
        return self.name if math.isinf(self.std) else f"{self.name}={self.mean:.6g}±{self.std:.6g}"


class Numbers(dict[Any, Any]):
    """The covariate of each item by its label (a text for "length"), with the `prior` of the coefficient."""

    prior: tuple[float, float] = 0.0, math.inf


def columns_in(control: Iterable[str]) -> list[str]:
    """The names of the terms that are columns of a file.

    >>> columns_in(["length", "price=2±1"])
    ['price']
    """
    return [name for name in (Term.of(text).name for text in control) if name not in COMPUTED]


def control_numbers(items: Items, names: Sequence[str]) -> dict[str, Numbers]:
    """The covariates of control terms, by context and id: texts for "length", else numbers.

    >>> control_numbers(Items.of({"ana": "A story.", "bo": "Another."}), ["length"])
    {'length': {(None, 'ana'): 'A story.', (None, 'bo'): 'Another.'}}
    """
    if missing := [name for name in columns_in(names) if name not in items.numbers]:
        raise ComparisonsError(f"the items have no numbers {missing[0]!r}; name such a column of their file")
    found = {}
    for term in map(Term.of, names):
        values: Sequence[Any] = items.texts
        if term.name in items.numbers:
            values = items.numbers[term.name].tolist()
        elif term.name != "length":
            values = list(map(COMPUTED[term.name], items.texts))
        found[term.name] = Numbers(zip(items.labels, values, strict=True))
        found[term.name].prior = term.mean, term.std
    return found


def combined(effects: Array, errors: Array, steps: Array) -> tuple[float, float]:
    """β and its standard error from `effects` δ = β·step with standard `errors`, all (m,), by least squares.

    Where √(χ²/(m − 1)) is above 1, because the effects disagree, the standard error is multiplied by it.

    >>> import numpy as np
    >>> round(combined(np.array([0.5, 1.0]), np.array([0.1, 0.1]), np.array([1.0, 2.0]))[0], 6)
    0.5
    """
    information = float(((steps / errors) ** 2).sum())
    beta = float((effects * steps / errors**2).sum()) / information
    apart = float((((effects - beta * steps) / errors) ** 2).sum()) / max(len(effects) - 1, 1)
    return beta, math.sqrt(max(apart, 1.0) / information)


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
    compute : The number of a text, or of a text and its context; None where a judge is asked.
    of_context : Whether it depends on the context.
    """

    name: str
    words: str
    against: str
    compute: Callable[..., float] | None = None
    of_context: bool = False


LIBRARY: tuple[Reason, ...] = (
    Reason("length", "longer", "shorter", length),
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
    Reason("grounded", "uses more of the context's words", "uses fewer of the context's words", _grounded, True),
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
    contexts = [items.context_texts[number] or "" for number in items.context.tolist()]
    found = {}
    for reason in LIBRARY:
        if reason.compute is None:
            continue
        columns = (items.texts, contexts) if reason.of_context else (items.texts,)
        column = np.array(list(map(reason.compute, *columns)), dtype=np.float64)
        if any(np.ptp(column[rows]) > 0 for rows in items.groups.values()):
            found[reason] = column
    return found


def judged_reasons(has_contexts: bool) -> list[Reason]:
    """The built-in reasons that a judge is asked about."""
    return [one for one in LIBRARY if one.compute is None and (has_contexts or not one.of_context)]


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
            raise OptionError("because", given, 'says nothing; give what may make a text win, such as "cites sources"')
        if is_attribute(words):
            raise OptionError("because", words, 'does not end "Which text is …"; compare: "more coherent"')
        slug = "-".join(_words(words.casefold()))[: LONGEST - 3].strip("-") or "reason"
        name, number = slug, 2
        while name in taken:
            name, number = f"{slug}-{number}", number + 1
        check_names({name: words})
        taken.add(name)
        found.append(Reason(name, words, f"not so: {words}"))
    return found


def clustered(wordings: Sequence[str], most: int = MOST_REASONS) -> dict[str, int]:
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
        shares = [len(own & words) / len(own | words) for words, _ in groups]
        largest = max(shares, default=0.0)
        if largest >= ALIKE:
            _, counts = groups[shares.index(largest)]
            counts[wording] += 1
        else:
            groups.append((own, Counter([wording])))
    order = sorted((counts for _, counts in groups), key=lambda counts: -counts.total())
    found = {}
    for counts in order[:most]:
        [(wording, _)] = counts.most_common(1)
        found[wording] = counts.total()
    return found
