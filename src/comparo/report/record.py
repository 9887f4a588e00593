"""What a page is about: configuration, items, judgements and ranking, of a run folder or of recorded comparisons."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from comparo.analysis.confidence import expected_spearman
from comparo.data.comparisons import Comparisons
from comparo.data.criteria_prompt import shares_in
from comparo.data.images import is_image
from comparo.data.items import Items
from comparo.data.prompts import Question
from comparo.data.wordings import LABELS
from comparo.errors import StoreError
from comparo.judges import Judgement
from comparo.log.store import CHANGED, read_configuration, stored_items
from comparo.model.estimators.poe import Bias
from comparo.ranking.criteria_ranking import expected
from comparo.ranking.ranking import Ranking
from comparo.ranking.ranks import places
from comparo.ranking.scale import Scaled, on_scale
from comparo.ranking.why import found_reasons
from comparo.report.embed import are_codes, label, snippet
from comparo.rounding import merge_ties
from comparo.run.criteria import concluded, stored_answers
from comparo.run.fit_policy import Fitting, fitting_of
from comparo.run.loop import Run
from comparo.run.voices import sorted_answers
from comparo.types import Array, LongIndex, Mask

WHY = "why.json"  # what `comparo why` found, in its run folder
AUDITION = "audition.json"  # the result of an audition, in its run folder
IMAGE = "(an image)"  # in place of the text of an image
UNNAMED = "not named"  # the judge of comparisons without a column judge
SCORES = 12  # columns of people's scores that are shown
SHORT = 30  # characters of a text in a sentence
CODE = 16  # characters of a hash that are shown


@dataclass(frozen=True, slots=True)
class Nouns:
    """The nouns for the judges of a record, for one and several of them (`one`, `ones`), and for their answers.

    `calls` names what one pays or waits for: calls of a model, votes of people, rows of a file.
    """

    judge: str = "the judge"
    one: str = "judge"
    ones: str = "judges"
    calls: str = "calls"
    answers: str = "answers"


VOICES = Nouns("the judges", "voice", "voices")
PEOPLE = Nouns("the people who voted", "person", "people", "votes", "votes")


@dataclass(frozen=True)
class Fitted:
    """How recorded comparisons were fitted: the position bias, people's votes, and the texts of a run folder."""

    bias: Bias | None
    votes: Comparisons | None = None
    texts: Items | None = None


