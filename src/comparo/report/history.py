"""The ranking after each share of the calls made, and what further calls would bring."""

from dataclasses import dataclass

from comparo.analysis.agreement import agreement
from comparo.analysis.confidence import expected_spearman
from comparo.analysis.curves import correlation, first_rows, mean_known
from comparo.report.record import Record

POINTS = 10  # shares of the calls that are looked at: tenths
MANY = 100_000  # answers, above which
FEW = (1, 2, 5, 10)  # only these tenths are


@dataclass(frozen=True, slots=True)
class Moment:
    """The ranking after `calls` answers: its expected Spearman correlation, and those with the last one and people."""

    calls: int
    expected: float
    final: float
    people: dict[str, float]


@dataclass(frozen=True, slots=True)
class Outlook:
    """The expected Spearman correlation after `more` further calls."""

    more: int
    expected: float


def convergence(record: Record) -> list[Moment]:
    """The rankings from the first tenth, two tenths, … of each context's answers; correlations are means over contexts.

    Of very many answers only some shares are looked at, since each takes a fit.
    """
    last, data, moments = record.ranking, record.ranking.comparisons, []
    for step in range(1, POINTS + 1) if len(data) <= MANY else FEW:
        rows = first_rows(last.graph, step / POINTS)
        if len(rows) == len(data):
            earlier, expected = last, record.spearman
        else:
            earlier = record.refit(data.take(rows))
            expected = expected_spearman(earlier)
        people = {name: mean_known(found) for name, found in agreement(earlier, record.items).items()}
        final = correlation(last, earlier, last.scores)
        moments.append(Moment(len(rows), mean_known(expected), final, people))
    return moments


def outlook(record: Record) -> list[Outlook]:
    """What no more calls, a quarter more, as many again and three times as many again would bring, if there are any."""
    made = len(record.answered)
    steps = {min(more, record.possible - made) for more in (made // 4, made, 3 * made)} - {0}
    further = [Outlook(more, mean_known(expected_spearman(record.ranking, more / made))) for more in sorted(steps)]
    return [Outlook(0, mean_known(record.spearman)), *further]
