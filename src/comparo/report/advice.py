"""What to do next: a few steps, each a sentence and, where one helps, a command to copy.

Two candidates are distinguished where the better one beats the other with probability `level`: Φ(d / √v) ≥ level with
the difference d of their scores and its variance v. v falls as 1 / calls, which gives the number of further calls,

    more = made · ((z / d)² · v − 1),    z = Φ⁻¹(level).
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import ndtri

from comparo.ranking.self_consistency import unexplained_flips
from comparo.report.cards import LENGTH, WORTH, pairs_in_order
from comparo.report.embed import in_hundred, label
from comparo.report.measures import Outlook, as_many_again, length_correlation
from comparo.report.record import Record
from comparo.run.budget import dollars

STEPS = 4  # steps shown at most: a reader would not do more


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do: what, why, and the command for it, if there is one."""

    title: str
    sentence: str
    command: str = ""


def advice(record: Record, ahead: Sequence[Outlook]) -> list[Step]:
    """The steps that help most, the most urgent first; a single one where nothing has to be done."""
    close = _close(record)
    found = [
        _failed(record),
        _apart(record),
        _flipping(record),
        close,
        _unsure(record, ahead) if close is None or not close.command else None,
        _longer(record),
        _unchecked(record),
    ]
    nothing = Step("Nothing has to be done", "The order is settled as far as this judge can settle it.")
    return [step for step in found if step is not None][:STEPS] or [nothing]


def with_budget(record: Record, more: int) -> str:
    """The command that continues a run by `more` calls, or a vote; "" where there is none.

    A budget in dollars stays one: it is raised in proportion to the calls.
    """
    if record.is_voted:
        return record.command
    if not _is_of(record, "rank", "compare", "judge"):
        return ""
    made = len(record.judgements)
    budget, spent = str(made + more), sum(record.costs)
    if str(record.configuration.get("budget", "")).startswith("$") and spent > 0:
        budget = f"${spent * (made + more) / made:.2f}"
    return changed(record.command, "--budget", budget)


def changed(line: str, flag: str, value: str) -> str:
    """A command with `value` for `flag`, which is added if the command lacks it.

    >>> changed("comparo rank a.csv --budget 3n --seed 1", "--budget", "500")
    'comparo rank a.csv --budget 500 --seed 1'
    >>> changed("comparo rank a.csv", "--control", "length")
    'comparo rank a.csv --control length'
    """
    words = shlex.split(line)
    if flag in words[:-1]:
        words[words.index(flag) + 1] = value
    else:
        words += [flag, value]
    return shlex.join(words)


def _is_of(record: Record, *names: str) -> bool:
    """Whether one of these commands made the ranking."""
    return any(name in names for name in shlex.split(record.command)[1:2])


def _question_flags(record: Record) -> list[str]:
    """The flags of the question in the command of a run; none where it has no single criterion."""
    words = pairwise(shlex.split(record.command))
    found = [word for flag, value in words if flag in ("--criterion", "--kind") for word in (flag, value)]
    return found if found.count("--criterion") == 1 else []


def _failed(record: Record) -> Step | None:
    failed = sum(judgement.failed for judgement in record.judgements)
    if not failed or record.is_voted:
        return None
    sentence = f"{failed:,} {'call' if failed == 1 else 'calls'} had no answer. The same command asks again."
    return Step("Ask again what failed", sentence, record.command)


def _apart(record: Record) -> Step | None:
    if record.joined.all():
        return None
    apart, every = np.count_nonzero(~record.joined), len(record.contexts)
    where = f"In {apart:,} of {every:,} contexts, some" if every > 1 else "Some"
    sentence = (
        f"{where} texts are connected with the others by no comparison, so their ranks cannot be compared. Compare "
        "texts of different groups."
    )
    return Step("Connect all texts", sentence, with_budget(record, record.ranking.graph.nodes))


