"""Several voices in one run: who is asked what, voices that are useless or die, and going on after a stop."""

import json
import math
import re
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from comparo import Comparisons, Items, JudgeError, Judgement, Question, RunError, StoreError, rank
from comparo.run.voice_allocation import Allocation, Chorus
from comparo.selection import Selector
from inside import (
    Budget,
    Simulated,
    Store,
    Task,
    count_judgements,
    criterion_prompt,
    prepare,
    read_judgements,
    voices_of,
)
from stored import asked, run

SIZE = 24
TEXTS = {f"item {number}": f"Text number {number}." for number in range(SIZE)}
TRUTH = np.random.default_rng(7).standard_normal(SIZE)


class Told(Simulated):
    """A simulated judge with a name of its own that works on few questions at once, and may die."""

    ahead = 4
    stop_after = math.inf
    price = None
    title = "told/judge"

    @property
    def name(self):
        return self.title

    def judge(self, questions, prompt):
        for answer in super().judge(questions, prompt):
            count = self.__dict__.get("count", 0) + 1
            object.__setattr__(self, "count", count)
            if count > self.stop_after:
                raise JudgeError("the key was withdrawn")
            yield answer


def told(title, taste=0.5, scale=1.0, noise=0.5, **more):
    seed = sum(map(ord, title))
    own = np.random.default_rng(seed).standard_normal(SIZE)
    judge = Told(scores=dict(zip(TEXTS, (scale * (TRUTH + taste * own)).tolist(), strict=True)), noise=noise, seed=seed)
    for name, value in {"title": f"told/{title}", **more}.items():
        object.__setattr__(judge, name, value)
    return judge


def coin(**more):
    return told("coin", scale=0.0, noise=1.0, **more)


def task(judges, wordings=("delimited",), budget="20n", items=None, **options):
    prompts = [criterion_prompt("better", wording=wording) for wording in wordings]
    panel = voices_of(judges, prompts)
    items = Items.of(TEXTS) if items is None else items
    return Task(items, prompts[0], judges[0], Budget.of(budget), panel=panel, **options)


def calls(judgements):
    found = {}
    for one in judgements:
        found[one.question.voice] = found.get(one.question.voice, 0) + (not one.failed)
    return found


def contexts(count=6, size=8):
    rows = [
        {"id": f"item {number}", "text": f"Text {number} of {place}.", "context": f"Input {place}", "context_id": place}
        for place in range(count)
        for number in range(size)
    ]
    return Items.of(rows)


def spearman(ranking):
    return rank_correlation([ranking[item].score for item in TEXTS])


def rank_correlation(scores):
    return np.corrcoef(np.argsort(np.argsort(scores)), np.argsort(np.argsort(TRUTH)))[0, 1]


def test_every_voice_is_asked_the_same_pairs_whatever_it_answers_and_costs():
    judges = [told("ana", price=(10.0, 0.0)), told("bo", price=(1.0, 0.0)), coin(price=(1.0, 0.0))]
    ranking, judgements = run(task(judges))
    assert calls(judgements) == {"told/ana": 160, "told/bo": 160, "told/coin": 160}
    assert len({(one.question.first, one.question.second) for one in judgements}) == 160
    assert set(ranking.tables["voices"]["judge"]) == {"told/ana", "told/bo", "told/coin"}
    assert ranking.comparisons.judges is not None
    both = sum(np.array([judge.scores[item] for item in TEXTS]) for judge in (told("ana"), told("bo")))
    assert spearman(ranking) > rank_correlation(both) - 0.03  # what the two agree on, if they were asked everything


def test_every_voice_is_asked_as_often_in_each_context():
    _, judgements = run(task([told("ana"), told("bo")], items=contexts(), budget="10n"))
    for place in range(6):
        own = calls([one for one in judgements if one.question.context == place])
        assert own == {"told/ana": 40, "told/bo": 40}


@pytest.mark.long
def test_both_orders_of_a_pair_go_to_one_voice():
    _, judgements = run(task([told("ana"), told("bo")]))
    made = {(one.question.voice, one.question.first, one.question.second) for one in judgements}
    alone = [one for one in made if (one[0], one[2], one[1]) not in made]
    assert len(alone) <= 2  # at the end of the budget


def test_money_is_shared_equally_and_holds_over_all_voices_together():
    class Paid(Told):
        def judge(self, questions, prompt):
            for one in super().judge(questions, prompt):
                yield Judgement(one.question, p=one.p, mass=one.mass, cost=self.price[0] * 1e-3)

    judges = []
    for title, price in (("ana", 10.0), ("bo", 1.0)):
        judge = told(title, price=(price, 0.0))
        judge.__class__ = Paid
        judges.append(judge)
    _, judgements = run(task(judges, budget="$0.5"))
    spent = [sum(one.cost for one in judgements if one.question.voice == judge.name) for judge in judges]
    assert 0.45 < sum(spent) <= 0.51
    assert abs(spent[0] - spent[1]) <= 0.02
    asked_of = [{(one.question.items) for one in judgements if one.question.voice == judge.name} for judge in judges]
    assert asked_of[0] <= asked_of[1]  # the dear one is asked the first of these pairs


