"""Whether answers are about the texts, pair by pair: against its integral, on noise, and on judges of several kinds."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit

from comparo import Comparisons
from comparo.analysis.sequential import COARSE, ROUNDED, SURE, either, log_evidence, log_pair_evidence
from split import one_short

SHAPES = {"a pair in each of 20 contexts": (20, 1), "20 pairs in one context": (1, 20), "a few of each": (6, 5)}


def answers(rng, contexts, pairs, kind="soft", spread=0.0, bias=0.0, bias_spread=0.0, effect=0.0):
    """Pairs that share no text, in both orders; `spread` of scores, position by context and by pair, noise of 1."""
    count = contexts * pairs
    context, number = np.repeat(np.arange(contexts), pairs), np.arange(count)
    d = math.sqrt(2.0) * spread * rng.standard_normal(count)
    position = bias + bias_spread * rng.standard_normal(contexts)[context] + effect * rng.standard_normal(count)
    both = np.concatenate([position + d, position - d])
    if kind == "soft":
        p = expit(both + rng.standard_normal(2 * count))
    else:
        p = (rng.random(2 * count) < expit(both)).astype(float)
    first, second = np.concatenate([2 * number, 2 * number + 1]), np.concatenate([2 * number + 1, 2 * number])
    return Comparisons.from_columns(first, second, p, context=np.concatenate([context, context]))


def told(p, turned):
    """20 pairs in as many contexts, with these answers, and `turned` in the other order."""
    data = answers(np.random.default_rng(0), 20, 1)
    values = np.where(data.first < data.second, p, turned)
    return Comparisons.from_columns(data.first, data.second, values, context=data.context)


def naive(data, least):
    """log B from the answers one by one, by numerical integration; weights are 1, and 0 < p < 1 or p is 0 or 1."""
    is_soft = bool(np.all((data.p > 0) & (data.p < 1)))
    answer = {(i, j): logit(p) if is_soft else p - 0.5 for i, j, p in zip(data.first, data.second, data.p, strict=True)}
    context = dict(zip(data.first, data.context, strict=True))
    halves = [((y - answer[j, i]) / 2, (y + answer[j, i]) / 2, context[i]) for (i, j), y in answer.items() if i < j]
    sums = {c: [m for _, m, own in halves if own == c] for c in context.values()}
    means = {c: sum(own) / len(own) for c, own in sums.items()}
    level = sum(len(own) * means[c] for c, own in sums.items()) / len(halves)
    differences = len(halves), sum(2 * d**2 for d, _, _ in halves)
    within = len(halves) - len(sums), sum(2 * (m - means[c]) ** 2 for _, m, c in halves)
    between = len(sums) - 1, sum(2 * len(own) * (means[c] - level) ** 2 for c, own in sums.items())
    phi = least * float(np.mean([y**2 for y in answer.values()]))
    unit = differences[1] / differences[0]

    def noise(n, square, log_phi):
        return math.exp(-0.5 * (n * log_phi + square / unit * math.exp(-log_phi)) + 0.5 * n)

    def more(n, square, log_phi):
        return quad(lambda r: noise(n, square, log_phi - 2 * math.log(r)), 0.0, 1.0, epsrel=1e-8)[0]

    def position(log_phi):
        parts = [part for part in (within, between) if part[0]]
        return math.prod((noise(*part, log_phi) + more(*part, log_phi)) / 2 for part in parts)

    ends = math.log(phi / unit), 12.0
    limits = {"epsrel": 1e-7, "limit": 400, "points": np.linspace(max(ends[0], -12.0), 12.0, 40)[1:-1]}
    numerator = quad(lambda u: more(*differences, u) * position(u), *ends, **limits)[0]
    return math.log(numerator / quad(lambda u: noise(*differences, u) * position(u), *ends, **limits)[0])


@pytest.mark.parametrize("kind", ["soft", "decisions"])
@pytest.mark.parametrize("shape", [(4, 1), (1, 5), (3, 2)])
@pytest.mark.parametrize("spread", [0.0, 2.0])
def test_the_evidence_of_pairs_is_its_integral(kind, shape, spread):
    data = answers(np.random.default_rng(5), *shape, kind, spread, bias=0.5, bias_spread=0.5)
    least = ROUNDED if kind == "soft" else COARSE
    assert log_pair_evidence(data) == pytest.approx(naive(data, least), abs=2e-3)


def test_many_pairs_do_not_overflow():
    """The incomplete gamma function of thousands of pairs underflows: Laplace's approximation is then exact enough."""
    found = [log_pair_evidence(answers(np.random.default_rng(1), 1, 20_000, spread=spread)) for spread in (0.0, 1.0)]
    assert -math.log(20_000) < found[0] < 0
    # Of differences with the variance (1 + 4)/2 and sums with ½, both of 20,000 degrees of freedom: ½·20,000·log(9/5).
    assert found[1] == pytest.approx(1e4 * math.log(9 / 5), rel=0.03)


