"""The result of an audit: a card per judge, and control terms for a ranking that follow from it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from comparo.analysis.judge_biases import DISCOVERY
from comparo.data.covariates import COMPUTED, Term, combined
from comparo.data.items import Items
from comparo.data.probes import PROBES, TextProbe
from comparo.ranking.tabular import json_text, plain
from comparo.run.fit_policy import varies

NAMED = 3  # biases in a summary
USUAL = 1.96  # standard errors from the estimate to an end of a 95% interval
FILE = "audit.json"  # in the run folder; the first card is that of the folder's judge
COLUMNS = "probe right pairs effect low high preferred p adjusted relative verdict sentence remedy control step"


@dataclass(frozen=True)
class Finding:
    """The effect of a probe on a judge.

    Parameters
    ----------
    probe : Its name.
    pairs : How many pairs were answered in both orders.
    effect, low, high : The preference for the variant in logits, and its 95% interval; for twins, the preference for
        the text shown first.
    p, adjusted : The p-value of no bias, and the one adjusted for the number of probes.
    relative : |effect| divided by `AuditCard.spread`; nan where the spread is unknown.
    step : The mean difference of `control` between variants and originals.
    """

    probe: str
    pairs: int
    effect: float
    low: float
    high: float
    p: float
    adjusted: float
    relative: float
    step: float = 0.0

    @property
    def _probe(self) -> TextProbe:
        return next(probe for probe in PROBES if probe.name == self.probe)

    @property
    def right(self) -> str:
        """The true quality of variants relative to originals: equal, no better or worse."""
        return self._probe.right

    @property
    def control(self) -> str:
        """The control term for what the probe varies, "" where there is none."""
        return self._probe.control

    @property
    def preferred(self) -> float:
        """σ(effect), the probability that the variant, or the text shown first, is preferred at equal quality."""
        return float(expit(self.effect))

    @property
    def verdict(self) -> str:
        """ "bias", "none found", "not answered"; of worse variants also "seen", where the originals are preferred."""
        if self.adjusted <= DISCOVERY:
            return "bias"
        if self.right == "worse" and self.high < 0:
            return "seen"
        return "none found" if self.pairs else "not answered"

    @property
    def sentence(self) -> str:
        """The bias in words, "" where there is none."""
        if self.verdict != "bias":
            return ""
        sign, does = (1, self._probe.does) if self.effect >= 0 else (-1, self._probe.against)
        near, far = sorted((sign * self.low, sign * self.high))
        size = abs(self.effect)
        return f"{does}: {size:.2f} logits ({near:.2f} to {far:.2f}), {100 * expit(size):.0f} of 100 at equal quality"

    @property
    def remedy(self) -> str:
        """What helps, "" where there is no bias."""
        return self._probe.remedy if self.verdict == "bias" else ""

    @property
    def row(self) -> dict[str, Any]:
        """The values of `COLUMNS` by name."""
        return {name: getattr(self, name) for name in COLUMNS.split()}


@dataclass(frozen=True)
class AuditCard:
    """The findings of an audit about one judge.

    Parameters
    ----------
    judge, wording : The names of the judge and its wording.
    findings : One per probe, in the order of the probes.
    spread : The root mean square difference of two real texts of a context, in logits.
    texts : How many texts were varied.
    calls, cached, cost : The number of answers, how many of them came from the cache, and dollars.
    """

    judge: str
    wording: str | None
    findings: tuple[Finding, ...]
    spread: float
    texts: int
    calls: int
    cached: int
    cost: float

    @property
    def name(self) -> str:
        return f"{self.judge} · {self.wording}" if self.wording else self.judge

    @property
    def biases(self) -> list[Finding]:
        """The biases that were found, the largest first."""
        found = [one for one in self.findings if one.verdict == "bias"]
        return sorted(found, key=lambda one: -abs(one.effect))

    @property
    def unseen(self) -> list[Finding]:
        """Probes with damaged texts that show no preference for the originals."""
        return [one for one in self.findings if one.right == "worse" and one.verdict == "none found"]

    @property
    def summary(self) -> str:
        """The card in a sentence."""
        found = "; ".join(one.sentence for one in self.biases[:NAMED]) or "no bias found"
        found += f"; and {len(self.biases) - NAMED} more biases" if len(self.biases) > NAMED else ""
        blind = f"; not shown to see: {', '.join(one.probe for one in self.unseen)}" if self.unseen else ""
        return f"{self.name}: {found}{blind}"

    @property
    def terms(self) -> list[str]:
        """Control terms; the prior of each coefficient is the estimate from its probes."""
        found = []
        for name in COMPUTED:
            # A judge that rightly rejects variants which add nothing need not do so for other texts.
            own = [one for one in self.findings if one.control == name and one.step and one.pairs]
            own = [one for one in own if one.right == "equal" or one.high > 0]
            if own:
                errors = np.array([(one.high - one.low) / (2 * USUAL) for one in own])
                effects = np.array([one.effect for one in own])
                steps = np.array([one.step for one in own])
                found.append(str(Term(name, *combined(effects, errors, steps))))
        return found

    def finding(self, probe: str) -> Finding | None:
        """The finding of a probe by its name; None where it was not asked."""
        return next((one for one in self.findings if one.probe == probe), None)


@dataclass(frozen=True)
class Audit:
    """The cards of all judges that were asked.

    >>> from comparo.judges import load_judge
    >>> from comparo.run.audit import audit
    >>> likes = {"original": 0.0} | {probe.name: 0.0 for probe in PROBES} | {"padded": 0.8}
    >>> texts = [f"The story of number {k} is short. It ends well." for k in range(20)]
    >>> found = audit(texts, "better", judge=load_judge("simulated/soft", scores=likes, noise=0.3))
    >>> [one.probe for one in found.cards[0].biases], len(found.failures({"padded": 0.5}))
    (['padded'], 1)
    """

    cards: tuple[AuditCard, ...]

    def failures(self, limits: Mapping[str, float]) -> list[str]:
        """Sentences about the biases that reach their probe's limit in logits; "any" is the limit of other probes."""
        check_limits(limits)
        return [
            f"{card.name}: {one.sentence}"
            for card in self.cards
            for one in card.biases
            if abs(one.effect) >= limits.get(one.probe, limits.get("any", math.inf))
        ]

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """A row per judge and probe."""
        rows = [{"judge": card.name, **one.row} for card in self.cards for one in card.findings]
        return {name: np.array([row[name] for row in rows], dtype=object) for name in rows[0]}

    def to_dict(self) -> dict[str, Any]:
        names = ("judge", "wording", "summary", "spread", "texts", "calls", "cached", "cost")
        cards = []
        for card in self.cards:
            findings = [{name: plain(value) for name, value in one.row.items()} for one in card.findings]
            cards.append({name: plain(getattr(card, name)) for name in names} | {"findings": findings})
        return {"cards": cards}

    def to_json(self) -> str:
        return json_text(self.to_dict())

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Audit:
        """The audit that `to_dict` wrote."""
        cards = []
        for card in stored["cards"]:
            findings = tuple(_made(Finding, one) for one in card["findings"])
            cards.append(_made(AuditCard, {**card, "findings": findings}))
        return cls(tuple(cards))

    @classmethod
    def read(cls, folder: str | Path) -> Audit:
        """The audit in a run folder.

        Raises
        ------
        ValueError
            If there is none, or it is damaged.
        """
        path = Path(folder) / FILE
        try:
            return cls.of(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} holds no audit ({error}); run comparo audit, and name its folder") from error


