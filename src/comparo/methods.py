"""`fit`: a table from the name of a method to its estimator."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from inspect import unwrap
from numbers import Real
from typing import Any, Literal, ParamSpec, get_args

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.data.grammar import check_one
from comparo.errors import ComparisonsError, Message, OptionError, named
from comparo.model.design import Design
from comparo.model.estimators.baselines import PriorPairs, bradley_terry, mean_outcome
from comparo.model.estimators.mixed import mixed
from comparo.model.estimators.panel import panel
from comparo.model.estimators.poe import Bias, Prior, davidson, multiply
from comparo.model.likelihoods import Expert, is_logit
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.likelihoods.gaussian import Gaussian
from comparo.model.linalg.graph import Graph
from comparo.model.observations import are_choices, mixes_kinds, pooled
from comparo.model.solution import Solution
from comparo.model.tuning import ENOUGH, FEW, LIMITS, WIDE, WIDER, Limits
from comparo.ranking.consensus import check_validity, consensus
from comparo.ranking.grouping import ControlNumbers, control_of, named_traits, numbers_by_label
from comparo.ranking.ranking import Ranking, ranking_of
from comparo.ranking.scores import Estimand
from comparo.ranking.votes import check_people, shared_ids
from comparo.types import check_level

Method = Literal["win-ratio", "bt", "avg-prob", "poe-bt", "poe-g", "poe-g-hard", "davidson", "mixed", "panel"]

METHODS: tuple[str, ...] = get_args(Method)
P = ParamSpec("P")


# Maps the name of a method to its function and the names of the arguments it takes besides comparisons and limits.
PRODUCT = ("expert", "prior", "bias", "is_scaled")
ESTIMATORS: dict[str, tuple[Callable[..., Solution], tuple[str, ...]]] = {
    "win-ratio": (mean_outcome, ()),
    "avg-prob": (mean_outcome, ()),
    "bt": (bradley_terry, ("prior_pairs",)),
    "poe-bt": (multiply, PRODUCT),
    "poe-g": (multiply, PRODUCT),
    "poe-g-hard": (multiply, PRODUCT),
    "davidson": (davidson, PRODUCT[1:]),
    "mixed": (mixed, ("expert", "design")),
    "panel": (panel, ("design", "people")),
}
ESTIMATES = ("mixed", "panel")  # methods that estimate the variances of scores, biases and noise
UNBIASED = ("win-ratio", "avg-prob", "bt")  # methods without a bias term
DECIDED = ("win-ratio", "bt", "poe-g-hard", "davidson")  # methods that use who won, not p


def _with_warnings(estimate: Callable[P, Ranking]) -> Callable[P, Ranking]:
    """Wrap `estimate` so that it also issues the notes of its ranking as warnings."""

    @wraps(estimate)
    def warned(*given: P.args, **options: P.kwargs) -> Ranking:
        ranking = estimate(*given, **options)
        for note in ranking.notes:
            warnings.warn(note, stacklevel=2)
        return ranking

    return warned


@_with_warnings
def fit(
    data: Any,
    method: Method | Expert | None = None,
    *,
    bias: Bias | None = None,
    prior: Prior | None = None,
    groups: Mapping[Any, Hashable] | Literal["items"] | None = None,
    features: Mapping[Any, Sequence[float]] | None = None,
    control: ControlNumbers | None = None,
    first_stage: Mapping[Any, float] | None = None,
    people: Collection[Hashable] = (),
    estimate: Estimand = "judge",
    validity: float | None = None,
    prior_pairs: PriorPairs = "none",
    level: float = 0.95,
    limits: Limits = LIMITS,
) -> Ranking:
    """Estimate scores, a ranking and its uncertainty from pairwise comparisons.

    Parameters
    ----------
    data
        A file (CSV, JSONL, Parquet, each also gzipped), a pandas or polars frame, rows (first, second, p), an N × N
        matrix of P(row beats column), or `Comparisons`. With a column `context` every context is ranked on its own.
    method
        By default that of the answers (`usual_method`), as in `comparo rank`: "panel" where two judges or people gave
        enough of them, or some give probabilities and others decide, else "mixed"; the same item of other contexts is a
        group, if no `groups` are given. A `prior`, or bias "plug-in", belongs to "poe-bt".

        - "poe-bt": product of soft Bradley–Terry experts, with a wide Gaussian prior;
        - "poe-g": product of Gaussian experts, μ(p) = p − ½, constant variance; "poe-g-hard": the same on decisions;
        - "avg-prob": an item's mean probability; "win-ratio": its mean decision;
        - "davidson": Bradley–Terry on decisions with ties, and a tie parameter ν for each judge (docs/fitting.md);
        - "bt": Bradley–Terry on decisions by maximum likelihood, Σ w·[y·d − log(1 + e^d)];
        - "mixed": scores, position biases and noise with variances estimated from the answers (docs/fitting.md):
          "poe-bt" with prior "estimated" and bias "joint"; the same as "panel" where some judges decide and others give
          probabilities, because one noise variance does not fit both;
        - "panel": the consensus of several judges, each with a scale, a taste, a position bias and noise of its own
          (docs/panel.md); with one judge the same as "mixed";
        - an expert of your own: any object with log_density, slope and curvature.

        A decision is p > ½; p = ½ is a tie. A tie counts as half a win, except that "davidson", "mixed" and "panel"
        model the ties of a judge whose answers are decisions and ties.
    bias
        The position bias, for products of experts: "none" (default, also None), "plug-in" (from the mean p) or "joint"
        (estimated together with the scores); see `comparo.model.estimators.poe.multiply`.
    prior
        For products of experts: the standard deviation of a Gaussian prior on the scores, or "first", the paper's
        expert on the first item. Default: "first" for Gaussian experts; for others 100, or 10 where every answer is a
        decision. "estimated": the variances of scores, biases and noise are estimated from the comparisons, both orders
        of a pair are one observation, and scores are shrunk towards what their group and features predict
        (`comparo.model.estimators.mixed.mixed`).
    groups, features
        With prior "estimated", "mixed" and "panel": the group, and a sequence of numbers, for each item or pair
        (context, item). `groups="items"`: the same item in other contexts.
    control
        With prior "estimated", "mixed" and "panel": the control, as {"length": {"ana": "Once …"}}: a name, and for
        each item or pair (context, item) a number, or a text whose length is used. The ranking is not changed; its
        `controlled` is the ranking at equal length, and `control` the effect of length on a judge (docs/control.md).
    first_stage
        With prior "estimated", "mixed" and "panel": a number for each item or pair (context, item), such as its score
        by a search engine. Its slope is estimated; the scores include its effect (docs/top.md).
    people
        With "panel": the judges that are people. They observe the consensus, without a taste of their own.
    estimate, validity
        "judge": the scores are the judge's. "consensus", with groups (or, for one judge, features): people's scores
        predicted from the judge or the panel; `validity` is the share, from 0 to 1, of its view of a text beyond its
        group that people share, by default the usual one (`comparo.ranking.consensus.consensus`).
    prior_pairs
        For "bt". "none": no prior. The maximum does not exist in a component where some items won every comparison with
        the others (its graph from winner to loser is not strongly connected); there, and only there, the scores have a
        Gaussian prior of standard deviation 10. With "compared", each comparison made has 1/(N − 1) additional wins for
        both sides, as the paper writes, which draws the scores together.
    level
        The coverage of intervals, between 0 and 1.
    limits
        Tolerances, sizes and numbers of draws of the solvers (`comparo.model.tuning.Limits`).

    Returns
    -------
    Ranking
        Scores are centred in each connected component, except for "avg-prob" and "win-ratio", where they are means.
        Its `notes` are also issued as warnings.

    Raises
    ------
    ComparisonsError
        If the data cannot be used.
    ValueError, TypeError
        If an argument is invalid, or cannot be used with this method.

    Examples
    --------
    >>> ranking = fit([("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.1)])
    >>> list(ranking)
    ['a', 'b', 'c']
    """
    comparisons = Comparisons.of(data)
    if not comparisons.weights.any():
        raise ComparisonsError("every weight is 0, so there is nothing to fit; raise one, or leave the weights out")
    if method is None:
        method = usual_method(comparisons) if prior is None and bias != "plug-in" else "poe-bt"
        groups = groups or shared_ids(comparisons) if method in ESTIMATES else groups
    if method in ESTIMATES:
        prior = prior or "estimated"
    if comparisons.lists_winners and bias not in (None, "none"):
        raise OptionError(
            "bias", bias, "needs the order in which texts were shown, not winners and losers; leave it out"
        )
    bias = bias or ("none" if comparisons.lists_winners else usual_bias(method))
    _check(method, bias, prior, prior_pairs, level)
    if people and method != "panel":
        raise ValueError(Message("{people} belong to {method:'panel'}; add that, or leave them out"))
    check_people(comparisons, people)
    covariates = {"groups": groups, "features": features, "control": control, "first_stage": first_stage}
    for name, given in covariates.items():
        if prior != "estimated" and given is not None:
            needed = Message("{prior:'estimated'} and the methods mixed and panel; add one of them")
            raise ValueError(Message(f"{{{name}}} belongs to ") + needed)
    check_one("estimate", estimate, get_args(Estimand))
    check_validity(validity)
    if estimate == "judge" and validity is not None:
        raise ValueError(Message("{validity} belongs to {estimate:'consensus'}; add that, or leave it out"))
    if estimate == "consensus" and groups is None and features is None:
        needed = Message("{estimate:'consensus'} needs {prior:'estimated'} and {groups}; ")
        raise ValueError(needed + Message("add them, or use {estimate:'judge'}"))
    if method in DECIDED:
        comparisons = comparisons.decisions()
    expert: Expert = BradleyTerry()
    if not isinstance(method, str):
        expert = method
    elif method.startswith("poe-g"):
        expert = Gaussian()
    prior_is_given = prior is not None
    if prior is None:
        prior = "first" if isinstance(expert, Gaussian) else WIDE if comparisons.hard else WIDER
    title = method if isinstance(method, str) else type(method).__name__
    estimator, wanted = ESTIMATORS.get(title, ESTIMATORS["poe-bt"])
    design = Design(is_biased=bias == "joint")
    group = None
    if prior == "estimated":
        is_mixture = method == "mixed" and mixes_kinds(pooled(comparisons))
        is_panel = is_mixture or (method == "panel" and len(np.unique(comparisons.judged_by)) > 1)
        title = "panel" if is_mixture else title
        estimator, wanted = ESTIMATORS["panel" if is_panel else "mixed"]
        group, features_of = named_traits(comparisons, groups, features)
        design = replace(design, groups=None if group is None else group[0], features=features_of)
        if first_stage is not None:
            labels = Graph.build(comparisons).labels(comparisons)
            design = replace(design, first_stage=numbers_by_label("first_stage", first_stage, labels))
    options: dict[str, Any] = {"expert": expert, "prior": prior, "bias": bias, "is_scaled": prior_is_given}
    options |= {"people": people, "prior_pairs": prior_pairs}

    def ranked(design: Design) -> Ranking:
        every = options | {"design": design}
        chosen = {name: every[name] for name in wanted}
        is_relative = estimator is multiply and not (is_logit(expert) and comparisons.hard)
        told = comparisons.relative() if is_relative else comparisons
        solution = estimator(told, limits=limits, **chosen)
        if is_relative:
            solution = replace(solution, comparisons=comparisons)
        return ranking_of(replace(solution, method=title, groups=group), level)

    found = ranked(design)
    if control is not None:
        numbers = control_of(comparisons, control)
        varies = numbers.varies(found.graph)
        if not varies.all():
            name = numbers.names[int(np.argmin(varies))]
            raise ValueError(named("control", name) + ": all texts of a context are alike in it; leave it out")
        found = replace(found, controlled=ranked(replace(design, control=numbers)))
    return found if estimate == "judge" else consensus(found, validity)


def usual_method(comparisons: Comparisons) -> Method:
    """The method for answers, where none is given; it depends on the answers and their number, not on who gave them.

    | answers | method |
    | --- | --- |
    | probabilities of two or more judges with `FEW` answers each, or probabilities beside decisions | panel |
    | decisions of two or more judges or people with `FEW` answers each, `ENOUGH` per text together | panel |
    | all others, in one order or both | mixed |

    >>> usual_method(Comparisons.from_rows([("a", "b", 1.0)]))
    'mixed'
    """
    has_enough = np.count_nonzero(np.bincount(comparisons.judged_by) >= FEW) > 1
    if has_enough and are_choices(comparisons):
        has_enough = np.sum(comparisons.freedom) >= ENOUGH * Graph.build(comparisons).nodes
    return "panel" if has_enough or mixes_kinds(pooled(comparisons)) else "mixed"


def usual_bias(method: object) -> Bias:
    """The position bias of `fit` by a method, where none is given.

    >>> usual_bias("mixed"), usual_bias("poe-bt")
    ('joint', 'none')
    """
    return "joint" if method in ESTIMATES else "none"


quiet_fit: Callable[..., Ranking] = unwrap(fit)  # for callers that show `Ranking.notes` themselves


def _check(method: object, bias: str, prior: Any, prior_pairs: str, level: float) -> None:
    if isinstance(method, str):
        check_one("method", method, METHODS)
    elif isinstance(method, type) or not isinstance(method, Expert):
        raise TypeError(f"method is a name ({', '.join(METHODS)}) or an expert such as StudentT(), not {method!r}")
    check_one("bias", bias, get_args(Bias))
    check_one("prior_pairs", prior_pairs, get_args(PriorPairs))
    number = isinstance(prior, Real) and not isinstance(prior, bool)
    if not (prior is None or prior in ("first", "estimated") or (number and 1e-100 < prior < 1e100)):
        raise OptionError("prior", prior, "is not a standard deviation above 0, 'first' or 'estimated'")
    if prior == "estimated" and bias == "plug-in":
        remedy = Message("use {bias:'joint'} or 'none', or {method:'poe-bt'}")
        raise ValueError(Message("{prior:'estimated'} finds the bias with the scores; ") + remedy)
    check_level(level)
    if method in ESTIMATES and prior != "estimated":
        remedy = Message("leave {prior} out, or use {method:'poe-bt'} with ") + named("prior", prior)
        raise ValueError(f"'{method}' estimates its prior; " + remedy)
    if method in UNBIASED:
        if bias != "none":
            remedy = Message("use {method:'poe-bt'}, 'poe-g' or 'poe-g-hard' with ") + named("bias", bias)
            raise ValueError(f"'{method}' has no bias term; " + remedy)
        if prior is not None:
            remedy = Message("use {method:'poe-bt'} with ") + named("prior", prior)
            raise ValueError(f"'{method}' takes no prior on the scores; " + remedy)
    if method != "bt" and prior_pairs != "none":
        raise ValueError(Message("{prior_pairs} belongs to {method:'bt'}"))
