"""Rank texts from few pairwise comparisons by a language model.

Names are loaded when they are first used, so that `import comparo` takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comparo.analysis.calibration import calibrate
    from comparo.analysis.confidence import expected_spearman, top_probability
    from comparo.analysis.plots import (
        plot_convergence,
        plot_difference_given_p,
        plot_efficiency,
        plot_joint,
        plot_position_bias,
        plot_ranking,
    )
    from comparo.data.comparisons import Comparisons
    from comparo.data.items import Items
    from comparo.data.prompts import Prompt, Question
    from comparo.errors import ComparisonsError, JudgeError
    from comparo.judges import Judge, Judgement, load_judge
    from comparo.methods import fit
    from comparo.model.determinant import design_log_det
    from comparo.model.experts import BradleyTerry, Expert, Gaussian, StudentT
    from comparo.ranking.ranking import Ranking
    from comparo.report import write_report
    from comparo.run.rank import rank
    from comparo.selection.designs import in_both_orders, in_one_order, random_pairs
    from comparo.selection.planning import plan
    from comparo.selection.selector import Selector, greedy_pairs

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
    "BradleyTerry": "model.experts",
    "Comparisons": "data.comparisons",
    "ComparisonsError": "errors",
    "Expert": "model.experts",
    "Gaussian": "model.experts",
    "Items": "data.items",
    "Judge": "judges",
    "JudgeError": "errors",
    "Judgement": "judges",
    "Prompt": "data.prompts",
    "Question": "data.prompts",
    "Ranking": "ranking.ranking",
    "Selector": "selection.selector",
    "StudentT": "model.experts",
    "calibrate": "analysis.calibration",
    "design_log_det": "model.determinant",
    "expected_spearman": "analysis.confidence",
    "fit": "methods",
    "greedy_pairs": "selection.selector",
    "in_both_orders": "selection.designs",
    "in_one_order": "selection.designs",
    "load_judge": "judges",
    "plan": "selection.planning",
    "plot_convergence": "analysis.plots",
    "plot_difference_given_p": "analysis.plots",
    "plot_efficiency": "analysis.plots",
    "plot_joint": "analysis.plots",
    "plot_position_bias": "analysis.plots",
    "plot_ranking": "analysis.plots",
    "random_pairs": "selection.designs",
    "rank": "run.rank",
    "top_probability": "analysis.confidence",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("comparo")
    if name not in _ROOMS:
        raise AttributeError(f"module 'comparo' has no attribute {name!r}")
    value = getattr(import_module(f"comparo.{_ROOMS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
