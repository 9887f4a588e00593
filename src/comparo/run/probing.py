"""Before a run spends money: what its judges were found to accept, asked once and kept in run.json.

A probe costs a call or two of a few words, which count in the cost of the run. A run that goes on takes over what was
found before; one that has answers from before there were probes asks nothing but its questions.
"""

import json
import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from comparo.errors import JudgeError, StoreError
from comparo.judges import Judge, Judgement, Probe
from comparo.judges.prices import Price
from comparo.run.budget import PROBES, dollars
from comparo.run.store import count_judgements, read_configuration

PRICES = "prices"

logger = logging.getLogger(__name__)


def probe_judges(judges: Sequence[Judge], folder: Path | None = None) -> list[dict[str, Any]]:
    """What the judges of a run accept and give, from its folder if it is there, else by asking them.

    Of several judges, one that cannot be asked is told of, and is left out when the run asks it.

    Raises
    ------
    JudgeError
        No judge can be asked with these settings; the message names the remedy.

    Examples
    --------
    >>> from comparo.judges import load_judge
    >>> probe_judges([load_judge("simulated/soft")])
    []
    """
    asked = [judge for judge in judges if hasattr(judge, "probe") and hasattr(judge, "learn")]
    known, begun = _kept(folder) if asked else ([], False)
    probes, failed = [], []
    for judge in asked:
        about = _about(judge)
        before = _those_of(about, known)
        if before:
            judge.learn(before[0]["found"])
            probes.append(before[0])
        elif not begun:
            try:
                probes.append({**about, **_probed(judge.probe())})
            except JudgeError as error:
                failed.append(error)
                if len(failed) == len(judges):
                    raise
                logger.warning("%s was probed in vain: %s", judge.name, error)
    return probes


def remember_probes(judges: Sequence[Judge], folder: Path | None = None) -> None:
    """Take over what earlier probes found, from a run folder or from the judges' caches; nothing is asked."""
    asked = [judge for judge in judges if hasattr(judge, "probe") and hasattr(judge, "learn")]
    known, _ = _kept(folder) if asked else ([], False)
    for judge in asked:
        getattr(judge, "remember", lambda: None)()
        for one in _those_of(_about(judge), known):
            judge.learn(one["found"])


def _about(judge: Judge) -> dict[str, Any]:
    """By what a probe in run.json is known."""
    return dict(json.loads(json.dumps({"judge": judge.name, "settings": dict(judge.settings)}, default=str)))


def _those_of(about: Mapping[str, Any], probes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in probes if {name: one.get(name) for name in about} == about]


def _probed(probe: Probe) -> dict[str, Any]:
    """A probe as run.json holds it, after it was told."""
    price = "price not known" if math.isnan(probe.cost) else dollars(probe.cost)
    took = f"{probe.calls} call{'' if probe.calls == 1 else 's'}, {probe.tokens:,} tokens, {price}"
    if probe.calls:
        logger.warning("%s (a probe of %s)", probe.sentence, took)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "sentence": probe.sentence,
        "found": dict(probe.found),
        "calls": probe.calls,
        "tokens": probe.tokens,
        "cost": None if math.isnan(probe.cost) else probe.cost,
    }


def prices_of(judges: Sequence[Judge]) -> dict[str, dict[str, Any]]:
    """The prices by which costs are counted, by judge, as run.json holds them."""
    prices = {judge.name: getattr(judge, "price", None) for judge in judges}
    return {name: price._asdict() for name, price in prices.items() if isinstance(price, Price)}


def price_sentences(judges: Sequence[Judge]) -> Iterator[str]:
    """How old the list prices are by which costs are counted, if any are."""
    prices = (getattr(judge, "price", None) for judge in judges)
    for source in sorted(
        {price.source() for price in prices if isinstance(price, Price) and (price.day or price.share < 1)}
    ):
        yield f"prices: {source}; --price sets others"


def tokens_sentence(judgements: Sequence[Judgement]) -> str:
    """How many tokens were read and written, and which of them have a price of their own or are not in the reply.

    >>> from comparo.data.prompts import Question
    >>> answer = Judgement(Question("ana", "bo"), p=0.7, tokens_in=900, tokens_out=80, tokens_reasoning=64)
    >>> tokens_sentence([answer, answer])
    '1,800 tokens read, 160 written, 128 of them reasoning'
    """
    names = ("tokens_in", "tokens_cached", "tokens_out", "tokens_reasoning")
    read, cached, written, reasoning = (sum(getattr(one, name) for one in judgements) for name in names)
    kept = f", {cached:,} of them from the server's cache" if cached else ""
    thought = f", {reasoning:,} of them reasoning" if reasoning else ""
    return f"{read:,} tokens read{kept}, {written:,} written{thought}"


def model_sentences(judgements: Iterable[Judgement]) -> tuple[str, ...]:
    """Of each voice whose answers came from several models, by the names in the server's replies: how many from each.

    >>> from comparo.data.prompts import Question
    >>> names = ("tiny-1", "tiny-1", "tiny-2")
    >>> model_sentences(Judgement(Question("ana", "bo"), p=0.7, model=name) for name in names)[0].partition(";")[0]
    "the server changed the judge's model: tiny-1 gave 2 answers, tiny-2 gave 1 answer"
    """
    counts: dict[str | None, Counter[str]] = {}
    for one in judgements:
        if one.model and not one.failed:
            counts.setdefault(one.question.voice, Counter())[one.model] += 1
    return tuple(
        f"the server changed {'the judge' if voice is None else voice}'s model: "
        + ", ".join(f"{name} gave {count:,} answer{'s' if count > 1 else ''}" for name, count in names.items())
        + "; name one version of the model and run again with --fresh, if they should be from one"
        for voice, names in counts.items()
        if len(names) > 1
    )


def _kept(folder: Path | None) -> tuple[list[dict[str, Any]], bool]:
    """The probes in a run folder, and whether it has answers; none where there is no such folder yet."""
    if folder is None:
        return [], False
    try:
        return list(read_configuration(folder).get(PROBES) or ()), any(count_judgements(folder))
    except StoreError:  # not a run folder, or a damaged one, which is told where it is opened
        return [], False
