"""Judges with known scores for the benchmark of soundness: the grid of cells, and one judge per cell and seed.

An answer about text i, shown first, and text j, shown second, in context c is determined by

    d = s_i − s_j − γ_c − (e_i + e_j).

A soft judge answers p = σ(d + ε), a decision is 1 with probability σ(d), and of 5 votes a are for i, which gives
p = (a + ½)/(5 + 1) with weight 5. All answers of a judge are drawn before any pair is chosen, so an answer depends on
the seed and the ordered pair only, and two ways to choose and to fit face the same judge.

An answer about k > 2 texts in slots a is determined by s_a + slot_ca: with noise, it is the log-probabilities of the
labels (soft); with Gumbel's noise, the order (orders) or the best (best). It is drawn from the cell, the seed and the
line-up, so that it depends on nothing else.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache

import numpy as np
from scipy.special import expit, log_softmax

from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.wordings import LETTERS as SLOTS
from comparo.selection.designs import Orders
from comparo.types import Array

VOTES = 5
BIAS, BIASES, EFFECTS = 0.5, 0.5, 0.5  # mean and spread of γ, spread of e
GAP = 6.0  # between the means of two families
MISLED = 0.1  # the share of texts whose vocabulary says the opposite of their score
STEEP = 2.0  # logits of the vocabulary's mix per standard deviation of the score
WORDS, LEAST, MOST = 60, 20, 40  # words of a list, and of a text
CANDIDATES = 1500  # cells among which the next one is chosen
# The letters of each list of words; the first two lists are those of one family of texts, the last two of the other.
LETTERS = (("bdgm", "aou"), ("lrst", "eiy"), ("kpvz", "aeu"), ("cfhn", "iow"))

AXES: dict[str, tuple[object, ...]] = {
    "kind": ("soft", "decisions", "votes", "orders", "best"),
    "sd": (0.1, 0.3, 1.0, 3.0, 6.0),
    "noise": (0.3, 1.0, 2.0, None),  # of a difference of two texts; None: answers are drawn, without further noise
    "position": ("none", "context", "text", "slots"),  # the last: effects of slots that no context changes
    "families": (1, 2),
    "style": ("predicts", "misleads", "nothing"),
    "groups": ("none", "systems"),
    "orders": ("one", "both"),
    "shape": ((1, 16), (1, 200), (20, 16), (100, 6)),
    "calls": (2, 3, 5, 10),  # per item; of line-ups, observations of differences, k − 1 a call
    "texts": (2, 3, 4, 6),
}
TWO = (2,)
# Levels of calls about two texts, and of line-ups; others of these axes do not occur there.
OF_PAIRS = {"kind": ("soft", "decisions", "votes"), "position": ("none", "context", "text")}
OF_LINEUPS = {"kind": ("soft", "orders", "best"), "position": ("none", "context", "slots"), "orders": ("one",)}


@dataclass(frozen=True)
class Cell:
    """One kind of judge, of texts and of design; `shape` is contexts × items of a context."""

    kind: str = "soft"
    sd: float = 1.0
    noise: float | None = 1.0
    position: str = "none"
    families: int = 1
    style: str = "nothing"
    groups: str = "none"
    orders: Orders = "both"
    shape: tuple[int, int] = (1, 16)
    calls: float = 5
    texts: int = 2

    @property
    def all_calls(self) -> int:
        """All calls that can be asked in one context."""
        items = self.shape[1]
        if self.texts > 2:
            return math.perm(items, self.texts)
        return items * (items - 1) // (1 if self.orders == "both" else 2)

    @property
    def budget(self) -> int:
        """The calls of one context."""
        return min(math.ceil(self.calls * self.shape[1] / (self.texts - 1)), self.all_calls)

    @property
    def is_possible(self) -> bool:
        """Whether the levels can occur together, and the cell is not the same as one with fewer calls."""
        fewer = [calls for calls in AXES["calls"] if isinstance(calls, int) and calls < self.calls]
        own = OF_LINEUPS if self.texts > 2 else OF_PAIRS
        return (
            all(getattr(self, name) in levels for name, levels in own.items())
            and (self.noise is None) == (self.kind != "soft")
            and (self.kind == "soft" or self.position != "text")
            and (self.groups == "none" or self.shape[0] > 1)
            and not any(calls * self.shape[1] >= self.all_calls for calls in fewer)
        )

    def levels(self) -> dict[str, str]:
        """The level of each axis, as tables show it."""
        return {name: shown(getattr(self, name)) for name in AXES}

    def __str__(self) -> str:
        return ", ".join(f"{name} {level}" for name, level in self.levels().items() if level != "–")

    def generator(self, seed: int) -> np.random.Generator:
        """What the judge of this seed is drawn from; it depends on nothing but the cell and the seed."""
        levels = astuple(self) if self.texts > 2 else astuple(self)[:-1]
        return np.random.default_rng([zlib.crc32(repr(levels).encode()), seed])


def shown(level: object) -> str:
    """A level as text.

    >>> shown((20, 16)), shown(None), shown(0.3)
    ('20×16', '–', '0.3')
    """
    if isinstance(level, tuple):
        return "×".join(map(str, level))
    return "–" if level is None else f"{level:g}" if isinstance(level, float) else str(level)


def draw_cells(number: int, texts: tuple[int, ...] = TWO) -> list[Cell]:
    """The first cells of a fixed sequence in which levels, and pairs of levels of two axes, are balanced.

    Those of each choice of `texts` are a sequence of their own.
    Each next cell is, of `CANDIDATES` possible ones, that with the largest Σ (1 + count)⁻² over its pairs of levels,
    where count is how many cells before have that pair: those that have not occurred yet come first.
    """
    rng = np.random.default_rng(0)
    every, codes, _ = _possible(texts)
    counts, chosen = np.zeros(int(codes.max()) + 1), np.zeros(len(every), dtype=bool)
    found = []
    for _ in range(min(number, len(every))):
        free = np.flatnonzero(~chosen)
        some = rng.choice(free, min(CANDIDATES, len(free)), replace=False)
        best = some[np.argmax(np.sum((1.0 + counts[codes[some]]) ** -2, axis=1))]
        chosen[best] = True
        counts[codes[best]] += 1
        found.append(every[best])
    return found


def pairs_missing(cells: Sequence[Cell]) -> int:
    """How many pairs of levels of two axes are possible but occur in none of the cells."""
    every, codes, possible = _possible(tuple(sorted({cell.texts for cell in cells})))
    place = {cell: row for row, cell in enumerate(every)}
    return possible - len(np.unique(codes[[place[cell] for cell in cells]]))


@cache
def _possible(texts: tuple[int, ...]) -> tuple[list[Cell], np.ndarray, int]:
    """All possible cells, the codes of their pairs of levels (cells, pairs), and how many codes occur."""
    assert [field.name for field in fields(Cell)] == list(AXES)
    own = [OF_LINEUPS if number > 2 else OF_PAIRS for number in texts]
    axes = {
        name: tuple(level for level in levels if any(level in each.get(name, levels) for each in own))
        for name, levels in (AXES | {"texts": texts}).items()
    }
    combinations = np.array(list(itertools.product(*(range(len(levels)) for levels in axes.values()))))
    cells = [Cell(*(axes[name][k] for name, k in zip(axes, row, strict=True))) for row in combinations.tolist()]
    kept = np.array([cell.is_possible for cell in cells])
    rows, most = combinations[kept], max(map(len, axes.values()))
    pairs = list(itertools.combinations([k for k, levels in enumerate(axes.values()) if len(levels) > 1], 2))
    codes = np.column_stack([(k * most + rows[:, a]) * most + rows[:, b] for k, (a, b) in enumerate(pairs)])
    return [cell for cell, keep in zip(cells, kept.tolist(), strict=True) if keep], codes, len(np.unique(codes))


@dataclass(frozen=True)
class Simulation:
    """One judge: its items, their true scores (C, n), and its answer p to every ordered pair (C, n, n).

    Of a judge of line-ups, `slots` (C, k) are the effects of slots, and answers are drawn when they are asked for.
    """

    items: Items
    truth: Array
    p: Array
    weight: float
    cell: Cell
    seed: int
    slots: Array | None = None

    def line_up(self, context: int, shown: Sequence[int]) -> dict[str, object]:
        """The answer about the texts of these numbers in slot order, as a column of a file of line-ups."""
        assert self.slots is not None
        rng = np.random.default_rng([int(self.cell.generator(self.seed).integers(2**32)), context, *shown])
        seen, kind = self.truth[context, list(shown)] + self.slots[context], self.cell.kind
        if kind == "soft":
            said = seen + (self.cell.noise or 0.0) / np.sqrt(2.0) * rng.standard_normal(len(seen))
            return {"logp": log_softmax(said).tolist()}
        order = [SLOTS[slot] for slot in np.argsort(-(seen + rng.gumbel(size=len(seen))), kind="stable")]
        return {"order": ">".join(order)} if kind == "orders" else {"best": order[0]}

    def answers(self, columns: dict[str, list[object]]) -> Comparisons:
        """The comparisons of the calls that `next_pairs` chose."""
        first, second = columns["first"], columns["second"]
        contexts = columns.get("context", [None] * len(first))
        n = self.truth.shape[1]
        i, j = (
            np.array([self.items.row(*label) for label in zip(contexts, shown, strict=True)])
            for shown in (first, second)
        )
        p = self.p[i // n, i % n, j % n]
        weight = None if self.weight == 1.0 else np.full(len(p), self.weight)
        return Comparisons.from_columns(first, second, p, weight, columns.get("context"))


def simulate(cell: Cell, seed: int) -> Simulation:
    """The judge of a cell and a seed."""
    rng, (contexts, n) = cell.generator(seed), cell.shape
    has_systems = cell.groups == "systems"
    own, shared = rng.standard_normal((contexts, n)), rng.standard_normal(n)
    z = (own + shared) / np.sqrt(2.0) if has_systems else own
    halves = np.tile(np.arange(n) % 2 * 2.0 - 1.0, (contexts, 1))
    family = np.tile(rng.permutation(halves[0]), (contexts, 1)) if has_systems else rng.permuted(halves, axis=1)
    truth = cell.sd * z + (GAP / 2 * family if cell.families == 2 else 0.0)

    turned = np.ones(contexts * n)
    if cell.style == "misleads":
        turned[rng.choice(len(turned), max(1, round(MISLED * len(turned))), replace=False)] = -1.0
    says = rng.standard_normal(truth.shape) if cell.style == "nothing" else z * turned.reshape(truth.shape)
    lists = 2 * (family.ravel() * turned > 0) if cell.families == 2 else np.zeros(len(turned), dtype=np.int64)
    texts = _texts(rng, expit(STEEP * says).ravel(), np.asarray(lists, dtype=np.int64))

    gamma, effect = BIAS + BIASES * rng.standard_normal((contexts, 1, 1)), EFFECTS * rng.standard_normal(truth.shape)
    d = truth[:, :, None] - truth[:, None, :]
    if cell.position != "none":
        d = d - gamma
    if cell.position == "text":
        d = d - effect[:, :, None] - effect[:, None, :]
    names = [(str(c), f"system {k}" if has_systems else f"text {c * n + k}") for c in range(contexts) for k in range(n)]
    rows = [{"id": name, "context_id": c, "text": text} for (c, name), text in zip(names, texts, strict=True)]
    if contexts == 1:
        rows = [{key: row[key] for key in ("id", "text")} for row in rows]
    weight, slots = float(VOTES) if cell.kind == "votes" else 1.0, None
    p = _answers(rng, cell, d) if cell.texts == 2 else np.zeros((0, 0, 0))
    if cell.texts > 2:
        common, own = rng.standard_normal(cell.texts), rng.standard_normal((contexts, cell.texts))
        by = {"none": (0.0, 0.0), "slots": (BIAS, 0.0), "context": (BIAS, BIASES)}[cell.position]
        slots = by[0] * common + by[1] * own
    return Simulation(Items.of(rows), truth, p, weight, cell, seed, slots)


def _answers(rng: np.random.Generator, cell: Cell, d: Array) -> Array:
    """p of every ordered pair, shape (C, n, n)."""
    if cell.kind == "soft":
        return np.asarray(expit(d + (cell.noise or 0.0) * rng.standard_normal(d.shape)))
    if cell.kind == "decisions":
        return (rng.random(d.shape) < expit(d)).astype(np.float64)
    return np.asarray((rng.binomial(VOTES, expit(d)) + 0.5) / (VOTES + 1))


def _texts(rng: np.random.Generator, mix: Array, lists: np.ndarray) -> list[str]:
    """Texts of 20 to 40 words, a share `mix` (N,) from list number `lists` (N,), the others from the next."""
    vocabulary, sizes = _vocabulary(), rng.integers(LEAST, MOST + 1, size=len(mix))
    word, luck = rng.integers(WORDS, size=(len(mix), MOST)), rng.random((len(mix), MOST))
    chosen = vocabulary[lists[:, None] + (luck >= mix[:, None]), word]
    return [" ".join(row[:size]) for row, size in zip(chosen.tolist(), sizes.tolist(), strict=True)]


@cache
def _vocabulary() -> np.ndarray:
    """Lists of words, shape (4, 60); no two lists have a letter sequence of three in common."""
    rng, lists = np.random.default_rng(0), []
    for consonants, vowels in LETTERS:
        syllables = [consonant + vowel for consonant in consonants for vowel in vowels]
        words = ["".join(two) for two in itertools.product(syllables, repeat=2)]
        endings = rng.choice(["", *consonants], size=len(words))
        every = [word + ending for word, ending in zip(words, endings, strict=True)]
        lists.append(rng.permutation(every)[:WORDS].tolist())
    return np.array(lists)
