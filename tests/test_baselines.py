"""PairS and the longer text, against naive versions and the arithmetic by hand."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper.baselines import longer
from benchmarks.paper.datasets import load_dataset
from benchmarks.paper.pairs import judge_answers, recorded_answers, sort_contexts
from comparo import Comparisons, Items, JudgeError, Prompt, load_judge
from comparo.analysis.correlations import spearman
from comparo.judges.replay import Replay

DATA = Path(__file__).parents[2] / "shared" / "data"


# PairS


def noisy(size, seed, certain=1.0):
    """A judge of items 0 … size − 1, the greater the better, that contradicts itself."""
    rng = np.random.default_rng(seed)
    logits = np.subtract.outer(np.arange(size), np.arange(size)) * 0.3 * certain
    p = 1 / (1 + np.exp(-logits - rng.normal(size=(size, size)) * certain))
    return lambda first, second: float(p[first, second])


def order_of(size, seed):
    """The order into which PairS puts the candidates before it sorts them."""
    return np.random.default_rng(seed).permutation(size).tolist()


def merge_sort(rows, merge):
    if len(rows) < 2:
        return rows
    middle = len(rows) // 2
    return merge(merge_sort(rows[:middle], merge), merge_sort(rows[middle:], merge))


def pairs(names, ask, **options):
    """The candidates of one context sorted by `ask(first, second)`, the probability that the first is better."""
    answer = lambda asked: [ask(first, second) for _, first, second in asked]  # noqa: E731
    return sort_contexts({None: names}, answer, **options)[None]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 61])
@pytest.mark.parametrize("beam", [1, 4])
def test_a_judge_that_never_contradicts_itself_is_sorted_within_the_bound(size, beam):
    names = [f"item {number}" for number in range(size)]
    scores = dict(zip(names, np.random.default_rng(size).permutation(size).tolist(), strict=True))

    def ask(first, second):
        return 0.9 if scores[first] > scores[second] else 0.1

    result = pairs(names, ask, beam=beam, rng=np.random.default_rng(1))
    assert list(result.order) == sorted(names, key=scores.get, reverse=True)
    assert result.scores.tolist() == [scores[name] for name in names]
    assert result.calls <= size * math.ceil(math.log2(size))


@pytest.mark.parametrize("size", [2, 5, 16, 33])
@pytest.mark.parametrize("seed", range(3))
def test_greedy_is_the_merge_sort_that_textbooks_have(size, seed):
    ask, asked = noisy(size, seed), []

    def merge(left, right):
        merged, left, right = [], list(left), list(right)
        while left and right:
            asked.append((left[0], right[0]))
            merged.append((right if ask(left[0], right[0]) >= 0.5 else left).pop(0))
        return merged + left + right

    expected = merge_sort(order_of(size, seed), merge)[::-1]
    result = pairs(range(size), ask, rng=np.random.default_rng(seed))
    assert list(result.order) == expected
    assert result.calls == len(asked) == len(set(asked))


def merges(left, right):
    """Every way to merge two runs, worst first, with its decisions: (left head, right head, whether left is better)."""
    for places in itertools.combinations(range(len(left) + len(right)), len(left)):
        i = j = 0
        merged, decisions = [], []
        for place in range(len(left) + len(right)):
            taken = place in places
            if i < len(left) and j < len(right):
                decisions.append((left[i], right[j], not taken))
            merged.append(left[i] if taken else right[j])
            i, j = i + taken, j + (not taken)
        yield merged, decisions


@pytest.mark.parametrize("size", [2, 3, 5, 8])
@pytest.mark.parametrize("threshold", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_the_likeliest_of_all_merges(size, threshold, seed):
    ask, asked = noisy(size, seed, certain=0.5), set()

    def merge(left, right):
        allowed = []
        for merged, decisions in merges(left, right):
            p = [ask(one, other) for one, other, _ in decisions]
            if all(value >= 0.5 - threshold if better else value <= 0.5 + threshold
                   for value, (_, _, better) in zip(p, decisions, strict=True)):  # fmt: skip
                likelihood = [value if better else 1 - value for value, (*_, better) in zip(p, decisions, strict=True)]
                allowed.append((np.log(likelihood).mean(), merged))
                asked.update(decision[:2] for decision in decisions)
        return max(allowed)[1]

    expected = merge_sort(order_of(size, seed), merge)[::-1]
    result = pairs(range(size), ask, beam=size, threshold=threshold, rng=np.random.default_rng(seed))
    assert list(result.order) == expected
    assert result.calls == len(asked)


def test_a_narrow_beam_is_no_likelier_than_a_wide_one_and_asks_less():
    found = {beam: [] for beam in (1, 2, 3, 8)}
    for seed in range(20):
        ask = noisy(8, seed, certain=0.5)
        for beam, results in found.items():
            results.append(pairs(range(8), ask, beam=beam, threshold=0.5, rng=np.random.default_rng(seed)))
    calls = [sum(result.calls for result in results) for results in found.values()]
    assert calls == sorted(calls)
    assert calls[0] < calls[1] < calls[3]
    assert {result.calls for result in found[8]} == {28}  # unsure of everything, it asks for every pair once
    assert any(one.order != other.order for one, other in zip(found[1], found[8], strict=True))


def test_both_orders_take_the_bias_away_at_twice_the_calls():
    def ask(first, second):
        return 1 / (1 + math.exp(-(first - second) / 4 - 3))

    biased = pairs(range(8), ask, rng=np.random.default_rng(0))
    both = pairs(range(8), ask, both=True, rng=np.random.default_rng(0))
    assert both.order == (7, 6, 5, 4, 3, 2, 1, 0)
    assert biased.order == tuple(order_of(8, 0))  # whatever stands on the left wins
    assert both.calls % 2 == 0
    assert biased.calls == 4 + 2 * 2 + 4


def test_merges_that_do_not_wait_for_each_other_ask_together():
    asked = []
    names = {context: range(16) for context in "abc"}
    judges = {context: noisy(16, seed) for seed, context in enumerate(names)}

    def answer(questions):
        asked.append(len(questions))
        return [judges[context](first, second) for context, first, second in questions]

    together = sort_contexts(names, answer, beam=4, rng=np.random.default_rng(5))
    assert sum(asked) == sum(result.calls for result in together.values())
    assert len(asked) <= 1 + 3 + 7 + 15
    assert asked[0] == 3 * 8
    rng = np.random.default_rng(5)
    for context, judge in judges.items():
        alone = pairs(range(16), judge, beam=4, rng=rng)
        assert (alone.order, alone.calls) == (together[context].order, together[context].calls)


def test_pairs_on_a_judge_and_on_what_it_said():
    scores = {name: float(number) for number, name in enumerate("abcdef")}
    items = Items.of({name: f"Text {name}." for name in scores})
    judge = load_judge("simulated/soft", scores=scores, noise=1.0, bias=0.5)
    prompt = Prompt("{first} or {second}?")
    told = [
        (one, other, next(judge.judge([items.question(None, one, other)])).p)
        for one, other in itertools.permutations(scores, 2)
    ]
    results = [
        sort_contexts(items.names, answer, beam=3, rng=np.random.default_rng(2))[None]
        for answer in (judge_answers(judge, prompt, items), recorded_answers(Comparisons.from_rows(told)))
    ]
    assert results[0].order == results[1].order
    assert results[0].calls == results[1].calls


def test_a_pair_that_is_missing_is_named():
    recorded = Comparisons.from_rows([{"first": "ana", "second": "bo", "p": 0.7, "context": "x"}])
    items = Items.of([{"id": name, "text": name, "context_id": "x"} for name in ("ana", "bo", "cy")])
    with pytest.raises(JudgeError, match=r"context 'x'.*PairS"):
        sort_contexts(items.names, recorded_answers(recorded), rng=np.random.default_rng(0))
    answer = judge_answers(Replay(recorded), Prompt("{first}{second}"), items)
    with pytest.raises(JudgeError, match=r"replay/memory .*'x': .*PairS"):
        sort_contexts(items.names, answer, rng=np.random.default_rng(0))


real = pytest.mark.recorded


@pytest.mark.long
@real
def test_pairs_on_recorded_summeval():
    data = load_dataset("summeval", DATA / "summeval.jsonl")
    answer = recorded_answers(Comparisons.read(DATA / "judgements" / "summeval.relevance.csv.gz"))
    human = data.items.scores["relevance"]
    found = {}
    for both in (False, True):
        sorted_by = sort_contexts(data.items.names, answer, both=both, rng=np.random.default_rng(0))
        calls = np.mean([result.calls for result in sorted_by.values()])
        agree = [spearman(sorted_by[name].scores, human[rows]) for name, rows in data.items.groups.items()]
        found[both] = calls, 100 * np.nanmean(agree)
    assert 30 < found[False][0] < 49  # at most the 49 of a merge sort of 16
    assert 80 < found[True][0] <= 98
    assert 5 < found[False][1] < 17
    assert 25 < found[True][1] < 32  # all 240 comparisons give 30.9


# The longer text


def test_the_longer_text_wins():
    items = Items.of({"a": "one", "b": "  one two\nthree ", "c": "one, two"})
    assert longer(items).tolist() == [1, 3, 2]
