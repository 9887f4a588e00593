"""How a tokenizer spells the labels after the beginning of the answer: as one token, or as a sequence of them.

With most tokenizers " A" is one token and the model's next token is a label. " 1" is two tokens with those of Qwen,
Llama and SmolLM, a space and the digit, so the probabilities after the space are needed too:

    probabilities after    ()             (" ",)
    spellings              ("1",)         (" ", "1")
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from comparo.judges.labels import AROUND, Path, inner_label

Ends = tuple[list[int], list[int]]  # numbers of nodes, and a token after each

_SPACES = str.maketrans("▁Ġ", "  ")  # how vocabularies write a space


@dataclass(frozen=True)
class Spellings:
    """The labels as paths of token ids: `whole`, the plain spelling of each; `ends`, every spelling's label number.

    `nodes` are the paths after which probabilities are needed, () first and each after its own beginnings. `begun` is
    the beginning of the answer, which the decoder of an encoder–decoder model reads before them.

    >>> digits = find_spellings(("1", "2"), ((7, 3), (7, 4)), ["", "", "", "1", "2", "x", "x1", "Ġ"])
    >>> digits.nodes, digits.paths, digits.ends
    (((), (7,)), ((7,),), {(3,): 0, (7, 3): 0, (4,): 1, (7, 4): 1})
    >>> digits.label((7, 4)), digits.begins((7,), 1)
    (1, True)
    """

    whole: tuple[Path, ...]
    nodes: tuple[Path, ...]
    ends: Mapping[Path, int]
    begun: Sequence[int] = ()

    def label(self, path: Path) -> int | None:
        return self.ends.get(path)

    def begins(self, path: Path, number: int) -> bool:
        """Whether the plain spelling of a label continues after the path."""
        return path != self.whole[number] and self.whole[number][: len(path)] == path

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The longest nodes: a pass over the question with each of them covers all nodes."""
        shorter = {node[:length] for node in self.nodes for length in range(len(node))}
        return tuple(node for node in self.nodes if node not in shorter)

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """For each node a path that begins with it, by its number, and the node's length."""
        return [
            (next(number for number, path in enumerate(self.paths) if path[: len(node)] == node), len(node))
            for node in self.nodes
        ]

    @cached_property
    def steps(self) -> list[tuple[int, int]]:
        """For each node but the first the number of the one before it, and its last token."""
        return [(self.nodes.index(node[:-1]), node[-1]) for node in self.nodes[1:]]

    @cached_property
    def tokens(self) -> list[Ends]:
        """For each label where its spellings end: the numbers of the nodes, and the tokens after them."""
        return [
            self._ends(path for path, label in self.ends.items() if label == number)
            for number in range(len(self.whole))
        ]

    @cached_property
    def inside(self) -> dict[int, Ends]:
        """By label what to subtract from it: where the spellings of other labels end that begin with one of its own."""
        outer: defaultdict[int, list[Path]] = defaultdict(list)
        for path in self.ends:
            if (number := inner_label(path[:-1], self)) is not None:
                outer[number].append(path)
        return {number: self._ends(paths) for number, paths in outer.items()}

    def _ends(self, paths: Iterable[Path]) -> Ends:
        ends = [(self.nodes.index(path[:-1]), path[-1]) for path in paths]
        return [node for node, _ in ends], [token for _, token in ends]


def likeliest_path(likeliest: Mapping[Path, int]) -> Path:
    """The likeliest tokens in sequence, as far as they are known, from the likeliest token after each node.

    >>> likeliest_path({(): 7, (7,): 4, (8,): 5})
    (7, 4)
    """
    path: Path = ()
    while path in likeliest:
        path = (*path, likeliest[path])
    return path


def find_spellings(
    labels: Sequence[str], whole: tuple[Path, ...], vocabulary: Sequence[str | None], begun: Sequence[int] = ()
) -> Spellings:
    """The spellings of labels whose plain spellings, in tokens, are `whole`; a ValueError where two are the same.

    Added are all tokens of the vocabulary that, after a beginning of a plain spelling, complete a label in lower or
    upper case or with characters of `AROUND`: after (), these are the labels of one token.
    """
    for (first, path), (second, other) in combinations(zip(labels, whole, strict=True), 2):
        if path == other:
            raise ValueError(f"the model's tokens for the labels {first!r} and {second!r} are the same; use A and B")
    if () in whole:
        raise ValueError(f"the model has no token for the label {labels[whole.index(())]!r}; use A and B")
    nodes = sorted({path[:length] for path in whole for length in range(len(path))}, key=lambda path: (len(path), path))
    alone: defaultdict[str, list[tuple[Path, int]]] = defaultdict(
        list
    )  # labels of which no letter is written at a node
    missing: defaultdict[str, list[tuple[Path, int]]] = defaultdict(list)  # the rest of labels that are begun at a node
    for node in nodes:
        text = "".join(vocabulary[token] or "" for token in node).translate(_SPACES).lstrip(AROUND).casefold()
        for number, label in enumerate(labels):
            word = label.strip().casefold()
            if not text:
                alone[word].append((node, number))
            elif word != text and word.startswith(text):
                missing[word[len(text) :]].append((node, number))
    ends: dict[Path, int] = {}
    for token, written in enumerate(vocabulary):
        if written is not None:
            rest = written.translate(_SPACES).rstrip(AROUND).casefold()
            for node, number in (*alone.get(rest.lstrip(AROUND), ()), *missing.get(rest, ())):
                ends[(*node, token)] = number
    ends |= {path: number for number, path in enumerate(whole)}
    all_ends = Spellings(whole, tuple(nodes), ends, begun)
    kept = {  # the continuation of a spelling of the same label is counted with that spelling
        path: number
        for path, number in sorted(ends.items(), key=lambda entry: (entry[1], len(entry[0]), entry[0]))
        if inner_label(path[:-1], all_ends) != number
    }
    return replace(all_ends, ends=kept)
