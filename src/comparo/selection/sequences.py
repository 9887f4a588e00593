"""The counts of three-letter sequences in texts, from which contrast and style are computed.

Such sequences need no definition of words and so work for every language, and for code. Upper case and the amount of
white space are ignored, and a text begins and ends with a space. A sequence is a number, its three code points of 21
bits each, so that a text of many megabytes is counted by one sort of an array.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from comparo.types import Array, LongIndex

BITS = 21  # of a code point
AT_ONCE = 400_000  # letters: arrays of 3 MB


def count_sequences(texts: Sequence[str]) -> sparse.csr_array:
    """How often each text has each sequence, shape (T, S); S sequences are in some text, and ascend in their number.

    >>> count_sequences(["Oh, oh", "oh"]).toarray().astype(int).tolist()
    [[2, 1, 1, 1, 1], [1, 0, 0, 1, 0]]
    """
    numbers, counts, sizes = zip(*(_counted(some) for some in _parts(texts)), strict=True)
    columns = np.unique(np.concatenate([np.unique(some) for some in numbers]))
    indices = np.concatenate([np.searchsorted(columns, some).astype(np.int32) for some in numbers])
    starts = np.cumsum(np.append(0, np.concatenate(sizes)))
    return sparse.csr_array((np.concatenate(counts), indices, starts), shape=(len(texts), len(columns)))


def rarities(counts: sparse.csr_array) -> Array:
    """r = log (T + 1)/(T_t + ½) of each sequence t, shape (S,): T_t of all T texts have it.

    >>> rarities(count_sequences(["Oh, oh", "oh"])).round(2)
    array([0.18, 0.69, 0.69, 0.18, 0.69])
    """
    texts = np.bincount(counts.indices, minlength=counts.shape[1])
    return np.asarray(np.log((counts.shape[0] + 1) / (texts + 0.5)))


def _parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in turn, as many at a time as have about `AT_ONCE` letters."""
    ends = np.cumsum([len(text) for text in texts])
    cuts = np.flatnonzero(np.diff(ends // AT_ONCE)) + 1
    for begin, end in itertools.pairwise([0, *cuts.tolist(), len(texts)]):
        yield texts[begin:end]


def _counted(texts: Sequence[str]) -> tuple[LongIndex, Array, LongIndex]:
    """The different sequences of each text in turn, how often each is there, and how many each text has, (T,)."""
    found = [np.sort(_numbers(text)) for text in texts]
    lengths = np.array([len(numbers) for numbers in found], dtype=np.int64)
    numbers = np.concatenate([np.empty(0, dtype=np.int64), *found])
    text = np.repeat(np.arange(len(texts)), lengths)
    new = np.flatnonzero((np.diff(numbers, prepend=-1) != 0) | (np.diff(text, prepend=-1) != 0))
    counts = np.diff(new, append=len(numbers)).astype(np.float64)
    return numbers[new], counts, np.bincount(text[new], minlength=len(texts))


def _numbers(text: str) -> NDArray[np.int64]:
    """The number of each sequence of a text, in the text's order."""
    letters = f" {' '.join(text.lower().split())} "
    points = np.frombuffer(letters.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
    numbers = points[:-2] << BITS
    numbers |= points[1:-1]
    numbers <<= BITS
    numbers |= points[2:]
    return np.asarray(numbers)
