"""Damaged run folders: what a repair keeps, drops and says, and that the folder can be used again."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

import pytest

import comparo
from comparo import ComparisonsError, Judgement, StoreError, export_run, write_report
from inside import (
    DATABASE,
    PAGE,
    Cache,
    Storage,
    Store,
    contents,
    count_judgements,
    list_runs,
    open_database,
    read_configuration,
    read_judgements,
    repair,
    stored_items,
)
from run_faults import damage_again_and_again
from split import one_short

TEXTS = {f"item {number}": f"Text number {number}. " * (1 + number % 2 * 300) for number in range(12)}
CALLS = 96


class Counting:
    """A judge that prefers the item with the larger name and counts its calls."""

    name, settings, ahead = "counting/judge", {}, 8

    def __init__(self):
        self.count = 0

    def judge(self, questions, prompt):
        for question in questions:
            self.count += 1
            yield Judgement(question, p=0.7 if question.first > question.second else 0.3, mass=1.0)


def rank(folder, texts=TEXTS, **options):
    """Rank into a folder and return how many calls that took."""
    judge = Counting()
    comparo.rank(texts, "better", judge=judge, **{"budget": "8n", "out": folder} | options)
    return judge.count


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound") / "run"
    assert rank(folder) == CALLS
    return folder


@pytest.fixture
def folder(sound, tmp_path):
    return Path(shutil.copytree(sound, tmp_path / "run"))


def change(folder, *statements, open_file=open_database):
    """Change rows together with their checksums."""
    with closing(open_file(str(folder / DATABASE))) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def flip(folder, *statements):
    """Change rows but not their checksums, as damage does."""
    change(folder, *statements, open_file=sqlite3.connect)


def rewrite(folder, how):
    path = folder / DATABASE
    path.write_bytes(how(path.read_bytes()))


def without_page(content, page=0):
    return content[: page * PAGE] + bytes(PAGE) + content[(page + 1) * PAGE :]


def check_usable(folder):
    assert write_report(folder).is_file()
    assert export_run(folder, folder.parent / "x.jsonl", texts=True, force=True).rows["comparisons"] == CALLS
    assert len(comparo.fit(folder).scores) == len(TEXTS)


@pytest.mark.parametrize(
    ("name", "other"),
    one_short([(b"tokens_in INTEGER", b"tokens_io INTEGER"), (b"TABLE judgements", b"TABLE judgemenus")]),
)
def test_a_flipped_letter_of_the_schema_costs_no_judgement(folder, name, other):
    before = read_judgements(folder)
    rewrite(folder, lambda content: content.replace(name, other, 1))
    with pytest.raises(StoreError, match="--repair"):
        read_judgements(folder)
    found = repair(folder)
    assert (found.kept, found.lost) == (CALLS, 0)
    assert read_judgements(folder) == before
    assert rank(folder) == 0
    check_usable(folder)


@pytest.mark.parametrize("page", [0, 1])
def test_a_zeroed_first_page_costs_no_judgement(folder, page):
    rewrite(folder, lambda content: without_page(content, page))
    assert repair(folder).kept == CALLS
    assert rank(folder) == 0


def test_what_cannot_be_read_is_dropped_and_asked_again(folder):
    change(
        folder,
        "UPDATE judgements SET p = 1.9 WHERE number = 3",
        "UPDATE judgements SET weight = -1 WHERE number = 4",
        """UPDATE judgements SET first = '"jtem 1"' WHERE number = 5""",
        "UPDATE judgements SET second = 'item' WHERE number = 6",
        "UPDATE judgements SET p = NULL WHERE number = 7",
    )
    with pytest.raises(StoreError, match=r"judgement 3: .*1\.9"):
        read_judgements(folder)
    found = repair(folder)
    assert (found.kept, found.lost) == (CALLS - 4, 4)
    assert len(read_judgements(folder)) == CALLS - 5  # that about an item that is not there is not read
    assert rank(folder) == 5
    check_usable(folder)


@pytest.mark.parametrize(
    ("loss", "left"),
    one_short(
        [
            ("DELETE FROM items WHERE number IN (2, 5)", 10),
            ("DELETE FROM items", 0),
            ("DELETE FROM contexts", 12),
            ("UPDATE items SET text = 'Uext' WHERE number = 3", 12),
            ("""UPDATE items SET scores = '{"a": 1' WHERE number = 4""", 11),
        ]
    ),
)
def test_lost_items_come_back_from_the_input_and_cost_no_call(folder, loss, left, caplog):
    change(folder, loss)
    repair(folder)
    caplog.clear()
    if left:
        assert len(stored_items(folder)) == left
        assert write_report(folder).is_file()
        assert ("left out" in caplog.text) == (left < len(TEXTS))
    else:
        with pytest.raises(StoreError, match="no items"):
            write_report(folder)
    assert rank(folder) == 0
    assert stored_items(folder).texts == tuple(TEXTS.values())
    check_usable(folder)


def test_items_that_a_grown_run_lost_are_not_taken_for_new_ones(folder):
    more = {f"new {number}": f"Another text {number}." for number in range(2)}
    assert rank(folder, TEXTS | more) == 16
    change(folder, "DELETE FROM items WHERE number = 4", "DELETE FROM growths")
    repair(folder)
    assert rank(folder, TEXTS | more) == 0
    assert set(stored_items(folder).ids) == set(TEXTS | more)


def test_what_a_file_that_is_cut_short_lacks_is_asked_again(folder):
    size = (folder / DATABASE).stat().st_size // PAGE
    rewrite(folder, lambda content: content[: (size - 1) * PAGE])
    repair(folder)
    assert rank(folder) + count_judgements(folder)[0] >= CALLS


@pytest.mark.parametrize("size", [0, 100, PAGE])
def test_where_nothing_is_left_the_folder_stays_as_it_was(folder, size):
    rewrite(folder, lambda content: content[:size])
    with pytest.raises(StoreError, match="fresh=True"):
        repair(folder)
    with pytest.raises(StoreError, match=r"fresh=True|--repair"):
        rank(folder)
    assert (folder / DATABASE).stat().st_size == size
    assert rank(folder, out=Storage(folder, fresh=True)) == CALLS


@pytest.mark.parametrize("column", ["scores", "id", "context"])
def test_items_that_cannot_be_read_are_named_as_damage(folder, column):
    change(folder, f"UPDATE items SET {column} = '\"' WHERE number = 2")
    with pytest.raises(StoreError, match="--repair"):
        stored_items(folder)
    repair(folder)
    assert len(stored_items(folder)) == 11


@pytest.mark.parametrize(
    "damage",
    [
        """replace(configuration, '"seed": 0', '"seed": 1')""",
        "substr(configuration, 1, 99)",
        "CAST(x'ff' || substr(configuration, 2) AS TEXT)",
        "'[1, 2]'",
        "'{}'",
        "7",
    ],
)
def test_a_damaged_configuration_in_the_database_is_that_of_run_json(folder, damage):
    configuration = read_configuration(folder)
    change(folder, f"UPDATE run SET configuration = {damage}")
    assert read_configuration(folder) == configuration
    assert list_runs(folder.parent)[0].answered == CALLS
    assert rank(folder) == 0
    (folder / "run.json").unlink()
    assert rank(folder) == 0  # the run has mended the database too
    change(folder, f"UPDATE run SET configuration = {damage}")
    repair(folder)
    assert read_configuration(folder)["identity"] == configuration["identity"]


def test_judgements_in_the_log_of_a_killed_run_are_kept(folder, tmp_path):
    configuration = read_configuration(folder)
    with closing(Store(folder, configuration.pop("identity"), configuration)) as store:
        (one, *_) = store.judgements()
        store.add([Judgement(one.question, error="late")])
        shutil.copytree(folder, tmp_path / "killed")
    assert (tmp_path / "killed" / f"{DATABASE}-wal").stat().st_size
    rewrite(tmp_path / "killed", without_page)
    assert repair(tmp_path / "killed").kept == CALLS + 1
    assert read_judgements(tmp_path / "killed")[-1].error == "late"


@pytest.mark.parametrize("damage", ["p = 0.99896", "withdrawn = 1", "first = second", "checksum = NULL"])
def test_a_valid_value_that_nobody_stored_is_noticed_dropped_and_asked_again(folder, damage):
    flip(folder, f"UPDATE judgements SET {damage} WHERE number = 3")
    with pytest.raises(StoreError, match="judgement 3: "):
        read_judgements(folder)
    for read in (comparo.Comparisons.read, comparo.fit):
        with pytest.raises(ComparisonsError, match=r"judgement 3: .*--repair"):
            read(folder)
    with pytest.raises(StoreError, match="--repair"):
        rank(folder)
    found = repair(folder)
    assert (found.kept, found.lost) == (CALLS - 1, 1)
    assert rank(folder) == 1
    check_usable(folder)


def test_a_folder_from_before_checksums_is_read_goes_on_and_is_repaired(folder, tmp_path):
    before, old = read_judgements(folder), tmp_path / "old"
    change(folder, """UPDATE run SET configuration = json_remove(configuration, '$.checksum')""")
    flip(folder, "ALTER TABLE judgements DROP COLUMN checksum", "PRAGMA user_version = 3")
    (folder / "run.json").unlink()
    shutil.copytree(folder, old)
    assert read_judgements(folder) == before
    assert len(comparo.Comparisons.read(folder)) == CALLS
    rewrite(old, without_page)
    assert repair(old).kept == CALLS
    for mended in (folder, old):
        assert rank(mended) == 0
        flip(mended, "UPDATE judgements SET p = 0.5 WHERE number = 3")
        with pytest.raises(StoreError, match="judgement 3: "):
            read_judgements(mended)


@pytest.fixture(scope="module")
def panel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("panel") / "run"
    judges = ["simulated/soft", "simulated/hard"]
    comparo.rank(dict(list(TEXTS.items())[:6]), "better", judge=judges, budget="8n", out=folder)
    return folder


VALUES = {
    "voice": ["NULL", "'nobody'", "''", "x'00'"],
    "p": ["NULL", "-0.1", "1.5", "'x'"],
    "weight": ["0", "1e30", "9e999"],
    "mass": ["NULL", "0", "7"],
    "context": ["'1'", "'[]'", "'x'"],
    "first": ["second", "'null'", "'7'", "'[1]'", "'true'", "'NaN'"],
    "second": ["first", "'null'", "'[]'", """'["item 1"]'""", """'["item 1", "item 2"]'"""],
    "lineup": ["'A>B'", "'-1|-2'", "'x'"],
    "error": ["''", "'late'"],
    "cached": ["7"],
}


@pytest.mark.parametrize("kind", one_short(["panel", "one voice"]))
def test_a_repair_leaves_only_what_the_reader_of_the_folder_accepts(sound, panel, kind, tmp_path):
    source = panel if kind == "panel" else sound
    for number, (column, value) in enumerate((name, value) for name in VALUES for value in VALUES[name]):
        folder = Path(shutil.copytree(source, tmp_path / str(number)))
        with suppress(sqlite3.IntegrityError):  # NULL where there must be a value
            change(folder, f"UPDATE judgements SET {column} = {value} WHERE number = 3")
        kept = repair(folder).kept
        found = len(comparo.Comparisons.read(folder))
        assert 0 <= kept - found <= 1, (column, value)
        assert len(read_judgements(folder)) >= found


@pytest.mark.long
@pytest.mark.parametrize(("damages", "seed"), one_short([(3, 1), (30, 2)]))
def test_random_damage_ends_in_a_folder_that_can_be_used(damages, seed):
    found = damage_again_and_again(damages, seed)
    assert found.words == []
    assert found.kept > found.lost


def test_a_database_that_may_not_be_read_is_neither_damaged_nor_on_a_full_disk():
    """Root may read everything, and is somebody else for a while."""
    with tempfile.TemporaryDirectory() as name:
        folder, cache, user = Path(name, "run"), Path(name, "cache.sqlite"), os.geteuid()
        Store(folder, {"judge": "x"}).close()
        opened = Cache(cache)
        opened.begin()
        opened.close()
        for path in (Path(name), folder):
            path.chmod(0o755)
        for path in (folder / DATABASE, cache):
            path.chmod(0o600 if user == 0 else 0)
        try:
            os.seteuid(65534 if user == 0 else user)
            for read, path in ((read_judgements, folder), (contents, cache)):
                with pytest.raises(StoreError, match=f"{path} cannot be .*permissions") as raised:
                    read(path)
                assert not any(word in str(raised.value) for word in ("room", "delete", "damaged"))
        finally:
            os.seteuid(user)
