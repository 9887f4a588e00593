"""The three-letter sequences of texts, counted: what contrast and style are made of.

Such sequences need no notion of words and so serve every language, and code. Capitals and the width of gaps do not
count, and a text begins and ends with a gap. A sequence is a number, its three code points of 21 bits each, so that a
text of many megabytes is counted by one sort of an array.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from comparo.experts import Array

BITS = 21  # of a code point


def count_sequences(texts: Sequence[str]) -> sparse.csr_array:
    """How often each text has each sequence, shape (T, S); S sequences are in some text, and ascend in their number.

    >>> count_sequences(["Oh, oh", "oh"]).toarray().astype(int).tolist()
    [[2, 1, 1, 1, 1], [1, 0, 0, 1, 0]]
    """
    found = [np.unique(_numbers(text), return_counts=True) for text in ["", *texts]]  # "" has none, and a type
    every = np.concatenate([numbers for numbers, _ in found])
    columns = np.unique(every)
    indices = np.searchsorted(columns, every)
    counts = np.concatenate([counts for _, counts in found]).astype(np.float64)
    starts = np.cumsum([len(numbers) for numbers, _ in found])
    return sparse.csr_array((counts, indices, starts), shape=(len(texts), len(columns)))


def rarities(counts: sparse.csr_array) -> Array:
    """r = log (T + 1)/(T_t + ½) of each sequence t, shape (S,): T_t of all T texts have it.

    >>> rarities(count_sequences(["Oh, oh", "oh"])).round(2)
    array([0.18, 0.69, 0.69, 0.18, 0.69])
    """
    texts = np.bincount(counts.indices, minlength=counts.shape[1])
    return np.asarray(np.log((counts.shape[0] + 1) / (texts + 0.5)))


def _numbers(text: str) -> NDArray[np.int64]:
    """The number of each sequence of a text, in the text's order."""
    letters = f" {' '.join(text.lower().split())} "
    points = np.frombuffer(letters.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
    numbers = points[:-2] << BITS
    numbers |= points[1:-1]
    numbers <<= BITS
    numbers |= points[2:]
    return np.asarray(numbers)
