"""comparo export: comparisons and preference pairs, read back by other libraries."""

import csv
import gzip
import json
import math
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy.special import logit

from comparo import Comparisons, ComparisonsError, export_run, load_judge, rank
from comparo.export import preferred_pairs
from inside import DATABASE, open_database, quiet_fit, read_judgements, read_record
from servers import Api, prefers
from stored import ROWS, one_voice, two_voices

KEY = "sk-a-key-that-must-appear-nowhere"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("runs")
    two_voices(found / "two", control=["price"])
    one_voice(found / "one", rows={row["id"]: row["text"] for row in ROWS[:6]}, budget="6n", orders="one")
    return found


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl", "jsonl.gz"])
def test_the_comparisons_are_fitted_as_the_folder_is(comparo, folder, tmp_path, ending):
    done = comparo("export", folder / "two", "--out", f"found.{ending}", "--texts")
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == (f"found.{ending}\n", "120 comparisons\n")
    whole, again = Comparisons.read(folder / "two"), Comparisons.read(tmp_path / f"found.{ending}")
    assert {name: column.tolist() for name, column in again.to_columns().items()} == {
        name: column.tolist() for name, column in whole.to_columns().items()
    }


def test_every_row_has_its_judge_and_its_texts(folder, tmp_path):
    export_run(folder / "one", tmp_path / "one.jsonl", texts=True)
    rows = [json.loads(line) for line in (tmp_path / "one.jsonl").read_text().splitlines()]
    texts = {row["id"]: row["text"] for row in ROWS[:6]}
    assert len(rows) == len(read_judgements(folder / "one")) > 10
    for row in rows:
        assert (row["first_text"], row["second_text"]) == (texts[row["first"]], texts[row["second"]])
        assert row["judge"] == "simulated/soft"
        assert "context" not in row


