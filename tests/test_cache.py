"""The judgement cache as a user meets it: what is asked again and what is not, kills, and files that cannot be used."""

import json
import math
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from comparo import Judgement, Question, StoreError, load_judge, rank, rejudge
from comparo.judges import Probe
from inside import (
    CACHE_SCHEMA,
    DEFAULT_WORDING,
    LONGEST_CLAIM,
    PAGE,
    Cache,
    CachedJudge,
    JudgeThreads,
    Voice,
    answers_to,
    clear,
    contents,
    criterion_prompt,
    digest_of,
    head_of,
    key_of_answer,
    open_database,
    read_judgements,
    remembering,
    repair_cache,
)
from processes import Forked
from run_faults import DAMAGES, run_with_damaged_caches
from servers import Api, prefers, refusal, words
from split import one_short

KEY = "sk-a-key-that-must-appear-nowhere"
CACHE = Path("comparo-runs", "cache.sqlite")
SERVER = prefers(0.3)
PROMPT = criterion_prompt("better", wording=DEFAULT_WORDING)


@pytest.fixture
def folder(tmp_path):
    write_items(tmp_path / "items.jsonl", {f"item {k}": f"Text number {k}. A quarter." for k in range(12)})
    return tmp_path


def write_items(path, texts):
    path.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items()))


def ask(api, *more, criterion="better"):
    judge = ("--judge", "openai/any", "--base-url", api.url, "--price", "1,1", "-o", "retries=0")
    return ("rank", "items.jsonl", "--criterion", criterion, *judge, *more)


def prompts(api):
    """What was asked, without the probe of the judge."""
    return [request.body["messages"][0]["content"] for request in api.asked if "messages" in request.body]


def rows(path, *statements):
    """Change or read the rows of a database, but not their checksums."""
    with closing(sqlite3.connect(path)) as connection, connection:
        return [connection.execute(statement).fetchall() for statement in statements][-1]


@pytest.mark.long
def test_nothing_is_asked_twice_whatever_the_seed_the_budget_the_choice_of_pairs_and_the_folder(run, folder):
    with Api(SERVER) as api:
        first = run(folder, ask(api, "--budget", "4n", "--out", "first"), OPENAI_API_KEY=KEY)
        assert first.returncode == 0, first.stderr
        assert len(prompts(api)) == 48
        assert len(api.requests) == 48 + 1  # the probe of the judge, which no later run with the cache asks again
        for more in (["--seed", "1"], ["--plain"], ["--budget", "6n"], ["--goal", "top-3"]):
            done = run(folder, ask(api, "--budget", "4n", *more))
            assert done.returncode == 0, done.stderr
            assert "from the cache" in done.stderr
        assert len(set(prompts(api))) == len(prompts(api))
        run(folder, ask(api, "--budget", "100%"))
        assert len(prompts(api)) == 132
        again = run(folder, ask(api, "--budget", "4n", "--out", "second"))
        assert again.stdout == first.stdout
        assert re.search("48 of 48.*cache", again.stderr)
        assert "spent" not in again.stderr
        assert len(prompts(api)) == 132
        assert len(api.requests) == 132 + 1
        other = run(folder, ask(api, "--budget", "4n", criterion="worse"))
        assert "cache" not in other.stderr
        assert len(prompts(api)) == 132 + 48
        asked_again = run(folder, ask(api, "--budget", "4n", "--out", "third", "--cache", "off"))
        assert asked_again.stdout == first.stdout
        assert len(prompts(api)) == 132 + 96
    written = b"".join(path.read_bytes() for path in (folder / CACHE).parent.glob("cache.sqlite*"))
    assert b"quarter" not in written
    assert KEY.encode() not in written
    assert (folder / CACHE).stat().st_mode & 0o077 == 0