@dataclass(frozen=True, eq=False)
class Record:
    """A run from its folder, with its ranking fitted again; or a ranking of recorded comparisons (`source` names them).

    The answers among `judgements` are the ranking's comparisons, in the same order. A candidate is a node of the
    ranking's graph: an item of a context. `fitting` is how the ranking was fitted. `audition` is
    what `Audition.to_dict` returned, in the folder of an audition. `graded` are scores on a scale, and grades, if they
    were requested, and `why` is what `comparo why` stored in the folder.
    """

    configuration: Mapping[str, Any]
    items: Items
    judgements: Sequence[Judgement]
    ranking: Ranking
    fitting: Fitting | Fitted
    source: str | None = None
    audition: Mapping[str, Any] | None = None
    graded: Scaled | None = None
    why: Mapping[str, Any] | None = None

    @cached_property
    def scaled(self) -> Scaled | None:
        """`graded`, else the ranking on the scale of the items' anchors; None where there is neither."""
        ranked = {*self.ranking}
        there = {key: value for key, value in self.items.anchors.items() if key in ranked}
        if self.graded is not None or len({*there.values()}) < 2:
            return self.graded
        return on_scale(self.ranking, there)

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.configuration["identity"]  # type: ignore[no-any-return]

    @property
    def command(self) -> str:
        """The shell command that made the ranking; "" where it was made in Python."""
        return str(self.configuration.get("command", ""))

    @property
    def is_fitted(self) -> bool:
        """Whether `comparo fit` ranked recorded comparisons, whose question is not known."""
        return self.source is not None

    @property
    def is_voted(self) -> bool:
        """Whether people were asked."""
        return self.identity.get("asked") == "people"

    @cached_property
    def words(self) -> Nouns:
        """The words for its judges."""
        if self.is_voted:
            return PEOPLE
        several = len(self.judges) > 1
        if self.is_fitted:
            return Nouns("the judges" if several else "the judge", calls="comparisons")
        return VOICES if several else Nouns()

    @cached_property
    def judges(self) -> list[str]:
        """The names of the judges: the voices of a run, people, or the column judge of a file."""
        names = [*(self.identity.get("voices") or [self.identity["judge"]]), *(self.configuration.get(CHANGED) or ())]
        if self.is_fitted and self.ranking.comparisons.judges is not None:
            names = self.ranking.comparisons.judges.tolist()
        return [str(name) for name in names]

    @property
    def has_voices(self) -> bool:
        """Whether several judges gave the comparisons."""
        judges = self.ranking.comparisons.judges
        return judges is not None and len(judges) > 1

    def name(self, node: int) -> str:
        """The name of a candidate in a sentence, with the beginning of its text where names are opaque."""
        name = label(self.ranking.items[node])
        begins = snippet(self.items.texts[self.row[node]], SHORT) if self.is_coded else ""
        return f"{name} (“{begins}”)" if begins else name

    def context_name(self, context: Any) -> str:
        """The name of a context, after the beginning of its text where names are opaque; "" where there is none."""
        name, items = "" if context is None else label(context), self.items
        if not any(items.context_texts) or not are_codes(items.contexts.tolist()):
            return name
        begins = snippet(items.context_texts[items.context[items.groups[context][0]]])
        return f"{begins} ({label(context, CODE)})" if begins else name

    @cached_property
    def has_texts(self) -> bool:
        return any(self.items.texts)

    @cached_property
    def is_coded(self) -> bool:
        """Whether the items' names are opaque: the page shows the beginning of the text beside them."""
        return self.has_texts and are_codes(self.items.ids.tolist())

    @cached_property
    def answered(self) -> list[Judgement]:
        return [judgement for judgement in self.judgements if not judgement.failed]

    def compared(self, place: int) -> Judgement:
        """The answer behind the ranking's comparison number `place`; of a line-up, as one about two of its texts."""
        data = self.ranking.comparisons
        if data.lineup is None or self.is_fitted:
            return self.answered[place]
        answer = data.lineup["answer"][: place + 1]
        one = self.answered[np.count_nonzero((answer < 0) | (np.diff(answer, prepend=-2) != 0)) - 1]
        first, second = (one.question.items[data.lineup[end][place]] for end in ("low", "high"))
        return replace(
            one, question=replace(one.question, first=first, second=second), p=float(data.p[place]), lineup=""
        )

    @cached_property
    def costs(self) -> list[float]:
        """The known costs of single calls."""
        return [judgement.cost for judgement in self.judgements if not math.isnan(judgement.cost)]

    @property
    def p(self) -> Array:
        """P(the first text is better) as answered, shape (K,)."""
        return self.ranking.comparisons.p

    @cached_property
    def expected(self) -> Array:
        """The ranking's estimate of each `p`, shape (K,)."""
        return expected(self.ranking)

    @cached_property
    def even(self) -> Array:
        """The ranking's estimate of each `p` if both texts were equal, shape (K,): ½ without a position bias."""
        return expected(self.ranking, equal=True)

    @cached_property
    def row(self) -> LongIndex:
        """The row of each candidate in `items`, shape (n,)."""
        return np.array([self.items.row(*label) for label in self.ranking.solution.labels])

    @cached_property
    def order(self) -> LongIndex:
        """The candidates as shown, by context in the items' order, then connected component, best first; (n,)."""
        ranking = self.ranking
        return np.lexsort((-merge_ties(ranking.scores), ranking.graph.component, self.items.context[self.row]))

    @cached_property
    def people(self) -> dict[str, Array]:
        """The first `SCORES` of people's scores of the candidates, by name, each of shape (n,)."""
        return {name: scores[self.row] for name, scores in list(self.items.scores.items())[:SCORES]}

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
        """The number of connected components of each context's items, shape (C,) in the graph's order.

        An item that was never compared is a component of its own.
        """
        graph = self.ranking.graph
        groups = np.diff(np.append(graph.component[graph.starts[:-1]], graph.components))
        given = np.bincount(self.items.context)[self.items.context[self.row[graph.starts[:-1]]]]
        return np.asarray(groups + given - np.diff(graph.starts))

    @property
    def joined(self) -> Mask:
        """Whether the items of each context are all connected, shape (C,) in the graph's order."""
        return np.asarray(self.apart == 1)

    @cached_property
    def spearman(self) -> Array:
        """The expected Spearman correlation of each context, shape (C,) in the graph's order."""
        return expected_spearman(self.ranking)

    @property
    def possible(self) -> int:
        """The number of possible calls: every ordered pair or line-up of every context, for every voice."""
        size = len(self.identity.get("prompt", {}).get("labels", LABELS))
        pairs = sum(math.perm(len(ids), size) for ids in self.items.names.values())
        return pairs * max(1, len(self.identity.get("voices", {})))

    @property
    def left(self) -> float:
        """The number of calls that could still be made; infinite for recorded comparisons."""
        return math.inf if self.is_fitted else max(0, self.possible - len(self.answered))


