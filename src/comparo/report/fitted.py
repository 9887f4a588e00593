"""The record of a ranking that was fitted to recorded comparisons: no texts, no prompt, no run folder."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.prompts import Question
from comparo.judges import Judgement
from comparo.model.product import Bias
from comparo.ranking.ranking import Ranking
from comparo.report.record import Record

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