def test_what_came_from_the_cache_is_told_and_costs_nothing(run, folder):
    with Api(SERVER) as api:
        run(folder, ask(api, "--budget", "3n"))
        done = run(folder, ask(api, "--budget", "5n", "--out", "run", "--format", "json"))
        calls, requests = json.loads(done.stdout)["calls"], len(prompts(api))
        assert calls["answered"] == 60
        assert calls["cached"] == 60 - (requests - 36) > 0
        assert calls["cost"] == pytest.approx((requests - 36) * 102e-6)  # 100 tokens in and 2 out
        assert re.search(rf"{calls['cached']} of 60.*cache; \$0\.00", done.stderr)
        page = (folder / "run" / "report.html").read_text()
        assert f"{calls['cached']} of 60 answers" in page
        kept = read_judgements(folder / "run")
        assert sum(one.cached for one in kept) == calls["cached"]
        assert {one.model for one in kept} == {"any-2026"}
        again = run(folder, ask(api, "--budget", "5n", "--out", "run", "--format", "json"))
        rounded = [json.loads(out, parse_float=lambda x: round(float(x), 9)) for out in (again.stdout, done.stdout)]
        assert rounded[0] == rounded[1]  # but for the order in which costs are added
        table = run(folder, ["runs", "--cached"]).stdout
        assert "openai/any" in table
        assert f"{requests} answers" in table
        assert f"{requests} answers were removed" in run(folder, ["runs", "--cached", "--clear", "openai/any"]).stdout
    assert contents(folder / CACHE) == []


@pytest.mark.long
def test_a_budget_in_dollars_buys_the_same_run_with_a_cache_as_without(run, folder):
    with Api(SERVER) as api:
        dear = ("--price", "100,1000", "-o", "concurrency=1", "--budget", "$0.30")
        first = run(folder, ask(api, *dear, "--out", "first"))
        assert first.returncode == 0, first.stderr
        requests = len(prompts(api))
        again = run(folder, ask(api, *dear, "--out", "second"))
        assert again.stdout == first.stdout
        assert len(prompts(api)) == requests
        assert re.search(f"{requests} of {requests} answers .*cache", again.stderr)


@pytest.mark.long
def test_every_command_that_asks_a_judge_uses_the_cache(run, folder):
    with Api(SERVER) as api:
        run(folder, ask(api, "--budget", "100%", "--out", "run"))
        judge = ("--judge", "openai/any", "--base-url", api.url)
        assert len(prompts(api)) == 132
        (folder / "pairs.csv").write_text("first,second\nitem 1,item 2\nitem 3,item 2\n")
        judged = run(folder, ["judge", "pairs.csv", "--items", "items.jsonl", "--criterion", "better", *judge])
        assert judged.stdout.splitlines()[0].endswith(",cached")
        assert re.search("2 of 2.*cache", judged.stderr)
        found = run(folder, ["audition", "items.jsonl", "--criterion", "better", *judge, "--format", "json"])
        assert json.loads(found.stdout)["cached"] == 40
        for number, start in enumerate((0, 5)):
            texts = {f"q{k}": f"Text number {start + 2 * k}. A quarter." for k in range(3)}
            write_items(folder / f"{number}.jsonl", texts)
        duel = run(folder, ["compare", "0.jsonl", "1.jsonl", "--criterion", "better", *judge, "--format", "json"])
        assert json.loads(duel.stdout)["cached"] == 6
        assert len(prompts(api)) == 132
        again = run(folder, ["judge", "run", *judge])
        assert again.returncode == 0, again.stderr
        assert len(prompts(api)) == 132


def test_failures_are_not_kept(run, folder):
    with Api(*[SERVER] * 30, *[refusal(418, "no")] * 6, SERVER) as api:
        done = run(folder, ask(api, "--budget", "4n", "-o", "concurrency=1"))
        assert done.returncode == 0, done.stderr
    assert contents(folder / CACHE)[0].answers == 48
    assert len(prompts(api)) == 54


