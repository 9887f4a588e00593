"""The data sets of the paper: their files, and a file without people's scores."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper.datasets import load_dataset
from benchmarks.paper.prompts import paper_prompt
from comparo import Comparisons, ComparisonsError

DATA = Path(__file__).parents[2] / "shared" / "data"


def test_a_file_without_scores_is_refused(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_text("".join(json.dumps({"id": name, "text": name}) + "\n" for name in "ab"))
    with pytest.raises(ComparisonsError, match=r"f\.jsonl .*scores"):
        load_dataset("hanna", path)


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


@pytest.mark.recorded
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
