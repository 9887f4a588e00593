"""The organiser's figures: statistics of each judge, agreement between judges, and the ranking so far.

They are computed from the votes in the run folder, when the organiser's page asks, at most a sixth of the time.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from comparo.analysis.confidence import expected_spearman
from comparo.analysis.misfit import misfit
from comparo.data.formats import csv_text
from comparo.data.prompts import Question
from comparo.data.run_folder import decode, judgement_rows
from comparo.judges import Judgement
from comparo.log.store import read_judgements, reading
from comparo.metrics import Estimate, krippendorff_alpha
from comparo.ranking.ranking import Ranking
from comparo.ranking.self_consistency import Flips, count_flips
from comparo.ranking.tabular import rows_of
from comparo.report.measures import Position, voter_biases
from comparo.run.stopping import connected, sure_contexts
from comparo.run.voices import comparisons
from comparo.vote.booth import Booth

REST = 5.0  # pause after a computation, as a multiple of its duration
UNLIKELY = 0.05  # the probability that any unbiased judge is called one-sided (Bonferroni)
SKIPS = 20  # most skipped pairs, and misfitting texts, on the organiser's page; the run folder has all
WINNERS = {1.0: "first", 0.5: "tie", 0.0: "second"}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Member:
    """One judge: votes, skipped pairs, share of ties, median seconds per vote, and position bias.

    `left` is the probability of choosing the left of two equal texts, with its interval: the position bias that the
    ranking corrects for, None without a vote. `p` is the p-value of the binomial test that the first of k texts is
    chosen with probability 1/k: without bias it is, since each text is as often in each slot. `infit` is how much the
    votes contradict the ranking, relative to all votes, and `is_misfit` whether that is more than chance explains.
    """

    name: str
    votes: int
    skipped: int
    ties: float
    seconds: float
    p: float
    left: Position | None = None
    infit: float = math.nan
    is_misfit: bool = False


@dataclass(frozen=True)
class Standing:
    """The figures after some votes; `ranking` is None without votes. `alpha` and `flips` use pairs judged twice.

    `expected` is the expected Spearman correlation, the mean over contexts, NaN if some texts are not connected;
    `expected_later` is the same after twice as many votes. `sure` is the number of contexts that have reached the
    target. `skips` are the last skipped pairs, the latest first. `misfits` are texts whose votes contradict the ranking
    more than chance explains.
    """

    votes: int
    members: Sequence[Member]
    skips: Sequence[Judgement]
    contexts: int
    alpha: Estimate | None = None
    flips: Flips | None = None
    ranking: Ranking | None = None
    expected: float = math.nan
    expected_later: float = math.nan
    sure: int = 0
    misfits: Sequence[Mapping[str, Any]] = ()

    @property
    def one_sided(self) -> list[str]:
        """The judges whose position bias is significant at level `UNLIKELY`, with Bonferroni's correction."""
        return [member.name for member in self.members if member.p < UNLIKELY / len(self.members)]

    @property
    def is_sure(self) -> bool:
        """Whether every context has reached the target."""
        return self.sure == self.contexts


def standing_of(booth: Booth) -> Standing:
    """Compute the standing from the stored votes."""
    folder, until = booth.store.folder, booth.voting.until
    judgements = [] if folder is None else read_judgements(folder)
    members = members_of(judgements, list(booth.links.judges))
    sizes = {context: len(ids) for context, ids in booth.voting.items.names.items()}
    skips = [judgement for judgement in reversed(judgements) if judgement.failed][:SKIPS]
    empty = Standing(sum(member.votes for member in members), members, skips, len(sizes))
    if not empty.votes:
        return empty
    data = comparisons(judgements)
    ranking = booth.fitting.rank(data)
    biases = voter_biases(ranking)
    spearman, whole = expected_spearman(ranking), connected(data, sizes)
    names = [None] if data.contexts is None else data.contexts.tolist()
    expected = expected_later = math.nan
    if whole.issuperset(names):
        expected = float(np.mean(spearman))
        expected_later = float(np.mean(expected_spearman(ranking, more=1.0)))
    fits = {
        str(row["judge"]): {"infit": row["infit"], "is_misfit": bool(row["misfit"])}
        for row in rows_of(misfit(ranking, "judge"), len(members))
    }
    texts = rows_of(misfit(ranking, "item"), SKIPS)
    return replace(
        empty,
        members=[replace(one, left=biases.get(one.name), **fits.get(one.name, {})) for one in members],
        misfits=[row for row in texts if row["misfit"]],
        alpha=krippendorff_alpha(replace(data, lineup=None)),
        flips=count_flips(replace(data, judges=None, judge=None, lineup=None)),
        ranking=ranking,
        expected=expected,
        expected_later=expected_later,
        sure=0 if until is None else len(sure_contexts(ranking, spearman, until) & whole),
    )