def test_equal_texts_get_answers_of_their_own_which_a_later_run_gets_too(tmp_path):
    """Sampled verdicts are draws: the same one must not count twice within a run."""
    texts = {"a": "Number 1.", "b": "Number 1.", "c": "Number 2."}
    with Api(words("A", "B", "B")) as api:
        ask = {"judge": f"openai/any; base_url={api.url}, votes=3", "budget": "100%"}
        rank(texts, "better", **ask, cache=tmp_path / "cache", out=tmp_path / "first")
        assert len(prompts(api)) == 6
        rank(texts, "better", **ask, cache=tmp_path / "cache", out=tmp_path / "second")
        assert len(prompts(api)) == 6
        assert sum(one.cached for one in read_judgements(tmp_path / "second")) == 6
        # A voice twice in a run is asked twice, and a run that is continued knows which answers it has had.
        rank(texts, "better", **ask | {"judge": [ask["judge"]] * 2, "budget": "200%"}, cache=tmp_path / "cache")
        assert len(prompts(api)) == 12
        lost = """DELETE FROM judgements WHERE first = '"b"' AND second = '"c"'"""
        rows(tmp_path / "second" / "judgements.db", lost)
        clear(tmp_path / "cache")
        rank(texts, "better", **ask, cache=tmp_path / "cache", out=tmp_path / "second")
        rank(texts, "better", **ask, cache=tmp_path / "cache", out=tmp_path / "second")
        assert len(prompts(api)) == 13


def test_python_has_the_cache_by_the_rule_of_the_command_line(run, folder):
    texts = {name: f"Text number {k}. A quarter." for k, name in enumerate("abc")}
    write_items(folder / "texts.jsonl", texts)
    with Api(SERVER) as api:
        name, given = f"openai/any; base_url={api.url}, retries=0", {"budget": "100%", "kind": "Text"}
        flags = ["--criterion", "better", "--judge", name, "--budget", "100%", "--out", "run"]
        assert run(folder, ["rank", "texts.jsonl", *flags]).returncode == 0
        for asked, out, judge, cache in (
            (6, "by-name", name, None),
            (12, "off", name, "off"),
            (18, None, name, None),  # in memory
            (24, "object", load_judge(name), None),
            (24, None, load_judge(name), CACHE),
        ):
            rank(texts, "better", judge=judge, out=out, cache=cache, **given)
            assert len(prompts(api)) == asked
        found = rejudge("by-name", f"{name}, max_tokens=9")
        assert (len(prompts(api)), found.questions) == (30, 6)
        rejudge("off", f"{name}, max_tokens=9")
        assert len(prompts(api)) == 30


class Slow:
    """A judge that streams: it answers a question only when the test says so."""

    name, settings, ahead, streams = "test/slow", {"tone": "grave"}, 2, True

    def __init__(self):
        self.may = threading.Semaphore(0)
        self.asked = []

    def judge(self, questions, prompt):
        for question in questions:
            self.asked.append(question)
            self.may.acquire()
            yield Judgement(question, p=0.25, mass=1.0)


def question(number):
    return Question(number, "x", first_text=f"text {number}", second_text="other")


def test_an_answer_from_the_cache_comes_while_the_judge_works_and_while_it_waits(tmp_path):
    slow = Slow()
    (judge,) = remembering([slow], tmp_path / "cache")
    assert isinstance(judge, CachedJudge)
    assert (judge.name, judge.settings, judge.ahead, judge.streams) == (slow.name, slow.settings, 2, True)
    assert not hasattr(judge, "ready")
    slow.may.release()
    voice = Voice(None, judge, PROMPT)
    list(answers_to([question(1)], voice))
    judge.cache.begin()

    def came(threads):
        (answer,) = threads.answers(30)
        return answer

    with JudgeThreads([voice], list) as threads:
        threads.ask(question(1))  # the judge was not even started
        assert came(threads).cached
        threads.ask(question(2))
        while len(slow.asked) < 2:
            time.sleep(0.005)
        slow.may.release()
        assert not came(threads).cached
        judge.cache.begin()
        for number in (1, 2):
            threads.ask(question(number))  # the judge waits for a question that it never gets
            assert came(threads).cached
    assert [one.first for one in slow.asked] == [1, 2]
    judge.cache.close()


def test_what_ends_the_judge_ends_the_one_behind_a_cache(tmp_path):
    (judge,) = remembering([load_judge("openai/any", base_url="http://127.0.0.1:9/v1", retries=0)], tmp_path / "cache")
    with pytest.raises(Exception, match="no server"):
        list(answers_to([question(1)], Voice(None, judge, PROMPT)))
    judge.cache.close()


