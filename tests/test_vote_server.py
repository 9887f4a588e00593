"""What the voting page survives: kills, a full disk, later starts, and connections without a request."""

import http.client
import json
import random
import re
import resource
import socket
import sqlite3
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing, contextmanager, suppress
from multiprocessing import get_context

import pytest

from comparo import Items, StoreError
from comparo.vote.app import PATIENCE, serve
from comparo.vote.server import HOST, open_socket
from inside import Booth, Links, Store, Voting, criterion_prompt, read_judgements, repair
from split import one_short
from voting import JUDGES, LOST, Server, essays


@pytest.fixture
def texts(tmp_path):
    return essays(tmp_path / "essays")


@pytest.mark.long
def test_the_same_command_goes_on_with_the_same_links(texts, tmp_path):
    with Server(texts, tmp_path / "run") as server:
        ana = server.voter("ana")
        ana.vote("A")
        before, shown, ballot = server.links(), ana.texts(), ana.ballot
        out, said = server.stop()
    assert server.process.returncode == 0
    assert f"http://127.0.0.1:{before['port']}/vote/{before['judges']['ana']}/" in out
    assert re.search(rf" 1, in {server.out}.*comparo runs --report {server.out}", said, re.DOTALL)
    with Server(texts, tmp_path / "run", "--for", "ana,bo,cy,di") as again:
        links = again.links()
        assert {name: links["judges"][name] for name in before["judges"]} == before["judges"]
        assert "di" in links["judges"]
        ana = again.voter("ana")
        assert (ana.texts(), ana.ballot, ana.votes) == (shown, ballot, 1)
        ana.undo()
        assert ana.votes == 0


def test_whoever_is_left_out_at_a_later_start_has_no_link(texts, tmp_path):
    out = tmp_path / "run"
    with Server(texts, out, "--for", "ana,bo", "--invite") as server:
        server.voter("ana").vote("A")
        server.join("Cy")
        before = server.links()["judges"]
    with Server(texts, out, "--for", "Bo") as again:
        status, _, said = again.request("GET", f"/vote/{before['ana']}/")
        assert (status, "ana" in said, said.count(".")) == (403, True, 1)
        status, _, said = again.request("POST", f"/vote/{before['ana']}/vote", {"ballot": 1, "turn": 1, "choice": "A"})
        assert (status, list(json.loads(said))) == (403, ["error"])
        assert [again.voter(name).votes for name in ("bo", "Cy")] == [0, 0]
        page = again.live()
        assert [before[name] in page for name in before] == [False, True, True]
        assert before["ana"] not in again.stop()[0]
    with Server(texts, out, "--invite") as again:
        assert again.request("GET", f"/vote/{before['ana']}/")[0] == 403
    with Server(texts, out) as again:
        assert (again.voter("ana").votes, again.links()["judges"]) == (1, {**again.links()["judges"], **before})


@pytest.mark.long
def test_a_fresh_start_keeps_what_there_was_elsewhere(texts, tmp_path):
    with Server(texts, tmp_path / "run") as server:
        server.voter("ana").vote("A")
        before = server.links()
    with Server(texts, tmp_path / "run", *JUDGES, "--fresh") as again:
        assert not set(again.links()["judges"].values()) & set(before["judges"].values())
        assert again.voter("ana").votes == 0
    assert len(read_judgements(tmp_path / "run-1")) == 1


def test_a_full_disk_stops_the_page_and_loses_nothing(texts, tmp_path):
    with Server(texts, tmp_path / "run") as server:
        ana = server.voter("ana")
        ana.vote("A")
        shown = ana.ballot
        with server.full_disk():
            for action in (lambda: ana.vote("B"), lambda: ana.skip("why"), ana.undo):
                status, answer = action()
                assert status == 507
                assert "NOT saved" in answer["error"]
            bo = server.request("GET", f"/vote/{server.links()['judges']['bo']}/")
            assert (bo[0], "Essay" in bo[2]) == (507, False)
            assert [one.reply for one in read_judgements(server.out)] == ["A"]
        ana.open()
        assert ana.ballot == shown
        assert ana.vote("B")[0] == 200
        assert [one.reply for one in read_judgements(server.out)] == ["A", "B"]


