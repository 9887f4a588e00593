"""What the plots draw, against the same numbers found in another way."""

import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy.special import expit, logit
from scipy.stats import sem, t

from comparo import Comparisons, fit
from comparo.plots import COLOURS, plot_efficiency, plot_groups, plot_position_bias, plot_ranking

EXAMPLES = Path(__file__).parents[1] / "examples"
ROWS = [("a", "b", 0.8), ("b", "c", 0.7), ("c", "a", 0.1)]
NAMES = [f"item {number}" for number in range(8)]
TRUTH = dict(zip(NAMES, (-2.1, -1.37, -0.8, -0.33, 0.29, 0.91, 1.43, 1.97), strict=True))


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def judged(rng, count=120, bias=0.5, names=NAMES):
    """Random ordered pairs and a noisy answer to each."""
    pairs = [rng.choice(len(names), 2, replace=False) for _ in range(count)]
    first, second = np.array(pairs).T
    s = np.array([TRUTH[name] for name in names])
    p = expit(s[first] - s[second] + bias + 0.5 * rng.standard_normal(count))
    return [(names[i], names[j], float(answer)) for i, j, answer in zip(first, second, p, strict=True)]


@pytest.fixture
def rows():
    return judged(np.random.default_rng(3))


def drawings(rows):
    curves = {"selected": [[0.7, 0.9], [0.8, 0.9]], "random": [[0.5, 0.8], [0.6, 0.7]]}
    yield lambda ax: plot_ranking(fit(rows), ax=ax)
    yield lambda ax: plot_ranking(fit(EXAMPLES / "stories.csv"), ax=ax)
    yield lambda ax: plot_efficiency([1, 2], curves, ax=ax)
    yield lambda ax: plot_position_bias(rows, ax=ax)


@pytest.mark.long
def test_each_fits_a_column_with_labels_one_can_read(rows):
    for draw in drawings(rows):
        ax = draw(None)
        figure = ax.figure
        assert figure.get_size_inches()[0] == pytest.approx(3.4)
        assert ax.get_xlabel()
        assert ax.get_ylabel() or ax.get_yticklabels()
        figure.canvas.draw()
        texts = [text for text in figure.findobj(pyplot.Text) if text.get_text().strip()]
        assert min(text.get_fontsize() for text in texts) >= 8
        box = figure.get_tightbbox().extents  # in inches: nothing sticks out
        assert box.min() >= 0
        assert (box[2:] <= figure.get_size_inches()).all()


def test_each_draws_where_it_is_told(rows):
    for draw in drawings(rows):
        ax = Figure().subplots()
        assert draw(ax) is ax
    assert not pyplot.get_fignums()


def test_the_best_are_drawn_by_their_names():
    ranking = fit([("$x_$", "b$\\frac", 0.6), ("b$\\frac", "c", 0.7), ("d", "c", 0.1)], "poe-bt")
    ax = plot_ranking(ranking, top=3)
    assert [label.get_text() for label in ax.get_yticklabels()] == ranking.to_columns()["item"][:3].tolist()
    assert "95% interval" in ax.get_xlabel()
    ax.figure.canvas.draw()  # no name is a formula


def test_efficiency_is_the_mean_with_its_interval():
    rng = np.random.default_rng(1)
    calls = np.array([10.0, 20.0, 40.0])
    curves = {"selected": rng.normal(0.8, 0.1, (12, 3)), "random": rng.normal(0.6, 0.1, (7, 3)), "one": np.ones((1, 3))}
    ax = plot_efficiency(calls, curves, measure="quality")
    assert ax.get_ylabel() == "quality"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(curves)
    assert len(ax.collections) == 2
    for line, values in zip(ax.lines, curves.values(), strict=True):
        np.testing.assert_allclose(line.get_ydata(), values.mean(axis=0))
    for band, values in zip(ax.collections, curves.values(), strict=False):
        low, high = t.interval(0.95, len(values) - 1, values.mean(axis=0), sem(values))
        corners = band.get_paths()[0].vertices
        for x, bottom, top in zip(calls, low, high, strict=True):
            here = corners[corners[:, 0] == x, 1]
            assert (here.min(), here.max()) == pytest.approx((bottom, top))