def test_what_determines_an_answer_is_in_the_key_and_labels_are_not(tmp_path):
    one = load_judge("openai/any")
    others = [
        (load_judge("openai/other"), PROMPT),
        (load_judge("openai/any", base_url="http://localhost:1/v1"), PROMPT),
        (load_judge("openai/any", votes=3), PROMPT),
        (one, criterion_prompt("better", wording="between")),
        (one, criterion_prompt("worse")),
    ]
    heads = [head_of(one, PROMPT), *(head_of(*other) for other in others)]
    assert len(set(heads)) == len(heads)
    assert head_of(load_judge("openai/any", concurrency=1, price="1,1", timeout=3), PROMPT) == heads[0]
    texts = ("x", "y", None), ("y", "x", None), ("x", "y", "z"), ("xy", "", None)
    shown = [Question("a", "b", 1, *each) for each in texts]
    assert len({key_of_answer(heads[0], each) for each in shown}) == 4
    files = [tmp_path / name / "model.gguf" for name in "ab"]
    for number, path in enumerate(files):
        path.parent.mkdir()
        path.write_bytes(b"GGUF" + bytes(3_000_000) + bytes([number]) * 1000)
    assert digest_of(files[0]) != digest_of(files[1])
    assert digest_of(files[0].parent) != digest_of(files[1].parent)


def start(folder, api, *more):
    command = [sys.executable, "-m", "comparo.cli", *map(str, ask(api, *more))]
    return Forked(command, env=dict(os.environ), cwd=folder, stderr=subprocess.PIPE)


def test_four_processes_that_share_a_cache_ask_every_question_once(folder):
    with Api(prefers(0.3, after=0.01)) as api:
        more = ("--budget", "100%", "--seed")
        every = [start(folder, api, *more, seed, "--out", f"run{k}") for k, seed in enumerate((1, 1, 2, 3))]
        said = [process.communicate()[1] for process in every]
        assert [process.returncode for process in every] == [0] * 4, said
        assert len(prompts(api)) == 132
        assert len(api.requests) == 132 + 1
    assert contents(folder / CACHE)[0].answers == 132
    assert not open_claims(folder / CACHE)


def open_claims(path):
    return rows(path, "SELECT key, pid FROM claims")


def test_what_a_process_that_is_killed_was_asking_another_one_asks(folder):
    at_once = 4
    with Api(prefers(0.3, after=0.02)) as api:
        more = ("--budget", "100%", "-o", f"concurrency={at_once}")
        killed, other = (start(folder, api, *more, "--out", name) for name in ("killed", "other"))
        while len(prompts(api)) < 30:
            time.sleep(0.002)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        begun = time.monotonic()
        said = other.communicate()[1]
        assert other.returncode == 0, said
        assert time.monotonic() - begun < LONGEST_CLAIM / 2
        assert len(prompts(api)) <= 132 + at_once
    assert not open_claims(folder / CACHE)


def test_a_claim_ends_by_the_answer_by_a_failure_with_its_process_and_after_a_while(tmp_path):
    one, other = Cache(tmp_path / "cache.sqlite"), Cache(tmp_path / "cache.sqlite")
    begin, gone = os.getppid(), 2**22 + 1  # larger than any process number

    def of(pid, at):
        with closing(sqlite3.connect(one.path)) as connection, connection:
            connection.execute("REPLACE INTO claims VALUES (?, ?, ?)", (b"key", pid, at))

    assert one.claim(b"key")
    assert other.claim(b"key")  # of the same process
    for pid, at, is_free in [
        (begin, time.time(), False),
        (begin, time.time() - 2 * LONGEST_CLAIM, True),
        (begin, time.time() + 2 * LONGEST_CLAIM, True),  # the clock was set back
        (gone, time.time(), True),
    ]:
        of(pid, at)
        assert one.claim(b"key") is is_free
    of(begin, time.time())
    one.release(b"key")
    assert open_claims(one.path) == [(b"key", begin)]  # only its own
    (answer,) = answers_to([question(1)], Voice(None, CachedJudge(Stuck(fails=True), one), PROMPT))
    assert answer.failed
    with pytest.raises(ZeroDivisionError):
        list(answers_to([question(1), question(2)], Voice(None, CachedJudge(Stuck(), one), PROMPT)))
    while len(open_claims(one.path)) > 1:  # the judge's thread releases them
        time.sleep(0.005)
    assert open_claims(one.path) == [(b"key", begin)]


