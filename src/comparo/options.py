"""Every option of an experiment, once: its name, type and default, how it is read and checked, and what it does.

Options that belong together are fields of a frozen dataclass. Whatever needs them takes the class:

- a function that `accepts` it has a parameter for each field,
- a command that takes it has a flag for each field (`comparo.cli.app.with_flags`), also from files and variables,
- `Task` and `Fitting` inherit it, and run.json holds what they inherit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from comparo.data import grammar
from comparo.data.comparisons import Comparisons
from comparo.data.criteria_prompt import read_criteria
from comparo.data.grammar import Options
from comparo.data.prompts import Prompt
from comparo.data.sheets import read_several
from comparo.data.wordings import WORDINGS
from comparo.judges.protocol import Judge
from comparo.log.folders import Storage as Storage
from comparo.methods import METHODS, Method, usual_bias
from comparo.model.estimators.poe import Bias
from comparo.selection.designs import DEFAULT_GOAL, DEFAULT_ORDERS, Orders, Strategy

JudgeLike = str | Judge | Callable[..., float]
DEFAULT_JUDGE = "local/smollm2"  # runs everywhere, without a key


def read_votes(_: str, given: Any) -> Comparisons | None:
    """Read several files of votes, or what `Comparisons.of` takes; None is none."""
    are_files = isinstance(given, list) and all(isinstance(each, str | Path) for each in given)
    return read_several(given) if are_files else None if given is None else Comparisons.of(given)


@dataclass(frozen=True, kw_only=True)
class QuestionOptions(Options):
    """What the judge is asked.

    Parameters
    ----------
    criterion : What makes a text better, to end "Which Text is …": "more coherent". Several, in one call:
        NAME='funnier', also with its weight: NAME='funnier; weight=2' (docs/criteria.md).
    kind : What the texts are, in the judge's question: Story, Answer; also with what stands above the context:
        'Summary; heading=Article'.
    wording : How it is put (docs/judges.md); all: in every wording. May be repeated. Default: delimited.
    prompt : In place of the criterion: a file with {first}, {second} and, if wanted, {context}, with its labels and
        how the answer begins: 'FILE; labels=A,B, answer=Text'.
    """

    criterion: str | Mapping[str, str] | None = field(
        default=None,
        kw_only=False,
        metadata={"read": lambda _, given: read_criteria(given) if isinstance(given, list) else given},
    )
    kind: str = "Text"
    wording: str | Sequence[str] | None = field(default=None, metadata={"choices": WORDINGS})
    prompt: str | Prompt | Sequence[Prompt] | None = None


@dataclass(frozen=True, kw_only=True)
class CriterionOptions(QuestionOptions):
    """What the judge is asked.

    Parameters
    ----------
    criterion : What makes a text better, to end "Which Text is …": "more coherent"; or "continues the story better".
    """

    criterion: str | None = field(default=None, kw_only=False)


@dataclass(frozen=True, kw_only=True)
class JudgeOptions(Options):
    """Who is asked.

    Parameters
    ----------
    judge : provider/model: local/smollm2 (embedded), local/PATH.gguf, hf/NAME-OR-FOLDER, openai/MODEL (any such server
        by base-url), anthropic, gemini, openrouter, ollama, azure, …, vllm/MODEL, replay/FILE, simulated/soft. May be
        repeated, each with options: 'openai/MODEL; effort=low, price=0.15,0.60'. Default: local/smollm2
    """

    judge: JudgeLike | Sequence[JudgeLike] = DEFAULT_JUDGE


@dataclass(frozen=True, kw_only=True)
class TextOptions(Options):
    """The columns of the texts, by their roles."""

    id: str | None = None
    text: str | None = None
    context: str | None = None
    context_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class ColumnOptions(TextOptions):
    """The columns that `Items.of` knows."""

    group: str | None = None
    scores: str | Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class VoteOptions(Options):
    """What is compared: columns of the texts, and votes.

    Parameters
    ----------
    votes : People's votes about some texts, in a file or folder (docs/people.md): the ranking is then what they would
        say of all. May be repeated.
    """

    votes: Any = field(default=None, metadata={"read": read_votes})


@dataclass(frozen=True, kw_only=True)
class MassOptions(Options):
    """How much is asked.

    Parameters
    ----------
    least_mass : Stop if the judge puts less than this share of its probability on the labels; 0 never.
    """

    # Below the default, most of the model's probability is on something else than the labels.
    least_mass: float = field(default=0.5, metadata={"read": grammar.read_share})


@dataclass(frozen=True, kw_only=True)
class UntilOptions(Options):
    """How much is asked.

    Parameters
    ----------
    until : Stop once the goal is this sure: the expected Spearman correlation with the true order, the expected share
        of the best K that are right, or the probability that the best group is.
    """

    until: float | None = field(default=None, metadata={"read": grammar.read_until})


@dataclass(frozen=True, kw_only=True)
class StopOptions(UntilOptions, MassOptions):
    """How much is asked.

    Parameters
    ----------
    goal : ranking, top-K (who is among the best K), systems (distinguish groups) or best-system (find the best group).
    """

    goal: str = field(default=DEFAULT_GOAL, metadata={"identity": True})


class Auditioned(Protocol):
    """What `audition` returns."""

    @property
    def answers(self) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class AmountOptions(StopOptions):
    """How much is asked.

    Parameters
    ----------
    budget : Calls: 500, 10n (per item) or 5% (of all pairs); or 300k tokens, or $2.50.
    lineup : How many texts a call is about, 2 to 8 (docs/lineups.md); auto: by a pilot.
    audition : The folder of an audition; its answers count within the budget.
    """

    budget: str | int = "10n"  # ten per item
    lineup: int | Literal["auto"] = field(default=2, metadata={"read": grammar.read_lineup})
    audition: str | Path | Auditioned | None = None


@dataclass(frozen=True, kw_only=True)
class SeedOptions(Options):
    """How pairs are chosen, and how answers become scores.

    Parameters
    ----------
    seed : The same seed and answers give the same run.
    """

    seed: int = field(default=0, metadata={"read": grammar.read_seed, "identity": True})


@dataclass(frozen=True, kw_only=True)
class PairOptions(SeedOptions):
    """How pairs are chosen, and how answers become scores.

    Parameters
    ----------
    strategy : random, greedy (best connected) or adaptive (by the answers). Default: greedy, adaptive for other goals
        than ranking.
    orders : Ask each pair in both orders (two calls), or in one.
    """

    strategy: Strategy | None = field(default=None, metadata={"read": grammar.one_of(Strategy), "identity": True})
    orders: Orders = field(default=DEFAULT_ORDERS, metadata={"read": grammar.one_of(Orders), "identity": True})


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(Options):
    """How pairs are chosen, and how answers become scores.

    Parameters
    ----------
    plain : As in the paper: texts not looked at, equal weights, method poe-bt.
    method : As of comparo fit; also with its position bias (none, plug-in, joint): 'poe-bt; bias=joint'. Default:
        mixed; panel for several voices.
    estimate : Whose ranking: judge; consensus, what people would say as far as a judge knows; auto: that where texts
        share groups; or a consensus by the share of the judge's view of single texts that people share, such as 0.5.
    control : Control for length, markup, opening, a column of numbers, or what an audit found, by its folder; may be
        repeated.
    first_stage : Numbers that scores may follow, as of a search (docs/top.md).
    """

    plain: bool = False
    method: Method | str | None = field(default=None, metadata={"choices": METHODS})
    estimate: grammar.Estimand | float = field(default="auto", metadata={"read": grammar.read_estimate})
    control: str | Sequence[str] = field(default=(), metadata={"read": grammar.read_texts})
    first_stage: str | None = None


@dataclass(frozen=True, kw_only=True)
class FitOptions(ScoreOptions):
    """How answers become scores: the method and its bias, and the estimate and its validity apart."""

    control: tuple[str, ...] = field(default=(), metadata={"read": grammar.read_texts})
    bias: Bias | None = None
    validity: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        method, own = grammar.with_settings(self.method or "", "bias")
        found: dict[str, Any] = {"method": method or ("poe-bt" if self.plain else None)}
        found["bias"] = own.get("bias") or self.bias or usual_bias(method or "mixed")
        if not isinstance(self.estimate, str):
            found |= {"estimate": grammar.AUTO, "validity": self.estimate}
        for name, value in found.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True, kw_only=True)
class TaskOptions(FitOptions, PairOptions, StopOptions):
    """The options of every run."""


@dataclass(frozen=True, kw_only=True)
class CacheOptions(Options):
    """Who is asked.

    Parameters
    ----------
    cache : The file of answers that need not be asked again (docs/runs.md), or off. Default:
        comparo-runs/cache.sqlite
    """

    cache: str | Path | None = None


@dataclass(frozen=True, kw_only=True)
class RunOptions(CacheOptions):
    """Where answers are kept, and who sees the progress.

    Parameters
    ----------
    out : The run folder. Default: one of comparo-runs, named after the time and the texts.
    watch : What is called with the progress.
    """

    out: str | Path | Storage | None = None
    watch: Callable[[Any], None] | Literal["bar"] | None = None


@dataclass(frozen=True, kw_only=True)
class AskOptions(ColumnOptions, RunOptions, JudgeOptions, QuestionOptions):
    """What every experiment about texts asks, and of whom."""


@dataclass(frozen=True, kw_only=True)
class RankOptions(VoteOptions, ScoreOptions, PairOptions, AmountOptions, AskOptions):
    """The options of `comparo.rank`."""


@dataclass(frozen=True, kw_only=True)
class TrialOptions(MassOptions, SeedOptions):
    """What an audition asks.

    Parameters
    ----------
    pairs : Pairs that each voice is asked, in both orders.
    lineup : How many texts a call is about, 2 to 8 (docs/lineups.md). May be repeated.
    seed : Which contexts, texts and pairs are chosen.
    least_mass : Leave a judge out that puts less than this share of its probability on the labels.
    """

    pairs: int = 20  # 80% of the gap to the best voice is closed with n calls to all voices (docs/panel.md)
    lineup: int | Sequence[int] = field(default=2, metadata={"read": grammar.read_lineups})


@dataclass(frozen=True, kw_only=True)
class AuditionOptions(TrialOptions, AskOptions, CriterionOptions):
    """The options of `comparo.audition`."""


@dataclass(frozen=True, kw_only=True)
class ProbeOptions(MassOptions, SeedOptions):
    """What an audit asks.

    Parameters
    ----------
    calls : Questions to each judge at most.
    seed : Which texts are varied, and how.
    """

    calls: int = 150


@dataclass(frozen=True, kw_only=True)
class AuditOptions(ProbeOptions, AskOptions, CriterionOptions):
    """The options of `comparo.audit`."""


@dataclass(frozen=True, kw_only=True)
class DuelOptions(MassOptions, SeedOptions):
    """How much a comparison of two systems asks.

    Parameters
    ----------
    budget : Calls at most, two per input and judge: 200, or $2.50. Default: every input.
    level : How sure the answer must be, however early the calls stop.
    not_worse_than : Ask instead whether the win rate is above this share, below 0.5; from the command line, exit with
        code 3 if it is not surely so.
    seed : In which order inputs are asked.
    """

    budget: str | int | None = None
    level: float = 0.95
    not_worse_than: float | None = field(default=None, metadata={"read": grammar.read_margin})


@dataclass(frozen=True, kw_only=True)
class PollOptions(UntilOptions, SeedOptions):
    """Who votes, and how pairs are shared out.

    Parameters
    ----------
    twice : The share of pairs that go to two judges, to measure their agreement.
    until : Notify the organiser when the expected Spearman correlation with the ranking after endless votes is this
        high, such as 0.9.
    seed : Another seed begins with other pairs.
    """

    twice: float = 0.2


@dataclass(frozen=True, kw_only=True)
class ShareOptions(Options):
    """How much is asked.

    Parameters
    ----------
    budget : How many of the run's questions to ask about, in their order: 500, 5n (five per item), 50% or $2.50.
    """

    budget: str | int = "100%"


@dataclass(frozen=True)
class WhoOptions(Options):
    """Who is asked."""

    judge: JudgeLike


@dataclass(frozen=True, kw_only=True)
class RejudgeOptions(RunOptions, ShareOptions, WhoOptions):
    """The options of `comparo.rejudge`."""


@dataclass(frozen=True)
class OtherOptions(Options):
    """The other system."""

    other: Any


@dataclass(frozen=True, kw_only=True)
class CompareOptions(TextOptions, RunOptions, DuelOptions, JudgeOptions, CriterionOptions, OtherOptions):
    """The options of `comparo.compare`."""

    data: Any = None
    group: str | None = None
    names: tuple[str, str] | None = None
    cluster: str | None = None
    stop: bool = True
