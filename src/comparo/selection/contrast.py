"""How much two texts differ, which determines how informative their comparison is.

Where two texts are nearly the same, a judge exaggerates the small differences: its answers scatter around the
difference of the scores several times as far as those about texts that have little in common. The contrast of two texts

    c_ij = 1 − o_ij,   o_ij = 2 Σ_{t in both} r_t / (Σ_{t in i} r_t + Σ_{t in j} r_t),   r_t = log (T + 1)/(T_t + ½),

is determined by o, the overlap of their three-letter sequences t (`sequences`), in which rare ones count more: T_t of
all T texts have t. A comparison has the information c^a, where a is estimated from the answers (`fitted_power`): that
is its weight in the fit, and what the choice of pairs reckons with (`Selector`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.model.observations import are_choices
from comparo.model.weights import power, residuals
from comparo.selection.sequences import count_sequences, rarities
from comparo.types import Array

POWERS, USUAL, SURE = np.linspace(0.0, 3.0, 31), 1.0, 1.0  # of the contrast, and what is expected of them
LEAST = 0.05  # so that equal texts may be compared if no other pair is left
MOST = 512  # items of a context; above it few of all pairs are nearly equal texts, and the matrix is not computed
AT_ONCE = 4_000_000  # pairs of texts of all contexts that are compared together


def fitted_power(data: Comparisons, contrast: Array) -> float:
    """How the information of answers rises with their contrast (K,): the power a of c^a, 0 for choices.

    The prior of a is 1 ± 1, from 0 to 3: what recorded judges show (docs/efficiency.md). A choice has the noise of a
    coin, whatever the texts.

    >>> fitted_power(Comparisons.from_rows([("a", "b", 1), ("b", "c", 0)]), np.array([0.5, 1.0]))
    0.0
    """
    if np.all(contrast == contrast[0]) or are_choices(data):
        return 0.0
    row, squares, freedom = residuals(data)
    return power(squares, contrast[row], freedom, POWERS, USUAL, SURE)


def overlaps(texts: Sequence[str]) -> Array:
    """o of every two texts, shape (n, n), r being that among these texts.

    >>> overlaps(["the cat sat", "the cat sat", "A dog ran!"]).round(2)
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """
    counts = count_sequences(texts)
    return _overlaps(counts, rarities(counts), np.array([len(texts)]))[0]


def contrasts(items: Items) -> dict[Any, Array | None]:
    """c of every two items of each context, shape (n, n), in the order of `Items.names`; None for large contexts.

    >>> texts = {"ana": "The cat sat.", "bo": "The cat sat!", "cy": "A dog ran."}
    >>> contrasts(Items.of(texts))[None].round(2).tolist()[0]
    [0.05, 0.29, 1.0]
    """
    small = {context: rows for context, rows in items.groups.items() if len(rows) <= MOST}
    counts = count_sequences([items.texts[row] for rows in small.values() for row in rows.tolist()])
    rarity = rarities(counts)
    found: dict[Any, Array | None] = dict.fromkeys(items.groups)
    begin = 0
    for some in _parts(small):
        sizes = np.array([len(small[context]) for context in some])
        end = begin + int(np.sum(sizes))
        for context, overlap in zip(some, _overlaps(counts[begin:end], rarity, sizes), strict=True):
            found[context] = np.maximum(1.0 - overlap, LEAST)
        begin = end
    return found


def _parts(contexts: Mapping[Any, Sized]) -> Iterator[list[Any]]:
    """The contexts in turn, as many at a time as have at most `AT_ONCE` pairs of items."""
    some: list[Any] = []
    pairs = 0
    for context, rows in contexts.items():
        if some and pairs + len(rows) ** 2 > AT_ONCE:
            yield some
            some, pairs = [], 0
        some.append(context)
        pairs += len(rows) ** 2
    if some:
        yield some


def _overlaps(counts: sparse.csr_array, rarity: Array, sizes: NDArray[np.int64]) -> list[Array]:
    """o of every two texts of each context, each (n, n), for the r (S,) of each sequence.

    `counts` (N, S) are those of some contexts of so many texts, one after the other. A sequence of one context is
    another column than the same sequence of the next, so that one product of matrices serves all of them.
    """
    rows, columns = counts.shape
    starts = np.cumsum(sizes) - sizes
    context = np.repeat(np.arange(len(sizes)), sizes)
    key = np.repeat(context, np.diff(counts.indptr)) * columns + counts.indices
    used, column = np.unique(key, return_inverse=True)
    has = sparse.csr_array((np.ones(len(column)), column, counts.indptr), shape=(rows, len(used)))
    shared = (
        (has @ sparse.diags_array(rarity[used % columns]) @ has.T).tocoo()
        if columns
        else sparse.coo_array((rows, rows))
    )
    row, other = shared.coords
    place = (np.cumsum(sizes**2) - sizes**2)[context[row]]
    flat = np.zeros(int(np.sum(sizes**2)))
    flat[place + (row - starts[context[row]]) * sizes[context[row]] + other - starts[context[row]]] = shared.data
    return [
        _share(block.reshape(n, n)) for block, n in zip(np.split(flat, np.cumsum(sizes**2)[:-1]), sizes, strict=True)
    ]


def _share(shared: Array) -> Array:
    """o from the sums of r over what two texts share, (n, n)."""
    own = shared.diagonal()
    total = own[:, None] + own
    return np.asarray(np.divide(2.0 * shared, total, out=np.zeros_like(total), where=total > 0))
