"""Noise with heavy tails: moments against integration, and simulated judges with and without such noise."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit

from benchmarks.paper.datasets import open_dataset
from benchmarks.yardstick import chosen
from comparo import Comparisons, fit
from comparo.analysis.correlations import spearman
from comparo.model.design import Design, Shared
from comparo.model.estimators.mixed import mixed
from comparo.model.inference.ep import LEAST, sites_from
from comparo.model.inference.random_effects import differences, solve
from comparo.model.inference.soft import Soft
from comparo.model.likelihoods.bradley_terry import BradleyTerry
from comparo.model.likelihoods.student_t import Cavities, log_density, tail_moments
from comparo.model.linalg.graph import Graph
from comparo.model.tuning import FREEDOMS, Limits
from comparo.run.fit_policy import Fitting

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
DATA = Path(__file__).parents[2] / "shared" / "data"


def judge(rng, freedom, contexts=20, n=16, rows=80, scale=0.0):
    """Soft answers with noise of variance 1 and this freedom, and the true scores (C, n).

    All that is said of a context has a factor of its own, whose logarithm has the standard deviation `scale`.
    """
    truth = rng.standard_normal((contexts, n))
    context = np.repeat(np.arange(contexts), rows)
    first = rng.integers(n, size=len(context))
    second = (first + rng.integers(1, n, size=len(context))) % n
    noise = rng.standard_normal(len(context))
    if np.isfinite(freedom):
        noise = rng.standard_t(freedom, len(context)) * np.sqrt((freedom - 2) / freedom)
    d = truth[context, first] - truth[context, second] + noise
    p = expit(d * np.exp(scale * rng.standard_normal(contexts))[context] - 0.3)
    return Comparisons.from_columns(first, second, p, None, context), truth


def measured(ranking, truth):
    """Coverage of the intervals, and Spearman's correlation, mean over contexts."""
    context, item = ranking.context.astype(int), ranking.items.astype(int)
    centred = (truth - truth.mean(axis=1, keepdims=True))[context, item]
    scores = np.empty(truth.shape)
    scores[context, item] = ranking.scores
    return np.mean((ranking.low <= centred) & (centred <= ranking.high)), np.mean(spearman(truth, scores))


def estimated(data):
    return fit(data, prior="estimated", bias="joint")


def normal(data, monkeypatch):
    """The fit with normal noise, whatever the tails."""
    with monkeypatch.context() as patch:
        patch.setattr(Soft, "_has_tails", lambda *_: False)
        return estimated(data)


