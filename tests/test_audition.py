"""An audition: the same few pairs for every voice, and what is said of good, reversed, lost and blind ones."""

import json
import math
import shlex
from collections import Counter

import numpy as np
import pytest

from comparo import Comparisons, Items, audition, load_judge, rank
from inside import Run, read_judgements, some_items
from pretenders import Crowded
from servers import Api, prefers

QUALITY = {f"story {k}": k / 4 for k in range(24)}
TEXTS = {name: f"About {name}." for name in QUALITY}


def voice(**options):
    return load_judge("simulated/soft", scores=QUALITY, **options)


@pytest.mark.long
def test_good_reversed_and_lost_voices_are_told_apart(tmp_path):
    judges = [
        voice(seed=1),
        voice(strength=-1.0, seed=2),
        voice(strength=0.1, bias=4.0, seed=3),
        voice(seed=4, noise=1.0),
    ]
    found = audition(TEXTS, "better", judge=judges, out=tmp_path / "run")
    named = [f"simulated/soft {k}" for k in (1, 2, 3, 4)]
    assert found.best == named[0]
    assert named[1] not in found.panel
    assert named[2] not in found.panel
    told = " | ".join(found.notes)
    assert f"'{named[1]}' ranks against" in told
    assert f"'{named[2]}' answers mostly" in told
    assert len(found.notes) == 2
    content = found.table["content"]
    assert np.all(np.diff(content) <= 0)
    assert found.table["judge"].tolist()[-1] == named[2]
    answers = read_judgements(tmp_path / "run")
    assert Counter(one.question.voice for one in answers) == dict.fromkeys(named, 40)
    asked = {
        name: {(one.question.first, one.question.second) for one in answers if one.question.voice == name}
        for name in named
    }
    assert asked[named[0]] == asked[named[1]] == asked[named[2]] == asked[named[3]]
    assert all((second, first) in asked[named[0]] for first, second in asked[named[0]])
    again = audition(TEXTS, "better", judge=judges, out=tmp_path / "run")
    assert again.table["content"] == pytest.approx(content)
    assert len(read_judgements(tmp_path / "run")) == len(answers)
    assert Comparisons.read(tmp_path / "run").judges is not None


def test_of_two_voices_that_contradict_each_other_none_is_taken_for_the_reversed_one(tmp_path):
    judges = [voice(seed=1), voice(strength=-1.0, seed=2)]
    found = audition(TEXTS, "better", judge=judges, out=tmp_path / "run")
    assert np.isnan(found.table["agreement"]).all()
    assert (found.table["signal"] > 0.1).all()
    assert len(found.panel) == 1
    (note,) = found.notes
    assert all(f"'simulated/soft {k}'" in note for k in (1, 2))


@pytest.mark.long
def test_voices_of_the_same_worth_are_too_close_to_call_and_a_worse_one_is_not():
    judges = [voice(seed=1, noise=0.7), voice(seed=2, noise=0.7), voice(seed=3, strength=0.1, bias=3.0)]
    found = audition(TEXTS, "better", judge=judges)
    assert {found.best, *found.rivals} == {"simulated/soft 1", "simulated/soft 2"}
    assert audition(TEXTS, "better", judge=[judges[0], judges[2]]).rivals == ()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_a_voice_that_contradicts_the_others_is_never_added(seed):
    judges = [voice(seed=seed, noise=2.0), voice(seed=seed + 10, noise=2.0), voice(strength=-1.0, seed=seed + 20)]
    found = audition(TEXTS, "better", judge=judges)
    low = dict(zip(found.table["judge"].tolist(), found.table["agreement_low"].tolist(), strict=True))
    assert "simulated/soft 3" not in (found.best, *found.panel)
    assert all(low[name] > 0 for name in found.panel[1:])


def test_coins_are_noted():
    judges = [voice(seed=1), voice(seed=2, strength=0.0, noise=1.0), voice(seed=3, strength=0.3, bias=2.0, noise=0.3)]
    found = audition(TEXTS, "better", judge=judges)
    noted = {name: [note for note in found.notes if f"'{name}'" in note] for name in found.table["judge"].tolist()}
    assert [len(noted[f"simulated/soft {k}"]) for k in (1, 2, 3)] == [0, 1, 1]
    assert "position" in noted["simulated/soft 3"][0]


