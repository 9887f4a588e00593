"""A judge that favours its own family is found; one that only likes some systems more than others is not accused."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from comparo import Comparisons
from comparo.analysis.judge_biases import families_of, own_family

ARENA = Path(__file__).parents[2] / "shared" / "data" / "panel" / "judges.arena_ppr.csv.gz"


def votes(rng: np.random.Generator, effect: float = 0.0, calls: int = 800) -> tuple[Comparisons, dict[str, str]]:
    """Decisions of five judges about 15 systems: four judges have a family of three systems, and all have tastes."""
    systems, judges = 15, 5
    family = {f"system {i}": f"family {i // 3}" for i in range(systems)}
    family |= {f"judge {r}": f"family {r}" for r in range(judges - 1)}
    quality = 1.2 * rng.normal(size=systems)
    first, second, p, judge = [], [], [], []
    for r in range(judges):
        own = np.arange(systems) // 3 == (r if r < judges - 1 else -1)
        score = (0.6 + 0.2 * r) * quality + 0.4 * rng.normal(size=systems) + effect * own
        i, j = rng.integers(systems, size=(2, calls))
        i, j = i[i != j], j[i != j]
        first += [f"system {one}" for one in i]
        second += [f"system {one}" for one in j]
        p += (rng.random(size=len(i)) < 1 / (1 + np.exp(-(score[i] - score[j] + 0.3)))).astype(float).tolist()
        judge += [f"judge {r}"] * len(i)
    return Comparisons.from_columns(first, second, np.array(p), judge=judge), family


def coverage(draws: int, effect: float) -> tuple[float, float]:
    """How often an interval has the effect, and how often any judge is found to have one."""
    rng, covered, found = np.random.default_rng(7), [], []
    for _ in range(draws):
        one = own_family(*votes(rng, effect))
        covered += ((one.low <= effect) & (effect <= one.high)).tolist()
        found.append(bool(one.is_found.any()))
    return float(np.mean(covered)), float(np.mean(found))


def test_planted_effects_are_found_and_covered() -> None:
    covered, found = coverage(15, 1.5)
    assert covered > 0.85
    assert found > 0.9


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("effect", [0.0, 1.0])
def test_intervals_cover_and_false_alarms_are_rare(effect: float) -> None:
    covered, found = coverage(300, effect)
    assert 0.93 <= covered <= 0.97
    assert found > 0.8 if effect else found <= 0.05


def test_the_effect_is_that_of_a_regression_of_residuals() -> None:
    """Exact answers show the scores, and Frisch and Waugh give the coefficient: residuals on residuals."""
    rng, names = np.random.default_rng(8), [f"system {i}" for i in range(9)]
    scores = {judge: rng.normal(size=9) for judge in ("x", "y")}
    scores["z"] = scores["y"]  # the others agree, so that t has no errors
    pairs = [(i, j, judge) for judge in scores for i in range(9) for j in range(9) if i != j]
    p = [1 / (1 + np.exp(scores[judge][j] - scores[judge][i])) for i, j, judge in pairs]
    ends = ([names[pair[place]] for pair in pairs] for place in (0, 1))
    data = Comparisons.from_columns(*ends, np.array(p), judge=[judge for *_, judge in pairs])
    found = own_family(data, {"x": "one", **dict.fromkeys(names[:2], "one")})
    seen, mine = scores["y"], np.arange(9) < 2

    def left(values: np.ndarray) -> np.ndarray:
        line = stats.linregress(seen, values)
        return values - line.intercept - line.slope * seen

    line = stats.linregress(left(mine.astype(float)), left(scores["x"]))
    error = line.stderr * np.sqrt(7 / 6)  # it counts two coefficients, and there are three
    assert found.effect[0] == pytest.approx(line.slope, abs=1e-3)
    assert found.high[0] - found.effect[0] == pytest.approx(stats.t.ppf(0.975, 6) * error, abs=1e-3)
    assert found.probability[0] == pytest.approx(2 * stats.t.sf(abs(line.slope) / error, 6), abs=1e-3)
    assert (found.own[0], found.others[0]) == (2, 7)


def exact(scores: dict[str, np.ndarray]) -> Comparisons:
    """Exact answers of judges about systems next to each other, in two contexts."""
    size = len(next(iter(scores.values())))
    pairs = [(i, j, judge) for judge in scores for i in range(size) for j in range(size) if 0 < abs(i - j) < 3]
    p = [1 / (1 + np.exp(scores[judge][j] - scores[judge][i])) for i, j, judge in pairs]
    first, second = ([f"system {pair[place]:02}" for pair in pairs] for place in (0, 1))
    context = [str(row % 2) for row in range(len(pairs))]
    return Comparisons.from_columns(first, second, np.array(p), judge=[pair[2] for pair in pairs], context=context)


def test_a_judge_whose_family_is_simply_good_is_not_accused() -> None:
    rng, effects = np.random.default_rng(12), []
    family = {"x": "one", **{f"system {i:02}": "one" for i in range(4)}}
    for _ in range(60):
        quality = np.sort(rng.normal(size=20))[::-1]
        data = exact({judge: quality + 0.5 * rng.normal(size=20) for judge in "xyz"})
        effects.append(own_family(data, family).effect[0])
    assert np.mean(np.isnan(effects)) < 0.1
    assert abs(np.nanmean(effects)) < 2 * np.nanstd(effects) / np.sqrt(60)


def test_one_other_judge_does_not_show_how_far_it_errs() -> None:
    rng = np.random.default_rng(13)
    found = own_family(exact({judge: rng.normal(size=9) for judge in "xy"}), {"x": "one", "system 00": "one"})
    assert np.isnan(found.effect).all()
    assert "two other judges" in found.sentence


@pytest.mark.parametrize("contexts", [1, 2])
def test_both_leaderboards_have_one_scale_and_intervals_for_few_contexts(contexts: int) -> None:
    rng = np.random.default_rng(14)
    scores = {judge: rng.normal(size=10) for judge in "xyz"}
    scores["x"][:2] += 3
    columns = exact(scores).to_columns()
    columns["context"] = [f"question {row % contexts}" for row in range(len(columns["p"]))]
    columns["p"] = np.clip(columns["p"] + 0.02 * rng.normal(size=len(columns["p"])), 0.01, 0.99)
    data, family = Comparisons.from_columns(**columns), {"x": "one", "system 00": "one", "system 01": "one"}
    board = own_family(data, family).board()
    others = ~np.isin(board["system"], ["system 00", "system 01"])
    np.testing.assert_allclose(board["score"][others], board["score_all"][others])
    assert np.all(board["high"] > board["low"])
    if contexts == 2:
        halves = [own_family(data.take(data.context == half), family).board() for half in range(2)]
        one, other = (half["score"][np.argsort(half["system"])] for half in halves)
        reach = (board["high"] - board["score"])[np.argsort(board["system"])]
        np.testing.assert_allclose(reach, stats.t.ppf(0.975, 1) * np.abs(one - other) / 2, rtol=1e-6)


def test_what_cannot_be_estimated_is_said() -> None:
    rows = [("a", "b", 1.0), ("b", "c", 1.0), ("c", "a", 0.0)]
    few = Comparisons.from_columns(*zip(*rows * 2, strict=True), judge=["x"] * 3 + ["y"] * 3)
    found = own_family(few, {"x": "one", "a": "one"})
    assert np.isnan(found.effect).all()
    assert not found.is_found.any()
    with pytest.raises(ValueError, match="no judge"):
        own_family(few, {"a": "one"})
    with pytest.raises(ValueError, match="judge"):
        own_family(Comparisons.from_rows(rows), {"a": "one"})
    with pytest.raises(ValueError, match=r"'gpt-4'.*'one'.*'two'"):
        families_of(["gpt-4"], {"one": ["gpt"], "two": ["4"]})


def test_the_leaderboard_without_own_votes_is_not_raised_by_favours() -> None:
    board = own_family(*votes(np.random.default_rng(11), 2.0, calls=1000)).board()
    assert board["rank"].tolist() == sorted(board["rank"].tolist())
    assert np.all(board["low"] < board["high"])
    row = {name: place for place, name in enumerate(board["system"].tolist())}
    gain = board["score_all"] - board["score"]
    moved = [np.mean(gain[[row[f"system {i}"] for i in part]]) for part in (range(12), range(12, 15))]
    # One of five judges gives systems 0 to 11 two logits, at a spread of about 1 to 1.5.
    assert 0.15 < moved[0] - moved[1] < 0.5


@pytest.mark.recorded
def test_no_recorded_judge_favours_its_own_family_beyond_chance() -> None:
    data = Comparisons.read(ARENA)
    names = [*data.items.tolist(), *data.judges.tolist()]
    found = own_family(data, families_of(names, {"OpenAI": ["gpt-3", "gpt-4"], "Anthropic": ["claude"]}))
    assert len(found.judge) == 3
    assert not found.is_found.any()


def test_the_command_prints_effects_and_both_leaderboards(run, tmp_path: Path) -> None:
    data, family = votes(np.random.default_rng(10), 2.5, calls=150)
    columns = data.to_columns() | {"context": [f"question {row % 5}" for row in range(len(data))]}
    Comparisons.from_columns(**columns).write(tmp_path / "judged.csv")
    lines = ["name,family", *(f"{name},{of}" for name, of in family.items())]
    (tmp_path / "families.csv").write_text("\n".join(lines))
    done = run(tmp_path, ["fit", "judged.csv", "--leaderboard", "--family", "families.csv"])
    assert done.returncode == 0, done.stderr
    assert "gives family 0" in done.stderr
    assert "score_all" in done.stdout
    assert run(tmp_path, ["fit", "judged.csv", "--family", "families.csv"]).returncode == 2
    assert "names no systems" in run(tmp_path, ["fit", "judged.csv", "--leaderboard", "--family", "one="]).stderr