def test_nothing_is_overwritten_without_force(comparo, folder, tmp_path):
    for words in (["--out", "a.csv"], ["--format", "dpo", "--out", "a.jsonl"]):
        first = comparo("export", folder / "two", *words)
        assert first.returncode == 0, first.stderr
        path = tmp_path / words[-1]
        path.write_bytes(b"mine")
        again = comparo("export", folder / "two", *words)
        assert again.returncode == 2
        assert again.stderr.startswith(f"comparo: {words[-1]} ")
        assert all(flag in again.stderr for flag in ("--out", "--force"))
        assert path.read_bytes() == b"mine"
        assert comparo("export", folder / "two", *words, "--force").returncode == 0
        assert path.read_bytes() != b"mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "csv", "--out", "a.parquet"], "a.parquet: "),
        (["--format", "dpo", "--texts"], "--texts belongs"),
        (["--dpo-prompt", "Write."], "--format dpo"),
        (["--out", "nowhere/a.csv"], "the folder nowhere "),
    ],
)
def test_mistakes_are_one_line(comparo, folder, arguments, message):
    done = comparo("export", folder / "two", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_texts_without_a_context_need_a_prompt(comparo, folder, tmp_path):
    done = comparo("export", folder / "one", "--format", "dpo")
    assert done.returncode == 2
    assert "--dpo-prompt" in done.stderr
    done = comparo("export", folder / "one", "--format", "dpo", "--dpo-prompt", "Write.")
    assert done.returncode == 0, done.stderr
    row = json.loads((tmp_path / "one-dpo.jsonl").read_text().splitlines()[0])
    assert row["prompt"] == "Write."


def test_a_pair_is_the_better_text_by_the_scores_with_their_difference(folder, tmp_path):
    done = export_run(folder / "two", tmp_path / "a.jsonl", format="dpo", prompt="Q: {context}")
    record = read_record(folder / "two")
    ranking = record.ranking
    texts = {(row["context_id"], row["id"]): row["text"] for row in ROWS}
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert done.rows == {"pairs": len(rows)}
    judged = {(one.question.context, frozenset((one.question.first, one.question.second))) for one in record.answered}
    found = {(row["context"], frozenset((row["chosen_id"], row["rejected_id"]))) for row in rows}
    assert found <= judged
    assert len(found) == len(rows)
    for row in rows:
        ends = [(row["context"], row[name]) for name in ("chosen_id", "rejected_id")]
        assert (row["chosen"], row["rejected"]) == tuple(texts[end] for end in ends)
        assert row["prompt"] == f"Q: What is {row['context']}?"
        score = [float(ranking.scores[ranking.graph.labels(ranking.comparisons).index(end)]) for end in ends]
        assert row["margin"] == pytest.approx(score[0] - score[1])
        assert row["margin"] > 0
        assert row["p"] > 0.5


@given(some.integers(0, 10_000))
def test_the_merging_of_pairs_is_that_of_a_naive_one(seed):
    """Pairs, mean answers and counts by dictionaries, one answer after the other."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(rng.integers(3, 40)):
        first, second = rng.choice(4, 2, replace=False).tolist()
        p = float(rng.choice([0.0, 0.25, 0.5, 0.75, 1.0]))
        rows.append(
            {"first": first, "second": second, "p": p, "context": "xy"[rng.integers(2)], "judge": rng.integers(2)}
        )
    data = Comparisons.from_rows(rows)
    ranking = quiet_fit(rows, "avg-prob")
    score = dict(zip(ranking.graph.labels(ranking.comparisons), ranking.scores.tolist(), strict=True))
    said: dict = {}
    for row in rows:
        pair = tuple(sorted((row["first"], row["second"])))
        is_first = row["first"] == pair[0]
        of_voice = said.setdefault((row["context"], pair), {}).setdefault(row["judge"], {True: [], False: []})
        of_voice[is_first].append(row["p"] if is_first else 1 - row["p"])
    expected, left = {}, [0, 0]
    for (context, (low, high)), voices in said.items():
        mean = np.mean([np.mean([np.mean(ps) for ps in orders.values() if ps]) for orders in voices.values()])
        margin = score[context, low] - score[context, high]
        if math.isclose(mean, 0.5) or margin == 0:
            left[0] += 1
        elif (mean > 0.5) != (margin > 0):
            left[1] += 1
        else:
            ends = (low, high) if margin > 0 else (high, low)
            count = sum(len(ps) for orders in voices.values() for ps in orders.values())
            expected[context, *ends] = (abs(margin), mean if margin > 0 else 1 - mean, count)
    found = preferred_pairs(ranking, data)
    labels = ranking.graph.labels(ranking.comparisons)
    ends = [(*labels[i], labels[j][1]) for i, j in zip(found.chosen, found.rejected, strict=True)]
    assert [found.ties, found.contradicted] == left
    assert set(ends) == set(expected)
    for key, *values in zip(ends, found.margin, found.p, found.answers, strict=True):
        assert values == pytest.approx(expected[key])


def test_numbers_and_text_as_ids_are_no_column_of_parquet(tmp_path):
    texts = [{"id": name, "text": f"Text {name}."} for name in (7, "7", "x")]
    rank(texts, "better", judge=lambda *_: 0.7, out=tmp_path / "run")
    with pytest.raises(ComparisonsError, match="mixed types"):
        export_run(tmp_path / "run", tmp_path / "a.parquet")


def test_failed_answers_are_left_out_and_counted_and_no_key_is_written(comparo, tmp_path):
    rows = [{"id": f"item {k}", "text": f"This is number {k}.", "context": "Why?"} for k in range(4)]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with Api(prefers(0.4)) as api:
        base = api.url.replace("://", f"://me:{KEY}@")
        judge = ("--judge", "openai/any", "--base-url", base, "-o", "concurrency=1", "-o", "retries=0")
        done = comparo("rank", "items.jsonl", "--criterion", "better", *judge, "--out", "run", OPENAI_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
    with closing(open_database(str(tmp_path / "run" / DATABASE))) as connection, connection:
        connection.execute("UPDATE judgements SET error = 'lost', p = NULL WHERE number IN (1, 2)")
    assert sum(one.failed for one in read_judgements(tmp_path / "run")) == 2
    for name in ("a.csv", "a.jsonl.gz", "a.parquet", "dpo"):
        words = ["--format", name] if "." not in name else ["--out", name]
        done = comparo("export", "run", *words)
        assert done.returncode == 0, done.stderr
        assert "2 failed" in done.stderr or name == "dpo"
    with (tmp_path / "a.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 10
    written = [path for path in tmp_path.rglob("*") if path.is_file() and (tmp_path / "run") not in path.parents]
    assert len(written) == 6  # the cache among them
    for path in written:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert KEY.encode() not in content, path


def test_margins_know_the_true_differences_better_than_the_answers_do():
    """Five simulated runs: which text is better in all pairs that were judged, and by how much (docs/runs.md)."""
    right, near, kept = [], [], []
    for seed in range(5):
        truth = dict(enumerate(np.random.default_rng(seed).normal(0, 1.5, 20).tolist()))
        judge = load_judge("simulated/soft", scores=truth, noise=1.5, seed=seed)
        ranking = rank({name: f"Text {name}." for name in truth}, "better", judge=judge, budget="8n")
        pairs = ranking.comparisons.merge_orders()
        score = dict(zip(ranking.items.tolist(), ranking.scores.tolist(), strict=True))
        true, margin = (
            np.array([of[i] - of[j] for i, j in zip(pairs.items[pairs.first], pairs.items[pairs.second], strict=True)])
            for of in (truth, score)
        )
        said = logit(pairs.p)
        right.append([np.mean(true * guess > 0) for guess in (margin, said)])
        near.append([np.corrcoef(true, guess)[0, 1] for guess in (margin, said)])
        found = preferred_pairs(ranking, ranking.comparisons)
        ends = zip(ranking.items[found.chosen], ranking.items[found.rejected], strict=True)
        kept.append(np.mean([truth[i] > truth[j] for i, j in ends]))
    assert np.mean(right, axis=0) == pytest.approx([0.93, 0.84], abs=0.01)
    assert np.mean(near, axis=0) == pytest.approx([0.96, 0.85], abs=0.01)
    assert np.mean(kept) == pytest.approx(0.94, abs=0.01)
