"""nDCG and recall of the best texts: against naive definitions, in studies and reports, and as TREC files."""

from itertools import pairwise, permutations

import numpy as np
import pytest

from comparo import Comparisons, Items, export_run, fit, load_judge, rank
from comparo.export import trec_columns
from comparo.metrics import ndcg, recall
from comparo.report.measures import agreements
from comparo.report.record import read_record
from comparo.studies.recorded import Recorded
from comparo.studies.sweep import correlate


def naive(scores, truth, k):
    """Both measures, as means over all orders that sort the scores."""
    texts = range(len(scores))
    orders = [o for o in permutations(texts) if all(scores[a] >= scores[b] for a, b in pairwise(o))]
    gain, border = [t - min(truth) for t in truth], sorted(truth, reverse=True)[min(k, len(truth)) - 1]

    def dcg(order):
        return sum(gain[text] / np.log2(place + 2) for place, text in enumerate(order[:k]))

    best = dcg(sorted(texts, key=lambda text: -truth[text]))
    found = [sum(truth[text] >= border for text in order[:k]) / k for order in orders]
    return np.mean([dcg(order) for order in orders]) / best if best else np.nan, np.mean(found)


@pytest.mark.parametrize("k", [1, 2, 4, 5, 9])
def test_both_are_the_means_over_the_orders_of_ties(k):
    rng = np.random.default_rng(k)
    scores, truth = rng.integers(0, 4, (30, 5)).astype(float), rng.integers(-2, 3, (30, 5)).astype(float)
    truth[0] = 1.0
    expected = np.array([naive(a.tolist(), b.tolist(), k) for a, b in zip(scores, truth, strict=True)])
    assert np.allclose(ndcg(scores, truth, k), expected[:, 0], equal_nan=True)
    assert np.isnan(ndcg(scores, truth, k)[0])
    share = recall(scores, truth, k)
    assert np.all(np.isnan(share)) if k >= 5 else np.allclose(share, expected[:, 1])


def test_the_values_are_those_of_trec_eval():
    """ir_measures 0.4.3 with pytrec_eval-terrier 0.5.11 gave nDCG@4 and P(rel=3)@4 of this run."""
    order = [6, 1, 11, 9]
    scores = np.zeros(12)
    scores[order] = [4.0, 3.0, 2.0, 1.0]
    truth = np.array([[(7 * text + query) % 5 for text in range(12)] for query in range(2)], dtype=float)
    assert ndcg(np.tile(scores, (2, 1)), truth, 4) == pytest.approx([0.5961828047396356, 0.8711586974239691])
    assert recall(np.tile(scores, (2, 1)), truth, 4) == pytest.approx([0.25, 1.0])


def test_a_study_leaves_small_contexts_out_of_recall():
    sizes = [12, 4]
    rows = [{"id": f"{c}-{i}", "text": "…", "context_id": c, "score": i} for c in "ab" for i in range(sizes[c == "b"])]
    pairs = [(a["id"], b["id"], 0.4, a["context_id"]) for a, b in pairwise(rows) if a["context_id"] == b["context_id"]]
    names = ("first", "second", "p", "context")
    data = Comparisons.from_rows([dict(zip(names, pair, strict=True)) for pair in pairs])
    recorded = Recorded.of(data, Items.of(rows), "score")
    scores = np.stack([recorded.human, -recorded.human])
    cell = correlate(recorded, scores)
    large, small = np.arange(12.0), np.arange(4.0)
    assert cell.recall == pytest.approx([1.0, float(recall(-large, large))])
    assert cell.ndcg == pytest.approx([1.0, np.mean([ndcg(-large, large), ndcg(-small, small)])])
    alone = Recorded.of(data.take(data.contexts[data.context] == "b"), Items.of(rows[12:]), "score")
    only = correlate(alone, small[None])
    assert np.isnan(only.recall).all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("gain")
    rows = [
        {"id": f"d{i}", "text": f"Text {i} of {q}.", "context_id": f"q{q}", "score": (7 * i + q) % 5}
        for q in range(2)
        for i in range(12)
    ]
    judge = load_judge("simulated/soft", scores={(row["context_id"], row["id"]): row["score"] for row in rows})
    rank(rows, "better", judge=judge, budget="3n", out=out / "run", cache="off")
    return out


@pytest.fixture
def comparo(run, tmp_path):
    return lambda *arguments: run(tmp_path, arguments)


def test_a_trec_run_has_each_query_best_first(folder, comparo, tmp_path):
    whole = export_run(folder / "run", tmp_path / "a.trec")
    lines = [line.split(" ") for line in whole.path.read_text().splitlines()]
    ranking = read_record(folder / "run").ranking
    assert whole.rows == {"texts": len(lines)} == {"texts": 24}
    assert {(line[1], line[5]) for line in lines} == {("Q0", "comparo")}
    for query in ("q0", "q1"):
        own = [line for line in lines if line[0] == query]
        assert [int(line[3]) for line in own] == list(range(1, 13))
        found = {line[2]: float(line[4]) for line in own}
        assert found == {item: float(ranking.scores[ranking.solution.numbers[query, item]]) for item in found}
        assert list(found.values()) == sorted(found.values(), reverse=True)
    done = comparo("export", folder / "run", "--format", "trec", "--top", 3)
    assert done.returncode == 0, done.stderr
    top = (tmp_path / "run.trec").read_text().splitlines()
    assert top == [" ".join(line) for line in lines if int(line[3]) <= 3]


@pytest.mark.parametrize("name", ["a b", "a\tb", "a\nb", "a\u2003b"])
def test_a_trec_run_refuses_names_with_white_space(name):
    with pytest.raises(ValueError, match="white space"):
        trec_columns(fit([(name, "c", 0.7)], "win-ratio"))
    rows = [{"first": "c", "second": "d", "p": 0.7, "context": name}]
    with pytest.raises(ValueError, match="context_id"):
        trec_columns(fit(Comparisons.from_rows(rows), "win-ratio"))


@pytest.mark.parametrize(
    "words", [["--format", "csv", "--top", 3], ["--format", "trec", "--texts"], ["--format", "trec", "--out", "a.csv"]]
)
def test_options_of_other_formats_are_refused(folder, comparo, words):
    done = comparo("export", folder / "run", *words)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_the_report_has_both(folder):
    [found] = agreements(read_record(folder / "run"), shared=True)
    record = read_record(folder / "run")
    human = next(iter(record.people.values()))
    pairs = [(record.ranking.scores[nodes], human[nodes]) for nodes in record.contexts]
    assert found.best == 10
    assert found.ndcg == pytest.approx(np.mean([ndcg(*pair) for pair in pairs]))
    assert found.recall == pytest.approx(np.mean([recall(*pair) for pair in pairs]))
