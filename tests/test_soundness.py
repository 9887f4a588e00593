"""The benchmark of soundness measures what it says, and the same for any number of processes."""

from dataclasses import astuple, dataclass, replace

import numpy as np
import pytest
from scipy.special import expit, log_softmax, logit, ndtr, softmax

from benchmarks.simulation import Cell, draw_cells, pairs_missing, simulate
from benchmarks.soundness import Stop, grid, in_lineups, measure, run_cell, run_stop, stops, write
from benchmarks.verdict import CellResult, StopResult, bars, off, ratio, summary
from inside import Fitting

TINY = (
    Cell(),
    Cell("decisions", 3.0, None, "context", 2, "misleads", "none", "one", (1, 16), 2),
    Cell("votes", 0.3, None, "none", 1, "predicts", "systems", "both", (3, 6), 3),
)


def same(one, other):
    # A process of its own has one BLAS thread, which sums in another order.
    for left, right in zip(one, other, strict=True):
        for expected, found in zip(astuple(left), astuple(right), strict=True):
            if isinstance(expected, (float, np.ndarray)):
                np.testing.assert_allclose(found, expected, rtol=1e-9)
            else:
                assert str(found) == str(expected)


def untimed(results):
    return [replace(result, seconds=0.0) for result in results]


@dataclass
class Oracle:
    """A ranking whose errors have the variance that it says, relative to the one of `honest` = 1."""

    simulation: object
    rng: np.random.Generator
    honest: float = 1.0
    std: float = 0.5

    def __post_init__(self):
        truth = self.simulation.truth
        error = self.std * self.rng.standard_normal(truth.shape)
        # Centred errors of n items have the variance σ²(1 − 1/n); that of a difference is 2σ².
        found = truth + error
        self.scores = (found - found.mean(axis=1, keepdims=True)).ravel()
        self.items = self.simulation.items.ids
        contexts = self.simulation.items.contexts[self.simulation.items.context]
        self.context = None if len(truth) == 1 else contexts
        half = 1.959964 * self.honest * self.std * np.sqrt(1 - 1 / truth.shape[1])
        self.low, self.high = self.scores - half, self.scores + half
        self.tier = np.where(self.scores > 0, 1, 2)
        labels = zip(contexts.tolist(), self.items.tolist(), strict=True)
        self.place = {label: row for row, label in enumerate(labels)}

    def probability(self, one, other, context=None):
        difference = self.scores[self.place[context, one]] - self.scores[self.place[context, other]]
        return float(ndtr(difference / (self.honest * self.std * np.sqrt(2.0))))


def oracle_figures(honest):
    outcomes = []
    cell = Cell(sd=30.0, shape=(10, 16))  # a wide prior: what is likely given the scores is what is likely given none
    for seed in range(40):
        simulation = simulate(cell, seed)
        oracle = Oracle(simulation, np.random.default_rng(seed), honest)
        outcomes.append(replace(measure(oracle, simulation, np.random.default_rng(seed)), plain_rho=0.5))
    return CellResult.of(cell, outcomes)


def test_an_honest_ranking_passes_and_one_that_boasts_does_not():
    found = oracle_figures(1.0)
    assert abs(found.coverage - 0.95) < 3 * found.coverage_error < 0.02
    assert found.calibration < 0.02
    assert found.breaks > 0.98
    assert found.rho > 0.99
    assert found.gain == pytest.approx(found.rho - 0.5)
    assert [row[-1] for row in bars([found], [])] == ["yes"] * 9
    boasts = oracle_figures(0.5)
    assert boasts.coverage == pytest.approx(2 * ndtr(0.98) - 1, abs=3 * boasts.coverage_error)
    assert [row[-1] for row in bars([boasts], [])][1:3] == ["**no**"] * 2


@pytest.mark.long
def test_calibration_tells_probabilities_that_are_too_sure():
    rng, scale = np.random.default_rng(0), 0.3
    simulation = simulate(Cell(sd=scale, shape=(40, 16)), 0)
    bins = {1.0: np.zeros((10, 3)), 0.3: np.zeros((10, 3))}
    for honest in list(bins) * 60:
        # Given an error as large as the spread of scores, half of a difference is expected to be real.
        oracle = Oracle(simulation, rng, honest, scale)
        oracle.scores = oracle.scores / 2
        oracle.std = scale / np.sqrt(2.0)
        bins[honest] += measure(oracle, simulation, rng).bins
    assert off(bins[1.0]) < 0.03 < 0.1 < off(bins[0.3])