@settings(max_examples=30 * settings.default.max_examples // 100, deadline=None)
@given(st.floats(-3, 3), st.floats(0.05, 4), st.floats(-12, 12), st.floats(0.05, 4), st.sampled_from(FREEDOMS))
def test_moments_are_those_of_the_integral(mean, variance, y, noise, freedom):
    scale = np.sqrt(noise * (freedom - 2) / freedom)

    def density(d):
        return stats.norm.pdf(d, mean, np.sqrt(variance)) * stats.t.pdf((y - d) / scale, freedom) / scale

    places = sorted({mean, y} | {mean + k * np.sqrt(variance) for k in (-8, 8)})
    low, high = mean - 12 * np.sqrt(variance), mean + 12 * np.sqrt(variance)
    points = [place for place in places if low < place < high]
    total, first, second = (
        quad(lambda d, k=k: (d - mean) ** k * density(d), low, high, points=points, limit=400)[0] for k in range(3)
    )
    column = [np.array([value]) for value in (mean, variance, y, noise)]
    centre, spread = tail_moments(*column, freedom)
    exact = second / total - (first / total) ** 2
    assert centre[0] == pytest.approx(mean + first / total, abs=0.01 * np.sqrt(exact))
    assert spread[0] == pytest.approx(exact, rel=0.02)
    found = log_density(column[1], column[2] - column[0], column[3], freedom)[0]
    assert found == pytest.approx(np.log(total), abs=0.01)
    precision, _ = sites_from(centre, spread, column[0], column[1])
    assert precision[0] >= LEAST


def test_normal_noise_has_the_moments_of_normal_distributions():
    mean, variance, y, noise = np.array([[0.3], [2.0], [1.5], [0.5]])
    centre, spread = tail_moments(mean, variance, y, noise, np.inf)
    assert spread[0] == pytest.approx(1 / (1 / 2.0 + 1 / 0.5))
    assert centre[0] == pytest.approx(spread[0] * (0.3 / 2.0 + 1.5 / 0.5))
    assert log_density(variance, y - mean, noise, np.inf)[0] == pytest.approx(stats.norm.logpdf(1.2, 0, np.sqrt(2.5)))


def test_an_answer_beyond_all_scales_gives_finite_moments():
    centre, spread = tail_moments(*np.array([[0.0], [1.0], [1e9], [1e-6]]), 3.0)
    assert np.isfinite(centre).all()
    assert (spread > 0).all()


@pytest.mark.long
def test_noise_of_normal_judges_stays_normal():
    found = [estimated(judge(np.random.default_rng(seed), np.inf)[0]).effects.freedom for seed in range(30)]
    assert sum(freedom is not None for freedom in found) <= 1


def test_normal_fits_do_not_change(monkeypatch):
    data, _ = judge(np.random.default_rng(0), np.inf)
    one, other = estimated(data), normal(data, monkeypatch)
    np.testing.assert_array_equal(one.scores, other.scores)
    np.testing.assert_array_equal(one.std, other.std)


def test_contexts_that_differ_by_a_factor_are_not_heavy_tails():
    data, _ = judge(np.random.default_rng(1), np.inf, scale=0.6)
    assert estimated(data).effects.freedom is None
    system = Soft.of(data, Graph.build(data), BradleyTerry(), True, Limits())
    state, variances, _, _ = system._settle_normal(Shared.of(Graph.build(data), Design(), 0))
    assert not state._has_tails(variances, Shared.of(Graph.build(data), Design(), 0))


@pytest.mark.long
@pytest.mark.parametrize("shape", [{}, {"contexts": 1, "n": 60, "rows": 600}])
def test_heavy_tails_are_found_and_rank_better(shape, monkeypatch):
    found, plain, freedoms = [], [], []
    for seed in range(10):
        data, truth = judge(np.random.default_rng(seed), 3, **shape)
        ranking = estimated(data)
        freedoms.append(ranking.effects.freedom)
        found.append(measured(ranking, truth))
        plain.append(measured(normal(data, monkeypatch), truth))
    assert sum(freedom is not None and freedom <= 6 for freedom in freedoms) >= 9
    coverage, rho = np.mean(found, axis=0)
    assert 0.93 < coverage < 0.97
    assert rho > np.mean(plain, axis=0)[1] + 0.005


def test_large_contexts_agree_with_exact_ones():
    data, _ = judge(np.random.default_rng(2), 3, contexts=1, n=60, rows=600)
    exact, large = (mixed(data, BradleyTerry(), limits=limits) for limits in (Limits(), Limits(spectral=10)))
    assert large.effects.freedom == exact.effects.freedom
    np.testing.assert_allclose(large.scores, exact.scores, atol=0.06 * np.std(exact.scores))


def test_one_grossly_wrong_answer_moves_the_ranking_little(monkeypatch):
    data, _ = judge(np.random.default_rng(3), np.inf, contexts=1, n=30, rows=240)
    before = estimated(data)
    assert before.effects.freedom is None
    wrong = data.p.copy()
    row = int(np.argmax(wrong))
    wrong[row] = expit(-12.0)
    broken = replace(data, p=wrong)
    after, believed = estimated(broken), normal(broken, monkeypatch)
    assert after.effects.freedom is not None

    def moved(ranking):
        return np.max(np.abs(ranking.scores - before.scores))

    assert moved(after) < 0.35 * moved(believed)
    assert moved(after) < np.max(before.std) < moved(believed)


def test_an_answer_does_not_change_what_all_others_say_of_it():
    rng = np.random.default_rng(4)
    first, second = np.triu_indices(12, 1)
    p = expit(rng.standard_normal(len(first)))
    changed = np.where(np.arange(len(p)) == 7, 0.999, p)
    found, variances = [], None
    for answers in (p, changed):
        data = Comparisons.from_columns(first, second, answers)
        graph = Graph.build(data)
        shared = Shared.of(graph, Design(), 0)
        state = Soft.of(data, graph, BradleyTerry(), False, Limits())
        if variances is None:
            variances = state._settle_normal(shared)[1]
        cavities = state._cavities(*differences(*solve(state.system, variances, shared)))
        place = int(np.flatnonzero(state.pattern.order == 7)[0])
        found.append((cavities.mean[place], cavities.variance[place], state._with_sites(cavities, 1.0, 3.0).c[place]))
    np.testing.assert_allclose(found[0][:2], found[1][:2], rtol=1e-9)
    assert found[1][2] < found[0][2]


def test_freedom_is_shown():
    heavy, plain = (estimated(judge(np.random.default_rng(0), freedom)[0]) for freedom in (3, np.inf))
    assert json.loads(heavy.to_json())["variances"]["freedom"] == heavy.effects.freedom
    assert json.loads(plain.to_json())["variances"]["freedom"] is None


def test_cavities_tell_noise_from_scores_with_heavy_tails():
    """Which of two variances has heavy tails shows where their shares differ between answers."""
    rng = np.random.default_rng(5)
    variance, weight = rng.choice([0.05, 4.0], 3000), np.ones(3000)
    t = rng.standard_t(3, 3000) / np.sqrt(3.0)
    z = rng.standard_normal(3000)
    context = np.zeros(3000, dtype=np.int32)
    noise, scores = (
        Cavities(np.zeros(3000), variance, y, weight, context, 1024)
        for y in (np.sqrt(variance) * z + t, np.sqrt(variance) * t + z)
    )
    assert noise.are_heavy(1.0)
    assert not scores.are_heavy(1.0)


@pytest.mark.long
@pytest.mark.recorded
@pytest.mark.parametrize(("name", "calls"), [("summeval", "2n"), ("topicalchat", "2n"), ("hanna", "5n")])
def test_recorded_judgements_have_normal_noise(name, calls):
    """Whole contexts differ by a factor instead, which was learnt from these sets."""
    opened = open_dataset(name, DATA)
    fitting = Fitting(opened.items, grouped=False)
    for recorded in opened.recorded.values():
        data = chosen(recorded, fitting, (calls,), 1, 0)[calls].one(0)
        assert fitting.rank(data).effects.freedom is None


def test_tails_that_do_not_settle_are_left_out(monkeypatch):
    """Four rounds are too few for the sites of heavy tails, and enough for normal noise."""
    data, _ = judge(np.random.default_rng(0), 3)
    assert estimated(data).effects.freedom is not None
    found = fit(data, prior="estimated", bias="joint", limits=Limits(mixed_rounds=4))
    assert found.converged
    assert found.effects.freedom is None
    np.testing.assert_allclose(found.scores, normal(data, monkeypatch).scores)