def test_coins_alone_are_seen_by_nobody_and_more_pairs_are_asked_only_for_what_is_open():
    coins = [load_judge("simulated/hard", scores=QUALITY, strength=0.0, seed=k) for k in range(2)]
    found = audition(TEXTS, "better", judge=coins)
    reads = found.table["reads"].tolist()
    assert "yes" not in reads
    assert "No judge" in found.advice
    assert found.rivals == ()
    assert len(found.notes) == 2
    assert (found.ask > 20) == ("not yet known" in reads)
    always = load_judge("simulated/hard", scores=QUALITY, strength=0.0, bias=50.0)
    assert audition(TEXTS, "better", judge=always, pairs=15).table["reads"].tolist() == ["no"]


def test_a_judge_that_is_clearly_better_is_recommended_and_pairs_are_suggested_where_it_is_close():
    better, *others = [voice(seed=k, noise=noise, strength=0.5) for k, noise in enumerate((0.1, 2.0, 2.0))]
    found = audition(TEXTS, "better", judge=[better, *others])
    assert (found.best, found.rivals, found.ask) == ("simulated/soft 1", (), 0)
    assert found.advice.startswith("Use simulated/soft 1")
    close = audition(TEXTS, "better", judge=[voice(seed=1, noise=0.6), voice(seed=2, noise=1.0)])
    assert close.rivals
    assert close.ask == 0 or close.ask % 10 == 0
    assert f"{close.ask} pairs" in close.advice or close.ask == 0


def test_numbers_of_an_audition_do_not_depend_on_the_order_of_its_answers(monkeypatch):
    judges = [voice(seed=1), voice(seed=2, noise=1.5)]
    usual = audition(TEXTS, "better", judge=judges, pairs=15)
    shuffled = property(lambda run: [one for key in sorted(run.known, reverse=True) for one in run.known[key]])
    monkeypatch.setattr(Run, "judgements", shuffled)
    found = audition(TEXTS, "better", judge=judges, pairs=15)
    assert found.table.keys() == usual.table.keys()
    for name in found.table:
        assert found.table[name].tolist() == pytest.approx(usual.table[name].tolist(), nan_ok=True), name
    assert (found.rivals, found.ask) == (usual.rivals, usual.ask)


def test_one_voice_alone_has_content_but_nobody_confirms_it():
    found = audition(TEXTS, "better", judge=voice(), pairs=30)
    assert found.best == "simulated/soft"
    assert found.panel == ("simulated/soft",)
    assert math.isnan(found.table["agreement"][0])
    assert found.table["content"][0] > 0.5


def test_pairs_are_of_several_contexts_and_connect_their_texts():
    rows = [{"context_id": c, "id": k, "text": f"Text {k} of {c}."} for c in range(30) for k in range(16)]
    some = some_items(Items.of(rows), 20, np.random.default_rng(0))
    assert Counter(some.context.tolist()) == dict.fromkeys(range(4), 4)
    whole = Items.of(rows[:5])
    assert some_items(whole, 20, np.random.default_rng(0)).ids.tolist() == whole.ids.tolist()


@pytest.mark.parametrize(
    ("noise", "best"),
    [({2: 0.7, 4: 0.7}, "line-ups of 4"), pytest.param({2: 0.3, 4: 4.0}, "pairs", marks=pytest.mark.long)],
)
def test_pairs_and_line_ups_compare_at_equal_cost(noise, best, tmp_path):
    judge = Crowded(voice(), noise)
    texts = {name: text * 9 for name, text in TEXTS.items()}
    found = audition(texts, "better", judge=judge, lineup=(2, 4), pairs=30, out=tmp_path / "run")
    table = {
        name: dict(zip(found.table["judge"].tolist(), found.table[name].tolist(), strict=True))
        for name in ("calls", "texts", "tokens", "content", "noise", "per_call", "per_token")
    }
    pairs, fours = "crowded/soft · pairs", "crowded/soft · line-ups of 4"
    assert found.best == f"crowded/soft · {best}"
    assert table["calls"] == {pairs: 60, fours: 30}
    assert table["texts"] == {pairs: 2, fours: 4}
    asked = read_judgements(tmp_path / "run")
    shown = {
        name: Counter(item for one in asked if one.question.voice == name for item in one.question.items)
        for name in (pairs, fours)
    }
    assert shown[pairs].keys() == shown[fours].keys()
    assert shown[pairs].total() == shown[fours].total() == 120
    for name, freedom in ((pairs, 1), (fours, 3)):
        ratio = freedom * table["content"][name] / (2 * table["noise"][name])
        assert table["per_call"][name] == pytest.approx(ratio)
        assert table["per_token"][name] == pytest.approx(1000 * ratio / table["tokens"][name])
    assert 1.5 < table["tokens"][fours] / table["tokens"][pairs] < 2
    k = 4 if best == "line-ups of 4" else 2
    ranking = rank(texts, "better", judge=judge, lineup=k, budget="4n", audition=found)
    assert ranking.comparisons.answers == 96
    assert len({*ranking.comparisons.items.tolist()}) == 24


