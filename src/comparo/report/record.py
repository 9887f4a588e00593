"""The content of a run folder: configuration, items, every judgement, and the ranking fitted to them.

The record of a ranking that was fitted to recorded comparisons: no texts, no prompt, no run folder.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from comparo.analysis.confidence import expected_spearman
from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.prompts import Question
from comparo.errors import StoreError
from comparo.judges import Judgement
from comparo.model.estimators.poe import Bias
from comparo.ranking.criteria_ranking import expected
from comparo.ranking.ranking import Ranking
from comparo.ranking.ranks import places
from comparo.report.embed import are_codes
from comparo.run.criteria_run import criteria_of
from comparo.run.fit_policy import Fitting
from comparo.run.loop import Run
from comparo.run.resume import read_past
from comparo.run.store import VOTES, read_configuration, read_judgements, stored_items
from comparo.run.voices import comparisons
from comparo.types import Array, LongIndex

AUDITION = "audition.json"  # what an audition found, in its run folder


class Refitting(Protocol):
    """How a ranking was made of its comparisons, so that it can be made of some of them."""

    @property
    def bias(self) -> Bias | None: ...

    def fit(self, data: Comparisons) -> Ranking: ...


@dataclass(frozen=True, eq=False)
class Record:
    """A run from its folder, with its ranking fitted again; or a ranking of recorded comparisons (`source` names them).

    Of all `judgements`, `answered` (K,) are the ranking's comparisons, in the same order. A candidate is a node of the
    ranking's graph: an item of a context. `audition` is what `Audition.to_dict` holds, in the folder of one.
    """

    configuration: Mapping[str, Any]
    items: Items
    judgements: Sequence[Judgement]
    ranking: Ranking
    fitting: Refitting
    source: str | None = None
    audition: Mapping[str, Any] | None = None

    @property
    def is_fitted(self) -> bool:
        """Whether these are recorded comparisons that `comparo fit` ranked: who was asked what is not known."""
        return self.source is not None

    @cached_property
    def has_texts(self) -> bool:
        return any(self.items.texts)

    @cached_property
    def is_coded(self) -> bool:
        """Whether the items' names say nothing, so that the beginning of the text is shown beside them."""
        return self.has_texts and are_codes(self.items.ids.tolist())

    @cached_property
    def has_coded_contexts(self) -> bool:
        """The same of the contexts' names, where contexts have texts."""
        return any(self.items.context_texts) and are_codes(self.items.contexts.tolist())

    @cached_property
    def answered(self) -> list[Judgement]:
        return [judgement for judgement in self.judgements if not judgement.failed]

    @cached_property
    def p(self) -> Array:
        """The judge's probability that the first text is better, shape (K,)."""
        return np.array([judgement.p for judgement in self.answered])

    @cached_property
    def expected(self) -> Array:
        """The ranking's estimate of each answer, shape (K,)."""
        return expected(self.ranking)

    @cached_property
    def even(self) -> Array:
        """Its estimate for equal texts in the same positions, shape (K,): ½ without a position bias."""
        return expected(self.ranking, equal=True)

    @cached_property
    def row(self) -> LongIndex:
        """The row among the items of each candidate, shape (n,)."""
        ranking = self.ranking
        contexts = [None] * ranking.graph.nodes if ranking.context is None else ranking.context.tolist()
        labels = zip(contexts, ranking.items.tolist(), strict=True)
        return np.array([self.items.row(*label) for label in labels])

    @cached_property
    def characters(self) -> Array:
        """The length of each candidate's text, shape (n,)."""
        lengths = np.fromiter(map(len, self.items.texts), np.float64, len(self.items))
        return np.asarray(lengths[self.row])

    @cached_property
    def contexts(self) -> list[slice]:
        """The candidates of each context, contexts in the items' order."""
        starts = self.ranking.graph.starts
        order = np.argsort(self.items.context[self.row[starts[:-1]]], kind="stable")
        return [slice(int(starts[number]), int(starts[number + 1])) for number in order]

    @cached_property
    def places(self) -> tuple[LongIndex, LongIndex, Array]:
        """The best and the worst rank of each candidate and P(it is the best), each of shape (n,)."""
        return places(self.ranking.scores, self.ranking.covariance, self.ranking.level, 1)

    @cached_property
    def apart(self) -> NDArray[np.int64]:
        """How many groups the items of each context are in, shape (C,) as the graph's: 1 where all are connected.

        An item that was never compared is a group of its own.
        """
        graph = self.ranking.graph
        groups = np.diff(np.append(graph.component[graph.starts[:-1]], graph.components))
        given = np.bincount(self.items.context)[self.items.context[self.row[graph.starts[:-1]]]]
        return np.asarray(groups + given - np.diff(graph.starts))

    @property
    def joined(self) -> NDArray[np.bool_]:
        """The contexts whose items are all connected, shape (C,) as the graph's."""
        return np.asarray(self.apart == 1)

    @cached_property
    def spearman(self) -> Array:
        """The expected Spearman correlation of each context, in the comparisons' order."""
        return expected_spearman(self.ranking)

    @property
    def possible(self) -> int:
        """How many calls there could be: every ordered pair of every context, put to every voice."""
        pairs = sum(len(ids) * (len(ids) - 1) for ids in self.items.names.values())
        return pairs * max(1, len(self.configuration["identity"].get("voices", {})))

    @property
    def left(self) -> float:
        """How many calls could still be made; a pair in a file may be compared again without end."""
        return math.inf if self.is_fitted else max(0, self.possible - len(self.answered))

    @property
    def remedy(self) -> str:
        """What to do for more answers."""
        if self.configuration["identity"].get("asked") == "people":
            return "run comparo vote again for more votes"
        if self.is_fitted:
            return "compare them more often, and fit all comparisons again"
        return "raise --budget and run the same command again"

    def refit(self, data: Comparisons) -> Ranking:
        """A ranking from some of the ranking's comparisons by the run's method."""
        return self.fitting.fit(data)


