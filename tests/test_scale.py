"""Scores on the scale of anchors: the map and its errors, anchors that do not fit, and grades."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import comparo
from benchmarks import grades as benchmark
from comparo.ranking.grades import Grading
from comparo.ranking.scale import scale_map
from inside import nodes_of, read_columns

COMPARED = [(i, j, 1 / (1 + np.exp(0.5 * (i - j)))) for i in range(12) for j in range(12) if i != j]


@pytest.fixture(scope="module")
def ranking():
    rng = np.random.default_rng(0)
    noisy = (1 / (1 + np.exp(np.log(1 / p - 1) + 0.4 * rng.normal())) for *_, p in COMPARED)
    return comparo.fit([(f"t{i:02}", f"t{j:02}", p) for (i, j, _), p in zip(COMPARED, noisy, strict=True)], "mixed")


def known(places, error=1.5, seed=1):
    rng = np.random.default_rng(seed)
    return {f"t{k:02}": float(80 - 4 * k + error * rng.normal()) for k in places}


def equal_errors(n, anchors, variance=0.04):
    return np.full(n, variance), np.diag(np.full(n, variance))[:, anchors]


def test_with_equal_errors_it_is_the_prediction_of_a_regression():
    rng = np.random.default_rng(3)
    s, anchors = rng.normal(size=30), np.arange(9)
    y = 50 + 10 * s[anchors] + 4 * rng.normal(size=9)
    found = scale_map(s, *equal_errors(30, anchors), anchors, y)
    line = stats.linregress(s[anchors], y)
    assert found.coefficients == pytest.approx([line.intercept, line.slope])
    assert found.slope_error == pytest.approx(line.stderr)
    x, other = s[anchors], s[9:]
    residual = np.sum((y - line.intercept - line.slope * x) ** 2) / 7
    error = np.sqrt(residual * (1 + 1 / 9 + (other - x.mean()) ** 2 / np.sum((x - x.mean()) ** 2)))
    assert found.score[9:] == pytest.approx(line.intercept + line.slope * other)
    assert found.std[9:] == pytest.approx(error)
    assert set(found.degrees[9:].tolist()) == {7}
    assert found.scatter == pytest.approx(np.sqrt(residual))


def test_an_anchor_is_predicted_from_the_others():
    rng = np.random.default_rng(4)
    s, anchors = rng.normal(size=14), np.arange(8)
    y = 50 + 10 * s[anchors] + 4 * rng.normal(size=8)
    found = scale_map(s, *equal_errors(14, anchors), anchors, y)
    for out in range(8):
        rest = np.delete(anchors, out)
        without = scale_map(s, *equal_errors(14, rest), rest, y[rest])
        assert found.score[out] == pytest.approx(without.score[out])
        assert found.std[out] == pytest.approx(without.std[out])
        assert found.degrees[out] == without.degrees[out] == 5
        assert found.misfit[out] == pytest.approx((y[out] - without.score[out]) / without.std[out])


def test_shared_errors_are_those_of_a_conditional_normal_distribution():
    """Conditioning with an all but flat prior of β; where no scatter is beyond the ranking's, Ω is b²V."""
    rng = np.random.default_rng(5)
    n, k = 12, 6
    root = 0.3 * rng.normal(size=(n, n))
    covariance, s, anchors = root @ root.T + 0.2 * np.eye(n), 2 * rng.normal(size=n), np.arange(k)
    y = 50 + 10 * s[anchors] + rng.normal(size=k)
    found = scale_map(s, np.diagonal(covariance).copy(), covariance[:, anchors], anchors, y)
    design = np.column_stack([np.ones(n), s])
    slope = stats.linregress(s[anchors], y).slope
    joint = slope**2 * covariance + 1e7 * design @ design.T
    gain = joint[k:, :k] @ np.linalg.inv(joint[:k, :k])
    assert found.score[k:] == pytest.approx(gain @ y, rel=1e-4)
    left = np.diagonal(joint[k:, k:] - gain @ joint[:k, k:])
    ratio = found.std[k:] ** 2 / left
    assert ratio == pytest.approx(np.full(n - k, ratio[0]), rel=1e-3)


