"""Two runs on one scale: covariances, drift of common texts, and the command."""

import csv
import io
import json
from functools import partial

import numpy as np
import pytest

import comparo
from benchmarks import grades as benchmark
from comparo.data.comparisons import Comparisons
from comparo.methods import quiet_fit
from comparo.ranking.ranks import components
from comparo.run.linking import link

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
        assert "link" in refused.stderr
        assert refused.returncode == 2


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
