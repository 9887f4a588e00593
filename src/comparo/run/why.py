"""comparo why: the reasons of a run's ranking, computed from the texts and asked of a judge about the same pairs.

Reasons that a judge answers are criteria: all of them are asked in one call about each pair of the run, and the scores
by each are its numbers (`comparo.ranking.why`). Calls are stored in a folder beside that of the run. The answer is
written to the run's folder: why.json, and why.csv with a row per text.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from comparo.data.columns import look_up
from comparo.data.comparisons import Comparisons
from comparo.data.covariates import Reason, clustered, computed_reasons, judged_reasons, own_reasons
from comparo.data.criteria_prompt import CriteriaPrompt, criteria_prompt
from comparo.data.formats import csv_text, read_columns
from comparo.data.items import Items
from comparo.data.prompts import Prompt, criterion_prompt
from comparo.data.wordings import DEFAULT_WORDING, WORDINGS
from comparo.errors import Message, StoreError, named
from comparo.judges import Judge, Judgement, Probe
from comparo.log.files import explained, write_text
from comparo.log.store import read_configuration, read_judgements, stored_items
from comparo.methods import quiet_fit
from comparo.options import ShareOptions, Storage
from comparo.ranking.criteria_ranking import CriteriaRanking
from comparo.ranking.ranking import Ranking
from comparo.ranking.tabular import json_rows, json_text
from comparo.ranking.votes import find_voted
from comparo.ranking.why import Why, check_enough, explain, numbers_of_groups
from comparo.run.budget import Budget, price_words
from comparo.run.cached_judge import remembering
from comparo.run.plan import Plan, prepare
from comparo.run.progress import Watch
from comparo.run.rejudge import pairs_within, read_template
from comparo.run.task import CHARACTERS, Task
from comparo.run.voices import count_cached
from comparo.types import Array, Index

WRITTEN = 60  # tokens of a reply that names a reason
TRIES = 2  # most pairs asked about per wanted reason: some replies name none
FEEDBACK = "why.csv"  # in the run folder
REPLIES = "why.sqlite"  # in the run folder: what a judge without a cache has proposed

logger = logging.getLogger(__name__)


@dataclass
class Proposals:
    """A question in words about each of the most decisive pairs of a run, until `count` replies name a reason.

    Parameters
    ----------
    write : The judge's `write`.
    questions : What it is asked, the most decisive pair first.
    tokens, most : About how many tokens are read and written at most, and their price in dollars, nan if unknown.
    replies : What it answered so far; those from the cache count no calls.
    """

    write: Callable[[str, int], Probe]
    questions: Sequence[str]
    count: int
    tokens: int
    most: float
    replies: list[Probe] = field(default_factory=list)

    @classmethod
    def of(cls, judge: Judge, folder: Path, items: Items, kind: str, heading: str | None, count: int) -> Proposals:
        """Choose the pairs; nothing is asked. A ValueError where the judge writes no words of its own.

        Replies are in its cache as soon as they arrive; those of a judge without one are in a file of the run folder.
        """
        (judge,) = remembering([judge], folder / REPLIES)
        write = getattr(judge, "write", None)
        if write is None:
            raise ValueError(f"{judge.name} writes no words; " + Message("leave {propose} out, or use {because}"))
        answered = [one for one in read_judgements(folder) if not one.failed and len(one.question.items) == 2]
        order = sorted(answered, key=lambda one: (-round(abs(one.p - 0.5), 9), str(one.question)))
        questions = [_question(one, items, kind, heading) for one in order[: TRIES * count]]
        writing = judge.writes(Prompt("{first}{second}")) if hasattr(judge, "writes") else None
        written = len(questions) * max(WRITTEN, 0 if writing is None else writing.tokens)
        read, price = sum(map(len, questions)) // CHARACTERS, getattr(judge, "price", None)
        most = math.nan if price is None else (read * price[0] + written * price[1]) / 1e6
        return cls(write, questions, count, read + written, most)

    @property
    def words(self) -> str:
        """The most calls, tokens and dollars of the proposals, in words."""
        return f"up to {len(self.questions):,} calls, about {self.tokens:,} tokens, " + price_words(
            "at most", self.most
        )

    @property
    def cost(self) -> float:
        """The known cost of the replies; cached ones have their original cost."""
        return sum(one.cost for one in self.replies if one.cost > 0)

    def reasons(self) -> list[str]:
        """Ask the judge, and return the reasons that it names, similar ones merged."""
        logger.info("Asks for reasons of the judge: %s", self.words)
        said: list[str] = []
        for question in self.questions:
            if len(said) == self.count:
                break
            self.replies.append(self.write(question, WRITTEN))
            if (reason := _reason_in(self.replies[-1].sentence)) is not None:
                said.append(reason)
        found = list(clustered(said))
        logger.info("The judge proposes: %s", "; ".join(found) or "nothing that can be asked")
        return found


def _question(one: Judgement, items: Items, kind: str, heading: str | None) -> str:
    question = items.question(one.question.context, one.question.first, one.question.second)
    winner = "A" if one.p > 0.5 else "B"
    texts = Prompt(criterion_prompt("better", kind, heading).template.rpartition("\n\n")[0])
    ask = (
        f"{kind} {winner} was preferred. Name the one quality that most likely made it win, in two to six words that "
        f'complete the sentence "{kind} {winner} is more …" or "{kind} {winner} gives …". Write the words alone.'
    )
    return f"{texts.text(question)}\n\n{ask}"


def _reason_in(reply: str) -> str | None:
    """The words of a reply that name a reason; None where it names none."""
    line = next((line for line in reply.strip().splitlines() if line.strip()), "")
    words = " ".join(line.strip(" \"'“”*.-•").split()[:8])
    for begin in ("It is ", "It ", "is "):
        words = words.removeprefix(begin)
    try:
        (found,) = own_reasons([words])
    except ValueError:
        return None
    return found.words


@dataclass(frozen=True)
class ReasonTask(Task):
    """Reasons put to a judge about the pairs of a run, in its own folder."""

    @property
    def subject(self) -> str:
        assert isinstance(self.prompt, CriteriaPrompt)
        return f"{len(self.prompt.parts)} reasons about {len(self.items):,} items"


@dataclass(frozen=True)
class Explanation:
    """Why texts of a run win.

    Parameters
    ----------
    why : What explains the judge's ranking.
    items : The texts.
    people : What explains people's votes, by the same reasons; None without votes.
    stated : Reasons that people wrote beside their votes, similar ones merged, with their counts.
    judge : The judge that was asked about reasons; None where all are computed.
    calls, cached, cost : Answers about reasons, those from the cache, and dollars.
    between : Two groups of texts that are compared; empty where not requested.
    node : The candidate that gets advice; None where not requested.
    """

    why: Why
    items: Items
    people: Why | None = None
    stated: Mapping[str, int] | None = None
    judge: str | None = None
    calls: int = 0
    cached: int = 0
    cost: float = 0.0
    between: Sequence[str] = ()
    node: int | None = None

    @cached_property
    def advice(self) -> dict[str, Any] | None:
        """The reason that would raise the text most, and up to two pairs that show it; None where not requested."""
        if (node := self.node) is None:
            return None
        ranking, gains = self.why.ranking, self.why.gains(node)
        texts = [self.items.texts[row] for row in _rows(self.items, ranking).tolist()]
        if not gains or gains[0][1] <= 0:
            return {"item": ranking.items[node], "raise": None, "gain": 0.0, "pairs": []}
        best, gain = gains[0]
        data, graph, pairs = ranking.judged.comparisons, ranking.graph, []
        for row in self.why.shown_by(node, best.name):
            other = int(graph.second[row] if graph.first[row] == node else graph.first[row])
            lost = float(1 - data.p[row] if graph.first[row] == node else data.p[row])
            pairs.append({"winner": ranking.items[other], "p": lost, "text": texts[other]})
        told = {"item": ranking.items[node], "text": texts[node], "raise": best.words, "gain": gain}
        return told | {"pairs": pairs}

    @property
    def place(self) -> str:
        """Whether the first of two groups is "ahead of" the second, or "behind"."""
        return "ahead of" if not self.between or self.why.lead(*self.between) >= 0 else "behind"

    def to_dict(self) -> dict[str, Any]:
        """All of it as values that JSON can hold."""
        found = self.why.to_dict()
        found |= {"judge": self.judge, "calls": self.calls, "cached": self.cached, "cost": self.cost}
        if self.between:
            found["between"] = {"groups": list(self.between), "rows": json_rows(self.why.between(*self.between))}
        if self.advice is not None:
            found["advice"] = self.advice
        if self.people is not None:
            found["people"] = {"beside": json_rows(self.why.beside(self.people)), "summary": self.people.summary}
        if self.stated:
            found["stated"] = dict(self.stated)
        return found

    def write(self, folder: Path) -> None:
        """Write why.json and why.csv to a run folder."""
        with explained(folder):
            write_text(folder / "why.json", json_text(self.to_dict()) + "\n")
            write_text(folder / FEEDBACK, csv_text(self.why.feedback()))


@dataclass
class WhyPlan:
    """What is asked and computed; `base` is the plan of the calls, None where all reasons are computed.

    Where there are `proposals`, they are asked first, and `with_reasons` makes the plan with what they name and cost.
    """

    ranking: Ranking
    items: Items
    asked: Sequence[Reason] = ()
    base: Plan[Ranking] | None = None
    people: Ranking | None = None
    stated: Mapping[str, int] | None = None
    between: Sequence[str] = ()
    node: int | None = None
    proposals: Proposals | None = None
    with_reasons: Callable[[Sequence[str], float], tuple[Sequence[Reason], Plan[Ranking]]] | None = None

    def run(self, watch: Watch = None) -> Explanation:
        """Ask about the reasons, and explain the ranking."""
        if self.proposals is not None and self.with_reasons is not None:
            self.asked, self.base = self.with_reasons(self.proposals.reasons(), self.proposals.cost)
        numbers = {reason.name: (reason, column) for reason, column in computed_reasons(self.items).items()}
        facts: dict[str, Any] = {}
        if self.base is not None:
            with self.base.started(watch) as run:
                found = run.go()  # the rankings by reasons are of no use by themselves, and are not written
            assert isinstance(found, CriteriaRanking)
            answered = [one for one in run.judgements if not one.failed]
            replies = () if self.proposals is None else self.proposals.replies
            paid = sum(one.cost for one in replies if one.calls and one.cost > 0)
            facts = {"judge": self.base.task.judge.name, "calls": len(answered) + len(replies)}
            facts["cached"] = count_cached(answered) + sum(not one.calls for one in replies)
            facts["cost"] = run.progress.cost + paid
            for reason in self.asked:
                ranking = found.rankings[reason.name]
                column = np.zeros(len(self.items))  # a text that was not asked about has the mean score, 0
                column[_rows(self.items, ranking)] = ranking.scores
                numbers[reason.name] = reason, column
        if not numbers:
            raise ValueError(Message("texts of a context have the same numbers; name a {judge} to ask about reasons"))
        people = None if self.people is None else _explained(self.people, self.items, numbers)
        why = _explained(self.ranking, self.items, numbers)
        return Explanation(why, self.items, people, self.stated, **facts, between=self.between, node=self.node)


def _explained(ranking: Ranking, items: Items, numbers: Mapping[str, tuple[Reason, Array]]) -> Why:
    rows = _rows(items, ranking)
    words = {name: (reason.words, reason.against) for name, (reason, _) in numbers.items()}
    return explain(ranking, {name: column[rows] for name, (_, column) in numbers.items()}, words)


def _rows(items: Items, ranking: Ranking) -> Index:
    """The row of each candidate among the items, (n,)."""
    return look_up(ranking.solution.labels, items.labels)


def prepare_why(
    run: str | Path,
    ranking: Ranking,
    judge: Judge | None = None,
    *,
    because: Sequence[str] = (),
    propose: int = 0,
    budget: str | int = ShareOptions.budget,
    votes: str | Path | None = None,
    between: Sequence[str] = (),
    item: str | None = None,
    out: str | Path | Storage | None = None,
) -> WhyPlan:
    """Check what is to be explained, and choose the reasons; nothing is asked.

    Parameters
    ----------
    run, ranking, judge
        The folder of a run, its ranking, and who is asked about reasons; None: those that are computed only.
    because
        Further reasons in the user's words, which complete "Which text is …" or "Which text …".
    propose
        About how many of the most decisive pairs the judge is asked what made one win, one call each.
    budget
        How many of the run's questions are asked, in their order: 500, "5n", "50%", or "$2.50".
    votes
        Comparisons by people about these texts; a column reason has what they wrote, several with ; between them.
    between
        The names of two groups of texts: why the first beats the second.
    item
        The id of a text, or context/id: what would raise it most.
    out
        The folder of the calls, by default beside that of the run.
    """
    folder, items = Path(run), stored_items(Path(run))
    if judge is None and (because or propose):
        raise ValueError(Message("reasons in words are asked of a judge; name one by {judge}, such as that of the run"))
    check_enough(ranking)
    if between:
        numbers_of_groups(ranking, between)
    node = None if item is None else _node(ranking, item)
    people, stated = (None, None) if votes is None else _read_votes(votes, items)
    plan = WhyPlan(ranking, items, people=people, stated=stated, between=between, node=node)
    if judge is None:
        return plan
    if not getattr(judge, "several", False):
        raise ValueError(
            f"{judge.name} with these options cannot answer several reasons in one call; name another judge, or none "
            "for the reasons that are computed"
        )
    configuration = read_configuration(folder)
    kind, heading, wording = _manner(configuration["identity"]["prompt"], configuration.get("wording"))
    library, limit = judged_reasons(heading is not None), Budget.of(budget)

    def with_reasons(proposed: Sequence[str], paid: float) -> tuple[Sequence[Reason], Plan[Ranking]]:
        reasons = [*library, *own_reasons([*because, *proposed], [reason.name for reason in library])]
        prompt = criteria_prompt({reason.name: reason.words for reason in reasons}, kind, heading, wording)
        left = replace(limit, number=limit.number - paid) if limit.unit == "$" and paid > 0 else limit
        task = _task(folder, items, prompt, judge, left)
        # Other reasons are another question, whose answers have a folder of their own.
        suffix = hashlib.sha256(json.dumps([judge.name, prompt.template]).encode()).hexdigest()[:6]
        storage = Storage.of(out)
        beside = folder.with_name(f"{folder.name}-why-{suffix}")
        return reasons, prepare(task, replace(storage, out=storage.out or beside))

    plan.asked, plan.base = with_reasons((), 0.0)
    if propose:
        plan.proposals = Proposals.of(judge, folder, items, kind, heading, propose)
        plan.with_reasons = with_reasons
        if not plan.proposals.most < limit.dollars and limit.unit == "$":
            problem = Message("the budget is not enough for {propose} alone: ")
            raise ValueError(problem + plan.proposals.words + f"; raise {budget}")
    return plan


def _node(ranking: Ranking, name: str) -> int:
    """The candidate of an id, or of context/id; a ValueError where there is none or several."""
    labels = ranking.solution.labels
    found = [k for k, (context, item) in enumerate(labels) if name in (str(item), f"{context}/{item}")]
    if len(found) == 1:
        return found[0]
    example = "/".join(str(part) for part in labels[found[0] if found else 0] if part is not None)
    problem = f"{len(found)} texts are named {name!r}" if found else f"there is no text {name!r}"
    raise ValueError(named("item", name) + f": {problem}; name one, such as {example!r}")


def _manner(stored: Mapping[str, Any], wording: str | None) -> tuple[str, str | None, str]:
    """(kind of text, heading, wording of reasons) for the prompt and the wording of a run."""
    form = WORDINGS.get(wording or "")
    chosen = wording if form is not None and not form.is_twice and wording else DEFAULT_WORDING
    if (found := read_template(stored["template"])) is not None:
        kind, heading, _ = found
        return kind, heading or None, chosen
    has_context = Prompt(stored["template"], tuple(stored["labels"]), stored["answer"]).has_context
    return "Text", "Context" if has_context else None, chosen


def _task(folder: Path, items: Items, prompt: CriteriaPrompt, judge: Judge, budget: Budget) -> ReasonTask:
    answered = [one for one in read_judgements(folder) if not one.failed]
    # Of a line-up, texts in neighbouring slots are a pair.
    slots = [(one.question.context, one.question.items) for one in answered]
    asked = ((context, *pair) for context, own in slots for pair in pairwise(own))
    pairs = pairs_within(budget, asked, items)
    if not any(pairs.values()):
        raise StoreError(f"{folder} holds no answers about pairs, so there is nothing to ask again; run it first")
    # Plain: scores that use the texts would mix the computed reasons into those of the judge.
    how: dict[str, Any] = {"method": "mixed", "bias": "joint", "plain": True, "estimate": "judge"}
    return ReasonTask(items, prompt, judge, budget, **how, pairs=pairs, may_grow=False)


def _read_votes(path: str | Path, items: Items) -> tuple[Ranking, dict[str, int]]:
    """The ranking by people's votes about the items, and the reasons that they wrote."""
    votes = Comparisons.of(path)
    find_voted(votes, items.labels)
    people = quiet_fit(replace(votes, judges=None, judge=None), "mixed")
    try:
        check_enough(people)
    except ValueError as error:
        raise ValueError(f"{path}: " + str(error)) from error
    if not Path(path).is_file():
        return people, {}
    written = read_columns(path, ["reason"]).columns.get("reason", ())
    reasons: list[str] = []
    for text in written:
        if text:
            reasons += map(str.strip, str(text).split(";"))
    return people, clustered(reasons)
