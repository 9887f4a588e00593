"""Which voice gets which question, decided from the answers of all contexts.

At first every voice is asked the same pairs, which shows how far they agree. Where the calls are too few to connect a
context by every voice, each pair goes to a team of `alike` voices. Once the shares of the voices are decided, each new
pair goes to one voice, in both orders if both are asked; when all pairs are used up, a voice is asked those that only
others were asked.

A voice r sees text i as x_ri = a_r·t_i + u_ri with variance v_r, of which ρ_r² is the consensus and the rest its own
taste; an answer has the precision c_r. The precision of t_i after m questions about each text, in units of 1/Var t, is

    I_r(m) = ρ_r²·s_r·m / (1 + (1 − ρ_r²)·s_r·m),        s_r = v_r·c_r,

at most ρ²/(1 − ρ²). Copies of a voice share one taste and one ρ; ρ² is multiplied by the content of the voice divided
by the most content among its copies (docs/panel.md). The next questions go, step by step, where dI/dm per dollar is
largest, or per question where the price of a voice is unknown.

All voices are asked `PILOT` questions, and continue together until the answers of one of them are `SURE` times as
probable if scores order the texts (`log_evidence`). Where prices differ, only the cheaper voices continue, until each
shows this or has cost as much as the `PILOT` questions to the dearest. Then, and whenever `GROWTH` times as much was
spent, ρ, v and c are estimated from all answers (`panel`). A voice gets no more questions

- if its answers do not show that the texts differ: they are more probable if they do not, or, after the first decision,
  less than `SURE` times as probable if they do; but not before it was asked as many questions as the first voice that
  showed an order. The ratio is the mean of two: for an order, and for pairs whose two answers agree. Pairs alone do not
  lead to the first decision, since 20 pairs without a loop show little of their consensus;
- if its agreement with the consensus is below `BLIND` and its 95% interval contains 0;
- if it ranks against the others: its answers count, sign-flipped, but rely on the others being right;
- if all its questions of a wave failed.

If that leaves none, all continue whose questions did not fail. Few comparisons without a loop of texts do not
distinguish noise from taste, so the estimated noise is averaged with the variance of the two orders of a pair, as if
that had `DOUBT` degrees of freedom. Everything depends on the answers only, not on when they came.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from comparo.analysis.sequential import SURE, either, log_evidence, log_pair_evidence
from comparo.data.comparisons import Comparisons
from comparo.judges import Judgement
from comparo.methods import quiet_fit
from comparo.model.estimators.panel_covariance import Panel
from comparo.model.estimators.voice import VoiceModel
from comparo.model.inference.choices import Choices
from comparo.ranking.display import BLIND
from comparo.rounding import first_best
from comparo.run.voices import comparisons
from comparo.types import Array

logger = logging.getLogger(__name__)

PILOT = 40  # questions to each voice before voices are compared: 20 pairs in both orders; the model needs 30
GROWTH = 1.5  # factor by which the spending grows between two decisions
STEPS = 64  # parts of the next spending, which are allocated one by one
DOUBT = 8.0  # degrees of freedom at which a variance has a relative error of √(2/8) = ½
SPARED = 1e-9  # the share of a paused voice: it is asked only where the others were asked everything
REACH = 1.96  # standard errors on either side of an estimate, for 95%


GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0  # k·golden mod 1 is spread evenly over (0, 1) for every number of k

Ask = tuple[Any, Any, str]


class Source(Protocol):
    """What chooses pairs: a `Selector`, `SystemPairs` that compare groups, or with several voices a `Chorus`."""

    @property
    def remaining(self) -> int:
        """How many pairs can still be asked."""

    def next(self, batch: int) -> Sequence[tuple[Any, ...]]:
        """The next pairs."""

    def observe(self, data: Any) -> None:
        """Learn from answers (first, second, p, weight)."""


class VoiceShares(dict[str, float]):
    """The part of the next questions that each voice gets; `decided` is False while all are asked the same pairs."""

    decided = False

    def choose(self, point: float) -> str:
        """The voice whose interval contains `point`, where the shares divide (0, 1) into intervals.

        >>> shares = VoiceShares(ana=0.75, bo=0.0, cy=0.25)
        >>> [shares.choose(point) for point in (0.1, 0.7, 0.8)]
        ['ana', 'ana', 'cy']
        """
        active = [voice for voice, share in self.items() if share > 0]
        left = point * sum(self.values())
        for voice in active[:-1]:
            left -= self[voice]
            if left < 0:
                return voice
        return active[-1]


class Chorus:
    """Chooses pairs of a context by a selector, and the voice of each by the current shares.

    The context's `number` lets contexts of few questions use different voices first. `given` are earlier questions.
    Before the shares are decided, each pair goes to `alike` voices; None: to all.

    >>> from comparo.selection.selector import Selector
    >>> shares = VoiceShares(ana=0.5, bo=0.5)
    >>> chorus = Chorus(Selector(["x", "y", "z"], orders="one", seed=0), shares)
    >>> first = chorus.next(4)
    >>> len({(first, second) for first, second, _ in first}), chorus.remaining
    (2, 2)
    >>> shares.decided, shares["bo"] = True, 0.0
    >>> [voice for *_, voice in chorus.next(1)], chorus.remaining
    (['ana'], 0)
    """

    def __init__(
        self,
        selector: Source,
        shares: VoiceShares,
        number: int = 0,
        given: Sequence[Ask] = (),
        alike: int | None = None,
        is_both: bool = False,
    ) -> None:
        self._selector, self._shares, self._alike = selector, shares, alike or len(shares)
        self._total = selector.remaining
        self._pairs: list[tuple[Any, Any]] = []
        self._asked: Mapping[str, set[tuple[Any, Any]]] = {voice: set() for voice in shares}
        self._queue: list[Ask] = []
        self._steps = self._teams = number
        seen: set[tuple[Any, Any]] = set()
        for first, second, voice in given:
            if is_both or (second, first) not in self._asked.get(voice, ()):  # one order of a pair is enough
                self._pairs += [] if (first, second) in seen else [(first, second)]
                seen.add((first, second))
                if voice in self._asked:  # else a judge before it changed
                    self._ask((first, second), voice)

    @property
    def remaining(self) -> int:
        """How many questions can still be asked of voices that have a share."""
        return len(self._queue) + sum(self._total - len(self._asked[voice]) for voice in self._active)

    @property
    def _active(self) -> list[str]:
        return [voice for voice, share in self._shares.items() if share > 0]

    def next(self, batch: int) -> list[Ask]:
        """The next questions: the items shown first and second, and the voice."""
        while len(self._queue) < batch:
            missing = batch - len(self._queue)
            alike = 1 if self._shares.decided else min(self._alike, len(self._active))
            new = min(-(-missing // alike), self._selector.remaining)
            pairs = self._selector.next(new) if new else []
            self._pairs += pairs
            if not pairs:
                self._queue += self._again(missing)
            elif self._shares.decided:
                self._queue += self._divided(pairs)
            else:
                self._queue += [self._ask(pair, voice) for pair in pairs for voice in self._team(pair, alike)]
        asks, self._queue = self._queue[:batch], self._queue[batch:]
        return asks

    def observe(self, data: Any) -> None:
        """Let the choice of pairs learn from answers."""
        self._selector.observe(data)

    def _ask(self, pair: tuple[Any, Any], voice: str) -> Ask:
        self._asked[voice].add(pair)
        return *pair, voice

    def _divided(self, pairs: Sequence[tuple[Any, Any]]) -> list[Ask]:
        """Assign each new pair to one voice: that of its other order, if it was asked, else the next by the shares."""
        asks = []
        for first, second in pairs:
            known = [voice for voice in self._active if (second, first) in self._asked[voice]]
            asks.append(self._ask((first, second), known[0] if known else self._turn()))
        return sorted(asks, key=lambda ask: list(self._shares).index(ask[2]))

    def _team(self, pair: tuple[Any, Any], size: int) -> list[str]:
        """The voices of a new pair: those of its other order, if it was asked, else the next team of this size.

        Team k begins with voice k and goes on in steps of 1, then of 2 and so on: any two voices meet.
        """
        active = self._active
        count = len(active)
        if size == count:
            return active
        if known := [voice for voice in active if pair[::-1] in self._asked[voice]]:
            return known
        turns, begin = divmod(self._teams, count)
        step = 1 + turns % (count - 1)
        self._teams += 1
        places = [begin + by * number for by in (step, 1) for number in range(count)]
        team = dict.fromkeys(active[place % count] for place in places)
        return list(team)[:size]

    def _again(self, wanted: int) -> list[Ask]:
        """Pairs that were asked before, for voices that were not asked them."""
        asks = []
        for _ in range(wanted):
            voice = self._turn()
            if len(self._asked[voice]) == self._total:
                voice = next(voice for voice in self._active if len(self._asked[voice]) < self._total)
            asks.append(self._ask(next(pair for pair in self._pairs if pair not in self._asked[voice]), voice))
        return asks

    def _turn(self) -> str:
        self._steps += 1
        return self._shares.choose(self._steps * GOLDEN % 1.0)


class Allocation:
    """The shares of the voices, given what each question to a voice costs (nan: unknown).

    >>> allocation = Allocation({"ana": math.nan, "bo": math.nan}, "joint")
    >>> allocation.shares, allocation.shares.decided
    ({'ana': 0.5, 'bo': 0.5}, False)
    """

    def __init__(self, costs: Mapping[str, float], bias: str) -> None:
        self.shares = VoiceShares(dict.fromkeys(costs, 1.0 / len(costs)))
        is_known = all(cost > 0 for cost in costs.values())
        self._prices = dict(costs) if is_known else dict.fromkeys(costs, 1.0)
        self._bias = bias
        self._failing: set[str] = set()
        self._looked_at = 0.0
        self._is_decided = False
        self._sure_after = math.inf  # questions to the first voice that showed an order of the texts
        self.is_fixed = False  # True: every voice is asked the same pairs to the end

    def decide(self, all_answers: list[Judgement], last_wave: list[Judgement]) -> None:
        """Update the shares after a wave, given all judgements so far, including failures."""
        for voice in self._prices:
            answers = [one.failed for one in last_wave if one.question.voice == voice]
            if answers and all(answers):
                self._failing.add(voice)
        left = [voice for voice in self._prices if voice not in self._failing]
        if not left:
            return
        asked = dict.fromkeys(self._prices, 0)
        for one in all_answers:
            asked[str(one.question.voice)] += 1
        spent = sum(asked[voice] * price for voice, price in self._prices.items())
        least = min(asked[voice] for voice in left)
        is_due = spent >= GROWTH * self._looked_at and least >= PILOT
        if len(left) > 1 and is_due and not self.is_fixed:
            self._looked_at = spent
            self._share(all_answers, asked, left)
        for voice in self._failing:
            self.shares[voice] = 0.0
        if not any(self.shares.values()):
            self.shares.update(dict.fromkeys(left, 1.0 / len(left)))

    def _share(self, answers: list[Judgement], asked: Mapping[str, int], left: list[str]) -> None:
        data = comparisons(one for one in answers if one.question.voice in left)
        own = _by_voice(data)
        ordered = {voice: log_evidence(rows) for voice, rows in own.items()}
        sure = [voice for voice, evidence in ordered.items() if evidence >= math.log(SURE)]
        self._sure_after = min([self._sure_after, *(asked[voice] for voice in sure)])
        if not self._is_decided:
            most = PILOT * max(self._prices[voice] for voice in left)
            unsure = [voice for voice in left if voice not in sure]
            unpaid = [voice for voice in unsure if asked[voice] * self._prices[voice] < most]
            if unpaid or not sure:
                self._go_on(unpaid or left)
                return
        panel = quiet_fit(data, "panel", bias="joint" if self._bias == "joint" else "none").solution.panel
        if panel is None:
            return
        place = {str(name): number for number, name in enumerate(panel.names)}
        known = [voice for voice in left if voice in place]  # the others failed too often to be compared
        least = math.log(SURE) if self._is_decided else 0.0
        shown = {voice: either(ordered[voice], log_pair_evidence(own[voice])) for voice in known}
        mute = {voice: shown[voice] < least and asked[voice] >= self._sure_after for voice in known}
        useless = {voice: _useless(panel, place[voice], mute[voice]) for voice in known}
        used = [voice for voice in known if not useless[voice]] or known
        for voice in known:
            if voice not in used and self.shares[voice] > 0:
                logger.warning("%s gets no more questions: %s.", voice, useless[voice])
        prices = np.array([self._prices[voice] for voice in used])
        calls = np.array([asked[voice] for voice in used], dtype=float)
        places = np.array([place[voice] for voice in used])
        found = _divided(panel, places, prices, calls, self._looked_at)
        shares = dict.fromkeys(self.shares, 0.0)
        shares.update(zip(used, found.tolist(), strict=True))
        self.shares.update(shares)
        self.shares.decided = self._is_decided = True

    def _go_on(self, voices: list[str]) -> None:
        """Continue with some voices before a decision: where prices differ, with equal money for each."""
        if len(set(self._prices.values())) > 1:
            wanted = {voice: 1.0 / self._prices[voice] for voice in voices}
            self.shares.update(dict.fromkeys(self.shares, SPARED) | wanted)
            self.shares.decided = True


def _by_voice(data: Comparisons) -> dict[str, Comparisons]:
    labels = [] if data.judges is None else data.judges.tolist()
    own = {str(label): data.take(data.judged_by == number) for number, label in enumerate(labels)}
    return {voice: replace(rows, judges=None, judge=None) for voice, rows in own.items()}


def _useless(panel: Panel, place: int, is_mute: bool) -> str:
    """Why a voice gets no more questions; "" where it gets more."""
    loading, reach = float(panel.loading[place]), REACH * float(panel.loading_error[place])
    if is_mute:
        return "its answers do not show that the texts differ"
    if panel.reversed[place]:
        return "it ranks against the other voices"
    is_blind = loading < min(BLIND, reach) and not panel.undecided[place]
    return "it tells next to nothing of what the other voices agree on" if is_blind else ""


def _divided(panel: Panel, places: Array, prices: Array, calls: Array, money: float) -> Array:
    """The shares (R,) of R voices in the questions that `money` buys, after `calls` (R,) questions so far."""
    voices = [panel.voices[place] for place in places]
    content = np.array([voice.content for voice in voices])
    variance = np.array([voice.variance for voice in voices])
    known = np.array([np.sum(voice.c) * _known_noise(voice) for voice in voices])
    signal = variance * (known / panel.calls[places])
    same = panel.family[places][:, None] == panel.family[places]
    largest = np.max(np.where(same, content, 0.0), axis=1)
    rho = panel.loading[places] ** 2 * content / largest
    about_a_text = 2.0 / panel.graph.nodes  # questions about each text, per question
    given, step = np.zeros(len(places)), money / STEPS
    for _ in range(STEPS):
        told = same @ (signal * (calls + given) * about_a_text)
        gain = rho * signal / (1.0 + (1.0 - rho) * told) ** 2
        best = int(first_best(gain / prices))
        given[best] += step / prices[best]
    return given / np.sum(given)


def _known_noise(voice: VoiceModel) -> float:
    """The estimated noise φ of a voice divided by its averaged noise φ'; 1 for choices or without pairs in both orders.

    φ' = (f·φ + `DOUBT`·w) / (f + `DOUBT`), with f the number of loops of its comparisons and w the variance of half
    of the sum of both orders, per answer.
    """
    if isinstance(voice.model, Choices) or not np.any(voice.model.observations.sum_weight):
        return 1.0
    first, second = voice.pattern.first, voice.pattern.second
    nodes, ends = np.unique(np.concatenate([first, second]), return_inverse=True)
    one, other = ends.reshape(2, -1)
    graph = sparse.coo_array((np.ones(len(one)), (one, other)), shape=(len(nodes), len(nodes)))
    loops = len(one) - len(nodes) + sparse.csgraph.connected_components(graph, directed=False)[0]
    reckoned = (loops * voice.noise + DOUBT * voice.model.observations.sum_variance) / (loops + DOUBT)
    return float(voice.noise / reckoned)