def test_another_unit_of_the_anchors_changes_nothing_else(ranking):
    given = known(range(0, 12, 2))
    one = comparo.on_scale(ranking, given, "A>=60, B>=50, C")
    other = comparo.on_scale(ranking, {name: 3 * value - 1000 for name, value in given.items()}, "A>=-820, B>=-850, C")
    assert other.score == pytest.approx(3 * one.score - 1000)
    assert other.low == pytest.approx(3 * one.low - 1000)
    assert other.probability == pytest.approx(one.probability)
    assert other.grade.tolist() == one.grade.tolist()


def test_few_anchors_say_so(ranking):
    two, three, many = (comparo.on_scale(ranking, known(places)) for places in ([1, 9], [1, 5, 9], range(12)))
    assert np.isnan(two.low).all()
    assert any("two anchors" in note for note in two.notes)
    nodes = np.isnan(three.anchor)
    width = (three.high - three.low)[nodes]
    assert np.isfinite(width).all()
    assert np.median(width) > 2 * np.median(many.high - many.low)
    assert not many.notes
    assert two.maps["slope"][0] > 0
    both = known([1, 9])
    assert two.score[[1, 9]] == pytest.approx([both["t01"], both["t09"]])


def test_exact_anchors_leave_no_width_and_no_misfit(ranking):
    exact = {name: 50 + 10 * ranking[name].score for name in list(ranking)[::2]}
    found = comparo.on_scale(ranking, exact, "A>=50, B")
    assert found.score == pytest.approx(50 + 10 * ranking.scores)
    assert found.high - found.low == pytest.approx(np.zeros(12), abs=1e-4)
    assert not found.is_misfit.any()


def test_an_anchor_that_does_not_fit_is_named(ranking):
    given = known(range(10))
    assert not comparo.on_scale(ranking, given).is_misfit.any()
    found = comparo.on_scale(ranking, given | {"t04": given["t04"] + 40})
    assert ranking.items[found.is_misfit].tolist() == ["t04"]
    assert any("'t04'" in note for note in found.notes)
    assert [row["item"] for row in json.loads(found.to_json())["scale"]["misfits"]] == ["t04"]


def test_texts_beyond_the_anchors_are_counted(ranking):
    notes = comparo.on_scale(ranking, known(range(4, 8))).notes
    assert any("8 of 12" in note for note in notes)
    assert not any("texts" in note for note in comparo.on_scale(ranking, known(range(1, 11))).notes)


def test_a_bend_is_followed_where_enough_anchors_show_it():
    rng = np.random.default_rng(6)
    s, anchors = np.linspace(-2, 2, 41), np.arange(0, 41, 2)
    truth = 50 + 4 * s + 10 * np.maximum(s, 0.0)  # the median of the anchors is 0
    y = truth[anchors] + rng.normal(size=21)
    variances, shared = equal_errors(41, anchors, 0.001)
    found = scale_map(s, variances, shared, anchors, y)
    x = s[anchors]
    design = np.column_stack([np.ones(21), x, np.maximum(x, 0.0)])
    weight = 1 / np.sqrt(np.where(x > 0, 14**2, 4**2) * 0.001 + 1)  # nearly those of the slopes below and above
    beta, *_ = np.linalg.lstsq(design * weight[:, None], y * weight, rcond=None)
    assert found.coefficients == pytest.approx(beta, abs=0.1)
    assert found.knot == pytest.approx(0.0, abs=1e-9)
    assert np.abs(found.score - truth).max() < 2
    falls = scale_map(s, variances, shared, anchors, 50 - 4 * x + 10 * np.maximum(x, 0.0) + rng.normal(size=21))
    assert len(falls.coefficients) == 2
    few = np.arange(0, 41, 4)
    assert len(scale_map(s, *equal_errors(41, few, 0.001), few, truth[few]).coefficients) == 2


