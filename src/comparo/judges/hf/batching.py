"""Groups questions into batches for one pass of a model each.

The CPU launches the kernels of a pass while the GPU computes, so a pass takes as long as the slower of the two. If
launching a pass takes as long as computing `pass_tokens` tokens, then in units of tokens

    cost = max(pass_tokens · launches, tokens)

Questions run as rows or as a tree. A row has all tokens of a question or, after a pass over the common prefix of a
context, the rest of them. A tree reads every common prefix once, with more launches. A node of the tree has tokens that
all rows below it share, and a row is the path from a root to the node where it ends. With one context, its candidates
and all their pairs

    context ─► each first candidate ─► each second candidate and the question

16 candidates of 80 tokens, a context of 500 and a question of 30 make 500 + 16·80 + 240·110 = 28,180 tokens instead of
240·690 = 165,600. The nodes are stored level by level, those of a level in the order of the rows below them, so that
the tokens that attend to a node are contiguous in each deeper level.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

from comparo.judges.chat import Encoded
from comparo.judges.labels import common_prefix

DEEPEST = 3  # most levels; a question has three parts: the context, the first candidate and the rest (criteria add one)
WORTH = 32  # computing one token costs as much as one more level of attention for this many tokens


@dataclass(frozen=True, slots=True)
class Reading:
    """Groups of tokens that attend to each other: the queries of group g attend to the keys of group g.

    Group g is from bound g to bound g + 1, as places in the sequence. In a `causal` reading each query attends to the
    keys up to itself, otherwise to all keys of its group.
    """

    query_bounds: list[int]
    key_bounds: list[int]
    causal: bool


@dataclass(frozen=True, slots=True)
class Node:
    """The tokens `begin` to `end` of `row`, and the index of the `parent` in the level above."""

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
        """The place in the sequence of the last token of each row, (R,)."""
        return self.places([(row, len(tokens) - 1) for row, tokens in enumerate(self.rows)])

    def places(self, positions: Iterable[tuple[int, int]]) -> list[int]:
        """The places in the sequence of tokens given as (row, position in the row)."""
        bounds, found = self._bounds(), []
        for row, position in positions:
            level, node = self.last[row]
            while position < self.levels[level][node].begin:
                level, node = level - 1, self.levels[level][node].parent
            found.append(bounds[level][node] + position - self.levels[level][node].begin)
        return found

    @property
    def readings(self) -> list[Reading]:
        """The readings of the tree: first every node of itself, then each level of each level above it."""
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
        """For each level, the places where its nodes begin, and where the last node ends."""
        bounds, begin = [], 0
        for level in self.levels:
            bounds.append([*accumulate((node.end - node.begin for node in level), initial=begin)])
            begin = bounds[-1][-1]
        return bounds


def grow(rows: Sequence[list[int]], deepest: int = DEEPEST) -> Tree:
    """The tree of sorted rows.

    A prefix becomes a node if the tokens that it saves cost more than one more level for all tokens below it.

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
        alike = len(rows[high - 1]) == common  # all rows are equal
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
    """Split sorted rows into ranges whose trees have about `tokens` tokens, and at most `most` rows.

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
    """The bounds of the groups of nodes with the same parent; a parent without children has an empty group."""
    ends = [bounds[0]] * (groups + 1)
    for parent, end in zip(parents, bounds[1:], strict=True):
        ends[parent + 1] = end
    return [*accumulate(ends, max)]


READING = 0.22  # launches that one more reading adds, as a share of a pass's launches; measured with 24 layers
DEARER = 1.1  # cost of a token in a tree relative to one in a row; measured 1.02 with 7B, 1.16 with 0.5B


@dataclass(frozen=True, slots=True)
class Batch:
    """Questions that run at once, as a tree or as rows whose first `shared` tokens are read once for all.

    The first `outer` tokens are shared with other batches too. The rows of a tree are the sorted sequences of the
    questions; `order` is the tree's row of each sequence.
    """

    rows: list[Encoded]
    shared: int = 0
    tree: Tree | None = None
    order: list[int] = field(default_factory=list)
    outer: int = 0

    @property
    def tokens(self) -> int:
        """The number of tokens in the pass, including padding."""
        return self.tree.size if self.tree else len(self.rows) * max(row.size for row in self.rows)


@dataclass
class Batches:
    """Makes batches of `size` questions or, if that is None, of about `tokens` tokens.

    >>> from comparo.data.prompts import Question
    >>> rows = [Encoded(Question(1, 2), [7] * length) for length in (2, 5, 4)]
    >>> [[len(row.ids) for row in batch.rows] for batch in Batches(None, tokens=10, pass_tokens=0).of(rows)]
    [[5, 4], [2]]
    """

    size: int | None
    tokens: int
    pass_tokens: float

    def trees(self, rows: Iterable[Encoded], *, always: bool = False, deepest: int = DEEPEST) -> Iterator[Batch]:
        """Yield trees of rows with common prefixes; without `always`, batches of rows where these are cheaper."""
        ordered, single = sorted(rows, key=lambda row: row.ids), []
        branches = max((len(row.after) for row in ordered), default=1)
        for part in packs([row.ids for row in ordered], self.tokens // branches, self.size):
            batch = _tree(ordered[part.start : part.stop], deepest)
            if always or self._cheaper(batch, sum(row.size for row in batch.rows)):
                yield batch
            else:
                single += batch.rows
        for batch in self.of(single):  # a tree has no padding, so it may be cheaper
            tree = _tree(batch.rows, deepest)
            yield tree if self._cheaper(tree, batch.tokens) else batch

    def _cheaper(self, batch: Batch, tokens: int) -> bool:
        depth = len(batch.tree.levels) if batch.tree else 1
        launched = self.pass_tokens * (1 + READING * depth * (depth - 1) / 2)  # each level reads each above it
        return max(launched, DEARER * batch.tokens) < max(self.pass_tokens, tokens)

    def of(self, rows: Iterable[Encoded], shared: int = 0) -> Iterator[Batch]:
        """Yield batches of rows of similar length, the longest first."""
        batch: list[Encoded] = []
        for row in sorted(rows, key=lambda row: len(row.ids), reverse=True):
            if batch and len(batch) >= (self.size or self.tokens // batch[0].size):
                yield Batch(batch, shared)
                batch = []
            batch.append(row)
        if batch:
            yield Batch(batch, shared)

    def pays(self, questions: int, shared: int, kept: bool) -> bool:
        """Whether reading the shared tokens once is cheaper; unless `kept`, that takes a pass of its own."""
        passes = 1 if kept else 2
        return shared * (questions + 1 - passes) > passes * self.pass_tokens

    def halve(self, batch: Batch) -> tuple[Batch, Batch]:
        """Split a batch that exceeded the device's memory; later batches have half of its size."""
        self.size, self.tokens = self.size and len(batch.rows) // 2, batch.tokens // 2
        return split(batch)


def split(batch: Batch) -> tuple[Batch, Batch]:
    """The two halves of a batch, in the same layout."""
    middle = len(batch.rows) // 2
    first, second = batch.rows[:middle], batch.rows[middle:]
    if batch.tree:
        return _tree(first, batch.tree.deepest), _tree(second, batch.tree.deepest)
    return replace(batch, rows=first), replace(batch, rows=second)


def _tree(rows: list[Encoded], deepest: int) -> Batch:
    ordered = sorted(rows, key=lambda row: row.ids)
    sequences = [sequence for row in ordered for sequence in row.sequences]
    ranked = sorted(range(len(sequences)), key=sequences.__getitem__)
    order = sorted(range(len(ranked)), key=ranked.__getitem__)
    return Batch(ordered, tree=grow([sequences[number] for number in ranked], deepest), order=order)
