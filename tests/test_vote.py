"""The voting page by HTTP: who may do what, what is stored, and what survives."""

import base64
import csv
import html
import http.client
import io
import json
import os
import random
import re
import resource
import socket
import sqlite3
import stat
import sys
import threading
import time
import zlib
from collections import Counter
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing import get_context

import pytest
from scipy.special import expit

from comparo import Comparisons, ComparisonsError, Items, StoreError, fit
from comparo.data.images import LARGEST, image_url
from comparo.log.questions import Ballot
from comparo.report.embed import are_codes
from comparo.report.making import facts
from comparo.report.measures import favours, who_judged
from comparo.report.page import _making
from comparo.vote.app import JOINS, PATIENCE, serve
from comparo.vote.booth import Booth
from comparo.vote.dealing import Dealer
from comparo.vote.pages import MARKDOWN, as_markdown, differences, shown_text
from comparo.vote.server import HOST, open_socket, public_url
from comparo.vote.session import Links, Voting
from inside import Store, criterion_prompt, list_runs, read_configuration, read_judgements, read_record, repair
from split import one_short
from voting import LOST, Proxy, Server, Voter, essays

JUDGES = ("--for", "ana,bo,cy")


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


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


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
    record = read_record(tmp_path / "run")
    assert sorted(record.items.texts) == ["(an image)", "(an image)", "A typed essay."]
    said = run(tmp_path, ["rank", "run", "--criterion", "better", "--judge", "simulated/soft"])
    assert "comparo vote" in said.stderr
    assert said.returncode
    (folder / "bo.PNG").write_bytes(b"no image")
    said = run(tmp_path, ["vote", "scans", "--criterion", "better", "--no-browser"])
    assert "bo.PNG" in said.stderr
    assert said.returncode


SECRET = b"Ana Lima, 52.5 N 13.4 E"


def chunk(name, data):
    return len(data).to_bytes(4) + name + data + zlib.crc32(name + data).to_bytes(4)


def segment(code, data):
    return bytes([0xFF, code]) + (len(data) + 2).to_bytes(2) + data


def exif(order, tag=0x112, value=6):
    """EXIF data with two entries, the second an orientation, and a place after them."""
    begin = b"II*\0" if order == "little" else b"MM\0*"
    other, turned = (
        number.to_bytes(2, order) + (3).to_bytes(2, order) + (1).to_bytes(4, order) + what.to_bytes(2, order) + b"\0\0"
        for number, what in ((0x8825, 1), (tag, value))
    )
    return begin + (8).to_bytes(4, order) + (2).to_bytes(2, order) + other + turned + bytes(4) + SECRET


FRAME = segment(0xC0, b"\x08\x00\x02\x00\x03\x01\x01\x11\x00")  # 3 × 2 pixels
SCANS = segment(0xDA, b"\x01\x01\x00\x00\x3f\x00") + b"\x12\xff\x00\x34\xff\xd0\x56"
JFIF = b"JFIF\0\x01\x02\x01\x00\x48\x00\x48"


def photo(*parts, frame=FRAME):
    return b"".join([b"\xff\xd8", *parts, segment(0xDB, bytes(65)), frame, SCANS, b"\xff\xd9"])


def shown(content):
    """The bytes of an image as a voter's browser gets them."""
    return base64.b64decode(image_url(content, "ana.jpg").partition(",")[2])


def test_of_a_photograph_only_pixels_colours_and_a_turn_are_shown():
    colours = [segment(0xE2, b"ICC_PROFILE\0\x01\x01profile"), segment(0xEE, b"Adobe\0\x64\0\0\0\0\x01")]
    names = [segment(code, SECRET) for code in (*range(0xE1, 0xF0), 0xFE)]
    thumbnail = segment(0xE0, JFIF + b"\x01\x01" + SECRET)
    for order in ("little", "big"):
        given = photo(thumbnail, segment(0xE1, b"Exif\0\0" + exif(order)), *colours, *names) + photo() + SECRET
        turned = segment(0xE1, b"Exif\0\0" + exif("big")[:8] + b"\0\x01" + exif("big")[22:34] + bytes(4))
        assert shown(given) == photo(segment(0xE0, JFIF + b"\0\0"), turned, *colours)
    for upright in (exif("big", value=1), exif("big", value=9), exif("little", tag=1), exif("big")[:9], b"MM" * 40):
        assert shown(photo(segment(0xE1, b"Exif\0\0" + upright))) == photo()
    several = photo().replace(b"\xff\xd9", segment(0xFE, SECRET) + segment(0xC4, b"\0") + SCANS + b"\xff\xd9")
    assert shown(several) == several.replace(segment(0xFE, SECRET), b"")
    assert shown(photo()[:-1]) == photo()[:-1]  # a download that was cut off


