"""Baselines: G-Eval and PairS by asking a judge; PairS and the longer text on recorded judgements.

G-Eval (Liu et al. 2023, arXiv:2303.16634) scores each text alone, on a scale from 1 to S:

    score = Σ_s s·P(s) / Σ_s P(s),   s = 1 … S

with P(s) the probability that the judge's next word is the number s. A judge that samples votes gives the mean of the
scores in its votes instead. One text is one call, where N texts have N(N − 1) comparisons. The model writes no steps of
evaluation first, as G-Eval lets it: judges here answer with labels.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from benchmarks.paper.pairs import judge_answers, recorded_answers, sort_contexts
from comparo.analysis.correlations import mean_known, spearman_within
from comparo.data.columns import shown
from comparo.data.items import Items
from comparo.data.prompts import PAPER, Prompt, Question, criterion_prompt, escape, paper_prompt
from comparo.errors import JudgeError
from comparo.judges import Judge, Judgement
from comparo.studies.recorded import Recorded
from comparo.studies.sweep import Cell, correlate
from comparo.studies.tables import Table
from comparo.types import Array

LITTLE = 0.1  # probability on the scores, below which the judge would mostly have said something else
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ScorePrompt(Prompt):
    """A template with the text to score at {first} and, if wanted, {context}; `labels` are the scores, highest first.

    >>> prompt = ScorePrompt("{first} How clear is it, from 1 to 3?", labels=("3", "2", "1"))
    >>> prompt.text(Question("ana", "ana", first_text="Cats purr.")), prompt.instruction
    ('Cats purr. How clear is it, from 1 to 3?', 'Answer only with 1, 2 or 3.')
    """

    labels: Any = ("5", "4", "3", "2", "1")  # more than the two of a comparison

    def __post_init__(self) -> None:
        if not 2 < len(self.labels) < 10 or list(self.labels) != [str(s) for s in range(len(self.labels), 0, -1)]:
            raise ValueError(
                f"{self.labels} are not the scores of a scale; they go from at most 9 down to 1, all of them"
            )
        Prompt(f"{self.template}{{second}}")  # checks the places

    @property
    def instruction(self) -> str:
        """What to add for a model whose reply cannot be begun for it."""
        *others, last = reversed(self.labels)
        return f"Answer only with {', '.join(others)} or {last}."


class Graded(NamedTuple):
    """N texts scored: `scores` (N,) from 1 to S, NaN where there is no answer, and the `judgements` behind them."""

    scores: Array
    judgements: tuple[Judgement, ...]


def score_prompt(attribute: str, *, kind: str = "Text", heading: str | None = None, scale: int = 5) -> ScorePrompt:
    """The prompt that asks for a score from 1 to `scale` of an attribute, such as "coherence".

    `kind` is what the texts are, and `heading` stands above their context.

    >>> print(score_prompt("coherence", kind="Summary", heading="Article").template)
    Article: {context}
    <BLANKLINE>
    Summary: {first}
    <BLANKLINE>
    Rate the coherence of the Summary from 1 (lowest) to 5 (highest), by the number alone.
    """
    attribute, kind = escape(attribute.strip()), escape(kind.strip())
    context = f"{escape(heading.strip())}: {{context}}\n\n" if heading else ""
    question = f"Rate the {attribute} of the {kind} from 1 (lowest) to {scale} (highest), by the number alone."
    scores = tuple(str(score) for score in range(scale, 0, -1))
    return ScorePrompt(f"{context}{kind}: {{first}}\n\n{question}", scores)


def paper_score_prompt(name: str) -> ScorePrompt:
    """The prompt for a score of one of the paper's attributes, by data set and attribute as in `paper_prompt`."""
    compared = paper_prompt(name)
    heading = compared.template.partition(":")[0] if compared.has_context else None
    return score_prompt(name.partition("/")[2], kind=compared.answer, heading=heading)


