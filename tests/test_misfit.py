"""Answers that do not fit: infit of judges and texts, and votes that contradict a machine."""

from dataclasses import replace

import numpy as np
import pytest

import comparo
from comparo import Comparisons
from comparo.analysis.misfit import disagreements, misfit
from comparo.ranking.criteria_ranking import expected
from inside import quiet_fit

NAMES = [f"t{k:02}" for k in range(20)]


def voted(careless=0, votes=60, judges=6, seed=0, odd=None):
    """Decisions of judges, the first `careless` of whom toss a coin, and everybody does about the text `odd`."""
    rng, score = np.random.default_rng(seed), np.linspace(-3, 3, 20)
    judge = np.repeat(np.arange(judges), votes)
    first = rng.integers(20, size=len(judge))
    second = (first + rng.integers(1, 20, size=len(judge))) % 20
    chance = 1 / (1 + np.exp(score[second] - score[first]))
    is_even = (judge < careless) | (first == odd) | (second == odd)
    p = (rng.random(len(judge)) < np.where(is_even, 0.5, chance)) * 1.0
    names = np.array(NAMES)
    return Comparisons.from_columns(names[first], names[second], p, judge=[f"j{k}" for k in judge])


def test_infit_is_the_squared_residual_relative_to_its_variance_and_to_all_answers():
    ranking = comparo.fit(voted(), "poe-bt")
    data, e = ranking.comparisons, expected(ranking)
    square, variance = (data.p - e) ** 2, e * (1 - e)
    found = misfit(ranking, "judge")
    for name, infit in zip(found["judge"], found["infit"], strict=True):
        own = data.judges[data.judged_by] == name
        ratio = square[own].sum() / variance[own].sum()
        assert infit == pytest.approx(ratio * variance.sum() / square.sum())
    texts = misfit(ranking, "item")
    own = (data.items[data.first] == "t07") | (data.items[data.second] == "t07")
    ratio = square[own].sum() / variance[own].sum() * variance.sum() / square.sum()
    assert texts["infit"][texts["item"] == "t07"] == pytest.approx(ratio)
    assert texts["answers"][texts["item"] == "t07"] == own.sum()
    assert np.all(np.diff(texts["surprise"]) <= 0)


@pytest.mark.parametrize("method", ["mixed", "poe-bt"])
def test_a_careless_judge_is_found_and_honest_ones_are_not(method):
    found = misfit(quiet_fit(voted(careless=1), method), "judge")
    assert found["judge"][found["misfit"]].tolist() == ["j0"]
    assert found["judge"][0] == "j0"
    assert not misfit(quiet_fit(voted(), method), "judge")["misfit"].any()


def test_answers_that_all_fit_have_no_misfit():
    found = misfit(comparo.fit([("a", "b", 0.5), ("b", "a", 0.5), ("b", "c", 0.5)]), "item")
    assert np.isfinite(found["infit"]).all()
    assert not found["misfit"].any()


def test_a_judge_who_gave_all_answers_is_not_named_by_a_rounding_error():
    for seed in range(20):
        found = misfit(quiet_fit(replace(voted(votes=20, seed=seed), judge=None, judges=None)), "judge")
        assert found["infit"] == pytest.approx(1.0)
        assert (found["misfit"].tolist(), found["surprise"].tolist()) == ([False], [0.0])


def test_judges_who_decide_are_compared_with_those_who_decide():
    rng, score = np.random.default_rng(4), dict(zip(NAMES, np.linspace(-3, 3, 20), strict=True))
    pairs = [rng.choice(NAMES, 2, replace=False).tolist() for _ in range(120)]
    noisy = [score[a] - score[b] + 0.3 * rng.normal() for a, b in pairs]
    soft = [(*pair, 1 / (1 + np.exp(-d)), "soft") for pair, d in zip(pairs, noisy, strict=True)]
    for careless in (0, 1):
        rows = [*zip(*voted(careless).to_rows().values(), strict=True), *soft]
        *columns, judge = zip(*rows, strict=True)
        ranking = comparo.fit(Comparisons.from_columns(*columns, judge=judge), "poe-bt")
        found = misfit(ranking, "judge")
        assert found["judge"][found["misfit"]].tolist() == ["j0"][:careless]


