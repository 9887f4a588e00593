"""Who sees which pair or line-up, and what becomes of an order of several texts."""

import json
import random
import re
import sqlite3
from collections import Counter

import pytest

from comparo import fit
from inside import read_judgements, read_record
from voting import Server, essays


@pytest.mark.parametrize(
    ("texts", "judges", "votes", "size", "twice", "short"),
    [
        pytest.param(12, "ana,bo,cy,di", 75, 2, 0.25, (3, 0), marks=pytest.mark.long),
        pytest.param(12, "ana,bo,cy,di", 80, 3, 0.2, (2, 2), marks=pytest.mark.long),
        pytest.param(30, "ana,bo", 60, 3, 0.2, (2, 2), marks=pytest.mark.long),
        (12, "ana,bo,cy", 45, 4, 0.2, (2, 2)),
    ],
)
def test_texts_are_shared_out_evenly(tmp_path, texts, judges, votes, size, twice, short):
    flags = ["--for", judges, "--lineup", str(size), "--twice", str(twice)]
    with Server(essays(tmp_path / "essays", texts), tmp_path / "run", *flags) as server:
        voters = {name: server.voter(name) for name in server.links()["judges"]}
        rng, seen = random.Random(0), {name: [] for name in voters}
        for _ in range(votes):
            name = rng.choice(list(voters))
            seen[name].append(voters[name].texts())
            voters[name].vote(rng.choice("AB=") if size == 2 else ">".join(rng.sample("ABCD"[:size], size)))
    looks = Counter(frozenset(items) for own in seen.values() for items in own)
    assert set(looks.values()) <= {1, 2}
    # The last ones that want a second look may still wait for theirs.
    missing = twice * len(looks) - sum(look == 2 for look in looks.values())
    assert -short[1] <= missing <= short[0]
    times = [Counter(item for items in own for item in items) for own in seen.values()]
    for shown in [*times, sum(times, Counter())] if size > 2 else ():
        assert max(shown.values()) - min(shown[item] for item in range(texts)) <= 5
    for own in seen.values():
        assert len(set(map(frozenset, own))) == len(own)
        for item in range(texts):
            slots = Counter(items.index(item) for items in own if item in items)
            assert max(slots.values(), default=0) - min(slots[slot] for slot in range(size)) <= 2


@pytest.mark.parametrize(("size", "choice", "every"), [("2", "A", 6), ("3", "B>A>C", 4)])
def test_a_judge_sees_every_pair_or_lineup_once_and_is_thanked(tmp_path, size, choice, every):
    flags = ["--for", "ana,bo", "--each", "9", "--lineup", size]
    with Server(essays(tmp_path / "essays", 4), tmp_path / "run", *flags) as server:
        for name in ("ana", "bo"):
            voter, seen = server.voter(name), set()
            while voter.ballot is not None:
                assert frozenset(voter.texts()) not in seen
                seen.add(frozenset(voter.texts()))
                voter.vote(choice)
            assert len(seen) == every
            assert f"{every} of {every}" in voter.html
            voter.undo()
            assert voter.ballot is not None


@pytest.mark.long
def test_a_judge_stays_with_a_context_for_a_while(tmp_path):
    items = [
        {"id": f"s{k}", "text": f"Essay number {k} of {c}.", "context": f"Article {c} <b>"}
        for c in range(3)
        for k in range(6)
    ]
    (tmp_path / "items.json").write_text(json.dumps(items))
    flags = ["--for", "ana,bo", "--kind", "Text; heading=Article"]
    with Server(tmp_path / "items.json", tmp_path / "run", *flags) as server:
        seen = []
        ana = server.voter("ana")
        for _ in range(9):
            seen.append(ana.html.split("Article ")[1][0])
            assert f"Article {seen[-1]} &lt;b&gt;" in ana.html
            ana.vote("A")
        assert server.voter("bo").texts()
    assert [seen[k : k + 3] for k in (0, 3, 6)] == [[c] * 3 for c in "012"]
    assert {one.question.context for one in read_judgements(server.out)} == {f"Article {c} <b>" for c in range(3)}


def test_an_order_of_three_texts_is_one_vote(tmp_path):
    with Server(essays(tmp_path / "essays"), tmp_path / "run", "--for", "ana,bo", "--lineup", "3") as server:
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
        told = [(one.lineup, one.reply, one.p) for one in votes[:2]]
        assert told == [("C>A>B", "C>A>B", 0.0), ("A>C>B", "A>C>B", 1.0)]
        assert [list(one.question.items) for one in votes] == shown
        assert (votes[2].failed, votes[2].lineup, ana.votes) == (True, "", 2)
        assert {f"e{number:02}" for number in server.voter("bo").texts()} == set(shown[2])  # what another skipped
        server.kill()
    with server:
        ana = server.voter("ana")
        assert (ana.ballot, ana.texts(), ana.votes) == (number, again, 2)
    with sqlite3.connect(server.out / "judgements.db") as stored:
        seconds = stored.execute("SELECT second FROM ballots WHERE judgement IS NOT NULL ORDER BY number").fetchall()
    assert [json.loads(second) for (second,) in seconds] == [items[1:] for items in shown]


def scores_by_name(path):
    found = fit(path)
    return dict(zip(found.items.tolist(), found.scores.tolist(), strict=True))


def test_lineups_are_one_ranking_wherever_they_are_read(tmp_path, run):
    rng = random.Random(0)
    flags = ["--for", "ana,bo", "--lineup", "3", "--twice", "0.5"]
    with Server(essays(tmp_path / "essays"), tmp_path / "run", *flags) as server:
        for voter in [server.voter("ana"), server.voter("bo")] * 12:
            voter.open()
            values = [0.5 * number + rng.gauss(0, 1) for number in voter.texts()]
            voter.vote(">".join(sorted("ABC", key=lambda label: -values["ABC".index(label)])))
        shown, ranked = server.table("ranking")
        live = server.live()
        text, votes = server.table("votes")
    ranks = {row["item"]: int(row["rank"]) for row in ranked}
    assert max(ranks[f"e{number:02}"] for number in (9, 10, 11)) < min(ranks[f"e{number:02}"] for number in (0, 1, 2))
    assert (len(votes), set(votes[0])) == (24, {"items", "order", "voter", "seconds", "at"})
    (tmp_path / "votes.csv").write_text(text)
    assert fit(tmp_path / "run").to_csv() == shown
    assert scores_by_name(tmp_path / "votes.csv") == pytest.approx(scores_by_name(tmp_path / "run"), abs=1e-9)
    fitted = run(tmp_path, ["fit", "run", "--format", "csv"])
    assert fitted.stdout.splitlines() == shown.splitlines()
    assert "24 answers" in fitted.stderr
    assert re.search(r"[1-9]\d* pairs", live)  # three for each line-up
    assert sum(int(n) for n in re.findall(r'</svg></td><td class="n">(\d+)</td>', live)) == 3 * 24
    record = read_record(tmp_path / "run")
    assert record.ranking.to_csv() == shown
    assert (len(record.answered), len(record.p), record.possible) == (24, 72, 2 * 12 * 11 * 10)
    ends = [(one.question.first, one.question.second, one.p) for one in map(record.compared, range(72))]
    data = record.ranking.comparisons
    assert ends == list(zip(data.items[data.first], data.items[data.second], data.p, strict=True))
    assert run(tmp_path, ["runs", "--report", "run"]).returncode == 0


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
