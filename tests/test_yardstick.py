from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from benchmarks.paper.datasets import open_dataset
from benchmarks.yardstick import ALONE, CONSENSUS, PAPER, SHARED, Curve, chosen, measure, tables
from comparo import Items
from inside import Fit, Fitting, Opened, Recorded, evaluate, everything

DATA = Path(__file__).parents[2] / "shared" / "data"
WORDS = "salt lantern orchard violin glacier thunder meadow copper".split()


@pytest.fixture(scope="module")
def opened():
    """Four contexts of six texts by six systems, every ordered pair judged by a noisy judge."""
    rng, items, rows = np.random.default_rng(3), [], []
    for context in range(4):
        quality = np.arange(6) + rng.normal(size=6)
        for item in range(6):
            text = " ".join(rng.choice(WORDS, 12))
            items.append({"id": f"s{item}", "context_id": f"c{context}", "text": text, "score": quality[item]})
        for i in range(6):
            for j in range(6):
                if i != j:
                    p = expit(0.5 * (quality[i] - quality[j]) + rng.normal(scale=0.5))
                    rows.append({"context": f"c{context}", "first": f"s{i}", "second": f"s{j}", "p": p})
    texts = Items.of(items)
    return Opened("mine", texts, {"score": Recorded.of(rows, texts, "score")})


def test_chosen_pairs_are_asked_in_both_orders_and_are_about_every_item(opened):
    recorded = opened.recorded["score"]
    found = chosen(recorded, Fitting(opened.items), ("2n", "3n"), draws=3, seed=0)
    for calls, each in (("2n", 12), ("3n", 18)):
        assert found[calls].rows.shape == (3, 4 * each)
        for draw in found[calls].rows:
            first, second = recorded.first[draw], recorded.second[draw]
            asked = set(zip(first.tolist(), second.tolist(), strict=True))
            assert len(asked) == len(draw)
            assert {(j, i) for i, j in asked} == asked
            assert {node for pair in asked for node in pair} == set(range(24))
    fewer, more = (found[calls].rows[0].reshape(4, -1) for calls in ("2n", "3n"))
    assert np.array_equal(fewer, more[:, :12])


@pytest.mark.long
def test_the_paper_s_curve_ends_where_all_judgements_do(opened):
    curves = measure([opened], draws=5)["mine", "score"]
    whole = 100 * evaluate(everything(opened.recorded["score"]), Fit("poe-bt")).spearman[0]
    assert curves[PAPER].whole == pytest.approx(whole)
    assert {len(curve.values) for curve in curves.values()} == {5}
    assert all(np.all(curve.values > 50) for curve in curves.values())
    few, needed, worst = tables({("mine", "score"): curves}, {"mine": 6.0})
    assert few.rows[0][1][3].value == pytest.approx(curves[SHARED].at(12))
    assert needed.rows[-1][0] == "mine mean curve"
    assert worst.rows[0][1][0].value == pytest.approx(np.min(curves[ALONE].values - curves[PAPER].values))


def test_calls_needed_are_read_off_straight_lines():
    curve = Curve(np.array([10.0, 20.0, 40.0]), np.array([10.0, 20.0, 30.0]))
    assert curve.needed(25.0) == 30.0
    assert curve.needed(5.0) == 10.0
    assert np.isnan(curve.needed(31.0))
    assert curve.at(15.0) == 15.0


@pytest.mark.long
@pytest.mark.recorded
def test_few_calls_on_topicalchat_beat_the_paper_s_with_all(tmp_path):
    for attribute in ("coherence", "engagingness"):
        name = f"topicalchat.{attribute}.csv.gz"
        (tmp_path / name).symlink_to((DATA / "judgements" / name).resolve())
    topicalchat = open_dataset("topicalchat", DATA, tmp_path)
    ways = measure([topicalchat], draws=10, grids={"topicalchat": ("12",)}).values()
    assert len(ways) == 2
    whole = np.mean([one[PAPER].whole for one in ways])
    assert np.mean([one[SHARED].at(12) for one in ways]) > whole
    assert np.mean([one[CONSENSUS].at(12) - one[SHARED].at(12) for one in ways]) > 15