def test_a_bend_shows_by_chance_as_often_as_promised():
    rng, found = np.random.default_rng(7), []
    for _ in range(400):
        s = rng.normal(size=30)
        anchors = np.arange(20)
        y = 50 + 10 * s[anchors] + 3 * rng.normal(size=20)
        found.append(len(scale_map(s, *equal_errors(30, anchors, 0.001), anchors, y).coefficients) == 3)
    assert 0 < np.mean(found) < 0.03  # 1% by design, with a standard error of 0.5%


def test_an_anchor_without_which_there_is_no_slope_keeps_its_score():
    s, anchors = np.array([0.0, 0.0, 0.0, 1.0, 2.0]), np.arange(4)
    found = scale_map(s, *equal_errors(5, anchors), anchors, np.array([50.0, 51.0, 49.0, 60.0]))
    assert found.score[3] == pytest.approx(60)
    assert np.isnan(found.std[3])
    assert np.isfinite(found.std[[0, 1, 2, 4]]).all()
    assert found.score[4] == pytest.approx(70)


def test_contexts_have_maps_of_their_own():
    rows = [
        {"context": c, "first": f"t{i}", "second": f"t{j}", "p": p}
        for c in ("x", "y", "z")
        for i, j, p in COMPARED
        if max(i, j) < 6
    ]
    ranking = comparo.fit(rows)
    given = {("x", f"t{k}"): 10.0 * k for k in range(4)} | {("y", f"t{k}"): 500 - 3.0 * k**1.1 for k in range(4)}
    found = comparo.on_scale(ranking, given)
    assert found.maps["context"].tolist() == ["x", "y"]
    assert found.maps["slope"][0] < 0 < found.maps["slope"][1]
    assert np.isnan(found.score[nodes_of(ranking, "z")]).all()
    assert any("'z'" in note for note in found.notes)
    assert any("falls" in note and "'x'" in note for note in found.notes)


def test_a_large_context_has_a_scale_from_its_standard_errors():
    rng = np.random.default_rng(7)
    n = 4200
    scores = rng.normal(size=n)
    first = np.concatenate([np.arange(n), rng.integers(n, size=5 * n)])
    second = (first + np.concatenate([np.ones(n, int), rng.integers(1, n, size=5 * n)])) % n
    p = 1 / (1 + np.exp(scores[second] - scores[first]))
    ranking = comparo.fit(comparo.Comparisons.from_columns(first, second, p))
    given = {k: 50 + 10 * scores[k] for k in range(20)}
    found = comparo.on_scale(ranking, given, "A>=60, B>=50, C")
    assert np.corrcoef(found.score, scores[ranking.items])[0, 1] > 0.99
    assert found.probability.sum(axis=1) == pytest.approx(np.ones(n))


def test_probabilities_of_grades_follow_from_the_predictive_distribution(ranking):
    given = known(range(0, 12, 2))
    found = comparo.on_scale(ranking, given, "A>=70, B>=55, C>=45, D")
    assert found.grades == ("A", "B", "C", "D")
    assert found.probability.sum(axis=1) == pytest.approx(np.ones(12))
    other = np.isnan(found.anchor)
    error = (found.high - found.low)[other] / 2 / stats.t.ppf(0.975, 4)
    top = stats.t.sf((70 - found.score[other]) / error, 4)
    assert found.probability[other, 0] == pytest.approx(top)
    for score, grade in zip(found.score, found.grade, strict=True):
        assert grade == ("A" if score >= 70 else "B" if score >= 55 else "C" if score >= 45 else "D")
    for grade, near, chance in zip(found.grade, found.near, found.probability, strict=True):
        own = chance["ABCD".index(grade)]
        others = [each for name, each in zip("ABCD", chance, strict=True) if name != grade]
        assert (near != "") == (max(others) >= own - 0.2)


def test_shares_are_those_of_the_ranks(ranking):
    found = comparo.on_scale(ranking, grades="A:25%, B:50%, C")
    table = found.to_columns()
    assert table["grade"].tolist() == ["A"] * 3 + ["B"] * 6 + ["C"] * 3
    assert table["p_A"] == pytest.approx(ranking.top(3)["probability"])
    assert table["p_A"] + table["p_B"] == pytest.approx(ranking.top(9)["probability"])
    assert "scaled" not in table
    assert set(comparo.on_scale(ranking, grades="A:100%").grade) == {"A"}


