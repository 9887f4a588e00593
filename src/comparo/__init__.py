"""Rank texts from few pairwise comparisons by a language model.

Names are loaded when they are first used, so that `import comparo` takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comparo.calibration import calibrate
    from comparo.comparisons import Comparisons, ComparisonsError
    from comparo.determinant import design_log_det
    from comparo.experts import BradleyTerry, Expert, Gaussian, StudentT
    from comparo.methods import fit
    from comparo.ranking import Ranking

__all__ = [
    "BradleyTerry",
    "Comparisons",
    "ComparisonsError",
    "Expert",
    "Gaussian",
    "Ranking",
    "StudentT",
    "calibrate",
    "design_log_det",
    "fit",
]

_ROOMS = {
    "BradleyTerry": "experts",
    "Comparisons": "comparisons",
    "ComparisonsError": "comparisons",
    "Expert": "experts",
    "Gaussian": "experts",
    "Ranking": "ranking",
    "StudentT": "experts",
    "calibrate": "calibration",
    "design_log_det": "determinant",
    "fit": "methods",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'comparo' has no attribute {name!r}")
    value = getattr(import_module(f"comparo.{_ROOMS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
