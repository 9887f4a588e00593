"""The numbers that steer the solvers: sizes at which the way of solving changes, tolerances, and numbers of draws.

None of them is part of the model: other values give the same estimates more slowly, less accurately or in more memory.
A `Pattern` carries the limits to everything that is computed from it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Each number with its source: a measurement (on one core of a server), a derivation, or a unit.

    >>> Limits(exact=100).exact, LIMITS.exact
    (100, 4096)
    """

    # Contexts of at most so many unknowns are solved as batches of dense matrices. Measured on 20,000 items with five
    # comparisons each: contexts of 64 items take 34 ms dense and 66 ms by conjugate gradients to 1e-12, of 128 items
    # 83 and 68 ms.
    batched: int = 64
    # Largest context whose covariance is a dense inverse, N × N. Measured: 128 MB and 3 s for 4096 items.
    exact: int = 4096
    batch_entries: int = 4_000_000  # of one batch of dense matrices: 32 MB
    kept_entries: int = 32_000_000  # of the covariances that stay in memory: 256 MB
    panel: int = 1 << 15  # nodes whose scores are read together: 256 kB, which fits into a core's cache
    chunk: int = 1 << 15  # comparisons evaluated together: temporary arrays of 256 kB

    # Conjugate gradients. They need about √(condition number) steps; above this the graph is near to a tree, for which
    # the sparse factorisation has little fill.
    gradient_steps: int = 500

    # Newton's method. Soft answers take 3 to 8 steps; 200 are reached only by experts that are not concave.
    newton_steps: int = 200
    accuracy: float = 1e-8  # of a score, as gradient / curvature; standard errors below 1e-3 do not occur in practice
    rounding: float = 1e-12  # of a gradient, relative to the curvature at the start: sums of 1e4 terms round to this
    last_step: float = 1e-6  # largest step that ends the iteration where curvatures differ by more than `even`
    even: float = 1e3  # up to this ratio of curvatures a gradient within `accuracy` leaves an error below 1e-5

    zermelo_iterations: int = 100_000  # 1 s for 100 comparisons; a chain of n items needs about n²

    # Estimated variances (`pooling`). Measured with groups and features: 3 to 8 rounds settle to 5%, which is far below
    # the standard error of a variance from 100 items, 14%.
    pooling_rounds: int = 20
    pooling_change: float = 0.05  # of a variance, relative
    pooled_entries: int = 20_000_000  # of the matrix of groups: 160 MB
    bias_rounds: int = 4  # in which mean and variance of the biases settle; each reduces the change about tenfold

    # Random vectors. Hutchinson's estimate of a trace over n items has the relative error √(2 / (n·probes)) at most
    # where the matrix is near to diagonal: 9% for 64 items and 4 probes, 0.6% for 4096 items and 16.
    trace_probes: int = 4
    determinant_probes: int = 16
    lanczos_steps: int = 50  # measured: 0.15% of log det for 600 items with ten comparisons each
    error_draws: int = 64  # relative error 1/√(2·64) = 9% of the part of a variance that is drawn
    error_columns: int = 8  # of them solved together: as many as the CPU's vector instructions process at once

    # Ranks by simulation: the standard error of a probability is at most 1/√(4·1000) = 0.016.
    rank_draws: int = 1000
    compared: int = 32  # items up to which it is faster to compare all with all than to sort each draw (measured)
    drawn_entries: int = 4_000_000  # of one array of drawn scores: 32 MB

    # Expected agreement with the true ranking (`comparo.analysis.posterior`).
    correlated: int = 256  # items of a context up to which the correlation of errors counts: N³ = 0.1 s at 256
    evidence_rounds: int = 8
    evidence_change: float = 0.02  # of the scores, relative: correlations then change by less than 0.001
    variance_steps: int = 5  # each step goes one comparison further from an item; five reach all of a graph of 4^5
    sharing_rounds: int = 50  # of expectation and maximisation, which approach the maximum slowly
    agreement_draws: int = 256  # standard error of a mean correlation of at most 0.01
    agreement_entries: int = 500_000  # of one array of draws: 4 MB


LIMITS = Limits()
