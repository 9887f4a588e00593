"""How many calls a ranking takes."""

import json
import math
import re

import numpy as np
import pytest

from comparo import plan
from comparo.judges import load_judge
from comparo.run.rank import prepare_rank
from comparo.selection import planning
from comparo.selection.planning import Effort, judge_of, later
from split import one_short


@pytest.mark.parametrize("accuracy", [0.55, 0.75, 0.95])
def test_the_judge_is_right_as_often_as_it_should_be(accuracy):
    rng = np.random.default_rng(0)
    strength, noise = judge_of(accuracy)
    difference = np.subtract(*rng.standard_normal((2, 200_000)))
    logit = strength * difference + noise * rng.standard_normal(200_000)
    assert np.mean((logit > 0) == (difference > 0)) == pytest.approx(accuracy, abs=0.005)
    assert np.std(logit) == pytest.approx(planning.SPREAD, rel=0.01)
    assert 0.5 + math.atan(math.sqrt(2) * strength / noise) / math.pi == pytest.approx(accuracy)


def test_a_perfect_judge_has_no_noise():
    assert judge_of(1.0)[1] == pytest.approx(0.0, abs=1e-12)


def test_the_calls_are_the_first_that_reach_the_target():
    found = plan(20, accuracy=0.8, target=0.85, draws=30, orders="one", seed=np.random.default_rng(0))
    assert np.all(found.reached[:-1] < 0.85)
    assert found.reached[-1] >= 0.85
    assert found.calls == found.to_columns()["calls"][-1] == round(found.per_item[-1] * 20)
    assert np.all((found.low <= found.reached) & (found.reached <= found.high))
    assert np.all(np.diff(found.per_item) > 0)


def test_where_all_calls_are_not_enough_there_is_no_answer():
    found = plan(6, accuracy=0.6, target=0.99, draws=10, orders="one", seed=np.random.default_rng(0))
    assert found.calls is None
    assert found.to_columns()["calls"][-1] == 15


def test_the_same_seed_gives_the_same_plan():
    one, other = (plan(10, strategy="random", draws=5, orders="one", seed=np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(one.reached, other.reached)


def reached(calls=6, **how):
    """The mean Spearman correlation after so many calls an item."""
    how = {"accuracy": 0.75, "orders": "one"} | how
    found = plan(24, target=0.9999, draws=25, seed=np.random.default_rng(1), effort=Effort((calls,)), **how)
    return found.reached[np.searchsorted(found.per_item, calls)]


@pytest.mark.long
def test_better_judges_and_soft_answers_need_fewer_calls():
    plain = reached()
    assert reached(accuracy=0.65) + 0.03 < plain < reached(accuracy=0.85) - 0.03
    assert reached(answers="hard") + 0.03 < plain
    # The bias is estimated, and costs little.
    assert reached(bias=1.0) == pytest.approx(plain, abs=0.03)


@pytest.mark.parametrize("strategy", one_short(["greedy", "random", "adaptive"]))
@pytest.mark.parametrize("orders", ["one", "both"])
def test_every_strategy_and_order_gets_better_with_more_calls(strategy, orders):
    how = {"draws": 10, "seed": np.random.default_rng(0), "effort": Effort((3, 8))}
    found = plan(17, target=0.999, strategy=strategy, orders=orders, **how)
    assert found.per_item.tolist()[0] == 3
    assert found.reached[0] + 0.03 < found.reached[-1]


@pytest.mark.long
def test_the_formula_goes_on_where_the_simulation_ends():
    how = {"accuracy": 0.7, "target": 0.999, "draws": 20, "orders": "one"}
    both, one = (
        plan(50, **how, seed=np.random.default_rng(0), effort=Effort((10, 20), calls=calls)) for calls in (20, 10)
    )
    assert one.reached[0] == both.reached[0]
    assert one.reached[1] == pytest.approx(both.reached[1], abs=0.015)
    assert np.isnan(one.low[1:]).all()
    assert later(0.8, 1.0) == pytest.approx(0.8)
    assert later(0.8, 1e9) == pytest.approx(1.0, abs=1e-3)


def test_what_is_reached_depends_on_the_calls_an_item_and_hardly_on_the_items():
    found, how = {}, {"target": 0.999, "strategy": "random", "draws": 6, "orders": "one"}
    for items in (60, 240):
        found[items] = plan(10_000, **how, seed=np.random.default_rng(0), effort=Effort((5,), items=items))
        assert found[items].to_columns()["calls"].tolist() == [50_000]
    assert found[60].reached[0] == pytest.approx(found[240].reached[0], abs=0.03)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"items": 1}, "nothing to compare"),
        ({"accuracy": 0.5}, "accuracy is above 0.5"),
        ({"target": 1.0}, "correlation between 0 and 1"),
        ({"answers": "votes"}, "answers is 'soft' or 'hard'"),
        ({"draws": 0}, "draws is at least 1"),
        ({"strategy": "best"}, "strategy = 'best' is none of"),
        ({"goal": "top-5"}, "top-1 to top-4"),
        ({"goal": "systems"}, "'top-5', not 'systems'"),
        ({"goal": "top-2", "strategy": "greedy"}, "needs answers to go by"),
        ({"goal": "top-2", "target": 1.0}, "share of the best 2"),
        ({"lineup": 6}, "line-up of 6"),
    ],
)
def test_mistakes_are_told(how, message):
    with pytest.raises(ValueError, match=message):
        plan(**({"items": 5, "seed": np.random.default_rng(0)} | how))


