"""What chooses the pairs of a context: for its items, for groups over all contexts, or for items that are new to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from comparo.run.chorus import PairSource
from comparo.run.task import Task
from comparo.selection.defaults import Orders
from comparo.selection.growing import MOST, Placing
from comparo.selection.selector import Selector
from comparo.selection.systems import Systems
from comparo.types import Array


def pair_source(
    task: Task,
    context: Any,
    ids: list[Any],
    orders: Orders,
    rng: np.random.Generator,
    contrast: Array | None,
    systems: Systems | None,
    is_begun: bool,
) -> tuple[PairSource, int]:
    """What chooses the pairs of a context, and of how many items they are: in a run that grows, of the new ones.

    New items are placed in the ranking of the others (`Placing`) where some answers are there (`is_begun`), unless
    pairs are random or there are more than `MOST` new items.
    """
    if systems is not None:
        return systems.of_context(context, orders, rng, contrast), len(ids)
    strategy = task.strategy or "greedy"
    options: dict[str, Any] = {"strategy": strategy, "orders": orders, "goal": task.goal, "contrast": contrast}
    new = len(ids) if task.growth is None else task.growth.new.get(context, 0)
    if task.growth is None or not is_begun or strategy == "random" or new > MOST:
        return Selector(ids, **options, rng=rng), new
    own, other = rng.spawn(2)
    return Placing(ids, Selector(ids, **options, rng=own), contrast, other), new