def _made(kind: Any, stored: Mapping[str, Any]) -> Any:
    """A finding or a card from its JSON object, in which null is an unknown number (nan)."""
    values = {each.name: stored[each.name] for each in fields(kind)}
    unknown = {name: math.nan for name, value in values.items() if value is None and name != "wording"}
    return kind(**values | unknown)


def _cards_in(control: Sequence[str]) -> dict[str, AuditCard]:
    """The cards of the terms of `control` that are audit folders, by folder."""
    return {term: Audit.read(term).cards[0] for term in control if (Path(term) / FILE).is_file()}


def audited_terms(control: Sequence[str]) -> tuple[str, ...]:
    """The terms of `control`, with each audit folder replaced by the terms of its card."""
    if several := [term for term in control if any(Path(term).glob(f"*/{FILE}"))]:
        raise ValueError(f"{several[0]} holds audits of several judges; name the folder of one of them")
    cards = _cards_in(control)
    terms: list[str] = []
    for term in control:
        terms += cards[term].terms if term in cards else [term]
    return tuple(terms)


def audited(control: Sequence[str], judges: Sequence[tuple[str, str | None]]) -> Audit | None:
    """The audit whose folder is among the terms of `control`; None where there is none.

    Raises
    ------
    ValueError
        If it is an audit of another judge or wording than the only one in `judges`.
    """
    cards = _cards_in(control)
    for folder, card in cards.items():
        if [(card.judge, card.wording)] != list(judges):
            names = " and ".join(f"{judge} ({wording})" if wording else judge for judge, wording in judges)
            raise ValueError(f"{folder} is an audit of {card.name}, and the run is by {names}; audit that")
    return Audit(tuple(cards.values())) if cards else None


def varying(control: Sequence[str], items: Items) -> tuple[str, ...]:
    """The terms of `control` without those that have a prior and are constant within every context."""
    return tuple(term for term in control if term == Term.of(term).name or varies(items, term))


def check_limits(limits: Mapping[str, float]) -> None:
    """Raise a ValueError for a limit of an unknown probe, or one below 0."""
    names = [probe.name for probe in PROBES if probe.right] + ["any"]
    for name, limit in limits.items():
        if name not in names:
            raise ValueError(f"there is no probe {name!r}; there are {', '.join(names)}")
        if not 0 <= limit < math.inf:
            raise ValueError(f"the limit of {name!r} is a number of logits from 0 up, not {limit}")
