"""The model of choices against a sampler, and what it says where order and scores are not separated."""

import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp

from comparo import Comparisons
from comparo.model.inference.newton import Maximum
from comparo.model.inference.position import _spread, winners_first
from comparo.model.inference.random_effects import differences, solve
from comparo.model.tuning import POSITION, POSITION_ERROR, SLOTS
from inside import Choices, Design, Graph, Limits, Shared
from inside import quiet_fit as fit
from oracle import posterior_draws
from split import one_short

RNG = np.random.default_rng(5)


def decided(pairs, scores, gamma=0.0, tie=0.0):
    """Rows of decisions about `pairs`; `tie` is Davidson's ν."""
    rows = []
    for i, j in pairs:
        d = scores[i] - scores[j] - gamma
        chance = np.array([np.exp(d / 2), tie, np.exp(-d / 2)])
        rows.append((int(i), int(j), float(RNG.choice([1.0, 0.5, 0.0], p=chance / chance.sum()))))
    return rows


def at_random(n, count):
    return [RNG.choice(n, 2, replace=False) for _ in range(count)]


def ranked_lineups(n, k, count, slots, best=False):
    """Line-ups of k of n texts in random slots with these effects, answered by an order or the best."""
    scores, rows = RNG.standard_normal(n), []
    for _ in range(count):
        shown = RNG.choice(n, k, replace=False)
        order = shown[np.argsort(-(scores[shown] + slots + RNG.gumbel(size=k)))]
        rows.append((shown.tolist(), order[:1].tolist() if best else order.tolist()))
    return rows