@pytest.mark.long
def test_the_cells_are_a_fixed_sequence_with_all_pairs_of_levels():
    cells = draw_cells(60)
    assert cells[:20] == draw_cells(20)
    assert len(set(cells)) == 60
    assert pairs_missing(cells) == 0 < pairs_missing(cells[:10])
    assert all(cell.is_possible and cell.budget <= cell.all_calls for cell in cells)


def test_a_judge_answers_as_its_cell_says():
    quiet = simulate(Cell(noise=0.0, position="text"), 0)
    d = logit(quiet.p[0])
    effect = np.diagonal(d)  # −γ − 2e of each text
    differences = quiet.truth[0][:, None] - quiet.truth[0][None]
    np.testing.assert_allclose(d, differences + (effect[:, None] + effect[None]) / 2, atol=1e-6)
    votes = simulate(Cell("votes", 1.0, None, shape=(1, 200)), 0)
    assert set(np.unique(np.round(6 * votes.p - 0.5, 9))) <= set(range(6))
    assert votes.weight == 5
    assert abs(np.mean(votes.p - (5 * expit(votes.truth[0][:, None] - votes.truth[0][None]) + 0.5) / 6)) < 0.005
    families = simulate(Cell(families=2, sd=0.1, shape=(1, 200), style="predicts"), 0)
    is_upper = families.truth[0] > 0
    letters = np.array([set(text) <= set("kpvzaeucfhniow ") for text in families.items.texts])
    assert np.array_equal(letters, is_upper)
    assert is_upper.sum() == 100
    systems = simulate(Cell(groups="systems", shape=(100, 6)), 0)
    assert np.var(systems.truth.mean(axis=0)) > 0.2
    assert len(set(systems.items.ids.tolist())) == 6


def test_a_judge_of_line_ups_answers_as_its_cell_says():
    options = {"noise": None, "orders": "one", "shape": (2, 40), "texts": 4}
    quiet = simulate(Cell(**options | {"noise": 0.0, "position": "context"}), 0)
    shown = [7, 3, 20, 5]
    seen = quiet.truth[1, shown] + quiet.slots[1]
    assert quiet.line_up(1, shown)["logp"] == pytest.approx(log_softmax(seen).tolist())
    assert np.ptp(quiet.slots - quiet.slots.mean(axis=1, keepdims=True), axis=0).min() > 0
    rng = np.random.default_rng(0)
    for kind in ("orders", "best"):
        drawn = simulate(Cell(kind, position="slots", **options), 1)
        assert np.ptp(drawn.slots, axis=0).max() == 0
        off, variance = np.zeros(4), np.zeros(4)
        for _ in range(1000):
            shown = rng.permutation(40)[:4].tolist()
            said = drawn.line_up(0, shown)
            assert said == drawn.line_up(0, shown)
            chance = softmax(drawn.truth[0, shown] + drawn.slots[0])
            off += np.eye(4)["ABCD".index(str(next(iter(said.values())))[0])] - chance
            variance += chance * (1 - chance)
        assert np.all(np.abs(off) < 4 * np.sqrt(variance))


@pytest.mark.long
def test_line_ups_are_an_axis_of_the_grid():
    cells = draw_cells(60, (3, 4, 6))
    assert {cell.texts for cell in cells} == {3, 4, 6}
    assert {cell.kind for cell in cells} == {"soft", "orders", "best"}
    assert all(cell.is_possible and cell.budget <= cell.all_calls for cell in cells)
    assert pairs_missing(cells) == 0
    assert {cell.texts for cell in draw_cells(5)} == {2}


