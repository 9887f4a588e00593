"""Doubt about what style expects: the further from the mean, the less it is believed.

A judge that is sure decides all choices about an extreme text the same way, so that its choices cannot correct what its
style expects of it. And what style expects is least certain there: a feature of a text saturates, as the share p of
words of a kind does, whose logit η has the variance 1/(N·p(1 − p)) ∝ cosh²(η/2) = 1 + η²/4 + … from N words. Choices
do not show it, since they tell little about extreme texts. So with m_i what style expects of candidate i,

    s_i ~ N(m_i + …, σ²·h_i),    h_i = 1 + m_i²/(v + π²/(3k)),

with v the variance of all scores, σ² and what is expected, and π²/(3k) that of the noise of the k choices about a
candidate, on average: where scores vary less than this noise, what style expects is not known to be extreme. Of a sure
judge candidates vary by twice σ² around an expectation at one standard deviation of the scores. Where style explains
little, h is about 1. σ² stays as it was estimated with h = 1: h is caution, not an estimate, and narrows no interval.
That it is 1 for each m²/v was chosen by simulated judges whose style saturates and such whose style does not
(docs/fitting.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from comparo.model.estimators.voice import LOGISTIC
from comparo.model.inference.choices import Choices
from comparo.model.inference.reml import Variances
from comparo.model.inference.solution import Shared, differences, solve
from comparo.model.linalg.spectrum import Spectrum
from comparo.types import Array


def doubted(model: Choices, variances: Variances, shared: Shared) -> tuple[Choices, Variances, int, bool]:
    """The settled model with doubt about its style, whose sites settle again; as `Choices.settle`, σ² as it was."""
    limits = model.pattern.limits
    found = doubt(variances, shared, 2.0 * float(np.sum(model.weight)) / model.pattern.graph.nodes)
    if np.max(np.log(found)) < limits.mixed_change:
        return model, variances, 0, True
    model = replace(model, doubt=found)
    mean = np.zeros(len(model.c))
    for step in range(limits.mixed_rounds):
        variances = replace(variances, spectrum=Spectrum.of(model.system, shared.columns))
        before, (mean, variance) = mean, differences(*solve(model.system, variances, shared))
        if np.sqrt(np.mean((mean - before) ** 2)) < limits.mixed_change:
            return model, variances, step + 1, True
        model = model.learn(mean, variance)
    return model, variances, limits.mixed_rounds, False


def doubt(variances: Variances, shared: Shared, choices: float) -> Array:
    """h (n,) of what style expects, at the best variances, with so many `choices` about a candidate."""
    theta = variances.precision(variances.ratio)[1]
    own = np.array([kind == "style" for kind in shared.kinds])[shared.kind] & (shared.kind >= 0)
    expected = shared.columns[:, own] @ theta[own]
    total = variances.ratio + float(np.mean((shared.columns @ theta) ** 2)) + LOGISTIC / choices
    return np.asarray(1.0 + expected**2 / total)
