"""The page of a run: what it holds, what its figures are, and that texts stay texts."""

import html
import itertools
import json
import math
import re
import shutil
import sqlite3
import tracemalloc
from contextlib import closing
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from benchmarks.bounds import crossings, simulate
from benchmarks.size import command as command_size
from benchmarks.size import finished as large_run
from comparo import Comparisons, Items, Judgement, Question, StoreError, fit, load_judge, rank, write_report
from comparo.ranking.display import best_sentence
from comparo.report import cards
from inside import (
    METHODS,
    Budget,
    Room,
    Run,
    Store,
    Task,
    agreement,
    agreements,
    bootstrap,
    common_length,
    count_flips,
    criterion_prompt,
    length_correlation,
    outlook,
    position_bias,
    read_record,
    render,
    script_json,
    size,
    spearman,
    spearman_within,
)

SCRIPT = "<script>alert(1)</script>"


def finished(folder, task, judgements=None):
    """The folder of a run with these very judgements; None: as `comparo rank` leaves it."""
    with closing(Store(folder, task.identity, task.configuration)) as store:
        store.add_items(task.items)
        if judgements is None:
            Run(task, store).finish()
        else:
            store.add(judgements)
    return folder


def run_folder(folder, items, judge=None, prompt=None, budget="6n", **options):
    judge = judge or load_judge("simulated/soft", seed=2)
    return finished(
        folder, Task(Items.of(items), prompt or criterion_prompt("better"), judge, Budget.of(budget), **options)
    )


def folder_of(folder, items, judgements, **options):
    judge = load_judge("simulated/soft")
    task = Task(Items.of(items), criterion_prompt("better"), judge, Budget.of("6n"), **options)
    return finished(folder, task, judgements)


def reconfigure(folder, change):
    """Change what a run folder says of how it was made, in the file and in the database."""
    path = folder / "run.json"
    text = json.dumps(change(json.loads(path.read_text(encoding="utf-8"))))
    path.write_text(text, encoding="utf-8")
    with closing(sqlite3.connect(folder / "judgements.db")) as connection, connection:
        connection.execute("UPDATE run SET configuration = ?", (text,))


def data_text(page):
    return re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1]


def data_of(page):
    return json.loads(data_text(page))


def written(folder):
    return write_report(folder).read_text(encoding="utf-8")


def stories(number=12):
    rng = np.random.default_rng(0)
    return [
        {"id": f"story {k}", "text": "word " * int(rng.integers(3, 60)), "score_wit": float(rng.normal())}
        for k in range(number)
    ]


def systems(contexts=8, number=5):
    rng = np.random.default_rng(0)
    return [
        {"id": f"system {k}", "text": f"Text {k} of {c}.", "context_id": f"c{c}", "score_wit": k + float(rng.normal())}
        for c in range(contexts)
        for k in range(number)
    ]


