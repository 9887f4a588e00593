"""All tuning constants: thresholds and priors of the models, and sizes and tolerances of the solvers.

The constants change estimates. Each has its source: a derivation, a measurement, or simulated judges with seeds other
than those of the soundness grid (docs/measurements/soundness.md). docs/measurements/tuning.md has the effect of half
and double of each value. `Limits` are no part of the model: other values give the same estimates more slowly, less
accurately or in more memory. A `Pattern` passes the limits to everything that is computed from it.
"""

from __future__ import annotations

from dataclasses import dataclass

# Priors of products of experts. Standard deviation of scores in logits: it keeps scores finite for certain answers, and
# hardly changes others. WIDER is for soft answers, which vary less than coin flips and on which WIDE has more effect.
WIDE, WIDER = 10.0, 100.0
TIE_PRIOR = 1.0  # ties, and as many decisions, of each judge: P(tie between equals) is uniform between 0 and 1
LEAST_CAP = 4.6  # logit of 0.99: the smallest lower bound of the difference behind a saturated answer

# Variances of the mixed model (`reml`). Strength and end of the term that keeps the variance of scores from 0, and the
# ratio σ²/φ of the term that keeps the noise from 0, at which the standard deviation of scores is ten times that of the
# noise: chosen by simulated judges.
PULL, UNTIL, SUREST = 3.0, 4.0, 100.0
SHARED_PULL = 1.0  # the strength for groups and style: few groups estimate ω², and it matters less
# Standard deviations of scores in logits: between two items they make chances of 0.5075 and 0.99995.
NARROWEST, WIDEST = 0.03, 10.0
QUANTILES = 9  # of the confidence in σ²/φ over which scores are averaged

# Position effects (`position`, `soft`, `choices`).
CLEARLY = 0.95  # one minus the level of the tests for position effects of texts, in one order or both
SURELY = 0.999  # CLEARLY within a test of scores, whose level would be too high if the noise estimate changed often
TWICE = 2.0  # largest variance ratio of sums that count as noise: errors are then at most √2 times too wide
# Standard deviation τ of position effects, and that of log τ. With 1.25 and 0.7, √E τ² is 2: between equal texts a
# chance of 0.88.
SLOTS, SLOTS_ERROR = 1.25, 0.7
POSITION, POSITION_ERROR = 0.5, 1.0  # the same around the mean of a judge's contexts
# A list of winners and losers: least share of choices for the first text (a position bias of 4 logits makes it 0.95
# between texts of standard deviation 1), and by how many standard deviations texts are shown first too unevenly.
NEARLY_ALWAYS, UNEVEN = 0.98, 2.0

# Two peaks (`mixture`).
CLEAR = 20.0  # least Bayes factor of two peaks against one
UNIFORM = 0.25  # share of the variance within the halves of a uniform distribution; two peaks have less
RARE = 0.05  # largest share of choices against the higher peak; above it, choices determine the gap well
GAP = WIDEST / 2  # prior standard deviation of a gap: WIDEST is two of them

# Panels (`panel_members`, `panel`): the threshold of content was chosen on the panel sets (docs/panel.md).
FEW = 30  # comparisons below which a voice has no variances of its own: their logarithms would have errors above ¼
# Decisions of several voices together, per text, below which a panel has intervals that are too narrow: those of 2 to 4
# voices cover 74 to 90% at 2 to 6, 93 to 96% from 12 on (tests/test_doors.py).
ENOUGH = 12
LOADING_SPREAD = 0.3  # prior standard deviation of loadings: that of a uniform distribution on (0, 1)
USUAL_LOADING = 0.7  # of a voice without evidence: half of its view is shared, ρ² = ½
MOST_LOADING, LEAST_LOADING = 0.995, 0.05  # no voice equals the consensus, and none is uncorrelated with it
COPY = 0.97  # least correlation of the views of copies: they differ by 3% of a view
SURE_COPY = 0.85  # least lower end of the 95% interval of that correlation: few answers do not make copies
REVERSED = 0.025  # level of the one-sided test for a reversed voice: that of a 95% interval below 0
NEARLY = 2 / 3  # least content of a voice that enters the consensus, relative to the largest

# Choices (`reml`, `votes`). Standard deviation of scores in logits, and that of its logarithm: 29 recorded sets of
# people's votes and 11 machines that decide have a geometric mean of 1.19 and a standard deviation of 0.72 (python -m
# benchmarks.votes --spread), widened because few of the machines are very sure or hardly read.
SPREAD, SPREAD_ERROR = 1.2, 1.0
EQUAL = 0.5  # before any vote, the probability that all texts are equal: even odds of both hypotheses (Jeffreys 1961)
VARIES = 0.7  # standard deviation of log ω² and log σ² around the usual: a factor of 2 either way

# Prediction-powered leaderboards (`prediction_powered`).
NOTHING_NEW = 1e-3  # least share of a machine's answers beyond the voted pairs; below it the machine has no weight
# Prior degrees of freedom of the expected variance of a group, beside those of its own votes (Smyth 2004): with 10,
# true variances differ from the expected ones by √(2/10) = 45%. Coverage by simulation: docs/powered.md.
EXPECTED = 10.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Each number with its source: a measurement (on one core of a server), a derivation, or a unit.

    >>> Limits(exact=100).exact, LIMITS.exact
    (100, 4096)
    """

    # Most unknowns of a context that is solved in a batch of dense matrices. Measured on 20,000 items with five
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