def members_of(judgements: Sequence[Judgement], names: Sequence[str]) -> list[Member]:
    """One `Member` per judge, including those without a vote.

    >>> from comparo.data.prompts import Question
    >>> asked = Question("a", "b", voice="ana")
    >>> votes = [Judgement(asked, p=1.0, seconds=4.0), Judgement(asked, p=1.0, seconds=8.0)]
    >>> one, other = members_of([*votes, Judgement(asked, error="skipped: illegible")], ["ana", "bo"])
    >>> one.votes, one.skipped, one.seconds, one.p, other.votes
    (2, 1, 6.0, 0.5, 0)
    """
    own: dict[str, list[Judgement]] = {name: [] for name in names}
    for judgement in judgements:
        own.setdefault(str(judgement.question.voice), []).append(judgement)
    return [_member(name, given) for name, given in own.items()]


def _member(name: str, given: Sequence[Judgement]) -> Member:
    votes = [judgement for judgement in given if not judgement.failed]
    p = np.array([judgement.p for judgement in votes])
    seconds = [judgement.seconds for judgement in votes if not math.isnan(judgement.seconds)]
    left, decided = int(np.count_nonzero(p > 0.5)), int(np.count_nonzero(p != 0.5))
    ties = median = chance = math.nan
    if votes:
        ties = 1 - decided / len(votes)
    if seconds:
        median = float(np.median(seconds))
    if decided:
        equal = 1 / len(votes[0].question.items)
        chance = float(scipy.stats.binomtest(left, decided, equal).pvalue)
    return Member(name, len(votes), len(given) - len(votes), ties, median, chance)


class Live:
    """The latest standing, recomputed when votes or judges have changed."""

    def __init__(self, booth: Booth) -> None:
        self.booth = booth
        self.problem = ""
        self.latest: Standing | None = None
        self._seen: object = None
        self._rested = 0.0
        self._turn = threading.Lock()

    def look(self, wait: bool = False) -> Standing | None:
        """The latest standing, None if there is none; with `wait`, recomputed for new votes even within the pause."""
        with self._turn:
            # The numbers of the answers identify the votes; the standing depends on them and on the judges.
            state = [each.judgement for each in self.booth.shown()], list(self.booth.links.judges)
            begun = time.monotonic()
            if state == self._seen or not (wait or begun >= self._rested):
                return self.latest
            try:
                self.latest, self.problem = standing_of(self.booth), ""
            except Exception as error:  # the organiser sees it, and judges go on
                logger.exception("the standing could not be computed")
                self.problem = str(error) or type(error).__name__
            self._seen = state
            self._rested = time.monotonic() + REST * (time.monotonic() - begun)
            return self.latest


def votes_csv(booth: Booth) -> str:
    """All votes as CSV: first, second, winner, p, voter, context, reason, seconds and at; `first` was on the left.

    Line-ups have items and order in place of the first four. A context or reason column without values is left out.
    """
    assert booth.store.folder is not None
    with reading(booth.store.folder) as connection:
        wanted = ("error", "first", "second", "p", "lineup", "voice", "context", "reply", "seconds", "at")
        found = [row for error, *row in judgement_rows(connection, wanted) if error is None]
    is_pair = booth.voting.prompt.size == 2
    rows = []
    for first, second, p, order, voice, context, reply, *times in found:
        items = Question(decode(first), decode(second)).items
        said = (*items, WINNERS[p], p) if is_pair else ("|".join(map(str, items)), order)
        rows.append((*said, voice, decode(context), reply.partition("\n")[2], *times))
    names = ["first", "second", "winner", "p"] if is_pair else ["items", "order"]
    names += ["voter", "context", "reason", "seconds", "at"]
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    for name in ("context", "reason"):
        if all(value in (None, "") for value in columns[name]):
            del columns[name]
    return csv_text(columns)


def ranking_csv(standing: Standing | None) -> str:
    """The ranking as CSV; only a header without a ranking."""
    return "item\n" if standing is None or standing.ranking is None else standing.ranking.to_csv()
