"""The product of Davidson's experts: scores and the tie parameter ν of each judge, found in turn.

Given the scores, ν of a judge is the root of Σ w·P(tie) = the weight of its ties (`ties`); given ν, the scores are the
maximum of a product of experts (`product`). Both steps increase the same log-density, which has one maximum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from comparo.data.comparisons import Comparisons
from comparo.model.estimators.poe import Bias, Product, multiply
from comparo.model.likelihoods.davidson import answer_moments, first_parameters, next_parameters, tie_totals
from comparo.model.likelihoods.experts import BradleyTerry, Davidson
from comparo.model.tuning import LIMITS, Limits

ROUNDS = 100  # measured: 5 to 15 with ten or more answers per item, up to 60 with two
NEAR = 1e-6  # of log ν: far below its standard error
STEPS = 50  # of log ν given the scores; Newton's method needs about five


def davidson(
    comparisons: Comparisons,
    *,
    prior: float | Literal["first"] = 10.0,
    bias: Bias = "none",
    is_scaled: bool = False,
    limits: Limits = LIMITS,
) -> Product:
    """The product of Davidson's experts at its maximum, with ν by judge; p is 1, 0 or, for a tie, ½.

    Arguments as for `comparo.model.estimators.poe.multiply`. Without ties it is the product of Bradley–Terry experts.

    >>> rows = [("a", "b", 1.0), ("a", "b", 0.5), ("b", "a", 0.5), ("b", "a", 1.0)]
    >>> float(np.round(davidson(Comparisons.from_rows(rows)).expert.nu, 3))     # equals, half of whose answers are ties
    2.0
    """
    judge = comparisons.judged_by
    tied, asked = tie_totals(comparisons.p, comparisons.weights, judge, int(judge.max()) + 1)
    if not tied.any():
        return multiply(comparisons, BradleyTerry(), prior=prior, bias=bias, is_scaled=is_scaled, limits=limits)
    nu = first_parameters(tied, asked)
    settled = False
    for _ in range(ROUNDS):
        expert = Davidson(float(nu[0]) if len(nu) == 1 else nu[judge])
        product = multiply(comparisons, expert, prior=prior, bias=bias, is_scaled=is_scaled, limits=limits)
        before, d = nu, product.differences(slice(None))
        for _ in range(STEPS):
            last, nu = nu, next_parameters(nu, tied, answer_moments(d, nu[judge])[2], comparisons.weights, judge)
            if np.max(np.abs(nu - last)) <= NEAR * np.max(nu):
                break
        settled = bool(np.all(np.abs(nu - before) <= NEAR * before))
        if settled:
            break
    return replace(product, converged=product.converged and settled)