def test_ties_count_by_the_variance_that_the_model_gives_them():
    data = voted(votes=200, seed=1)
    rng = np.random.default_rng(0)
    data = replace(data, p=np.where(rng.random(len(data)) < 0.3, 0.5, data.p))
    found = misfit(quiet_fit(data, "mixed"), "judge")
    assert found["limit"] == pytest.approx(np.ones(6), abs=0.4)
    assert not found["misfit"].any()


def test_probabilities_are_compared_with_residuals_in_another_order():
    rng, score = np.random.default_rng(2), np.linspace(-2, 2, 10)
    rows = []
    for judge, noise in (("calm", 0.3), ("even", 0.3), ("wild", 1.5)):
        for i in range(10):
            for j in range(10):
                if i != j:
                    d = score[i] - score[j] + noise * rng.normal()
                    rows.append({"first": i, "second": j, "p": 1 / (1 + np.exp(-d)), "judge": judge})
    found = misfit(comparo.fit(rows, "mixed"), "judge")
    assert found["judge"][found["misfit"]].tolist() == ["wild"]
    texts = misfit(comparo.fit(rows, "mixed"), "item")
    assert texts["misfit"].sum() <= 1


def test_disagreements_are_the_pairs_where_most_votes_contradict_the_machine():
    machine = comparo.fit([("a", "b", 0.9), ("b", "c", 0.9), ("c", "d", 0.6), ("a", "d", 0.99)])
    votes = [("b", "a", 1), ("a", "b", 0), ("a", "b", 1), ("d", "c", 1), ("a", "c", 1), ("b", "d", 0.5)]
    found = disagreements(machine, Comparisons.from_rows(votes))
    pairs = dict(zip(zip(found["chosen"], found["other"], strict=True), found["people"], strict=True))
    assert pairs == pytest.approx({("b", "a"): 2 / 3, ("d", "c"): 1.0})
    assert found["votes"].tolist() == [{"b": 3, "d": 1}[name] for name in found["chosen"]]
    assert found["machine"] == pytest.approx(
        [machine.probability(one, other) for one, other in zip(found["chosen"], found["other"], strict=True)]
    )
    assert len(disagreements(machine, Comparisons.from_rows(votes), most=1)["chosen"]) == 1


def test_disagreements_that_differ_by_rounding_are_in_the_order_of_the_votes():
    rows = [{"context": c, "first": "a", "second": "b", "p": 0.9} for c in "xyz"]
    votes = [{"context": c, "first": "b", "second": "a", "p": 1.0} for c in "zxy"]
    votes += [{"context": "y", "first": "b", "second": "a", "p": 1.0}]
    for shift in (0.0, 1e-15, -1e-15):
        rows[0]["p"] = 0.9 + shift
        found = disagreements(comparo.fit(rows, "poe-bt"), Comparisons.from_rows(votes))
        assert found["context"].tolist() == ["y", "z", "x"]  # more votes first


@pytest.mark.statistical
@pytest.mark.long
def test_honest_judges_are_rarely_named():
    named = [misfit(quiet_fit(voted(votes=30, seed=seed)), "judge")["misfit"] for seed in range(60)]
    assert np.mean(named) <= 0.05
    assert np.mean(np.any(named, axis=1)) <= 0.15


@pytest.mark.statistical
def test_a_line_up_is_one_answer_of_a_judge():
    named, score = [], np.linspace(-2, 2, 20)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows = []
        for number in range(120):
            shown = rng.permutation(20)[:4]
            best = shown[np.argmax(score[shown] + rng.gumbel(size=4))]
            rows.append({"items": "|".join(map(str, shown)), "best": str(best), "judge": f"j{number % 8}"})
        found = misfit(quiet_fit(Comparisons.from_rows(rows)), "judge")
        assert found["answers"].tolist() == [15] * 8
        named.append(found["misfit"].any())
    assert np.sum(named) <= 1
