"""The mixed model, against dense Gaussian models, direct integration and simulated judges."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit, log_ndtr, logit

from benchmarks.systems import answers
from comparo import Comparisons, fit
from comparo.model.inference.ep import sites_from
from comparo.model.inference.reml import estimate
from comparo.model.likelihoods.bradley_terry import choice_moments
from comparo.model.likelihoods.gaussian import Gaussian, censored_moments
from comparo.model.linalg.laplacian import Laplacian
from comparo.model.linalg.spectrum import POLE_SHARE, Moments
from comparo.model.observations import JudgedPairs, are_choices, logits, observe, votes_of
from comparo.model.posterior import difference_variances
from comparo.model.tuning import LEAST_CAP, NARROWEST, PULL, QUANTILES, SPREAD, SPREAD_ERROR, SUREST, UNTIL, WIDEST
from inside import BradleyTerry, Design, Graph, Limits, Pattern, Shared, Spectrum, System, mixed, quiet_fit
from oracle import comparisons_of, incidence, simulate, weights

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def linear(rng, n=40, rows=160, groups=6, features=2, weighted=True, both=False):
    """Comparisons by a judge that is linear in the scores, and the candidates' groups (n,) and features (n, D)."""
    group, style = rng.integers(groups, size=n), rng.standard_normal((n, features))
    scores = rng.standard_normal(groups)[group] + style @ rng.standard_normal(features) + 0.7 * rng.standard_normal(n)
    first = np.concatenate([np.arange(1, n), rng.integers(n, size=rows)])
    second = np.concatenate([np.arange(n - 1), (first[n - 1 :] + rng.integers(1, n, size=rows)) % n])
    _, unlike = np.unique(np.sort([first, second], axis=0), axis=1, return_index=True)
    first, second = first[unlike], second[unlike]
    p = 0.5 + 0.03 * (scores[first] - scores[second] + 0.5 * rng.standard_normal(len(first)))
    if both:
        answer = 0.5 - 0.03 * (scores[first] - scores[second] + 0.5 * rng.standard_normal(len(first)))
        first, second = np.concatenate([first, second]), np.concatenate([second, first])
        p = np.concatenate([p, answer]) + 0.04
    weight = rng.uniform(0.5, 2.0, len(p)) if weighted else None
    return Comparisons.from_columns(first, second, p, weight), group.astype(np.int32), style


def members(group, style):
    return np.hstack([np.eye(group.max() + 1)[group], style])


def system_of(data, y, limits=None):
    """The linear system of comparisons of different pairs, without biases."""
    pattern = Pattern(Graph.build(data), limits=limits or Limits())
    c = weights(data)[pattern.order]
    return System(pattern, c, c * y[pattern.order], np.zeros(0), np.zeros(0))


def dense_likelihood(data, y, columns, a, ratio):
    """log p(y) up to a constant, with φ integrated out, by the covariance of all observations as one matrix."""
    design = incidence(data)
    covariance = np.diag(1 / weights(data)) + a * design @ design.T
    covariance += design @ columns @ np.diag(ratio) @ columns.T @ design.T
    _, size = np.linalg.slogdet(covariance)
    return -0.5 * size - 0.5 * len(y) * np.log(y @ np.linalg.solve(covariance, y))


def likelihood_terms(a, level):
    """What keeps a from 0 and from infinity."""
    return PULL * np.log((1 + a * level) / (1 + a * level / UNTIL)) - np.log1p(a / SUREST)


@pytest.mark.parametrize(("rows", "widest"), [(9, 3.0), (400, 30.0), (400, 1e6)])
def test_moments_are_sums_over_all_coordinates_for_any_ratio(rows, widest):
    rng = np.random.default_rng(rows)
    q = np.append(np.exp(rng.uniform(0.0, np.log(widest), rows)), 0.0)
    beta, columns = q * rng.standard_normal(rows + 1), rng.standard_normal((rows + 1, 3))
    ratios = np.concatenate([np.linspace(-POLE_SHARE, 0.0, 5) / q.max(), np.logspace(-8, 6, 30)])
    for a, c, g in zip(ratios, *Moments.of(q, beta, columns).at(ratios), strict=True):
        share = 1.0 / (1.0 + a * q)
        exact = (columns.T * q * share) @ columns
        np.testing.assert_allclose(c, exact, rtol=0, atol=1e-12 * np.max(np.abs(exact)))
        np.testing.assert_allclose(g, columns.T @ (beta * share), rtol=0, atol=1e-12 * np.sum(np.abs(beta * share)))


