import numpy as np
import pytest
from scipy.special import logit

from comparo import Comparisons, ComparisonsError, fit
from comparo.analysis.correlations import calibrate
from comparo.model.likelihoods import Gaussian


def judged(rng, items=40, rows=4000):
    """Answers whose meaning is a curve: E[difference | p] = 2·logit(p) + 0.5, with noise that grows with |p − ½|."""
    p = rng.uniform(0.05, 0.95, rows)
    truth = {item: float(score) for item, score in enumerate(rng.normal(size=items))}
    order = sorted(truth, key=truth.get)
    scores = np.array([truth[item] for item in order])
    wanted = 0.5 * (2 * logit(p) + 0.5) / 3 + (0.05 + 0.3 * np.abs(p - 0.5)) * rng.standard_normal(rows)
    first = rng.integers(items, size=rows)
    second = np.searchsorted(scores, scores[first] - wanted).clip(0, items - 1)
    keep = first != second
    labels = np.array(order)
    return Comparisons.from_columns(labels[first[keep]], labels[second[keep]], p[keep]), truth


def test_mean_and_variance_are_those_of_the_differences():
    comparisons, truth = judged(np.random.default_rng(0))
    expert = calibrate(comparisons, truth)
    scores = np.array([truth[item] for item in comparisons.items])
    difference = scores[comparisons.first] - scores[comparisons.second]
    for low, high in ((0.1, 0.2), (0.45, 0.55), (0.8, 0.9)):
        here = (comparisons.p > low) & (comparisons.p < high)
        middle = np.array([(low + high) / 2])
        assert expert.mean(middle)[0] == pytest.approx(difference[here].mean(), abs=0.1)
    assert expert.variance(middle) == pytest.approx(np.mean((difference - expert.mean(comparisons.p)) ** 2))
    assert isinstance(expert, Gaussian)


def test_isotonic_never_falls_and_weights_count():
    rows = [("a", "b", 0.2, 1.0), ("a", "b", 0.4, 1.0), ("b", "a", 0.4, 3.0), ("a", "b", 0.9, 1.0)]
    expert = calibrate(rows, {"a": 1.0, "b": 0.0})
    # at 0.4 the mean of +1 and three times −1 is −½; pooled with the +1 at 0.2 by their weights 1 and 4: −1/5
    assert expert.mean(np.array([0.2, 0.4, 0.9])) == pytest.approx([-0.2, -0.2, 1.0])


def test_scores_may_be_given_by_context_and_for_some_items_only():
    rows = [
        {"context": context, "first": "a", "second": "b", "p": p}
        for context, p in (("x", 0.9), ("x", 0.9), ("y", 0.1), ("y", 0.1), ("z", 0.5))
    ]
    expert = calibrate(rows, {("x", "a"): 1.0, ("x", "b"): 0.0, ("y", "a"): 0.0, ("y", "b"): 1.0})
    assert expert.mean(np.array([0.1, 0.9])) == pytest.approx([-1.0, 1.0])


def test_a_calibrated_expert_fits():
    comparisons, truth = judged(np.random.default_rng(1))
    calibrated = fit(comparisons, method=calibrate(comparisons, truth))
    true = np.array([truth[item] for item in calibrated.items])
    assert np.abs(calibrated.scores - true + true.mean()).mean() < 0.1


def test_true_scores_that_fit_no_item_are_said():
    with pytest.raises(ComparisonsError, match=r"^0 comparisons"):
        calibrate([("a", "b", 0.5)], {"A": 1.0})
    with pytest.raises(ComparisonsError, match=r"^1 comparisons"):
        calibrate([("a", "b", 0.5), ("b", "c", 0.5)], {"a": 1.0, "b": 0.0})
