"""The style of texts: a few numbers for each text, computed from its letter sequences.

A text is the vector of its three-letter sequences, log(1 + count) times rarity, of length 1. After the mean of its
context is subtracted, the vector describes not the subject of the text but how it is written. The first `STYLES`
principal components of these vectors are its style. A few calls are enough to estimate which style the judge prefers,
and the score of a text with few comparisons is then estimated also from texts of similar style (`pooling`).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from comparo.data.items import Items
from comparo.selection.sequences import count_sequences, rarities
from comparo.types import Array

STYLES = 8
TEXTS = 20  # for each component, at least
MOST = 20_000  # texts; above it no style is computed
POWERS = 6  # iterations of the power method, after which the components have converged


def styles(items: Items) -> Array:
    """The style of each text, shape (N, D): D is 8, or less where there are few texts; the mean square of a row is 1.

    >>> words = ["Thou knowest that I went to {} yesterday", "well i mean like we were in {} sort of"]
    >>> places = "Rome Oslo Lima Kyoto Delhi Paris Perth Cairo Turin Quito".split()
    >>> style = styles(Items.of([word.format(place) for place in places for word in words]))
    >>> style.shape, bool(abs(np.corrcoef(style[:, 0], np.tile([0, 1], 10))[0, 1]) > 0.99)
    ((20, 1), True)
    """
    number = min(STYLES, len(items) // TEXTS)
    if number == 0 or len(items) > MOST:
        return np.zeros((len(items), 0))
    vectors = _vectors(items)
    counts = np.bincount(items.context, minlength=len(items.contexts))
    belongs = sparse.csr_array((np.ones(len(items)), (items.context, np.arange(len(items)))))
    means = sparse.diags_array(1.0 / np.maximum(counts, 1)) @ belongs

    def centred(x: Array) -> Array:
        return np.asarray(x - np.asarray(means @ x)[items.context])

    basis = np.random.default_rng(0).standard_normal((len(items), number + STYLES))
    for _ in range(POWERS):
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
    length = np.sqrt(np.asarray((vectors * vectors).sum(axis=1)).ravel())
    vectors.data /= np.repeat(np.where(length > 0, length, 1.0), np.diff(vectors.indptr))
    return vectors
