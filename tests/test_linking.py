"""Two runs on one scale: covariances, drift of common texts, and the command."""

import csv
import io
import json
import re
import shutil
from functools import partial

import numpy as np
import pytest

import comparo
from benchmarks import grades as benchmark
from comparo import Comparisons, WrongFolderError
from inside import Simulated, Storage, components, facts, link, list_runs, quiet_fit, read_judgements, read_record

SCORE = np.linspace(-15, 15, 30)[np.random.default_rng(3).permutation(30)]


def halves(common, votes=20, moved=0.0, seed=0):
    """Decisions about texts 0 to 14, and about 15 to 29 with the first `common` texts, of which one has moved."""
    rng, other = np.random.default_rng(seed), SCORE.copy()
    other[0] += moved
    second = np.concatenate([np.arange(common), np.arange(15, 30)])
    return benchmark.decided(np.arange(15), SCORE, votes, rng), benchmark.decided(second, other, votes, rng)


def linked(old, new, method="poe-bt"):
    data = map(Comparisons.from_rows, (new, old, old + new))
    return link(*data, partial(quiet_fit, method=method), has_groups=method == "mixed")


def test_scores_are_those_of_the_joint_fit_with_the_mean_of_the_other_run_at_zero():
    old, new = halves(6)
    found, joint = linked(old, new), comparo.fit(old + new, "poe-bt")
    is_old = found.items < 15
    assert np.mean(found.scores[is_old]) == pytest.approx(0.0, abs=1e-9)
    assert found.scores - joint.scores == pytest.approx(np.full(30, found.scores[0] - joint.scores[0]))
    assert found.grown.new.tolist() == (~is_old).tolist()


@pytest.mark.parametrize("method", ["poe-bt", "mixed"])
def test_standard_errors_are_those_of_differences_from_the_mean_of_the_other_run(method):
    found = linked(*halves(6), method)
    (_, block), *_ = components(found.covariance.around)
    away = np.eye(30) - np.where(found.items < 15, 1 / 15, 0.0)
    assert found.std**2 == pytest.approx(np.diagonal(away @ block @ away.T))
    assert found.covariance.difference(3, 20) == pytest.approx(found.covariance.around.difference(3, 20))
    assert np.mean(found.std[found.items >= 15]) > np.mean(found.std[found.items < 15])


def test_the_error_of_the_link_is_that_of_the_difference_of_the_means_of_both_runs():
    found = linked(*halves(6))
    (_, block), *_ = components(found.covariance.around)
    weight = np.where(found.items < 15, -1 / 15, 1 / 15)
    assert found.grown.link.error**2 == pytest.approx(weight @ block @ weight)


def test_drift_is_what_leaving_a_text_out_of_the_link_shows():
    old, new = halves(6)
    found, one, other = linked(old, new).grown.link, comparo.fit(new, "poe-bt"), comparo.fit(old, "poe-bt")
    nodes = [[list(each.items).index(k) for k in range(6)] for each in (one, other)]
    (_, a), (_, b) = (next(components(each.covariance)) for each in (one, other))
    omega = a[np.ix_(nodes[0], nodes[0])] + b[np.ix_(nodes[1], nodes[1])]
    d = one.scores[nodes[0]] - other.scores[nodes[1]]
    for place, item in enumerate(found.common["item"].tolist()):
        k, rest = item, np.delete(np.arange(6), item)
        inverse = np.linalg.inv(omega[np.ix_(rest, rest)])
        pull = omega[k, rest] @ inverse
        total, short = inverse.sum(), 1 - pull.sum()
        shift = inverse.sum(axis=0) @ d[rest] / total
        moved = d[k] - shift - pull @ (d[rest] - shift)
        variance = omega[k, k] - pull @ omega[rest, k] + short**2 / total
        assert found.common["moved"][place] == pytest.approx(moved, rel=1e-5)
        assert found.common["z"][place] == pytest.approx(moved / np.sqrt(variance), rel=1e-5)


