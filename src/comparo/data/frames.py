"""Columns from data frames and data frames from columns, by narwhals: pandas, polars or pyarrow."""

import importlib.util
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from comparo.errors import ComparisonsError, pip_install

Column = Sequence[Any] | NDArray[Any]
Library = Literal["pandas", "polars", "pyarrow"]

INSTALL = pip_install("data")


def columns_from_frame(frame: Any, wanted: Collection[str] | None = None) -> tuple[dict[str, Column], tuple[str, ...]]:
    """The wanted columns of a data frame (all if None) whose names are text, and the names of the others.

    Numbers are arrays, everything else lists. Everything that narwhals reads is a data frame; a lazy one is collected.
    """
    try:
        frame = nw.from_native(frame)
        names = frame.collect_schema().names()
    except nw.exceptions.DuplicateError as error:
        raise ComparisonsError(f"two columns of the frame have the same name; rename one: {error}") from error
    kept = [name for name in names if isinstance(name, str) and (wanted is None or name in wanted)]
    frame = frame.select(kept)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    return {name: column_from_series(frame[name]) for name in kept}, tuple(str(n) for n in names if n not in kept)


def column_from_series(series: nw.Series[Any]) -> Column:
    """A narwhals series as an array if it holds numbers, as a list with None for what is missing if not."""
    if series.dtype.is_numeric():
        return series.to_numpy()
    if not series.null_count():
        return series.to_list()
    return [None if missing else value for value, missing in zip(series, series.is_null(), strict=True)]


def column_from_values(name: str, values: Iterable[Any]) -> Column:
    """A column that was given as an array, a series or any other iterable; `name` is for the error."""
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise ComparisonsError(f"column {name!r} has shape {values.shape}; it must have one value per row")
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ComparisonsError(f"column {name!r} is {values!r}; it must be a sequence with one value per row")
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return column_from_series(series)
    return values if isinstance(values, (np.ndarray, list, tuple)) else list(values)


def frame_from_columns(columns: Mapping[str, Column], backend: str | None = None) -> Any:
    """A pandas, polars or pyarrow frame of these columns; `backend` None is the first of them that is installed."""
    libraries: tuple[Library, ...] = ("pandas", "polars", "pyarrow")
    asked = [name for name in libraries if backend in (None, name)]
    if not asked:
        raise ValueError(f"{backend!r} is not a data frame library comparo knows; choose {' or '.join(libraries)}")
    library = installed(*asked)
    if library is None:
        raise ImportError(f"a data frame needs {' or '.join(asked)}: {INSTALL}")
    try:
        return nw.from_dict(columns, backend=library).to_native()
    except (TypeError, ValueError) as error:  # pyarrow's own errors are both
        raise ValueError(f"{library} cannot hold labels of mixed kinds; use backend='pandas': {error}") from error


def installed(*libraries: Library) -> Library | None:
    """The first of some libraries that is installed."""
    return next((name for name in libraries if importlib.util.find_spec(name)), None)
