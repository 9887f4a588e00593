"""What people would say, as far as one judge can tell: simulated judges with a known taste, and recorded ones."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, ndtr

from benchmarks.paper.datasets import load_dataset
from benchmarks.yardstick import chosen, judged_and_shared
from comparo import Comparisons, Items, fit, load_judge, rank
from comparo.ranking.consensus import PEOPLE, usual_validity
from comparo.ranking.self_consistency import orders_correlation, text_variance
from comparo.report.data import View
from comparo.report.page import HERE, environment
from inside import (
    Fitting,
    Graph,
    Limits,
    Recorded,
    consensus,
    expected_spearman,
    quiet_fit,
    read_record,
    spearman_within,
    top_probability,
)

DATA = Path(__file__).parents[2] / "shared" / "data"
LABELS = [(f"c{context}", f"s{system}") for context in range(4) for system in range(5)]


def judged_by(seed, k, *, systems=10, contexts=20, rounds=3, hard=False, both=True, alone=2.0, **options):
    """The ranking of a judge of whose own part people share k, and what people say (n,), centred in contexts.

    Systems have the variance 1, and what people say of a text beyond its system has the variance `alone`.
    """
    rng = np.random.default_rng(seed)
    variance = alone / k
    own = np.sqrt(alone) * rng.normal(size=(contexts, systems))
    drawn = rng.normal(size=systems)
    people = (drawn - np.mean(drawn)) / np.std(drawn) + own
    scores = people + np.sqrt((1 - k) * variance) * rng.normal(size=(contexts, systems))
    rows = []
    for context in range(contexts):
        for _ in range(rounds):
            order = rng.permutation(systems)
            for pair in zip(order, np.roll(order, 1), strict=True):
                for i, j in (pair, pair[::-1]) if both else (pair,):
                    p = expit(scores[context, i] - scores[context, j] + 0.5 + (0 if hard else rng.normal()))
                    rows.append((f"s{i}", f"s{j}", float(rng.random() < p) if hard else p, f"c{context}"))
    first, second, p, context = zip(*rows, strict=True)
    data = Comparisons.from_columns(first, second, np.array(p), context=context)
    ranking = quiet_fit(data, bias="joint", prior="estimated", groups="items", **options)
    place = [(int(label[1:]), int(item[1:])) for label, item in ranking.graph.labels(data)]
    return ranking, ranking.graph.centre(np.array([people[where] for where in place]))


def agreement(ranking, people):
    return float(np.mean(spearman_within(ranking.scores, people, ranking.graph.position, ranking.graph.contexts)))


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("k", "options"),
    [
        (0.3, {}),
        (0.6, {}),
        (0.2, {"rounds": 1}),
        (0.3, {"contexts": 8}),
        (0.3, {"both": False}),
        (0.3, {"hard": True, "rounds": 6}),
        (0.3, {"alone": PEOPLE}),
    ],
)
def test_intervals_cover_what_people_say_and_the_order_is_nearer_to_theirs(k, options):
    covered, probable, right, gain = [], [], [], []
    for seed in range(16):
        judged, people = judged_by(seed, k, **options)
        found = consensus(judged, k)
        covered.append(np.mean((found.low < people) & (people < found.high)))
        gain.append(agreement(found, people) - agreement(judged, people))
        for node in np.flatnonzero(np.diff(judged.graph.context) == 0).tolist():
            apart = found.scores[node] - found.scores[node + 1]
            probable.append(ndtr(apart / np.sqrt(found.covariance.difference(node, node + 1))))
            right.append(people[node] > people[node + 1])
    assert 0.93 <= np.mean(covered) <= 0.97
    assert np.mean(gain) > 0
    probable, right = np.array(probable), np.array(right)
    confidence = np.maximum(probable, 1 - probable)
    assert np.mean((probable > 0.5) == right) == pytest.approx(np.mean(confidence), abs=0.04)


@pytest.fixture(scope="module")
def judged():
    return judged_by(1, 0.3)[0]


def test_validity_1_is_the_judge_s_own_ranking_and_0_that_of_groups(judged):
    same = consensus(judged, 1.0)
    assert same.estimate == "consensus"
    for name in ("scores", "std", "rank", "tier"):
        assert np.array_equal(getattr(same, name), getattr(judged, name))
    nothing = consensus(judged, 0.0)
    for item in np.unique(judged.graph.item):
        assert np.ptp(nothing.scores[judged.graph.item == item]) < 1e-9


def test_scores_are_the_group_s_mean_and_a_share_of_the_rest(judged):
    item = judged.graph.item
    mean = (np.bincount(item, judged.scores) / np.bincount(item))[item]
    for k in (0.1, 0.7):
        assert consensus(judged, k).scores == pytest.approx(mean + k * (judged.scores - mean), abs=1e-6)


def test_the_covariance_is_that_of_the_linear_map(judged):
    """By the full matrix of all contexts, which share the uncertainty of group means."""
    k, graph, product, effects = 0.4, judged.graph, judged.solution, judged.solution.effects
    n = graph.nodes
    whole = np.zeros((n, n))
    for batch in judged.covariance.pattern.batches:
        for number, block in enumerate(product.laplacian.block(batch)):
            here = slice(batch.nodes.start + number * batch.size, batch.nodes.start + (number + 1) * batch.size)
            whole[here, here] = block
    whole = product.dispersion * (whole + effects.spread @ effects.between @ effects.spread.T)
    member = np.eye(10)[graph.item]
    mean = member @ (member / member.sum(axis=0)).T
    same = graph.component[:, None] == graph.component
    centre = np.eye(n) - same / 10
    share = centre @ (k * np.eye(n) + (1 - k) * mean)
    found = consensus(judged, k)
    own = found.covariance.own
    groups = (1 - k) ** 2 * effects.scores * centre @ member @ np.diag(1 / member.sum(axis=0)) @ member.T @ centre
    expected = share @ whole @ share.T + own * centre + groups
    assert found.std == pytest.approx(np.sqrt(np.diag(expected)), rel=1e-6)
    for batch in found.covariance.pattern.batches:
        for number, block in enumerate(found.covariance.block(batch)):
            here = slice(batch.nodes.start + number * batch.size, batch.nodes.start + (number + 1) * batch.size)
            assert block == pytest.approx(expected[here, here], abs=1e-8)
    apart = expected[0, 0] + expected[3, 3] - 2 * expected[0, 3]
    assert found.covariance.difference(0, 3) == pytest.approx(apart)
    assert found.covariance.difference(3, 3) == 0.0


def test_large_contexts_have_nearly_the_same_errors():
    exact, few = (consensus(judged_by(2, 0.3, contexts=3, limits=Limits(exact=size))[0], 0.3) for size in (4096, 4))
    assert few.std == pytest.approx(exact.std, rel=0.05)
    assert few.covariance.difference(0, 1) == pytest.approx(exact.covariance.difference(0, 1), rel=1e-6)


def test_groups_that_only_meet_good_ones_are_not_the_worse_for_it():
    """A context of a, b and c, in that order, and many of a and b only: b's mean score there is below c's."""
    rows = [("x", "a", "b", 0.7), ("x", "b", "c", 0.7), ("x", "a", "c", 0.85), ("z", "a", "c", 0.85)]
    rows += [(f"y{number}", "a", "b", 0.7) for number in range(6)]
    columns = zip(*[(i, j, p, c) for c, i, j, p in rows] + [(j, i, 1 - p, c) for c, i, j, p in rows], strict=True)
    first, second, p, context = columns
    data = Comparisons.from_columns(first, second, p, context=context)
    found = consensus(quiet_fit(data, prior="estimated", groups="items", bias="joint"), 0.0)
    assert found["x", "b"].score > found["x", "c"].score


def test_texts_that_were_never_compared_have_no_error():
    rows = [{"context": c, "first": i, "second": j, "p": 0.8} for c in "xy" for i, j in ("ab", "bc", "ca")]
    rows += [{"context": "x", "first": "a", "second": "d", "p": 0.5, "weight": 0.0}]
    rows = [{"weight": 1.0} | row for row in rows]
    data = Comparisons.of(rows)
    found = consensus(quiet_fit(data, prior="estimated", groups="items"), 0.5)
    assert np.isnan(found.std).sum() == np.isnan(found.judged.std).sum() > 0
    assert np.isfinite(found.scores).all()


# The usual validity


def test_the_usual_validity():
    assert usual_validity(0.25) == pytest.approx(0.4)
    assert usual_validity(0.25, 0.2) == 0.2
    assert usual_validity(0.9) == usual_validity(1.0) == usual_validity(2.0) == 1.0
    assert usual_validity(0.0) == usual_validity(-1.0) == usual_validity(0.9, -0.5) == 0.15


@pytest.mark.long
@pytest.mark.parametrize("k", [0.3, 0.7])
def test_the_usual_validity_is_found_where_people_vary_as_usual(k):
    found = [consensus(judged_by(seed, k, systems=30, alone=PEOPLE)[0]).solution.validity for seed in range(4)]
    assert np.mean(found) == pytest.approx(k, abs=0.12)


def both_orders(moved, groups, hard, seed):
    """Comparisons of 8 contexts × 12 texts, each with its own part, and with `moved` times that by its position."""
    rng, rows = np.random.default_rng(seed), []
    for context in range(8):
        own, shift = rng.normal(size=(2, 12))
        scores = own + groups * np.arange(12) / 4
        for i in range(12):
            for j in rng.permutation(12)[:8].tolist():
                for a, b in ((i, j), (j, i)) if i != j else ():
                    d = scores[a] - scores[b] + moved * (shift[a] + shift[b]) + 0.7 * context + rng.normal()
                    rows.append((f"s{a}", f"s{b}", float(d > 0) if hard else expit(d), f"c{context}"))
    first, second, p, context = zip(*rows, strict=True)
    return Comparisons.from_columns(first, second, p, context=context)


@pytest.mark.parametrize(("moved", "true"), [(0.0, 1.0), (0.5, 0.6), (1.0, 0.0), (2.0, -0.6)])
@pytest.mark.parametrize("groups", [0, 3])
def test_the_correlation_of_orders_is_that_of_both_parts(moved, true, groups):
    found = []
    for seed in range(3):
        data = both_orders(moved, groups, False, seed)
        graph = Graph.build(data)
        found.append(orders_correlation(data, graph, graph.item))
    assert np.mean(found) == pytest.approx(true, abs=0.15)


def test_decisions_have_a_correlation_of_orders_too():
    found = [orders_correlation(data := both_orders(moved, 0, True, 0), Graph.build(data)) for moved in (0.0, 0.5, 2.0)]
    assert found[0] > found[1] > 0 > found[2]


def test_one_order_gives_no_correlation_of_orders():
    data = Comparisons.from_rows([("a", "b", 0.7), ("b", "c", 0.4), ("c", "a", 0.2)])
    assert orders_correlation(data, Graph.build(data)) is None
    data = Comparisons.from_rows([("a", "b", 0.7), ("b", "a", 0.4)])
    assert orders_correlation(data, Graph.build(data)) is None


def test_the_variance_of_texts_by_moments():
    rng = np.random.default_rng(0)
    texts = 1.5 * rng.normal(size=400)
    context = np.repeat(np.arange(20), 20)
    first, second = rng.integers(0, 20, (2, 8000)) + 20 * rng.integers(0, 20, 8000)
    first, second = first[first != second], second[first != second]
    noise = rng.normal(size=len(first))
    for sign in (-1, 1):
        values = texts[first] + sign * texts[second] + (sign > 0) * 3.0 * np.sin(context[first]) + noise
        assert text_variance(first, second, values, sign, context[first], 400) == pytest.approx(2.25, rel=0.2)


# Where it can be asked for


def test_what_cannot_be_a_consensus_is_refused(judged):
    rows = [("a", "b", 0.8), ("b", "c", 0.7)]
    for validity in (-0.1, 1.5, float("nan"), True, "much"):
        with pytest.raises(ValueError, match="0 and 1"):
            consensus(judged, validity)
    with pytest.raises(ValueError, match="groups or features"):
        consensus(fit(rows))
    with pytest.raises(ValueError, match="`groups`"):
        fit(rows, prior="estimated", estimate="consensus")
    with pytest.raises(ValueError, match="`validity`"):
        fit(rows, validity=0.5)
    with pytest.raises(ValueError, match="estimate = "):
        fit(rows, estimate="people")


def test_fit_gives_a_consensus_with_groups(judged):
    options = {"bias": "joint", "prior": "estimated", "groups": "items"}
    found = fit(judged.comparisons, estimate="consensus", validity=0.25, **options)
    assert (found.estimate, found.solution.validity) == ("consensus", 0.25)
    assert np.array_equal(found.scores, consensus(judged, 0.25).scores)
    assert np.array_equal(found.judged.scores, judged.scores)
    assert consensus(found, 1.0).scores == pytest.approx(judged.scores)


def test_a_consensus_says_what_it_is(judged):
    found = consensus(judged, 0.25)
    assert "validity 0.25" in repr(found)
    document = json.loads(found.to_json())
    assert (document["estimate"], document["validity"]) == ("consensus", 0.25)
    assert json.loads(judged.to_json())["estimate"] == "judge"
    header = found.to_csv().splitlines()[0]
    assert header == "context,item,score,judge_score,std,low,high,rank,judge_rank,tier,comparisons"
    assert "judge_score" not in judged.to_csv()
    row = found.to_frame("pandas").iloc[0]
    own = judged[row["context"], row["item"]]
    assert (row["judge_score"], row["judge_rank"]) == (pytest.approx(own.score), own.rank)
    first, table = str(found).split("\n", 1)
    assert table.split("\n", 1)[0].split() == header.split(",")
    assert all(word in first for word in ("people would say", "25%", "judge_rank", "estimate='judge'", "every context"))
    assert str(judged).split()[:2] == ["context", "item"]


def test_what_is_expected_of_more_calls_is_about_the_judge(judged):
    found = consensus(judged, 0.25)
    assert np.array_equal(expected_spearman(found), expected_spearman(judged))
    assert np.array_equal(top_probability(found, 2), top_probability(judged, 2))


def texts(**more):
    words = "salt lantern orchard violin glacier thunder meadow copper".split()
    rng = np.random.default_rng(0)
    return [
        {"id": item, "context_id": context, "text": " ".join(rng.choice(words, 9)), **more} for context, item in LABELS
    ]


def taste():
    rng = np.random.default_rng(4)
    return {label: int(label[1][1:]) / 2 + rng.normal() for label in LABELS}


def ranked(data, **options):
    return rank(data, "better", judge=load_judge("simulated/soft", scores=taste()), budget="6n", **options)


def test_a_run_is_a_consensus_where_ids_are_shared():
    found = ranked(texts())
    assert found.estimate == "consensus"
    assert found.solution.validity >= 0.15
    own = ranked(texts(), estimate="judge")
    assert own.estimate == "judge"
    assert np.array_equal(own.scores, found.judged.scores)
    assert ranked(texts(), estimate=0.5).solution.validity == 0.5
    assert ranked(texts(), plain=True).estimate == "judge"
    assert ranked(texts(), method="avg-prob").estimate == "judge"


def test_a_column_group_is_one_too_and_different_ids_are_not():
    alone = [{**row, "id": f"{row['context_id']} {row['id']}"} for row in texts()]
    scores = {(context, f"{context} {item}"): score for (context, item), score in taste().items()}
    judge = load_judge("simulated/soft", scores=scores)
    assert rank(alone, "better", judge=judge, budget="6n").estimate == "judge"
    grouped = [{**row, "group": row["id"][-2:]} for row in alone]
    assert rank(grouped, "better", judge=judge, budget="6n").estimate == "consensus"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimate": "consensus", "plain": True}, "needs estimated variances"),
        ({"estimate": 0.3, "plain": True}, "needs estimated variances"),
        ({"estimate": 0.3, "method": "bt"}, "needs estimated variances"),
        ({"estimate": 1.3}, "not between 0 and 1"),
        ({"estimate": "people"}, "estimate = 'people' is none of"),
    ],
)
def test_a_run_and_the_command_refuse_what_they_cannot_do(options, message, command):
    flags = [f"--{name}" if value is True else f"--{name}={value}" for name, value in options.items()]
    assert command(*flags).returncode == 2
    with pytest.raises(ValueError, match=message):
        ranked(texts(), **options)
    with pytest.raises(ValueError, match="group"):  # no two texts share one
        rank({name: f"A text by {name}." for name in "abc"}, "better", judge="simulated/soft", estimate=0.3)


def test_style_may_stand_for_groups_where_it_is_asked_for():
    rng = np.random.default_rng(0)
    words = ["aba", "cad", "efe", "gig", "oxo", "uzu"]
    shares = rng.dirichlet(np.full(6, 0.5), 60)
    items = Items.of([{"id": f"t{i}", "text": " ".join(rng.choice(words, 60, p=of))} for i, of in enumerate(shares)])
    scores = 3 * shares[:, 0] - 3 * shares[:, 1] + 0.5 * rng.normal(size=60)
    ends = [(i, j) for i in range(60) for j in rng.permutation(60)[:6].tolist() if i != j]
    ends += [(j, i) for i, j in ends]
    d = np.array([scores[i] - scores[j] for i, j in ends]) + rng.normal(size=len(ends))
    data = Comparisons.from_columns([f"t{i}" for i, _ in ends], [f"t{j}" for _, j in ends], expit(d))
    assert Fitting(items, estimate="auto").rank(data).estimate == "judge"
    found = Fitting(items, estimate="consensus").rank(data)
    judged, expected = found.judged, found.solution.effects.mean
    assert found.solution.validity == 0.5
    assert found.scores == pytest.approx(judged.graph.centre(0.5 * judged.scores + 0.5 * expected))
    block = found.covariance.block(found.covariance.pattern.batches[0])[0]
    assert found.std == pytest.approx(np.sqrt(np.diag(block)))
    assert np.linalg.eigvalsh(block).min() > -1e-9
    assert Fitting(items, estimate="consensus", validity=0.8).rank(data).solution.validity == 0.8
    panel = replace(data, judges=np.array(["one", "two"], dtype=object), judge=np.arange(len(data)) % 2)
    assert Fitting(items, method="panel", estimate="auto").rank(panel).estimate == "judge"
    assert Fitting(items, method="panel", estimate="consensus").rank(panel).estimate == "consensus"


# The command and its page


@pytest.fixture
def command(run, tmp_path):
    rows = [row | {"score": taste()[row["context_id"], row["id"]]} for row in texts()]
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    base = ["rank", "texts.jsonl", "--judge", "simulated/soft", "--budget", "6n"]
    return lambda *more: run(tmp_path, [*base, "--out", "run", *more])


@pytest.mark.long
def test_the_command_says_whose_scores_it_prints_and_changes_it_without_calls(command, tmp_path):
    done = command("--estimate", 0.3, "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert "validity 0.30" in done.stderr
    consensus_rows = list(csv.DictReader(io.StringIO(done.stdout)))
    before = (tmp_path / "run" / "judgements.db").stat().st_size
    again = command("--estimate", "judge", "--format", "csv")
    assert "own opinion" in again.stderr
    rows = list(csv.DictReader(io.StringIO(again.stdout)))
    own, shared = (
        {(row["context"], row["item"]): (row[f"{of}score"], row[f"{of}rank"]) for row in table}
        for of, table in (("", rows), ("judge_", consensus_rows))
    )
    assert own == shared
    assert (tmp_path / "run" / "judgements.db").stat().st_size == before
    assert read_record(tmp_path / "run").ranking.estimate == "judge"
    assert command().returncode == 0
    record = read_record(tmp_path / "run")
    assert record.ranking.estimate == "consensus"
    assert record.expected == pytest.approx(expit(record.ranking.solution.differences))
    assert record.even == pytest.approx(expit(-np.mean(record.ranking.solution.bias)), abs=0.1)


def test_a_share_that_the_rule_cannot_tell_has_no_number(run, tmp_path):
    """A line-up asks one order, and the systems differ by more than their texts: both bounds of k are at 1."""
    rows = [row | {"score": 2.0 * int(row["id"][1:]) + 0.1 * k} for k, row in enumerate(texts())]
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    judge = ("--judge", "simulated/soft; scores=score; noise=0.1", "--lineup", 4, "--budget", "4n")
    done = run(tmp_path, ("rank", "texts.jsonl", *judge, "--out", "run"))
    assert done.returncode == 0, done.stderr
    ranking = read_record(tmp_path / "run").ranking
    assert (ranking.estimate, ranking.solution.validity) == ("consensus", None)
    assert np.array_equal(ranking.scores, ranking.judged.scores)
    assert json.loads(ranking.to_json())["validity"] is None
    page = " ".join((tmp_path / "run" / "report.html").read_text(encoding="utf-8").split())
    for text in (done.stderr, page, repr(ranking)):
        assert "validity not known" in text
        assert "1.00" not in re.findall(r"validity \S+", text)
    assert "100%" not in done.stdout.splitlines()[0]


@pytest.mark.long
def test_the_page_explains_the_consensus(command, tmp_path):
    done = command("--estimate", 0.3)
    first = done.stdout.splitlines()[0]
    assert all(word in first for word in ("30%", "judge_rank", "--estimate judge"))
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    text = " ".join(page.split())
    assert "consensus, validity 0.30" in text
    assert "30% is kept" in text
    assert "given by --estimate" in text
    assert "--estimate 0.3" in text
    record = read_record(tmp_path / "run")
    ranks = record.ranking.judged.rank[record.order].tolist()
    assert json.loads(re.search(r'"judge_rank":(\[[\d,]*\])', page)[1]) == ranks  # page.js writes it beside the rank
    columns = {"score": [0.0], "low": [0.0], "high": [0.0], "rank": [2], "best": [1], "worst": [3], "judge_rank": [4]}
    rest = {"item": ["a"], "group": [1], "tier": [1], "comparisons": [9]}
    macros = environment(HERE).get_template("macros.html.j2").module
    assert "1–3 · judge 4" in macros.row(View("", 0, 1, -1.0, 1.0, [], 2, 1), columns | rest, 0, None)
    assert "judge_rank" not in command("--estimate", "judge").stdout
    assert "Whose opinion" not in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


# Recorded judges


def reached(name, attribute, calls, draws):
    """Spearman × 100 with people of the judge's own ranking and of the consensus, systems known."""
    items = load_dataset(name, DATA / f"{name}.jsonl").items
    recorded = Recorded.of(DATA / "judgements" / f"{name}.{attribute}.csv.gz", items, attribute)
    drawn = chosen(recorded, Fitting(items), (calls,), draws, 0)[calls]
    return judged_and_shared(drawn, Fitting(items, estimate="auto"))


@pytest.mark.long
@pytest.mark.recorded
def test_the_consensus_of_few_calls_agrees_better_with_people_on_eight_sets():
    sets = [("summeval", name) for name in ("coherence", "consistency", "fluency", "relevance")]
    sets += [("topicalchat", name) for name in ("coherence", "engagingness", "naturalness", "understandability")]
    found = np.array([reached(*which, "2n", 3) for which in sets])
    assert np.all(found[:, 1] > found[:, 0])
    assert np.mean(found[:, 1]) > 33
    assert np.mean(found[:, 0]) > 20


@pytest.mark.long
@pytest.mark.recorded
@pytest.mark.parametrize(("attribute", "least"), [("coherence", 32), ("complexity", 41)])
def test_the_consensus_agrees_better_with_people_on_hanna(attribute, least):
    judge, shared = reached("hanna", attribute, "5n", 2)
    assert shared > max(judge, least)