def test_of_a_png_only_pixels_and_colours_are_shown():
    header, body = PIXEL[:33], PIXEL[33:]
    colours = b"".join(chunk(name, b"1234") for name in (b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT", b"pHYs"))
    names = b"".join(chunk(name, SECRET) for name in (b"tEXt", b"zTXt", b"iTXt", b"eXIf", b"tIME", b"caBX", b"prVt"))
    assert shown(PIXEL) == PIXEL
    assert shown(header + colours + names + body + SECRET) == header + colours + body


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"no image", b"\xff\xd8\xff", photo(frame=b""), PIXEL[:-12], PIXEL[:20], b"\xff\xd8\xff\xe0\0\0" * 9),
        b"\xff\xd8" + b"\xff" * (LARGEST - 2),
        photo(frame=segment(0xC2, b"\x08" + (50_000).to_bytes(2) * 2 + b"\x01\x01\x11\x00")),
        PIXEL[:16] + (50_000).to_bytes(4) * 2 + PIXEL[24:],
        PIXEL + bytes(LARGEST),
    ],
)
def test_an_image_that_is_broken_or_too_large_is_named_before_a_page_opens(content, tmp_path):
    (tmp_path / "ana.jpg").write_bytes(content)
    (tmp_path / "bo.txt").write_text("A typed essay.")
    with pytest.raises(ComparisonsError, match=r"ana\.jpg"):
        Items.of(tmp_path, has_images=True)


def test_an_image_in_a_table_is_cleaned_too():
    given = photo(segment(0xFE, SECRET))
    rows = [{"id": k, "text": f"data:image/jpeg;base64,{base64.b64encode(given).decode()}"} for k in range(2)]
    items = Items.of(rows, has_images=True)
    assert items.texts == (image_url(photo(), ""),) * 2
    rows[1]["text"] = "data:image/png;base64,AAAAA"
    with pytest.raises(ComparisonsError, match="row 2"):
        Items.of(rows, has_images=True)


# Who sees which pair


@pytest.mark.long
def test_pairs_are_shared_out(texts, tmp_path):
    with Server(texts, tmp_path / "run", "--for", "ana,bo,cy,di", "--twice", "0.25") as server:
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
    with Server(essays(tmp_path / "essays", 4), tmp_path / "run", "--for", "ana,bo", "--each", "9") as server:
        for name in ("ana", "bo"):
            voter, seen = server.voter(name), set()
            while voter.ballot is not None:
                assert frozenset(voter.texts()) not in seen
                seen.add(frozenset(voter.texts()))
                voter.vote("A")
            assert len(seen) == 6
            assert "seen every pair" in voter.html
            assert "6 of 6 votes" in voter.html
            voter.undo()
            assert voter.ballot is not None


def test_a_skipped_pair_goes_to_another_judge(tmp_path):
    with Server(essays(tmp_path / "essays", 6), tmp_path / "run", "--for", "ana,bo", "--twice", "0") as server:
        ana = server.voter("ana")
        pair = frozenset(ana.texts())
        ana.skip("I cannot decide")
        assert frozenset(server.voter("bo").texts()) == pair


@pytest.mark.long
def test_a_judge_stays_with_a_context_for_a_while(tmp_path):
    items = [
        {"id": f"s{k}", "text": f"Essay number {k} of {c}.", "context": f"Article {c} <b>"}
        for c in range(3)
        for k in range(6)
    ]
    (tmp_path / "items.json").write_text(json.dumps(items))
    with Server(
        tmp_path / "items.json", tmp_path / "run", "--for", "ana,bo", "--kind", "Text; heading=Article"
    ) as server:
        seen = []
        ana = server.voter("ana")
        for _ in range(9):
            seen.append(ana.html.split("Article ")[1][0])
            assert f"Article {seen[-1]} &lt;b&gt;" in ana.html
            ana.vote("A")
        assert server.voter("bo").texts()
    assert [seen[k : k + 3] for k in (0, 3, 6)] == [[c] * 3 for c in "012"]
    assert {one.question.context for one in read_judgements(server.out)} == {f"Article {c} <b>" for c in range(3)}


