"""Many rows of tokens as one sequence in which every common beginning appears once.

The rows form a tree: a node holds tokens that every row below it has in common, and a row is the path from a root to
the node where it ends. With one context, its candidates and all their pairs

    context ─► each first candidate ─► each second candidate and the question

16 candidates of 80 tokens, a context of 500 and a question of 30 make 500 + 16·80 + 240·110 = 28,180 tokens instead of
240·690 = 165,600. The nodes are stored level by level, those of a level in the order of the rows below them, so that
the tokens that read a node are contiguous in each deeper level.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from comparo.judges.labels import common_prefix

DEEPEST = 3  # levels; a question has three parts: the context, the first candidate and the rest (criteria add one)
WORTH = 32  # computing one token costs as much as one more level of attention for this many tokens below it


@dataclass(frozen=True, slots=True)
class Reading:
    """Which tokens read which: the queries of group g, from one bound to the next, read the keys of group g.

    The bounds count from the beginning of the sequence. In a `causal` reading each query reads the keys up to itself,
    otherwise all keys of its group.
    """

    query_bounds: list[int]
    key_bounds: list[int]
    causal: bool


@dataclass(frozen=True, slots=True)
class Node:
    """Tokens of a row, from `begin` to `end`, and which node of the level above comes before them."""

    row: int
    begin: int
    end: int
    parent: int


@dataclass(frozen=True, slots=True)
class Tree:
    """The nodes of each level, at most `deepest` levels, and for each row the level and the node where it ends."""

    rows: Sequence[list[int]]
    levels: list[list[Node]]
    last: list[tuple[int, int]]
    deepest: int = DEEPEST

    @property
    def size(self) -> int:
        """T, the number of tokens."""
        return sum(node.end - node.begin for level in self.levels for node in level)

    @property
    def tokens(self) -> list[int]:
        """The sequence, (T,)."""
        return [
            token for level in self.levels for node in level for token in self.rows[node.row][node.begin : node.end]
        ]

    @property
    def positions(self) -> list[int]:
        """The position of each token in its row, (T,)."""
        return [position for level in self.levels for node in level for position in range(node.begin, node.end)]

    @property
    def ends(self) -> list[int]:
        """Where the last token of each row is in the sequence, (R,)."""
        return self.places([(row, len(tokens) - 1) for row, tokens in enumerate(self.rows)])

    def places(self, positions: Iterable[tuple[int, int]]) -> list[int]:
        """The places in the sequence of tokens that are given by their row and their position in it."""
        bounds, found = self._bounds(), []
        for row, position in positions:
            level, node = self.last[row]
            while position < self.levels[level][node].begin:
                level, node = level - 1, self.levels[level][node].parent
            found.append(bounds[level][node] + position - self.levels[level][node].begin)
        return found

    @property
    def readings(self) -> list[Reading]:
        """Which tokens read which: first every node itself, then each level the levels above it."""
        levels = self._bounds()
        whole = [bound for bounds in levels for bound in bounds[:-1]] + [self.size]
        readings = [Reading(whole, whole, causal=True)]
        for deeper in range(1, len(levels)):
            parents = [node.parent for node in self.levels[deeper]]
            for upper in range(deeper - 1, -1, -1):
                groups = _group(levels[deeper], parents, len(self.levels[upper]))
                readings.append(Reading(groups, levels[upper], causal=False))
                parents = [self.levels[upper][parent].parent for parent in parents]
        return readings

    def _bounds(self) -> list[list[int]]:
        """Where the nodes of each level begin and the last one ends."""
        bounds, begin = [], 0
        for level in self.levels:
            bounds.append([*accumulate((node.end - node.begin for node in level), initial=begin)])
            begin = bounds[-1][-1]
        return bounds


def grow(rows: Sequence[list[int]], deepest: int = DEEPEST) -> Tree:
    """The tree of the rows, which are in the order of `sorted`.

    A node is made where the tokens that it saves cost more than one more level for all tokens below it.

    >>> tree = grow([[1, 2, 3, 4], [1, 2, 3, 5, 6]])
    >>> tree.tokens, tree.positions, tree.ends
    ([1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 3, 4], [3, 5])
    >>> tree.readings[1]
    Reading(query_bounds=[3, 6], key_bounds=[0, 3], causal=False)
    """
    shared = [0, *(common_prefix(pair) for pair in pairwise(rows))]  # with the row before
    levels: list[list[Node]] = [[] for _ in range(deepest)]
    last: list[tuple[int, int]] = []
    waiting = [(0, len(rows), 0, 0, 0)] if rows else []
    while waiting:  # depth first, so that the rows end in their own order
        low, high, begin, depth, parent = waiting.pop()
        common = min([len(rows[low]), *shared[low + 1 : high]])
        alike = len(rows[high - 1]) == common  # all rows are this one
        if depth == deepest - 1 and not alike:
            for row in range(low, high):
                last.append((depth, len(levels[depth])))
                levels[depth].append(Node(row, begin, len(rows[row]), parent))
            continue
        cuts = [low, *(row for row in range(low + 1, high) if shared[row] == common), high]
        saved = (common - begin) * (len(cuts) - 2)
        if alike or (saved and saved * WORTH >= sum(len(row) - common for row in rows[low:high])):
            made = (depth, len(levels[depth]))
            levels[depth].append(Node(low, begin, common, parent))
            begin, depth, parent = common, depth + 1, made[1]
            while low < high and len(rows[low]) == common:
                last.append(made)
                low += 1
        parts = [(max(start, low), end, begin, depth, parent) for start, end in pairwise(cuts) if end > low]
        waiting += reversed(parts)
    return Tree(rows, [level for level in levels if level], last, deepest)


def packs(rows: Sequence[list[int]], tokens: int, most: int | None) -> Iterator[range]:
    """The sorted rows in ranges whose trees have about `tokens` tokens, and at most `most` rows.

    >>> [*packs([[1, 2, 3], [1, 2, 4], [1, 2, 5], [6]], tokens=4, most=None)]
    [range(0, 2), range(2, 4)]
    """
    begin = total = 0
    for number, row in enumerate(rows):
        new = len(row) - (common_prefix([rows[number - 1], row]) if number > begin else 0)
        if number > begin and (total + new > tokens or number - begin == most):
            yield range(begin, number)
            begin, total, new = number, 0, len(row)
        total += new
    if rows:
        yield range(begin, len(rows))


def _group(bounds: list[int], parents: list[int], groups: int) -> list[int]:
    """Where each group of neighbours with the same parent ends; a parent without any has an empty group."""
    ends = [bounds[0]] * (groups + 1)
    for parent, end in zip(parents, bounds[1:], strict=True):
        ends[parent + 1] = end
    return [*accumulate(ends, max)]