@pytest.mark.parametrize(
    ("text", "place"),
    [("A>=x, B>=5", "'A>=x'"), ("A>=5, B>=6", "lower"), ("A>=5, B:10%", "'B:10%'"), ("A:60%, B:50%", "100%"),
     ("A", "'A'"), ("A>=5, A>=4", "twice"), ("A:10", "'A:10'"), ("A>=5%", "'A>=5%'"), (">=5", "'>=5'"), ("A>=5,", "''"),
     ("A:0%", "above 0%"), ("A>=nan, B>=5", "'A>=nan'"), ("below B>=5, B>=4", "twice")],
)  # fmt: skip
def test_grades_that_cannot_be_read_are_refused(text, place):
    with pytest.raises(ValueError, match=place):
        Grading.of(text)


def test_anchors_that_make_no_scale_are_refused(ranking):
    for given in ({}, {"t01": 5.0}, {"t01": 5.0, "t02": 5.0}):
        with pytest.raises(ValueError, match="anchors"):
            comparo.on_scale(ranking, given)
    with pytest.raises(ValueError, match="anchors"):
        comparo.on_scale(ranking, grades="A>=3")
    with pytest.raises(ValueError, match="'t01'"):
        comparo.on_scale(ranking, {"t01": float("nan"), "t02": 4.0})
    with pytest.raises(KeyError, match="nobody"):
        comparo.on_scale(ranking, {"nobody": 3.0, "t01": 4.0})


def written(folder):
    rows = [("first", "second", "p"), *((f"t{i:02}", f"t{j:02}", p) for i, j, p in COMPARED)]
    (folder / "pairs.csv").write_text("".join(f"{a},{b},{c}\n" for a, b, c in rows))
    lines = [f"{name},{value}\n" for name, value in known(range(0, 12, 2)).items()]
    (folder / "anchors.csv").write_text("".join(["id,score\n", *lines, "t01,\n"]))


def test_the_command_prints_scores_and_grades(run, tmp_path):
    written(tmp_path)
    asked = ["fit", "pairs.csv", "--anchors", "anchors.csv", "--grades", "A>=60, B>=50, C"]
    rows = list(csv.DictReader(io.StringIO(run(tmp_path, [*asked, "--format", "csv"]).stdout)))
    found = comparo.on_scale(comparo.fit(str(tmp_path / "pairs.csv")), known(range(0, 12, 2)), "A>=60, B>=50, C")
    assert [float(row["scaled"]) for row in rows] == pytest.approx(found.to_columns()["scaled"])
    assert [row["grade"] for row in rows] == found.to_columns()["grade"].tolist()
    document = json.loads(run(tmp_path, [*asked, "--format", "json", "--top", "2"]).stdout)
    assert document["scale"]["maps"][0]["anchors"] == 6
    assert [row["p_A"] for row in document["ranking"]] == pytest.approx(found.to_columns()["p_A"][:2])
    assert "scaled_low" in run(tmp_path, asked).stdout
    shares = run(tmp_path, ["fit", "pairs.csv", "--grades", "A:50%, B"]).stdout
    assert "p_B" in shares
    assert "scaled" not in shares


@pytest.mark.parametrize(
    ("text", "place"),
    [("id,score\nt00,5\nt99,6\n", "row 2"), ("id,score\nt00,5\nt01,six\n", "row 2"), ("name,score\nt00,5\n", "'id'"),
     ("id,score\nt00,5\nt00,6\n", "row 2"), ("id,note\nt00,5\n", "'score'"), ("id,score\nt00,5\n", "--anchors")],
)  # fmt: skip
def test_the_command_names_the_place_of_bad_anchors(run, tmp_path, text, place):
    written(tmp_path)
    (tmp_path / "anchors.csv").write_text(text)
    said = run(tmp_path, ["fit", "pairs.csv", "--anchors", "anchors.csv"])
    assert said.returncode
    assert place in said.stderr
    assert not said.stdout