# Line-ups


def test_an_order_of_three_texts_is_one_vote(texts, tmp_path):
    with Server(texts, tmp_path / "run", "--for", "ana,bo", "--lineup", "3") as server:
        ana = server.voter("ana")
        for wrong in ("A", "=", "A>B", "A>B>B", "A>B>D", "A>B>C>D"):
            assert ana.vote(wrong)[0] == 400, wrong
        assert server.request("GET", f"{ana.base}/differences?ballot={ana.ballot}")[0] == 400
        assert not re.search("<kbd>[=D]</kbd>", ana.html)  # neither ties nor differences
        shown = []
        for order in ("C>A>B", "A>C>B", "B>A>C"):
            shown.append([f"e{number:02}" for number in ana.texts()])
            assert ana.vote(order)[0] == 200
        ana.undo()
        assert (ana.turn, [f"e{number:02}" for number in ana.texts()]) == (2, shown[2])
        ana.skip("I cannot decide")
        again, number = ana.texts(), ana.ballot
        votes = read_judgements(server.out)
        assert [(one.lineup, one.reply, one.p) for one in votes[:2]] == [
            ("C>A>B", "C>A>B", 0.0),
            ("A>C>B", "A>C>B", 1.0),
        ]
        assert [list(one.question.items) for one in votes] == shown
        assert (votes[2].failed, votes[2].lineup) == (True, "")
        assert (ana.votes, len(rows(server.out, "SELECT 1 FROM judgements WHERE withdrawn"))) == (2, 1)
        seconds = rows(server.out, "SELECT second FROM ballots WHERE judgement IS NOT NULL ORDER BY number")
        assert [json.loads(second) for (second,) in seconds] == [items[1:] for items in shown]
        # what was skipped goes to another judge
        assert {f"e{number:02}" for number in server.voter("bo").texts()} == set(shown[2])
        server.kill()
    with server:
        ana = server.voter("ana")
        assert (ana.ballot, ana.texts(), ana.votes) == (number, again, 2)


@pytest.mark.parametrize("flags", [["--reasons", ""], []])
def test_reasons_are_stored_with_a_vote_where_they_are_asked_for(texts, tmp_path, flags):
    with Server(texts, tmp_path / "run", "--for", "ana", *flags) as server:
        ana = server.voter("ana")
        for reason in ("  clearer;\nshort \x1b[31m", "", "x" * 5000):
            ana.post("vote", ballot=ana.ballot, turn=ana.turn, choice="A", seconds=1.0, reason=reason)
        wrong = {"ballot": ana.ballot, "turn": 1, "choice": "A", "reason": 3}
        assert server.request("POST", f"{ana.base}/vote", wrong)[0] == (400 if flags else 200)
        votes = list(csv.DictReader(io.StringIO(server.request("GET", f"{server.organiser}/votes.csv")[2])))
    assert [one.p for one in read_judgements(tmp_path / "run")] == [1.0] * len(votes)
    if not flags:
        assert "reason" not in votes[0]
    else:
        assert votes[0]["reason"].startswith("clearer; short")
        assert "\x1b" not in votes[0]["reason"]
        assert [len(vote["reason"]) for vote in votes[1:]] == [0, 600]


@pytest.mark.parametrize("reasons", [",".join("abcdefghij"), "x" * 41, "clear; short"])
def test_reasons_that_do_not_fit_the_page_are_refused(texts, tmp_path, run, reasons):
    done = run(tmp_path, ["vote", str(texts), "--criterion", "better", "--no-browser", "--reasons", reasons])
    assert (done.returncode, "reason" in done.stderr) == (2, True)
    assert not list(tmp_path.glob("comparo-runs/*"))


def scores_by_name(path):
    found = fit(path)
    return dict(zip(found.items.tolist(), found.scores.tolist(), strict=True))


