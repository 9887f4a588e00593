"""From the probabilities of the next tokens to the probability of a label.

A label is one token or a sequence of them; its probability is that of the sequence,

    P(label) = Σ over its spellings Π_k P(token_k | the tokens before it)

so probabilities are needed after every beginning of a spelling. A path is such a beginning, a tuple of tokens; the
shortest is (). With most tokenizers " A" is one token and the model's next token is a label. With those of Qwen, Llama
and SmolLM, " 1" is two tokens, a space and the digit, so the probabilities after the space are needed too:

    probabilities after    ()             (" ",)
    spellings              ("1",)         (" ", "1")
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any

from comparo.data.lineups import SUREST, TINY

UNLISTED = -9999.0  # OpenAI's log-probability of a token that is not among the 20 likeliest
AROUND = " \t\n\r\"'`*_.,:;()[]{}<>▁ĠĊ"  # characters that may surround a label

TokenPath = tuple[Any, ...]


class TextSpellings:
    """The spelling of labels where tokens are texts.

    >>> words = TextSpellings(("10", "Story 1"))
    >>> words.label((" ", "1", "0")), words.begins((" ", "1"), 0), words.begins(("Story",), 1), words.label(("1",))
    (0, True, True, None)
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = labels

    def label(self, path: TokenPath) -> int | None:
        """The number of the label that the path spells."""
        text = "".join(path)
        return next((number for number, label in enumerate(self.labels) if spells(text, label)), None)

    def begins(self, path: TokenPath, number: int) -> bool:
        """Whether the path, without leading characters of `AROUND`, is a proper prefix of the label, perhaps empty."""
        begun, label = "".join(path).lstrip(AROUND).casefold(), self.labels[number].strip().casefold()
        return begun != label and label.startswith(begun)


def spells(token: str, label: str) -> bool:
    """Whether a token is a spelling of the label: `A`, ` A`, `a`, `(A`, `A.` or, as vocabularies write it, `▁A`.

    >>> [token for token in ("A", " A", "▁A", "a", "**A", "B", "An", "") if spells(token, "A")]
    ['A', ' A', '▁A', 'a', '**A']
    """
    return token.strip(AROUND).casefold() == label.strip().casefold()


def label_masses(
    read: Mapping[TokenPath, Sequence[tuple[Any, float]]], spelling: TextSpellings | Spellings, count: int
) -> list[float] | None:
    """P of each of the `count` labels from the log-probabilities of the likeliest tokens after each path.

    None if no label is among the tokens. The spellings of a label are summed. If one label is a prefix of another (1
    and 10), P of the longer one is subtracted from the shorter one. A label that is not among the tokens gets the
    largest probability that it can have: P of its longest beginning in `read`, times the probability of the least
    likely token there or the remaining probability, whichever is less. Labels with −∞ or nan get equal shares of the
    remaining probability: such a value does not show that a label is impossible.

    >>> read = {(): [("A", math.log(0.75)), ("The", math.log(0.125)), ("C", math.log(0.0625))]}
    >>> [round(mass, 6) for mass in label_masses(read, TextSpellings("ABC"), 3)]
    [0.75, 0.0625, 0.0625]
    """
    masses, found, most = [0.0] * count, [False] * count, [0.0] * count
    unknown: dict[int, float] = {}
    reached: dict[TokenPath, float] = {(): 1.0}
    for path in sorted(read, key=len):
        if path not in reached:  # its last token is not among the likeliest
            continue
        total, least = 0.0, 1.0
        unnumbered: set[int] = set()
        outer = inner_label(path, spelling)
        for token, logprob in read[path]:
            if -math.inf < logprob <= UNLISTED:
                continue
            longer = (*path, token)
            number = spelling.label(longer)
            if not logprob > UNLISTED:
                if number is not None:
                    unnumbered.add(number)
                continue
            probability = math.exp(logprob)
            total += probability
            least = min(least, probability)
            probability *= reached[path]
            if longer in read:
                reached[longer] = reached.get(longer, 0.0) + probability
            if number is not None and number != outer:
                masses[number] += probability
                found[number] = True
                if outer is not None:
                    masses[outer] -= probability
        left = max(1.0 - total, 0.0)
        for number in unnumbered:
            unknown[number] = reached[path] * left / len(unnumbered)
        for number in range(count):
            if spelling.begins(path, number):
                most[number] = reached[path] * min(least, left)
    if not any(found):
        return None
    for number in range(count):
        if not found[number]:
            masses[number] = unknown.get(number, most[number])
    masses = [max(mass, 0.0) for mass in masses]
    return masses if sum(masses) > 0 else None