def test_many_columns_are_solved_as_one_column_is():
    data, _, _ = answers(np.random.default_rng(0), 70, 2, 3, 0.5, False)
    pattern = Pattern(Graph.build(data))
    laplacian = Laplacian(pattern, np.ones(len(data)), np.full(pattern.unknowns, 0.1))
    rhs = np.random.default_rng(1).standard_normal((pattern.unknowns, 40))
    single = np.column_stack([laplacian.solve(column) for column in rhs.T])
    np.testing.assert_allclose(laplacian.solve(rhs), single, atol=1e-9)


@pytest.mark.parametrize("sd", [0.0, 1.0])
def test_with_a_prior_variances_are_quantiles_of_their_posterior(sd):
    q, rng = np.full(30, 1.5), np.random.default_rng(3)
    beta = np.sqrt(q * (1.0 + sd**2 * q)) * rng.standard_normal(30)
    spectrum = Spectrum(q, beta, Moments.of(q, beta, np.zeros((30, 0))), q, np.ones(30), float(np.sum(beta**2 / q)))
    found = estimate(spectrum, np.zeros(0, dtype=np.intp), 30, has_known_noise=True, has_prior=True)
    logs = np.linspace(np.log(NARROWEST), np.log(WIDEST), 200_001)
    a = np.exp(2.0 * logs)
    height = -15.0 * np.log1p(1.5 * a) + 0.5 * a * np.sum(beta**2) / (1.0 + 1.5 * a) - np.log1p(a / SUREST)
    height -= 0.5 * ((logs - np.log(SPREAD)) / SPREAD_ERROR) ** 2
    below = np.cumsum(np.exp(height - np.max(height)))
    naive = np.interp((np.arange(QUANTILES) + 0.5) / QUANTILES, below / below[-1], a)
    np.testing.assert_allclose(found.quantiles, naive, rtol=0.04)
    assert found.ratio == pytest.approx(found.quantiles[QUANTILES // 2], rel=0.01)


@pytest.mark.parametrize("kinds", ["", "groups", "style", "groups style"])
def test_variances_maximise_the_restricted_likelihood(kinds):
    data, group, style = linear(np.random.default_rng(1))
    y = (data.p - 0.5) / 0.03
    design = Design(group if "groups" in kinds else None, style if "style" in kinds else None)
    shared = Shared.of(Graph.build(data), design, 10**6)
    system = system_of(data, y)
    found = estimate(Spectrum.of(system, shared.columns), shared.kind, len(y), has_known_noise=False)
    level = 2 * np.sum(weights(data)) / (len(data.items) - 1)

    def height(a, ratio):
        return dense_likelihood(data, y, shared.columns, a, ratio[shared.kind]) + likelihood_terms(a, level)

    best = height(found.ratio, found.shared)
    for step in (0.8, 0.95, 1.05, 1.25):
        assert height(step * found.ratio, found.shared) < best + 1e-3
    design = incidence(data)
    residual = np.diag(1 / weights(data)) + found.ratio * design @ design.T
    residual += design @ shared.columns @ np.diag(found.shared[shared.kind]) @ shared.columns.T @ design.T
    square, freedom = (
        np.sum(weights(data) ** -1 * np.linalg.solve(residual, y) ** 2),
        np.sum(np.diagonal(np.linalg.inv(residual)) / weights(data)),
    )
    assert found.residual(found.ratio) == pytest.approx((square, freedom), rel=1e-6)
    assert found.noise(found.ratio) == pytest.approx(square / freedom, rel=1e-6)
    assert found.noise(found.ratio) == pytest.approx(y @ np.linalg.solve(residual, y) / len(y), rel=0.05)  # Q/K


@pytest.mark.parametrize("kinds", ["", "groups", "style", "groups style"])
def test_scores_and_covariance_are_those_of_the_dense_gaussian_model(kinds):
    """Given the variances; the covariance is that of one value of σ² and the scatter of scores over several."""
    data, group, style = linear(np.random.default_rng(0), n=40, rows=400)
    given = {"groups": group if "groups" in kinds else None, "features": style if "style" in kinds else None}
    product = mixed(data, Gaussian(), Design(**given, is_biased=False))
    effects = product.effects
    shared = Shared.of(product.graph, Design(**given), 10**6)
    sizes = np.array([getattr(effects, name) for name in shared.kinds])[shared.kind] / effects.noise
    design, weight, n = incidence(data), weights(data), 40
    centring = np.eye(n) - 1 / n
    prior = effects.scores / effects.noise * np.eye(n) + shared.columns @ np.diag(sizes) @ shared.columns.T
    precision = design.T @ (weight[:, None] * design) + np.linalg.inv(prior)
    covariance = centring @ np.linalg.inv(precision) @ centring
    scores = centring @ np.linalg.solve(precision, design.T @ (weight * (data.p - 0.5)))
    np.testing.assert_allclose(product.scores, scores, atol=0.02 * np.std(scores))
    found = product.covariance
    (batch,) = product.laplacian.pattern.batches
    block = found.block(batch)[0] / effects.dispersion
    np.testing.assert_allclose(np.diagonal(block), np.diagonal(covariance), rtol=0.15)
    np.testing.assert_allclose(found.std, np.sqrt(effects.dispersion * np.diagonal(block)), rtol=1e-6)
    apart = block[3, 3] + block[7, 7] - 2 * block[3, 7]
    assert found.difference(3, 7) == pytest.approx(effects.dispersion * apart, rel=1e-6)


@pytest.mark.parametrize(("p", "weight"), [(1, 1), (0.5, 1), (0.2, 5), (1, 5)])
@pytest.mark.parametrize(("mean", "variance"), [(0.0, 0.5), (-3.0, 4.0), (6.0, 60.0)])
def test_moments_of_choices_are_those_of_the_integral(p, weight, mean, variance):
    def density(d):
        return np.exp(weight * (p * d - np.logaddexp(0, d)) - 0.5 * (d - mean) ** 2 / variance)

    ends = (mean - 12 * np.sqrt(variance), mean + 12 * np.sqrt(variance))
    total, first, second = (quad(lambda d, k=k: d**k * density(d), *ends, limit=200)[0] for k in range(3))
    found = choice_moments(*(np.array([float(part)]) for part in (mean, variance, p, weight)))
    exact = second / total - (first / total) ** 2
    assert found[0][0] == pytest.approx(first / total, abs=0.03 * np.sqrt(exact))
    assert found[1][0] == pytest.approx(exact, rel=0.06)
    precision, pull = sites_from(*found, np.array([mean]), np.array([variance]))
    assert 1 / (1 / variance + precision[0]) == pytest.approx(found[1][0], rel=1e-3)
    assert (mean / variance + pull[0]) / (1 / variance + precision[0]) == pytest.approx(found[0][0], rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("nu", [0.0, 0.7])
@pytest.mark.parametrize(
    ("mean", "variance", "p", "weight"), [(0.8, 0.09, 1, 1), (-2.0, 0.03, 0.4, 5), (0.3, 1.0, 0.6, 2000)]
)
def test_moments_of_narrow_densities_are_those_of_the_integral(mean, variance, p, weight, nu):
    x = np.linspace(mean - 10 * np.sqrt(variance), mean + 10 * np.sqrt(variance), 200_001)
    log = weight * ((p - 0.5) * x - np.log(2 * np.cosh(x / 2) + nu)) - 0.5 * (x - mean) ** 2 / variance
    share = np.exp(log - log.max()) / np.sum(np.exp(log - log.max()))
    exact = share @ x, share @ (x - share @ x) ** 2
    found = np.array(choice_moments(*np.array([[mean], [variance], [p], [weight], [nu]], dtype=float)))[:, 0]
    assert found[0] == pytest.approx(exact[0], abs=4e-6 * np.sqrt(exact[1]))
    assert found[1] == pytest.approx(exact[1], rel=4e-6)


def test_moments_of_a_pair_do_not_depend_on_the_pairs_beside_it():
    """Among narrow and wide densities, whose maxima take few and many steps to find."""
    rng = np.random.default_rng(0)
    mean, variance = 20.0 * rng.standard_normal(200), 10.0 ** rng.uniform(-2, 4, 200)
    p, weight = rng.integers(2, size=200).astype(float), rng.integers(1, 6, size=200).astype(float)
    asked = (mean, variance, p, weight, 2.0 * rng.random(200))
    together = np.array(choice_moments(*asked))
    for k in range(200):
        alone = np.array(choice_moments(*(part[[k]] for part in asked)))[:, 0]
        assert together[:, k] == pytest.approx(alone, rel=1e-9, abs=1e-9)


def test_moments_of_a_saturated_answer_are_those_of_the_integral():
    mean, variance, least, noise = 1.0, 2.0, 4.0, 0.5

    def density(d):
        return np.exp(-0.5 * (d - mean) ** 2 / variance + log_ndtr((d - least) / np.sqrt(noise)))

    total, first, second = (quad(lambda d, k=k: d**k * density(d), -20, 25)[0] for k in range(3))
    found = censored_moments(*(np.array([value]) for value in (mean, variance, least, noise)))
    assert found[0][0] == pytest.approx(first / total, rel=1e-6)
    assert found[1][0] == pytest.approx(second / total - (first / total) ** 2, rel=1e-6)


def test_saturated_answers_say_no_more_than_that_a_difference_is_large():
    """A judge that is rounded to five digits: a fifth of its answers are 0 or 1."""
    rng = np.random.default_rng(3)
    data, (truth,) = simulate(rng, 30, 400, spread=6.0, noise=1.0)
    rounded = replace(data, p=np.round(data.p, 5))
    assert 0.1 < np.mean((rounded.p == 0) | (rounded.p == 1)) < 0.4
    ranking = fit(rounded, prior="estimated")
    centred = truth[ranking.items] - truth[ranking.items].mean()
    slope = ranking.scores @ centred / (ranking.scores @ ranking.scores)
    assert 0.9 < slope < 1.3
    assert np.corrcoef(ranking.scores, centred)[0, 1] > 0.97
    believed = fit(replace(data, p=np.clip(rounded.p, 5e-6, 1 - 5e-6)), prior="estimated").scores
    assert np.corrcoef(believed, centred)[0, 1] < np.corrcoef(ranking.scores, centred)[0, 1]


def test_variances_of_differences_are_exact_on_trees_and_close_on_sparse_graphs():
    rng = np.random.default_rng(4)
    for extra, tolerance in ((0, 1e-3), (300, 0.15)):
        first = np.concatenate([np.arange(1, 80), rng.integers(80, size=extra)])
        parents = [int(rng.integers(max(0, i - 4), i)) for i in range(1, 80)]
        second = np.concatenate([parents, (first[79:] + rng.integers(1, 80, size=extra)) % 80])
        data = Comparisons.from_columns(first, second, np.full(len(first), 0.5))
        exact, tree = (
            difference_variances(Laplacian(Pattern(Graph.build(data), limits=limits), np.ones(len(first)), np.ones(80)))
            for limits in (Limits(), Limits(spectral=10))
        )
        np.testing.assert_allclose(tree, exact, rtol=tolerance)


@pytest.mark.parametrize("kind", ["soft", "decisions"])
def test_large_contexts_agree_with_exact_ones(kind):
    rng = np.random.default_rng(5)
    data, _ = simulate(rng, 150, 1200, noise=1.0)
    if kind == "decisions":
        data = replace(data, p=(rng.random(len(data)) < data.p).astype(float))
    style = rng.standard_normal((150, 2))
    exact, large = (
        mixed(data, BradleyTerry(), Design(features=style), limits=limits) for limits in (Limits(), Limits(spectral=10))
    )
    for name in ("scores", "noise"):
        assert getattr(large.effects, name) == pytest.approx(getattr(exact.effects, name), rel=0.12), name
    np.testing.assert_allclose(large.scores, exact.scores, atol=0.06 * np.std(exact.scores))


def test_both_orders_are_one_observation_free_of_position():
    """The Gaussian expert is linear, so that the mean of both orders is all that they tell of texts with effects."""
    rng = np.random.default_rng(2)
    data, group, _ = linear(rng, both=True, weighted=False)
    effect = 0.05 * rng.standard_normal(40)
    shift = effect[data.first] + effect[data.second]
    data = replace(data, p=data.p + shift)
    product = mixed(data, Gaussian(), Design(group))
    merged = data.merge_orders()
    alone = mixed(merged, Gaussian(), Design(group, is_biased=False))
    np.testing.assert_allclose(product.scores, alone.scores, atol=1e-7)
    assert product.effects.noise == pytest.approx(alone.effects.noise, rel=1e-6)
    assert product.bias[0, 0] == pytest.approx(-0.04 - np.mean(shift), abs=0.004)


def test_variances_of_a_simulated_judge_are_found():
    rng = np.random.default_rng(4)
    contexts, n, rows = 60, 16, 64
    means, gamma = 0.8 * rng.standard_normal(n), -0.4 + 0.3 * rng.standard_normal(contexts)
    truth = means + 0.6 * rng.standard_normal((contexts, n))
    context = np.repeat(np.arange(contexts), rows)
    first = rng.integers(n, size=len(context))
    second = (first + rng.integers(1, n, size=len(context))) % n
    d = truth[context, first] - truth[context, second] - gamma[context] + 0.3 * rng.standard_normal(len(context))
    data = Comparisons.from_columns(first, second, expit(d), context=context)
    effects = mixed(data, BradleyTerry(), Design(Graph.build(data).item)).effects
    assert effects.scores == pytest.approx(0.36, rel=0.15)
    assert effects.noise == pytest.approx(0.09, rel=0.15)
    assert effects.groups == pytest.approx(np.var(means), rel=0.25)
    assert effects.bias == pytest.approx(np.var(gamma), rel=0.2)
    expected = np.bincount(effects.group, effects.mean) / np.bincount(effects.group)
    np.testing.assert_allclose(expected, means - means.mean(), atol=0.25)


@pytest.mark.parametrize("effect", [0.0, 0.4])
def test_position_effects_of_texts_are_not_noise_where_both_orders_are_asked(effect):
    rng = np.random.default_rng(5)
    contexts, n, asked = 40, 12, 36
    truth, own = rng.standard_normal((contexts, n)), effect * rng.standard_normal((contexts, n))
    gamma = -0.5 + 0.3 * rng.standard_normal(contexts)
    context = np.repeat(np.arange(contexts), asked)
    first = rng.integers(n, size=len(context))
    second = (first + rng.integers(1, n, size=len(context))) % n
    context, first, second = (np.concatenate(part) for part in ((context, context), (first, second), (second, first)))
    position = gamma[context] + own[context, first] + own[context, second]
    d = truth[context, first] - truth[context, second] - position + 0.2 * rng.standard_normal(len(context))
    data = Comparisons.from_columns(first, second, expit(d), context=context)
    product = mixed(data, BradleyTerry())
    assert product.effects.noise == pytest.approx(0.04, rel=0.25)
    assert product.effects.scores == pytest.approx(1.0, rel=0.15)
    order = np.argsort(product.graph.context[product.graph.starts[:-1]])
    assert np.corrcoef(product.bias[order, 0], gamma + 2 * own.mean(axis=1))[0, 1] > 0.9


@settings(max_examples=settings.default.max_examples // 4, deadline=None)
@given(comparisons_of(weighted=False), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_of_a_pair_does_not_matter(data, random):
    scores = {bias: _by_item(fit(data, bias=bias, prior="estimated")) for bias in ("none", "joint")}
    rows = list(range(len(data)))
    random.shuffle(rows)
    shuffled = Comparisons.from_columns(data.items[data.first][rows], data.items[data.second][rows], data.p[rows])
    turned = Comparisons.from_columns(data.items[data.second], data.items[data.first], 1 - data.p)
    for bias, expected in scores.items():
        found = _by_item(fit(shuffled, bias=bias, prior="estimated"))
        assert found == pytest.approx(expected, abs=1e-4)
    # With a bias, d = s_j − s_i + γ: what is turned round has the opposite bias.
    assert _by_item(fit(turned, prior="estimated")) == pytest.approx(scores["none"], abs=1e-4)
    assert _by_item(fit(turned, bias="joint", prior="estimated")) == pytest.approx(scores["joint"], abs=1e-3)


def _by_item(ranking):
    return dict(zip(ranking.items.tolist(), ranking.scores.tolist(), strict=True))


# A star in which an answer comes again: with both orders it came twice as often, and was once taken for a vote.
STAR = Comparisons.from_columns(np.arange(1, 5), np.zeros(4, dtype=np.int64), np.array([0.5, 0.5, 0.5, 0.25]))


@settings(max_examples=settings.default.max_examples // 4, deadline=None)
@given(comparisons_of(weighted=False))
@example(STAR)
def test_both_orders_that_agree_tell_what_one_of_double_weight_tells(data):
    data = data.merge_orders()
    one = Comparisons.from_columns(data.first, data.second, data.p, np.full(len(data), 2.0))
    assume(not are_choices(one))  # a decision in each order is less than one of double weight
    twice = Comparisons.from_columns(
        np.concatenate([data.first, data.second]),
        np.concatenate([data.second, data.first]),
        np.concatenate([data.p, 1 - data.p]),
    )
    expected = _by_item(fit(one, prior="estimated"))
    for bias in ("none", "joint"):
        found = fit(twice, bias=bias, prior="estimated")
        assert _by_item(found) == pytest.approx(expected, abs=1e-4)


@given(st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.8, 0.31]), st.booleans()), min_size=2, max_size=30))
@example([(0.5, True)] * 3 + [(0.25, False)])
def test_whether_answers_are_choices_does_not_depend_on_the_order_shown(drawn):
    p, turned = (np.array(column) for column in zip(*drawn, strict=True))
    one, other = np.arange(len(p)), np.arange(len(p)) + 1
    straight = Comparisons.from_columns(one, other, p)
    mixed_up = Comparisons.from_columns(np.where(turned, other, one), np.where(turned, one, other), abs(turned - p))
    both = Comparisons.from_columns(np.append(one, other), np.append(other, one), np.append(p, 1 - p))
    assert are_choices(straight) == are_choices(mixed_up) == are_choices(both)


@pytest.mark.parametrize(
    ("p", "weight", "shares"),
    [
        ([1.0, 0.5, 0.0], None, [1.0, 0.5, 0.0]),  # decisions
        ([1.0, 0.5, 0.0], [0.3, 1.0, 2.0], [1.0, 0.5, 0.0]),
        ([0.75, 0.25, 0.5], None, [1.0, 0.0, 0.5]),  # one vote of a judge: (a + ½)/(n + 1)
        ([0.7, 0.1, 0.5], [4, 4, 4], [0.75, 0.0, 0.5]),
        ([5.5 / 6, 0.5 / 4, 0.5], [5, 3, 2], [1.0, 0.0, 0.5]),
        ([2 / 3, 0.2, 0.5], [3, 5, 2], [2 / 3, 0.2, 0.5]),  # shares of votes in a file
        ([0.7, 0.1, 0.5] * 99, None, None),  # rounded probabilities, and grades
        ([0.95, 0.75, 0.5] * 99, None, None),
        ([0.7, 0.1, 0.5], [4.0, 4.0, 0.5], None),
        ([1.0, 0.9, 0.0], None, None),
    ],
)
def test_votes_are_known_by_their_weight_and_decisions_by_their_p(p, weight, shares):
    numbers = np.arange(len(p))
    data = Comparisons.from_columns(numbers, numbers + 1, p, weight)
    found = votes_of(data)
    assert are_choices(data) == (found is not None) == (shares is not None)
    if found is not None:
        np.testing.assert_allclose(found[0], shares, atol=1e-12)
        np.testing.assert_array_equal(found[1], data.weights)


def test_certain_answers_of_a_rounded_scale_are_half_a_step_from_certainty():
    p = np.array([0.0, 1.0, 0.9, 0.35])
    y, saturated = logits(p)
    np.testing.assert_allclose(y[:2], logit([0.025, 0.975]))
    np.testing.assert_allclose(y[2:], logit(p[2:]))
    assert saturated.tolist() == [True, True, False, False]
    assert logits(np.array([1.0, 0.9001]))[0][0] == LEAST_CAP  # no step: as before


@pytest.mark.parametrize("runs", [12, pytest.param(150, marks=pytest.mark.long)])
@pytest.mark.parametrize("step", [0.05, 0.1])
def test_intervals_cover_where_probabilities_are_rounded(step, runs):
    items, calls = 20, 60
    rng, covered = np.random.default_rng(int(100 * step)), []
    for _ in range(runs):
        truth = rng.standard_normal(items)
        first = np.append(np.arange(items), rng.integers(0, items, calls - items))
        second = (first + np.append(np.ones(items, dtype=int), rng.integers(1, items, calls - items))) % items
        first, second = np.append(first, second), np.append(second, first)
        p = expit(truth[first] - truth[second] + 0.3 + rng.standard_normal(len(first)))
        ranking = fit(Comparisons.from_columns(first, second, np.round(p / step) * step), "mixed")
        true = (truth - truth.mean())[ranking.items.astype(int)]
        covered.append(np.mean((ranking.low <= true) & (true <= ranking.high)))
    error = np.std(covered) / np.sqrt(runs)
    assert 0.95 - 0.02 - 3 * error < np.mean(covered) < 0.98 + 3 * error  # many 0 and 1 make it wide


def test_observations_average_repeats_and_halve_what_both_orders_say():
    rows = [
        ("a", "b", 0.8, 1.0),
        ("a", "b", 0.6, 3.0),
        ("b", "a", 0.4, 4.0),
        ("b", "c", 0.7, 2.0),
        ("d", "c", 0.5, 0.0),
    ]
    data = Comparisons.from_rows(rows)
    found = observe(data, Graph.build(data), *logits(data.p))
    ab = (np.log(4.0) + 3 * np.log(1.5)) / 4
    np.testing.assert_allclose(found.y, [(ab - np.log(2 / 3)) / 2, np.log(7 / 3)])
    np.testing.assert_allclose(found.weight, [8.0, 2.0])
    np.testing.assert_allclose(found.sums, [[(ab + np.log(2 / 3)) / 2]])
    assert found.judge.tolist() == [1, 0]


def test_the_order_of_contexts_does_not_matter():
    data, _ = simulate(np.random.default_rng(6), 8, 20, contexts=12)
    renamed = replace(data, context=(11 - data.context).astype(np.int32))
    expected, found = (fit(given, bias="joint", prior="estimated", groups="items") for given in (data, renamed))
    before = dict(
        zip(zip(expected.context.tolist(), expected.items.tolist(), strict=True), expected.scores, strict=True)
    )
    after = zip(zip((11 - found.context).tolist(), found.items.tolist(), strict=True), found.scores, strict=True)
    assert dict(after) == pytest.approx(before, abs=1e-6)


def test_groups_that_share_nothing_change_little_and_those_that_share_all_much():
    rng = np.random.default_rng(7)
    data, truth = simulate(rng, 12, 60, contexts=50)
    alone = fit(data, bias="joint", prior="estimated")
    groups = {(context, item): int(rng.integers(10)) for context in range(50) for item in range(12)}
    grouped = fit(data, bias="joint", prior="estimated", groups=groups)
    assert grouped.solution.effects.groups < 0.03
    np.testing.assert_allclose(grouped.scores, alone.scores, atol=0.05)
    same = replace(data, p=expit(truth[0, data.first] - truth[0, data.second] + 0.5 * rng.standard_normal(len(data))))
    alone, grouped = (fit(same, bias="joint", prior="estimated", groups=given) for given in (None, "items"))
    error = [np.std(found.scores - truth[0, found.items]) for found in (alone, grouped)]
    assert error[1] < 0.5 * error[0]
    assert np.mean(grouped.std) < 0.6 * np.mean(alone.std)


def test_styles_that_explain_the_scores_are_found():
    rng = np.random.default_rng(8)
    style, likes = rng.standard_normal((200, 3)), np.array([1.0, -0.5, 0.0])
    truth = style @ likes
    first = rng.integers(200, size=300)
    second = (first + rng.integers(1, 200, size=300)) % 200
    data = Comparisons.from_columns(
        np.concatenate([np.arange(200), first]),
        np.concatenate([(np.arange(200) + 1) % 200, second]),
        expit(
            np.concatenate([truth - np.roll(truth, -1), truth[first] - truth[second]]) + 0.5 * rng.standard_normal(500)
        ),
    )
    alone = fit(data, prior="estimated")
    styled = fit(data, prior="estimated", features=dict(enumerate(style.tolist())))
    error = [np.std(found.scores - truth[found.items]) for found in (alone, styled)]
    assert error[1] < 0.5 * error[0]
    assert styled.solution.effects.style > 5 * styled.solution.effects.scores


def test_the_spread_of_biases_is_found_from_few_decisions_per_context():
    """γ of a context has an error of 0.5; the true variance of γ is 0.25, the mean of eight judges."""
    ring = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 3), (1, 4)]
    first, second = np.array([shown for i, j in ring for shown in ((i, j), (j, i))]).T
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        scores, gamma = rng.standard_normal((100, 6)), 0.5 + 0.5 * rng.standard_normal((100, 1))
        d = scores[:, first] - scores[:, second] - gamma
        p = (rng.random(d.shape) < expit(d)).astype(float).ravel()
        context = np.repeat(np.arange(100), len(first))
        data = Comparisons.from_columns(np.tile(first, 100), np.tile(second, 100), p, context=context)
        found.append(mixed(data, BradleyTerry()).effects.bias)
    assert 0.15 < np.mean(found) < 0.35