def _close(record: Record) -> Step | None:
    """The best two of the only context, or of the leaderboard, where they share a tier."""
    if not record.joined.all():
        return None
    if record.ranking.leaderboard is not None:
        return _close_groups(record)
    ranking = record.ranking
    if len(record.contexts) > 1 or ranking.graph.nodes < 2 or ranking.estimate != "judge":
        return None
    one, other = (int(node) for node in record.order[:2])
    if ranking.tier[one] != ranking.tier[other]:
        return None
    more = calls_to_tell_apart(
        float(ranking.scores[one] - ranking.scores[other]),
        ranking.covariance.difference(one, other),
        len(record.answered),
        ranking.level,
    )
    pair, calls = f"{record.name(one)} and {record.name(other)}", record.words.calls
    if more > record.left:
        why = ": their scores are the same."
        if math.isfinite(record.left):
            why = f", and even all {record.left:,} {calls} that are left would probably not do it."
        return Step(f"Treat {pair} as equal", f"They cannot be told apart{why}")
    sentence = (
        f"About {more:,} more {calls}{_price(record, more)} would probably tell which of the two is better, if the "
        "difference is as large as it seems now."
    )
    return Step(f"{pair} cannot be told apart yet", sentence, with_budget(record, int(more)))


def calls_to_tell_apart(difference: float, variance: float, made: int, level: float) -> float:
    """The number of further calls that distinguish two candidates (the formula above); infinite for equal scores.

    >>> calls_to_tell_apart(1.0, 1.0, 100, 0.95)
    171
    """
    if abs(difference) < 1e-9 or not math.isfinite(variance):
        return math.inf
    return max(1, math.ceil(made * ((float(ndtri(level)) / difference) ** 2 * variance - 1)))


def _close_groups(record: Record) -> Step | None:
    """Contexts, or texts, are a sample: more of these distinguish two groups, not more calls."""
    board = record.ranking.leaderboard
    assert board is not None
    if len(board) < 2 or board.tier[0] != board.tier[1]:
        return None
    names = [label(name) for name in board.group[:2].tolist()]
    what = "contexts" if len(record.contexts) > 1 else "texts of each"
    return Step(
        f"{names[0]} and {names[1]} cannot be told apart",
        f"Which group is better depends on the {what} that happened to be chosen. More {what} help more than more "
        "calls about these: add them to the file of the texts, and run the same command again.",
    )


def _unsure(record: Record, ahead: Sequence[Outlook]) -> Step | None:
    if len(ahead) == 1 or math.isnan(ahead[0].expected) or not record.joined.all():
        return None
    doubled, calls = as_many_again(ahead), record.words.calls
    if doubled.expected - ahead[0].expected < WORTH:
        return None
    now, then = (in_hundred(pairs_in_order(step.expected)) for step in (ahead[0], doubled))
    sentence = (
        f"With {doubled.more:,} more {calls}{_price(record, doubled.more)}, about {then} pairs would be in the right "
        f"order; now it is about {now.removesuffix(' of 100')}."
    )
    return Step("Ask more, for a surer order", sentence, with_budget(record, doubled.more))


def _price(record: Record, more: float) -> str:
    costs = record.costs
    return f" (about {dollars(sum(costs) / len(costs) * more)})" if sum(costs) > 0 else ""


def _flipping(record: Record) -> Step | None:
    if record.is_fitted or record.is_voted:
        return None
    turned = unexplained_flips(record.ranking.comparisons)
    if not turned.are_many:
        return None
    sentence = (
        f"In {turned.flipped:,} of {turned.pairs:,} pairs the winner changed with the order of the texts: to this "
        "judge most texts are nearly alike. An audition shows which judge and wording tells them apart; ITEMS is the "
        "file of the texts, and every --judge a candidate."
    )
    words = "comparo audition ITEMS --wording all --judge".split()
    flags = _question_flags(record)
    line = shlex.join([*words, record.identity["judge"], *flags]) if flags else ""
    return Step("Try another judge or wording", sentence, line)


def _longer(record: Record) -> Step | None:
    if not _is_of(record, "rank") or "control" in record.ranking.tables:
        return None
    found = length_correlation(record, record.ranking.scores)
    if math.isnan(found) or LENGTH.verdict(abs(found)) != "poor":
        return None
    sentence = (
        f"{'Longer' if found > 0 else 'Shorter'} texts have the higher scores. This command adds the scores that texts "
        "of equal length would have, without new answers."
    )
    return Step("Look at the effect of length", sentence, changed(record.command, "--control", "length"))


def _unchecked(record: Record) -> Step | None:
    if record.is_fitted or record.is_voted or record.ranking.people is not None or record.items.scores:
        return None
    sentence = (
        "Nothing here says whether people agree with the judge. Vote on some pairs of this run (RUN) yourself: those "
        "that tell most come first. Then rank again with --votes and the folder of the votes."
    )
    flags = _question_flags(record)
    return Step(
        "Check the judge against people", sentence, shlex.join(["comparo", "vote", "RUN", *flags]) if flags else ""
    )
