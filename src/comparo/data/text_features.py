"""The contrast of two texts, and the style of each, computed from the texts alone.

Both are by three-letter sequences, which need no definition of words and so work for every language, and for code. Case
and the amount of white space are ignored, and a text begins and ends with a space. A sequence is coded as one integer,
three code points of 21 bits each, so that sorting one array counts the sequences of a text of many megabytes.

Where two texts are nearly the same, a judge exaggerates small differences: its answers scatter around the difference of
the scores several times as much as for texts that have little in common. The contrast of two texts

    c_ij = 1 − o_ij,   o_ij = 2 Σ_{t in both} r_t / (Σ_{t in i} r_t + Σ_{t in j} r_t),   r_t = log (T + 1)/(T_t + ½),

is 1 minus the overlap o of their sequences t, weighted by their rarity r_t: T_t of all T texts have t. A comparison has
the information c^a, where a is estimated from the answers (`observations.fitted_power`): that is its weight in the fit
and in the choice of pairs (`Selector`).

For the style, a text is the vector of its sequences, log(1 + count) times rarity, of length 1. After the mean of its
context is subtracted, the vector describes not the subject of the text but how it is written. The first `STYLES`
principal components of these vectors are its style. A few calls are enough to estimate which style the judge prefers,
and the score of a text with few comparisons is then estimated also from texts of similar style.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from comparo.data.items import Items
from comparo.types import Array, LongIndex

BITS = 21  # of a code point


def count_sequences(texts: Sequence[str]) -> sparse.csr_array:
    """The count of each sequence in each text, shape (T, S), for the S sequences that occur, sorted by their code.

    >>> count_sequences(["Oh, oh", "oh"]).toarray().astype(int).tolist()
    [[2, 1, 1, 1, 1], [1, 0, 0, 1, 0]]
    """
    found = [np.stack(np.unique(_numbers(text), return_counts=True)) for text in texts]
    starts = np.cumsum([0, *(each.shape[1] for each in found)])
    numbers, counts = np.concatenate([np.empty((2, 0), dtype=np.int64), *found], axis=1)
    del found  # as large as all that is computed from here on
    columns = np.unique(numbers)
    indices = np.searchsorted(columns, numbers).astype(np.int32)
    return sparse.csr_array((counts.astype(np.float64), indices, starts), shape=(len(texts), len(columns)))


def rarities(counts: sparse.csr_array) -> Array:
    """r = log (T + 1)/(T_t + ½) of each sequence t, shape (S,): T_t of all T texts have it.

    >>> rarities(count_sequences(["Oh, oh", "oh"])).round(2)
    array([0.18, 0.69, 0.69, 0.18, 0.69])
    """
    texts = np.bincount(counts.indices, minlength=counts.shape[1])
    return np.asarray(np.log((counts.shape[0] + 1) / (texts + 0.5)))


def _numbers(text: str) -> LongIndex:
    """The integer code of each sequence of a text, in the text's order."""
    letters = f" {' '.join(text.lower().split())} "
    points = np.frombuffer(letters.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
    numbers = points[:-2] << BITS
    numbers |= points[1:-1]
    numbers <<= BITS
    numbers |= points[2:]
    return np.asarray(numbers)


LEAST_CONTRAST = 0.05  # least contrast, so that equal texts may be compared if no other pair is left
MOST_ITEMS = 512  # items of a context; above, nearly equal texts are a small share of all pairs, and c is not computed


def contrasts(items: Items) -> dict[Any, Array | None]:
    """The contrast matrix (n, n) of each context, in the order of `Items.names`; None for large contexts.

    >>> texts = {"ana": "The cat sat.", "bo": "The cat sat!", "cy": "A dog ran."}
    >>> contrasts(Items.of(texts))[None].round(2).tolist()[0]
    [0.05, 0.29, 1.0]
    """
    small = {context: rows for context, rows in items.groups.items() if len(rows) <= MOST_ITEMS}
    found: dict[Any, Array | None] = dict.fromkeys(items.groups)
    if not small:
        return found
    counts = count_sequences([items.texts[row] for rows in small.values() for row in rows.tolist()])
    rarity, start = rarities(counts), 0
    for context, rows in small.items():
        overlap = overlaps(counts[start : start + len(rows)], rarity)
        found[context] = np.maximum(1.0 - overlap, LEAST_CONTRAST)
        start += len(rows)
    return found


def overlaps(counts: sparse.csr_array, rarity: Array) -> Array:
    """The overlaps o (n, n) of n texts, from the `counts` (n, S) of their sequences and the `rarity` r (S,)."""
    used, column = np.unique(counts.indices, return_inverse=True)
    has = sparse.csr_array((np.ones(len(column)), column, counts.indptr), shape=(counts.shape[0], len(used)))
    shared = np.asarray((has @ sparse.diags_array(rarity[used]) @ has.T).todense())
    own = shared.diagonal()
    total = own[:, None] + own
    return np.asarray(np.divide(2.0 * shared, total, out=np.zeros_like(total), where=total > 0))


STYLES = 8
TEXTS = 20  # least number of texts per component
MOST_TEXTS = 20_000  # texts; above it no style is computed
ITERATIONS = 6  # iterations of the power method, after which the components have converged


def styles(items: Items) -> Array:
    """The style of each text, shape (N, D): D is 8, or less where there are few texts; the mean square of a row is 1.

    >>> words = ["Thou knowest that I went to {} yesterday", "well i mean like we were in {} sort of"]
    >>> places = "Rome Oslo Lima Kyoto Delhi Paris Perth Cairo Turin Quito".split()
    >>> style = styles(Items.of([word.format(place) for place in places for word in words]))
    >>> style.shape, bool(abs(np.corrcoef(style[:, 0], np.tile([0, 1], 10))[0, 1]) > 0.99)
    ((20, 1), True)
    """
    number = min(STYLES, len(items) // TEXTS)
    if number == 0 or len(items) > MOST_TEXTS:
        return np.zeros((len(items), 0))
    vectors = _vectors(items)
    counts = np.bincount(items.context, minlength=len(items.contexts))
    belongs = sparse.csr_array((np.ones(len(items)), (items.context, np.arange(len(items)))))
    means = sparse.diags_array(1.0 / np.maximum(counts, 1)) @ belongs

    def centred(x: Array) -> Array:
        return np.asarray(x - np.asarray(means @ x)[items.context])

    basis = np.random.default_rng(0).standard_normal((len(items), number + STYLES))
    for _ in range(ITERATIONS):
        basis, _ = np.linalg.qr(centred(vectors @ (vectors.T @ centred(basis))))
    left, size, _ = np.linalg.svd((vectors.T @ centred(basis)).T, full_matrices=False)
    found = (basis @ left * size)[:, :number]
    square = float(np.mean(np.sum(found**2, axis=1)))
    return found / np.sqrt(square) if square > 1e-12 else np.zeros((len(items), 0))


def _vectors(items: Items) -> sparse.csr_array:
    """The texts' vectors as rows, without sequences that only one text has."""
    vectors = count_sequences(items.texts)
    np.log1p(vectors.data, out=vectors.data)
    vectors.data *= rarities(vectors)[vectors.indices]
    several = np.bincount(vectors.indices, minlength=vectors.shape[1]) > 1
    vectors = sparse.csr_array(vectors[:, several])
    squares = sparse.csr_array((vectors.data**2, vectors.indices, vectors.indptr), shape=vectors.shape)
    length = np.sqrt(squares @ np.ones(vectors.shape[1]))
    vectors.data /= np.repeat(np.where(length > 0, length, 1.0), np.diff(vectors.indptr))
    return vectors
