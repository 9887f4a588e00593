"""Rank texts from few pairwise comparisons by a language model.

Each name is imported on first use, so `import comparo` is immediate. More names are in `comparo.plots`,
`comparo.metrics` and `comparo.selection`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comparo.analysis.agree import agree as agree
    from comparo.analysis.reliability import reliability as reliability
    from comparo.data.comparisons import Comparisons as Comparisons
    from comparo.data.imports import import_file as import_file
    from comparo.data.items import Items as Items
    from comparo.data.prompts import Prompt as Prompt
    from comparo.data.prompts import Question as Question
    from comparo.errors import ComparisonsError as ComparisonsError
    from comparo.errors import ComparoError as ComparoError
    from comparo.errors import JudgeError as JudgeError
    from comparo.errors import PendingError as PendingError
    from comparo.errors import RunError as RunError
    from comparo.errors import StoreError as StoreError
    from comparo.errors import WrongFolderError as WrongFolderError
    from comparo.export import export_run as export_run
    from comparo.judges import Judge as Judge
    from comparo.judges import Judgement as Judgement
    from comparo.judges import load_judge as load_judge
    from comparo.methods import fit as fit
    from comparo.ranking.leaderboard import Leaderboard as Leaderboard
    from comparo.ranking.ranking import Ranking as Ranking
    from comparo.ranking.scale import on_scale as on_scale
    from comparo.ranking.votes import with_votes as with_votes
    from comparo.ranking.why import why as why
    from comparo.report import write_report as write_report
    from comparo.run.audit import audit as audit
    from comparo.run.audition import audition as audition
    from comparo.run.compare import compare as compare
    from comparo.run.rank import rank as rank
    from comparo.run.rejudge import rejudge as rejudge
    from comparo.selection.planning import plan as plan

_NAMES = {
    "analysis.agree": "agree",
    "analysis.reliability": "reliability",
    "data.comparisons": "Comparisons",
    "data.imports": "import_file",
    "data.items": "Items",
    "data.prompts": "Prompt Question",
    "errors": "ComparisonsError ComparoError JudgeError PendingError RunError StoreError WrongFolderError",
    "export": "export_run",
    "judges": "Judge Judgement load_judge",
    "methods": "fit",
    "ranking.leaderboard": "Leaderboard",
    "ranking.ranking": "Ranking",
    "ranking.scale": "on_scale",
    "ranking.votes": "with_votes",
    "ranking.why": "why",
    "report": "write_report",
    "run.audit": "audit",
    "run.audition": "audition",
    "run.compare": "compare",
    "run.rank": "rank",
    "run.rejudge": "rejudge",
    "selection.planning": "plan",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("comparo")
    if name in ("metrics", "plots", "selection"):
        return import_module(f"comparo.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'comparo' has no attribute {name!r}")
    value = getattr(import_module(f"comparo.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
