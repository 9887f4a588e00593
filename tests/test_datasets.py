"""The data sets of the paper: every published layout on a tiny file of invented content, and the real files."""

import copy
import csv
import gzip
import hashlib
import json
import re
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from benchmarks.paper import downloads as download
from benchmarks.paper.datasets import HANNA, READERS, load_dataset
from benchmarks.paper.prompts import paper_prompt
from comparo import Comparisons, ComparisonsError

DATA = Path(__file__).parents[2] / "shared" / "data"

ARTICLES = [
    {
        "id": f"dm-test-{number}",
        "text": f"A ferry of number {number} was late.",
        "machine_summaries": [f"Ferry {number}.", f"Late: {number}.", "Boats."],
        "human_summaries": ["The ferry was late."],
        "coherence": [1.0, 2.0, 3.0],
        "consistency": [5.0, None, 4.0],
        "fluency": [3.3333333333, 4.0, 5.0],
        "relevance": [2.0, 2.0, 1.0 + number],
    }
    for number in range(2)
]
RESPONSES = [
    {
        "source": f"{dialogue}\n do you like owls ? \n\n",
        "context": f"{fact}\n",
        "system_id": system,
        "system_output": f"{system} says hoot {fact} \n",
        "scores": {"naturalness": 1.0 + place, "coherence": 3.0 - place, "understandability": 1.0, "overall": 4.0},
    }
    for dialogue, fact in (("hello there", "owls fly"), ("hello there", "owls see"), ("good day", "owls fly"))
    for place, system in enumerate(("Original Ground Truth", "Argmax Decoding"))
]
RATINGS = [
    {
        "Story ID": story,
        "Prompt": "Write of the sea.",
        "Human": "The sea was wide.",
        "Story": f"Story {story},\nof the sea.",
        "Model": model,
        **{name: rating + shift for shift, name in enumerate(HANNA)},
        "Worker ID": f"W{rater}",
        "Assignment ID": f"A{rater}",
        "Work time in seconds": 60,
        "Name": "Ann",
    }
    for story, model in ((95, "Human"), (96, "BertGeneration"))
    for rater, rating in enumerate((1, 2, 4))
]
PASSAGES = [
    {
        "id": 2024,
        "title": "The Lighthouse",
        "text": "It stood on a rock.",
        "level": "B2",
        "questions": {
            str(number): {
                "text": f"What stood on rock {number}?",
                "options": {
                    letter: {"text": f"Thing {letter}", "fac": None, "disc": None} for letter in ("a", "b", "c", "d")
                },
                "answer": "a",
                "diff": difficulty,
                "disc": 0.4,
            }
            for number, difficulty in ((1, 61.25), (2, 48), (3, None))
        },
    },
    {"id": 7, "title": "", "text": "A short one.", "level": "C1", "questions": {}},
]


def write_lines(path, rows):
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_json(path, rows):
    path.write_text(json.dumps(rows, indent=4), encoding="utf-8")
    return path