def geval(items: Items, judge: Judge, prompt: ScorePrompt) -> Graded:
    """The expected score of every item; judges that give probabilities or votes on a scale have `scales` = True.

    >>> from comparo.judges import load_judge
    >>> judge = load_judge("simulated/soft", scores={"ana": 0.0, "bo": 2.0}, noise=0.0)
    >>> geval(Items.of({"ana": "A story.", "bo": "Another."}), judge, score_prompt("wit")).scores.round(2)
    array([3.  , 4.52])
    """
    if not getattr(judge, "scales", False):
        raise ValueError(
            f"{judge.name} compares two texts and does not score one; use an hf, local, vllm, openai, anthropic or "
            "gemini judge"
        )
    shared = [items.context_texts[code] for code in items.context]
    if prompt.has_context and None in shared:
        raise ValueError("the prompt shows a context and some items have none; drop {context}, or name its column")
    contexts = items.contexts[items.context].tolist()
    questions = [
        Question(item, item, context, text, "", about)
        for item, context, text, about in zip(items.ids.tolist(), contexts, items.texts, shared, strict=True)
    ]
    found: dict[int, Judgement] = {}
    for judgement in judge.judge(questions, prompt):
        found[items.row(judgement.question.context, judgement.question.first)] = judgement
    judgements = tuple(found[row] for row in range(len(items)))
    failed = [judgement for judgement in judgements if judgement.failed]
    if len(failed) == len(items):
        raise JudgeError(f"{judge.name} scored none of the texts; of the first: {failed[0].error}")
    if failed:
        first = failed[0]
        _log.warning("%d texts have no score; %s: %s", len(failed), shown(first.question.first), first.error)
    mass = float(np.nanmedian([judgement.mass for judgement in judgements]))
    if mass < LITTLE:
        _log.warning("%s seldom answers with a score: half of the time with probability %.2g or less", judge.name, mass)
    steps = len(prompt.labels) - 1
    return Graded(np.array([1 + steps * judgement.p for judgement in judgements]), judgements)


Baseline = Literal["geval", "pairs"]


def pairs_cell(
    recorded: Recorded, sorts: int, *, beam: int = 1, both: bool = False, rng: np.random.Generator
) -> tuple[Cell, Array]:
    """PairS on recorded judgements of every pair, each of S = `sorts` from another shuffled order; see `pairs`.

    Also the calls per context of each sort, (S,).

    >>> from comparo.studies.recorded import example
    >>> pairs_cell(example(), 5, rng=np.random.default_rng(0))[0].spearman
    array([1., 1., 1., 1., 1.])
    """
    answer = recorded_answers(recorded.comparisons())
    starts = recorded.starts.tolist()
    labels = recorded.items[recorded.item].tolist()
    contexts = zip(recorded.contexts.tolist(), starts[:-1], starts[1:], strict=True)
    names = {context: labels[begin:end] for context, begin, end in contexts}
    scores, calls = [], []
    for _ in range(sorts):
        found = sort_contexts(names, answer, beam=beam, both=both, rng=rng)
        scores.append(np.concatenate([found[context].scores for context in names]))
        calls.append(np.mean([found[context].calls for context in names]))
    return correlate(recorded, np.array(scores)), np.array(calls)


def longer(items: Items) -> Array:
    """How many words each text has, as its score; shape (N,). Words are separated by white space."""
    return np.array([len(text.split()) for text in items.texts], dtype=np.float64)


def longer_cell(recorded: Recorded, items: Items) -> Cell:
    """How well the number of words in a text agrees with people's scores."""
    words = longer(items)
    labels = zip(recorded.contexts[recorded.context].tolist(), recorded.items[recorded.item].tolist(), strict=True)
    return correlate(recorded, words[[items.row(context, item) for context, item in labels]][None])


def judged_table(
    baseline: Baseline, name: str, items: Items, attributes: Iterable[str], judge: Judge, *, seed: int = 0
) -> Table:
    """Spearman's correlation × 100 of a baseline with people's scores, mean over contexts, and its calls per context.

    The judge is asked with the paper's prompts where the data set `name` is the paper's; else by the attribute's name.
    """
    rng, rows = np.random.default_rng(seed), []
    for attribute in attributes:
        asked = f"{name}/{attribute}"
        scores, calls = _geval(asked, items, judge) if baseline == "geval" else _sorted(asked, items, judge, rng)
        found = spearman_within(scores, items.scores[attribute], items.context, len(items.contexts))
        rows.append([attribute, 100 * mean_known(found), calls / len(items.contexts)])
    title = f"{'G-Eval' if baseline == 'geval' else 'PairS-greedy'} by {judge.name}: Spearman × 100, calls per context"
    return Table.of(title, ("attribute", "Spearman", "calls"), rows)


def _geval(name: str, items: Items, judge: Judge) -> tuple[Array, int]:
    """The score (N,) of each item and the calls made."""
    prompt = paper_score_prompt(name) if name in PAPER else score_prompt(_words(name), heading=_heading(items))
    return geval(items, judge, prompt).scores, len(items)


def _sorted(name: str, items: Items, judge: Judge, rng: np.random.Generator) -> tuple[Array, int]:
    """The place (N,) of each item, 0 the worst of its context, and the calls made."""
    criterion = f"has the better {_words(name)}"
    prompt = paper_prompt(name) if name in PAPER else criterion_prompt(criterion, context=_heading(items))
    scores = np.empty(len(items))
    found = sort_contexts(items.names, judge_answers(judge, prompt, items), rng=rng)
    for context, rows in items.groups.items():
        scores[rows] = found[context].scores
    return scores, sum(one.calls for one in found.values())


def _words(name: str) -> str:
    return name.rpartition("/")[2].replace("_", " ")


def _heading(items: Items) -> str | None:
    return "Context" if None not in items.context_texts else None