@pytest.mark.long
def test_a_repaired_folder_keeps_ballots_and_what_was_taken_back(texts, tmp_path):
    with Server(texts, tmp_path / "run") as server:
        ana = server.voter("ana")
        for choice in "ABAB":
            ana.vote(choice)
        ana.undo()
        shown = ana.ballot
    before = [one.reply for one in read_judgements(server.out)]
    assert repair(server.out).kept == 4
    assert [one.reply for one in read_judgements(server.out)] == before == ["A", "B", "A"]
    with Server(texts, tmp_path / "run") as again:
        assert again.voter("ana").ballot == shown


@pytest.mark.long
@pytest.mark.parametrize(("kills", "each"), one_short([(1, 40), (50, 200)]))
def test_kills_under_load_lose_and_double_nothing(tmp_path, kills, each):
    """Five judges vote as fast as they can, 1,000 votes in all, while the server is killed again and again."""
    texts = essays(tmp_path / "essays", 60)
    names = [f"judge {number}" for number in range(5)]
    server = Server(texts, tmp_path / "run", "--for", ",".join(names))
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
    with sqlite3.connect(server.out / "judgements.db") as database:
        stored = database.execute(
            "SELECT voter, ballots.number, reply FROM ballots JOIN judgements ON judgements.number = judgement"
        ).fetchall()
        seen = database.execute("SELECT voter, min(first, second), max(first, second) FROM ballots").fetchall()
    assert sorted(stored) == sorted((name, *vote) for name, votes in given.items() for vote in votes)
    assert len(read_judgements(server.out)) == len(stored) == each * len(names)
    assert len(seen) == len(set(seen))
    looks = Counter(tuple(pair) for _, *pair in seen)
    assert max(looks.values()) <= 2
    assert sum(look == 2 for look in looks.values()) / len(looks) == pytest.approx(0.2, abs=0.02)


def test_a_flush_that_fails_after_a_vote_was_stored_doubles_nothing(tmp_path):
    class Flaky(Store):
        fails = False

        def _sync(self):
            if self.fails:
                raise OSError(5, "Input/output error")
            super()._sync()

    items = Items.of({str(k): f"Text {k}." for k in range(4)})
    voting = Voting(items, criterion_prompt("better"), ["ana", "bo"])
    links = Links.new().with_judges(["ana", "bo"])
    store = Flaky(tmp_path / "run", voting.identity(), most_unsynced=1)
    store.add_items(items)
    with closing(store), closing(Booth(store, voting, links)) as booth:
        seen = []
        for _ in range(6):
            store.fails = True
            with pytest.raises(StoreError):
                booth.turn("ana")
            store.fails = False
            ballot = booth.turn("ana").ballot
            seen.append(ballot.pair)
            store.fails = True
            with pytest.raises(StoreError):
                booth.vote("ana", ballot.number, 1, "A", 1.0)
            store.fails = False
            booth.vote("ana", ballot.number, 1, "B", 1.0)  # the same again, after it was said that it was not saved
        assert booth.turn("ana").votes == 6
        assert len(set(seen)) == 6
        assert [one.reply for one in store.judgements()] == ["A"] * 6


async def _echo(_scope, receive, send):
    """Answer with the length of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": str(size).encode()})


def _serve(listening, files, patience):
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    serve(_echo, listening, patience=patience)


@contextmanager
def echoing(files=1024, patience=PATIENCE):
    """The address of a server in a process of its own, which may open so many files."""
    listening = open_socket(HOST, None)
    process = get_context("fork").Process(target=_serve, args=(listening, files, patience))
    process.start()
    try:
        yield listening.getsockname()
    finally:
        process.terminate()
        process.join()
        listening.close()


def ask(address, timeout=60):
    """Ask for a page by a new connection; the status."""
    connection = http.client.HTTPConnection(*address, timeout=timeout)
    with closing(connection):
        connection.request("GET", "/")
        return connection.getresponse().status


@contextmanager
def half_open(address, count, sent=b"GET / HTTP/1.1\r\n"):
    """So many connections that sent half a request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 3 * count)), hard))
    with ExitStack() as stack:
        for _ in range(count):
            one = stack.enter_context(socket.create_connection(address, timeout=60))
            with suppress(ConnectionError):  # it was closed for a later one
                one.sendall(sent)
        yield stack
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