def test_rank_takes_anchors_from_a_column(run, tmp_path):
    rows = [{"id": f"t{k}", "text": f"Story {k}."} | ({"anchor": 50 + 7 * k} if k < 5 else {}) for k in range(10)]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["rank", "texts.jsonl", "--criterion", "better", "--judge", "simulated/soft", "--out", "run"]
    document = json.loads(run(tmp_path, [*asked, "--format", "json"]).stdout)
    assert {row["item"]: row["anchor"] for row in document["ranking"] if row["anchor"] is not None} == {
        row["id"]: row["anchor"] for row in rows if "anchor" in row
    }
    assert document["scale"]["maps"][0]["anchors"] == 5
    again = json.loads(run(tmp_path, ["fit", "run", "--anchors", "texts.jsonl", "--format", "json"]).stdout)
    assert again["scale"]["maps"][0]["anchors"] == 5
    stored = json.loads(run(tmp_path, ["fit", "run", "--format", "json"]).stdout)
    assert stored["scale"] == again["scale"]
    more = [*rows, {"id": "t10", "text": "Story 10."}, {"id": "t11", "text": "Story 11.", "anchor": 90}]
    path.write_text("".join(json.dumps(row) + "\n" for row in more[10:]))
    grown = json.loads(run(tmp_path, [*asked, "--format", "json"]).stdout)
    assert grown["scale"]["maps"][0]["anchors"] == 6
    assert 'id="grades"' in (tmp_path / "run" / "report.html").read_text()
    path.write_text("".join(json.dumps(row | {"anchor": 3 if row["id"] == "t1" else None}) + "\n" for row in rows))
    said = run(tmp_path, [*asked, "--out", "other"])
    assert said.returncode
    assert "anchor" in said.stderr
    assert not (tmp_path / "other").exists()


def test_a_boundary_text_sets_a_grade(ranking):
    found = comparo.on_scale(ranking, grades="A>='t03', B>=t08, C")
    upper, lower = ranking["t03"].score, ranking["t08"].score
    assert found.grade.tolist() == ["A" if s >= upper else "B" if s >= lower else "C" for s in ranking.scores]
    assert found.probability.sum(axis=1) == pytest.approx(np.ones(12))
    above = [ranking.probability(item, "t03") for item in ranking.items]
    assert found.probability[:, 0] == pytest.approx(above, abs=0.02)
    assert found.probability[ranking.items == "t03", 0] == pytest.approx(0.5)
    assert "scaled" not in found.to_columns()
    with pytest.raises(ValueError, match="'nobody'"):
        comparo.on_scale(ranking, grades="A>=nobody, B")
    with pytest.raises(ValueError, match="'t08' and 't03'"):
        comparo.on_scale(ranking, grades="A>=t08, B>=t03, C")


def test_estimates_without_a_prior_are_shrunk_beside_a_boundary():
    plain = comparo.fit([(i, j, float(p > 0.5)) for i, j, p in COMPARED[::3]], "poe-bt")
    probability = comparo.on_scale(plain, grades="A>='5', B").probability[:, 0]
    raw = np.array([plain.probability(item, 5) for item in plain.items])
    assert np.all(np.abs(probability - 0.5) <= np.abs(raw - 0.5) + 0.05)
    assert np.abs(probability - 0.5).mean() < np.abs(raw - 0.5).mean()


def test_grades_by_boundary_texts_do_not_depend_on_where_the_scale_has_its_zero():
    plain = comparo.fit([(i, j, float(p > 0.5)) for i, j, p in COMPARED[::3]], "poe-bt")
    found, moved = (
        comparo.on_scale(each, grades="A>='5', B>='8', C") for each in (plain, replace(plain, scores=plain.scores + 3))
    )
    assert moved.grade.tolist() == found.grade.tolist()
    assert moved.probability == pytest.approx(found.probability, abs=1e-9)


