"""A first stage informs the scores and what is asked: against naive solutions and known truth, at every door."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import spearmanr

import comparo
from comparo import Comparisons, fit, load_judge
from comparo.model.tuning import SPREAD
from comparo.report.record import read_record
from comparo.selection.doubt import Doubt
from comparo.selection.lineups import LineupSelector

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
KINDS = {"useful": 1.0, "reversed": -1.0, "useless": 0.0}


def world(seed, items, calls, kind):
    """Answers about texts with true scores, and the part of a first stage that is noise."""
    rng = np.random.default_rng(seed)
    true, rows = 1.5 * rng.standard_normal(items), []
    for _ in range(calls):
        shown = rng.permutation(items)[: 5 if kind == "order" else 2].tolist()
        a, b = shown[:2]
        apart = true[a] - true[b]
        if kind == "order":
            rows.append({"items": shown, "order": sorted(shown, key=lambda item: -true[item] - rng.gumbel())})
        else:
            p = expit(apart + rng.standard_normal()) if kind == "soft" else float(rng.random() < expit(apart))
            rows.append({"first": a, "second": b, "p": p})
    return true, Comparisons.from_rows(rows), rng.standard_normal(items)


def stage(true, noise, way):
    """Numbers that correlate with the true scores by 0.7, −0.7 or not at all."""
    known = (true - np.mean(true)) / np.std(true)
    return way * (0.7 * known + np.sqrt(0.51) * noise) if way else noise


LONG = pytest.mark.long


@pytest.mark.parametrize(
    ("kind", "calls"), [("soft", 60), pytest.param("hard", 80, marks=LONG), pytest.param("order", 12, marks=LONG)]
)
def test_scores_follow_a_first_stage_as_far_as_it_tells(kind, calls):
    found = {name: [] for name in ("without", *KINDS)}
    for seed in range(8):
        true, data, noise = world(seed, 40, calls, kind)
        for name in found:
            x = None if name == "without" else dict(enumerate(stage(true, noise, KINDS[name]).tolist()))
            ranking = fit(data, "mixed", first_stage=x)
            found[name].append(spearmanr(ranking.scores, true[ranking.items.astype(int)])[0])
    mean = {name: np.mean(values) for name, values in found.items()}
    assert mean["useful"] > mean["without"] + 0.02
    assert mean["reversed"] == pytest.approx(mean["useful"], abs=1e-6)
    assert mean["useless"] > mean["without"] - 0.03


def test_a_panel_leans_to_a_first_stage_of_either_sign():
    true, data, noise = world(0, 40, 160, "soft")
    names = {"judge": np.arange(160, dtype=np.int32) % 2, "judges": np.array(["ana", "bo"], dtype=object)}
    data, x = Comparisons(data.items, data.first, data.second, data.p, **names), stage(true, noise, 1.0)
    given = [None, *(dict(enumerate((way * x).tolist())) for way in (1, -1))]
    without, told, turned = (fit(data, "panel", first_stage=each) for each in given)
    alike = [spearmanr(one.scores, x[one.items.astype(int)])[0] for one in (without, told)]
    assert alike[1] > alike[0] + 0.02
    assert turned.scores == pytest.approx(told.scores, abs=1e-6)


@pytest.mark.parametrize("method", ["mixed", "panel"])
def test_only_differences_within_a_context_count(method):
    rng = np.random.default_rng(1)
    rows = [
        {"first": i, "second": (i + 1 + k) % 8, "p": rng.random(), "context": c, "judge": k}
        for c in "xy" for i in range(8) for k in range(2)
    ]  # fmt: skip
    data = Comparisons.from_rows(rows)
    x = {(c, i): rng.standard_normal() for c in "xy" for i in range(8)}
    moved = {(c, i): 3.0 * value + (100.0 if c == "x" else 0.0) for (c, i), value in x.items()}
    one, other, none = (fit(data, method, first_stage=each) for each in (x, moved, dict.fromkeys(x, 0.1)))
    assert one.scores == pytest.approx(other.scores, abs=1e-6)
    assert none.scores == pytest.approx(fit(data, method).scores, abs=1e-9)


@pytest.mark.parametrize("kind", ["hard", "order"])
@pytest.mark.parametrize("way", [1.0, -1.0])
def test_doubt_has_the_most_likely_scores_and_slope(kind, way):
    true, data, noise = world(4, 9, 14, kind)
    items = data.items.astype(np.int32)
    assert len(items) == 9
    x = stage(true, noise, way)
    data = Comparisons(np.arange(9), items[data.first], items[data.second], data.p, data.weight, lineup=data.lineup)
    doubt = Doubt(9, 3, x)
    for _ in range(12):
        doubt.learn(data)
    z = (x - np.mean(x)) / np.std(x)
    orders = {}
    for row, (a, b) in enumerate(zip(data.first.tolist(), data.second.tolist(), strict=True)):
        orders.setdefault(row if data.lineup is None else int(data.lineup["answer"][row]), []).append((a, b, row))

    def lost(theta):
        scores, slope = theta[:9], theta[9]
        prior = np.sum((scores - slope * z) ** 2) + slope**2
        return 0.5 * prior / SPREAD**2 * doubt.dispersion - likelihood(scores)

    def likelihood(scores):
        if kind == "hard":
            d = scores[data.first] - scores[data.second]
            return float(np.sum(np.where(data.p > 0.5, -np.log1p(np.exp(-d)), -np.log1p(np.exp(d)))))
        total = 0.0
        for order in ORDERS:
            for place in range(len(order) - 1):
                total += scores[order[place]] - np.log(np.sum(np.exp(scores[order[place:]])))
        return total

    rng = np.random.default_rng(4)
    rng.standard_normal(9)
    ORDERS = []
    if kind == "order":
        for _ in range(14):
            shown = rng.permutation(9)[:5].tolist()
            ORDERS.append(sorted(shown, key=lambda item: -true[item] - rng.gumbel()))
    best = minimize(lost, np.zeros(10), method="BFGS").x
    assert doubt.scores - np.mean(doubt.scores) == pytest.approx(best[:9] - np.mean(best[:9]), abs=0.01)
    assert doubt.slope == pytest.approx(best[9], abs=0.02)
    assert np.sign(doubt.slope) == np.sign(way)


def test_lineups_for_the_best_begin_with_those_that_a_first_stage_likes():
    true = np.linspace(-3, 3, 48)
    early = {}
    for name, x in {"without": None, "useful": true, "reversed": -true}.items():
        selector, asked = LineupSelector(range(48), 4, strategy="adaptive", goal="top-5", first_stage=x, seed=1), []
        for _ in range(16):
            lineup = [item for first, rest in selector.next(1) for item in (first, *rest)]
            selector.observe([{"items": lineup, "order": sorted(lineup, reverse=True)}])
            asked += lineup
        early[name] = np.mean(np.array(asked) >= 38)
    assert early["useful"] == early["reversed"] > early["without"]


ROWS = [
    {"id": f"t{i}", "text": f"{i} of {c}.", "context_id": c, "score": float(i), "bm25": i + (i * 7) % 5, "flat": 1.5}
    for c in "xy"
    for i in range(8)
]  # fmt: skip
SCORES = {(row["context_id"], row["id"]): row["score"] for row in ROWS}


def start(out, **options):
    judge = load_judge("simulated/soft", scores=SCORES)
    return comparo.rank(ROWS, "better", judge=judge, out=out, cache="off", budget="3n", **options)


def test_a_run_keeps_its_first_stage(tmp_path):
    ranking = start(tmp_path / "run", first_stage="bm25")
    assert ranking.solution.effects.first_stage > 0
    assert json.loads(ranking.to_json())["variances"]["first_stage"] == ranking.solution.effects.first_stage
    assert ranking.scores != pytest.approx(start(tmp_path / "plain").scores, abs=1e-3)
    again = read_record(tmp_path / "run").ranking
    assert again.scores == pytest.approx(ranking.scores, abs=1e-12)
    resumed = start(tmp_path / "run", first_stage="bm25")
    assert resumed.scores == pytest.approx(ranking.scores, abs=1e-12)


def test_a_goal_of_the_best_keeps_its_first_stage(tmp_path):
    options = {"goal": "top-3", "lineup": 4}
    start(tmp_path / "run", first_stage="bm25", **options)
    with pytest.raises(comparo.WrongFolderError, match="first_stage"):
        start(tmp_path / "run", **options)


@pytest.mark.parametrize(
    ("change", "options", "named"),
    [
        ({}, {"first_stage": "absent"}, ("absent", "first_stage")),
        ({"bm25": "many"}, {"first_stage": "bm25"}, ("row 3", "bm25", "many")),
        ({"bm25": None}, {"first_stage": "bm25"}, ("row 3", "bm25", "first_stage")),
        ({}, {"first_stage": "flat"}, ("first_stage", "flat")),
        ({}, {"first_stage": "bm25", "plain": True}, ("first_stage",)),
        ({}, {"first_stage": "bm25", "method": "poe-bt"}, ("first_stage",)),
    ],
)
def test_mistakes_are_told_before_anything_is_asked(change, options, named, tmp_path):
    rows = [*ROWS[:2], ROWS[2] | change, *ROWS[3:]]
    asked = []

    def judge(first, second):
        asked.append((first, second))
        return 0.5

    with pytest.raises(ValueError, match=named[0]) as error:
        comparo.rank(rows, "better", judge=judge, out=tmp_path / "run", cache="off", **options)
    assert all(name in str(error.value) for name in named)
    assert not asked
    assert not (tmp_path / "run").exists()


def test_the_command_names_its_flag(run, tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    words = (
        "rank",
        "a.jsonl",
        "--criterion",
        "better",
        "--judge",
        "simulated/soft",
        "-o",
        "scores=score",
        "--cache",
        "off",
    )
    done = run(tmp_path, (*words, "--first-stage", "flat"))
    assert done.returncode == 2
    assert "--first-stage" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    done = run(tmp_path, (*words, "--first-stage", "bm25", "--out", "run"))
    assert done.returncode == 0, done.stderr
    kept = json.loads((tmp_path / "run" / "run.json").read_text())
    assert kept["first_stage"] == "bm25"
    assert kept["numbers"]["bm25"] == [row["bm25"] for row in ROWS]