def test_line_ups_of_very_few_texts():
    few = dict(list(TEXTS.items())[::8])
    found = audition(few, "better", judge=voice(noise=0.5), lineup=(2, 3))  # all orders of each, and no more
    assert Counter(len(one.question.items) for one in found.answers.judgements) == {2: 6, 3: 6}
    assert found.table["judge"].tolist() == ["others"]
    with pytest.raises(ValueError, match="lineup=3 or less"):
        audition(few, "better", judge=voice(), lineup=(2, 4))


@pytest.mark.parametrize(("lineup", "said"), [((2, 2), "twice"), (9, "2 to 8"), ((2, "auto"), "number of texts")])
def test_what_is_no_number_of_texts_is_an_error_before_anything_is_asked(lineup, said):
    with pytest.raises(ValueError, match=said):
        audition(TEXTS, "better", judge=voice(), lineup=lineup)


@pytest.mark.long
def test_line_ups_on_the_command_line(run, tmp_path):
    rows = [{"id": f"item {k}", "text": f"This is number {k}."} for k in range(24)]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with Api(prefers(0.3)) as one:
        common = ("audition", "items.jsonl", "--criterion", "better", "--judge", f"openai/good; base-url={one.url}")
        common += ("--lineup", "2", "--lineup", "4", "--price", "1,2")
        planned = run(tmp_path, (*common, "--dry-run"))
        assert "60 calls" in planned.stdout
        done = run(tmp_path, (*common, "--out", "found"))
        assert done.returncode == 0, done.stderr
        assert len(one.asked) == 60
        assert "per 1,000 tokens" in done.stdout
        following = next(line for line in done.stderr.splitlines() if line.strip().startswith("comparo rank"))
        assert "--lineup 4" in following
        ranked = run(tmp_path, (*shlex.split(following)[1:], "--budget", "3n", "--out", "ranked", "--format", "json"))
        assert ranked.returncode == 0, ranked.stderr
        assert len(one.asked) == 60 + 72 - 20  # the answers about four texts count


def test_too_few_pairs_are_an_error_before_anything_is_asked():
    with pytest.raises(ValueError, match="15 pairs"):
        audition(TEXTS, "better", judge=voice(), pairs=5)


@pytest.mark.parametrize("wordings", [("between",), pytest.param(("paper", "between"), marks=pytest.mark.long)])
def test_three_servers_on_the_command_line(run, tmp_path, wordings):
    rows = [{"id": f"item {k}", "text": f"This is number {k}."} for k in range(24)]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with Api(prefers(0.5)) as one, Api(prefers(0.3)) as two, Api(prefers(-0.5)) as other:
        servers = {"good": one, "fair": two, "bad": other}
        judges = [part for name, api in servers.items() for part in ("--judge", f"openai/{name}; base-url={api.url}")]
        asked = [part for name in wordings for part in ("--wording", name)]
        common = ("audition", "items.jsonl", "--criterion", "better", *judges, *asked, "--price", "1,2")
        planned = run(tmp_path, (*common, "--dry-run"))
        assert f"{120 * len(wordings)} calls at most" in planned.stdout
        assert not one.asked
        done = run(tmp_path, (*common, "--out", "found"))
        assert done.returncode == 0, done.stderr
        assert [len(api.asked) for api in servers.values()] == [40 * len(wordings)] * 3
        table = run(tmp_path, (*common, "--out", "found", "--format", "json"))
        assert len(one.asked) == 40 * len(wordings)
    assert "openai/good" in done.stdout
    assert "per 1,000 calls" in done.stdout
    found = json.loads(table.stdout)
    ends = [f" · {wording}" for wording in wordings] if len(wordings) > 1 else [""]
    names = {f"openai/{judge}{end}" for judge in servers for end in ends}
    assert {row["judge"] for row in found["voices"]} == names
    assert found["best"].startswith("openai/good")
    assert all("openai/bad" in note and "ranks against" in note for note in found["notes"])
    assert len(found["notes"]) == len(wordings)
    page = (tmp_path / "found" / "report.html").read_text(encoding="utf-8")
    assert (
        page.index(found["advice"].split(":")[0])
        < page.index("openai/good")
        < page.index('<table class="voices" id="audition">')
    )
    assert set(found["rivals"]) < names - {found["best"]}