def test_lines_differ_in_colour_and_style():
    ax = plot_efficiency([1], {str(number): [[number]] for number in range(28)})
    looks = {(to_hex(line.get_color()).upper(), line.get_linestyle()) for line in ax.lines}
    assert len(looks) == 28
    assert {colour for colour, _ in looks} == set(COLOURS)


def shares(ax):
    return [patch.get_data().values for patch in ax.patches]


def test_position_bias_shows_answers_pairs_and_lines(rows):
    turned = [(j, i, float(expit(1.0 - logit(p)))) for i, j, p in rows[:30]]  # σ(d + ½) has σ(−d + ½) behind it
    every = rows + turned
    ax = plot_position_bias(every)
    p = np.array([answer for *_, answer in every])
    of_p, of_pairs = shares(ax)
    np.testing.assert_allclose(of_p, np.histogram(p, 20, (0, 1))[0] / len(p))
    orders = {}
    for i, j, answer in every:
        orders.setdefault((i, j), []).append(answer)
    both = [logit([np.mean(orders[i, j]), np.mean(orders[j, i])]) for i, j in orders if i < j and (j, i) in orders]
    np.testing.assert_allclose(of_pairs, np.histogram(expit(np.mean(both, axis=1)), 20, (0, 1))[0] / len(both))
    even, mean, wins = (line.get_xdata()[0] for line in ax.lines)
    assert even == 0.5
    assert mean == pytest.approx(p.mean())
    assert wins == pytest.approx(expit(-fit(every, bias="joint").solution.bias[0, 0]))
    assert wins == pytest.approx(expit(0.5), abs=0.05)


def test_position_bias_of_judges_and_contexts_is_their_mean(rows):
    judge = ["x" if number % 3 else "y" for number in range(len(rows))]
    context = ["c" if number % 2 else "d" for number in range(len(rows))]
    first, second, p = zip(*rows, strict=True)
    data = Comparisons.from_columns(first, second, p, context=context, judge=judge)
    wins = plot_position_bias(data).lines[2].get_xdata()[0]
    gamma = fit(data, "mixed").tables["bias"]["gamma"].reshape(2, 2)
    table = {(c, j): gamma[k, m] for k, c in enumerate(data.contexts) for m, j in enumerate(data.judges)}
    assert wins == pytest.approx(np.mean([expit(-table[key]) for key in zip(context, judge, strict=True)]))


def test_a_bias_that_cannot_be_told_is_not_shown():
    ax = plot_position_bias([("a", "b", 0.8)])
    assert len(ax.lines) == 2
    assert len(ax.patches) == 1


def test_what_cannot_be_drawn_and_what_must_be_installed_is_named(monkeypatch):
    with pytest.raises(ValueError, match=r"1\.8"):
        plot_position_bias([("a", "b", 1.8)])
    assert not pyplot.get_fignums()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"\[plots\]"):
        plot_position_bias(ROWS)


def test_groups_are_drawn_with_their_intervals_best_above():
    pairs = [(c, i, j) for c in range(8) for i in range(4) for j in range(4) if i != j]
    context, first, second = zip(*pairs, strict=True)
    p = [float(expit(0.5 * (j - i) + np.sin(c + i + 2 * j))) for c, i, j in pairs]
    board = fit(Comparisons.from_columns(first, second, p, context=context), "mixed", groups="items").groups()
    ax = plot_groups(board, ax=Figure().subplots())
    drawn = {place: (low, high) for bars in ax.containers for (low, place), (high, _) in bars[2][0].get_segments()}
    for place in range(4):
        assert drawn[place] == pytest.approx((board.low[place], board.high[place]))
    assert [text.get_text() for text in ax.get_yticklabels()] == [str(name) for name in board.group]
    assert len(plot_groups(board, top=2, ax=Figure().subplots()).get_yticks()) == 2
