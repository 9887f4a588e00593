"""Reasons that a judge proposes: it is asked in words what made the winners of the most decisive pairs of a run win.

A reply is looked up in the judge's cache first, as an answer is, so that the same proposals are paid once.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from comparo.data.items import Items
from comparo.data.prompts import Prompt, criterion_prompt
from comparo.data.reasons import clustered, own_reasons
from comparo.judges import Judge, Judgement, Probe
from comparo.run.budget import price_words
from comparo.run.store import read_judgements
from comparo.run.task import CHARACTERS

WRITTEN = 60  # tokens of a reply that names a reason
TRIES = 2  # pairs asked about at most, for each reason that is wanted: some replies name none

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
        """Choose the pairs; nothing is asked. A ValueError where the judge writes no words of its own."""
        write = getattr(judge, "write", None)
        if write is None:
            raise ValueError(f"{judge.name} writes no words of its own; leave `propose` out, or use `because`")
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
        """What they take at most."""
        return f"up to {len(self.questions):,} calls, about {self.tokens:,} tokens, {price_words('at most', self.most)}"

    @property
    def cost(self) -> float:
        """What the replies cost, now or when they were asked, as far as it is known."""
        return sum(one.cost for one in self.replies if one.cost > 0)

    def reasons(self) -> list[str]:
        """The reasons that the judge names, alike ones as one; it is asked now."""
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
