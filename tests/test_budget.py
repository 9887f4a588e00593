"""Budgets: the smallest that is enough, and calls that cost more than expected."""

import csv
import io
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import comparo
from inside import Budget, Price, Simulated, prepare_rank, read_judgements

CONTEXTS, TEXTS = 40, 5


class Priced(Simulated):
    """A judge whose calls take `times` as many tokens as their length lets expect, and cost accordingly."""

    ahead, price = 8, Price(1.0, 1.0)

    def __init__(self, times=1.0):
        super().__init__()
        self.times, self.count = times, 0

    def judge(self, questions, prompt=None):
        for question in questions:
            self.count += 1
            (answer,) = super().judge([question], prompt)
            tokens = round(self.times * len(prompt.text(question)) / 4)
            yield replace(answer, tokens_in=tokens, cost=tokens / 1e6)


def texts(contexts=CONTEXTS, size=TEXTS):
    words = "which has some more words than that"
    return [
        {"id": f"{number}.{item}", "context_id": f"c{number:02d}", "text": f"Text {item} of {number:02d}, {words}."}
        for number in range(contexts)
        for item in range(size)
    ]


def named(error):
    """The budget that a message names."""
    return re.search(r"allow more: budget='([^']+)'", str(error.value))[1]


@pytest.mark.parametrize(
    ("budget", "step", "sizes", "options"),
    [
        (7, 1, {None: 40}, {"orders": "both"}),
        (7, 1, {"x": 5, "y": 4}, {"orders": "both"}),
        (7, 1, {"x": 5, "y": 4, "z": 2}, {"orders": "one"}),
        ("0.5n", 0.01, {None: 12}, {"orders": "both"}),
        ("0.1%", 0.001, {"x": 30, "y": 20}, {"orders": "one"}),
        ("900 tokens", 1, {"x": 5, "y": 5}, {"orders": "both", "cost": 85.5}),
        ("$0.001", 0.00001, {"x": 5, "y": 5}, {"orders": "both", "cost": 0.0002}),
        (3, 1, {None: 30}, {"texts": 4}),
        (3, 1, {None: 12}, {"orders": "both", "voices": 3}),
        (3, 1, {"x": 6, "y": 6}, {"orders": "both", "groups": 6}),
        (2, 1, {"x": 9, "y": 12}, {"orders": "both", "new": {"x": 2, "y": 3}, "given": {"x": 30, "y": 50}}),
    ],
)
def test_the_smallest_budget_that_is_enough_is_named(budget, step, sizes, options):
    with pytest.raises(ValueError, match="allow more") as refused:
        Budget.of(budget).calls(sizes, **options)
    found = Budget.of(named(refused))
    assert found.unit == Budget.of(budget).unit
    found.calls(sizes, **options)
    with pytest.raises(ValueError, match="cannot"):
        replace(found, number=found.number - step).calls(sizes, **options)


def test_where_no_budget_is_enough_none_is_named():
    with pytest.raises(ValueError, match="the 9 groups") as refused:
        Budget.of(2).calls({"x": 3}, groups=9)
    assert "allow more" not in str(refused.value)


@pytest.mark.parametrize(
    ("budget", "lineup", "times"),
    [("$0.04", 2, 1.09), ("40k tokens", 2, 1.09), ("60k tokens", "auto", 1.2), ("40k tokens", "auto", 1.2)],
)
def test_a_price_that_is_higher_than_expected_drops_no_context(budget, lineup, times):
    ranking = comparo.rank(texts(), "better", judge=Priced(times), budget=budget, lineup=lineup)
    assert (len(ranking), ranking.graph.components) == (CONTEXTS * TEXTS, CONTEXTS)
    assert not ranking.solution.unreached


def test_calls_go_round_all_contexts_and_what_they_did_not_reach_is_named(tmp_path):
    rows = [row for row in texts(8) if row["context_id"] != "c03" or row["id"] in ("3.0", "3.1", "3.2")]
    ranking = comparo.rank(rows, "better", judge=Priced(5), budget="$0.01", out=tmp_path / "run", orders="one")
    calls = Counter(one.question.context for one in read_judgements(tmp_path / "run"))
    assert len(calls) == 8
    assert max(calls.values()) - min(calls.values()) <= 2
    there = {(context, item) for context, item in ranking}
    every = {(row["context_id"], row["id"]) for row in rows}
    assert set(ranking.solution.unreached) == every - there != set()
    number = len(every - there)
    assert re.match(rf"{number} of {len(every)} items .*'c0", ranking.notes[0])
    written = list(csv.DictReader(io.StringIO((tmp_path / "run" / "ranking.csv").read_text())))
    assert {(row["context"], row["item"]) for row in written} == every
    assert {(row["context"], row["item"]) for row in written if not row["score"]} == every - there
    assert {row["rank"] for row in written[-number:]} == {""}
    assert np.isnan(ranking.to_frame("pandas")["score"].tolist()[-number:]).all()
    page = (comparo.write_report(tmp_path / "run")).read_text(encoding="utf-8")
    assert f"{number} of {len(every)} items " in page
    assert f"{number} of {len(every)} items " in str(ranking)


@pytest.mark.parametrize("budget", ["20k tokens", "1n", "$0.02"])
def test_a_pilot_leaves_enough_to_connect_all_texts(budget):
    judge = Priced()
    with pytest.raises(ValueError, match=r"lineup='auto' asks 1\d\d ") as refused:
        prepare_rank(texts(), "better", judge=judge, budget=budget, lineup="auto")
    assert judge.count == 0
    ranking = comparo.rank(texts(), "better", judge=judge, budget=named(refused), lineup="auto")
    assert (len(ranking), ranking.graph.components) == (CONTEXTS * TEXTS, CONTEXTS)


def test_a_pilot_with_a_judge_that_costs_nothing_has_no_budget_in_dollars():
    judge = Priced()
    judge.price = Price(0.0, 0.0)
    with pytest.raises(ValueError, match="costs nothing"):
        prepare_rank(texts(), "better", judge=judge, budget="$1", lineup="auto")


def test_where_a_pilot_takes_more_than_all_pairs_no_budget_is_named():
    with pytest.raises(ValueError, match=r"lineup='auto' .*lineup=4") as refused:
        prepare_rank(texts(1, 7), "better", judge=Priced(), budget="10n", lineup="auto")
    assert "allow more" not in str(refused.value)