def test_lineups_are_one_ranking_wherever_they_are_read(texts, tmp_path, run):
    rng = random.Random(0)
    with Server(texts, tmp_path / "run", "--for", "ana,bo", "--lineup", "3", "--twice", "0.5") as server:
        for voter in [server.voter("ana"), server.voter("bo")] * 12:
            voter.open()
            values = [0.5 * number + rng.gauss(0, 1) for number in voter.texts()]
            voter.vote(">".join(sorted("ABC", key=lambda label: -values["ABC".index(label)])))
        shown = server.request("GET", f"{server.organiser}/ranking.csv")[2]
        live = json.loads(server.request("GET", f"{server.organiser}/live")[2])["html"]
        text = server.request("GET", f"{server.organiser}/votes.csv")[2]
    ranks = {row["item"]: int(row["rank"]) for row in csv.DictReader(io.StringIO(shown))}
    assert max(ranks[f"e{number:02}"] for number in (9, 10, 11)) < min(ranks[f"e{number:02}"] for number in (0, 1, 2))
    votes = list(csv.DictReader(io.StringIO(text)))
    assert (len(votes), set(votes[0])) == (24, {"items", "order", "voter", "seconds", "at"})
    (tmp_path / "votes.csv").write_text(text)
    assert fit(tmp_path / "run").to_csv() == shown
    assert scores_by_name(tmp_path / "votes.csv") == pytest.approx(scores_by_name(tmp_path / "run"), abs=1e-9)
    fitted = run(tmp_path, ["fit", "run", "--format", "csv"])
    assert fitted.stdout.splitlines() == shown.splitlines()
    assert "24 answers" in fitted.stderr
    assert re.search(r"[1-9]\d* pairs with two judges", live)  # three for each line-up
    assert sum(int(n) for n in re.findall(r'</svg></td><td class="n">(\d+)</td>', live)) == 3 * 24
    record = read_record(tmp_path / "run")
    assert record.ranking.to_csv() == shown
    assert (len(record.answered), len(record.p), record.possible) == (24, 72, 2 * 12 * 11 * 10)
    ends = [(one.question.first, one.question.second, one.p) for one in map(record.compared, range(72))]
    data = record.ranking.comparisons
    assert ends == list(zip(data.items[data.first], data.items[data.second], data.p, strict=True))
    assert run(tmp_path, ["runs", "--report", "run"]).returncode == 0


@pytest.mark.parametrize(("texts_of", "size", "judges", "votes"), [(12, 3, 4, 80), (12, 4, 3, 45), (30, 3, 2, 60)])
def test_lineups_are_balanced_for_each_judge(texts_of, size, judges, votes):
    dealer = Dealer(Items.of({number: f"Essay {number}." for number in range(texts_of)}), 0.2, size=size)
    rng, seen = random.Random(0), [[] for _ in range(judges)]
    for number in range(1, votes + 1):
        judge = rng.randrange(judges)
        ballot = Ballot(number, str(judge), *dealer.deal(str(judge), judges), datetime.now(UTC))
        dealer.know(ballot)
        order = ">".join(rng.sample("ABCD"[:size], size))
        dealer.know(replace(ballot, judgement=number, p=float(order[0] == "A"), order=order))
        seen[judge].append(ballot.items)
    looks = Counter(frozenset(items) for own in seen for items in own)
    assert set(looks.values()) <= {1, 2}
    assert sum(look == 2 for look in looks.values()) == pytest.approx(0.2 * len(looks), abs=2)
    for own in seen:
        assert len(set(map(frozenset, own))) == len(own)
        times = Counter(item for items in own for item in items)
        assert max(times.values()) - min(times[item] for item in range(texts_of)) <= 5
        for item in range(texts_of):
            slots = Counter(items.index(item) for items in own if item in items)
            assert max(slots.values(), default=0) - min(slots[slot] for slot in range(size)) <= 2
    times = Counter(item for own in seen for items in own for item in items)
    assert max(times.values()) - min(times.values()) <= 5


def test_a_judge_sees_every_lineup_once():
    dealer, seen = Dealer(Items.of({name: f"Essay {name}." for name in "abcde"}), 0.0, size=3), set()
    for number in range(1, 11):
        ballot = Ballot(number, "ana", *dealer.deal("ana", 1), datetime.now(UTC))
        dealer.know(ballot)
        seen.add(ballot.pair)
    assert len(seen) == 10
    assert dealer.deal("ana", 1) is None
    assert dealer.deal("bo", 1)[0] is None  # who has not seen them


