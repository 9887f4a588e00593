"""The voting page by HTTP: who may do what, what is stored, and what the organiser and other commands see."""

import base64
import json
import random
import re
import socket
import stat
import sys
import threading

import pytest
from scipy.special import expit

from comparo import Comparisons, Items, fit
from inside import list_runs, read_configuration, read_judgements, read_record
from split import one_short
from voting import PIXEL, Proxy, Server, Voter, essays

JOINS = 40  # attempts to join from an address within a minute
PUBLIC = "https://votes.example/class"
OWN = {"Origin": "https://votes.example", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def texts(tmp_path):
    return essays(tmp_path / "essays")


@pytest.fixture
def server(texts, tmp_path):
    with Server(texts, tmp_path / "run") as started:
        yield started


def replies(folder):
    return [one.reply for one in read_judgements(folder)]


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
    for host, status in (("evil.example", 403), ("localhost:99", 200)):  # also for reading
        assert server.request("GET", f"{voter.base}/", headers={"Host": host})[0] == status
    own = {"Origin": f"http://127.0.0.1:{server.port}", "Sec-Fetch-Site": "same-origin"}
    assert server.request("POST", f"{voter.base}/vote", vote, own)[0] == 200
    assert len(read_judgements(server.out)) == 1


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
    assert (len(ana.texts()), "e0" in ana.html, ">bo<" in ana.html) == (2, False, False)
    for choice in ("A", "B", "="):
        assert ana.vote(choice)[0] == 200
    ana.skip("  the text\nis cut \x1b[31m ")
    found = read_judgements(server.out)
    assert [(one.reply, one.p) for one in found[:3]] == [("A", 1.0), ("B", 0.0), ("=", 0.5)]
    assert [one.question.voice for one in found] == ["ana"] * 4
    assert all(0 <= one.seconds <= 2.0 for one in found)
    assert found[3].failed
    assert found[3].error.startswith("skipped: ")
    assert "\x1b" not in found[3].error
    assert (ana.votes, server.voter("bo").votes) == (3, 0)


def test_a_vote_that_is_posted_twice_counts_once(server):
    ana = server.voter("ana")
    first = {"ballot": ana.ballot, "turn": ana.turn, "choice": "A", "seconds": 1.0}
    shown = [ana.post("vote", **first)[1]["html"], ana.post("vote", **first | {"choice": "B"})[1]["html"]]
    assert shown[0] == shown[1]
    assert replies(server.out) == ["A"]
    threads = [threading.Thread(target=server.voter("bo").vote, args=("B",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_judgements(server.out)) == 2


def test_a_vote_or_a_skip_can_be_taken_back_and_given_again(server):
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
    assert replies(server.out) == ["A", "B"]
    assert (ana.ballot, ana.texts()) == seen
    ana.skip("I know who wrote one")
    ana.undo()
    assert (ana.ballot, ana.texts()) == seen
    for _ in range(2):
        ana.undo()
    assert (ana.votes, ana.last, replies(server.out)) == (0, None, [])


def test_a_skipped_pair_goes_to_another_judge(tmp_path):
    with Server(essays(tmp_path / "essays", 6), tmp_path / "run", "--for", "ana,bo", "--twice", "0") as server:
        ana = server.voter("ana")
        pair = frozenset(ana.texts())
        ana.skip("I cannot decide")
        assert frozenset(server.voter("bo").texts()) == pair


def test_images_are_shown_to_people_as_they_are_and_refused_elsewhere(tmp_path, run):
    folder = tmp_path / "scans"
    folder.mkdir()
    for name in ("ana.png", "bo.PNG"):
        (folder / name).write_bytes(PIXEL)
    (folder / "cy.txt").write_text("A typed essay.")
    with Server(folder, tmp_path / "run", "--for", "di") as server:
        di = server.voter("di")
        pages = []
        for _ in range(3):
            pages.append(di.html)
            assert di.vote("A")[0] == 200
    encoded = base64.b64encode(PIXEL).decode()
    assert sum(page.count(f'<img src="data:image/png;base64,{encoded}"') for page in pages) == 4
    assert not any('id="differences"' in page for page in pages)
    assert sorted(read_record(tmp_path / "run").items.texts) == ["(an image)", "(an image)", "A typed essay."]
    judged = run(tmp_path, ["rank", "run", "--criterion", "better", "--judge", "simulated/soft"])
    (folder / "bo.PNG").write_bytes(b"no image")
    broken = run(tmp_path, ["vote", "scans", "--criterion", "better", "--no-browser"])
    for said, named in ((judged, "comparo vote"), (broken, "bo.PNG")):
        assert named in said.stderr
        assert said.returncode


@pytest.mark.parametrize("flags", [["--reasons", ""], []])
def test_reasons_are_stored_with_a_vote_where_they_are_asked_for(texts, tmp_path, flags):
    with Server(texts, tmp_path / "run", "--for", "ana", *flags) as server:
        ana = server.voter("ana")
        for reason in ("  clearer;\nshort \x1b[31m", "", "x" * 5000):
            ana.post("vote", ballot=ana.ballot, turn=ana.turn, choice="A", seconds=1.0, reason=reason)
        wrong = {"ballot": ana.ballot, "turn": 1, "choice": "A", "reason": 3}
        assert server.request("POST", f"{ana.base}/vote", wrong)[0] == (400 if flags else 200)
        _, votes = server.table("votes")
    assert [one.p for one in read_judgements(tmp_path / "run")] == [1.0] * len(votes)
    if not flags:
        assert "reason" not in votes[0]
    else:
        assert votes[0]["reason"].startswith("clearer; short")
        assert "\x1b" not in votes[0]["reason"]
        assert [len(vote["reason"]) for vote in votes[1:]] == [0, 600]


# Judges who come later, and behind a proxy


def test_an_invitation_gives_a_link_of_ones_own(texts, tmp_path):
    with Server(texts, tmp_path / "run", "--invite") as server:
        assert "Your name" in server.request("GET", f"/join/{server.links()['invitation']}/")[2]
        for name, choice in ((" Ana  Lima ", "A"), ("Bo", "B")):
            status, path = server.join(name)
            voter = Voter(server, path.rstrip("/"))
            assert (status, " ".join(name.split()) in voter.html) == (200, True)
            voter.vote(choice)
        alike = "\u0430na lima|An\u0430 Lim\u0430|a\u200bna lima|ana\u00ad lima|\uff41na lima|\u0391na lima".split("|")
        for name in ("ana lima", "", "others", "x" * 41, "a\x07", 7, None, "\u200b\u2060", "\u3164", *alike):
            assert server.join(name)[0] == 409, name
        assert list(server.links()["judges"]) == ["Ana Lima", "Bo"]
    assert list(read_configuration(server.out)["identity"]["voices"]) == ["Ana Lima", "Bo"]
    assert len(read_judgements(server.out)) == 2


@pytest.fixture
def proxied(texts, tmp_path):
    with (
        Server(texts, tmp_path / "run", "--for", "ana,bo,cy", "--invite", "--behind", f"{PUBLIC}/") as server,
        Proxy(server.port, "/class") as proxy,
    ):
        yield server, proxy


def test_pages_and_votes_pass_through_a_proxy_with_a_prefix_and_another_host(proxied):
    server, proxy = proxied
    links = server.links()
    bases = [f"vote/{links['judges']['ana']}", f"organiser/{links['organiser']}", f"join/{links['invitation']}"]
    for base in bases:
        status, _, page = proxy.request("GET", f"/class/{base}/")
        own = re.findall(r'(?:href|src|data-base)="(/[^"]*)"', page)
        assert (status, len(own) >= 3) == (200, True)
        assert all(path.startswith(f"/class/{base}") for path in own)
        assert {proxy.request("GET", f"{path}")[0] for path in own if "." in path} == {200}
        status, headers, _ = proxy.request("GET", f"/class/{base}")
        assert (status, headers["location"]) == (307, f"{PUBLIC}/{base}/")
    copied = re.findall(r'data-link="([^"]*)"', proxy.request("GET", f"/class/{bases[1]}/")[2])
    own = [f"/class/vote/{token}/" for token in links["judges"].values()]
    assert sorted(copied) == sorted([*own, f"/class/{bases[2]}/"])
    voter = Voter(proxy, f"/class/{bases[0]}")
    vote = {"ballot": voter.ballot, "turn": voter.turn, "choice": "A", "seconds": 1.0}
    for other in ("https://evil.example", f"http://127.0.0.1:{server.port}", "null"):
        assert proxy.request("POST", f"{voter.base}/vote", vote, OWN | {"Origin": other})[0] == 403, other
    assert read_judgements(server.out) == []
    assert proxy.request("POST", f"{voter.base}/vote", vote, OWN)[0] == 200
    assert len(read_judgements(server.out)) == 1
    _, _, text = proxy.request("POST", f"/class/{bases[2]}/name", {"name": "Di"}, OWN)
    assert "Essay" in Voter(proxy, json.loads(text)["path"].rstrip("/")).html
    out, said = server.stop()
    assert f"{PUBLIC}/vote/{links['judges']['ana']}/" in out
    assert "http://" not in out
    assert str(server.port) in said


def test_joins_are_limited_for_each_address_which_only_the_proxy_tells(proxied):
    server, proxy = proxied
    path = f"/join/{server.links()['invitation']}/name"

    def joined(ask, names, headers):
        return [ask("POST", path, {"name": name}, headers)[0] for name in names]

    def through(method, path, message, headers):
        return proxy.request(method, f"/class{path}", message, headers)

    invented = [joined(through, [f"Judge {k}"], OWN | {"X-Forwarded-For": f"198.51.100.{k}"})[0] for k in range(JOINS)]
    assert invented == [200] * JOINS
    assert joined(through, ["One more"], OWN) == [429]
    assert json.loads(through("POST", path, {"name": "One more"}, OWN)[2])["error"]
    proxy.client = "203.0.113.8"
    assert joined(through, ["One more"], OWN) == [200]
    assert len(server.links()["judges"]) == 3 + JOINS + 1


def test_without_a_proxy_nobody_chooses_an_address(texts, tmp_path):
    with Server(texts, tmp_path / "run", "--invite") as server:
        given = [server.join(f"Judge {k}", {"X-Forwarded-For": f"198.51.100.{k}"})[0] for k in range(JOINS + 2)]
        assert given == [200] * JOINS + [429] * 2


# What the organiser and other commands see


def scores_by_name(path):
    found = fit(path)
    return dict(zip(found.items.tolist(), found.scores.tolist(), strict=True))


@pytest.mark.long
def test_the_organiser_sees_judges_agreement_and_the_ranking(texts, tmp_path, run):
    with Server(texts, tmp_path / "run", "--for", "ana,bo,cy", "--twice", "1", "--until", "0.5") as server:
        assert 'class="ranking"' not in server.request("GET", f"{server.organiser}/")[2]
        voters = [server.voter(name) for name in ("ana", "bo", "cy")]
        for _ in range(30):
            for voter in voters[:2]:
                left, right = voter.texts()
                voter.vote("A" if left > right else "B")
            voters[2].vote("A")
        voters[2].skip("<i>I cannot decide")
        shown, ranked = server.table("ranking")
        live = server.live()
        text, votes = server.table("votes")
    best = [row["item"] for row in ranked]
    assert best[:3] != sorted(best)[:3]
    assert best.index("e11") < best.index("e00")
    noted = [
        name for name in ("ana", "bo", "cy") if "one side" in live.split(f"<bdi>{name}</bdi>")[1].split("</th>")[0]
    ]
    assert noted == ["cy"]
    assert '(0.5)?</h3><p class="figure">Yes' in live
    assert "&lt;i&gt;I cannot decide" in live
    assert "90" in live.split("<h3>Votes</h3>")[1][:40]
    for method in ([], ["--method", "mixed"]):  # one folder, one ranking
        fitted = run(tmp_path, ["fit", "run", "--format", "csv", *method])
        assert fitted.stdout.splitlines() == shown.splitlines(), fitted.stderr
    record = read_record(tmp_path / "run")
    assert record.ranking.to_csv() == fit(tmp_path / "run").to_csv() == shown
    # One position bias of each judge, the one that the ranking corrects for, on both pages.
    assert run(tmp_path, ["runs", "--report", "run"]).returncode == 0
    report = (tmp_path / "run" / "report.html").read_text()
    for name, gamma in zip(record.ranking.comparisons.judges, record.ranking.solution.bias.mean(axis=0), strict=True):
        cells = re.findall(r'<td class="n">(.*?)</td>', live.split(f"<bdi>{name}</bdi>")[1].split("</tr>")[0])
        share, interval = cells[-2].removesuffix("</small>").split("<small>")
        assert share == f"{expit(-gamma):.0%}"
        told = report.split(f"<bdi>{name}</bdi>")[1].split("</tr>")[0]
        assert f"the {'first' if gamma < 0 else 'second'}, {expit(abs(gamma)):.0%}" in told or abs(gamma) < 0.02
        assert interval in told or gamma > 0  # of the right side then
    assert "<dt>method</dt><dd><bdi>mixed</bdi>" in report  # the estimator that was used
    assert len(votes) == 90
    assert set(votes[0]) == {"first", "second", "winner", "p", "voter", "seconds", "at"}
    (tmp_path / "votes.csv").write_text(text)
    assert len(Comparisons.read(tmp_path / "votes.csv")) == 90
    fitted = run(tmp_path, ["fit", "votes.csv", "--format", "csv"])
    order = [[row.partition(",")[0] for row in table.splitlines()] for table in (fitted.stdout, shown)]
    assert order[0] == order[1], fitted.stderr
    assert scores_by_name(tmp_path / "votes.csv") == pytest.approx(scores_by_name(tmp_path / "run"), abs=1e-9)
    assert fit(tmp_path / "run").method == fit(tmp_path / "votes.csv").method == "mixed"


@pytest.mark.parametrize("votes", one_short([1, 10]))
@pytest.mark.parametrize("judges", one_short(["ana,bo,cy", "ana"]))
def test_other_commands_read_the_run_folder(texts, tmp_path, run, judges, votes):
    rng = random.Random(0)
    with Server(texts, tmp_path / "run", "--for", judges) as server:
        for name in judges.split(","):
            voter = server.voter(name)
            for _ in range(votes):
                voter.vote(rng.choice("AB="))
            voter.skip("no")
        voter.undo()
        voter.undo()
    number = votes * len(judges.split(",")) - 1
    (summary,) = list_runs(tmp_path)
    assert (summary.answered, summary.failed) == (number, len(judges.split(",")) - 1)
    for command in (["runs", "--report"], ["fit"]):
        found = run(tmp_path, [*command, "run"])
        assert (found.returncode == 0) == (number > 0), found.stderr
    if number:
        page = (tmp_path / "run" / "report.html").read_text()
        assert "better argued?" in page
        assert "--budget" not in page
        assert len(Comparisons.of(tmp_path / "run")) == number
        record = read_record(tmp_path / "run")
        assert record.ranking.solution.panel is None  # all people together
        voted = sorted({str(judgement.question.voice) for judgement in record.answered})
        # Whoever gave no vote, or took it back, is not counted.
        count, names = re.search(r"<dt>Judged by</dt><dd><bdi>(\d+) \w+: ([\w, ]+)", page).groups()
        assert (count, sorted(re.split(", | and ", names))) == (str(len(voted)), voted)
        assert Items.of(tmp_path / "run").ids.tolist() == [f"e{k:02}" for k in range(12)]


# What is wrong before anything starts


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--for", "ana,bo,Ana"], "--for ana,bo,Ana: .*'ana'"),
        (["--for", "ana,,bo"], "--for ana,,bo"),
        (["--for", "others"], "'others'"),
        (["--twice", "2"], "--twice 2.0"),
        (["--until", "7"], "--until 7.0"),
        (["--host", "no.such.host.invalid"], "--host no.such.host.invalid"),
        (["--host", "192.0.2.1"], "--host 192.0.2.1"),
        *(
            (["--behind", url], f"--behind '?{re.escape(url)}.*https://")
            for url in ("example.org", "ftp://a.example", "https://a.example/a?b", "https:///a", "")
        ),
        (["--criterion", " "], "criterion"),
        *((["--reasons", reasons], "reason") for reasons in (",".join("abcdefghij"), "x" * 41, "clear; short")),
    ],
)
def test_a_wrong_flag_is_named_and_nothing_starts(texts, tmp_path, run, flags, named):
    found = run(tmp_path, ["vote", texts, "--criterion", "better", "--no-browser", "--out", "run", *flags])
    assert found.returncode == 2
    assert re.search(named, found.stderr)
    assert "Traceback" not in found.stderr
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_served_is_named_and_nothing_starts(texts, tmp_path, run, monkeypatch):
    def start(data=texts, *flags):
        found = run(tmp_path, ["vote", data, "--criterion", "better", "--no-browser", *flags])
        assert (found.returncode, (tmp_path / "comparo-runs").exists()) == (2, False)
        return found.stderr

    (tmp_path / "empty").mkdir()
    essays(tmp_path / "one", 1)
    for data, named in (("empty", ".docx"), ("one", "only"), ("none", "none")):
        assert named in start(data)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert f"--port {port} is taken" in start(texts, "--port", port)
    (tmp_path / "comparo.toml").write_text('[vote]\nhost = "0.0.0.0"\n')  # nobody named the file
    assert re.search(r"comparo\.toml .*'0\.0\.0\.0'\).*--config.*--host", start())
    (tmp_path / "comparo.toml").unlink()
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert "[vote]" in start()


def test_a_folder_in_use_or_of_other_texts_is_one_clear_message(texts, tmp_path, run):
    command = ["vote", texts, "--criterion", "better argued", "--out", "run", "--no-browser"]
    with Server(texts, tmp_path / "run"):
        found = run(tmp_path, [*command, "--for", "ana,bo,cy"])
        assert (found.returncode, "in use" in found.stderr) == (1, True)
    (texts / "e00.txt").write_text("Another.")
    found = run(tmp_path, command)
    assert found.returncode == 2
    assert re.search(r"1 changed \('e00'\)", found.stderr)
    assert len(found.stderr.splitlines()) == 1