def label_probability(
    read: Mapping[TokenPath, Sequence[tuple[Any, float]]], spelling: TextSpellings | Spellings, count: int = 2
) -> tuple[float, float, str] | None:
    """p = P(A) / ΣP of the first of `count` labels, the mass ΣP of all, and `Judgement.lineup`; None without any label.

    `read` has the log-probabilities of the likeliest tokens after each path. A line-up has log(P / ΣP) of each label,
    at least `-SUREST`; for two labels it is "".

    >>> read = {(): [(" ", math.log(0.9)), ("1", math.log(0.05))], (" ",): [("1", math.log(0.6)), ("2", math.log(0.4))]}
    >>> [round(found, 6) for found in label_probability(read, TextSpellings(("1", "2")))[:2]]
    [0.621053, 0.95]
    >>> label_probability({(): [("A", math.log(0.9)), ("The", math.log(0.06))]}, TextSpellings(("A", "B")))
    (0.957..., 0.94..., '')
    >>> label_probability({(): [("A", math.log(0.1)), ("B", -math.inf), ("The", math.log(0.5))]}, TextSpellings("AB"))
    (0.2..., 0.5, '')
    >>> label_probability({(): [("The", -0.1)]}, TextSpellings(("A", "B")))
    >>> read = {(): [("A", math.log(0.75)), ("The", math.log(0.125)), ("C", math.log(0.0625))]}
    >>> label_probability(read, TextSpellings("ABC"), 3)
    (0.857..., 0.87..., '-0.15...|-2.63...|-2.63...')
    """
    masses = label_masses(read, spelling, count)
    if masses is None:
        return None
    mass = sum(masses)
    if count == 2:
        return min(masses[0] / mass, 1.0), min(mass, 1.0), ""
    shares = [max(math.log(max(each / mass, TINY)), -SUREST) for each in masses]
    return math.exp(shares[0]), min(mass, 1.0), "|".join(map(repr, shares))


def reply_paths(
    positions: Sequence[tuple[str, list[tuple[str, float]]]], labels: Sequence[str]
) -> tuple[Mapping[TokenPath, Sequence[tuple[str, float]]], TextSpellings]:
    """The likeliest tokens after each path along a reply that begins with a label, and the spelling of the labels.

    Tokens are read while the reply so far is a prefix of a label. A token that was not chosen and begins exactly one
    label counts as that label, because its continuation is unknown. A ValueError if a number is no log-probability.

    >>> said = [("Fir", [("Fir", math.log(0.6)), ("Sec", math.log(0.3))]), ("st", [("st", 0.0)])]
    >>> [round(found, 6) for found in label_probability(*reply_paths(said, ("First", "Second")))[:2]]
    [0.666667, 0.9]
    """
    words = TextSpellings(labels)
    path: TokenPath = ()
    read: dict[TokenPath, list[tuple[str, float]]] = {}
    for token, likeliest in positions:
        if any(logprob > 0.01 for _, logprob in likeliest):  # above 0 by more than rounding
            raise ValueError("there are numbers that are no log-probabilities")
        if not path and all(math.isnan(logprob) for _, logprob in likeliest):
            raise ValueError("all log-probabilities are NaN: the model's numbers overflow at the server")
        read[path] = likeliest
        path = (*path, token)
        if not any(words.begins(path, number) for number in range(len(labels))):
            break
    return read, _Said(labels, read)


class _Said(TextSpellings):
    """The spelling of labels where probabilities are known only along the reply itself."""

    def __init__(self, labels: Sequence[str], read: Container[TokenPath]) -> None:
        super().__init__(labels)
        self.read = read

    def label(self, path: TokenPath) -> int | None:
        number = super().label(path)
        if number is not None or path in self.read or not "".join(path).strip(AROUND):
            return number
        begun = [number for number in range(len(self.labels)) if self.begins(path, number)]
        return begun[0] if len(begun) == 1 else None


def inner_label(path: TokenPath, spelling: TextSpellings | Spellings) -> int | None:
    """The label that the longest prefix of the path spells; None if no prefix spells one.

    >>> inner_label((" ", "1", "st"), TextSpellings(("1", "2")))
    0
    """
    numbers = (spelling.label(path[:length]) for length in range(len(path), 0, -1))
    return next((number for number in numbers if number is not None), None)


def common_prefix(sequences: Iterable[list[int]]) -> int:
    """The length of the longest common prefix of the sequences.

    >>> common_prefix([[1, 2, 3], [1, 2], [1, 2, 4]])
    2
    """
    # In sorted order, a prefix that the first and the last have in common is common to all.
    ordered = sorted(sequences)
    for length, (low, high) in enumerate(zip(ordered[0], ordered[-1], strict=False)):
        if low != high:
            return length
    return min(len(ordered[0]), len(ordered[-1]))


_SPACES = str.maketrans("▁Ġ", "  ")  # how vocabularies write a space


