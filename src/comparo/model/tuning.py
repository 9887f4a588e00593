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

    # Newton's method. Measured for Bradley–Terry on 8 to 1000 items, soft and hard: at most 10 steps; experts that are
    # not concave may need more.
    newton_steps: int = 200
    accuracy: float = 1e-8  # of a score, as gradient / curvature: far below any standard error
    rounding: float = 1e-12  # of a gradient, relative to the curvature at the start: 1e4 roundings of 1e-16
    last_step: float = 1e-6  # largest step that ends the iteration where curvatures differ by more than `even`
    even: float = 1e3  # ratio of curvatures up to which a gradient within `accuracy` leaves errors of at most 1e-5

    # Measured: 12 s for 100 comparisons; chains of 10, 20 and 40 items need 604, 3769 and 21,291 iterations.
    zermelo_iterations: int = 100_000
    zermelo_error: float = 0.05  # of a score that has arrived, in logits: a tenth of the error of 16 decisions

    # Estimated variances (`spectrum`, `mixed`). An eigenvector decomposition of 256 items takes 20 ms. Measured against
    # 60 steps and 64 vectors on 400 to 5000 items: variances within 1% for three or more comparisons per item, within
    # 3% for fewer, a tenth of their standard error.
    spectral: int = 256
    krylov_steps: int = 15
    krylov_probes: int = 8
    krylov_entries: int = 20_000_000  # of the basis: 160 MB
    mixed_rounds: int = 80  # measured for choices: 4 to 40, for soft answers 1 to 4
    mixed_change: float = 0.02  # of the logarithm of a variance, whose standard error is 0.14 for 100 items
    shared_entries: int = 20_000_000  # of the matrix of groups: 160 MB
    bias_rounds: int = 4  # measured: the fourth changes a bias by less than 1e-5

    # Greedy choice of pairs (`comparo.selection.greedy`).
    candidates: int = 4096  # pairs of largest gain whose gains are kept up to date: 32 kB
    pending: int = 128  # updates of the covariance that are collected before it is passed over: 4 MB for 4096 items
    gain_rows: int = 64  # rows of the covariance that are processed together: 2 MB for 4096 items, within the cache

    # Random vectors. Hutchinson's estimate of a trace over n items has a relative error of about √(2 / (n·probes)) or
    # less where eigenvalues are alike: 9% for 64 items and 4 probes, 0.6% for 4096 items and 16.
    determinant_probes: int = 16
    lanczos_steps: int = 50  # measured: 0.15% of log det for 600 items with ten comparisons each
    error_draws: int = 64  # relative error 1/√(2·64) = 9% of the part of a variance that is drawn
    error_columns: int = 8  # solved together; measured on 6000 items: 1.4 s one by one, 0.9 s by 8, 0.7 s by 16 or more

    # Ranks by simulation: the standard error of a probability is at most 1/√(4·1000) = 0.016.
    rank_draws: int = 1000
    # Items up to which all are compared with all instead of sorted. Measured for 20 contexts: 4 against 19 ms with 16
    # items, 38 against 29 ms with 32.
    compared: int = 32
    drawn_entries: int = 4_000_000  # of one array of drawn scores: 32 MB

    # Expected agreement with the true ranking (`comparo.analysis.confidence`).
    correlated: int = 256  # items up to which errors are correlated; measured: an eigenbasis of 256 takes 20 ms
    # Change of the scores, relative, that ends the rounds. Measured against 1e-6: the mean correlation over 20 contexts
    # differs by at most 0.0001 for soft answers and 0.009 for decisions (in single contexts by up to 0.002 and 0.07).
    evidence_change: float = 0.02
    evidence_rounds: int = 8
    variance_steps: int = 5  # each step takes in the items one comparison further away
    sharing_rounds: int = 50  # of expectation and maximisation; measured: 1000 change a correlation by less than 0.001
    agreement_draws: int = 256  # standard error of a mean correlation of at most 0.01
    agreement_entries: int = 500_000  # of one array of draws: 4 MB


LIMITS = Limits()