BODY = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc"


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost:", BODY])
def test_a_request_that_does_not_arrive_in_time_ends_its_connection(sent):
    with echoing(patience=0.5) as address:
        assert ask(address) == 200
        with closing(socket.create_connection(address, timeout=60)) as slow:
            slow.sendall(sent)
            with suppress(ConnectionError):
                while sent.startswith(b"GET"):  # a byte at a time gives it no more time
                    slow.sendall(b"x")
                    time.sleep(0.05)
                assert slow.recv(100) == b""
        assert ask(address) == 200


@pytest.mark.long
def test_a_kept_connection_is_not_closed_while_its_requests_arrive_in_time():
    with echoing(patience=0.5) as address, closing(http.client.HTTPConnection(*address, timeout=60)) as kept:
        for size in (3, 9000, 0, 5):
            kept.request("POST", "/", b"x" * size)
            assert kept.getresponse().read() == str(size).encode()
            local = kept.sock.getsockname()
            time.sleep(0.3)
        assert kept.sock.getsockname() == local


@pytest.mark.long
@pytest.mark.parametrize(("count", "files"), one_short([(150, 128), (1100, 1024)]))
def test_connections_without_a_request_lock_nobody_out_and_are_one_line(texts, tmp_path, count, files):
    with echoing(files, patience=600) as address:
        assert ask(address) == 200
        with half_open(address, count):
            assert [ask(address) for _ in range(5)] == [200] * 5
    with Server(texts, tmp_path / "run") as server:
        address, ana = ("127.0.0.1", server.port), server.voter("ana")
        begun = f"POST {ana.base}/vote HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with (
            half_open(address, 1, f"{begun}Content-Length: 99\r\n\r\n{{".encode()),
            half_open(address, max(count, 300)),
        ):
            assert ana.vote("A")[0] == 200
        _, words = server.stop()
    assert len(re.findall(r"\d connections", words)) == 1
    assert len(words.splitlines()) < 20
    assert len(read_judgements(server.out)) == 1


def test_judges_who_leave_within_a_request_are_a_line_for_each_power_of_ten(texts, tmp_path):
    with Server(texts, tmp_path / "run") as server:
        voter = server.voter("ana")
        head = f"POST {voter.base}/vote HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        for _ in range(110):
            with half_open(("127.0.0.1", server.port), 1, f"{head}Content-Length: 500\r\n\r\n{{".encode()):
                pass
        voter.vote("A")
        _, said = server.stop()
    assert "Traceback" not in said
    assert [int(number) for number in re.findall(r"before.* (\d+) so", said)] == [1, 10, 100]
    assert len(read_judgements(server.out)) == 1


def test_a_port_that_was_not_asked_for_gives_way():
    with open_socket(HOST, None) as one:
        last = one.getsockname()[1]
        with open_socket(HOST, None, last) as another:
            assert another.getsockname()[1] != last


@pytest.mark.long
def test_a_page_for_the_network_is_said_loudly(texts, tmp_path):
    with Server(texts, tmp_path / "run", "--host", "0.0.0.0", "--invite") as server:
        path = f"/join/{server.links()['invitation']}/"
        assert server.request("GET", path, headers={"Host": "class.example"})[0] == 200
        out, said = server.stop()
    assert "WARNING" in said
    assert "0.0.0.0" not in out
    with Server(texts, tmp_path / "other") as server:
        assert "WARNING" not in server.stop()[1]
