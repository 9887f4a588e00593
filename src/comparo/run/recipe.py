"""How the answers of a run become a ranking: the method, and what it makes of the texts.

Unless the run is plain, a comparison counts by its texts' contrast, the variances are estimated, and candidates lean on
those of the same group and of a like style (`pooling`). Groups are the items' own where they have any; else the same id
in other contexts, where ids come again, as those of systems do.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.methods import Method, fit
from comparo.model.experts import BradleyTerry, Gaussian
from comparo.model.product import Bias
from comparo.model.weights import power, residuals
from comparo.ranking.ranking import Ranking
from comparo.selection.contrast import contrasts
from comparo.selection.style import styles
from comparo.types import Array

POWERS, USUAL, SURE = np.linspace(0.0, 3.0, 31), 1.0, 1.0  # of the contrast, with which the noise falls


@dataclass(frozen=True)
class Fitting:
    """The way from comparisons of `items` to a ranking; where it is not `grouped`, nothing is known of their groups.

    >>> items = Items.of({"ana": "The cat sat.", "bo": "The cat sat!", "cy": "A dog ran."})
    >>> data = Comparisons.from_rows([("ana", "bo", 0.8), ("bo", "cy", 0.7)])
    >>> Fitting(items).rank(data).comparisons.weight.round(2)
    array([0.45, 1.55])
    """

    items: Items
    method: Method = "poe-bt"
    bias: Bias = "joint"
    plain: bool = False
    grouped: bool = True

    @property
    def pools(self) -> bool:
        """Whether variances are estimated: not where the run is plain, nor by methods that have none."""
        return not self.plain and self.method.startswith("poe") and self.bias != "plug-in"

    @cached_property
    def contrast(self) -> Mapping[Any, Array | None]:
        """How much each comparison of two items tells, by context; None where all count alike."""
        return dict.fromkeys(self.items.groups) if self.plain else contrasts(self.items)

    @cached_property
    def _labels(self) -> list[tuple[Any, Any]]:
        return list(zip(self.items.contexts[self.items.context].tolist(), self.items.ids.tolist(), strict=True))

    @cached_property
    def _groups(self) -> Mapping[Any, Hashable] | Literal["items"] | None:
        if self.grouped and self.items.group is not None:
            return dict(zip(self._labels, self.items.group.tolist(), strict=True))
        different = len(set(self.items.ids.tolist()))
        return "items" if self.grouped and len(self.items.contexts) > 1 and len(self.items) >= 2 * different else None

    @cached_property
    def _features(self) -> Mapping[Any, Any] | None:
        style = styles(self.items)
        return dict(zip(self._labels, style, strict=True)) if style.shape[1] else None

    def rank(self, data: Comparisons) -> Ranking:
        """The ranking from comparisons as they were answered; its warnings are kept as notes."""
        return self.fit(self.weigh(data) if self.pools else data)

    def weigh(self, data: Comparisons) -> Comparisons:
        """The comparisons with weights by their contrast to the power that the answers bear out; their sum stays."""
        worth = self._worth(data)
        if np.all(worth == worth[0]):
            return data
        merged, squares, freedom = residuals(data, Gaussian() if self.method.startswith("poe-g") else BradleyTerry())
        weight = data.weights * worth ** power(squares, self._worth(merged), freedom, POWERS, USUAL, SURE)
        return replace(data, weight=weight * (np.sum(data.weights) / np.sum(weight)))

    def _worth(self, data: Comparisons) -> Array:
        """The contrast of each comparison, shape (K,); 1 in contexts that have none."""
        contexts = [None] if data.contexts is None else data.contexts.tolist()
        context = np.zeros(len(data), dtype=np.int32) if data.context is None else data.context
        worth = np.ones(len(data))
        order = np.argsort(context, kind="stable")
        ends = np.cumsum(np.bincount(context, minlength=len(contexts)))
        for label, rows in zip(contexts, np.split(order, ends[:-1]), strict=True):
            table = self.contrast[label]
            if table is not None:
                place = {item: number for number, item in enumerate(self._names[label])}
                first, second = (
                    [place[item] for item in data.items[shown[rows]].tolist()] for shown in (data.first, data.second)
                )
                worth[rows] = table[first, second]
        return worth

    @cached_property
    def _names(self) -> Mapping[Any, list[Any]]:
        return self.items.names

    def fit(self, data: Comparisons) -> Ranking:
        """The ranking from comparisons whose weights are final."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the ranking keeps the notes
            if not self.pools:
                return fit(data, self.method, bias=self.bias)
            return fit(
                data, self.method, bias=self.bias, prior="estimated", groups=self._groups, features=self._features
            )