def test_a_common_text_that_moved_is_named_and_others_are_not():
    still, moved = (linked(*halves(8, 80, moved=by)).grown.link for by in (0.0, -25.0))
    assert not still.common["drifted"].any()
    assert not still.notes
    assert moved.common["item"][moved.common["drifted"]].tolist() == [0]
    assert len(moved.notes) == 1


def test_few_common_texts_say_so_and_none_are_refused():
    few = linked(*halves(2)).grown.link
    assert np.isnan(few.common["z"]).all()
    assert len(few.notes) == 1
    with pytest.raises(comparo.ComparisonsError, match="--link"):
        linked(*halves(0))


def written(folder):
    for name, rows in zip(("last.csv", "this.csv"), halves(6), strict=True):
        lines = [f"t{a},t{b},{p}\n" for a, b, p in rows]
        (folder / name).write_text("".join(["first,second,p\n", *lines]))
    anchors = "".join(f"t{k},{60 + SCORE[k]:.0f}\n" for k in range(0, 15, 2))
    (folder / "anchors.csv").write_text(f"id,score\n{anchors}")


def test_the_command_links_a_run_to_another(run, tmp_path):
    written(tmp_path)
    asked = ["fit", "this.csv", "--link", "last.csv", "--method", "poe-bt"]
    document = json.loads(run(tmp_path, [*asked, "--format", "json"]).stdout)
    found = linked(*halves(6))
    assert {row["item"]: row["score"] for row in document["ranking"]} == pytest.approx(
        {f"t{item}": score for item, score in zip(found.items, found.scores, strict=True)}
    )
    assert document["link"]["error"] == pytest.approx(found.grown.link.error)
    assert {row["item"] for row in document["link"]["common"]} == {f"t{k}" for k in range(6)}
    graded = [*asked, "--anchors", "anchors.csv", "--grades", "A>=65, B>=50, C", "--report", "list.csv"]
    said = run(tmp_path, graded)
    assert "6 common texts" in said.stdout
    rows = list(csv.DictReader(io.StringIO((tmp_path / "list.csv").read_text())))
    assert len(rows) == 30
    assert {*rows[0]} == {"text", "grade", "probability", "near", "score", "low", "high", "rank"}
    assert run(tmp_path, [*asked, "--report", "page.html"]).returncode == 0
    for flags in (["--leaderboard"], ["--powered"], ["--link", "this.csv"], ["--method", "win-ratio"]):
        refused = run(tmp_path, [*asked, *flags])
        assert (refused.returncode, "link" in refused.stderr) == (2, True)