class Stuck:
    """A judge that takes all questions; then it fails to answer them, or ends."""

    name, settings, ahead = "stuck/any", {}, 1

    def __init__(self, fails=False):
        self.fails = fails

    def judge(self, questions, prompt):
        for one in list(questions):
            if not self.fails:
                raise ZeroDivisionError
            yield Judgement(one, error="no")


def test_a_cache_from_before_claims_has_them(tmp_path):
    path = filled(tmp_path / "cache.sqlite", 3).path
    rows(path, "DROP TABLE claims")
    cache = Cache(path)
    assert cache.claim(b"key")
    assert contents(path)[0].answers == 3
    assert open_claims(path) == [(b"key", os.getpid())]


@pytest.mark.long
def test_a_cache_that_cannot_be_made_or_written_is_one_warning_and_the_run_goes_on(run, folder, monkeypatch):
    (folder / "file").write_text("in the way")
    with Api(SERVER) as api:
        done = run(folder, ask(api, "--budget", "4n", "--cache", "file/cache.sqlite"))
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("file/cache.sqlite cannot") == 1
        assert len(prompts(api)) == 48
        run(folder, ask(api, "--budget", "4n", "--out", "other"))
        other = sqlite3.connect(folder / CACHE, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")  # another program that does not let go
        (judge,) = remembering([load_judge("openai/any", base_url=api.url)], None)
        monkeypatch.setattr("comparo.log.database.BUSY", 0.01)
        cache = Cache(folder / CACHE)
        cache.begin()
        texts = [f"Text number {k}. A quarter." for k in range(12)]
        pairs = [Question(i, j, None, texts[i], texts[j]) for i, j in permutations(range(12), 2)]
        answers = list(answers_to(pairs, Voice(None, CachedJudge(judge, cache), PROMPT)))
        other.execute("ROLLBACK")
        other.close()
        cache.close()
    assert not any(answer.failed for answer in answers)
    assert sum(answer.cached for answer in answers) == 48  # it could still be read


FULL = (
    "import resource, logging; from comparo.log.cache import Cache; from comparo import Judgement, Question; "
    "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); "
    "logging.basicConfig(format='%(message)s'); cache = Cache('cache.sqlite'); cache.begin(); "
    "[cache.add(bytes([k % 256, k // 256]), 'test', Judgement(Question('a', 'b'), p=0.5)) for k in range(3000)]; "
    "cache.begin(); print(cache.find(bytes(2), Question('a', 'b')).p)"
)


def test_a_full_disk_is_one_warning_and_what_was_kept_stays(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr.count("cannot be written") == 1, done.stderr
    assert done.stdout == "0.5\n"
    (kept,) = contents(tmp_path / "cache.sqlite")
    assert 10 < kept.answers < 3000


@pytest.mark.long
def test_a_damaged_cache_and_a_file_of_something_else_are_refused_before_anything_is_asked(run, folder):
    (folder / "notes.txt").write_text("These are notes, and no cache. " * 99)
    with Api(SERVER) as api:
        done = run(folder, ask(api, "--cache", "notes.txt"))
        assert done.returncode == 1
        assert all(part in done.stderr for part in ("notes.txt is damaged", "--cache off"))
        run(folder, ask(api, "--budget", "4n", "--out", "run", "--cache", "off"))
        asked = len(prompts(api))
        done = run(folder, ask(api, "--cache", "run/judgements.db"))
        assert "run/judgements.db" in done.stderr
        run(folder, ask(api, "--budget", "4n", "--cache", "kept"))
        data = (folder / "kept").read_bytes()
        (folder / "kept").write_bytes(data[:100] + bytes([7]) * 3996 + data[PAGE:])
        assert "damaged" in run(folder, ask(api, "--cache", "kept", "--budget", "5n")).stderr
        assert len(prompts(api)) == asked + 48
    assert len(read_judgements(folder / "run")) == 48
    with pytest.raises(StoreError, match="no cache"):
        contents(folder / "nowhere")


ROW = {"p": 0.7, "mass": 1.0, "weight": 1.0, "reply": "A", "tokens_in": 90, "tokens_out": 1}
WRONG = {
    "p": (-0.1, 1.5, math.inf, "x", b"x"), "mass": (-1.0, 2.0, "x"), "weight": (-5.0, 0.0, 1e30, math.inf, "x"),
    "reply": (b"x", 7), "tokens_in": (-1, 2.5, 2**62, "x"), "tokens_out": (-1, None), "seconds": (-1.0, math.inf, "x"),
    "cost": (1e30, -1.0, math.inf, "x"), "cut": (-1, "x"),
}  # fmt: skip


def test_a_damaged_row_of_the_cache_is_none_and_one_that_is_sound_beside_it_is_found(tmp_path, caplog):
    cache, shown = Cache(tmp_path / "cache"), Question("a", "b")
    cache.begin()
    wrong = [(name, value) for name, values in WRONG.items() for value in values]
    for number, _ in enumerate(wrong):
        cache.add(bytes([number]), "test", Judgement(shown, **ROW))
    cache.close()
    with (
        closing(open_database(str(tmp_path / "cache"), CACHE_SCHEMA)) as connection,
        connection,
    ):  # with their checksums
        for number, (name, value) in enumerate(wrong):
            with suppress(sqlite3.IntegrityError):  # NULL where there must be a value
                connection.execute(f"UPDATE answers SET {name} = ? WHERE key = ?", (value, bytes([number])))
    cache.begin()
    accepted = [each for number, each in enumerate(wrong) if cache.find(bytes([number]), shown) is not None]
    assert accepted == [("reply", 7), ("tokens_out", None)]  # SQLite stores 7 as text, and no NULL
    assert [str(cache.path) in record.getMessage() for record in caplog.records] == [True]
    cache.add(bytes(1), "test", Judgement(shown, **ROW | {"p": 0.25}))
    for had in (), [bytes(1)]:  # a run that is continued has had the sound answer, not the damaged one
        cache.begin(had)
        found = cache.find(bytes(1), shown)
        assert found is None if had else (found.p, found.weight) == (0.25, 1.0)
    cache.close()


def filled(path, rows=120):
    """A cache of answers whose p tells their key, and a probe."""
    cache = Cache(path)
    cache.begin()
    for number in range(rows):
        cache.add(bytes([number]), "test", Judgement(Question("a", "b"), **ROW | {"p": (number + 1) / 500}))
    cache.keep(b"probe", "test", Probe("It answers.", {"most": 20}, cost=0.5))
    cache.close()
    return cache


def answers_in(path):
    """The number of answers, and the keys whose answer in a cache is another than the one that was stored."""
    cache, found, wrong = Cache(path), 0, []
    with suppress(StoreError):
        cache.begin()
        for number in range(200):
            if (answer := cache.find(bytes([number]), Question("a", "b"))) is not None:
                found += 1
                wrong += [number] if answer.p != (number + 1) / 500 else []
        if (probe := cache.found(b"probe")) is not None:
            wrong += ["probe"] if probe.found != {"most": 20} else []
        found += probe is not None
    cache.close()
    return found, wrong


def test_a_cache_that_is_cut_anywhere_or_has_a_flipped_bit_gives_no_false_answer(tmp_path, monkeypatch):
    monkeypatch.setattr("comparo.log.cache.BUSY", 0.0)
    path = filled(tmp_path / "cache").path
    sound = path.read_bytes()
    assert answers_in(path) == (121, [])
    rng = np.random.default_rng(0)
    for size in range(PAGE, len(sound), 509):
        path.write_bytes(sound[:size])
        assert answers_in(path)[1] == [], size
    for place in rng.integers(PAGE, len(sound), 60).tolist():
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1 << place % 8]) + sound[place + 1 :])
        assert answers_in(path)[1] == [], place


