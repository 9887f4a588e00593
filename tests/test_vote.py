"""The voting page by HTTP: who may do what, what is stored, and what survives."""

import csv
import io
import json
import os
import random
import resource
import socket
import sqlite3
import stat
import threading
from collections import Counter

import pytest

from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.run.folders import list_runs, repair
from comparo.run.store import read_configuration, read_judgements
from comparo.vote.text import as_markdown, differences
from voting import LOST, Server, Voter, essays

JUDGES = ("--judges", "ana,bo,cy")


@pytest.fixture
def texts(tmp_path):
    return essays(tmp_path / "essays")


@pytest.fixture
def server(texts, tmp_path):
    with Server(texts, tmp_path / "run", *JUDGES) as started:
        yield started


def rows(folder, query):
    connection = sqlite3.connect(folder / "judgements.db")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


# Who may do what


def test_without_a_token_nothing_is_shown(server):
    token = server.links()["judges"]["ana"]
    wrong = [
        "/", "/vote/", f"/vote/{token[:-1]}/", f"/vote/{token}x/", f"/organiser/{token}/", f"/join/{token}/",
        f"/vote/{server.links()['organiser']}/", f"/vote/{token}/live", f"/vote/{token}/../../etc/passwd",
        f"/vote/{token}/base.html.j2", "/docs", f"/join/{server.links()['invitation']}/", "/vote/%00/", "/vote/é/",
    ]  # fmt: skip
    answers = [server.request("GET", path.replace("é", "%C3%A9")) for path in wrong]
    assert {status for status, _, _ in answers} == {403}
    assert len({text for _, _, text in answers}) == 1
    assert "comparo" not in answers[0][2]
    assert "Essay" not in answers[0][2]
    for path in (f"/vote/{token}x/vote", "/vote/x/undo", "/join/x/name"):
        assert server.request("POST", path, {})[0] == 403


def test_every_answer_has_the_headers_that_keep_it_private(server):
    for path in ("/", f"{server.voter('ana').base}/", f"{server.organiser}/live", f"{server.organiser}/page.css"):
        _, headers, _ = server.request("GET", path)
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy


def test_what_another_site_sends_is_refused(server):
    voter = server.voter("ana")
    vote = {"ballot": voter.ballot, "turn": 1, "choice": "A", "seconds": 1}
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Host": "evil.example"},
    ):
        assert server.request("POST", f"{voter.base}/vote", vote, headers)[0] == 403
    assert read_judgements(server.out) == []
    own = {"Origin": f"http://127.0.0.1:{server.port}", "Sec-Fetch-Site": "same-origin"}
    assert server.request("POST", f"{voter.base}/vote", vote, own)[0] == 200
    assert len(read_judgements(server.out)) == 1


def test_another_name_for_this_machine_is_refused_also_for_reading(server):
    base = server.voter("ana").base
    assert server.request("GET", f"{base}/", headers={"Host": "evil.example"})[0] == 403
    assert server.request("GET", f"{base}/", headers={"Host": "localhost:99"})[0] == 200


def test_a_vote_that_makes_no_sense_is_refused_and_changes_nothing(server):
    voter = server.voter("ana")
    for message in (
        *(b"{", b"[]", b"\xff", b'{"ballot": 1e400}', b"[" * 9000, b" " * 20_000),
        {"ballot": "1", "turn": 1, "choice": "A"},
        {"ballot": 1, "turn": 1, "choice": "C"},
        {"ballot": 1, "turn": 1, "choice": ["A"]},
        {"ballot": True, "turn": 1, "choice": "A"},
        {"ballot": 10**30, "turn": 1, "choice": "A"},
    ):
        status, _, text = server.request("POST", f"{voter.base}/vote", message)
        assert status in (400, 413), message
        assert json.loads(text)["error"]
    assert server.request("POST", f"{voter.base}/skip", {"ballot": 1, "turn": 1, "reason": " "})[0] == 400
    assert read_judgements(server.out) == []