NORMAL = RNG.standard_normal(20)
RING, STAR = [(i, (i + 1) % 6) for i in range(6)], [(0, i) if i % 2 else (i, 0) for i in range(1, 10)]
BACK = [(j, i) for i, j in RING]
WON = decided(at_random(10, 100), NORMAL)
DESIGNS = {
    "twenty for one of two": [(0, 1, 1.0)] * 20,
    "fifteen of twenty in one order": [(0, 1, 1.0)] * 15 + [(0, 1, 0.0)] * 5,
    "one vote": [(0, 1, 1.0)],
    "both orders, always the first": [(0, 1, 1.0), (1, 0, 1.0)] * 6,
    "both orders": [(0, 1, 1.0)] * 6 + [(1, 0, 0.0)] * 2,
    "chain of winners": [(0, 1, 1.0)] * 40 + [(1, 2, 1.0)] * 40,
    "ring in one order": decided(RING * 7, NORMAL),
    "ring in both orders": decided(RING + BACK, NORMAL),
    "ring that agrees": [(i, j, float(i < j)) for i, j in RING + BACK],
    "star": decided(STAR * 4, NORMAL),
    "tree": decided([((i - 1) // 2, i) for i in range(1, 10)] * 3, NORMAL),
    "position of 4 in one order": decided(at_random(16, 64), NORMAL, gamma=-4.0),
    "position of −3 in one order": decided(at_random(10, 60), NORMAL, gamma=3.0),
    "sure judge": decided(at_random(8, 16), 3 * NORMAL),
    "texts that hardly differ": decided(at_random(8, 32), 0.2 * NORMAL),
    "winners first": [(i, j, 1.0) if won else (j, i, 1.0) for i, j, won in WON],
    "ties": decided(at_random(8, 60), NORMAL, tie=1.5),
    "many voters": decided(at_random(16, 64), NORMAL),
    "slots of ±4, orders": ranked_lineups(8, 4, 24, np.array([4.0, 1.0, -1.0, -4.0])),
    "only the best": ranked_lineups(8, 4, 40, np.zeros(4), best=True),
}


def as_data(name):
    rows = DESIGNS[name]
    if isinstance(rows[0][0], list):
        says = [("best", best[0]) if len(best) == 1 else ("order", ">".join(map(str, best))) for _, best in rows]
        return Comparisons.from_rows(
            [
                {"items": list(map(str, shown)), kind: str(text)}
                for (shown, _), (kind, text) in zip(rows, says, strict=True)
            ]
        )
    voters = {"voter": [f"v{row}" for row in range(len(rows))]} if name == "many voters" else {}
    first, second, p = zip(*rows, strict=True)
    return Comparisons.from_columns(list(map(str, first)), list(map(str, second)), p, **voters)


def drawn(name, ranking):
    """Draws of the scores in the order of the ranking's items."""
    rows, items = DESIGNS[name], [int(item) for item in ranking.graph.item.tolist()]
    labels = [int(label) for label in ranking.comparisons.items.tolist()]
    number = {label: place for place, label in enumerate(labels[code] for code in items)}
    n = len(number)
    if isinstance(rows[0][0], list):
        k = len(rows[0][0])

        def likelihood(x):
            total = 0.0
            for shown, order in rows:
                # A difference of two slots has the variance τ², so each effect has half of it.
                u = np.stack([x[:, number[text]] + x[:, n + slot] / np.sqrt(2) for slot, text in enumerate(shown)], 1)
                place = [shown.index(text) for text in order]
                left = list(range(k))
                for slot in place if len(place) == 1 else place[:-1]:
                    total = total + u[:, slot] - logsumexp(u[:, left], axis=1)
                    left.remove(slot)
            return total

        return posterior_draws(likelihood, n, [list(range(k))])[:, :n]
    first, second, p = (np.array(column) for column in zip(*rows, strict=True))
    first, second = (np.array([number[text] for text in ends]) for ends in (first, second))
    is_left_out = winners_first(ranking.comparisons, np.zeros(len(rows), dtype=int))[0]
    nu = float(np.max(getattr(ranking.solution.expert, "nu", 0.0)))

    def likelihood(x):
        d = x[:, first] - x[:, second] - (0.0 if is_left_out else x[:, [n]])
        if nu:
            return np.sum((p - 0.5) * d - np.log(2 * np.cosh(d / 2) + nu), axis=1)
        return np.sum(p * log_expit(d) + (1 - p) * log_expit(-d), axis=1)

    return posterior_draws(likelihood, n, [] if is_left_out else [[0]])[:, :n]


STRONG = ("position of 4 in one order", "slots of ±4, orders")  # the model has one τ, the sampler all


@pytest.mark.parametrize("name", one_short(list(DESIGNS)))
def test_scores_and_intervals_are_those_of_the_posterior(name):
    ranking = fit(as_data(name), "mixed") if name != "many voters" else fit(as_data(name))
    found = drawn(name, ranking)
    mean, std = found.mean(axis=0), found.std(axis=0)
    assert ranking.solution.converged
    assert ranking.scores == pytest.approx(mean, abs=(0.5 if name in STRONG else 0.2) * std.max())
    assert np.mean((found > ranking.low) & (found < ranking.high)) == pytest.approx(0.95, abs=0.035)


@pytest.mark.parametrize("count", [1, 2, 8, 12, 18, 20, 25, 50, 100, 1000])
def test_votes_for_a_text_put_it_first(count):
    rows = [("a", "b", 1.0)] * count
    for ranking in (
        fit(rows, "mixed"),
        fit([{"first": "b", "second": "a", "p": 0.0, "voter": "x"} for _ in rows]),
        fit([{"first": a, "second": b, "p": p, "judge": "x"} for a, b, p in rows], "mixed"),
    ):
        assert list(ranking) == ["a", "b"]
        assert ranking.solution.converged
        assert ranking["a"].score - ranking["b"].score > 0.3


def test_a_longer_chain_of_votes_keeps_its_order():
    ranking = fit([("a", "b", 1.0)] * 40 + [("b", "c", 1.0)] * 40, "mixed")
    assert list(ranking) == ["a", "b", "c"]


def test_one_order_that_follows_the_scores_leaves_position_to_its_prior():
    """Fifteen of twenty votes in one order: part of the lead may be position, and the intervals say so."""
    rows = [("a", "b", 1.0)] * 15 + [("a", "b", 0.0)] * 5
    one, both = fit(rows, "mixed"), fit(rows + [(b, a, 1.0 - p) for a, b, p in rows], "mixed")
    assert 0 < one.scores[0] < both.scores[0]
    assert one.std[0] > 1.2 * both.std[0]


def winners(rng, scores, count):
    rows = []
    for _ in range(count):
        i, j = rng.choice(len(scores), 2, replace=False)
        rows.append((i, j) if rng.random() < expit(scores[i] - scores[j]) else (j, i))
    return Comparisons.from_columns(*zip(*rows, strict=True), np.ones(count))


def test_position_is_left_out_of_a_list_of_winners_and_losers():
    covered = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        scores = rng.standard_normal(10)
        data = winners(rng, scores, 100)
        ranking = fit(data, "mixed")
        truth = scores[data.items[ranking.graph.item].astype(int)]
        covered.append((ranking.low < truth - truth.mean()) & (truth - truth.mean() < ranking.high))
        assert np.any(ranking.solution.bias != 0) or any("position" in note for note in ranking.notes)
    assert np.mean(covered) > 0.9


def test_a_list_of_winners_and_losers_has_tiers():
    ranking = fit(winners(np.random.default_rng(1), np.linspace(-2, 2, 8), 200), "mixed")
    assert ranking.tier.max() > 2


def test_a_judge_that_always_says_first_has_a_position_bias():
    """Random order, or both orders, is no list of winners, however often the first wins."""
    rng = np.random.default_rng(0)
    pairs = [tuple(rng.choice(10, 2, replace=False)) for _ in range(100)]
    for rows in ([(i, j, 1.0) for i, j in pairs], [(i, j, 1.0) for i, j in pairs + [(j, i) for i, j in pairs]]):
        data = Comparisons.from_rows(rows)
        assert not winners_first(data, data.positions).any()
        assert fit(data, "mixed").solution.bias.item() < -1.5


def test_priors_of_positions_are_those_of_the_joint_distribution():
    """With τ² known, mean and precision of each γ are those of dense algebra over all contexts and their mean."""
    rng = np.random.default_rng(0)
    rows = [
        {"context": c, "first": int(i), "second": int(j), "p": float(rng.random() < 0.6)}
        for c in range(4)
        for i, j in (rng.choice(5, 2, replace=False) for _ in range(30))
    ]
    data = Comparisons.from_rows(rows)
    model = Choices.of(data, graph := Graph.build(data), True, Limits())
    solution = solved(model)
    positions = model.positions.learn(solution)
    x, precision = model.positions._messages(solution)
    spread = _spread(x, 1.0 / precision, SLOTS**2, POSITION, POSITION_ERROR)
    before = spread * np.eye(graph.contexts) + SLOTS**2
    joint = np.linalg.inv(np.linalg.inv(before) + np.diag(precision))
    after = positions.ridge + precision
    assert 1.0 / after == pytest.approx(np.diagonal(joint))
    assert (positions.ridge * positions.mean + precision * x) / after == pytest.approx(joint @ (precision * x))


def solved(model):
    return Maximum(model.system.solve(1.0, np.zeros(model.system.nodes)), model.system.laplacian(1.0), 1, True)


def test_messages_are_what_choices_say_without_the_prior():
    data = Comparisons.from_rows(decided(at_random(6, 40), NORMAL))
    model = Choices.of(data, Graph.build(data), True, Limits())
    x, precision = model.positions._messages(solved(model))
    laplacian = model.system.laplacian(1.0)
    batch = laplacian.pattern.batches[0]
    dense = laplacian.dense(batch)[0] - np.diag(np.append(np.zeros(batch.size), model.positions.ridge))
    inner, border, own = dense[:-1, :-1], dense[:-1, -1], dense[-1, -1]
    known = own - border @ np.linalg.solve(inner, border)
    b = model.pattern.gather(model.pull)
    assert precision == pytest.approx([known], rel=1e-6)
    assert x * precision == pytest.approx([b[-1] - border @ np.linalg.solve(inner, b[:-1])], rel=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("calls", [32, 64])
def test_with_strong_slots_the_text_ranked_first_is_covered(calls):
    """Scores are drawn to their mean, so the truly best text is covered less often, as by every posterior."""
    covered, first = [], []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        scores, rows = rng.standard_normal(16), []
        for _ in range(calls):
            shown = rng.choice(16, 4, replace=False)
            order = shown[np.argsort(-(scores[shown] + np.array([4.0, 1.0, -1.0, -4.0]) + rng.gumbel(size=4)))]
            rows.append({"items": shown.tolist(), "order": ">".join(map(str, order))})
        ranking = fit(rows)
        truth = scores[ranking.graph.item] - scores.mean()
        covered.append((ranking.low < truth) & (truth < ranking.high))
        first.append(covered[-1][np.argmax(ranking.scores)])
    assert np.mean(covered) > 0.89
    assert np.mean(first) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / len(first))


def test_the_end_is_checked_by_the_gradient():
    """At the end, each difference has the moments that its answers give it, whatever the last step was."""
    data = as_data("sure judge")
    graph = Graph.build(data)
    shared = Shared.of(graph, Design(), 10)
    model, variances, converged = Choices.of(data, graph, True, Limits()).settle(shared)
    parts = solve(model.system, variances, shared)
    assert converged
    assert model.learn(parts[0], *differences(*parts))[1] < Limits().mixed_change


@pytest.mark.parametrize("tie", [0.0, 1.0])
def test_many_decisions_end_at_the_fixed_point(tie):
    """Their sites begin at the mode; the end is the same to a twentieth of an error as after many more rounds."""
    scores = np.append(np.random.default_rng(0).standard_normal(78), [5.0, -5.0])
    data = Comparisons.from_rows(decided(at_random(80, 8000), scores, gamma=0.5, tie=tie))
    once, long = (fit(data, "mixed", limits=Limits(mixed_change=change)) for change in (Limits().mixed_change, 1e-6))
    assert np.max(np.abs(once.scores - long.scores) / long.std) < 0.05
    assert once.std == pytest.approx(long.std, rel=0.05)
