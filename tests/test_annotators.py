"""How far judges agree on the same pairs: textbook values, a naive implementation, and intervals that cover."""

from collections import defaultdict
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comparo import Comparisons, ComparisonsError
from comparo.metrics import (
    beyond_chance,
    cohen_kappa,
    coincided,
    coincidences,
    krippendorff_alpha,
    resampled,
    tabulated,
)


def counts_of(*observers):
    """How many observers gave each unit each value; a point is missing."""
    values = sorted({value for row in observers for value in row} - {"."})
    return np.array(
        [[sum(v == value for v in unit) for value in values] for unit in zip(*observers, strict=True)], float
    )


@pytest.mark.parametrize(
    ("observers", "alpha"),
    [
        (("0100000010", "1110010000"), 0.095),
        (("aabbdcccedda", "babbbccceddd"), 0.692),
        (("123321412...", "1233224125.3", ".3332342251.", "12332441251."), 0.743),
    ],
)
def test_alpha_has_the_values_of_krippendorff_2011(observers, alpha):
    counts = counts_of(*observers)
    pairable = counts[np.sum(counts, axis=1) >= 2]
    assert round(float(beyond_chance(coincided(np.sum(coincidences(pairable), axis=0)))), 3) == alpha


def test_kappa_has_the_value_of_cohen_1960():
    table = np.array([[88, 10, 2], [14, 40, 6], [18, 10, 12]], float)
    assert float(beyond_chance(tabulated(table.reshape(-1)))) == pytest.approx(
        0.492, abs=5e-4
    )  # 0.70 observed, 0.41 by chance


ANSWERS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.sampled_from([0, 0.3, 0.5, 0.8, 1]), st.integers(0, 2)),
    min_size=1,
    max_size=40,
)


def comparisons_of(answers):
    first = [i for i, *_ in answers]
    second = [(i + step) % 5 for i, step, *_ in answers]
    p, judge = [p for *_, p, _ in answers], [f"j{r}" for *_, r in answers]
    return Comparisons.from_columns(np.array(first), np.array(second), p, judge=[*judge])


def naive_verdicts(answers):
    """{pair: {judge: verdict}}, the verdict for the lower number: mean of the means of both orders."""
    said = defaultdict(lambda: defaultdict(list))
    for i, step, p, judge in answers:
        j = (i + step) % 5
        said[min(i, j), max(i, j), f"j{judge}"][i < j].append(p if i < j else 1 - p)
    found = defaultdict(dict)
    for (i, j, judge), orders in said.items():
        mean = np.mean([np.mean(values) for values in orders.values()])
        found[i, j][judge] = 0 if abs(mean - 0.5) < 1e-9 else int(np.sign(mean - 0.5))
    return found


def doubled(found):
    """The verdicts of each pair in both orientations."""
    return [{who: side * said for who, said in pair.items()} for pair in found.values() for side in (1, -1)]


@given(ANSWERS)
def test_alpha_is_that_of_all_ordered_pairs_of_verdicts(answers):
    units = [list(pair.values()) for pair in doubled(naive_verdicts(answers)) if len(pair) > 1]
    values = [value for unit in units for value in unit]
    chance = np.mean([a != b for a, b in permutations(values, 2)]) if values else 0.0
    alpha = krippendorff_alpha(comparisons_of(answers), draws=1)
    assert alpha.pairs == len(units) // 2
    if not chance:
        assert np.isnan(alpha.value)
        return
    observed = sum(np.mean([a != b for a, b in permutations(unit, 2)]) * len(unit) for unit in units) / len(values)
    assert alpha.value == pytest.approx(1 - observed / chance)


@given(ANSWERS)
def test_kappa_is_that_of_a_loop(answers):
    comparisons, units = comparisons_of(answers), doubled(naive_verdicts(answers))
    judges = sorted({f"j{who}" for *_, who in answers})
    for one, other in combinations(judges, 2):
        both = [(unit[one], unit[other]) for unit in units if one in unit and other in unit]
        found = cohen_kappa(comparisons, one, other, draws=1)
        assert found.pairs == len(both) // 2
        if both:
            chance = np.mean([a == b for a, _ in both for _, b in both])
            expected = (np.mean([a == b for a, b in both]) - chance) / (1 - chance) if chance < 1 else np.nan
            assert found.value == pytest.approx(expected, nan_ok=True)