def test_a_judge_answers_own_ballots_only(server):
    ana, bo = server.voter("ana"), server.voter("bo")
    for action, message in (
        ("vote", {"ballot": ana.ballot, "turn": 1, "choice": "A"}),
        ("skip", {"ballot": ana.ballot, "turn": 1, "reason": "no"}),
    ):
        assert bo.post(action, **message)[0] == 200
    assert read_judgements(server.out) == []
    ana.vote("A")
    assert bo.post("undo", vote=ana.last)[0] == 200
    assert server.request("GET", f"{bo.base}/differences?ballot={ana.ballot}")[0] == 400
    assert len(read_judgements(server.out)) == 1


def test_the_files_of_a_run_are_private(server):
    for path in [server.out, *server.out.iterdir()]:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


# Votes


def test_votes_ties_and_skips_are_stored_as_judgements(server):
    ana = server.voter("ana")
    for choice in ("A", "B", "="):
        assert ana.vote(choice)[0] == 200
    ana.skip("  the text\nis cut \x1b[31m ")
    found = read_judgements(server.out)
    assert [(one.reply, one.p) for one in found[:3]] == [("A", 1.0), ("B", 0.0), ("=", 0.5)]
    assert [one.question.voice for one in found] == ["ana"] * 4
    assert all(0 <= one.seconds <= 2.0 for one in found)
    assert found[3].failed
    assert found[3].error.startswith("skipped: the text is cut")
    assert "\x1b" not in found[3].error
    assert (ana.votes, server.voter("bo").votes) == (3, 0)