def read_record(folder: Path, by_criteria: bool = False) -> Record:
    """The record of a run folder; a StoreError where it holds no answers, also to one of several criteria.

    The ranking by several criteria is a `CriteriaRanking`, and the voices of its judgements are the criteria. Where it
    is not wanted `by_criteria`, that is a StoreError too.
    """
    configuration = checked(read_configuration(folder), folder)
    if not by_criteria and shares_in(configuration):
        raise StoreError(
            f"{folder} is of several criteria, and this needs one ranking; ranking-NAME.csv there has that by each"
        )
    judgements, weights = stored_answers(folder)
    judgements = sorted_answers(judgements)
    items = shown_items(folder)
    if all(judgement.failed for judgement in judgements):
        tried = f"; {len(judgements)} failed, the last with: {judgements[-1].error}" if judgements else ""
        raise StoreError(f"{folder} holds no answers yet{tried}. Run the same command again to go on")
    fitting = fitting_of(configuration, items, folder)
    found = json.loads((folder / AUDITION).read_text(encoding="utf-8")) if (folder / AUDITION).is_file() else None
    ranking = concluded(fitting.conclude, judgements, weights)
    return Record(configuration, items, judgements, ranking, fitting, audition=found, why=read_why(folder))


def shown_items(folder: Path) -> Items:
    """The items of a run folder, with `IMAGE` as the text of images."""
    items = stored_items(folder)
    return replace(items, texts=tuple(IMAGE if is_image(text) else text for text in items.texts))


def read_why(folder: Path) -> dict[str, Any] | None:
    """What `comparo why` stored in a run folder: summary, reasons and feedback per text; None where it did not run."""
    path = folder / WHY
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        feedback = {}
        for row in found["feedback"]:
            text = str(row.get("context", "")), str(row["item"])
            feedback[text] = str(row["feedback"])
        return {"summary": str(found["summary"]), "reasons": found_reasons(found["reasons"]), "feedback": feedback}
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged ({error!r}); remove it, and run comparo why again") from error


def run_record(run: Run, ranking: Ranking) -> Record:
    """The record of a run in memory: what `read_record` would read from its folder and fit again."""
    configuration = json.loads(json.dumps(run.store.configuration, default=str))
    return Record(configuration, run.task.items, sorted_answers(run.answers), ranking, run.task.fitting)


def checked(configuration: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """The configuration; a StoreError where it lacks the judge, its settings or the prompt."""
    match configuration.get("identity"):
        case {
            "judge": str(),
            "settings": dict(),
            "prompt": {"template": str(), "answer": str(), "labels": [str(), str(), *_]},
        }:
            return configuration
    raise StoreError(
        f"{folder} does not say which judge was asked what, so no report can be made; the same command continues it"
    )


def fitted_record(ranking: Ranking, fitting: Fitted, source: str, command: str, judge: str = UNNAMED) -> Record:
    """The record of a ranking of recorded comparisons, for the same page as that of a run.

    `source` names the comparisons, `command` fits them again, and `judge` gave those that name none.

    >>> from comparo import fit
    >>> ranking = fit([("ana", "bo", 0.8), ("bo", "cy", 0.7), ("cy", "ana", 0.4)])
    >>> record = fitted_record(ranking, Fitted(None), "votes.csv", "comparo fit votes.csv")
    >>> len(record.answered), record.has_texts, record.possible
    (3, False, 6)
    """
    data, graph = ranking.comparisons, ranking.graph
    judges = [None] * len(data) if data.judges is None else data.judges[data.judged_by].tolist()
    weights = [1.0] * len(data) if data.weight is None else data.weight.tolist()
    labels = graph.labels(data)
    rows = zip(graph.first.tolist(), graph.second.tolist(), judges, data.p.tolist(), weights, strict=True)
    judgements = [
        Judgement(Question(labels[i][1], labels[j][1], labels[i][0], voice=judge), p=p, weight=weight)
        for i, j, judge, p, weight in rows
    ]
    names = judge if data.judges is None else ", ".join(map(str, dict.fromkeys(judges)))
    configuration = {
        "identity": {"judge": names, "settings": {}},
        "command": command,
        "method": ranking.method,
        "bias": fitting.bias or "none",
    }
    return Record(configuration, _items(ranking), judgements, ranking, fitting, source)


def _items(ranking: Ranking) -> Items:
    """The candidates as items without texts, in the ranking's order."""
    graph, contexts = ranking.graph, np.array([None], dtype=object)
    if ranking.comparisons.contexts is not None:
        contexts = ranking.comparisons.contexts[graph.context[graph.starts[:-1]]].astype(object)
    return Items(ranking.items, ("",) * graph.nodes, contexts, graph.position, (None,) * graph.contexts)
