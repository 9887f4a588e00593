"""How much two texts differ, and so how much their comparison tells.

Of two texts that are nearly the same, a judge exaggerates what little differs: its answers scatter around the
difference of the scores several times as far as those about texts that have little in common. The contrast of two texts

    c_ij = 1 − o_ij,   o_ij = 2 Σ_{t in both} r_t / (Σ_{t in i} r_t + Σ_{t in j} r_t),   r_t = log (T + 1)/(T_t + ½),

has o, the overlap of their three-letter sequences t, rare ones counting more: T_t of all T texts have t. Such sequences
need no notion of words and so serve every language, and code. Pairs are chosen for it (`Selector`), and a comparison
counts c^a, where the answers tell a (`noise.power`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from comparo.experts import Array
from comparo.items import Items

LEAST = 0.05  # twins may be compared if nothing else is left
MOST = 512  # items of a context, above which near twins are few among all pairs and the matrix is not made


def overlaps(texts: Sequence[str], rarity: dict[str, float] | None = None) -> Array:
    """o of every two texts, shape (n, n); `rarity` is r of each three-letter sequence, by these texts alone if None.

    >>> overlaps(["the cat sat", "the cat sat", "A dog ran!"]).round(2)
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """
    found = [sorted(sequences(text)) for text in texts]
    rarity = rarities(found) if rarity is None else rarity
    code = {sequence: number for number, sequence in enumerate(sorted(set().union(*found)))}
    columns = np.array([code[sequence] for row in found for sequence in row], dtype=np.int64)
    starts = np.cumsum([0, *map(len, found)])
    has = sparse.csr_array((np.ones(len(columns)), columns, starts), shape=(len(texts), len(code)))
    shared = (has @ sparse.diags_array(np.array([rarity[sequence] for sequence in code])) @ has.T).toarray()
    own = shared.diagonal()
    total = own[:, None] + own
    return np.asarray(np.divide(2.0 * shared, total, out=np.zeros_like(total), where=total > 0))


def rarities(found: Sequence[Collection[str]]) -> dict[str, float]:
    """r of each sequence among T texts, given as the different sequences of each.

    >>> rarity = rarities([{"abc"}, {"abc", "bcd"}])
    >>> rarity["bcd"] > rarity["abc"]
    True
    """
    counts = Counter(sequence for row in found for sequence in row)
    return {sequence: float(np.log((len(found) + 1) / (count + 0.5))) for sequence, count in counts.items()}


def contrasts(items: Items) -> dict[Any, Array | None]:
    """c of every two items of each context, shape (n, n), in the order of `Items.names`; None for large contexts.

    >>> texts = {"ana": "The cat sat.", "bo": "The cat sat!", "cy": "A dog ran."}
    >>> contrasts(Items.of(texts))[None].round(2).tolist()[0]
    [0.05, 0.29, 1.0]
    """
    small = {context: rows for context, rows in items.groups.items() if len(rows) <= MOST}
    rarity = rarities([sequences(items.texts[row]) for rows in small.values() for row in rows.tolist()])
    found: dict[Any, Array | None] = dict.fromkeys(items.groups)
    for context, rows in small.items():
        overlap = overlaps([items.texts[row] for row in rows.tolist()], rarity)
        found[context] = np.maximum(1.0 - overlap, LEAST)
    return found


def sequences(text: str) -> Counter[str]:
    """The three-letter sequences of a text and how often each is there; capitals and the width of gaps do not count.

    >>> sequences("Oh, oh")
    Counter({' oh': 2, 'oh,': 1, 'h, ': 1, ', o': 1, 'oh ': 1})
    """
    letters = f" {' '.join(text.lower().split())} "
    return Counter(letters[begin : begin + 3] for begin in range(len(letters) - 2))