def panel(rng, pairs=150, contexts=None, accuracy=0.8, ties=0.1, judges=3):
    """Judges who find the true side with a probability, and tie at random; and the α that many pairs would give."""
    truth = rng.random(pairs) < 0.5
    side = accuracy if contexts is None else np.clip(accuracy + 0.15 * rng.choice([-1, 1], contexts), 0, 1)
    right = np.repeat(side, pairs // contexts) if contexts else np.full(pairs, accuracy)
    said = np.where(rng.random((judges, pairs)) < right, truth, ~truth).astype(float)
    said[rng.random((judges, pairs)) < ties] = 0.5
    number = np.arange(pairs)
    columns = {"first": 2 * number, "second": 2 * number + 1}
    if contexts:
        columns["context"] = np.repeat(np.arange(contexts), pairs // contexts)
    stacked = {name: np.tile(column, judges) for name, column in columns.items()}
    spread = 0.15**2 if contexts else 0.0
    same = (accuracy**2 + (1 - accuracy) ** 2 + 2 * spread) * (1 - ties) ** 2 + ties**2
    chance = (1 - ties) ** 2 / 2 + ties**2
    judge = np.repeat(np.arange(judges), pairs)
    comparisons = Comparisons.from_columns(**stacked, p=said.ravel(), judge=judge)
    return comparisons, (same - chance) / (1 - chance)


@pytest.mark.long
@pytest.mark.parametrize("contexts", [None, 30])
def test_intervals_cover_what_many_pairs_would_give(contexts):
    rng = np.random.default_rng(0)
    inside, off, width = [], [], []
    for _ in range(300):
        comparisons, truth = panel(rng, contexts=contexts)
        for found in (krippendorff_alpha(comparisons, draws=400), cohen_kappa(comparisons, 0, 1, draws=400)):
            inside.append(found.low <= truth <= found.high)
            off.append(found.value - truth)
            width.append(found.high - found.low)
    for measure in range(2):
        assert 0.91 <= np.mean(inside[measure::2]) <= 0.98
        assert abs(np.mean(off[measure::2])) < 0.012
    assert np.mean(width[::2]) < np.mean(width[1::2])  # three judges tell more than two


def test_the_order_of_the_texts_changes_nothing():
    comparisons, _ = panel(np.random.default_rng(1))
    turned = Comparisons.from_columns(comparisons.second, comparisons.first, 1 - comparisons.p, judge=comparisons.judge)
    renamed = Comparisons.from_columns(
        1000 - comparisons.first, 1000 - comparisons.second, comparisons.p, judge=comparisons.judge
    )
    for measure in (krippendorff_alpha, lambda data: cohen_kappa(data, 0, 2)):
        one = measure(comparisons)
        for other in (turned, renamed):
            assert measure(other).value == pytest.approx(one.value)
        assert measure(comparisons) == one  # the same seed


def test_full_agreement_on_few_pairs_is_no_certainty():
    rows = [("a", name, 1) for name in "bcdefghijklm"]
    first, second, p = zip(*rows, strict=True)
    two = Comparisons.from_columns(first * 2, second * 2, p * 2, judge=["ana"] * 12 + ["bo"] * 12)
    alpha, kappa = krippendorff_alpha(two), cohen_kappa(two, "ana", "bo")
    assert alpha.value == kappa.value == 1
    assert kappa.low == pytest.approx(1 - 2 * 1.96**2 / (12 + 1.96**2), abs=1e-3)  # a half agrees by chance
    assert alpha.low < 1
    opposed = Comparisons.from_columns(first * 2, second * 2, [1] * 12 + [0] * 12, judge=["ana"] * 12 + ["bo"] * 12)
    kappa = cohen_kappa(opposed, "ana", "bo")
    assert (kappa.value, kappa.low) == (-1, -1)
    assert kappa.high == pytest.approx(1 - 2 * 12 / (12 + 1.96**2), abs=1e-3)


def test_what_cannot_be_told_is_nan_and_what_cannot_be_read_an_error():
    few = Comparisons.from_columns(["a", "a"], ["b", "b"], [1, 1], judge=["ana", "bo"])
    alpha = krippendorff_alpha(few)
    assert alpha.pairs == 1
    assert np.isnan(alpha.low)
    apart = Comparisons.from_columns(["a", "a"], ["b", "c"], [1, 1], judge=["ana", "bo"])
    assert np.isnan(krippendorff_alpha(apart).value)
    assert krippendorff_alpha(apart).pairs == 0
    assert np.isnan(cohen_kappa(apart, "ana", "bo").value)
    with pytest.raises(ComparisonsError, match=r"'zoe'.*'ana', 'bo'"):
        cohen_kappa(few, "ana", "zoe")
    with pytest.raises(ComparisonsError, match="name no judges"):
        cohen_kappa(Comparisons.from_rows([("a", "b", 1)]), "ana", "bo")
    with pytest.raises(ValueError, match="level"):
        krippendorff_alpha(few, level=1.0)


def test_resampling_in_blocks_draws_whole_samples():
    sums = resampled(np.arange(12.0).reshape(6, 2), 25, np.random.default_rng(0))
    assert sums.shape == (25, 2)
    assert np.allclose(sums[:, 1] - sums[:, 0], 6)  # six units a sample
