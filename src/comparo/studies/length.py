"""The baseline that asks no judge: the longer text wins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from comparo.data.items import Items


def longer(items: Items) -> NDArray[np.float64]:
    """How many words each text has, as its score; shape (N,). Words are separated by white space.

    >>> longer(Items.of({"ana": "It rained.", "bo": "It rained all day."}))
    array([2., 4.])
    """
    return np.array([len(text.split()) for text in items.texts], dtype=np.float64)