class Page(HTMLParser):
    """The elements of a page and its text outside of scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self._inside = [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data):
        if self._inside not in ("script", "style"):
            self.text.append(data)


def test_the_page_tells_all(tmp_path):
    folder = run_folder(tmp_path / "run", stories(), prompt=criterion_prompt("wittier", kind="Story"))
    page = Page(written(folder))
    text = " ".join(" ".join(page.text).split())
    there = {attrs.get("id") for tag, attrs in page.tags if tag == "section"}
    assert {"ranking", "next", "trust", "wins", "people", "lengths", "making"} <= there
    assert len([tag for tag, _ in page.tags if tag == "article"]) >= 10  # cards
    for sign in ("Story is wittier?", "72 of 132", "numpy", "wit", "Python"):
        assert sign in text


def test_the_page_needs_nothing_else(tmp_path):
    page = written(run_folder(tmp_path / "run", stories()))
    for tag, attrs in Page(page).tags:
        assert tag not in ("iframe", "object", "embed", "base")
        for name in ("src", "href", "action", "srcset", "data"):
            assert attrs.get(name, "#").startswith(("#", "data:"))
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_only_the_folder_is_read(tmp_path):
    folder = run_folder(tmp_path / "run", stories())
    page = written(folder)
    shutil.copytree(folder, tmp_path / "elsewhere")
    shutil.rmtree(folder)
    assert written(str(tmp_path / "elsewhere")) == page
    assert not list((tmp_path / "elsewhere").glob("*.tmp"))


def test_the_data_are_the_ranking(tmp_path):
    folder = run_folder(tmp_path / "run", stories())
    data = data_of(written(folder))
    record = read_record(folder)
    columns = record.ranking.to_columns()
    assert data["candidates"]["item"] == columns["item"].tolist()
    np.testing.assert_allclose(data["candidates"]["score"], columns["score"], rtol=1e-3)
    assert data["candidates"]["tier"] == columns["tier"].tolist()
    texts = {row["id"]: row["text"] for row in stories()}
    assert data["candidates"]["text"] == [texts[item] for item in columns["item"].tolist()]
    asked = data["judgements"]
    names = data["candidates"]["item"]
    assert [(names[i], names[j]) for i, j in zip(asked["first"], asked["second"], strict=True)] == [
        (one.question.first, one.question.second) for one in record.answered
    ]
    np.testing.assert_allclose(asked["p"], record.p, atol=5e-4)


def test_untrusted_text_stays_text(tmp_path):
    texts = {
        SCRIPT: f"{SCRIPT} & </script><!-- \u2028",
        "שלום \u202eabc": "מימין לשמאל " * 20,
        "👩‍👩‍👧‍👦": "🦊",
        "{{ 7 * 7 }}": "{% raw %}",
        "long": "x" * 100_000,
        "n" * 5000: "its name is long",
        '" onmouseover="alert(1)': "'",
    }
    items = [
        {"id": name, "text": text, "context_id": SCRIPT, f"score_{SCRIPT}": 1.0 * len(name)}
        for name, text in texts.items()
    ]
    judge = load_judge("simulated/soft", seed=1)
    folder = run_folder(tmp_path / "run", items, judge, criterion_prompt(f"{SCRIPT} 🎉", kind="<b>Text</b>"))
    page = written(folder)
    assert SCRIPT not in page
    assert len(page) < 200_000
    tags = [tag for tag, _ in Page(page).tags]
    assert tags.count("script") == 2
    assert "b" not in tags
    assert not [name for _, attrs in Page(page).tags for name in attrs if name.startswith("on")]
    data = data_of(page)
    found = dict(zip(data["candidates"]["item"], data["candidates"]["text"], strict=True))
    assert found[SCRIPT] == texts[SCRIPT]
    assert found["שלום \u202eabc"] == texts["שלום \u202eabc"]
    assert found["long"] == "x" * 20_000
    assert "{{ 7 * 7 }}" in found
    assert re.search(r"20,000 characters [^<]*\(1 ", " ".join(page.split()))


def test_what_has_no_answers_or_no_place_has_no_page(tmp_path):
    with pytest.raises(StoreError, match="no answers"):
        write_report(folder_of(tmp_path / "none", {"a": "A.", "b": "B."}, []))
    failed = [Judgement(Question("a", "b"), error="the server is down")]
    with pytest.raises(StoreError, match=r"1 failed.*is down"):
        write_report(folder_of(tmp_path / "failed", {"a": "A.", "b": "B."}, failed))
    assert not (tmp_path / "failed" / "report.html").exists()
    written_to = folder_of(tmp_path / "run", {"a": "A.", "b": "B."}, [Judgement(Question("a", "b"), p=0.75)])
    (written_to / "report.html").mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        write_report(written_to)


def test_one_answer_is_enough_for_a_page(tmp_path):
    failed = Judgement(Question("b", "a"), error="lost <b>")
    folder = folder_of(tmp_path / "run", {"a": "A.", "b": "B."}, [failed, Judgement(Question("a", "b"), p=0.75)])
    page = " ".join(written(folder).split())
    assert re.search(r"\b(best|first) of 2\b", page)
    assert "lost &lt;b&gt;" in page


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_page(tmp_path, method):
    bias = "joint" if method.startswith(("poe", "mixed", "panel")) else "none"
    folder = run_folder(tmp_path / "run", stories(), load_judge("simulated/hard", seed=1), method=method, bias=bias)
    record = read_record(folder)
    assert np.all((record.expected >= 0) & (record.expected <= 1))
    assert np.corrcoef(record.p, record.expected)[0, 1] > 0.5
    assert f"<dt>method</dt><dd><bdi>{method}</bdi></dd>" in written(folder)


def test_groups_that_nothing_joins(tmp_path):
    pairs = [("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]
    answers = [Judgement(Question(*pair), p=0.9 if pair[0] in "ac" else 0.2) for pair in pairs]
    page = written(folder_of(tmp_path / "run", dict.fromkeys("abcd", "text"), answers))
    assert "2 separate groups" in page
    assert "group 2" in page
    assert "fall into groups" in page
    told = " ".join(page.split())
    assert re.search("known</strong>[^<]*2 groups [^<]*4 ", told)
    assert not re.search(r"is the best of|comes first|change little", told)
    assert "Connect all texts" in told
    folder = folder_of(tmp_path / "one", dict.fromkeys("abc", "text"), [Judgement(Question("a", "b"), p=0.9)])
    page = shown_in(written(folder))  # c was not compared
    assert "1 not compared" in page
    assert re.search("known[^.]*2 groups [^.]*3 ", page)
    assert "is the best" not in page


@pytest.mark.long
def test_no_winner_is_named_in_a_context_that_is_not_connected(tmp_path):
    items = [{"id": k, "text": f"{k} of {c}", "context_id": c} for c in ("x", "y", "z") for k in "abcd"]
    better = {pair: 0.9 if pair[0] < pair[1] else 0.1 for pair in itertools.permutations("abcd", 2)}
    answers = [Judgement(Question(*pair, c), p=p) for c in "xy" for pair, p in better.items()]
    apart = [("d", "c"), ("c", "d"), ("b", "a"), ("a", "b")]
    answers += [Judgement(Question(*pair, "z"), p=0.6 if pair[0] > pair[1] else 0.4) for pair in apart]
    folder = folder_of(tmp_path / "run", items, answers, estimate="judge")
    page = written(folder)
    rows = re.findall(r'data-view="\d".*?</tr>', page, re.DOTALL)
    assert ["not connected" in row for row in rows] == [False, False, True]
    assert ["<td><bdi>a (“a of " in row for row in rows] == [True, True, False]
    text = shown_in(page)
    assert "over 3 contexts" in text
    assert data_of(page)["mean"]["item"] == list("abcd")
    assert data_of(page)["mean"]["contexts"] == [3] * 4


def test_contexts_without_shared_items(tmp_path):
    items = [{"id": f"{c}{k}", "text": "t", "context_id": c} for c in "xyz" for k in range(4)]
    folder = run_folder(tmp_path / "run", items)
    data = data_of(written(folder))
    assert data["mean"] is None
    assert [context["label"] for context in data["contexts"]] == ["x", "y", "z"]
    assert "3 rankings" in " ".join(written(folder).split())


def test_the_leaderboard_comes_first(tmp_path):
    folder = run_folder(tmp_path / "run", systems(), load_judge("simulated/soft", scores={"system 0": 3.0}))
    page = written(folder)
    board, found = read_record(folder).ranking.groups(), data_of(page)["mean"]
    assert found["item"] == board.group.tolist()
    assert found["item"][0] == "system 0"
    np.testing.assert_allclose(found["score"], board.score, rtol=1e-5)
    np.testing.assert_allclose(found["high"], board.high, rtol=1e-5)
    assert found["tier"] == board.tier.tolist()
    assert found["tier"][:2] == [1, 2]
    np.testing.assert_allclose(data_of(page)["mean_wins"], board.wins, atol=1e-5)
    assert "over 8 contexts" in " ".join(page.split())


def test_scores_are_drawn_over_lengths_where_these_differ(tmp_path):
    items = [{"id": k, "text": "word " * (k + 1)} for k in range(6)]
    page = written(run_folder(tmp_path / "run", items))
    chart = re.search(r'<section id="lengths">.*?</section>', page, re.DOTALL)[0]
    assert chart.count("h0") == 6
    same = run_folder(tmp_path / "same", [{"id": k, "text": "t"} for k in "abc"])
    assert '<section id="lengths">' not in written(same)


def test_groups_of_one_context_have_a_leaderboard(tmp_path):
    items = [{"id": k, "text": f"text {k}", "group": f"<b>{k % 3}</b>"} for k in range(12)]
    folder = run_folder(tmp_path / "run", items, load_judge("simulated/soft", scores={k: k % 3 for k in range(12)}))
    page = written(folder)
    assert data_of(page)["mean"]["item"] == ["<b>2</b>", "<b>1</b>", "<b>0</b>"]
    assert "<b>2" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert "of 3 groups" in shown_in(page)


probabilities = st.sampled_from([0.1, 0.4, 0.5, 0.6, 0.9])
asked = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), probabilities), min_size=1, max_size=30)


@given(asked)
def test_flips_are_those_counted_by_hand(rows):
    rows = [row for row in rows if row[0] != row[1]]
    if not rows:
        return
    comparisons = Comparisons.from_rows(rows)
    means_of = {}
    for first, second, p in rows:
        means_of.setdefault((first, second), []).append(p)
    means_of = {pair: float(np.mean(values)) for pair, values in means_of.items()}
    both = [pair for pair in means_of if pair[::-1] in means_of and pair[0] < pair[1]]
    flipped = [pair for pair in both if (means_of[pair] - 0.5) * (means_of[pair[::-1]] - 0.5) > 0]
    found = count_flips(comparisons)
    assert (found.pairs, found.flipped) == (len(both), len(flipped))


@pytest.mark.long
@given(asked, st.randoms(use_true_random=False))
def test_flips_of_several_voices_are_the_sums_of_each_alone(rows, draw):
    rows = [row for row in rows if row[0] != row[1]]
    if not rows:
        return
    voices = [draw.choice("xyz") for _ in rows]
    first, second, p = zip(*rows, strict=True)
    context = [number % 2 for number in range(len(rows))]
    data = Comparisons.from_columns(first, second, p, context=context, judge=voices)
    # One voice ranks the other way round, which changes neither.
    turned = [1 - value if voice == "z" else value for value, voice in zip(p, voices, strict=True)]
    other = Comparisons.from_columns(first, second, turned, context=context, judge=voices)
    alone = [data.take(data.judged_by == number) for number in range(len(data.judges))]
    alone = [replace(one, judges=None, judge=None) for one in alone]
    for found in (data, other):
        pooled = count_flips(found)
        assert (pooled.pairs, pooled.flipped, pooled.once) == tuple(
            map(sum, zip(*((one.pairs, one.flipped, one.once) for one in map(count_flips, alone)), strict=True))
        )


values = st.sampled_from([0.0, 0.5, 1.0, 2.5, math.nan])


@given(st.lists(st.tuples(values, values, st.integers(0, 3)), max_size=30))
def test_correlations_of_segments_are_those_of_each_alone(rows):
    one, other, segment = (np.array([row[place] for row in rows], dtype=kind) for place, kind in enumerate("ddl"))
    found = spearman_within(one, other, segment, 4)
    for number in range(4):
        known = (segment == number) & ~np.isnan(one) & ~np.isnan(other)
        if len(set(one[known])) > 1 and len(set(other[known])) > 1:
            assert found[number] == pytest.approx(spearmanr(one[known], other[known])[0])
            assert found[number] == pytest.approx(spearman(one[known], other[known]))
        else:
            assert math.isnan(found[number])


@pytest.mark.parametrize("contexts", [1, 20])
def test_the_position_bias_is_found_with_its_interval(contexts):
    covered = 0
    for seed in range(20):
        judge = load_judge("simulated/soft", bias=0.5, noise=0.6, seed=seed)
        rng = np.random.default_rng(seed)
        pairs = [(c, *rng.choice(10, 2, replace=False).tolist()) for c in range(contexts) for _ in range(40)]
        context, first, second = zip(*pairs, strict=True)
        answers = judge.judge(map(Question, first, second, context))
        data = Comparisons.from_columns(first, second, [one.p for one in answers], context=context)
        found = position_bias(fit(data, bias="joint"))
        assert found.fitted
        covered += found.low < 1 / (1 + math.exp(-0.5)) < found.high
    assert covered >= 15
    found = position_bias(fit([("a", "b", 0.8), ("b", "a", 0.6), ("a", "b", 0.7), ("b", "a", 0.7)], method="avg-prob"))
    assert (found.fitted, found.wins) == (False, pytest.approx(0.7))
    assert found.low < 0.7 < found.high


def test_length(tmp_path):
    items = {f"{k}": "x" * (k + 1) for k in range(10)}
    judge = load_judge("simulated/soft", scores={f"{k}": 1.0 * k for k in range(10)}, noise=0.0)
    record = read_record(run_folder(tmp_path / "run", items, judge))
    assert length_correlation(record, record.ranking.scores) == pytest.approx(1.0)
    assert length_correlation(record, np.ones(10)) != length_correlation(record, np.ones(10))
    assert "longer text" in written(tmp_path / "run")


@pytest.mark.long
def test_outlook(tmp_path):
    judge = load_judge("simulated/hard", seed=5)
    record = read_record(run_folder(tmp_path / "run", stories(20), judge, budget="8n"))
    ahead = outlook(record)
    assert [step.more for step in ahead] == [0, 40, 160, 220]
    assert ahead[0].expected == pytest.approx(float(np.mean(record.spearman)))
    assert ahead[0].expected < ahead[2].expected < 1
    record = read_record(run_folder(tmp_path / "whole", stories(4), budget="3n"))
    assert [step.more for step in outlook(record)] == [0]
    assert "nothing is left" in written(tmp_path / "whole")


def test_agreement_with_people(tmp_path):
    items = stories(30)
    items[3]["score_wit"] = None
    record = read_record(run_folder(tmp_path / "run", items))
    (found,) = agreements(record, shared=False)
    human = record.items.scores["wit"][record.row]
    known = ~np.isnan(human)
    assert found.spearman.value == pytest.approx(spearmanr(record.ranking.scores[known], human[known])[0])
    assert found.pearson.value == pytest.approx(pearsonr(record.ranking.scores[known], human[known])[0])
    assert found.spearman.low < found.spearman.value < found.spearman.high
    assert found.systems is None


def test_agreement_with_people_over_contexts(tmp_path):
    record = read_record(run_folder(tmp_path / "run", systems(10)))
    (found,) = agreements(record, shared=True)
    assert found.spearman.value == pytest.approx(np.mean(agreement(record.ranking, record.items)["wit"]))
    assert found.contexts == 10
    assert -1 <= found.systems <= 1


@given(st.lists(st.text("aé", max_size=40), min_size=1, max_size=8), st.integers(0, 300))
def test_texts_of_the_common_length_fit(texts, room):
    """All characters are among those of one or two bytes: what is cut may have twice the bytes of what is kept."""
    length = common_length(texts, room)
    kept = [text[:length] for text in texts]
    around = size([""] * len(texts))
    assert size(kept) - around <= 2 * room
    assert kept == texts or size([text[: length + 1] for text in texts]) + around > room / 4


@given(st.recursive(st.text() | st.integers(), st.lists))
def test_json_in_a_script_is_read_back(data):
    text = script_json(data)
    assert json.loads(text) == data
    assert not set(text) & set("<>&\u2028\u2029")


def shown_in(page):
    return " ".join(" ".join(Page(page).text).split())


@pytest.mark.long
@pytest.mark.parametrize("shape", ["contexts", "one context", "shared items", "long names", "many scores"])
def test_a_page_keeps_its_limit_and_says_what_is_left_out(tmp_path, shape):
    """The limit is lowered, so that a small run does not fit: every text is begun, and what is missing is told."""
    name = '"🦊&' * 60 if shape == "long names" else "story "
    number, contexts = (400, 1) if shape in ("one context", "long names") else (5, 80)
    extra = {f"score_{k}{name}": float(k) for k in range(40 if shape == "many scores" else 0)}
    items = [
        {"id": f"{k}{name}" if shape == "shared items" else f"{c} {k}{name}", "text": f"{c} {k} <é> " * 400}
        | ({"context_id": f"{c}{name}", "context": f"Article {c} " * 500} if contexts > 1 else {})
        | {key: value * k for key, value in extra.items()}
        for c in range(contexts)
        for k in range(number)
    ]
    prompt = criterion_prompt("better " * 9000, context="Article" if contexts > 1 else None)
    folder = run_folder(tmp_path / "run", items, prompt=prompt, budget="12n" if contexts == 1 else "3n", plain=True)
    page = render(read_record(folder), Room(data=500_000, tables=200_000, judgements=2000))
    assert 400_000 < len(data_text(page).encode()) <= 520_000
    assert len(page.encode()) < 750_000
    data, text = data_of(page), shown_in(page)
    kept = data["candidates"]["text"]
    assert len(kept) == data["contexts"][-1]["end"] > 5
    assert min(map(len, kept)) > 80
    assert re.search(rf"[^.]*first {max(map(len, kept)):,} characters", text)
    if shape == "contexts":
        assert f"first {len(data['contexts'])} of 80 contexts" in text or len(data["contexts"]) == 80
        assert data["contexts"][0]["text"].startswith("Article 0")
    places = {*data["judgements"]["first"], *data["judgements"]["second"]}
    assert not places or max(places) < len(kept)
    if not data["judgements"]["complete"]:
        assert f"{len(data['judgements']['p']):,} of {len(read_record(folder).p):,} judgements" in text


def test_what_the_page_holds_of_the_judgements_is_all_of_some_contexts(tmp_path):
    folder = run_folder(tmp_path / "run", [row | {"id": f"{row['context_id']} {row['id']}"} for row in systems(8)])
    record = read_record(folder)
    data = data_of(render(record, Room(judgements=len(record.p) // 2)))
    held = data["judgements"]
    ends = [context["end"] for context in data["contexts"]]
    assert held["whole"] in ends
    assert 0 < len(held["p"]) <= len(record.p) // 2
    names = data["candidates"]["item"]
    asked = [(one.question.first, one.question.second) for one in record.answered]
    kept = [(names[i], names[j]) for i, j in zip(held["first"], held["second"], strict=True)]
    assert kept == [pair for pair in asked if names.index(pair[0]) < held["whole"]]


def test_many_judgements_leave_out_those_far_from_the_top(tmp_path):
    folder = run_folder(tmp_path / "run", stories(20), budget="10n")
    data = data_of(render(read_record(folder), Room(judgements=50)))
    assert not data["judgements"]["complete"]
    assert max(data["candidates"]["rank"][row] for row in data["judgements"]["first"]) <= 10
    assert 0 < len(data["judgements"]["p"]) < 200


def test_secrets_and_markup_in_the_settings_do_not_reach_the_page(tmp_path):
    folder = run_folder(tmp_path / "run", stories(4))
    address = "http://ana:p%40ss:word@example.org:8000/v1?x=1"
    told = {"base_url": address, SCRIPT: [SCRIPT, {"deep": address}], "half": "\ud83d", "price": math.nan}
    again = f"comparo rank {SCRIPT} --base-url '{address}'"

    def change(configuration):
        identity = configuration["identity"]
        identity |= {"judge": f"{SCRIPT}/{address}", "settings": identity["settings"] | told}
        return configuration | {"command": again, "budget": SCRIPT, "versions": {SCRIPT: 1}}

    reconfigure(folder, change)
    page = written(folder)
    assert "word@" not in page
    assert "p%40ss" not in page
    assert SCRIPT not in page
    assert "http://example.org:8000/v1?x=1" in page
    assert f"comparo rank {SCRIPT} --base-url 'http://example.org" in shown_in(page)
    assert [tag for tag, _ in Page(page).tags].count("script") == 2
    assert data_of(page)["run"]["identity"]["settings"]["base_url"] == "http://example.org:8000/v1?x=1"


@pytest.mark.parametrize("broken", [{"prompt": None}, {"prompt": {"template": "x", "labels": ["A"]}}, {"judge": 7}])
def test_a_configuration_without_a_question_is_said(tmp_path, broken):
    folder = run_folder(tmp_path / "run", stories(4))
    reconfigure(folder, lambda configuration: {"identity": configuration["identity"] | broken})
    with pytest.raises(StoreError, match=rf"{re.escape(str(folder))} .*judge"):
        write_report(folder)


@pytest.mark.parametrize(
    ("orders", "bias", "said"),
    [
        ("both", "joint", "One order alone [^.]*both."),
        ("both", "none", "both orders [^.]*cancels"),
        ("one", "none", "use --bias joint, or --orders both."),
    ],
)
def test_no_card_advises_what_was_done(tmp_path, orders, bias, said):
    judge = load_judge("simulated/soft", bias=2.0, seed=1)
    folder = run_folder(tmp_path / "run", stories(), judge, budget="4n", orders=orders, bias=bias, plain=True)
    text = shown_in(written(folder))
    assert re.search(said, text)
    assert ("or --orders both" in text) == (orders == "one")


@pytest.mark.long
def test_measured_bounds_are_those_of_the_benchmark():
    found = crossings(20, texts=2000)
    for name, bound in (("flips", cards.FLIPS), ("contradicting", cards.CONTRADICTING)):
        assert found[name] == pytest.approx([bound.fine, bound.check], abs=0.015)
    lost = [simulate(20, 0.5, 0.5 + bound, "one", "none", texts=2000).spearman for bound in (0.0, 0.05, 0.15)]
    assert lost[0] - lost[1] < 0.005 < lost[0] - lost[2] < 0.03


def test_every_verdict_says_where_its_bounds_come_from(tmp_path):
    page = written(run_folder(tmp_path / "run", stories()))
    cards = re.findall(r'<article class="(fine|check|poor)">(.*?)</article>', page, re.DOTALL)
    assert len(cards) >= 8
    for verdict, card in cards:
        assert f"<summary>Why “{verdict}”?</summary>" in card


def test_the_page_explains_its_words(tmp_path):
    items = [{name: row[name] for name in ("id", "text")} for row in stories()]
    page = written(run_folder(tmp_path / "run", items))
    text = shown_in(page)
    assert re.search("of 1 [^.]*73 of", text)
    special = text.partition("For specialists: all settings")[2]
    assert re.search(r"method\s+mixed", special)
    main, folded = page, 1
    while folded:  # those within others first
        main, folded = re.subn(r"<details(?:(?!<details).)*?</details>", "", main, flags=re.DOTALL)
    for word in ("γ", "label mass", "poe-bt", "Spearman", "Bradley", "logit", "validity", "style"):
        assert word not in shown_in(main.partition('id="making"')[0])


def test_weights_and_cuts_are_told(tmp_path):
    pairs = list(itertools.permutations("abcd", 2))
    answers = [Judgement(Question(*pair), p=0.8 if pair[0] < pair[1] else 0.3, weight=3.0) for pair in pairs]
    answers[0] = replace(answers[0], cut=120, mass=0.2, cost=0.5, tokens_in=10, seconds=0.5)
    page = written(folder_of(tmp_path / "run", dict.fromkeys("abcd", "text"), answers))
    assert "window: 1 times" in html.unescape(page)
    assert "$0.50" in page
    assert "½ in 100.0%" in page


@pytest.mark.measures
def test_the_bootstrap_of_many_texts_takes_little_memory_and_is_that_of_all_draws_at_once():
    x, y = np.random.default_rng(3).normal(size=(2, 3000))
    y += x
    tracemalloc.start()
    found = bootstrap(x, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40e6  # 160 MB where all draws are made at once
    drawn = np.random.default_rng(0).integers(len(x), size=(1000, len(x)))[::100]
    for own, of in zip(found[:, ::100], (spearmanr, pearsonr), strict=True):
        np.testing.assert_allclose(own, [of(x[some], y[some])[0] for some in drawn], rtol=1e-9)


@pytest.mark.long
@pytest.mark.measures
def test_a_report_and_a_finished_run_of_20_000_items_take_at_most_300_mb(tmp_path):
    large_run(tmp_path, 40_000, 20_000)
    run = tmp_path / "comparo-runs" / "finished"
    assert command_size(tmp_path, "runs", "--report", str(run))[2] < 300
    assert 4_500_000 < (run / "report.html").stat().st_size < 5_000_000
    again = ("rank", "items.jsonl", "--budget", "2n", "--judge", "simulated/soft", "--format", "csv")
    assert command_size(tmp_path, *again)[2] < 300


def test_the_page_says_who_is_among_the_best_k(tmp_path):
    """Computed again from the folder, where the goal is part of the identity of the run."""
    texts = {f"t{number}": f"Text {number}." for number in range(9)}
    ranking = rank(texts, "better", judge=load_judge("simulated/soft"), goal="top-3", lineup=3, out=tmp_path / "run")
    record = read_record(tmp_path / "run")
    chance = ranking.to_columns()["p_best"]
    assert record.ranking.to_columns()["p_best"] == pytest.approx(chance, abs=1e-9)
    assert np.sum(chance) == pytest.approx(3, abs=0.05)
    page = render(record)
    assert f"{100 * chance[0]:.0f}% among the" in page
    assert page.count(' last">') == 1
    assert best_sentence(ranking) in page