def test_lineups_that_cannot_be_asked_are_refused_before_a_page_opens(tmp_path, run):
    command = ["vote", "items.json", "--criterion", "better", "--no-browser", "--lineup"]
    items = [
        {"id": f"s{k}", "text": f"Essay {k}.", "context": c} for c, size in (("x", 4), ("y", 3)) for k in range(size)
    ]
    (tmp_path / "items.json").write_text(json.dumps(items))
    few, many = (run(tmp_path, [*command, size]) for size in ("4", "5"))
    (tmp_path / "items.json").write_text(json.dumps([{"id": f"s|{k}", "text": f"Essay {k}."} for k in range(4)]))
    named = run(tmp_path, [*command, "3"])
    assert [found.returncode for found in (few, many, named)] == [2, 2, 2]
    assert "'y'" in few.stderr
    assert "'s|0'" in named.stderr
    assert not (tmp_path / "comparo-runs").exists()


# Judges who come later


def test_an_invitation_gives_a_link_of_ones_own(texts, tmp_path):
    with Server(texts, tmp_path / "run", "--invite") as server:
        path = f"/join/{server.links()['invitation']}"
        assert "Your name" in server.request("GET", f"{path}/")[2]
        status, _, text = server.request("POST", f"{path}/name", {"name": " Ana  Lima "})
        assert status == 200
        voter = Voter(server, json.loads(text)["path"].rstrip("/"))
        assert "Ana Lima" in voter.html
        voter.vote("A")
        alike = (
            "\u0430na lima",
            "An\u0430 Lim\u0430",
            "a\u200bna lima",
            "ana\u00ad lima",
            "\uff41na lima",
            "\u0391na lima",
        )
        for name in ("ana lima", "", "others", "x" * 41, "a\x07", 7, None, "\u200b\u2060", "\u3164", *alike):
            assert server.request("POST", f"{path}/name", {"name": name})[0] == 409, name
        Voter(server, json.loads(server.request("POST", f"{path}/name", {"name": "Bo"})[2])["path"].rstrip("/")).vote(
            "B"
        )
        assert list(server.links()["judges"]) == ["Ana Lima", "Bo"]
    assert list(read_configuration(server.out)["identity"]["voices"]) == ["Ana Lima", "Bo"]
    assert len(read_judgements(server.out)) == 2