def test_comparisons_are_summed_by_pair_and_order():
    rows = [("a", "b", 0.6), ("b", "c", 0.5), ("b", "a", 0.6), ("b", "c", 0.7), ("c", "a", 0.1)]
    data = Comparisons.from_rows(rows)
    found = JudgedPairs.of(data, Graph.build(data))
    assert found.row.tolist() == [0, 4, 1]
    assert found.total(data.p) == pytest.approx(np.array([[0.6, 0.6], [0.0, 0.1], [1.2, 0.0]]))


def test_a_few_pairs_in_one_order_are_freed_of_the_bias():
    """All pairs in both orders but those of one item, always shown first by a judge that likes the first."""
    rng = np.random.default_rng(10)
    n, gamma = 12, -1.5
    truth = np.append(np.linspace(-1, 1, n - 1), 0.0)
    ends = [(i, j) for i in range(n - 1) for j in range(n - 1) if i != j] + [(n - 1, j) for j in range(n - 1)]
    first, second = np.array(ends).T
    p = expit(truth[first] - truth[second] - gamma + 0.1 * rng.standard_normal(len(first)))
    ranking = fit(Comparisons.from_columns(first, second, p), bias="joint", prior="estimated")
    found = np.array([_by_item(ranking)[item] for item in range(n)])
    np.testing.assert_allclose(found, truth - truth.mean(), atol=0.15)
    assert ranking.solution.bias[0, 0] == pytest.approx(gamma, abs=0.1)
    unaware = fit(Comparisons.from_columns(first, second, p), prior="estimated")
    assert _by_item(unaware)[n - 1] > 0.5


