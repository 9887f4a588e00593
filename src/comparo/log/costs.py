"""What a run counts within its budget, and what it has spent."""

from collections.abc import Iterable, Mapping
from typing import Any

from comparo.judges import Judgement

PROBES = "probes"  # entry of run.json: the findings of probes of the judges (`Probe`)


def paid_and_spent(
    judgements: Iterable[Judgement], configuration: Mapping[str, Any] | None = None
) -> tuple[float, float]:
    """The dollars that judgements and probes of a run count within a budget, and the dollars spent on them.

    Cached answers count with their original cost, so that a run is the same with and without a cache.

    >>> from comparo.data.prompts import Question
    >>> asked, kept = (Judgement(Question("ana", "bo"), p=0.7, cost=0.5, cached=cached) for cached in (False, True))
    >>> paid_and_spent([asked, kept], {"probes": [{"calls": 1, "cost": 0.25}, {"calls": 0, "cost": 0.25}]})
    (1.5, 0.75)
    """
    known = [judgement for judgement in judgements if judgement.cost > 0]
    probes = (configuration or {}).get(PROBES) or ()
    costs = [(one.get("cost") or 0.0, one.get("calls")) for one in probes]
    paid = sum(one.cost for one in known) + sum(cost for cost, _ in costs)
    spent = sum(one.spent for one in known) + sum(cost for cost, calls in costs if calls)
    return paid, spent