@pytest.mark.long
def test_more_budget_goes_on_with_the_same_questions(tmp_path):
    def work(budget):
        return task([told("ana"), told("bo")], budget=budget)

    run(work("10n"), tmp_path / "run")
    _, longer = run(work("20n"), tmp_path / "run")
    assert asked(longer) == asked(run(work("20n"))[1])


@pytest.mark.long
def test_a_voice_that_dies_is_left_out_its_answers_count_and_its_calls_go_to_the_others(tmp_path, caplog):
    judges = [told("ana"), told("bo", stop_after=60), told("cy")]
    ranking, judgements = run(task(judges), tmp_path / "run")
    made = calls(judgements)
    assert made["told/bo"] == 60
    assert sum(made.values()) == 480
    (sentence,) = [sentence for sentence in caplog.messages if "left out" in sentence]
    assert re.fullmatch("told/bo .*withdrawn.*told/ana, told/cy.*", sentence)
    lost = [one for one in judgements if one.failed]
    assert lost
    assert {one.question.voice for one in lost} == {"told/bo"}
    assert all(re.search("left out.*withdrawn", one.error) and math.isnan(one.p) for one in lost)
    assert 60 in ranking.tables["voices"]["calls"]
    # The same command again: the voice is back, but all calls are made.
    back = told("bo")
    _, again = run(task([told("ana"), back, told("cy")]), tmp_path / "run")
    assert asked(again) == asked(judgements)
    assert "count" not in back.__dict__


def test_a_voice_that_is_dead_from_the_start_is_left_out():
    _, judgements = run(task([told("ana"), told("bo", stop_after=0), told("cy")]))
    assert calls(judgements)["told/bo"] == 0
    assert sum(calls(judgements).values()) == 480


def test_a_voice_that_fails_often_or_ignores_the_labels_is_left_out(caplog):
    class Failing(Told):
        def judge(self, questions, prompt):
            for number, one in enumerate(super().judge(questions, prompt)):
                yield one if number % 2 else Judgement(one.question, error="the server answered 500")

    class Chatty(Told):
        def judge(self, questions, prompt):
            for one in super().judge(questions, prompt):
                yield Judgement(one.question, p=one.p, mass=0.01, reply="As a model")

    failing, chatty = told("failing"), told("chatty")
    failing.__class__, chatty.__class__ = Failing, Chatty
    _, judgements = run(task([told("ana"), failing, told("cy"), chatty]))
    assert sum(calls(judgements).values()) == 480
    assert any("told/failing" in sentence and "judgements failed" in sentence for sentence in caplog.messages)
    assert any("told/chatty" in sentence and "As a model" in sentence for sentence in caplog.messages)
    with pytest.raises(RunError, match=r"judgements failed|labels"):
        run(task([failing, chatty]))


def test_a_run_ends_with_the_error_when_no_voice_is_left(tmp_path):
    judges = [told("ana", stop_after=30), told("bo", stop_after=50)]
    with pytest.raises(JudgeError, match="withdrawn"):
        run(task(judges), tmp_path / "run")
    assert sum(calls(read_judgements(tmp_path / "run")).values()) == 80
    _, again = run(task([told("ana"), told("bo")]), tmp_path / "run")
    assert sum(calls(again).values()) == 480


@pytest.mark.long
def test_wordings_of_one_judge_share_it_and_its_thread():
    class Once(Told):
        busy = False

        def judge(self, questions, prompt):
            assert not self.busy
            object.__setattr__(self, "busy", True)
            for one in super().judge(questions, prompt):
                self.prompts.add((one.question.voice, prompt.wording))
                yield one
            object.__setattr__(self, "busy", False)

    judge = told("ana", prompts=set())
    judge.__class__ = Once
    _, judgements = run(task([judge], wordings=("paper", "compare")))
    names = {"told/ana · paper": "paper", "told/ana · compare": "compare"}
    assert judge.prompts == set(names.items())
    assert set(calls(judgements)) == set(names)


@pytest.mark.long
def test_a_target_is_reached_by_voices_together():
    _, all_of_them = run(task([told("ana"), told("bo")], budget="40n"))
    _, fewer = run(task([told("ana"), told("bo")], budget="40n", until=0.7))
    assert len(fewer) < len(all_of_them)
    assert set(asked(fewer)) <= set(asked(all_of_them))


def test_small_contexts_use_up_all_pairs_of_all_voices():
    _, judgements = run(task([told("ana"), told("bo")], budget="50n", items=contexts(2, 3)))
    assert len(judgements) == len(asked(judgements)) == len(set(asked(judgements))) == 2 * 2 * 6


def test_the_budget_must_connect_the_items_for_all_voices_together():
    with pytest.raises(ValueError, match=r"24 .*24 items.*\b46\b.*'1.9n'"):
        prepare(task([told("ana"), told("bo"), told("cy")], budget="1n"))