def read_record(folder: Path) -> Record:
    """The record of a run folder; a StoreError where it holds no answers, or has no single ranking."""
    if criteria_of(folder):
        raise StoreError(
            f"{folder} is of several criteria, and this needs one ranking; comparo runs --report shows all of them, "
            "and ranking-NAME.csv in the folder has the ranking by each"
        )
    configuration, judgements = checked(read_configuration(folder), folder), read_judgements(folder)
    items = stored_items(folder)
    if all(judgement.failed for judgement in judgements):
        tried = f"; {len(judgements)} failed, the last with: {judgements[-1].error}" if judgements else ""
        raise StoreError(f"{folder} holds no answers yet{tried}. Run the same command again to go on")
    fitting = fitting_of(configuration, items, folder)
    found = json.loads((folder / AUDITION).read_text(encoding="utf-8")) if (folder / AUDITION).is_file() else None
    return Record(configuration, items, judgements, fitting.conclude(comparisons(judgements)), fitting, audition=found)


def fitting_of(configuration: Mapping[str, Any], items: Items, folder: Path) -> Fitting:
    """How the answers of a run folder become a ranking."""
    given = configuration.get
    # A folder from before runs could be plain holds one that was.
    method, bias, plain = configuration["method"], given("bias", "joint"), given("plain", True)
    # One from before there was a consensus holds the judge's scores.
    held = tuple(given("control") or {})
    votes = Comparisons.read(folder / VOTES) if given("votes") else None
    whose = given("estimate", "judge"), given("validity"), held, votes, given("together", False)
    return Fitting(items, method, bias, plain, True, *whose, past=read_past(folder))


def run_record(run: Run, ranking: Ranking) -> Record:
    """The record of a run that is at hand, with its ranking: what `read_record` would read and fit again."""
    configuration = json.loads(json.dumps(run.store.configuration, default=str))
    return Record(configuration, run.task.items, run.judgements, ranking, run.task.fitting)


def checked(configuration: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """The configuration, with a judge and the prompt of its questions."""
    identity = configuration.get("identity")
    identity = identity if isinstance(identity, dict) else {}
    prompt = identity.get("prompt")
    words = [prompt.get("template"), prompt.get("answer"), prompt.get("labels")] if isinstance(prompt, dict) else []
    labels = words.pop() if words else None
    complete = (
        isinstance(labels, list) and len(labels) == 2 and all(isinstance(word, str) for word in [*words, *labels])
    )
    if not complete or not isinstance(identity.get("judge"), str) or not isinstance(identity.get("settings"), dict):
        raise StoreError(
            f"{folder} does not say which judge was asked what, so no report can be made; its judgements are "
            "complete, and the same command continues with them"
        )
    return configuration


UNNAMED = "not named"  # the judge of comparisons without a column judge


@dataclass(frozen=True)
class Fitted:
    """How a ranking was fitted: its position bias, and the function that fits other comparisons in the same way."""

    bias: Bias | None
    fit: Callable[[Comparisons], Ranking]


def fitted_record(ranking: Ranking, fitting: Fitted, source: str, command: str) -> Record:
    """The record of a ranking of recorded comparisons, for the same page as that of a run.

    Parameters
    ----------
    ranking
        What `fit` returned.
    fitting
        How it was made.
    source
        The name of the comparisons, the page's title.
    command
        The command that fits them again.

    Examples
    --------
    >>> from comparo import fit
    >>> ranking = fit([("ana", "bo", 0.8), ("bo", "cy", 0.7), ("cy", "ana", 0.4)])
    >>> record = fitted_record(ranking, Fitted(None, fit), "votes.csv", "comparo fit votes.csv")
    >>> len(record.answered), record.has_texts, record.possible
    (3, False, 6)
    """
    data = ranking.comparisons
    judges = [None] * len(data) if data.judges is None else data.judges[data.judged_by].tolist()
    weights = [1.0] * len(data) if data.weight is None else data.weight.tolist()
    labels = ranking.graph.labels(data)
    asked = zip(ranking.graph.first.tolist(), ranking.graph.second.tolist(), judges, strict=True)
    judgements = [
        Judgement(Question(labels[i][1], labels[j][1], labels[i][0], voice=judge), p=p, weight=weight)
        for (i, j, judge), p, weight in zip(asked, data.p.tolist(), weights, strict=True)
    ]
    names = [str(name) for name in dict.fromkeys(judges)]
    identity = {"judge": UNNAMED if data.judges is None else ", ".join(names), "settings": {}}
    configuration = {
        "identity": identity,
        "command": command,
        "method": ranking.method,
        "bias": fitting.bias or "none",
    }
    return Record(configuration, _items(ranking), judgements, ranking, fitting, source)


def _items(ranking: Ranking) -> Items:
    """The candidates as items without texts, in the ranking's order."""
    n = ranking.graph.nodes
    labels = [None] * n if ranking.context is None else ranking.context.tolist()
    code = {name: number for number, name in enumerate(dict.fromkeys(labels))}
    contexts = np.empty(len(code), dtype=object)
    contexts[:] = list(code)
    context = np.array([code[name] for name in labels], dtype=np.int32)
    return Items(ranking.items, ("",) * n, contexts, context, (None,) * len(code))
