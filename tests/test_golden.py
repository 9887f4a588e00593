"""Folders and caches of earlier versions open, give the numbers they gave, and go on without asking anything again.

golden.zip holds a run folder of each kind and a cache, without pages, and results.json, the numbers. They stay as they
are; a change that is meant to change numbers stores new ones: python tests/test_golden.py --write
"""

import io
import json
import sqlite3
import sys
import warnings
import zipfile
from contextlib import chdir, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

import comparo as c
from comparo import Items, JudgeError
from inside import DATABASE, Links, Simulated, Voting, criterion_prompt, opened
from test_unchanged import NEAR, apart, compared, digest, judge_of, ranked, rejudged, texts

GOLDEN = Path(__file__).with_name("golden.zip")
CRITERIA = {"wit": "funnier; weight=2", "plot": "more coherent"}
BREAK = 30  # the question at which the judge of a stopped run dies


@dataclass(frozen=True)
class Kept(Simulated):
    """A simulated judge whose answers a cache keeps; `dies` is the number of the question at which it does."""

    dies: int | None = None
    cacheable = True
    ahead = 1

    def judge(self, questions, prompt=None):
        for number, answer in enumerate(super().judge(questions, prompt)):
            if number == self.dies:
                raise JudgeError("the server is gone")
            yield answer


def kept(seed, kind="soft", **more):
    return Kept(kind, texts(8, 2)[1], bias=0.3, noise=0.6, seed=seed, **more)


def run(out, question="better", kinds=("soft",), items=8, **options):
    rows, scores = texts(8, 2)
    rows = [row for row in rows if int(row["id"][1:]) < items]
    judges = [judge_of(scores, kind, seed=number) for number, kind in enumerate(kinds)]
    options = {"budget": "5n", "judge": judges[0] if len(kinds) == 1 else judges} | options
    return ranked(c.rank(rows, question, out=out, **options))


def grown(out):
    if not Path(out).exists():
        run(out, items=6)
    return run(out)


def stopped(out):
    if not Path(out).exists():
        with pytest.raises(JudgeError):
            run(out, judge=kept(0, dies=BREAK), cache="off")
        return run("whole", judge=kept(0), cache="off")
    return run(out, judge=kept(0), cache="off")


def auditioned(out):
    rows, scores = texts(10, 2)
    judges = [judge_of(scores, "soft", seed=k, bias=float(k)) for k in range(2)]
    found = c.audition(rows, "better", judge=judges, pairs=16, out=out)
    return dict(found.table) | {"best": found.best}


def audited(out):
    rows, scores = texts(10)
    return json.loads(c.audit(rows, "better", judge=judge_of(scores), calls=98, out=out).to_json())


def judged_again(out):
    if not Path("rejudged").exists():
        run("rejudged")
    return rejudged(c.rejudge("rejudged", judge_of(texts(8, 2)[1], seed=5), budget="50%", out=out))


def voted(out):
    items, names = Items.of({str(k): f"Text {k}." for k in range(6)}), ["ana", "bo"]
    voting, links = Voting(items, criterion_prompt("better"), names), Links.new().with_judges(names)
    if not Path(out).exists():
        with opened(voting, Path(out), links, {}) as booth:
            for number in range(24):
                ballot = booth.turn(names[number % 2]).ballot
                answer = "A" if ballot.first < ballot.second else "B"
                booth.vote(names[number % 2], ballot.number, ballot.turn, answer, 1.0)
    return ranked(c.fit(out))


def cached(out):
    more = {"cache": f"{out}.sqlite", "budget": "4n"}
    pairs = run(out, judge=kept(1), **more)
    slots = run(f"{out} slots", judge=kept(1), lineup=4, **more)
    return {"pairs": pairs, "slots": slots, "criteria": run(f"{out} criteria", CRITERIA, judge=kept(1), **more)}


KINDS = {
    "one": run,
    "plain": lambda out: run(out, plain=True, orders="one"),
    "decisions": lambda out: run(out, kinds=("hard",)),
    "panel": lambda out: run(out, kinds=("soft", "hard"), budget="10n"),
    "criteria": lambda out: run(out, CRITERIA),
    "line-ups": lambda out: run(out, lineup=4),
    "orders": lambda out: run(out, kinds=("hard",), lineup=4),
    "systems": lambda out: run(out, goal="systems"),
    "compare": lambda out: compared(texts(2, 16)[0], judge_of({"A": 0.0, "B": 0.4}), out=out),
    **{"grown": grown, "stopped": stopped, "audition": auditioned, "audit": audited},
    **{"rejudge": judged_again, "votes": voted, "cache": cached},
}


def answers(folder):
    """How many answers each database below a folder holds."""
    found = {}
    for path in sorted(Path(folder).rglob("*.*")):
        if path.name == DATABASE or path.suffix == ".sqlite":
            with closing(sqlite3.connect(path)) as database:
                tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
                counts = {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}
            found[str(path.relative_to(folder))] = {name: counts[name] for name in counts if "judgement" in name}
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_an_earlier_version_gives_its_numbers_and_goes_on(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile(GOLDEN) as golden:
        golden.extractall(tmp_path)
    known, before = json.loads(Path("results.json").read_text())[kind], answers(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = digest(KINDS[kind](kind))
    assert sorted(found) == sorted(known)
    assert {path: (found[path], known[path]) for path in known if apart(found[path], known[path]) > 1e3 * NEAR} == {}
    assert kind == "stopped" or answers(tmp_path) == before


def write():
    results, zipped = {}, io.BytesIO()
    for kind, make in KINDS.items():
        results[kind] = digest(make(kind))
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as golden:
        golden.writestr("results.json", json.dumps(results))
        for path in sorted(Path().rglob("*")):
            if path.is_file() and path.suffix not in (".html", ".lock") and path.parts[0] != "whole":
                golden.write(path)
    GOLDEN.write_bytes(zipped.getvalue())


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        warnings.simplefilter("ignore")
        write()
