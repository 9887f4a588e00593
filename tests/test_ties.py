"""Ties by Davidson's model, against finite differences, a naive maximiser, direct integration and simulated judges."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import norm

from comparo import Comparisons, fit
from comparo.model.likelihoods import Davidson, derivatives
from comparo.model.likelihoods.bradley_terry import answer_moments, averaged_moments, choice_moments
from comparo.model.tuning import TIE_PRIOR
from comparo.ranking.criteria_ranking import expected
from inside import BradleyTerry, mixed, multiply

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def simulated(rng, n=25, calls=300, nu=1.0, gamma=0.3, judges=1):
    """Decisions with ties, and the true scores (n,); each judge has its own ν."""
    truth = rng.standard_normal(n)
    truth -= truth.mean()
    rows = []
    for judge, own in zip(range(judges), np.broadcast_to(nu, judges), strict=True):
        i = rng.integers(n, size=calls)
        j = (i + rng.integers(1, n, size=calls)) % n
        d = truth[i] - truth[j] - gamma
        won = np.exp(d / 2)
        drawn = rng.random(calls) * (won + 1 / won + own)
        p = np.where(drawn < won, 1.0, np.where(drawn < won + own, 0.5, 0.0))
        rows += [
            {"first": a, "second": b, "p": q, "judge": f"j{judge}"}
            for a, b, q in zip(i.tolist(), j.tolist(), p.tolist(), strict=True)
        ]
    return (rows if judges > 1 else [{k: v for k, v in row.items() if k != "judge"} for row in rows]), truth


def half_wins(rows):
    """The same answers with half a win and half a loss for each tie, which Bradley–Terry has no other name for."""
    found = []
    for row in rows:
        ties = [row | {"p": 1.0, "weight": 0.5}, row | {"p": 0.0, "weight": 0.5}]
        found += ties if row["p"] == 0.5 else [row | {"weight": 1.0}]
    return found


@given(d=st.floats(-8, 8), nu=st.floats(0.0, 30.0), p=st.sampled_from([0.0, 0.5, 1.0]))
def test_slope_and_curvature_are_the_derivatives(d, nu, p):
    expert, step = Davidson(nu), 1e-5
    around, p = np.array([d - step, d, d + step]), np.full(3, p)
    below, _, above = expert.log_density(around, p)
    slope, curvature = np.empty((2, 3))
    derivatives(expert, around, p, slope, curvature)
    assert slope[1] == pytest.approx((above - below) / (2 * step), abs=1e-6)
    assert curvature[1] == pytest.approx(-(slope[2] - slope[0]) / (2 * step), abs=1e-6)
    np.testing.assert_array_equal(slope, expert.slope(around, p))
    np.testing.assert_array_equal(curvature, expert.curvature(around, p))


@given(d=st.floats(-1500, 1500), nu=st.floats(0.0, 1e6))
def test_answers_are_probabilities_with_that_mean_and_variance(d, nu):
    mean, variance, tied = (float(part) for part in answer_moments(np.array(d), nu))
    won = mean - tied / 2
    lost = 1 - won - tied
    assert min(won, lost, tied, variance) >= -1e-12
    assert variance == pytest.approx(won + tied / 4 - mean**2, abs=1e-12)
    if abs(d) < 20 and nu > 0:
        assert tied**2 == pytest.approx(nu**2 * won * lost, rel=1e-6, abs=1e-12)


def test_without_ties_davidson_is_bradley_terry():
    d, p = np.linspace(-30, 30, 61), np.tile([0.0, 1.0], 31)[:61]
    np.testing.assert_allclose(Davidson(0.0).slope(d, p), BradleyTerry().slope(d, p), atol=2e-9)
    np.testing.assert_allclose(Davidson(0.0).curvature(d, p), BradleyTerry().curvature(d, p), rtol=1e-9)
    rows = [("a", "b", 1.0), ("b", "c", 1.0), ("c", "a", 0.0), ("c", "b", 1.0)]
    for method, same in (("davidson", "poe-bt"), ("mixed", "mixed")):
        one, other = fit(rows, method), fit(rows, same)
        np.testing.assert_array_equal(one.scores, other.scores)
        np.testing.assert_array_equal(one.std, other.std)
        assert "ties" not in one.tables
        assert "ties" not in json.loads(one.to_json())


@pytest.mark.parametrize("judges", [1, 3])
def test_the_fit_is_the_maximum_that_a_naive_search_finds(judges):
    rows, _ = simulated(np.random.default_rng(2), n=6, calls=40, nu=np.array([0.5, 2.0, 0.0])[:judges], judges=judges)
    data = Comparisons.from_rows(rows)
    found = fit(data, "davidson", prior=1.5)
    judge = data.judged_by

    def loss(x):
        scores, log_nu = x[:6], x[6:]
        log_nu = np.append(log_nu, -np.inf) if judges == 3 else log_nu
        total = 0.0
        for a, b, p, r in zip(data.first, data.second, data.p, judge, strict=True):
            d, nu = scores[a] - scores[b], np.exp(log_nu[r])
            chances = {1.0: np.exp(d / 2), 0.0: np.exp(-d / 2), 0.5: nu}
            total += np.log(chances[float(p)]) - np.log(sum(chances.values()))
        equals = np.exp(log_nu[:2]) / (2 + np.exp(log_nu[:2]))
        return -total - TIE_PRIOR * np.sum(np.log(equals) + np.log(1 - equals)) + 0.5 * np.sum(scores**2) / 1.5**2

    best = minimize(loss, np.zeros(6 + min(judges, 2)), tol=1e-12)
    np.testing.assert_allclose(found.scores, best.x[:6] - best.x[:6].mean(), atol=2e-5)
    np.testing.assert_allclose(found.tables["ties"]["nu"], np.exp(best.x[6:]), rtol=1e-4)
    np.testing.assert_allclose(
        found.tables["ties"]["equals"], found.tables["ties"]["nu"] / (2 + found.tables["ties"]["nu"])
    )
    given_nu = Davidson(found.solution.expert.nu)
    np.testing.assert_allclose(fit(data, given_nu, prior=1.5).scores, found.scores, atol=1e-6)


@pytest.mark.parametrize("bias", ["none", "plug-in", "joint"])
def test_comparisons_in_any_order_and_pooled_have_one_fit(bias):
    """ν by comparison goes with its comparison through every reordering; one ν for all may be pooled."""
    rows, _ = simulated(np.random.default_rng(5), n=5, calls=60, nu=1.0)
    data = Comparisons.from_rows(rows)
    turned = data.take(np.random.default_rng(0).permutation(len(data)))
    one = multiply(data, Davidson(0.7), prior=2.0, bias=bias)
    each = multiply(turned, Davidson(np.full(60, 0.7)), prior=2.0, bias=bias)
    np.testing.assert_allclose(one.scores, each.scores, atol=1e-7)
    np.testing.assert_allclose(one.bias, each.bias, atol=1e-6)


@pytest.mark.parametrize(("p", "weight"), [(0.5, 1), (1, 1), (0.25, 2)])
@pytest.mark.parametrize(("mean", "variance", "nu"), [(0.0, 0.5, 1.0), (-3.0, 4.0, 0.2), (4.0, 30.0, 8.0)])
def test_sites_of_ties_are_those_of_the_integral(p, weight, mean, variance, nu):
    def density(d):
        return np.exp(weight * ((p - 0.5) * d - np.log(2 * np.cosh(d / 2) + nu)) - 0.5 * (d - mean) ** 2 / variance)

    ends = (mean - 12 * np.sqrt(variance), mean + 12 * np.sqrt(variance))
    total, first, second = (quad(lambda d, k=k: d**k * density(d), *ends, limit=200)[0] for k in range(3))
    found = choice_moments(*(np.array([float(part)]) for part in (mean, variance, p, weight, nu)))
    exact = second / total - (first / total) ** 2
    assert found[0][0] == pytest.approx(first / total, abs=0.03 * np.sqrt(exact))
    assert found[1][0] == pytest.approx(exact, rel=0.06)


def test_moments_over_an_uncertain_difference_are_integrals():
    mean, variance, nu = np.array([0.7]), np.array([2.0]), np.array([1.5])
    chance, spread, tied = (float(part[0]) for part in averaged_moments(mean, variance, nu))

    def average(of):
        return quad(lambda d: of(answer_moments(np.array(d), 1.5)) * norm.pdf(d, 0.7, np.sqrt(2.0)), -15, 15)[0]

    assert chance == pytest.approx(average(lambda parts: parts[0]), abs=1e-6)
    assert tied == pytest.approx(average(lambda parts: parts[2]), abs=1e-6)
    assert spread == pytest.approx(average(lambda parts: parts[1] + parts[0] ** 2) - chance**2, abs=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("nu", [0.0, 0.6, 2.5], ids=["no ties", "20% ties", "half ties"])
def test_intervals_cover_and_the_tie_parameter_is_found(nu):
    """Rounding ties to half a win ranks as well, but its scores are not the log odds of a win against a loss."""
    inside, ties, agreement, rounded = [], [], [], []
    for seed in range(24):
        rows, truth = simulated(np.random.default_rng(seed), nu=nu)
        ranking = fit(rows, "mixed")
        inside.append((ranking.low <= truth) & (truth <= ranking.high))
        agreement.append(np.corrcoef(ranking.scores, truth)[0, 1])
        if nu:
            ties.append(float(ranking.tables["ties"]["nu"][0]))
            halves = fit(half_wins(rows), "mixed")
            rounded.append(np.corrcoef(halves.scores, truth)[0, 1])
    assert 0.93 <= np.mean(inside) <= 0.97
    if nu:
        assert np.exp(np.mean(np.log(ties))) == pytest.approx(nu, rel=0.1)
        assert np.mean(agreement) > np.mean(rounded) - 0.005


def test_every_voice_of_a_panel_has_its_own_tie_parameter():
    rows, truth = simulated(np.random.default_rng(1), n=40, calls=700, nu=np.array([0.0, 0.7, 4.0]), judges=3)
    ranking = fit(rows, "panel")
    assert ranking.tables["voices"]["tie"][0] == 0
    np.testing.assert_allclose(ranking.tables["voices"]["tie"][1:], [0.7, 4.0], rtol=0.35)
    assert ranking.tables["ties"]["judge"].tolist() == ["j1", "j2"]
    assert ranking.tables["ties"]["answers"].tolist() == [700, 700]
    assert np.corrcoef(ranking.scores, truth)[0, 1] > 0.93
    alone = fit(rows, "mixed")
    np.testing.assert_allclose(alone.tables["ties"]["nu"], [0.7, 4.0], rtol=0.35)
    shown = json.loads(ranking.to_json())
    assert [row["judge"] for row in shown["ties"]] == ["j1", "j2"]
    assert expected(ranking).min() > 0
    assert expected(ranking).mean() == pytest.approx(np.mean([row["p"] for row in rows]), abs=0.03)


@pytest.mark.parametrize("method", ["davidson", "mixed", "panel"])
def test_answers_that_are_all_ties_or_cannot_tell_stay_finite(method):
    everywhere = [("a", "b", 0.5), ("b", "c", 0.5), ("c", "a", 0.5), ("b", "a", 0.5)]
    ranking = fit(everywhere, method)
    np.testing.assert_allclose(ranking.scores, 0.0, atol=1e-6)
    assert np.isfinite(ranking.std).all()
    assert 2 < ranking.tables["ties"]["nu"][0] < 50
    never_lost = fit([("a", "b", 1.0), ("a", "b", 0.5), ("a", "c", 1.0), ("b", "c", 0.5)], method)
    assert next(iter(never_lost)) == "a"
    assert np.max(np.abs(never_lost.scores)) < 6


def test_ties_are_modelled_only_where_they_are_known():
    """Neither a soft ½, nor a share of votes, nor a grade is a tie."""
    soft = [("a", "b", 0.5), ("b", "c", 0.8), ("c", "a", 0.31)]
    votes = [{"first": a, "second": b, "p": p, "weight": 3.0} for a, b, p in (("a", "b", 0.5), ("b", "c", 0.625)) * 4]
    grades = [("a", "b", 0.5), ("b", "c", 0.75), ("c", "a", 0.25), ("b", "a", 0.5), ("c", "b", 0.25)]
    for data in (soft, votes, grades):
        assert "ties" not in fit(data, "mixed").tables
    assert mixed(Comparisons.from_rows([("a", "b", 0.5), ("b", "c", 1.0)]), BradleyTerry()).expert != BradleyTerry()


def test_the_commands_say_how_readily_a_judge_calls_a_tie(run, tmp_path):
    table = "first,second,winner\n" + "a,b,tie\nb,a,first\nb,c,first\nc,a,tie\n" * 3
    (tmp_path / "pairs.csv").write_text(table, encoding="utf-8")
    done = run(tmp_path, ["fit", "pairs.csv", "--method", "davidson"])
    assert re.search(r"50% .*12 answers.*tie.*\b0\.\d", done.stderr)
    assert "a tie" not in run(tmp_path, ["fit", "pairs.csv", "--method", "poe-bt"]).stderr
