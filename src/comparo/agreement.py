"""How far a ranking agrees with people's scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from comparo.items import Items
from comparo.ranking import Ranking


def spearman(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """The correlation of the ranks of two columns, each of shape (n,); NaN where one of them is constant.

    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0]))
    0.5
    """
    a, b = (rankdata(column) - (len(column) + 1) / 2 for column in (one, other))
    norm = np.sqrt(np.sum(a * a) * np.sum(b * b))
    return float(a @ b / norm) if norm > 0 else float("nan")


def agreement(ranking: Ranking, items: Items) -> dict[str, NDArray[np.float64]]:
    """Spearman's correlation with each of the items' scores, one a context, shape (C,) in the items' order.

    NaN where a context has fewer than two scored items, or equal scores.

    >>> from comparo import fit
    >>> items = Items.of([{"id": name, "text": "…", "score": score} for name, score in zip("abc", (3, 2, 1))])
    >>> agreement(fit([("a", "b", 0.8), ("b", "c", 0.7)]), items)
    {'score': array([1.])}
    """
    contexts = [None] * ranking.graph.nodes if ranking.context is None else ranking.context.tolist()
    found = dict(zip(zip(contexts, ranking.items.tolist(), strict=True), ranking.scores.tolist(), strict=True))
    labels = zip(items.contexts[items.context].tolist(), items.ids.tolist(), strict=True)
    estimated = np.array([found.get(label, np.nan) for label in labels])
    result = {}
    for name, scores in items.scores.items():
        result[name] = np.full(len(items.contexts), np.nan)
        for code in range(len(items.contexts)):
            both = (items.context == code) & ~np.isnan(estimated) & ~np.isnan(scores)
            if np.count_nonzero(both) > 1:
                result[name][code] = spearman(estimated[both], scores[both])
    return result
