"""Shared type aliases: arrays (each docstring states the shape) and random seeds."""

import numpy as np
from numpy.typing import NDArray

from comparo.errors import OptionError

Array = NDArray[np.float64]
Index = NDArray[np.int32]
LongIndex = NDArray[np.int64]
Mask = NDArray[np.bool_]

Seed = int | np.random.Generator | None


def check_level(level: float) -> None:
    """Raise a ValueError unless 0 < `level` < 1, the coverage of intervals."""
    if not 0 < level < 1:
        raise OptionError("level", level, "is not a probability between 0 and 1")


def as_generator(seed: Seed) -> np.random.Generator:
    """Return a generator from a seed; a Generator is returned as it is, and None gives unpredictable numbers.

    >>> as_generator(0).integers(10) == as_generator(np.random.default_rng(0)).integers(10)
    np.True_
    """
    if not (seed is None or isinstance(seed, (int, np.integer, np.random.Generator))) or isinstance(seed, bool):
        raise TypeError(f"seed must be a whole number, None or a numpy Generator, not {seed!r}")
    return np.random.default_rng(seed)
