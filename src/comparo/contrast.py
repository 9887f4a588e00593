"""How much two texts differ, and so how much their comparison tells.

Of two texts that are nearly the same, a judge exaggerates what little differs: its answers scatter around the
difference of the scores several times as far as those about texts that have little in common. The contrast of two texts

    c_ij = 1 − o_ij,   o_ij = 2 Σ_{t in both} r_t / (Σ_{t in i} r_t + Σ_{t in j} r_t),   r_t = log (T + 1)/(T_t + ½),

has o, the overlap of their three-letter sequences t (`sequences`), rare ones counting more: T_t of all T texts have t.
Pairs are chosen for it (`Selector`), and a comparison counts c^a, where the answers tell a (`noise.power`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from comparo.experts import Array
from comparo.items import Items
from comparo.sequences import count_sequences, rarities

LEAST = 0.05  # twins may be compared if nothing else is left
MOST = 512  # items of a context, above which near twins are few among all pairs and the matrix is not made


def overlaps(texts: Sequence[str]) -> Array:
    """o of every two texts, shape (n, n), r being that among these texts.

    >>> overlaps(["the cat sat", "the cat sat", "A dog ran!"]).round(2)
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """
    counts = count_sequences(texts)
    return _overlaps(counts, rarities(counts))


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
    for context, rows in small.items():
        here = counts[begin : begin + len(rows)]
        found[context] = np.maximum(1.0 - _overlaps(here, rarity), LEAST)
        begin += len(rows)
    return found


def _overlaps(counts: sparse.csr_array, rarity: Array) -> Array:
    """o of every two of some texts (n, S), shape (n, n), for the r (S,) of each sequence."""
    used, column = np.unique(counts.indices, return_inverse=True)
    has = sparse.csr_array((np.ones(len(column)), column, counts.indptr), shape=(counts.shape[0], len(used)))
    shared = (has @ sparse.diags_array(rarity[used]) @ has.T).toarray()
    own = shared.diagonal()
    total = own[:, None] + own
    return np.asarray(np.divide(2.0 * shared, total, out=np.zeros_like(total), where=total > 0))
