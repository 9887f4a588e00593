import numpy as np
import pytest
from scipy.special import expit, logit

from comparo import Comparisons, fit
from inside import Constant, Gaussian, Linear, quiet_fit, random_effects
from oracle import simulate


def test_plug_in_is_minus_the_logit_of_the_mean():
    comparisons, _ = simulate(np.random.default_rng(0), 8, 100, gamma=-1.0)
    ranking = fit(comparisons, bias="plug-in")
    assert ranking.solution.bias[0, 0] == pytest.approx(-logit(comparisons.p.mean()), abs=1e-8)
    assert ranking.solution.bias[0, 0] < 0, "a judge that favours the first has a negative γ"


def test_plug_in_of_the_gaussian_centres_it_on_the_mean_probability():
    comparisons, _ = simulate(np.random.default_rng(0), 8, 100, gamma=-1.0)
    debiased = fit(comparisons, method="poe-g", bias="plug-in")
    by_hand = fit(comparisons, method=Gaussian(Linear(1.0, comparisons.p.mean()), Constant(1.0)))
    assert np.allclose(debiased.scores, by_hand.scores)


@pytest.mark.parametrize("gamma", [-1.5, 0.0, 0.8])
def test_joint_recovers_the_bias_and_the_scores(gamma):
    comparisons, truth = simulate(np.random.default_rng(1), 30, 1500, gamma=gamma, noise=0.2)
    ranking = fit(comparisons, bias="joint")
    assert ranking.solution.bias[0, 0] == pytest.approx(gamma, abs=0.05)
    assert np.abs(ranking.scores - truth[0] + truth[0].mean()).max() < 0.2


def test_a_bias_estimated_jointly_ranks_better_than_one_left_out():
    """One order only, and some items shown mostly first: without the bias they would look better than they are."""
    rng = np.random.default_rng(2)
    truth = rng.standard_normal(20)
    first, second = [], []
    while len(first) < 200:
        i, j = rng.choice(20, 2, replace=False)
        if rng.random() < (0.95 if i < j else 0.05):
            first.append(i)
            second.append(j)
    first, second = np.array(first), np.array(second)
    p = expit(truth[first] - truth[second] + 1.5 + 0.2 * rng.standard_normal(200))
    comparisons = Comparisons.from_columns(first, second, p)
    error = {
        bias: np.abs(fit(comparisons, bias=bias).scores - truth + truth.mean()).mean() for bias in ("none", "joint")
    }
    assert error["joint"] < 0.5 * error["none"]


def test_each_judge_has_its_own_bias():
    rng = np.random.default_rng(3)
    kind, harsh = (simulate(rng, 10, 400, gamma=gamma, spread=0.1)[0] for gamma in (-1.0, 1.0))
    rows = [
        {"first": i, "second": j, "p": p, "judge": judge}
        for judge, part in (("kind", kind), ("harsh", harsh))
        for i, j, p in zip(part.first, part.second, part.p, strict=True)
    ]
    for bias in ("joint", "plug-in"):
        ranking = fit(rows, bias=bias)
        assert dict(zip(ranking.comparisons.judges, ranking.solution.bias[0], strict=True)) == pytest.approx(
            {"kind": -1.0, "harsh": 1.0}, abs=0.25
        )


def test_contexts_share_what_they_agree_on():
    """Few comparisons a context: shrunk biases are closer to the truth than each context's own."""
    rng = np.random.default_rng(4)
    gamma = -0.8 + 0.05 * rng.standard_normal(60)
    comparisons, _ = simulate(rng, 6, 18, gamma=gamma, noise=0.5, contexts=60)
    shrunk = fit(comparisons, bias="joint").solution.bias[:, 0]
    alone = []
    for context in range(60):
        rows = comparisons.context == context
        part = Comparisons.from_columns(comparisons.first[rows], comparisons.second[rows], comparisons.p[rows])
        alone.append(fit(part, bias="joint").solution.bias[0, 0])
    assert np.mean((shrunk - gamma) ** 2) < 0.4 * np.mean((np.array(alone) - gamma) ** 2)
    assert shrunk.mean() == pytest.approx(-0.8, abs=0.1)


def test_contexts_that_differ_keep_their_own_bias():
    rng = np.random.default_rng(5)
    gamma = np.linspace(-2, 2, 20)
    comparisons, _ = simulate(rng, 6, 200, gamma=gamma, noise=0.3, contexts=20)
    assert np.allclose(quiet_fit(comparisons, bias="joint").solution.bias[:, 0], gamma, atol=0.25)


def test_bias_follows_the_labels_of_the_contexts():
    """Contexts of unequal size are solved out of order; their biases come back in order."""
    rng = np.random.default_rng(6)
    rows = []
    for context, (size, gamma) in enumerate([(9, 1.0), (3, -1.0), (5, 0.0)]):
        part, _ = simulate(rng, size, 600, gamma=gamma, noise=0.1)
        rows += [
            {"context": str(context), "first": i, "second": j, "p": p}
            for i, j, p in zip(part.first, part.second, part.p, strict=True)
        ]
    assert np.allclose(fit(rows, bias="joint").tables["bias"]["gamma"], [1.0, -1.0, 0.0], atol=0.1)


def test_a_bias_that_cannot_be_told_from_the_scores_is_said():
    with pytest.warns(UserWarning, match="position bias"):
        fit([("a", "b", 0.9), ("b", "c", 0.9)], "poe-bt", bias="joint")


@pytest.mark.long
def test_judges_with_few_hard_votes_are_drawn_to_the_others():
    """Three votes a judge, many of them unanimous: alone their bias would be infinite."""
    rng = np.random.default_rng(8)
    comparisons, _ = simulate(rng, 20, 3000, gamma=-0.5, noise=0.0)
    votes = (rng.random(3000) < comparisons.p).astype(float)
    judged = Comparisons.from_columns(comparisons.first, comparisons.second, votes, judge=np.arange(3000) // 3)
    bias = fit(judged, bias="joint").solution.bias[0]
    assert bias.mean() == pytest.approx(-0.5, abs=0.1)
    assert bias.std() < 0.2


def test_random_effects_finds_the_spread():
    rng = np.random.default_rng(7)
    variance = rng.uniform(0.01, 0.2, 4000)
    estimate = 0.5 + 0.3 * rng.standard_normal(4000) + np.sqrt(variance) * rng.standard_normal(4000)
    mean, between = random_effects(estimate, variance)
    assert mean == pytest.approx(0.5, abs=0.03)
    assert between == pytest.approx(0.09, abs=0.015)
    equal = 0.5 + np.sqrt(variance) * rng.standard_normal(4000)
    assert random_effects(equal, variance)[1] < 0.01
    assert random_effects(np.ones(5), np.full(5, 0.2))[1] == pytest.approx(0.0002)