def test_a_valid_value_that_nobody_stored_is_no_answer_of_a_cache(tmp_path):
    path = filled(tmp_path / "cache").path
    rows(path, "UPDATE answers SET p = 0.5 WHERE number < 9", """UPDATE probes SET found = '{"most": 5}'""")
    assert answers_in(path) == (112, [])


def make_old(path):
    """Make a cache one of the version before, whose rows have no checksums."""
    dropped = (f"ALTER TABLE {table} DROP COLUMN checksum" for table in ("answers", "probes"))
    rows(path, *dropped, "PRAGMA user_version = 3")


def test_a_cache_from_before_checksums_keeps_its_answers_and_gets_them(tmp_path):
    path = filled(tmp_path / "cache").path
    make_old(path)
    assert answers_in(path) == (121, [])
    rows(path, "UPDATE answers SET p = 0.5 WHERE number = 1")
    assert answers_in(path) == (120, [])


def zeroed(path, page):
    """Fill a page with zeros, the first one being 0."""
    data = path.read_bytes()
    path.write_bytes(data[: page * PAGE] + bytes(PAGE) + data[(page + 1) * PAGE :])


@pytest.mark.parametrize("is_old", [False, True])
def test_a_cache_without_its_first_page_is_repaired_without_loss(run, tmp_path, is_old):
    path = filled(tmp_path / "cache").path
    if is_old:
        make_old(path)
    zeroed(path, 0)
    with pytest.raises(StoreError, match=f"--cached --repair {path}"):
        Cache(path).begin()
    done = run(tmp_path, ["runs", "--cached", "--repair", "cache"])
    assert done.returncode == 0
    assert all(part in done.stdout for part in ("120 answers", "cache.damaged"))
    assert answers_in(path) == (121, [])
    assert path.stat().st_mode & 0o077 == 0


