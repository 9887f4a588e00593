"""Questions as a tree of tokens, and the attention in it: every common prefix is read once.

A node of the tree has tokens that all rows below it share, and a row is the path from a root to the node where it ends.
With one context, its candidates and all their pairs

    context ─► each first candidate ─► each second candidate and the question

16 candidates of 80 tokens, a context of 500 and a question of 30 make 500 + 16·80 + 240·110 = 28,180 tokens instead of
240·690 = 165,600. The nodes are stored level by level, those of a level in the order of the rows below them, so that
the tokens that attend to a node are contiguous in each deeper level.

A token attends to its own node up to itself, and to all of the nodes above it. Each reading is a separate attention, by
a kernel for sequences of several lengths, which returns its output o and the log-sum-exp l of its scores. Two readings
of the same queries combine to one attention over both sets of keys:

    o = o₁ + w·(o₂ − o₁),   w = σ(l₂ − l₁),   l = log(e^l₁ + e^l₂)

This is exact, and needs no mask. transformers calls `attend` in every layer of a model whose attention is
set to NAME, and passes the readings, an argument of the model, on to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from comparo.judges.labels import common_prefix

if TYPE_CHECKING:
    import torch

NAME = "comparo_tree"
# Arguments that a layer passes to `attend` and that do not change its result.
_HARMLESS = {"dropout", "is_causal", "position_ids", "cache_position", "position_embeddings", "use_cache"}
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


class UnreadableError(ValueError):
    """The model's attention has a part that `attend` does not support: a window, a cap, a bias, a mask."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A reading on the device: slices of queries and keys, the groups' bounds in them, and their longest groups."""

    causal: bool
    queries: slice
    query_bounds: torch.Tensor
    longest_query: int
    keys: slice
    key_bounds: torch.Tensor
    longest_key: int


def register() -> None:
    """Register `attend` with transformers under NAME."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attend)


def place(readings: list[Reading], device: torch.device) -> list[Piece]:
    """The readings with their bounds on the device, as `attend` takes them."""
    import torch

    pieces = []
    for reading in readings:
        sides: list[Any] = []
        for bounds in (reading.query_bounds, reading.key_bounds):
            within = torch.tensor([bound - bounds[0] for bound in bounds], dtype=torch.int32, device=device)
            longest = max(end - begin for begin, end in pairwise(bounds))
            sides += [slice(bounds[0], bounds[-1]), within, longest]
        pieces.append(Piece(reading.causal, *sides))
    return pieces


def attend(
    module: Any,  # noqa: ARG001 - the layer, which transformers hands over first
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    *,
    scaling: float | None = None,
    readings: list[Piece] | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """The attention of a layer: query (1, H, T, D), key and value (1, G, T, D) with G | H, output (1, T, H, D).

    Any further argument raises an UnreadableError, unless it is None or known to have no effect.
    """
    import torch

    unknown = sorted(name for name, said in others.items() if said is not None and name not in _HARMLESS)
    if readings is None or attention_mask is not None or unknown or others.get("is_causal") is False:
        raise UnreadableError(f"the model's attention takes {', '.join(unknown) or 'a mask of its own'}")
    q, k, v = (states[0].transpose(0, 1) for states in (query, key, value))
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    one = _by_flash if q.is_cuda and q.dtype in (torch.float16, torch.bfloat16) else _by_hand
    own, *above = readings
    output, total = one(q, k, v, own, scale)
    for piece in above:
        read, weight = one(q[piece.queries], k[piece.keys], v[piece.keys], piece, scale)
        before = total[:, piece.queries]
        share = torch.sigmoid(weight - before).transpose(0, 1).unsqueeze(-1)
        output[piece.queries].lerp_(read, share.to(read.dtype))
        total[:, piece.queries] = torch.logaddexp(before, weight)
    return output.unsqueeze(0), None


def _by_flash(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, piece: Piece, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output (T, H, D) and log-sum-exp (H, T) by the kernel for sequences of several lengths."""
    import torch

    bounds = piece.query_bounds, piece.key_bounds, piece.longest_query, piece.longest_key
    output, total, *_ = torch.ops.aten._flash_attention_forward(q, k, v, *bounds, 0.0, piece.causal, False, scale=scale)
    return output, total


def _by_hand(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, piece: Piece, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Same result as `_by_flash`, one group after another, for devices and dtypes that the kernel does not support."""
    import torch

    output, total = torch.empty_like(q), q.new_empty(q.shape[1], q.shape[0], dtype=torch.float32)
    copies = q.shape[1] // k.shape[1]
    query_ends, key_ends = pairwise(piece.query_bounds.tolist()), pairwise(piece.key_bounds.tolist())
    for one, other in zip(query_ends, key_ends, strict=True):
        ours, theirs = slice(*one), slice(*other)
        queries = q[ours].transpose(0, 1)
        keys = k[theirs].repeat_interleave(copies, dim=1).transpose(0, 1)
        values = v[theirs].repeat_interleave(copies, dim=1).transpose(0, 1)
        scores = (queries @ keys.transpose(1, 2)).float() * scale
        if piece.causal:
            scores += torch.full_like(scores[0], -torch.inf).triu(1)
        total[:, ours] = scores.logsumexp(dim=-1)
        output[ours] = (scores.softmax(dim=-1).to(values.dtype) @ values).transpose(0, 1)
    return output, total