def test_decisions_are_coin_flips():
    data, _ = simulate(np.random.default_rng(11), 10, 60, contexts=20)
    hard = replace(data, p=(np.random.default_rng(0).random(len(data)) < data.p).astype(float))
    for decisions in (hard, Comparisons.from_columns(*_both(hard), context=np.tile(hard.context, 2))):
        ranking = fit(decisions, bias="joint", prior="estimated")
        assert ranking.solution.dispersion == 1.0
        assert ranking.solution.converged
        assert 0.4 < ranking.solution.effects.scores < 2.0


def _both(data):
    return (
        np.concatenate([data.first, data.second]),
        np.concatenate([data.second, data.first]),
        np.concatenate([data.p, 1 - data.p]),
    )


@pytest.mark.parametrize("bias", ["none", "joint"])
@pytest.mark.parametrize(
    "rows",
    [
        [("a", "b", 0.7)],
        [("a", "b", 0.7), ("b", "a", 0.4)],
        [("a", "b", 0.5), ("b", "a", 0.5)],
        [("a", "b", 1.0), ("b", "c", 1.0)],
        [("a", "b", 0.7), ("b", "a", 0.4), ("c", "d", 0.2), ("d", "c", 0.9)],
    ],
    ids=["one", "both", "equal", "certain", "disconnected"],
)
def test_very_few_comparisons_have_finite_scores_and_intervals(rows, bias):
    ranking = fit(rows, bias=bias, prior="estimated", groups={"a": 0, "b": 1, "c": 0, "d": 1})
    effects = ranking.solution.effects
    assert np.all(np.isfinite(ranking.scores))
    assert np.all(ranking.std > 0)
    assert min(effects.scores, effects.noise, effects.dispersion) > 0
    scores = _by_item(ranking)
    assert scores["a"] >= scores["b"] - 1e-12
    if "d" in scores:
        assert scores["d"] > scores["c"]
        assert scores["a"] + scores["b"] == pytest.approx(0.0, abs=1e-9)


