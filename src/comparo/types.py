"""The types of arrays that the rooms share; a docstring says the shape."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int32]
LongIndex = NDArray[np.int64]
Mask = NDArray[np.bool_]
