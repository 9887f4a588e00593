"""The part of the page about who judged: runs of several voices, and none of it for one voice."""

import csv
import io
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from comparo import Comparisons, Judgement, Question, reliability
from inside import quiet_fit, read_record, who_judged
from test_report import finished, run_folder, stories, written
from test_voices import SIZE, TEXTS, told
from test_voices import task as work_of


def voices_folder(folder, judges, **options):
    """The folder of a run of several voices, with the files that it writes in the end."""
    return finished(folder, work_of(judges, **options))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    judges = [told("ana"), told("bo"), told("cy", scale=-1.0)]
    return voices_folder(tmp_path_factory.mktemp("voices") / "run", judges, budget="30n")


@pytest.fixture(scope="module")
def record(folder):
    return read_record(folder)


class Section(HTMLParser):
    """The words and the start tags of one section of a page."""

    def __init__(self, page, name):
        super().__init__()
        self.words, self.tags, self._inside, self._name = [], [], False, name
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag == "section":
            self._inside = dict(attrs).get("id") == self._name
        if self._inside:
            self.tags.append(tag)

    def handle_data(self, data):
        if self._inside:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def test_the_page_says_who_judged(folder):
    page = written(folder)
    assert re.search("voice [^<]*both orders", page)
    text = Section(page, "voices").text
    for words in ("Who judged", "told/ana", "told/bo", "told/cy", "How far any two voices agree"):
        assert words in text
    assert text.count("ranks against") == 1
    assert "Cost" not in text
    assert not set(text) & set("αβγρστφ")


@pytest.mark.long
def test_more_calls_than_ordered_pairs_are_possible(folder, record):
    assert len(record.answered) == 30 * SIZE > SIZE * (SIZE - 1)
    assert "720 of 1,656" in Section(written(folder), "trust").text
    assert reliability(folder)["mass"].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.long
def test_figures_are_those_of_the_ranking_and_of_reliability(record):
    found, voices, table = who_judged(record), record.ranking.tables["voices"], reliability(record.ranking)
    order = np.argsort(voices["judge"])
    voices, table = ({name: column[order] for name, column in one.items()} for one in (voices, table))
    assert [member["name"] for member in found["members"]] == voices["judge"].tolist() == table["judge"].tolist()
    assert [member["calls"] for member in found["members"]] == voices["calls"].tolist()
    for name in ("agreement", "low", "high"):
        assert [member[name] for member in found["members"]] == pytest.approx(voices[name])
    for name in ("signal", "flips"):
        assert [member[name] for member in found["members"]] == pytest.approx(table[name])


@pytest.mark.long
def test_cells_hold_the_agreement_of_two_voices(record):
    rows, order = who_judged(record)["crossed"], np.argsort(record.ranking.tables["voices"]["judge"])
    correlation = record.ranking.solution.panel.agreement.correlation[np.ix_(order, order)]
    for r, row in enumerate(rows):
        assert row["cells"][r] is None
        for s, cell in enumerate(row["cells"]):
            if r != s:
                assert cell == pytest.approx(np.clip(correlation[r, s], -1, 1))
    assert rows[0]["cells"][2] < 0


def answers(scores, pairs, voice, scale=1.0, noise=0.0):
    rng = np.random.default_rng(0)
    for first, second in pairs:
        for one, other in ((first, second), (second, first)):
            p = 1 / (1 + math.exp(-scale * (scores[one] - scores[other]) + noise * rng.normal()))
            yield Judgement(Question(one, other, voice=voice), p=p, cost=0.001 if voice == "ana" else math.nan)


def test_costs_and_voices_of_one_ranking_are_named(record):
    rng = np.random.default_rng(3)
    names = list(TEXTS)
    scores = {name: float(value) for name, value in zip(names, rng.standard_normal(SIZE), strict=True)}
    other = {name: value + 0.5 * float(rng.standard_normal()) for name, value in scores.items()} | {names[4]: -3.0}
    scores[names[4]] = 3.0
    pairs = [(names[k], names[(k + step) % SIZE]) for k in range(SIZE) for step in (1, 3, 5, 8)]
    judgements = [
        *answers(scores, pairs, "ana"),
        *answers(scores, pairs, "bo", 2.0),
        *answers(other, pairs, "cy", -1, 0.5),
    ]
    asked = [(*one.question.items, one.p, one.question.voice) for one in judgements]
    first, second, p, judge = zip(*asked, strict=True)
    data = Comparisons.from_columns(first, second, p, judge=judge)
    made = replace(record, judgements=judgements, ranking=quiet_fit(data, "panel"))
    found = who_judged(made)
    assert "as ana" in found["members"][1]["remarks"][0]
    assert found["priced"]
    costs = [member["cost"] for member in found["members"][:3]]
    assert costs == pytest.approx([0.192, math.nan, math.nan], nan_ok=True)


@pytest.mark.long
def test_a_voice_that_was_left_out_is_named_with_the_reason(tmp_path):
    judges = [told("ana"), told("bo"), told("cy", stop_after=5)]
    found = who_judged(read_record(voices_folder(tmp_path / "run", judges)))
    last = found["members"][-1]
    assert last["name"] == "told/cy"
    assert any("fewer than 30" in remark for remark in last["remarks"])
    assert any(re.search("left out.*withdrawn", remark) for remark in last["remarks"])
    assert not any("left out" in remark for member in found["members"][:2] for remark in member["remarks"])


@pytest.mark.long
def test_a_coin_is_told_to_know_nothing(tmp_path):
    judges = [told("ana"), told("bo"), told("coin", scale=0.0, noise=1.0)]
    found = who_judged(read_record(voices_folder(tmp_path / "run", judges, budget="12n")))
    assert "next to nothing" in found["members"][2]["remarks"][0]


def test_one_voice_has_none_of_it(tmp_path):
    folder = run_folder(tmp_path / "run", stories())
    assert who_judged(read_record(folder)) is None
    page = written(folder)
    assert "Who judged" not in page
    assert "#voices" not in page
    assert not (voices_folder(tmp_path / "alone", [told("ana")]) / "voices.csv").exists()


def test_the_run_writes_the_scores_of_each_voice(folder, record):
    header, *rows = csv.reader(io.StringIO((folder / "voices.csv").read_text(encoding="utf-8")))
    assert header == ["item", "told/ana", "told/bo", "told/cy"]
    views = record.ranking.tables["views"]
    assert [row[0] for row in rows] == views["item"].tolist()
    assert [float(row[3]) for row in rows] == pytest.approx(views["told/cy"])
    ranking = next(csv.reader(io.StringIO((folder / "ranking.csv").read_text(encoding="utf-8"))))
    assert ranking == ["item", "score", "std", "low", "high", "rank", "tier", "comparisons"]