def write_csv(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_parquet(path, rows):
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize(
    ("write", "name"),
    [(write_lines, "s.jsonl"), (write_lines, "s.jsonl.gz"), (write_parquet, "test-0.parquet"), (write_json, "s.json")],
)
def test_summeval_as_on_the_hub(write, name, tmp_path):
    data = load_dataset("summeval", write(tmp_path / name, ARTICLES))
    assert data.attributes == ("coherence", "consistency", "fluency", "relevance")
    assert data.items.group is None
    items = data.items
    assert items.contexts.tolist() == ["dm-test-0", "dm-test-1"]
    assert items.names["dm-test-1"] == [0, 1, 2]
    assert items.texts[4] == "Late: 1."
    assert items.context_texts == tuple(article["text"] for article in ARTICLES)
    assert items.scores["relevance"].tolist() == [2, 2, 1, 2, 2, 2]
    np.testing.assert_array_equal(items.scores["consistency"], [5, np.nan, 4, 5, np.nan, 4])
    assert paper_prompt(f"{data.name}/relevance").has_context


def test_topicalchat_as_unieval_has_it(tmp_path):
    data = load_dataset("topicalchat", write_json(tmp_path / "topical_chat.json", RESPONSES))
    items = data.items
    assert data.attributes == ("coherence", "continuity", "naturalness", "understandability")  # no prompt for overall
    assert items.contexts.tolist() == ["tc-00", "tc-01", "tc-02"]  # the same words about another fact are another one
    assert items.context_texts == ("hello there\n do you like owls ?",) * 2 + ("good day\n do you like owls ?",)
    assert items.texts[2] == "Original Ground Truth says hoot owls see"
    assert data.items.group.tolist() == ["Original Ground Truth", "Argmax Decoding"] * 3
    assert items.scores["naturalness"].tolist() == [1, 2] * 3
    assert items.scores["continuity"].tolist() == items.scores["coherence"].tolist() == [3, 2] * 3
    assert "continues the dialogue better" in paper_prompt(f"{data.name}/continuity").template


def test_hanna_as_its_authors_have_it(tmp_path):
    data = load_dataset("hanna", write_csv(tmp_path / "hanna_stories_annotations.csv", RATINGS))
    assert data.name == "hanna"
    assert data.items.names == {"hanna": ["95", "96"]}
    assert data.items.texts == ("Story 95,\nof the sea.", "Story 96,\nof the sea.")
    assert data.items.group.tolist() == ["Human", "BertGeneration"]
    for shift, name in enumerate(HANNA):
        np.testing.assert_allclose(data.items.scores[name.lower()], [7 / 3 + shift] * 2)
    assert set(data.attributes) == {name.lower() for name in HANNA}


def test_a_rating_that_is_missing_does_not_count(tmp_path):
    rows = [dict(row) for row in RATINGS]
    rows[0]["Empathy"] = ""
    for row in rows[3:]:
        row["Surprise"] = ""
    scores = load_dataset("hanna", write_csv(tmp_path / "hanna.csv", rows)).items.scores
    np.testing.assert_allclose(scores["empathy"], [5.0, 7 / 3 + 2])
    np.testing.assert_allclose(scores["surprise"], [7 / 3 + 3, np.nan])


@pytest.mark.parametrize(("write", "name"), [(write_lines, "c.jsonl"), (write_json, "c.json")])
def test_cmcqrd_asks_with_passage_and_options(write, name, tmp_path):
    data = load_dataset("cmcqrd", write(tmp_path / name, PASSAGES))
    assert data.attributes == ("difficulty",)
    assert data.items.contexts.tolist() == [None]
    assert data.items.ids.tolist() == ["2024-1", "2024-2"]  # the third has no difficulty
    assert data.items.scores["difficulty"].tolist() == [61.25, 48.0]
    assert data.items.texts[1] == (
        "The Lighthouse\nIt stood on a rock.\n\nWhat stood on rock 2?\nA) Thing a\nB) Thing b\nC) Thing c\nD) Thing d"
    )
    assert not paper_prompt(f"{data.name}/difficulty").has_context


def changed(rows, row, field, value):
    rows = copy.deepcopy(rows)
    *path, last = field.split("/")
    place = rows[row]
    for step in path:
        place = place[int(step) if isinstance(place, list) else step]
    place[int(last) if isinstance(place, list) else last] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (changed(ARTICLES, 1, "text", 7), r"f\.jsonl, row 2, column 'text': 7 is not text"),
        (changed(ARTICLES, 1, "id", "dm-test-0"), r"f\.jsonl, row 2, column 'id': 'dm-test-0' stands there before"),
        (changed(ARTICLES, 0, "id", None), r"f\.jsonl, row 1, column 'id': None is not a label"),
        (changed(ARTICLES, 0, "machine_summaries", "no list"), r"row 1, column 'machine_summaries': 'no list' is no"),
        (changed(ARTICLES, 0, "machine_summaries/1", "  "), r"row 1, column 'machine_summaries\.1': there is no text"),
        (changed(ARTICLES, 1, "fluency", [1.0]), r"row 2, column 'fluency': 1 scores for 3 summaries"),
        (changed(ARTICLES, 1, "fluency/2", "good"), r"row 2, column 'fluency\.2': 'good' is not a number"),
        (changed(ARTICLES, 1, "fluency/2", True), r"row 2, column 'fluency\.2': True is not a number"),
        (changed(ARTICLES, 1, "fluency/2", float("inf")), r"row 2, column 'fluency\.2': inf is not a number"),
        (changed(RESPONSES, 3, "source", None), r"f\.jsonl, row 4, column 'source': None is not text"),
        (changed(RESPONSES, 3, "system_id", ["x"]), r"row 4, column 'system_id': \['x'\] is not a label"),
        (changed(RESPONSES, 3, "scores", 4), r"row 4, column 'scores': 4 is not an object"),
        (changed(RESPONSES, 3, "scores/coherence", "high"), r"row 4, column 'scores\.coherence': 'high' is not a num"),
        (changed(RESPONSES, 1, "system_id", "Original Ground Truth"), r"f\.jsonl: among its items, row 2, .* before"),
        (RESPONSES[:1] + RESPONSES[2:], r"f\.jsonl: .*row 1, .* context 'tc-00'"),
        (changed(RATINGS, 2, "Story", "Another."), r"f\.jsonl, row 3, column 'Story': story 95 "),
        (changed(RATINGS, 4, "Model", "Me"), r"f\.jsonl, row 5, column 'Model': story 96 .*row 4"),
        (changed(RATINGS, 4, "Surprise", "3 of 5"), r"row 5, column 'Surprise': '3 of 5' is not a number"),
        (changed(PASSAGES, 0, "questions", [1]), r"f\.jsonl, row 1, column 'questions': \[1\] is not an object"),
        (changed(PASSAGES, 0, "questions/2", "?"), r"row 1, column 'questions\.2': '\?' is not an object"),
        (changed(PASSAGES, 0, "questions/2/diff", {}), r"row 1, column 'questions\.2\.diff': \{\} is not a number"),
        (changed(PASSAGES, 0, "questions/2/options/b", {}), r"'questions\.2\.options\.b\.text': None is not text"),
        (changed(PASSAGES, 1, "id", 2024), r"f\.jsonl, row 2, column 'id': 2024 stands there before"),
        ([{**PASSAGES[0], "questions": {}}], r"f\.jsonl: among its items, there are no items"),
        (changed(ARTICLES, 1, "text", "half \ud800"), r"its items, row 4, column 'context': .* is half a char"),
        ([{"machine_summaries": []}], r"f\.jsonl: there is no field 'id'"),
        ([{"id": "a", "text": "A."}, {"id": "b", "text": "B."}], r"f\.jsonl has no human scores"),
        ([{"text": "A.", "system": "x"}, {"text": "B."}], r"f\.jsonl, row 2, column 'system': None is not a label"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(rows, message, tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    name = next((name for name, (mark, _) in READERS.items() if mark in rows[0]), "hanna")
    with pytest.raises(ComparisonsError, match=message):
        load_dataset(name, path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1]", r"f\.json, row 1: 1 is not an object"),
        (b"[{]", r"f\.json is not JSON"),
        (b"[" * 100_000, r"f\.json is not JSON"),
        (b"\xff\xfe[", r"f\.json is not UTF-8"),
        (b"", r"f\.json is empty"),
    ],
)
def test_a_broken_json_file_is_one_line(content, message, tmp_path):
    path = tmp_path / "f.json"
    path.write_bytes(content)
    with pytest.raises(ComparisonsError, match=message) as error:
        load_dataset("topicalchat", path)
    assert "\n" not in str(error.value)


def test_a_name_and_a_file_must_agree(tmp_path):
    path = write_csv(tmp_path / "stories.csv", RATINGS)
    with pytest.raises(ComparisonsError, match=r"stories\.csv holds hanna, not summeval"):
        load_dataset("summeval", path)
    with pytest.raises(ComparisonsError, match=r"none\.csv does not exist"):
        load_dataset("hanna", tmp_path / "none.csv")


class Mirror(BaseHTTPRequestHandler):
    """Serves `files` by path; a body shorter than announced where `cut` says so."""

    files: dict[str, bytes]
    asked: list[str]
    cut = False

    def do_GET(self):
        self.asked.append(self.path)
        if self.path not in self.files:
            self.send_error(404, "not here")
            return
        body = self.files[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:-5] if self.cut else body)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A server with three files in the published layouts, pinned in place of the real ones: its address and handler."""
    paths = {name: urlsplit(published.url).path for name, published in download.PUBLISHED.items()}
    made = {
        "summeval": write_parquet(tmp_path / "s.parquet", ARTICLES),
        "topicalchat": write_json(tmp_path / "t.json", RESPONSES),
        "hanna": write_csv(tmp_path / "h.csv", RATINGS),
    }

    class Files(Mirror):
        pass

    Files.files = {f"/mirror{paths[name]}": path.read_bytes() for name, path in made.items()}
    Files.asked = []
    for name, path in made.items():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        monkeypatch.setitem(download.PUBLISHED, name, replace(download.PUBLISHED[name], sha256=digest))
    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/mirror/", Files
        server.shutdown()
        thread.join()


def test_a_set_is_downloaded_once_by_its_name(mirror, tmp_path, monkeypatch):
    url, files = mirror
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, size in (("summeval", 6), ("topicalchat", 6), ("hanna", 2)):
        for _ in range(2):
            data = load_dataset(name, mirror=url)
            assert (data.name, len(data.items)) == (name, size)
    assert len(files.asked) == 3
    kept = sorted(path.name for path in (tmp_path / "cache" / "comparo").iterdir())
    assert kept == ["hanna.csv", "summeval.parquet", "topicalchat.json"]


def test_a_file_in_the_cache_is_never_overwritten(mirror, tmp_path):
    write_csv(tmp_path / "hanna.csv", [{**row, "Model": "Mine"} for row in RATINGS])
    assert load_dataset("hanna", cache=tmp_path, mirror=mirror[0]).items.group.tolist() == ["Mine", "Mine"]
    assert mirror[1].asked == []


def test_what_cannot_be_downloaded_is_said_once_and_leaves_nothing(mirror, tmp_path):
    url, files = mirror
    cache = tmp_path / "cache"
    remedy = r"https://github\.com/dig-team/hanna-benchmark-asg .*give its path"
    with pytest.raises(ComparisonsError, match=rf"/elsewhere/dig-team/.*csv .*not here.*{remedy}"):
        load_dataset("hanna", cache=cache, mirror=url.replace("mirror", "elsewhere"))
    files.cut = True
    with pytest.raises(ComparisonsError, match=rf"5 bytes too early\); .*{remedy}"):
        load_dataset("hanna", cache=cache, mirror=url)
    files.cut = False
    with pytest.raises(ComparisonsError, match="more than 100 bytes"):
        download.fetch("hanna", cache, url, largest=100)
    with pytest.raises(ComparisonsError, match="'ftp://x' is not a mirror"):
        load_dataset("hanna", cache=cache, mirror="ftp://x")
    assert list(cache.iterdir()) == []


def test_another_file_than_the_pinned_one_is_refused(mirror, tmp_path):
    url, files = mirror
    (place,) = (path for path in files.files if path.endswith(".csv"))
    files.files[place] = files.files[place].replace(b"Ann", b"Eve")
    with pytest.raises(ComparisonsError, match=r"hanna\.csv .*SHA-256 is [0-9a-f]{64}, not [0-9a-f]{64}"):
        load_dataset("hanna", cache=tmp_path / "cache", mirror=url)
    assert list((tmp_path / "cache").iterdir()) == []


def test_every_download_is_one_revision_and_one_content():
    for published in download.PUBLISHED.values():
        assert re.search(r"/[0-9a-f]{40}/", published.url)
        assert re.fullmatch(r"[0-9a-f]{64}", published.sha256)


def test_without_a_network_the_address_is_named(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), Mirror) as server:
        port = server.server_port
    with pytest.raises(ComparisonsError) as error:
        load_dataset("summeval", cache=tmp_path, mirror=f"http://127.0.0.1:{port}")
    said = str(error.value)
    assert said.startswith(f"http://127.0.0.1:{port}/datasets/mteb/summeval/resolve/")
    assert "refused" in said
    assert "https://huggingface.co/datasets/mteb/summeval " in said
    assert "give its path" in said
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_said(mirror, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ComparisonsError, match=r"downloaded to .*file.hanna\.csv \("):
        load_dataset("hanna", cache=tmp_path / "file", mirror=mirror[0])


def test_cmcqrd_comes_from_a_path_only():
    with pytest.raises(ComparisonsError, match=r"https://englishlanguageitutoring\.com"):
        load_dataset("cmcqrd")


real = pytest.mark.recorded


@real
@pytest.mark.parametrize(
    ("name", "items", "contexts", "attributes"),
    [("summeval", 1600, 100, 4), ("topicalchat", 360, 60, 6), ("hanna", 1056, 1, 6)],
)
def test_the_real_files(name, items, contexts, attributes):
    data = load_dataset(name, DATA / f"{name}.jsonl")
    assert (len(data.items), len(data.items.contexts)) == (items, contexts)
    assert len(data.attributes) == attributes
    assert len(data.items.group) == items
    assert len(set(data.items.group.tolist())) == {"summeval": 16, "topicalchat": 6, "hanna": 11}[name]
    for attribute in data.attributes:
        assert not np.isnan(data.items.scores[attribute]).any()
        assert paper_prompt(f"{data.name}/{attribute}").has_context == (name != "hanna")
    for path in (DATA / "judgements").glob(f"{name}.*.csv.gz"):
        assert path.name.split(".")[1] in data.attributes
        recorded = Comparisons.read(path)
        known = {context: set(names) for context, names in data.items.names.items()}
        columns = recorded.to_columns()
        for side in ("first", "second"):
            pairs = set(zip(columns["context"].tolist(), map(str, columns[side].tolist()), strict=True))
            assert all(item in known[context] for context, item in pairs)


@real
def test_the_published_layout_of_topicalchat_gives_the_same_items(tmp_path):
    with (DATA / "topicalchat.jsonl").open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    published = [
        {
            "source": row["context"] + " \n\n",
            "context": row["fact"],
            "system_id": row["id"],
            "system_output": row["text"],
            "scores": row["scores"],
        }
        for row in rows
    ]
    one = load_dataset("topicalchat", write_json(tmp_path / "topical_chat.json", published))
    other = load_dataset("topicalchat", DATA / "topicalchat.jsonl")
    assert one.attributes == other.attributes
    assert one.items.group.tolist() == other.items.group.tolist()
    assert one.items.digest() == other.items.digest()
    for attribute in one.attributes:
        np.testing.assert_array_equal(one.items.scores[attribute], other.items.scores[attribute])