def test_few_calls_share_the_voices_out_over_small_contexts():
    """4 voices, 4n calls: all together connect every context, any two voices share pairs, and none is left out."""
    voices = [told(name) for name in ("ana", "bo", "cy", "dee")]
    ranking, judgements = run(task(voices, budget="4n", items=contexts(4, 6)))
    assert len(judgements) == 4 * SIZE
    assert (len(ranking.scores), ranking.graph.components) == (SIZE, 4)
    calls = np.unique([one.question.voice for one in judgements], return_counts=True)[1]
    assert len(calls) == 4
    assert np.max(calls) <= 2 * np.min(calls)
    pairs = {}
    for one in judgements:
        question = one.question
        pairs.setdefault((question.context, question.first, question.second), set()).add(question.voice)
    assert {len(team) for team in pairs.values()} == {2}
    assert len({frozenset(team) for team in pairs.values()}) == 6


@pytest.mark.long
def test_a_larger_budget_goes_on_with_the_same_teams(tmp_path):
    voices = [told(name) for name in ("ana", "bo", "cy", "dee")]
    first = rank(TEXTS, "better", judge=voices, budget="4n", out=tmp_path / "run")
    assert len(first.comparisons) == 4 * SIZE
    more = rank(TEXTS, "better", judge=voices, budget="20n", out=tmp_path / "run")
    assert more.tables["voices"]["calls"].sum() == 20 * SIZE


def test_a_voice_whose_questions_fail_through_waves_gets_no_more_unless_that_leaves_none():
    allocation = Allocation({"ana": math.nan, "bo": math.nan})
    one, other = (Judgement(Question("x", "y", voice=voice), p=0.6) for voice in ("ana", "bo"))
    lost = [Judgement(Question("y", "x", voice=voice), error="500") for voice in ("ana", "bo")]
    allocation.decide([one, other, *lost])
    assert allocation.active == ["ana", "bo"]
    chorus = Chorus(Selector(list("wxyz"), orders="both", seed=0), allocation)
    first = chorus.next(4)
    allocation.decide([one, lost[1], lost[1]])
    assert allocation.active == ["ana", "bo"]
    allocation.decide([one, lost[1]])
    assert allocation.active == ["ana"]
    rest = chorus.next(24)
    assert {voice for *_, voice in rest} == {"ana"}
    assert len({pair[:2] for pair in first + rest if pair[2] == "ana"}) == 12  # all pairs of four
    assert chorus.remaining == 0
    allocation.decide([lost[0]] * 3)
    assert allocation.active == ["ana"]


def test_a_folder_whose_calls_were_shared_in_another_way_counts_them_all(tmp_path):
    """As of an earlier version, which asked one voice more than the other."""
    work = task([told("ana"), told("bo")], budget="10n")
    store = Store(tmp_path / "run", work.identity, work.configuration)
    pairs = Selector(list(TEXTS), orders="both", seed=5).next(150)
    earlier = [Question(*pair, voice="told/ana") for pair in pairs]
    store.add(list(work.voices[0].judge.judge(earlier, work.prompt)))
    store.close()
    _, judgements = run(work, tmp_path / "run")
    assert len(judgements) == 240
    assert calls(judgements)["told/bo"] > 30
    _, again = run(work, tmp_path / "run")
    assert asked(again) == asked(judgements)


def test_python_takes_lists_of_judges_wordings_and_options(tmp_path):
    ranking = rank(
        TEXTS,
        "better",
        judge=["simulated/soft; seed=3", lambda first, second: 0.5 + 0.001 * (len(first) - len(second))],
        wording=["paper", "compare"],
        budget="20n",
        out=tmp_path / "run",
    )
    names = {str(name) for name in ranking.comparisons.judges}
    assert names >= {"simulated/soft · paper", "simulated/soft · compare"}
    written = json.loads((tmp_path / "run" / "run.json").read_text())
    assert len(written["identity"]["voices"]) == 4
    assert written["wording"] == "paper, compare"
    read = Comparisons.read(tmp_path / "run")
    assert {str(name) for name in read.judges} == names
    with pytest.raises(TypeError, match="no parameter 'options'"):
        rank(TEXTS, "better", judge="simulated/soft", options={})


def test_a_folder_of_another_version_is_refused(tmp_path):
    work = Task(Items.of(TEXTS), criterion_prompt("better"), told("ana"), Budget.of("4n"))
    run(work, tmp_path / "run")
    with closing(sqlite3.connect(tmp_path / "run" / "judgements.db")) as connection:
        connection.execute("PRAGMA user_version=20")
    for read in (read_judgements, count_judgements):
        with pytest.raises(StoreError, match="another version"):
            read(tmp_path / "run")
    with pytest.raises(StoreError, match="another version"):
        run(work, tmp_path / "run")
    with pytest.raises(StoreError, match="another version"):
        Comparisons.read(tmp_path / "run")