@pytest.fixture
def comparo(run, tmp_path):
    return lambda *arguments: run(tmp_path, ["plan", *arguments])


def test_the_command_prints_a_table_and_what_it_means(comparo):
    run = comparo(12, "--accuracy", "0.9", "--target", "0.8", "--draws", "5", "--orders", "one")
    assert (run.returncode, run.stderr) == (0, "")
    table, _, summary = run.stdout.rstrip().rpartition("\n\n")
    assert table.splitlines()[0].split() == ["per_item", "calls", "spearman", "low", "high"]
    assert table.splitlines()[1].split()[:2] == ["2", "24"]
    assert re.findall(r"[\d.]+", summary) == ["24", "2", "18.2", "132", "8", "4"]


def test_the_command_prints_json_and_csv_and_says_what_cannot_be(comparo):
    options = "--accuracy", "0.6", "--target", "0.99", "--draws", "5", "--orders", "one"
    document = json.loads(comparo(6, *options, "--format", "json").stdout)
    assert document["calls"] is None
    assert document["plan"][-1]["calls"] == 15
    assert comparo(6, *options, "--format", "csv").stdout.splitlines()[-1].startswith("2.5,15,0.")
    assert "lower --target" in comparo(6, *options).stdout.splitlines()[-1]
    assert "above 0.5" in comparo(6, "--accuracy", "1.5").stderr
    assert "add --next" in comparo("essays").stderr
    assert "--format jsonl" in comparo(6, "--format", "jsonl").stderr
    assert "leave --format out" in comparo("essays", "--next", 2, "--format", "table").stderr
    assert "--twice is about" in comparo(60, "--twice", "0.5").stderr


@pytest.mark.parametrize("lineup", one_short([8, 2]))
def test_a_goal_of_the_best_reaches_its_share(lineup):
    how = {"accuracy": 0.9, "target": 0.8, "draws": 4, "seed": 0}
    found = plan(30, goal="top-3", lineup=lineup, **how)
    calls, share = (found.to_columns()[name] for name in ("calls", "share"))
    assert calls[0] == (5 if lineup == 8 else 58)  # so many connect all
    assert np.all(calls[1:] <= np.ceil(1.25 * calls[:-1]))
    assert share[-1] >= 0.8 > np.max(share[:-1])
    assert found.calls == calls[-1]


def test_a_plan_of_line_ups_is_printed(comparo):
    options = "--goal", "top-2", "--lineup", "4", "--target", "0.6", "--draws", "2", "--accuracy", "0.9"
    run = comparo(12, *options)
    assert run.stdout.split()[:5] == ["per_item", "calls", "share", "low", "high"]
    assert re.findall(r"\d+", run.stdout.splitlines()[-1])[1] == "4"
    assert json.loads(comparo(12, *options, "--format", "json").stdout)["plan"][-1]["share"] >= 0.6
    assert "leave --lineup out" in comparo("essays", "--next", 2, "--lineup", "4").stderr
    assert "top-1 to top-11" in comparo(12, "--goal", "top-12").stderr


@pytest.mark.long
@pytest.mark.parametrize("lineup", [8, 2])
def test_a_run_stops_after_about_as_many_calls_as_planned(lineup):
    """A run looks when its answers have grown by a quarter, and has a round in flight."""
    texts, k, seeds = 50, 5, 8
    strength, noise = judge_of(0.85)
    planned = plan(texts, 0.85, goal=f"top-{k}", lineup=lineup, seed=0).calls
    calls, shares = [], []
    for seed in range(seeds):
        scores = dict(enumerate(strength * np.random.default_rng([3, seed]).standard_normal(texts)))
        judge = load_judge("simulated/soft", scores=scores, noise=noise, seed=seed)
        how = {"judge": judge, "lineup": lineup, "goal": f"top-{k}", "until": 0.9, "budget": "40n", "seed": seed}
        prepared = prepare_rank({item: f"text {item}" for item in scores}, "better", **how)
        ranking = prepared.run()
        calls.append(prepared.loop.progress.answered)
        shares.append(len(set(sorted(scores, key=scores.get)[-k:]).intersection(list(ranking)[:k])) / k)
    assert 0.75 < np.median(calls) / planned < 1.75
    assert np.mean(shares) > 0.9 - 2.0 * np.std(shares) / np.sqrt(seeds)