def test_a_cell_of_line_ups_is_measured_as_one_of_pairs():
    assert Cell(shape=(1, 16), calls=3, texts=4).budget == 16
    [found] = grid([Cell("soft", 1.0, 0.5, "slots", orders="one", shape=(2, 16), calls=3, texts=4)], seeds=2)
    assert (found.runs, found.failed) == (2, 0)
    assert found.rho > 0.8
    assert abs(found.coverage - 0.95) < 4 * found.coverage_error
    assert "| texts | 4 | 1 |" in summary([found])


@pytest.mark.long
def test_sites_that_go_to_and_fro_settle():
    """Of the best of all six texts of a context, by systems that nearly always lose; undamped, they never do."""
    cell = draw_cells(120, (3, 4, 6))[26]
    assert (cell.kind, cell.groups, cell.shape) == ("best", "systems", (100, 6))
    simulation = simulate(cell, 0)
    assert Fitting(simulation.items, grouped=True).rank(in_lineups(cell, simulation, 0)).solution.converged


def test_errors_are_those_of_runs():
    shares = np.random.default_rng(0).random(200)
    found, error = ratio(shares * 10, np.full(200, 10))
    assert found == pytest.approx(np.mean(shares))
    assert error == pytest.approx(np.std(shares, ddof=1) / np.sqrt(200))
    assert np.isnan(ratio([], [])).all()
    assert ratio([3.0, 0.0], [4.0, 0.0])[0] == 0.75


@pytest.mark.long
def test_results_do_not_depend_on_the_number_of_processes(tmp_path):
    cells = grid(TINY, seeds=2)
    ends = stops(TINY[:1], seeds=1)
    same(untimed(cells), untimed(grid(TINY, seeds=2, jobs=2)))
    same(untimed(ends), untimed(stops(TINY[:1], seeds=1)))
    assert all(cell.runs == 2 and not cell.failed and 0.3 < cell.rho <= 1 for cell in cells)
    assert [end.target for end in ends] == [0.7, 0.8, 0.9]
    write(tmp_path / "cells.csv", cells)
    assert len((tmp_path / "cells.csv").read_text().splitlines()) == 4
    page = summary(cells, ends)
    assert "| kind | soft | 1 |" in page
    assert "3 cells × 2 runs" in page


def test_a_fit_that_fails_is_counted():
    broken = run_cell((Cell(orders="neither"), 0)), run_stop((Cell(), 7.0, 0))
    assert all(outcome.error.startswith("OptionError") for outcome in broken)
    found = CellResult.of(Cell(), [broken[0]])
    assert (found.runs, found.failed) == (0, 1)
    assert "of: kind soft" in summary([found], [])


def test_a_stop_too_early_is_told_once_there_are_two_runs():
    early = [Stop(contexts=20, stopped=10, rho=4.0 + k, every=9.0, calls=60.0) for k in (0.0, 1.0)]
    one, two = (StopResult.of(Cell(), 0.7, some) for some in (early[:1], early))
    assert two.rho == pytest.approx(0.45)
    assert two.rho_error == pytest.approx(0.05)
    assert (two.stopped, two.calls) == (0.5, 3.0)
    assert bars([], [one])[-1][-1] == "yes"
    assert bars([], [two])[-1][-1] == "**no**"


@pytest.mark.long
def test_many_small_contexts_of_noise_do_not_stop_and_weak_ones_not_too_early():
    noise = run_stop((Cell(sd=0.0, shape=(20, 16)), 0.7, 0))
    assert not noise.error
    assert noise.stopped <= 1  # of 20; 51% stopped when each context decided alone
    weak = [run_stop((Cell(sd=0.3, shape=(20, 16)), 0.7, seed)) for seed in range(2)]
    stopped = sum(one.stopped for one in weak)
    assert stopped > 20
    assert sum(one.rho for one in weak) / stopped > 0.66  # 0.56 when each context decided alone


@pytest.mark.long
def test_a_single_small_context_of_noise_does_not_stop():
    cells = [Cell(kind, 0.0, 1.0 if kind == "soft" else None, shape=(1, 16)) for kind in ("soft", "decisions")]
    ends = [run_stop((cell, 0.7, seed)) for cell in cells for seed in range(8)]
    assert not any(one.error for one in ends)
    assert sum(one.stopped for one in ends) <= 1