def test_judges_who_leave_within_a_request_are_a_line_for_each_power_of_ten(server):
    voter = server.voter("ana")
    head = f"POST {voter.base}/vote HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    for _ in range(110):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(f"{head}Content-Length: 500\r\n\r\n{{".encode())
    voter.vote("A")
    _, said = server.stop()
    assert "Traceback" not in said
    assert [int(number) for number in re.findall(r"was closed before .* (\d+) so far", said)] == [1, 10, 100]
    assert len(read_judgements(server.out)) == 1


# Behind a proxy


PUBLIC = "https://votes.example/class"
OWN = {"Origin": "https://votes.example", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def proxied(texts, tmp_path):
    with (
        Server(texts, tmp_path / "run", *JUDGES, "--invite", "--behind", f"{PUBLIC}/") as server,
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
    assert sorted(copied) == sorted(
        [*(f"/class/vote/{token}/" for token in links["judges"].values()), f"/class/{bases[2]}/"]
    )
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
        path = f"/join/{server.links()['invitation']}/name"
        given = [
            server.request("POST", path, {"name": f"Judge {k}"}, {"X-Forwarded-For": f"198.51.100.{k}"})[0]
            for k in range(JOINS + 2)
        ]
        assert given == [200] * JOINS + [429] * 2


@pytest.mark.parametrize("url", ["votes.example", "ftp://votes.example", "https://votes.example/a?b", "https:///a", ""])
def test_a_public_address_that_is_none_is_refused(url):
    with pytest.raises(ValueError, match="behind="):
        public_url(url)


# What survives


@pytest.mark.long
def test_the_same_command_goes_on_with_the_same_links(texts, tmp_path):
    with Server(texts, tmp_path / "run", *JUDGES) as server:
        ana = server.voter("ana")
        ana.vote("A")
        before, shown, ballot = server.links(), ana.texts(), ana.ballot
        out, said = server.stop()
    assert server.process.returncode == 0
    assert f"http://127.0.0.1:{before['port']}/vote/{before['judges']['ana']}/" in out
    assert f"Votes so far: 1, in {tmp_path / 'run'}" in said
    assert f"comparo runs --report {tmp_path / 'run'}" in said
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
        path = f"/join/{server.links()['invitation']}/name"
        server.request("POST", path, {"name": "Cy"})
        before = server.links()["judges"]
    with Server(texts, out, "--for", "Bo") as again:
        status, _, said = again.request("GET", f"/vote/{before['ana']}/")
        assert (status, "ana" in said, said.count(".")) == (403, True, 1)
        status, _, said = again.request("POST", f"/vote/{before['ana']}/vote", {"ballot": 1, "turn": 1, "choice": "A"})
        assert (status, list(json.loads(said))) == (403, ["error"])
        assert [again.voter(name).votes for name in ("bo", "Cy")] == [0, 0]
        page = again.request("GET", f"{again.organiser}/live")[2]
        assert [before[name] in page for name in before] == [False, True, True]
        assert before["ana"] not in again.stop()[0]
    with Server(texts, out, "--invite") as again:
        assert again.request("GET", f"/vote/{before['ana']}/")[0] == 403
    with Server(texts, out, *JUDGES) as again:
        assert (again.voter("ana").votes, again.links()["judges"]) == (1, {**again.links()["judges"], **before})


@pytest.mark.long
def test_a_fresh_start_keeps_what_there_was_elsewhere(texts, tmp_path):
    with Server(texts, tmp_path / "run", *JUDGES) as server:
        server.voter("ana").vote("A")
        before = server.links()
    with Server(texts, tmp_path / "run", *JUDGES, "--fresh") as again:
        assert not set(again.links()["judges"].values()) & set(before["judges"].values())
        assert again.voter("ana").votes == 0
    assert len(read_judgements(tmp_path / "run-1")) == 1


def test_another_question_or_other_texts_are_another_run(texts, tmp_path, run):
    with Server(texts, tmp_path / "run", *JUDGES):
        pass
    (texts / "e00.txt").write_text("Another.")
    found = run(tmp_path, ["vote", texts, "--criterion", "better argued", "--out", "run", "--no-browser"])
    assert found.returncode == 2
    assert re.search(r"\brun has votes .*1 changed \('e00'\)\. Give ", found.stderr)
    assert len(found.stderr.splitlines()) == 1


def test_a_full_disk_stops_the_page_and_loses_nothing(server):
    ana = server.voter("ana")
    ana.vote("A")
    shown = ana.ballot
    hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(
        server.process.pid, resource.RLIMIT_FSIZE, (os.path.getsize(server.out / "judgements.db-wal"), hard)
    )
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


@pytest.mark.long
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


# What the organiser sees


@pytest.mark.long
def test_the_organiser_sees_judges_agreement_and_the_ranking(texts, tmp_path, run):
    with Server(texts, tmp_path / "run", *JUDGES, "--twice", "1", "--until", "0.5") as server:
        assert "no ranking before" in server.request("GET", f"{server.organiser}/")[2]
        voters = [server.voter(name) for name in ("ana", "bo", "cy")]
        for _ in range(30):
            for voter in voters[:2]:
                left, right = voter.texts()
                voter.vote("A" if left > right else "B")
            voters[2].vote("A")
        voters[2].skip("<i>I cannot decide")
        shown = server.request("GET", f"{server.organiser}/ranking.csv")[2]
        best = [row["item"] for row in csv.DictReader(io.StringIO(shown))]
        assert best[:3] != sorted(best)[:3]
        assert best.index("e11") < best.index("e00")
        live = json.loads(server.request("GET", f"{server.organiser}/live")[2])["html"]
        text = server.request("GET", f"{server.organiser}/votes.csv")[2]
    assert "chooses one side" in live.split("<bdi>cy</bdi>")[1].split("</th>")[0]
    assert live.count("chooses one side") == 1
    assert 'Sure enough (0.5)?</h3><p class="figure">Yes' in live
    assert "&lt;i&gt;I cannot decide" in live
    assert "90" in live.split("<h3>Votes</h3>")[1][:40]
    for method in ([], ["--method", "mixed"]):  # one folder, one ranking
        fitted = run(tmp_path, ["fit", "run", "--format", "csv", *method])
        assert fitted.stdout.splitlines() == shown.splitlines(), fitted.stderr
    record = read_record(tmp_path / "run")
    assert record.ranking.to_csv() == shown
    members = who_judged(record)["members"]  # one position bias of each judge, the one that the ranking corrects for
    for name, gamma in zip(record.ranking.comparisons.judges, record.ranking.solution.bias.mean(axis=0), strict=True):
        (member,) = [member for member in members if member["name"] == name]
        assert member["favours"] == favours(float(expit(-gamma)))
        cells = re.findall(r'<td class="n">(.*?)</td>', live.split(f"<bdi>{name}</bdi>")[1].split("</tr>")[0])
        share, interval = cells[-2].removesuffix("</small>").split("<small>")
        assert share == f"{expit(-gamma):.0%}"
        assert member["favours_interval"] == interval or gamma > 0  # of the right side then
    assert dict(_making(record)["settings"])["method"] == "mixed"  # the estimator that was used
    votes = list(csv.DictReader(io.StringIO(text)))
    assert len(votes) == 90
    assert set(votes[0]) == {"first", "second", "winner", "p", "voter", "seconds", "at"}
    (tmp_path / "votes.csv").write_text(text)
    assert len(Comparisons.read(tmp_path / "votes.csv")) == 90
    fitted = run(tmp_path, ["fit", "votes.csv", "--format", "csv"])
    assert [row.partition(",")[0] for row in fitted.stdout.splitlines()] == [
        row.partition(",")[0] for row in shown.splitlines()
    ], fitted.stderr
    assert fit(tmp_path / "run").to_csv() == shown
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
        assert "Which Text is better argued?" in page
        assert "raise --budget" not in page
        assert len(Comparisons.of(tmp_path / "run")) == number
        record = read_record(tmp_path / "run")
        assert record.ranking.solution.panel is None  # all people together
        voted = sorted({str(judgement.question.voice) for judgement in record.answered})
        (judged_by,) = [value for name, value in facts(record) if name == "Judged by"]
        assert judged_by.split()[0] == str(len(voted))  # whoever gave no vote, or took it back, is not counted
        assert all((name in judged_by) == (name in voted) for name in judges.split(","))
        assert Items.of(tmp_path / "run").ids.tolist() == [f"e{k:02}" for k in range(12)]


# What is wrong before anything starts


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--for", "ana,bo,Ana"], "--for ana,bo,Ana: .*'ana'"),
        (["--for", "ana,,bo"], "--for ana,,bo: .*no name"),
        (["--for", "others"], "no judge can be called 'others'"),
        (["--twice", "2"], "--twice 2.0 .*share"),
        (["--until", "7"], "until = 7.0 .*0 and 1"),
        (["--host", "no.such.host.invalid"], "--host no.such.host.invalid: .*address"),
        (["--host", "192.0.2.1"], "--host 192.0.2.1 .*address"),
        (["--behind", "example.org"], "--behind example.org .*https://"),
        (["--criterion", " "], "the criterion is empty"),
    ],
)
def test_a_wrong_flag_is_one_clear_message(texts, tmp_path, run, flags, message):
    found = run(tmp_path, ["vote", texts, "--criterion", "better", "--no-browser", "--out", "run", *flags])
    assert found.returncode == 2
    assert re.search(message, found.stderr)
    assert "Traceback" not in found.stderr
    assert not (tmp_path / "run").exists()


def test_a_file_that_nobody_named_opens_no_page_for_the_network(texts, tmp_path, run):
    (tmp_path / "comparo.toml").write_text('[vote]\nhost = "0.0.0.0"\n')
    found = run(tmp_path, ["vote", texts, "--criterion", "better", "--no-browser"])
    assert found.returncode == 2
    assert re.search(r"comparo\.toml .*\(host = '0\.0\.0\.0'\).* --config .* --host", found.stderr)


def test_texts_that_cannot_be_compared_are_one_clear_message(tmp_path, run):
    (tmp_path / "empty").mkdir()
    essays(tmp_path / "one", 1)
    for data, message in (
        ("empty", "has no .txt, .md, .docx, .pdf, .png, .jpg or .jpeg files"),
        ("one", "is the only item"),
        ("none", "does not exist"),
    ):
        found = run(tmp_path, ["vote", data, "--criterion", "better", "--no-browser"])
        assert found.returncode == 2
        assert message in found.stderr
    assert not (tmp_path / "comparo-runs").exists()


def test_a_taken_port_is_one_clear_message(texts, tmp_path, run):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        found = run(tmp_path, ["vote", texts, "--criterion", "better", "--no-browser", "--out", "run", "--port", port])
        assert found.returncode == 2
        assert f"--port {port} is taken" in found.stderr
        assert not (tmp_path / "run").exists()


def test_a_port_that_was_not_asked_for_gives_way():
    with open_socket(HOST, None) as one:
        last = one.getsockname()[1]
        with open_socket(HOST, None, last) as another:
            assert another.getsockname()[1] != last


def test_a_folder_in_use_is_one_clear_message(texts, tmp_path, run):
    with Server(texts, tmp_path / "run", *JUDGES):
        found = run(tmp_path, ["vote", texts, "--criterion", "better argued", "--no-browser", "--out", "run", *JUDGES])
        assert found.returncode == 1
        assert "is in use by another process" in found.stderr


def test_a_missing_library_is_named_with_its_command(texts, tmp_path, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette", None)
    found = run(tmp_path, ["vote", texts, "--criterion", "better", "--no-browser"])
    assert found.returncode == 2
    assert "[vote]" in found.stderr


@pytest.mark.long
def test_a_page_for_the_network_is_said_loudly(texts, tmp_path):
    with Server(texts, tmp_path / "run", "--host", "0.0.0.0", "--invite") as server:
        path = f"/join/{server.links()['invitation']}/"
        assert server.request("GET", path, headers={"Host": "class.example"})[0] == 200
        out, said = server.stop()
    assert "WARNING: everybody who can reach http://" in said
    assert "0.0.0.0" not in out
    with Server(texts, tmp_path / "other") as server:
        assert "WARNING" not in server.stop()[1]


# Texts


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "[x](javascript:alert(1))",
        '![x](https://example.org/track.png "title")',
        "<a href='https://example.org'>x</a>",
        "**<b onmouseover=alert(1)>**",
        "`</code><script>`",
        "```\n</code></pre><script>\n```",
        "# <img src=x onerror=alert(1)>",
        "- <svg/onload=alert(1)>",
        "1. *a **b* c**",
        "&lt;script&gt; &#60;script&#62;",
        "[a]: javascript:alert(1)\n\n[a]",
        "<https://example.org>",
    ],
)
def test_markdown_makes_no_tag_but_its_own(text):
    shown = str(as_markdown(text))
    tags = re.findall(r"<[^>]*>", shown)
    assert set(tags) <= {f"<{end}{name}>" for end in ("", "/") for name in "p h3 ul ol li strong em code pre".split()}
    assert "javascript:" not in shown or "[a]" in shown
    assert "](" not in shown
    assert "example.org/track" not in shown


LONG = 100_000  # characters of a hostile text


@pytest.mark.long
def test_no_pattern_backtracks_on_a_hostile_text():
    """Each repeats what a pattern begins with and never ends; some took minutes, so the limit is far from both."""
    repeated = [
        "**a ",
        "__a ",
        "*a ",
        "_a ",
        " *a",
        "`a",
        "`a``b```c",
        "[](",
        "[](a",
        "[]((x)",
        "[",
        "![",
        "- ",
        "1. ",
        "*",
        "```\n",
    ]
    hostile = [part * LONG for part in repeated] + [f"# x{' ' * LONG}y", f"#{' ' * LONG}x", f"- {' ' * LONG}x"]
    start = time.process_time()
    for text in hostile:
        for length in (MARKDOWN, LONG):
            shown_text(text[:length], is_markdown=True)
    are_codes(["a" * LONG, f"{'a' * LONG}!"] * 10)
    for count in (101, 166, 300):
        differences(*(" ".join(f"w{k * step % count}" for k in range(2000)) for step in (1, 37)))
    assert time.process_time() - start < len(hostile)


def test_differences_mark_words_and_keep_every_character():
    one, other = "The <b>cat</b>  sat,\n& slept.", "A <b>cat</b>  sat; \n& slept!"
    for text, shown in zip((one, other), differences(one, other), strict=True):
        assert html.unescape(re.sub("</?mark>", "", shown)) == text
    assert "<mark>The</mark> &lt;b&gt;cat&lt;/b&gt;  sat<mark>,</mark>" in differences(one, other)[0]
    assert differences("a " * 2001, "b") is None


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


# Connections without a request


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
    with Server(texts, tmp_path / "run", *JUDGES) as server:
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
