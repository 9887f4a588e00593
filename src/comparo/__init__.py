"""Rank texts from few pairwise comparisons by a language model.

Names are loaded when they are first used, so that `import comparo` takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comparo.calibration import calibrate
    from comparo.comparisons import Comparisons, ComparisonsError
    from comparo.confidence import expected_spearman, top_probability
    from comparo.designs import in_both_orders, in_one_order, random_pairs
    from comparo.determinant import design_log_det
    from comparo.experts import BradleyTerry, Expert, Gaussian, StudentT
    from comparo.items import Items
    from comparo.job import rank
    from comparo.judges import Judge, JudgeError, Judgement, load_judge
    from comparo.methods import fit
    from comparo.planning import plan
    from comparo.plots import (
        plot_convergence,
        plot_difference_given_p,
        plot_efficiency,
        plot_joint,
        plot_position_bias,
        plot_ranking,
    )
    from comparo.prompts import Prompt, Question
    from comparo.ranking import Ranking
    from comparo.report import write_report
    from comparo.selection import Selector, greedy_pairs

__all__ = [
    "BradleyTerry",
    "Comparisons",
    "ComparisonsError",
    "Expert",
    "Gaussian",
    "Items",
    "Judge",
    "JudgeError",
    "Judgement",
    "Prompt",
    "Question",
    "Ranking",
    "Selector",
    "StudentT",
    "calibrate",
    "design_log_det",
    "expected_spearman",
    "fit",
    "greedy_pairs",
    "in_both_orders",
    "in_one_order",
    "load_judge",
    "plan",
    "plot_convergence",
    "plot_difference_given_p",
    "plot_efficiency",
    "plot_joint",
    "plot_position_bias",
    "plot_ranking",
    "random_pairs",
    "rank",
    "top_probability",
    "write_report",
]

_ROOMS = {
    "BradleyTerry": "experts",
    "Comparisons": "comparisons",
    "ComparisonsError": "comparisons",
    "Expert": "experts",
    "Gaussian": "experts",
    "Items": "items",
    "Judge": "judges",
    "JudgeError": "judges",
    "Judgement": "judges",
    "Prompt": "prompts",
    "Question": "prompts",
    "Ranking": "ranking",
    "Selector": "selection",
    "StudentT": "experts",
    "calibrate": "calibration",
    "design_log_det": "determinant",
    "expected_spearman": "confidence",
    "fit": "methods",
    "greedy_pairs": "selection",
    "in_both_orders": "designs",
    "in_one_order": "designs",
    "load_judge": "judges",
    "plan": "planning",
    "plot_convergence": "plots",
    "plot_difference_given_p": "plots",
    "plot_efficiency": "plots",
    "plot_joint": "plots",
    "plot_position_bias": "plots",
    "plot_ranking": "plots",
    "random_pairs": "designs",
    "rank": "job",
    "top_probability": "confidence",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module 'comparo' has no attribute {name!r}")
    value = getattr(import_module(f"comparo.{_ROOMS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
