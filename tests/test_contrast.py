"""What texts tell before any call: their contrast and style, and the pairs that are chosen by contrast."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from comparo import Items
from comparo.data.text_features import LEAST_CONTRAST, MOST_ITEMS, count_sequences
from comparo.model.observations import USUAL, power
from comparo.selection import Selector
from inside import contrasts, join, styles

TEXTS = st.lists(st.text(alphabet="abc d.É\n", max_size=20), min_size=2, max_size=7)


def items_of(contexts, group=None):
    """Items from a list of texts for each context."""
    rows = [
        {"id": number, "context_id": context, "text": text or "."}
        for context, texts in enumerate(contexts)
        for number, text in enumerate(texts)
    ]
    return Items.of([row | ({} if group is None else {"group": group(row)}) for row in rows])


def naive_overlap(one, other, texts):
    """The formula, with sets and loops."""

    def cut(text):
        letters = " " + " ".join(text.lower().split()) + " "
        return {letters[k : k + 3] for k in range(len(letters) - 2)}

    every = [cut(text) for text in texts]

    def total(found):
        return sum(np.log((len(texts) + 1) / (sum(part in each for each in every) + 0.5)) for part in found)

    whole = total(cut(one)) + total(cut(other))
    return 2 * total(cut(one) & cut(other)) / whole if whole > 0 else 0.0


@given(TEXTS)
@settings(max_examples=60 * settings.default.max_examples // 100, deadline=None)
def test_contrast_is_what_the_formula_of_overlap_leaves(texts):
    texts = [text if text.strip() else "." for text in texts]
    overlap = np.array([[naive_overlap(one, other, texts) for other in texts] for one in texts])
    found = contrasts(items_of([texts]))[0]
    np.testing.assert_allclose(found, np.maximum(1 - overlap, LEAST_CONTRAST), atol=1e-9)
    np.testing.assert_array_equal(found, found.T)
    assert LEAST_CONTRAST <= found.min() <= found.max() <= 1.0


def test_contrast_serves_every_script_and_leaves_large_contexts_alone():
    found = contrasts(items_of([["日本語の文章です", "日本語の文章だよ", "全く違うこと"], ["x"] * (MOST_ITEMS + 1)]))
    assert LEAST_CONTRAST < found[0][0, 1] < found[0][0, 2]
    assert found[1] is None


@given(st.lists(st.text(max_size=30), max_size=6))
def test_sequences_are_those_counted_by_hand(texts):
    counted = []
    for text in texts:
        letters = " " + " ".join(text.lower().split()) + " "
        counted.append(Counter(letters[begin : begin + 3] for begin in range(len(letters) - 2)))
    every = sorted(set().union(*counted))
    expected = np.array([[count[sequence] for sequence in every] for count in counted]).reshape(len(texts), len(every))
    np.testing.assert_array_equal(count_sequences(texts).toarray(), expected)


@pytest.mark.parametrize("true", [0.0, 0.7, 2.0])
def test_power_is_that_with_which_the_noise_falls(true):
    rng = np.random.default_rng(0)
    contrast = rng.uniform(0.05, 1.0, 4000)
    squares = 0.02 * contrast**-true * rng.standard_normal(4000) ** 2
    assert power(squares, contrast, 4000.0) == pytest.approx(true, abs=0.15)


def test_power_is_the_usual_one_where_nothing_is_known():
    for squares in (np.ones(3), np.zeros(3)):
        assert power(squares, np.array([0.1, 0.5, 1.0]), 0.0) == pytest.approx(USUAL)


def planted(rng, contexts=30):
    """Two ways to write, at random, about what each context is about; and which way each text is in."""
    plain = "and then it was so that they went on to see what there might be left".split()
    grand = "whereupon thou hast verily beheld yonder magnificent splendour henceforth indeed".split()
    topics = ["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 7)) for _ in range(contexts)]
    way = rng.integers(2, size=(contexts, 6))
    texts = [
        [" ".join(np.concatenate([rng.choice(grand if one else plain, 12), [topic] * 12])) for one in row]
        for topic, row in zip(topics, way, strict=True)
    ]
    return texts, way


def test_styles_are_found_within_contexts():
    texts, way = planted(np.random.default_rng(0))
    style = styles(items_of(texts))
    assert style.shape == (180, 8)
    centred = (way - way.mean(axis=1, keepdims=True)).ravel()
    assert abs(np.corrcoef(style[:, 0], centred)[0, 1]) > 0.95
    np.testing.assert_allclose(style.reshape(30, 6, 8).sum(axis=1), 0.0, atol=1e-8)
    assert np.mean(np.sum(style**2, axis=1)) == pytest.approx(1.0)


def test_styles_do_not_depend_on_the_order_of_texts():
    texts, _ = planted(np.random.default_rng(1))
    turned = [row[::-1] for row in texts[::-1]]
    one, other = styles(items_of(texts))[:, 0], styles(items_of(turned))[::-1, 0]
    np.testing.assert_allclose(one * np.sign(one @ other), other, atol=1e-3)


def test_few_texts_and_equal_texts_have_no_style():
    assert styles(items_of([["a tale"] * 3, ["a story"] * 16])).shape == (19, 0)
    assert styles(items_of([["the same words"] * 4] * 10)).shape == (40, 0)
    assert styles(items_of([[f"text {number} of many" for number in range(45)]])).shape == (45, 2)


def random_worth(rng, n):
    worth = rng.uniform(0.05, 1.0, (n, n))
    return (worth + worth.T) / 2


@given(st.integers(1, 7), st.booleans(), st.integers(0, 99))
@settings(deadline=None)
def test_join_covers_all_items_by_the_first_half_and_connects_them(half, odd, seed):
    n = 2 * half + odd
    worth = random_worth(np.random.default_rng(seed), n)
    chosen = join(np.arange(n, dtype=np.int32), np.empty((0, 2), dtype=np.int32), worth, n)
    assert len(chosen) == n - 1
    assert len({item for pair in chosen[:half] for item in pair}) == 2 * half
    assert connected(n, chosen)


def connected(n, pairs):
    first, second = np.array(pairs).T
    return connected_components(coo_array((np.ones(len(first)), (first, second)), shape=(n, n)))[0] == 1


@given(st.integers(3, 9), st.integers(0, 99))
@settings(deadline=None)
def test_join_takes_the_pair_of_largest_gain_each_time(n, seed):
    rng = np.random.default_rng(seed)
    worth, asked = random_worth(rng, n), np.array([[0, 1]], dtype=np.int32)
    component = np.concatenate([[0, 0], np.arange(1, n - 1)]).astype(np.int32)
    precision, group, new = np.eye(n), component.copy(), set(range(2, n))
    taken = [(0, 1)]
    for x, y in join(component, asked, worth, n):
        precision = np.eye(n)
        for a, b in taken:
            row = np.eye(n)[a] - np.eye(n)[b]
            precision += worth[a, b] * np.outer(row, row)
        covariance = np.linalg.inv(precision)
        gains = {
            (a, b): worth[a, b] * (covariance[a, a] + covariance[b, b] - 2 * covariance[a, b])
            for a in range(n)
            for b in range(n)
            if group[a] != group[b] and (len(new) < 2 or {a, b} <= new)
        }
        assert gains[x, y] == pytest.approx(max(gains.values()), rel=1e-6)
        group[group == group[y]] = group[x]
        new -= {x, y}
        taken.append((x, y))
    assert connected(n, taken)


def test_join_asks_no_more_than_it_may():
    worth = random_worth(np.random.default_rng(0), 10)
    assert len(join(np.arange(10, dtype=np.int32), np.empty((0, 2), dtype=np.int32), worth, 3)) == 3
    assert join(np.zeros(4, dtype=np.int32), np.array([[0, 1], [1, 2], [2, 3]], dtype=np.int32), worth[:4, :4], 3) == []


def two_kinds(n=16):
    """Contrast 1 between the kinds of items and 0.1 within them."""
    kind = np.arange(n) % 2
    return np.where(kind[:, None] == kind, 0.1, 1.0), kind


@pytest.mark.parametrize("strategy", ["greedy", "adaptive"])
@pytest.mark.parametrize("orders", ["one", "both"])
def test_a_selector_prefers_contrast_repeats_nothing_and_connects(strategy, orders):
    contrast, kind = two_kinds()
    rng = np.random.default_rng(0)
    selector = Selector(range(16), strategy=strategy, orders=orders, contrast=contrast, seed=rng)
    calls = 2 if orders == "both" else 1
    asked = selector.next(15 * calls)
    assert connected(16, asked)
    while len(asked) < 40 * calls:
        batch = selector.next(5 * calls)
        selector.observe([(first, second, float(rng.uniform(0.3, 0.7))) for first, second in batch])
        asked += batch
    codes = asked if orders == "both" else [tuple(sorted(pair)) for pair in asked]
    assert len(set(codes)) == len(codes)
    assert np.mean([kind[first] != kind[second] for first, second in asked]) > 0.85
    plain = Selector(range(16), strategy=strategy, orders=orders, seed=np.random.default_rng(0)).next(40 * calls)
    assert np.mean([kind[first] != kind[second] for first, second in plain]) < 0.75


@pytest.mark.parametrize("options", [{"strategy": "random"}, {"strategy": "adaptive", "goal": "top-3"}])
def test_contrast_does_not_change_random_pairs_and_the_goal_top(options):
    asked = []
    for contrast in (np.ones((16, 16)), two_kinds()[0]):
        selector = Selector(range(16), orders="both", contrast=contrast, seed=np.random.default_rng(5), **options)
        asked.append(selector.next(40))
    assert asked[0] == asked[1]
