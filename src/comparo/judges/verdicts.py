"""Reads a server's reply: the probabilities of the labels from its tokens or, from its words, a vote or an order.

Words are read if the server gives no probabilities. Nothing is guessed: a reply that is uncertain, negates or names
both texts is not a verdict. n votes, a of them for the first text and b for the second, become

    p = (a + ½) / (a + b + 1),    weight = a + b,    mass = (a + b) / n,

the mean under Jeffreys' prior Beta(½, ½); p is never 0 or 1.

A reply about several criteria has a line per criterion, or an object with a key per criterion. p of a criterion is read
where its line names a label. It is conditional on the lines above, so answers may depend on them (docs/criteria.md).
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, islice, permutations
from typing import Any

from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.prompts import Prompt
from comparo.data.wordings import LETTERS, few
from comparo.judges.labels import AROUND, TextSpellings, label_probability, reply_paths, spells

# A token, its log-probability, and the likeliest tokens with theirs.
TokenLogprobs = tuple[Any, Any, list[tuple[Any, Any]]]
Positions = list[tuple[str, list[tuple[str, float]]]]
CriterionAnswers = dict[str, tuple[float, float, float]]  # p, mass and weight by criterion

LISTED = 4  # most texts whose orders a schema lists: 4 have 24 orders; the 120 orders of 5 would lengthen every call
LONGEST = 10_000  # characters; a longer reply is not read. A verdict of `max_tokens` = 64 has a few hundred

_FIRST, _SECOND = "\ue000", "\ue001"  # stand for the labels, whatever words they are
_ONE = f"[{_FIRST}{_SECOND}]"
_AFTER = "is|was|has|wins|beats|over|because|since|as|and|or|than|reads|seems|appears|looks|feels|outperforms|to|by"
_DECORATION = re.compile(r"[*_`\"“”\[\](){}#\ue000\ue001]|(?<!\w)'|'(?!\w)")
_DOUBT = re.compile(
    r"n't\b|\b(?:not|no|never|neither|nor|hardly|barely|cannot|unable|unsure|unclear|depends?|either|both|ties?|tied|"
    r"equal|equally|same|similar|worse|worst|less|least|weaker|poorer|inferior|loses?|lost|loser|if|whether|which|"
    r"unless|hard|difficult|sorry)\b"
)
_NAMED = r"(?:answer|verdict|winner|choice|decision|preference|judge?ment|better|best|pick|vote)(?: \w+)?"
_ALONE = re.compile(rf"(?:[\w ]{{0,40}}\b{_NAMED} ?(?:is|:) ?)?(?:option )?({_ONE}) ?[.!]*")
_LEADS = re.compile(rf"({_ONE}) ?(?:[.!;]|$|,? (?:because|since|as)\b)")
_WINS = (
    re.compile(
        rf"({_ONE}) (?:is|was|seems|appears|reads|looks|feels)(?: to be)?(?: \w+){{0,2}}? "
        r"(?:better|best|superior|stronger|preferable|preferred|winner|more \w+|\w+er than)\b"
    ),
    re.compile(
        rf"\b(?:prefer|choose|chose|pick|select|favou?r|go with|vote for|{_NAMED} ?(?:is|:)) (?:option )?({_ONE})"
    ),
    re.compile(rf"({_ONE}) ?(?:wins|beats|outperforms|(?:over|>+) ?(?!\1){_ONE})"),
)


def token_positions(rows: Iterable[TokenLogprobs]) -> Positions:
    """The tokens of a reply, each with the log-probabilities of its likeliest alternatives and its own.

    Tokens without alternatives are left out. Null becomes nan: valid JSON cannot hold −∞. A ValueError if the
    log-probabilities are not in the form of the API.

    >>> token_positions([(" A", -0.1, [(" B", -2.5)]), (".", None, [])])
    [(' A', [(' B', -2.5), (' A', -0.1)])]
    """
    positions = []
    try:
        for token, logprob, top in islice(rows, LONGEST):
            own = [] if any(other == token for other, _ in top) else [(token, logprob)]
            if top:
                known = [(_text(other), math.nan if value is None else float(value)) for other, value in top + own]
                positions.append((_text(token), known))
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as problem:
        raise ValueError(f"the log-probabilities are not in the form of the API ({type(problem).__name__})") from None
    return positions


def read_logprobs(positions: Positions, prompt: Prompt, *, begun: bool = False) -> tuple[float, float, str] | None:
    """`label_probability` where the reply first names a label or, if `begun`, at its first token; None without a label.

    >>> read_logprobs([("A", [("A", -0.5), ("B", -1.5)])], Prompt("{first}{second}"))  # doctest: +ELLIPSIS
    (0.731..., 0.829..., '')
    >>> prompt = Prompt("{first}{second}{third}", ("A", "B", "C"))
    >>> read_logprobs([("B", [("B", -0.5), ("A", -1.5), ("C", -2.5)])], prompt)  # doctest: +ELLIPSIS
    (0.244..., 0.911..., '-1.407...|-0.407...|-2.407...')
    """
    tokens = [token for token, _ in positions]
    for number in range(len(positions)):
        if begun or _begins_label(tokens, number, prompt):
            return label_probability(*reply_paths(positions[number:], prompt.labels), len(prompt.labels))
    return None


def label_tokens(prompt: Prompt) -> int:
    """The most tokens of a label in a reply that was begun: 1 for letters, which every tokenizer has, else 8."""
    return 1 if all(re.fullmatch("[A-Za-z]", label.strip()) for label in prompt.labels) else 8


def read_verdict(reply: str, prompt: Prompt) -> float | None:
    """1 where the reply prefers the first text, 0 where it prefers the second, None where that is not clear.

    >>> prompt = Prompt("{first}{second}", answer="Summary")
    >>> [read_verdict(reply, prompt) for reply in ("A", "**Summary B**", "I think A is better", '{"better": "B"}')]
    [1.0, 0.0, 1.0, 0.0]
    >>> [read_verdict(reply, prompt) for reply in ("", "A good question!", "A or B", "A is not better", "A. No, B.")]
    [None, None, None, None, None]
    """
    text = _marked(reply, prompt)
    lines = [line for line in text.splitlines() if line]
    alone = {match[1] for line in lines if (match := _ALONE.fullmatch(line)) and not _DOUBT.search(line)}
    if not alone:
        if _DOUBT.search(text):
            return None
        alone = {match[1] for pattern in _WINS for match in pattern.finditer(text)}
        if (leads := _LEADS.match(text)) and not {_FIRST, _SECOND} <= set(text):
            alone.add(leads[1])
    return float(alone == {_FIRST}) if len(alone) == 1 else None


def read_order(reply: str, prompt: Prompt) -> str | None:
    """The order of all texts in a reply, the best first, with letters for slots; None if it is not only an order.

    >>> prompt = Prompt("{first}{second}{third}", ("A", "B", "C"), "Text")
    >>> [read_order(reply, prompt) for reply in ("C > A > B.", "[B, A, C]", '{"order": "Text B, C, A"}')]
    ['C>A>B', 'B>A>C', 'B>C>A']
    >>> [read_order(reply, prompt) for reply in ("C", "C>A", "C>A>B>A", "C>A=B", "Not C > A > B", "C<A<B")]
    [None, None, None, None, None, None]
    """
    said = final_words(reply)
    order = _json_at(said, "order") if said.startswith("{") else said
    parts = order if isinstance(order, list) else []
    if isinstance(order, str):
        parts = re.split("[>,]", order)
    labels = dict(zip(LETTERS, prompt.labels, strict=False))
    names = {_plain(f"{kind} {label}"): letter for letter, label in labels.items() for kind in ("", prompt.answer)}
    found = [names.get(_plain(part), "") if isinstance(part, str) else "" for part in parts]
    return ">".join(found) if sorted(found) == list(labels) else None


def soften(verdicts: Sequence[float | None]) -> tuple[float, float, float] | None:
    """p, mass and weight of several verdicts; None where all are None.

    >>> soften([1.0, 1.0, None, 0.0])
    (0.625, 0.75, 3.0)
    """
    clear = [verdict for verdict in verdicts if verdict is not None]
    if not clear:
        return None
    count = len(clear)
    return (sum(clear) + 0.5) / (count + 1), count / len(verdicts), float(count)


def ordering(prompt: Prompt) -> str:
    """The instruction to reply with an order of more than two texts.

    >>> ordering(Prompt("{first}{second}{third}", ("A", "B", "C")))
    'Answer only with the order of all, the best first, such as C>A>B.'
    """
    first, second, third, *others = prompt.labels
    return f"Answer only with the order of all, the best first, such as {'>'.join((third, first, second, *others))}."


def reply_schema(prompt: Prompt) -> dict[str, Any]:
    """The JSON schema of a reply: {"better": verdict}, {"order": …}, or a key for each criterion.

    The schema lists the orders of up to four texts. For more texts, `read_order` refuses missing or repeated labels.

    >>> reply_schema(Prompt("{first}{second}"))["properties"]
    {'better': {'type': 'string', 'enum': ['A', 'B']}}
    """
    keys = ["order" if prompt.size > 2 else "better"]
    if isinstance(prompt, CriteriaPrompt):
        keys = [*prompt.parts]
    if prompt.size > LISTED:
        choice = {}
    elif prompt.size > 2:
        choice = {"enum": [">".join(order) for order in permutations(prompt.labels)]}
    else:
        choice = {"enum": [f"{prompt.answer} {label}".strip() for label in prompt.labels]}
    return {
        "type": "object",
        "properties": {key: {"type": "string", **choice} for key in keys},
        "required": keys,
        "additionalProperties": False,
    }


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _marked(reply: str, prompt: Prompt) -> str:
    """The reply without reasoning, JSON and decoration, in lower case, with a sign for every mention of a label."""
    said = final_words(reply)
    text = json_value(said, "better") if said.startswith("{") else said
    text = _DECORATION.sub(" ", text.replace("’", "'"))
    for label, sign in zip(prompt.labels, (_FIRST, _SECOND), strict=True):
        text = _mention(label.strip(), prompt.answer.strip()).sub(sign, text)
    return "\n".join(" ".join(line.split()) for line in text.lower().splitlines())


def final_words(reply: str) -> str:
    """A reply without its reasoning and the fences of code; empty where the reasoning did not end.

    A reply of more than `LONGEST` characters is not read.

    >>> final_words("<think>A? No.</think> B"), final_words("<think>A?")
    ('B', '')
    """
    _, ended, said = reply.rpartition("</think>")
    is_open = not ended and "<think>" in reply
    return "" if is_open or len(reply) > LONGEST else re.sub(r"```\w*", " ", said).strip()


def json_value(said: str, key: str) -> str:
    """The text at a key of a JSON object; empty where there is none."""
    verdict = _json_at(said, key)
    return verdict if isinstance(verdict, str) else ""


def _json_at(said: str, key: str) -> Any:
    try:
        return json.loads(said).get(key)
    except (AttributeError, ValueError, RecursionError):
        return None


def _plain(text: str) -> str:
    """A text without decoration and the full stop at its end, in lower case."""
    return " ".join(_DECORATION.sub(" ", text).split()).casefold().removesuffix(".")


def _mention(label: str, kind: str) -> re.Pattern[str]:
    """Matches a label as a whole word; a single letter is case-sensitive and must not read as an article."""
    prefix = rf"\b(?:(?i:the)\s+)?(?i:{re.escape(kind)})\s+" if kind else r"(?!)"
    if len(label) > 1:
        return re.compile(rf"(?i:(?:{prefix})?(?<!\w){re.escape(label)}(?!\w))")
    name = re.escape(label)
    return re.compile(rf"{prefix}{name}(?!\w)|(?<![\w'-]){name}(?![\w'-]|\s+(?!(?:{_AFTER})\b)[a-z])")


def _begins_label(tokens: Sequence[str], start: int, prompt: Prompt) -> bool:
    """Whether the reply names a label from the token at `start` on."""
    if not tokens[start].strip(AROUND) or (start and _one_number(tokens[start - 1], tokens[start])):
        return False
    words, text = TextSpellings(prompt.labels), ""
    for number in range(start, len(tokens)):
        text += tokens[number]
        after = tokens[number + 1] if number + 1 < len(tokens) else ""
        if any(_is_label(text, label, start) for label in prompt.labels):
            if not _one_number(text, after):
                return True
        elif not any(words.begins((text,), number) for number in range(len(prompt.labels))):
            return False
    return False


def _one_number(text: str, after: str) -> bool:
    """Whether two tokens are digits of one number: 10 is neither 1 nor 0."""
    return text[-1:].isdigit() and after[:1].isdigit()


def _is_label(token: str, label: str, number: int) -> bool:
    """Whether a token is a label; a letter that is not the reply's first token must have the label's case."""
    return spells(token, label) and (number == 0 or len(label) > 1 or token.strip(AROUND) == label)


def part_positions(positions: Positions, names: Collection[str]) -> dict[str, Positions]:
    """The tokens after the name of each criterion, up to the next name; a ValueError if the reply has no name.

    >>> reply = [(token, []) for token in ("co", "herence", ":", " A", "\\n", "fluency", ": B")]
    >>> {name: [token for token, _ in own] for name, own in part_positions(reply, ["coherence", "fluency"]).items()}
    {'coherence': [' A', '\\n'], 'fluency': [': B']}
    """
    ends = [*accumulate(len(token) for token, _ in positions)]
    text = "".join(token for token, _ in positions)
    found: dict[str, Positions] = {}
    for name, (begin, end) in _spans(text, names).items():
        found[name] = []
        for position, stop in zip(positions, ends, strict=True):
            start = stop - len(position[0])
            if begin < stop and start < end:
                found[name].append(position)
    if positions and not found:
        raise ValueError(f"no line begins with one of the names {few(names, like=text.partition(':')[0])}")
    return found


def part_words(reply: str, names: Iterable[str]) -> dict[str, str]:
    """The words of a reply about each criterion, from a JSON object or from lines.

    >>> part_words('{"wit": "Text A", "length": "Text B"}', ["wit", "length"])
    {'wit': 'Text A', 'length': 'Text B'}
    >>> part_words("**wit**: A\\n- length: Text B", ["wit", "length"])
    {'wit': 'A\\n-', 'length': 'Text B'}
    """
    said = final_words(reply)
    if said.startswith("{"):
        return {name: json_value(said, name) for name in names}
    return {name: said[begin:end].strip() for name, (begin, end) in _spans(said, names).items()}


def _spans(text: str, names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """(begin, end) of the text after the first mention of each criterion, up to the next criterion."""
    mentions: list[tuple[int, int, Any]] = []
    for name in names:
        match = re.search(rf"(?i)(?<![\w-]){re.escape(name)}[\s*_`\"']*[:=]", text)
        if match:
            mentions.append((match.start(), match.end(), name))
    mentions.sort()
    stops = [begin for begin, _, _ in mentions[1:]] + [len(text)] * bool(mentions)
    return {name: (end, stop) for (_, end, name), stop in zip(mentions, stops, strict=True)}