def test_a_repaired_cache_has_what_can_be_read_and_no_false_answer(tmp_path):
    path = filled(tmp_path / "cache", 200).path
    other = "UPDATE answers SET judge = 'other' WHERE number <= 40"
    rows(path, other, "UPDATE answers SET p = 0.5 WHERE number = 150")
    assert clear(path, "other") == 40  # which moves the tables within the file
    data = path.read_bytes()
    pages = [page for page in range(len(data) // PAGE) if data[page * PAGE :][:PAGE].count(b"test") > 5]
    zeroed(path, pages[1])
    with pytest.raises(StoreError, match="--repair"):
        contents(path)
    kept = repair_cache(path).kept
    assert 60 < kept < 159
    assert [one.answers for one in contents(path)] == [kept]
    assert answers_in(path)[1] == []


def test_a_cache_of_which_nothing_is_left_stays_as_it_is(tmp_path):
    path = tmp_path / "cache"
    path.write_bytes(b"These are notes. " * 999)
    with pytest.raises(StoreError, match="nothing can"):
        repair_cache(path)
    assert [one.name for one in tmp_path.iterdir()] == ["cache"]
    assert path.read_bytes() == b"These are notes. " * 999
    with pytest.raises(StoreError, match="no cache"):
        repair_cache(tmp_path / "nowhere")


@pytest.mark.long
@pytest.mark.parametrize("kinds", one_short([["weight is -5"], list(DAMAGES)]))
def test_a_damaged_cache_costs_no_answer_and_is_named(kinds):
    for kind, found in run_with_damaged_caches(kinds):
        [words] = found.words
        assert (kind, found.lost, words.count("Traceback")) == (kind, 0, 0)
        damaged = [line for line in words.splitlines() if " cache cache " in line]
        assert len(damaged) == 1 or (kind.startswith("cut at") and not damaged and not found.calls), kind


def test_judges_whose_answers_cost_nothing_or_are_not_determined_have_no_cache(run, folder):
    done = run(folder, ["rank", "items.jsonl", "--judge", "simulated/soft", "--out", "run"])
    assert done.returncode == 0, done.stderr
    assert not (folder / CACHE).exists()
    path = folder / "cache"
    rank({"a": "x", "b": "yy"}, "better", judge=lambda first, second: float(len(first) > len(second)), cache=path)
    assert not path.exists()