@dataclass(frozen=True)
class Spellings:
    """The labels as paths of token ids: `whole`, the plain spelling of each; `ends`, every spelling's label number.

    `nodes` are the paths after which probabilities are needed, () first and each after its own prefixes. `begun` is
    the beginning of the answer, which the decoder of an encoder–decoder model reads before a node.

    >>> digits = find_spellings(("1", "2"), ((7, 3), (7, 4)), ["", "", "", "1", "2", "x", "x1", "Ġ"])
    >>> digits.nodes, digits.paths, digits.ends
    (((), (7,)), ((7,),), {(3,): 0, (7, 3): 0, (4,): 1, (7, 4): 1})
    >>> digits.label((7, 4)), digits.begins((7,), 1), digits.wanted
    (1, True, [(0, [3]), (1, [3]), (0, [4]), (1, [4]), (0, [7])])
    """

    whole: tuple[TokenPath, ...]
    nodes: tuple[TokenPath, ...]
    ends: Mapping[TokenPath, int]
    begun: Sequence[int] = ()

    def label(self, path: TokenPath) -> int | None:
        return self.ends.get(path)

    def begins(self, path: TokenPath, number: int) -> bool:
        """Whether the plain spelling of a label continues after the path."""
        return path != self.whole[number] and self.whole[number][: len(path)] == path

    @cached_property
    def paths(self) -> tuple[TokenPath, ...]:
        """The nodes that are no prefix of another: one pass over the question with each of them covers all nodes."""
        shorter = {node[:length] for node in self.nodes for length in range(len(node))}
        return tuple(node for node in self.nodes if node not in shorter)

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """For each node: the index in `paths` of a path that begins with it, and the node's length."""
        found = []
        for node in self.nodes:
            number = next(k for k, path in enumerate(self.paths) if path[: len(node)] == node)
            found.append((number, len(node)))
        return found

    @cached_property
    def wanted(self) -> list[tuple[int, list[int]]]:
        """(index of a node, tokens after it whose probabilities are summed): ends of one label, or the next node."""
        groups: defaultdict[Any, list[TokenPath]] = defaultdict(list)
        for path in dict.fromkeys([*self.ends, *self.nodes[1:]]):
            key = (path,) if path in self.nodes else (path[:-1], self.ends[path])
            groups[key].append(path)
        return [(self.nodes.index(paths[0][:-1]), [path[-1] for path in paths]) for paths in groups.values()]


def likeliest_path(likeliest: Mapping[TokenPath, int]) -> TokenPath:
    """The greedy path from the likeliest token after each node, up to the first token that is no node.

    >>> likeliest_path({(): 7, (7,): 4, (8,): 5})
    (7, 4)
    """
    path: TokenPath = ()
    while path in likeliest:
        path = (*path, likeliest[path])
    return path


def find_spellings(
    labels: Sequence[str], whole: tuple[TokenPath, ...], vocabulary: Sequence[str | None], begun: Sequence[int] = ()
) -> Spellings:
    """All spellings of labels with the plain spellings `whole`, in tokens; a ValueError if two are the same.

    They include every token of the vocabulary that completes a label after a beginning of a plain spelling, in lower or
    upper case or with characters of `AROUND`: after (), these are the labels of one token.
    """
    for (first, path), (second, other) in combinations(zip(labels, whole, strict=True), 2):
        if path == other:
            raise ValueError(f"the model's tokens for the labels {first!r} and {second!r} are the same; use A and B")
    if () in whole:
        raise ValueError(f"the model has no token for the label {labels[whole.index(())]!r}; use A and B")
    starts = {path[:length] for path in whole for length in range(len(path))}
    nodes = sorted(starts, key=lambda path: (len(path), path))
    # text → nodes and labels: whole labels after nodes without a letter, the rest of labels after nodes that begin them
    alone: defaultdict[str, list[tuple[TokenPath, int]]] = defaultdict(list)
    missing: defaultdict[str, list[tuple[TokenPath, int]]] = defaultdict(list)
    for node in nodes:
        text = "".join(vocabulary[token] or "" for token in node)
        text = text.translate(_SPACES).lstrip(AROUND).casefold()
        for number, label in enumerate(labels):
            word = label.strip().casefold()
            if not text:
                alone[word].append((node, number))
            elif word != text and word.startswith(text):
                missing[word[len(text) :]].append((node, number))
    ends: dict[TokenPath, int] = {}
    for token, written in enumerate(vocabulary):
        if written is not None:
            rest = written.translate(_SPACES).rstrip(AROUND).casefold()
            for node, number in (*alone.get(rest.lstrip(AROUND), ()), *missing.get(rest, ())):
                ends[(*node, token)] = number
    ends |= {path: number for number, path in enumerate(whole)}
    all_ends = Spellings(whole, tuple(nodes), ends, begun)
    kept = {}
    for path in sorted(ends, key=lambda path: (ends[path], len(path), path)):
        # the mass of a spelling includes that of its continuations
        if inner_label(path[:-1], all_ends) != ends[path]:
            kept[path] = ends[path]
    return replace(all_ends, ends=kept)