def test_a_common_factor_of_all_weights_moves_the_dispersion_alone():
    data, _ = simulate(np.random.default_rng(12), 40, 400)
    light, heavy = (fit(replace(data, weight=np.full(400, weight)), prior="estimated") for weight in (1.0, 10.0))
    np.testing.assert_allclose(light.scores, heavy.scores, atol=0.01)
    np.testing.assert_allclose(light.std, heavy.std, rtol=0.02)
    assert heavy.solution.dispersion == pytest.approx(10 * light.solution.dispersion, rel=0.03)


def test_comparisons_without_weight_do_not_count():
    data, _ = simulate(np.random.default_rng(12), 8, 60)
    wrong = np.arange(60) % 10 == 0
    silent = replace(data, weight=np.where(wrong, 0.0, 1.0), p=np.where(wrong, 0.01, data.p))
    without = Comparisons.from_columns(*(part[~wrong] for part in (data.first, data.second, data.p)))
    found, expected = (_by_item(fit(one, prior="estimated")) for one in (silent, without))
    assert found == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("seed", [13, 37])
def test_noise_that_swings_with_the_biases_settles(seed):
    """Few pairs, some of them in one order: the noise swung between values for ever."""
    rng = np.random.default_rng(seed)
    scores, rows = rng.standard_normal((6, 6)), []
    for context in range(6):
        for _ in range(3):
            i, j = rng.choice(6, 2, replace=False)
            for number, (first, second) in enumerate(((i, j), (j, i))):
                if number == 0 or rng.random() < 0.7:
                    d = scores[context, first] - scores[context, second] + 0.3 * rng.standard_normal()
                    rows.append({"context": context, "first": first, "second": second, "p": expit(d)})
    assert quiet_fit(rows, "mixed", groups="items").solution.converged


def test_judges_that_decide_and_judges_that_say_how_sure_they_are_make_a_panel():
    """One noise for both would take decisions for logits as large as the largest of the others."""
    rng = np.random.default_rng(0)
    truth, rows = 1.5 * rng.standard_normal(20), []
    for judge in ("sure", "decides"):
        for i, j in rng.integers(20, size=(160, 2)).tolist():
            p = expit(truth[i] - truth[j] + 0.4 * rng.standard_normal())
            if i != j:
                said = float(p) if judge == "sure" else float(rng.random() < p)
                rows.append({"first": i, "second": j, "p": said, "judge": judge})
    found = fit(rows, "mixed")
    assert found.method == "panel"
    assert found.to_csv() == fit(rows, "panel").to_csv()
    assert np.corrcoef(found.scores, truth[found.items.astype(int)])[0, 1] > 0.95
    apart = [fit([row for row in rows if row["judge"] == judge], "mixed").method for judge in ("sure", "decides")]
    assert apart == ["mixed", "mixed"]
