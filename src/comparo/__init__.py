"""Rank texts from few pairwise comparisons by a language model.

Names are loaded when they are first used, so that `import comparo` takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comparo.analysis.agree import agree as agree
    from comparo.analysis.calibration import calibrate as calibrate
    from comparo.analysis.confidence import expected_spearman as expected_spearman
    from comparo.analysis.confidence import top_probability as top_probability
    from comparo.analysis.reliability import reliability as reliability
    from comparo.data.comparisons import Comparisons as Comparisons
    from comparo.data.imports import import_file as import_file
    from comparo.data.items import Items as Items
    from comparo.data.prompts import Prompt as Prompt
    from comparo.data.prompts import Question as Question
    from comparo.errors import ComparisonsError as ComparisonsError
    from comparo.errors import JudgeError as JudgeError
    from comparo.errors import PendingError as PendingError
    from comparo.export import export_run as export_run
    from comparo.judges import Judge as Judge
    from comparo.judges import Judgement as Judgement
    from comparo.judges import load_judge as load_judge
    from comparo.methods import fit as fit
    from comparo.metrics import cohen_kappa as cohen_kappa
    from comparo.metrics import krippendorff_alpha as krippendorff_alpha
    from comparo.metrics import raw_agreement as raw_agreement
    from comparo.model.likelihoods.bradley_terry import BradleyTerry as BradleyTerry
    from comparo.model.likelihoods.davidson import Davidson as Davidson
    from comparo.model.likelihoods.experts import Expert as Expert
    from comparo.model.likelihoods.gaussian import Gaussian as Gaussian
    from comparo.model.likelihoods.student_t import StudentT as StudentT
    from comparo.model.linalg.determinant import design_log_det as design_log_det
    from comparo.plots.leaderboards import plot_agreement as plot_agreement
    from comparo.plots.leaderboards import plot_groups as plot_groups
    from comparo.plots.leaderboards import plot_length as plot_length
    from comparo.plots.leaderboards import plot_wins as plot_wins
    from comparo.plots.rankings import plot_convergence as plot_convergence
    from comparo.plots.rankings import plot_difference_given_p as plot_difference_given_p
    from comparo.plots.rankings import plot_efficiency as plot_efficiency
    from comparo.plots.rankings import plot_joint as plot_joint
    from comparo.plots.rankings import plot_position_bias as plot_position_bias
    from comparo.plots.rankings import plot_ranking as plot_ranking
    from comparo.ranking.criteria_ranking import CriteriaRanking as CriteriaRanking
    from comparo.ranking.leaderboard import Leaderboard as Leaderboard
    from comparo.ranking.powered import Powered as Powered
    from comparo.ranking.powered import powered as powered
    from comparo.ranking.ranking import Ranking as Ranking
    from comparo.ranking.votes import with_votes as with_votes
    from comparo.report import write_report as write_report
    from comparo.run.audition import audition as audition
    from comparo.run.compare import compare as compare
    from comparo.run.compare_result import Duel as Duel
    from comparo.run.rank import rank as rank
    from comparo.run.rejudge import rejudge as rejudge
    from comparo.selection.designs import in_both_orders as in_both_orders
    from comparo.selection.designs import in_one_order as in_one_order
    from comparo.selection.designs import random_pairs as random_pairs
    from comparo.selection.planning import plan as plan
    from comparo.selection.selector import Selector as Selector
    from comparo.selection.selector import greedy_pairs as greedy_pairs

_NAMES = {
    "analysis.agree": "agree",
    "metrics": "cohen_kappa krippendorff_alpha raw_agreement",
    "analysis.calibration": "calibrate",
    "analysis.confidence": "expected_spearman top_probability",
    "plots.leaderboards": "plot_agreement plot_groups plot_length plot_wins",
    "plots.rankings": "plot_convergence plot_difference_given_p plot_efficiency plot_joint plot_position_bias "
    "plot_ranking",
    "analysis.reliability": "reliability",
    "data.comparisons": "Comparisons",
    "data.imports": "import_file",
    "data.items": "Items",
    "data.prompts": "Prompt Question",
    "errors": "ComparisonsError JudgeError PendingError",
    "export": "export_run",
    "judges": "Judge Judgement load_judge",
    "methods": "fit",
    "model.linalg.determinant": "design_log_det",
    "model.likelihoods.bradley_terry": "BradleyTerry",
    "model.likelihoods.davidson": "Davidson",
    "model.likelihoods.experts": "Expert",
    "model.likelihoods.gaussian": "Gaussian",
    "model.likelihoods.student_t": "StudentT",
    "ranking.criteria_ranking": "CriteriaRanking",
    "ranking.leaderboard": "Leaderboard",
    "ranking.votes": "with_votes",
    "ranking.powered": "Powered powered",
    "ranking.ranking": "Ranking",
    "report": "write_report",
    "run.audition": "audition",
    "run.compare": "compare",
    "run.compare_result": "Duel",
    "run.rank": "rank",
    "run.rejudge": "rejudge",
    "selection.designs": "in_both_orders in_one_order random_pairs",
    "selection.planning": "plan",
    "selection.selector": "Selector greedy_pairs",
}
_ROOMS = {name: room for room, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_ROOMS)


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