def test_feedback_is_that_of_the_text_in_its_context():
    rows = [{"context": c, "first": "a", "second": "b", "p": 0.8} for c in (1, 2)]
    remarks = {("1", "a"): "Clear.", ("2", "a"): "Too long.", ("1", "b"): "Short."}
    listed = comparo.on_scale(comparo.fit(rows, "poe-bt"), grades="A:50%, B").class_list(remarks)
    told = dict(zip(zip(listed["context"], listed["text"], strict=True), listed["feedback"], strict=True))
    assert told == {(1, "a"): "Clear.", (2, "a"): "Too long.", (1, "b"): "Short.", (2, "b"): ""}


def test_each_context_needs_its_own_boundary_text():
    rows = [
        {"context": c, "first": f"{c}{i}", "second": f"{c}{j}", "p": 0.8} for c in "xy" for i in (1, 2) for j in (3,)
    ]
    found = comparo.on_scale(comparo.fit(rows), grades="A>=x3, B")
    assert found.grade[found.ranking.context == "y"].tolist() == [""] * 3
    assert np.isnan(found.probability[found.ranking.context == "y"]).all()
    assert "" not in found.grade[found.ranking.context == "x"]
    assert any("'y'" in note for note in found.notes)


def test_a_class_list_is_written_as_a_workbook_and_never_over_its_input(run, tmp_path):
    written(tmp_path)
    asked = ["fit", "pairs.csv", "--anchors", "anchors.csv", "--grades", "A>=60, B>=50, C", "--report"]
    assert run(tmp_path, [*asked, "list.xlsx"]).returncode == 0
    table = read_columns(tmp_path / "list.xlsx").columns
    scaled = comparo.on_scale(comparo.fit(str(tmp_path / "pairs.csv")), known(range(0, 12, 2)), "A>=60, B>=50, C")
    listed = scaled.class_list()
    assert list(table) == list(listed)
    assert list(table["grade"]) == listed["grade"].tolist()
    assert np.array(table["score"], dtype=float) == pytest.approx(listed["score"])
    before = (tmp_path / "pairs.csv").read_text()
    assert run(tmp_path, [*asked, "pairs.csv"]).returncode
    assert (tmp_path / "pairs.csv").read_text() == before


@pytest.mark.statistical
def test_intervals_cover_and_probabilities_hold_where_the_errors_are_known():
    """True scores are posterior draws, and anchors scatter around the map: nothing is approximate but τ²."""
    rng, held, chances, so = np.random.default_rng(8), [], [], []
    for _ in range(400):
        truth, variances = rng.normal(size=40), rng.uniform(0.05, 0.3, size=40)
        s = truth / (1 + variances) + np.sqrt(variances) / (1 + variances) * rng.normal(size=40)
        y, anchors = 50 + 10 * truth + 3 * rng.normal(size=40), rng.choice(40, 20, replace=False)
        left = variances / (1 + variances)
        found = scale_map(s, left, np.diag(left)[:, anchors], anchors, y[anchors])
        other = np.setdiff1d(np.arange(40), anchors)
        reach = found.std * stats.t.ppf(0.975, found.degrees)
        held.append(np.mean((np.abs(y - found.score) <= reach)[other]))
        _, chance = Grading.of("A>=55, B>=45, C").by_cuts(found.score[other], found.std[other], found.degrees[other])
        chances.append(chance.ravel())
        so.append(np.column_stack([y >= 55, (y < 55) & (y >= 45), y < 45])[other].ravel())
    assert 0.94 <= np.mean(held) <= 0.96
    for _, mean, share in benchmark.bins(np.concatenate(chances), np.concatenate(so)):
        assert share == pytest.approx(mean, abs=0.03)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("anchors", [10, 20, 30])
def test_intervals_cover_the_easiness_of_excerpts(anchors):
    rng, score, found = np.random.default_rng(anchors), benchmark.easiness(), []
    for _ in range(100):
        ranking, truth = benchmark.draw(score, 100, 20, "mixed", rng)
        chosen = rng.choice(100, anchors, replace=False)
        found.append((comparo.on_scale(ranking, {ranking.items[node]: truth[node] for node in chosen}), truth))
    covered, _, misfit = benchmark.coverage(found)
    assert 0.93 <= covered <= 0.97
    assert misfit <= 0.12
