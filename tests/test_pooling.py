"""The product with estimated variances, against dense Gaussian models, direct maximisation and simulated judges."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.special import expit

from comparo import Comparisons, fit
from comparo.model.covariance import ProductCovariance
from comparo.model.effects import random_effects
from comparo.model.experts import BradleyTerry, Gaussian
from comparo.model.graph import Graph
from comparo.model.limits import Limits
from comparo.model.pooling import pool
from comparo.model.position import Positions, bias_given, pairs
from comparo.model.weights import even
from oracle import comparisons_of, incidence, simulate, weights

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


SETTLED = Limits(pooling_rounds=2000, pooling_change=1e-11)  # rounds go on until nothing changes


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


def dense(data, product, columns, variances):
    """Scores and their covariance, centred, by the precision of (s, θ) as one matrix."""
    design, weight = incidence(data), weights(data)
    n, many = design.shape[1], columns.shape[1]
    effects = product.effects
    ridge = effects.dispersion / effects.scores
    centring = np.eye(n) - 1.0 / n
    columns = centring @ columns
    precision = np.zeros((n + many, n + many))
    precision[:n, :n] = design.T @ (weight[:, None] * design) + ridge * np.eye(n)
    precision[:n, n:] = -ridge * columns
    precision[n:, :n] = -ridge * columns.T
    precision[n:, n:] = ridge * columns.T @ columns + np.diag(effects.dispersion / variances)
    rhs = np.concatenate([design.T @ (weight * (data.p - 0.5)), np.zeros(many)])
    inverse = np.linalg.inv(precision)
    covariance = effects.dispersion * centring @ inverse[:n, :n] @ centring
    return centring @ (inverse @ rhs)[:n], covariance


@pytest.mark.parametrize("kinds", ["", "groups", "style", "groups style"])
def test_scores_and_covariance_are_those_of_the_dense_gaussian_model(kinds):
    data, group, style = linear(np.random.default_rng(0))
    given = {"groups": group if "groups" in kinds else None, "features": style if "style" in kinds else None}
    product = pool(data, Gaussian(), is_biased=False, limits=SETTLED, **given)
    effects = product.effects
    used = [(members(group, style[:, :0]), effects.groups)] if "groups" in kinds else []
    used += [(style, effects.style)] if "style" in kinds else []
    columns = np.hstack([np.zeros((len(group), 0)), *(part for part, _ in used)])
    variances = np.concatenate([np.zeros(0), *(np.full(part.shape[1], size) for part, size in used)])
    scores, covariance = dense(data, product, columns, variances)
    np.testing.assert_allclose(product.scores, scores, atol=1e-7)
    found = ProductCovariance(product.laplacian, product)
    (batch,) = product.laplacian.pattern.batches
    np.testing.assert_allclose(found.block(batch)[0], covariance, atol=1e-7 * covariance.max())
    np.testing.assert_allclose(found.std, np.sqrt(np.diagonal(covariance)), rtol=1e-6)
    apart = covariance[3, 3] + covariance[7, 7] - 2 * covariance[3, 7]
    assert found.difference(3, 7) == pytest.approx(apart, rel=1e-6)


def test_variances_make_the_comparisons_most_probable():
    """Each variance with one degree of freedom of its first size, φ with ν of the size 1, all by the dense density."""
    data, group, style = linear(np.random.default_rng(1))
    effects = pool(data, Gaussian(), is_biased=False, groups=group, features=style, limits=SETTLED).effects
    design, weight, y = incidence(data), weights(data), data.p - 0.5
    kinds = [np.eye(len(group)), members(group, style[:, :0]), style]
    # The curvature of one comparison of weight 1 is 1, so that φ is also the noise.
    firsts = [effects.noise, effects.scores * 6 / len(group), effects.scores * 2 / len(group)]
    assert effects.noise == pytest.approx(effects.dispersion)

    parts = [np.diag(1 / weight), *(design @ kind @ kind.T @ design.T for kind in kinds)]

    def covariance_of(sizes):
        return sum(size * part for size, part in zip(sizes, parts, strict=True))

    covariance = covariance_of([effects.dispersion, effects.scores, effects.groups, effects.style])
    unknown = 1 / (1 + effects.dispersion * np.trace(np.linalg.inv(covariance) / weight))

    def loss(logs):
        sizes = np.exp(logs)
        factor = np.linalg.cholesky(covariance_of(sizes))
        white = solve_triangular(factor, y, lower=True, check_finite=False)
        value = np.sum(np.log(np.diag(factor))) + 0.5 * white @ white
        value += 0.5 * unknown * (logs[0] + 1 / sizes[0])
        return value + 0.5 * sum(
            log + first / size for log, first, size in zip(logs[1:], firsts, sizes[1:], strict=True)
        )

    options = {"xatol": 1e-8, "fatol": 1e-12, "maxiter": 20000, "maxfev": 20000}
    start = np.log([effects.dispersion * 2, effects.scores / 2, effects.groups * 3, effects.style / 3])
    best = np.exp(minimize(loss, start, method="Nelder-Mead", options=options).x)
    found = [effects.dispersion, effects.scores, effects.groups, effects.style]
    np.testing.assert_allclose(found, best, rtol=1e-4)


def test_both_orders_are_one_observation_free_of_position():
    """The Gaussian expert is linear, so that the mean of both orders is all that they tell."""
    data, group, _ = linear(np.random.default_rng(2), both=True, weighted=False)
    product = pool(data, Gaussian(), groups=group, limits=SETTLED)
    merged = data.merge_orders()
    alone = pool(merged, Gaussian(), is_biased=False, groups=group, limits=SETTLED)
    np.testing.assert_allclose(product.scores, alone.scores, atol=1e-7)
    assert product.effects.noise == pytest.approx(alone.effects.noise, rel=1e-6)
    assert product.bias[0, 0] == pytest.approx(-0.04, abs=0.004)
    scores, covariance = dense(merged, alone, members(group, np.zeros((40, 0))), np.full(6, alone.effects.groups))
    np.testing.assert_allclose(product.scores, scores, atol=1e-7)
    np.testing.assert_allclose(
        ProductCovariance(product.laplacian, product).std, np.sqrt(np.diagonal(covariance)), rtol=1e-5
    )


def test_large_contexts_agree_with_dense_ones():
    data, group, style = linear(np.random.default_rng(3), n=100, rows=500)
    for expert, is_biased in ((Gaussian(), False), (BradleyTerry(), False), (BradleyTerry(), True)):
        large = pool(data, expert, is_biased=is_biased, groups=group, features=style)
        assert not large.laplacian.pattern.is_batched(large.laplacian.pattern.batches[0])
        limits = Limits(batched=200)
        small = pool(data, expert, is_biased=is_biased, groups=group, features=style, limits=limits)
        np.testing.assert_allclose(large.scores, small.scores, atol=0.01 * np.std(small.scores))
        for name in ("dispersion", "scores", "groups", "style"):
            assert getattr(large.effects, name) == pytest.approx(getattr(small.effects, name), rel=0.1), name


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
    effects = pool(data, BradleyTerry(), groups=Graph.build(data).item).effects
    assert effects.scores == pytest.approx(0.36, rel=0.15)
    assert effects.noise == pytest.approx(0.09, rel=0.15)
    assert effects.groups == pytest.approx(np.var(means), rel=0.25)
    assert effects.bias == pytest.approx(np.var(gamma), rel=0.2)
    np.testing.assert_allclose(effects.means, means - means.mean(), atol=0.25)


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
    product = pool(data, BradleyTerry())
    assert product.effects.noise == pytest.approx(0.04, rel=0.25)
    assert product.effects.scores == pytest.approx(1.0, rel=0.15)
    order = np.argsort(product.graph.context[product.graph.starts[:-1]])
    assert np.corrcoef(product.bias[order, 0], gamma + 2 * own.mean(axis=1))[0, 1] > 0.9
    found = Positions.of(data, product.graph, BradleyTerry())
    for _ in range(5):
        found = found.learn(product.scores, product.dispersion)
    if effect:
        expected = (own - own.mean(axis=1, keepdims=True))[product.graph.context, product.graph.item]
        assert np.corrcoef(found.effect, expected)[0, 1] > 0.9
    else:
        assert np.std(found.effect) < 0.1


@settings(max_examples=25, deadline=None)
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


@settings(max_examples=25, deadline=None)
@given(comparisons_of(weighted=False))
@example(STAR)
def test_both_orders_that_agree_tell_what_one_of_double_weight_tells(data):
    data = data.merge_orders()
    one = Comparisons.from_columns(data.first, data.second, data.p, np.full(len(data), 2.0))
    twice = Comparisons.from_columns(
        np.concatenate([data.first, data.second]),
        np.concatenate([data.second, data.first]),
        np.concatenate([data.p, 1 - data.p]),
    )
    settled = Limits(pooling_rounds=1000, pooling_change=1e-8)
    expected = _by_item(fit(one, prior="estimated", limits=settled))
    for bias in ("none", "joint"):
        found = fit(twice, bias=bias, prior="estimated", limits=settled)
        assert _by_item(found) == pytest.approx(expected, abs=1e-4)


@given(st.lists(st.tuples(st.sampled_from([0.2, 0.5, 0.8, 0.31]), st.booleans()), min_size=2, max_size=30))
@example([(0.5, True)] * 3 + [(0.25, False)])
def test_what_an_answer_counts_does_not_depend_on_the_order_shown(drawn):
    p, turned = (np.array(column) for column in zip(*drawn, strict=True))
    one, other = np.arange(len(p)), np.arange(len(p)) + 1
    straight = Comparisons.from_columns(one, other, p)
    mixed = Comparisons.from_columns(np.where(turned, other, one), np.where(turned, one, other), abs(turned - p))
    both = Comparisons.from_columns(np.append(one, other), np.append(other, one), np.append(p, 1 - p))
    expected = even(straight, BradleyTerry()).weights
    np.testing.assert_allclose(even(mixed, BradleyTerry()).weights, expected)
    np.testing.assert_allclose(even(both, BradleyTerry()).weights, np.tile(expected, 2))


def test_votes_on_few_pairs_are_coin_flips():
    votes = Comparisons.from_columns([0, 1, 0, 1] * 50, [1, 2, 1, 2] * 50, [1.0, 0.5, 0.0, 1.0] * 50)
    assert even(votes, BradleyTerry()) is votes


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
    assert grouped.product.effects.groups < 0.02
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
    assert styled.product.effects.style > 5 * styled.product.effects.scores


def test_gamma_given_the_scores_is_the_root_of_its_slopes():
    rng = np.random.default_rng(9)
    data, truth = simulate(rng, 10, 30, gamma=np.array([0.7, -0.3]), contexts=2)
    difference = truth[data.context, data.first] - truth[data.context, data.second]
    gamma, variance = bias_given(BradleyTerry(), data, data.context, difference)
    for context in range(2):
        rows = data.context == context
        d = difference[rows] - gamma[context]
        assert np.sum(data.p[rows] - expit(d)) == pytest.approx(0.0, abs=1e-7)
        assert variance[context] == pytest.approx(1 / np.sum(expit(d) * expit(-d)), rel=1e-6)
    np.testing.assert_allclose(gamma, [0.7, -0.3], atol=0.2)


def test_pairs_are_numbered_whatever_their_order():
    rows = [("a", "b", 0.6), ("b", "c", 0.5), ("b", "a", 0.6), ("b", "c", 0.7), ("c", "a", 0.1)]
    data = Comparisons.from_rows(rows)
    number, both = pairs(data, Graph.build(data))
    assert number.tolist() == [0, 2, 0, 2, 1]
    assert both.tolist() == [True, False, True, False, False]


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
    assert ranking.product.bias[0, 0] == pytest.approx(gamma, abs=0.1)
    unaware = fit(Comparisons.from_columns(first, second, p), prior="estimated")
    assert _by_item(unaware)[n - 1] > 0.5


def test_decisions_are_coin_flips():
    data, _ = simulate(np.random.default_rng(11), 10, 60, contexts=20)
    hard = replace(data, p=(np.random.default_rng(0).random(len(data)) < data.p).astype(float))
    for decisions in (hard, Comparisons.from_columns(*_both(hard), context=np.tile(hard.context, 2))):
        ranking = fit(decisions, bias="joint", prior="estimated")
        assert ranking.product.dispersion == 1.0
        assert ranking.converged
        assert 0.4 < ranking.product.effects.scores < 2.0


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
    effects = ranking.product.effects
    assert np.all(np.isfinite(ranking.scores))
    assert np.all(ranking.std > 0)
    assert min(effects.scores, effects.noise, effects.dispersion) > 0
    scores = _by_item(ranking)
    assert scores["a"] >= scores["b"]
    if "d" in scores:
        assert scores["d"] > scores["c"]
        assert scores["a"] + scores["b"] == pytest.approx(0.0, abs=1e-9)


def test_a_common_factor_of_all_weights_moves_the_dispersion_alone():
    data, _ = simulate(np.random.default_rng(12), 40, 400)
    light, heavy = (fit(replace(data, weight=np.full(400, weight)), prior="estimated") for weight in (1.0, 10.0))
    np.testing.assert_allclose(light.scores, heavy.scores, atol=0.01)
    np.testing.assert_allclose(light.std, heavy.std, rtol=0.02)
    assert heavy.product.dispersion == pytest.approx(10 * light.product.dispersion, rel=0.03)


def test_comparisons_without_weight_do_not_count():
    data, _ = simulate(np.random.default_rng(12), 8, 60)
    wrong = np.arange(60) % 10 == 0
    silent = replace(data, weight=np.where(wrong, 0.0, 1.0), p=np.where(wrong, 0.01, data.p))
    without = Comparisons.from_columns(*(part[~wrong] for part in (data.first, data.second, data.p)))
    found, expected = (_by_item(fit(one, prior="estimated")) for one in (silent, without))
    assert found == pytest.approx(expected, abs=0.02)


def test_random_effects_of_many_estimates_find_their_mean_and_variance():
    rng = np.random.default_rng(13)
    variance = rng.uniform(0.05, 0.5, 4000)
    values = 1.5 + 0.7 * rng.standard_normal(4000)
    centre, between = random_effects(values + np.sqrt(variance) * rng.standard_normal(4000), variance)
    assert centre == pytest.approx(1.5, abs=0.05)
    assert between == pytest.approx(0.49, rel=0.1)
    assert random_effects(np.ones(5), np.full(5, 0.2))[1] == pytest.approx(0.0002)
