import gzip

import pytest

from comparo import ComparisonsError
from comparo.items import read_items


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("items.csv", "id,text\na,First.\nb,Second.\n", {None: ["a", "b"]}),
        ("items.csv", "name\na\nb\n", {None: ["a", "b"]}),
        ("items.txt", "\ufeffa\n\n  b \n", {None: ["a", "b"]}),
        ("items.jsonl", '{"id": 2}\n{"id": 1}\n', {None: [2, 1]}),
        ("items.csv", "context,id\nx,a\ny,a\nx,b\ny,c\n", {"x": ["a", "b"], "y": ["a", "c"]}),
        ("items.csv", "id,context_id\na,x\nb,x\n", {"x": ["a", "b"]}),
    ],
)
def test_items_by_context(tmp_path, name, text, expected):
    assert read_items(written(tmp_path, name, text)) == expected


def test_gzip(tmp_path):
    path = tmp_path / "items.csv.gz"
    path.write_bytes(gzip.compress(b"id\na\nb\n"))
    assert read_items(path) == {None: ["a", "b"]}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("items.csv", "id\na\nb\na\n", r"row 3 \(line 4\), column 'id': 'a' stands there before"),
        (
            "items.csv",
            "id,context\na,x\nb,x\na,y\n",
            r"row 3 \(line 4\), column 'id': 'a' is the only item in context 'y'",
        ),
        ("items.csv", "id\na\n", "'a' is the only item; there is nothing to compare it with"),
        ("items.csv", "id,text\n,One\nb,Two\n", r"row 1 \(line 2\), column 'id': '' is not a label"),
        ("items.csv", "id\n", "there are no items in .*items.csv; give at least two"),
        ("items.txt", "\n\n", "there are no items"),
        ("items.doc", "a", "the ending is not a known one"),
    ],
)
def test_items_that_cannot_be_ranked(tmp_path, name, text, message):
    with pytest.raises(ComparisonsError, match=message):
        read_items(written(tmp_path, name, text))


def test_a_text_file_that_is_none(tmp_path):
    with pytest.raises(ComparisonsError, match="is not a file"):
        read_items(tmp_path / "missing.txt")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\nb\n")
    with pytest.raises(ComparisonsError, match="not UTF-8"):
        read_items(tmp_path / "latin.txt")
