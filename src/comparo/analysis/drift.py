"""Is it still the same judge? A test on answers to the same questions, old and new, that may be looked at at any time.

A question has one old answer and m new ones, v_0, v_1 … v_m in logits. If the judge is the same, all m + 1 are draws of
one law, and which of them is the old one is a fair lottery. A bettor who predicts the old one with probability q wins
the factor

    (m + 1)·q(old | the values, without their labels),    q_j ∝ exp(θ₁·odd_j + θ₂·first_j + θ₃·order_j + θ₄·near_j).

    odd_j    log((|v_j − mean of the others| + τ) / (range of the others + τ)): is j an outlier?
    first_j  (v_j − mean of the others) / range of all: does j favour the text shown first?
    order_j  first_j·2f/(1 + |f|), with f the difference of the texts by other old answers: does j favour their order?
    near_j   −log(|v_j − f − γ| + ½), with γ the position bias of other old answers: is j what they predict?

The evidence E is the mean of the bettors' capitals over a grid of θ. If the judge is the same, the chance that E ever
reaches 1/α is at most α (Ville), whatever its noise. A change of a judge without noise is found by `odd` after four or
five questions; with noisy decisions it takes many more. Questions whose values are all within τ are ignored: rounding
depends on the server's batches, and may be the same in all new answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from scipy.special import fdtri, logsumexp

from comparo.analysis.sequential import ROUNDING
from comparo.types import Array

ALARM = 0.05  # the chance of a false alarm, at most
# τ in logits. Rounding of bfloat16 moves answers by 0.06 on average (docs/measurements/speed.md); if it moves all new
# answers alike, 2% of checks are false alarms (python -m benchmarks.drift), and with τ = 0.1 more than half would be.
TOLERANCE = 0.15
ROUNDED = TOLERANCE**2 / 12  # the variance of an answer that is rounded to steps of τ
ODD, LEANING, NEAR = (0.0, 1.0, 2.0), (-1.5, 0.0, 1.5), (0.0, 1.5)  # θ₁; θ₂ and θ₃, zero twice as probable; θ₄
REACH = 1.96  # standard errors on either side of an estimate, for 95%
NEARBY = 0.5  # logits, the error of a prediction by a fit to few answers
FEWEST = 4  # questions for an estimate of what changed


@dataclass(frozen=True, eq=False)
class Drift:
    """Old and new answers to the same questions, in the order they were asked.

    Parameters
    ----------
    old : The old answers, in logits (n,).
    new : The new answers to each question, (n, m).
    expected : The difference f of the texts by other old answers, in logits (n,); zero where unknown.
    leaning : The position bias γ of other old answers.
    models : The names of the model in old replies, and those in new replies that are not among them.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> old = rng.normal(size=20)
    >>> same, other = (Drift(old, np.stack([new, new], axis=1), np.zeros(20)) for new in (old, old + 1))
    >>> same.is_changed, other.is_changed, other.alarm_after
    (False, True, 8)
    """

    old: Array
    new: Array
    expected: Array
    leaning: float = 0.0
    models: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def calls(self) -> int:
        """How many new answers there are."""
        return int(self.new.size)

    @cached_property
    def evidence(self) -> Array:
        """E after each question, (n,): how many times as probable the labels are to bettors as to a fair lottery."""
        theta = np.array(list(product(ODD, LEANING, LEANING, NEAR)))
        prior = np.prod(np.where(theta[:, 1:3] == 0, 2.0, 1.0), axis=1)
        scores = np.einsum("gk,knj->gnj", theta, self._features)
        won = scores[:, :, 0] - logsumexp(scores, axis=2) + np.log(scores.shape[2])
        capital = np.cumsum(won, axis=1) + np.log(prior / prior.sum())[:, None]
        return np.asarray(np.exp(logsumexp(capital, axis=0)))

    @cached_property
    def _features(self) -> Array:
        """odd, first, order and near of each answer of each question, (4, n, m + 1); the old one is the first."""
        values = np.column_stack([self.old, self.new])
        others = [np.delete(values, place, axis=1) for place in range(values.shape[1])]
        apart = values - np.column_stack([np.mean(rest, axis=1) for rest in others])
        ranges = np.column_stack([np.ptp(rest, axis=1) for rest in others])
        whole = np.ptp(values, axis=1)[:, None]
        odd = np.log((np.abs(apart) + TOLERANCE) / (ranges + TOLERANCE))
        first = apart / np.maximum(whole, TOLERANCE)
        f = self.expected[:, None]
        order = first * 2 * f / (1 + np.abs(f))
        near = -np.log(np.abs(values - f - self.leaning) + NEARBY)
        return np.where(whole > TOLERANCE, np.stack([odd, first, order, near]), 0.0)

    @property
    def alarm_after(self) -> int | None:
        """The number of calls after which E reached 1/α; None where it did not."""
        reached = np.flatnonzero(self.evidence >= (1 - ROUNDING) / ALARM)
        return int(reached[0] + 1) * self.new.shape[1] if len(reached) else None

    @property
    def is_changed(self) -> bool:
        """Whether the judge has changed: by its answers, or by the name that the server gives its model."""
        return self.alarm_after is not None or bool(self.models[1])

    @cached_property
    def bias(self) -> tuple[float, float, float]:
        """The change of the bias for the text shown first, new less old, with its 95% interval.

        In logits; of a judge that decides, in shares of decisions, whose logits are only a clipping limit.
        """
        return self._coefficient(0)

    @property
    def decides(self) -> bool:
        """Whether all answers are decisions: ± one and the same logit, or 0 for a tie."""
        size = np.abs(np.column_stack([self.old, self.new]))
        return bool(np.all((size == 0) | (np.abs(size - np.max(size)) < ROUNDING)))

    @cached_property
    def sharpness(self) -> tuple[float, float, float]:
        """The relative change of the slope of answers on f, new against old, with its 95% interval."""
        scale = self._line(self._measured[0])[0][1]
        shift, low, high = (value / abs(scale) if scale else np.nan for value in self._coefficient(1))
        return shift, low, high

    @property
    def noise(self) -> float:
        """The standard deviation of new answers to one question, in logits; NaN where each was asked once."""
        if self.new.shape[1] < 2:
            return float("nan")
        variance = np.mean(np.var(self.new, axis=1, ddof=1))
        return float(np.sqrt(variance))

    @property
    def changes(self) -> tuple[str, ...]:
        """The significant changes, in words, if the judge has changed; else ()."""
        if not self.is_changed:
            return ()
        found = []
        before, now = self.models
        if now:
            found.append(f"the server's model: {', '.join(before) or 'not named'} before, {', '.join(now)} now")
        if len(self.old) < FEWEST:
            return tuple(found)
        if self.bias[1] > 0 or self.bias[2] < 0:
            unit, size = ("{:+.0f}", 100) if self.decides else ("{:+.2f}", 1)
            value, low, high = (unit.format(size * each) for each in self.bias)
            gain = f"{value} {'percentage points' if self.decides else 'logits'} ({low} to {high})"
            found.append(f"position bias: the text shown first gains {gain}")
        if self.sharpness[1] > 0 or self.sharpness[2] < 0:
            found.append("sharpness: differences count {:+.0%} ({:+.0%} to {:+.0%})".format(*self.sharpness))
        more, less = self._unexplained
        if less:
            found.append(f"noise: new answers to one question have a standard deviation of {self.noise:.2f} logits")
        elif more:
            found.append(f"order of texts: correlation {self._correlation:.2f} of old and new answers")
        return tuple(found) or ("single answers: none of bias, sharpness, noise and order alone",)

    @property
    def sentence(self) -> str:
        """The verdict."""
        if self.is_changed:
            after = self.alarm_after or self.calls
            return f"the judge has changed (seen after {after} calls): {'; '.join(self.changes)}"
        most = float(np.max(self.evidence, initial=1.0))
        return (
            f"no change of the judge was found in {self.calls} calls on {len(self.old)} questions (evidence {most:.2g} "
            f"of {1 / ALARM:.0f})"
        )

    @property
    def _measured(self) -> tuple[Array, Array]:
        """The old and new answers in logits; decisions are ½ and −½, so that their differences are shares."""
        return (np.sign(self.old) / 2, np.sign(self.new) / 2) if self.decides else (self.old, self.new)

    @property
    def _correlation(self) -> float:
        mean = np.mean(self.new, axis=1)
        both = np.std(mean) > 0 and np.std(self.old) > 0
        return float(np.corrcoef(self.old, mean)[0, 1]) if both else float("nan")

    def _line(self, values: Array) -> tuple[Array, Array, Array]:
        """The least-squares line of values (n,) on f: its two coefficients, their standard errors, the residuals."""
        f = self.expected
        design = np.column_stack([np.ones(len(f)), f]) if np.std(f) > 0 else np.ones((len(f), 1))
        found, *_ = np.linalg.lstsq(design, values, rcond=None)
        left = values - design @ found
        variance = max(float(left @ left) / max(len(f) - design.shape[1], 1), ROUNDED)
        errors = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
        return np.append(found, 0.0)[:2], np.append(errors, 0.0)[:2], left

    def _coefficient(self, place: int) -> tuple[float, float, float]:
        old, new = self._measured
        found, errors, _ = self._line(np.mean(new, axis=1) - old)
        value, reach = float(found[place]), REACH * float(errors[place])
        return value, value - reach, value + reach

    @property
    def _unexplained(self) -> tuple[bool, bool]:
        """Whether old and new answers differ more, and less, than new ones among themselves, by F tests."""
        n, m = self.new.shape
        if m < 2:
            return False, False
        left = self._line(np.mean(self.new, axis=1) - self.old)[2]
        chance = (1 + 1 / m) * max(self.noise**2, ROUNDED)
        ratio = max(float(left @ left) / (n - 2), ROUNDED) / chance
        degrees = n - 2, n * (m - 1)
        return ratio > float(fdtri(*degrees, 1 - ALARM)), ratio < float(fdtri(*degrees, ALARM))