def test_a_vote_that_is_posted_twice_counts_once(server):
    ana = server.voter("ana")
    first = {"ballot": ana.ballot, "turn": ana.turn, "choice": "A", "seconds": 1.0}
    shown = [ana.post("vote", **first)[1]["html"], ana.post("vote", **first | {"choice": "B"})[1]["html"]]
    assert shown[0] == shown[1]
    assert [one.reply for one in read_judgements(server.out)] == ["A"]
    threads = [threading.Thread(target=server.voter("bo").vote, args=("B",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_judgements(server.out)) == 2


def test_a_vote_can_be_taken_back_and_given_again(server):
    ana = server.voter("ana")
    ana.vote("A")
    ana.vote("A")
    late = {"ballot": ana.ballot - 1, "turn": 1, "choice": "A"}
    number, seen = ana.last, (ana.ballot, ana.texts())
    assert ana.undo()[0] == 200
    assert (ana.ballot, ana.turn, ana.votes) == (late["ballot"], 2, 1)
    assert len(read_judgements(server.out)) == 1
    ana.post("undo", vote=number)
    ana.post("vote", **late)  # arrives late, and is about what was taken back
    assert (ana.votes, len(read_judgements(server.out))) == (1, 1)
    ana.vote("B")
    assert [one.reply for one in read_judgements(server.out)] == ["A", "B"]
    assert (ana.ballot, ana.texts()) == seen
    for _ in range(2):
        ana.undo()
    assert (ana.votes, ana.last) == (0, None)
    assert read_judgements(server.out) == []
    assert len(rows(server.out, "SELECT * FROM judgements")) == 3


def test_a_skip_can_be_taken_back(server):
    ana = server.voter("ana")
    pair = ana.texts()
    ana.skip("I know who wrote one")
    ana.undo()
    assert ana.texts() == pair
    ana.vote("=")
    assert [one.p for one in read_judgements(server.out)] == [0.5]


def test_texts_are_shown_and_names_are_not(server):
    ana = server.voter("ana")
    assert len(ana.texts()) == 2
    assert "e0" not in ana.html
    assert "bo" not in ana.html.split("<body")[1].split("<dialog")[0].replace("body", "")


# Who sees which pair


def test_pairs_are_shared_out(texts, tmp_path):
    with Server(texts, tmp_path / "run", "--judges", "ana,bo,cy,di", "--twice", "0.25") as server:
        voters = {name: server.voter(name) for name in server.links()["judges"]}
        rng, seen = random.Random(0), {name: [] for name in voters}
        for _ in range(75):
            name = rng.choice(list(voters))
            seen[name].append(tuple(voters[name].texts()))
            voters[name].vote(rng.choice("AB="))
    looks = Counter(frozenset(pair) for pairs in seen.values() for pair in pairs)
    for pairs in seen.values():
        assert len(set(map(frozenset, pairs))) == len(pairs)
        sides = Counter()
        for left, right in pairs:
            sides[left] += 1
            sides[right] -= 1
        assert max(map(abs, sides.values())) <= 2
    # 60 pairs, of which 15 want a second look; the last ones may still wait for theirs
    assert set(looks.values()) <= {1, 2}
    assert 12 <= sum(look == 2 for look in looks.values()) <= 15
    assert {number for pair in looks for number in pair} == set(range(12))


def test_a_judge_sees_every_pair_once_and_is_thanked(tmp_path):
    with Server(essays(tmp_path / "essays", 4), tmp_path / "run", "--judges", "ana,bo") as server:
        for name in ("ana", "bo"):
            voter, seen = server.voter(name), set()
            while voter.ballot is not None:
                assert frozenset(voter.texts()) not in seen
                seen.add(frozenset(voter.texts()))
                voter.vote("A")
            assert len(seen) == 6
            assert "seen every pair" in voter.html
            voter.undo()
            assert voter.ballot is not None


def test_a_skipped_pair_goes_to_another_judge(tmp_path):
    with Server(essays(tmp_path / "essays", 6), tmp_path / "run", "--judges", "ana,bo", "--twice", "0") as server:
        ana = server.voter("ana")
        pair = frozenset(ana.texts())
        ana.skip("I cannot decide")
        assert frozenset(server.voter("bo").texts()) == pair


def test_a_judge_stays_with_a_context_for_a_while(tmp_path):
    items = [
        {"id": f"s{k}", "text": f"Essay number {k} of {c}.", "context": f"Article {c} <b>"} for c in range(3) for k in range(6)
    ]  # fmt: skip
    (tmp_path / "items.json").write_text(json.dumps(items))
    with Server(tmp_path / "items.json", tmp_path / "run", "--judges", "ana,bo", "--heading", "Article") as server:
        seen = []
        ana = server.voter("ana")
        for _ in range(9):
            seen.append(ana.html.split("Article ")[1][0])
            assert "Article {} &lt;b&gt;".format(seen[-1]) in ana.html
            ana.vote("A")
        assert server.voter("bo").texts()
    assert [seen[k : k + 3] for k in (0, 3, 6)] == [[c] * 3 for c in "012"]
    assert {one.question.context for one in read_judgements(server.out)} == {f"Article {c} <b>" for c in range(3)}


# Judges who come later


def test_an_invitation_gives_a_link_of_ones_own(texts, tmp_path, run):
    with Server(texts, tmp_path / "run", "--invite") as server:
        path = f"/join/{server.links()['invitation']}"
        assert "Your name" in server.request("GET", f"{path}/")[2]
        status, _, text = server.request("POST", f"{path}/name", {"name": " Ana  Lima "})
        assert status == 200
        voter = Voter(server, json.loads(text)["path"].rstrip("/"))
        assert "Ana Lima" in voter.html
        voter.vote("A")
        for name in ("ana lima", "", "others", "x" * 41, "a\x07", 7, None):
            assert server.request("POST", f"{path}/name", {"name": name})[0] == 409, name
        Voter(server, json.loads(server.request("POST", f"{path}/name", {"name": "Bo"})[2])["path"].rstrip("/")).vote("B")
        assert list(server.links()["judges"]) == ["Ana Lima", "Bo"]
    assert list(read_configuration(server.out)["identity"]["voices"]) == ["Ana Lima", "Bo"]
    assert len(read_judgements(server.out)) == 2


# What survives


def test_the_same_command_goes_on_with_the_same_links(texts, tmp_path):
    with Server(texts, tmp_path / "run", *JUDGES) as server:
        ana = server.voter("ana")
        ana.vote("A")
        before, shown, ballot = server.links(), ana.texts(), ana.ballot
        out, said = server.stop()
    assert server.process.returncode == 0
    assert f"http://127.0.0.1:{before['port']}/vote/{before['judges']['ana']}/" in out
    assert "1 votes are in" in said
    assert f"comparo report {tmp_path / 'run'}" in said
    with Server(texts, tmp_path / "run", "--judges", "ana,bo,cy,di") as again:
        links = again.links()
        assert links["port"] == before["port"]
        assert {name: links["judges"][name] for name in before["judges"]} == before["judges"]
        assert "di" in links["judges"]
        ana = again.voter("ana")
        assert (ana.texts(), ana.ballot, ana.votes) == (shown, ballot, 1)
        ana.undo()
        assert ana.votes == 0


def test_another_question_or_other_texts_are_another_run(texts, tmp_path, run):
    with Server(texts, tmp_path / "run", *JUDGES):
        pass
    (texts / "e00.txt").write_text("Another.")
    found = run(tmp_path, ["vote", texts, "--criterion", "better argued", "--out", "run", "--no-browser"])
    assert found.returncode == 2
    assert "holds another run: items was" in found.stderr


def test_a_full_disk_stops_the_page_and_loses_nothing(server):
    ana = server.voter("ana")
    ana.vote("A")
    shown = ana.ballot
    hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (os.path.getsize(server.out / "judgements.db-wal"), hard))
    for action in (lambda: ana.vote("B"), lambda: ana.skip("why"), ana.undo):
        status, answer = action()
        assert status == 507
        assert "NOT saved" in answer["error"]
        assert "organiser" in answer["error"]
    bo = server.request("GET", f"/vote/{server.links()['judges']['bo']}/")
    assert (bo[0], "Essay" in bo[2]) == (507, False)
    assert [one.reply for one in read_judgements(server.out)] == ["A"]
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    ana.open()
    assert ana.ballot == shown
    assert ana.vote("B")[0] == 200
    assert [one.reply for one in read_judgements(server.out)] == ["A", "B"]


def test_a_repaired_folder_keeps_ballots_and_what_was_taken_back(texts, tmp_path):
    with Server(texts, tmp_path / "run", *JUDGES) as server:
        ana = server.voter("ana")
        for choice in "ABAB":
            ana.vote(choice)
        ana.undo()
        shown = ana.ballot
    before = [one.reply for one in read_judgements(server.out)]
    assert repair(server.out).kept == 4
    assert [one.reply for one in read_judgements(server.out)] == before == ["A", "B", "A"]
    with Server(texts, tmp_path / "run", *JUDGES) as again:
        assert again.voter("ana").ballot == shown


def test_fifty_kills_under_load_lose_and_double_nothing(tmp_path):
    """Five judges vote as fast as they can, 1,000 votes in all, while the server is killed again and again."""
    texts, each, kills = essays(tmp_path / "essays", 60), 200, 50
    names = [f"judge {number}" for number in range(5)]
    server = Server(texts, tmp_path / "run", "--judges", ",".join(names))
    given: dict[str, list[tuple[int, str]]] = {name: [] for name in names}
    up, trouble = threading.Event(), []

    def work(name):
        rng = random.Random(name)
        while len(given[name]) < each:
            up.wait()
            try:
                voter = server.voter(name)
                while len(given[name]) < each:
                    ballot, choice = voter.ballot, rng.choice("AB=")
                    # Once more where the answer is lost: the judge clicks the same again.
                    while True:
                        try:
                            status, _ = voter.vote(choice)
                            break
                        except LOST:
                            up.wait()
                            threading.Event().wait(0.01)
                    assert status == 200
                    given[name].append((ballot, choice))
            except LOST:
                continue
            except Exception as error:  # of this test
                trouble.append(error)
                return

    threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for kill in range(1, kills + 1):
        with server:
            up.set()
            while sum(map(len, given.values())) < kill * each * len(names) / (kills + 1) and not trouble:
                threading.Event().wait(0.001)
            up.clear()
            server.kill()
    with server:
        up.set()
        for thread in threads:
            thread.join(60)
    assert not trouble
    assert [len(votes) for votes in given.values()] == [each] * len(names)
    stored = rows(
        server.out,
        "SELECT voter, ballots.number, reply FROM ballots JOIN judgements ON judgements.number = judgement",
    )
    assert sorted(stored) == sorted((name, *vote) for name, votes in given.items() for vote in votes)
    assert len(read_judgements(server.out)) == len(stored) == each * len(names)
    seen = rows(server.out, "SELECT voter, min(first, second), max(first, second) FROM ballots")
    assert len(seen) == len(set(seen))
    looks = Counter(tuple(pair) for _, *pair in seen)
    assert max(looks.values()) <= 2
    assert sum(look == 2 for look in looks.values()) / len(looks) == pytest.approx(0.2, abs=0.02)