def test_texts_are_common_whether_their_ids_are_numbers_or_text_and_all_answers_count(run, tmp_path):
    old, new = halves(6)
    again = [*new, *(row for row in old if max(row[:2]) < 6)]  # as ana decided before
    lines = [f"{a},{b},{p},ana\n" for a, b, p in old]
    (tmp_path / "last.csv").write_text("".join(["first,second,p,voter\n", *lines]))
    rows = [{"first": int(a), "second": int(b), "p": p, "voter": "ana"} for a, b, p in again]
    (tmp_path / "this.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["fit", "this.jsonl", "--link", "last.csv", "--method", "poe-bt", "--format", "json"]
    document = json.loads(run(tmp_path, asked).stdout)
    assert {row["item"] for row in document["link"]["common"]} == {str(k) for k in range(6)}
    found = linked(old, again)
    assert {row["item"]: row["score"] for row in document["ranking"]} == pytest.approx(
        {str(item): score for item, score in zip(found.items, found.scores, strict=True)}
    )


QUALITY = {f"t{k}": float(value) for k, value in enumerate(np.random.default_rng(5).normal(size=20))}
TEXTS = {name: f"A story about {name}, {'long ' * k}." for k, name in enumerate(QUALITY)}
FIRST, SECOND = ({name: TEXTS[name] for name in part} for part in (list(TEXTS)[:12], list(TEXTS)[12:]))
JUDGE = comparo.load_judge("simulated/soft", scores=QUALITY)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A run of 12 texts, some of them anchors."""
    folder = tmp_path_factory.mktemp("first") / "run"
    rows = [{"id": name, "text": text, "anchor": 60 + 10 * QUALITY[name]} for name, text in FIRST.items()]
    comparo.rank(rows, "better", judge=JUDGE, out=folder)
    return folder


def rank_linked(texts, link, out=None, **how):
    return comparo.rank(texts, "better", **{"judge": JUDGE, "out": Storage(out, link=link)} | how)


def test_a_linked_run_is_the_other_run_grown_in_a_folder_of_its_own(first, tmp_path):
    before = {path.name: path.read_bytes() for path in first.iterdir() if path.is_file()}
    found = rank_linked(SECOND, first, out=tmp_path / "new")
    assert {path.name: path.read_bytes() for path in first.iterdir() if path.is_file()} == before
    shutil.copytree(first, tmp_path / "copy")
    grown = comparo.rank(SECOND, "better", judge=JUDGE, out=tmp_path / "copy")
    assert found.scores.tolist() == grown.scores.tolist()
    assert found.std.tolist() == grown.std.tolist()
    assert grown.grown.link is None
    assert {*found.items[found.grown.new].tolist()} == {*SECOND}
    assert np.mean(found.scores[~found.grown.new]) == pytest.approx(0.0, abs=1e-9)
    asked = read_judgements(tmp_path / "new")[len(read_judgements(first)) :]
    across = {frozenset(one.question.items) for one in asked if len({*one.question.items} & {*FIRST}) == 1}
    assert len(across) >= len(SECOND)
    assert {item for pair in across for item in pair} >= {*SECOND}
    linked_by = {item for one in asked for item in one.question.items} & {*FIRST}
    assert {*found.grown.link.common["item"].tolist()} == linked_by
    assert found.grown.link.error > 0


def test_a_linked_run_continues_is_reported_and_keeps_anchors(first, tmp_path):
    out, first = tmp_path / "new", shutil.copytree(first, tmp_path / "old" / "run")
    whole = rank_linked(SECOND, first)
    with pytest.raises(comparo.JudgeError):
        rank_linked(SECOND, first, out=out, judge=Stopping("soft", QUALITY))
    part = len(read_judgements(out)) - len(read_judgements(first))
    assert 0 < part < 80
    shutil.rmtree(first)  # the new folder has all of it
    again = rank_linked(SECOND, first, out=out)
    assert again.scores.tolist() == whole.scores.tolist()
    record = read_record(out)
    assert record.ranking.scores.tolist() == whole.scores.tolist()
    assert record.ranking.grown.link.error == pytest.approx(whole.grown.link.error)
    assert np.isfinite(record.scaled.score).all()
    assert ("Linked to", first.name) in facts(record)
    assert [one.link for one in list_runs(tmp_path)] == [str(first.resolve())]
    without = comparo.rank(SECOND, "better", judge=JUDGE, out=out)
    assert without.grown.link.error == pytest.approx(whole.grown.link.error)
    with pytest.raises(WrongFolderError, match="linked"):
        rank_linked(SECOND, out, out=out)


class Stopping(Simulated):
    """A judge that ends the run after some answers."""

    def judge(self, questions, prompt=None):
        for place, answer in enumerate(super().judge(questions, prompt)):
            if place == 20:
                raise comparo.JudgeError("the key was withdrawn")
            yield answer


def test_common_texts_keep_their_answers_and_other_texts_are_refused(first, tmp_path):
    some = {name: FIRST[name] for name in list(FIRST)[:3]}
    found = rank_linked(some | SECOND, first, out=tmp_path / "new")
    assert (len(found), np.count_nonzero(found.grown.new)) == (20, 8)
    assert rank_linked(some | SECOND, first, out=tmp_path / "new").scores.tolist() == found.scores.tolist()
    for texts, how, place in (
        ({"t0": "Another."} | SECOND, {}, "'t0'"),
        (FIRST, {}, "nothing to link"),
        ([{"id": k, "text": k, "context_id": "c"} for k in "ab"], {}, "context 'c'"),
        (SECOND, {"judge": comparo.load_judge("simulated/hard", scores=QUALITY)}, "simulated/hard"),
        (SECOND, {"method": "avg-prob"}, "avg-prob"),
        (SECOND, {"link": tmp_path / "nowhere"}, "nowhere"),
        (SECOND, {"lineup": "auto"}, "`link`"),
    ):
        with pytest.raises((ValueError, WrongFolderError), match=place):
            rank_linked(texts, **{"link": first} | how, out=tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_a_text_that_the_judge_sees_otherwise_now_is_named(tmp_path):
    """The judge of the second run has another score of one text, under the same name and settings."""
    moved = Moved("soft", QUALITY, noise=0.3)
    comparo.rank(FIRST, "better", judge=Moved("soft", QUALITY, noise=0.3), out=tmp_path / "run", budget="20n")
    still = rank_linked(SECOND, tmp_path / "run", judge=Moved("soft", QUALITY, noise=0.3), budget="20n")
    object.__setattr__(moved, "by", 4.0)
    found = rank_linked(SECOND, tmp_path / "run", judge=moved, budget="20n")
    common = found.grown.link.common
    assert common["item"][common["drifted"]].tolist() == ["t3"]
    assert not still.grown.link.common["drifted"].any()
    assert any("'t3'" in note for note in found.notes)


class Moved(Simulated):
    by = 0.0

    def score(self, context, item):
        return super().score(context, item) + self.by * (item == "t3")


def test_rank_links_a_run_by_the_command(run, tmp_path):
    for name, texts in (("old.jsonl", FIRST), ("new.jsonl", SECOND)):
        lines = [json.dumps({"id": key, "text": text}) + "\n" for key, text in texts.items()]
        (tmp_path / name).write_text("".join(lines))
    asked = ["--criterion", "better", "--judge", "simulated/soft", "--quiet"]
    assert run(tmp_path, ["rank", "old.jsonl", *asked, "--out", "old"]).returncode == 0
    linked_run = ["rank", "new.jsonl", *asked, "--link", "old"]
    said = run(tmp_path, [*linked_run, "--dry-run"]).stdout
    assert "8 of 20" in said
    document = json.loads(run(tmp_path, [*linked_run, "--format", "json"]).stdout)
    assert document["link"]["error"] > 0
    assert len(document["growth"]["new"]) == 8
    table = run(tmp_path, linked_run).stdout
    assert re.search(r"Linked by \d+ ", table)
    assert len(list_runs(tmp_path / "comparo-runs")) == 1
    refused = run(tmp_path, ["rank", "new.jsonl", "--criterion", "worse", *asked[2:], "--link", "old"])
    assert (refused.returncode, "--link" in refused.stderr) == (2, True)


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("common", [5, 10, 20])
def test_linked_scores_are_covered(common):
    rng, easiness, held = np.random.default_rng(common), benchmark.easiness(), []
    for _ in range(100):
        score = rng.choice(easiness, 100, replace=False)
        second = np.concatenate([rng.choice(50, common, replace=False), np.arange(50, 100)])
        old, new = (benchmark.decided(nodes, score, 20, rng) for nodes in (np.arange(50), second))
        ranking = linked(old, new)
        truth = benchmark.SHARP * (score - score[:50].mean())[ranking.items] / 10
        held.append(np.mean(((ranking.low <= truth) & (truth <= ranking.high))[ranking.items >= 50]))
    assert 0.93 <= np.mean(held) <= 0.97