@pytest.mark.parametrize("kind", ["soft", "decisions"])
@pytest.mark.parametrize("shape", one_short(SHAPES))
@pytest.mark.parametrize(
    "position",
    one_short([{"bias": 1.0}, {}, {"bias": 1.0, "bias_spread": 1.5}, {"effect": 1.0}]),
    ids=lambda each: str(each),
)
def test_pairs_are_an_even_bet_on_noise(kind, shape, position):
    rng = np.random.default_rng(0)
    found = np.exp([log_pair_evidence(answers(rng, *SHAPES[shape], kind, **position)) for _ in range(200)])
    assert np.mean(found >= SURE) <= 0.02  # at most 0.05 at any time
    assert 0.1 < np.mean(np.minimum(found, SURE)) < 1.2  # the expectation is 1, or less where position matters


@pytest.mark.parametrize("shape", SHAPES)
def test_pairs_show_a_consistent_judge_where_an_order_of_texts_shows_nothing(shape):
    rng = np.random.default_rng(0)
    for kind, spread in (("soft", 1.5), ("decisions", 4.0)):
        data = [answers(rng, *SHAPES[shape], kind, spread) for _ in range(20)]
        assert max(abs(log_evidence(each)) for each in data) < 1e-6
        few = np.mean([log_pair_evidence(each) for each in data])
        assert few > math.log(SURE)
        contexts, pairs = SHAPES[shape]
        more = [log_pair_evidence(answers(rng, 3 * contexts, pairs, kind, spread)) for _ in range(20)]
        assert np.mean(more) > 2 * few


def test_a_judge_who_is_lost_in_position_or_always_says_the_same_shows_nothing():
    rng = np.random.default_rng(0)
    for kind in ("soft", "decisions"):
        lost = [log_pair_evidence(answers(rng, 20, 1, kind, 0.3, bias_spread=3.0)) for _ in range(20)]
        assert max(lost) < 0
    different = np.tile(rng.uniform(0.1, 0.9, 20), 2)
    for p in (0.0, 0.5, 0.7, 1.0):
        assert log_pair_evidence(told(p, p)) < -0.5
    assert log_pair_evidence(told(different, different)) < 0
    assert 50 < log_pair_evidence(told(different, 1 - different)) < math.inf


def test_decisions_that_all_agree_are_worth_no_more_than_coins_that_do():
    for count in (3, 10, 20, 60):
        data = answers(np.random.default_rng(0), count, 1, "decisions")
        sure = np.where(data.first < data.second, 1.0, 0.0)
        found = log_pair_evidence(Comparisons.from_columns(data.first, data.second, sure, context=data.context))
        assert count * math.log(2.0) - 5.0 < found < count * math.log(2.0)


def test_without_pairs_in_both_orders_only_an_order_counts():
    data = Comparisons.from_rows([("a", "b", 0.8), ("b", "c", 0.7), ("c", "d", 0.75), ("a", "d", 0.97)])
    assert math.isnan(log_pair_evidence(data))
    assert either(log_evidence(data), log_pair_evidence(data)) == log_evidence(data)
    one = Comparisons.from_rows([("a", "b", 0.8), ("b", "a", 0.3)])
    assert log_pair_evidence(one) == 0.0
