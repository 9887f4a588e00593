"""Whether a voice reads, and whether it reads more than another: rates of errors, and an oracle for the variance."""

import numpy as np
import pytest
from scipy.special import expit, stdtrit

from benchmarks.panel import auditioned
from comparo import Comparisons
from comparo.analysis.reading import lead, reading


def both_orders(rng, texts, view, noise, gamma=0.0):
    """Rows (first, second, p) of all pairs of a judge with this view, in both orders."""
    ends = [(i, j) for i in range(texts) for j in range(texts) if i != j]
    return [(i, j, expit(view[i] - view[j] - gamma + noise * rng.standard_normal())) for i, j in ends]


def voices(*rows):
    return Comparisons.from_rows(
        [{"first": i, "second": j, "p": p, "judge": name} for name, own in enumerate(rows) for i, j, p in own]
    )


def rates(kind, strengths, pairs, runs):
    found = []
    for run in range(runs):
        rng = np.random.default_rng(run)
        data = auditioned(rng, kind, strengths, pairs)
        reads, is_open, growth = reading(data, data.judged_by, range(len(strengths)), rng)
        found.append([np.mean(reads), np.mean(~reads & ~is_open), reads.any(), np.median(growth)])
    return np.mean(found, axis=0)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["soft", "decisions"])
def test_coins_do_not_read_and_readers_are_no_coins(kind):
    runs = 100
    reads, blind, any_reads, growth = rates(kind, (0.0, 0.0, 0.0, 0.0), 20, runs)
    assert any_reads <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / runs)
    assert blind >= 0.6
    reads, blind, *_ = rates(kind, (1.5, 1.5, 1.5, 1.5), 20, runs)
    assert reads >= 0.8
    assert blind <= 0.05
    # As many pairs as were suggested name the coins.
    assert rates(kind, (0.0, 0.0, 0.0, 0.0), int(20 * growth), runs // 4)[1] >= 0.95


@pytest.mark.parametrize("said", ["logp", "order"])
def test_line_ups_are_read_too(said):
    rng, rows = np.random.default_rng(0), []
    for judge, strength in (("ana", 1.0), ("coin", 0.0)):
        for _ in range(24):
            items = rng.permutation(12)[:4]
            y = strength * items / 2 + rng.gumbel(size=4)
            order = ">".join("ABCD"[slot] for slot in np.argsort(-y))
            told = order if said == "order" else "|".join(map(str, y - np.log(np.sum(np.exp(y)))))
            rows.append({"items": "|".join(map(str, items)), said: told, "judge": judge})
    data = Comparisons.from_rows(rows)
    reads, *_ = reading(data, data.judged_by, data.judges.tolist(), rng)
    assert dict(zip(data.judges.tolist(), reads.tolist(), strict=True)) == {"ana": True, "coin": False}


def test_voices_of_one_judge_do_not_confirm_each_other():
    rng = np.random.default_rng(1)
    coin = both_orders(rng, 7, np.zeros(7), 1.0)
    data = voices(coin, coin)
    confirmed = reading(data, data.judged_by, ["one", "other"], rng)[0]
    alone = reading(data, data.judged_by, ["one", "one"], rng)[0]
    assert confirmed.all()  # two judges that say the same of the same texts
    assert not alone.any()


def test_the_lead_depends_on_no_order_and_its_variance_is_that_of_a_loop():
    rng = np.random.default_rng(2)
    view = rng.standard_normal(12)
    rows = [both_orders(rng, 12, view, noise, gamma) for noise, gamma in ((0.1, 1.0), (2.0, -0.5))]
    data = voices(*rows)
    low, high = lead(data, data.judged_by, 0, 0.95)
    assert low[1] > 0
    assert (low[0], high[0]) == (0.0, 0.0)
    other = lead(data, data.judged_by, 1, 0.95)
    np.testing.assert_allclose([other[0][0], other[1][0]], [-high[1], -low[1]])
    shuffled = data.take(rng.permutation(len(data)))
    np.testing.assert_allclose(lead(shuffled, shuffled.judged_by, 0, 0.95), (low, high))

    g, shares = [], []
    for own in rows:
        y = {(i, j): np.log(p / (1 - p)) for i, j, p in own}
        pairs = [(i, j) for i, j in y if i < j]
        z = np.array([y[i, j] - y[j, i] for i, j in pairs]) / 2
        w = np.array([y[i, j] + y[j, i] for i, j in pairs]) / 2
        w -= w.mean()
        one = (np.mean(z**2) + np.mean(w**2)) / 2
        sums = np.sum(z**2) + one, np.sum(w**2) + one
        g.append(0.5 * np.log(sums[0] / sums[1]))
        shares.append(0.5 * (z**2 / sums[0] - w**2 / sums[1]))
    apart = shares[0] - shares[1]
    meeting = [(k, m) for k, one in enumerate(pairs) for m, two in enumerate(pairs) if {*one} & {*two}]
    variance = max(sum(apart[k] * apart[m] for k, m in meeting), np.sum(apart**2)) * 12 / 10
    reach = stdtrit(6, 0.975) * np.sqrt(variance)
    np.testing.assert_allclose([low[1], high[1]], [g[0] - g[1] - reach, g[0] - g[1] + reach])
