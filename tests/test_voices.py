"""Several voices in one run: who is asked what, voices that are useless or die, and going on after a stop."""

import json
import math
import random
import re
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from scipy.special import expit

from comparo import Comparisons, Items, JudgeError, Judgement, Question, RunError, StoreError, rank
from comparo.data.run_folder import encode
from comparo.model.estimators.panel_members import fit_members
from comparo.run.voice_allocation import PILOT, Allocation, Chorus, VoiceShares, _known_noise
from comparo.selection import Selector
from inside import (
    Budget,
    Run,
    Simulated,
    Store,
    Task,
    count_judgements,
    criterion_prompt,
    prepare,
    read_judgements,
    voices_of,
)
from split import one_short

SIZE = 24
TEXTS = {f"item {number}": f"Text number {number}." for number in range(SIZE)}
TRUTH = np.random.default_rng(7).standard_normal(SIZE)


class Told(Simulated):
    """A simulated judge with a name of its own that works on few questions at once, and may die or be shuffled."""

    ahead = 4
    stop_after = math.inf
    stir = None
    price = None
    title = "told/judge"

    @property
    def name(self):
        return self.title

    def judge(self, questions, prompt):
        answers = self._answers(questions, prompt)
        if self.stir is None:
            yield from answers
        else:
            answers = list(answers)
            random.Random(self.stir + len(answers)).shuffle(answers)
            yield from answers

    def _answers(self, questions, prompt):
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


def run(work, folder=None):
    store = Store(folder, work.identity, work.configuration)
    try:
        found = Run(work, store)
        return found.go(), list(store.judgements())
    finally:
        store.close()


def asked(judgements):
    return sorted(
        (str(one.question.voice), encode(one.question.context), one.question.first, one.question.second, one.p)
        for one in judgements
        if not one.failed
    )


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


def test_every_voice_is_first_asked_the_same_pairs_then_the_useless_one_no_more(caplog):
    ranking, judgements = run(task([told("ana"), told("bo"), coin()]))
    assert len(judgements) == 480
    made = calls(judgements)
    assert PILOT <= made["told/coin"] <= 60
    assert made["told/ana"] > 100
    assert made["told/bo"] > 100
    assert any("told/coin gets no more questions" in sentence for sentence in caplog.messages)
    by_voice = {
        voice: {
            (one.question.first, one.question.second) for one in judgements if one.question.voice == f"told/{voice}"
        }
        for voice in ("ana", "bo", "coin")
    }
    assert by_voice["coin"] <= by_voice["ana"] & by_voice["bo"]
    assert len(by_voice["ana"] ^ by_voice["bo"]) > 200  # after the pilot, each pair goes to one voice
    assert set(ranking.tables["voices"]["judge"]) == {"told/ana", "told/bo", "told/coin"}
    assert ranking.comparisons.judges is not None
    both = sum(np.array([judge.scores[item] for item in TEXTS]) for judge in (told("ana"), told("bo")))
    assert spearman(ranking) > rank_correlation(both) - 0.03  # what the two agree on, if they were asked everything


@pytest.mark.long
def test_both_orders_of_a_pair_go_to_one_voice():
    _, judgements = run(task([told("ana"), told("bo")]))
    made = {(one.question.voice, one.question.first, one.question.second) for one in judgements}
    alone = [one for one in made if (one[0], one[2], one[1]) not in made]
    assert len(alone) <= 2  # at the end of the budget, and of the pilot


@pytest.mark.long
def test_the_cheaper_of_equal_voices_gets_more():
    equal = {"taste": 0.5, "noise": 0.5}
    judges = [told("ana", **equal, price=(10.0, 0.0)), told("bo", **equal, price=(1.0, 0.0))]
    made = calls(run(task(judges, budget="30n"))[1])
    assert made["told/bo"] > 2 * made["told/ana"]
    made = calls(run(task([told("ana", **equal), told("bo", **equal, price=(1.0, 0.0))], budget="30n"))[1])
    assert made["told/bo"] < 2 * made["told/ana"]  # a price is unknown, so every call counts the same


def test_money_holds_over_all_voices_together():
    class Paid(Told):
        def _answers(self, questions, prompt):
            for one in super()._answers(questions, prompt):
                yield Judgement(one.question, p=one.p, mass=one.mass, cost=self.price[0] * 1e-3)

    judges = []
    for title, price in (("ana", 10.0), ("bo", 1.0)):
        judge = told(title, price=(price, 0.0))
        judge.__class__ = Paid
        judges.append(judge)
    _, judgements = run(task(judges, budget="$0.5"))
    spent = sum(one.cost for one in judgements)
    assert 0.45 < spent <= 0.51
    assert set(calls(judgements)) == {"told/ana", "told/bo"}


@pytest.mark.long
@pytest.mark.parametrize("stop", one_short([150, 3, 70, 260]))
@pytest.mark.parametrize("strategy", one_short(["adaptive", "greedy"]))
def test_a_run_that_was_stopped_ends_with_the_judgements_of_an_unbroken_one(tmp_path, stop, strategy):
    def work(**more):
        return task([told("ana", **more), told("bo"), coin()], strategy=strategy)

    _, whole = run(work())

    places = iter(range(stop))

    class Stopping(Store):
        def add(self, judgements):
            if next(places, None) is None:
                raise StoreError("the power failed")
            return super().add(judgements)

    store = Stopping(tmp_path / "run", work().identity, work().configuration)
    with pytest.raises(StoreError, match="power"):
        Run(work(), store).go()
    store.close()
    assert stop - 3 <= len(read_judgements(tmp_path / "run")) <= stop  # each judge may have been storing one
    _, resumed = run(work(), tmp_path / "run")
    assert asked(resumed) == asked(whole)
    assert len(resumed) == len(whole)


@pytest.mark.long
def test_the_order_in_which_answers_come_does_not_matter_nor_which_voice_is_faster():
    found = [
        asked(
            run(
                task(
                    [told("ana", stir=stir, seconds=slow), told("bo", stir=stir), coin(stir=stir)],
                    items=contexts(),
                    budget="10n",
                    strategy="adaptive",
                )
            )[1]
        )
        for stir, slow in ((None, 0.0), (1, 0.0), (2, 0.001))
    ]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 6 * 8 * 10


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
    assert re.fullmatch("told/bo .*the key was withdrawn.* told/ana, told/cy.*", sentence)
    lost = [one for one in judgements if one.failed]
    assert lost
    assert {one.question.voice for one in lost} == {"told/bo"}
    assert all(re.search("left out.*the key was withdrawn", one.error) and math.isnan(one.p) for one in lost)
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
        def _answers(self, questions, prompt):
            for number, one in enumerate(super()._answers(questions, prompt)):
                yield one if number % 2 else Judgement(one.question, error="the server answered 500")

    class Chatty(Told):
        def _answers(self, questions, prompt):
            for one in super()._answers(questions, prompt):
                yield Judgement(one.question, p=one.p, mass=0.01, reply="As a model")

    failing, chatty = told("failing"), told("chatty")
    failing.__class__, chatty.__class__ = Failing, Chatty
    _, judgements = run(task([told("ana"), failing, told("cy"), chatty]))
    assert sum(calls(judgements).values()) == 480
    assert any(
        "told/failing is left out" in sentence and "judgements failed" in sentence for sentence in caplog.messages
    )
    assert any("told/chatty is left out" in sentence and "As a model" in sentence for sentence in caplog.messages)
    with pytest.raises(RunError, match=r"judgements failed|on the labels"):
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
    with pytest.raises(ValueError, match=r"24 calls .*24 items.*\b46\b.* budget='1.9n'"):
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
    assert first.tables["voices"]["calls"].sum() == 4 * SIZE
    more = rank(TEXTS, "better", judge=voices, budget="20n", out=tmp_path / "run")
    assert more.tables["voices"]["calls"].sum() == 20 * SIZE


def test_shares_decide_for_each_voice_and_re_ask_when_pairs_are_used_up():
    shares = VoiceShares(ana=0.5, bo=0.5)
    shares.decided = True
    chorus = Chorus(Selector(list("wxyz"), orders="both", seed=0), shares)
    asks = chorus.next(24)
    assert len(set(asks)) == 24
    assert chorus.remaining == 0
    assert len({ask[:2] for ask in asks[:12]}) == 12
    shares = VoiceShares(ana=0.75, bo=0.25)
    drawn = [shares.choose(number * 0.618034 % 1) for number in range(400)]
    assert 290 < drawn.count("ana") < 310


@pytest.mark.long
def test_two_voices_that_do_not_agree_both_go_on_unless_one_says_nothing():
    for other, goes_on in ((told("other", taste=8.0, scale=0.3), True), (coin(), False)):
        made = calls(run(task([told("ana"), other], budget="30n"))[1])
        assert (made[other.name] > 150) == goes_on


@pytest.mark.long
@pytest.mark.parametrize(("answers", "noise", "seeds"), [("soft", 1.0, (1, 3)), ("hard", 0.0, (1, 3, 4, 5))])
def test_a_good_voice_goes_on_where_pairs_of_many_contexts_have_not_made_an_order_yet(answers, noise, seeds, caplog):
    """A pair in each of 20 contexts has no loop, and shows by the agreement of both orders only that texts differ."""
    for seed in seeds:
        rng, judges = np.random.default_rng(seed), []
        truth = rng.standard_normal((20, 6))
        for number in range(3):
            view = (1.0 if answers == "soft" else 2.0) * (truth + 0.5 * rng.standard_normal(truth.shape))
            scores = {(c, f"item {k}"): float(view[c, k]) for c in range(20) for k in range(6)}
            judge = Told(answers, scores, noise=noise, seed=10 * seed + number)
            object.__setattr__(judge, "title", f"told/{number}")
            judges.append(judge)
        run(task(judges, items=contexts(20, 6), budget="8n"))
        assert not [sentence for sentence in caplog.messages if "told/" in sentence]


def test_a_voice_whose_questions_all_fail_in_a_wave_gets_no_more():
    allocation = Allocation({"ana": math.nan, "bo": math.nan}, "joint")
    one, other = (Judgement(Question("x", "y", voice=voice), p=0.6) for voice in ("ana", "bo"))
    lost = Judgement(Question("y", "x", voice="bo"), error="500")
    allocation.decide([one, other, lost], [one, other, lost])
    assert allocation.shares["bo"] > 0
    allocation.decide([one, other, lost], [one, lost])
    assert (allocation.shares["ana"] > 0, allocation.shares["bo"]) == (True, 0.0)


def test_where_prices_differ_only_the_cheaper_voice_goes_on_until_it_shows_something_or_was_paid_as_much():
    rng = np.random.default_rng(0)
    allocation = Allocation({"cheap": 1.0, "dear": 20.0}, "joint")
    pairs = [(str(i), str(j)) for i, j in rng.permutation([(i, j) for i in range(60) for j in range(60) if i != j])]

    def coins(voice, count):
        return [Judgement(Question(*pair, voice=voice), p=float(rng.uniform(0.3, 0.7))) for pair in pairs[:count]]

    first = coins("cheap", PILOT) + coins("dear", PILOT)
    allocation.decide(first, first)
    assert allocation.shares["dear"] < 1e-6 * allocation.shares["cheap"]
    paid = coins("cheap", 20 * PILOT) + coins("dear", PILOT)
    allocation.decide(paid, paid[:1])
    assert allocation.shares["cheap"] == pytest.approx(20 * allocation.shares["dear"])  # as much money for each
    equal = Allocation({"cheap": 1.0, "dear": 1.0}, "joint")
    equal.decide(first, first)
    assert not equal.shares.decided
    assert equal.shares["cheap"] == equal.shares["dear"]


def test_of_two_copies_the_one_whose_answers_are_more_about_the_texts_is_asked_on():
    """Both orders together, "lost" is the more precise one, but one of its answers is mostly about the order."""
    rng, truth = np.random.default_rng(0), 2.0 * np.arange(150) / 150
    pairs = [(i, j) for i in range(150) for j in rng.permutation(150)[:4].tolist() if i != j]
    pairs = sorted({(min(pair), max(pair)) for pair in pairs})
    answers = []
    for voice, first, noise in (("lost", 2.0, 0.10), ("clear", 0.0, 0.20)):
        for i, j in [*pairs, *((j, i) for i, j in pairs)]:
            d = truth[i] - truth[j] + first + noise * rng.standard_normal()
            answers.append(Judgement(Question(str(i), str(j), voice=voice), p=float(expit(d))))
    allocation = Allocation({"lost": math.nan, "clear": math.nan}, "joint")
    allocation.decide(answers, answers[:1])
    assert allocation.shares.decided
    assert allocation.shares["clear"] > 0.9


def test_a_dear_voice_takes_little_of_the_money_before_anything_is_decided():
    def paid(title, dollars, **more):
        judge = told(title, price=(0.0, dollars * 1e6), **more)

        class Paid(Told):
            def _answers(self, questions, prompt):
                for one in super()._answers(questions, prompt):
                    yield Judgement(one.question, p=one.p, mass=one.mass, cost=dollars)

        judge.__class__ = Paid
        return judge

    judges = [paid("cheap", 1.0, noise=1.5), paid("dear", 20.0)]
    work = task(judges, budget="$1500")
    found = Run(work, Store(None, work.identity))
    decided = []
    share = found._allocation._share

    def seen(answers, asked, left):
        share(answers, asked, left)
        if found._allocation._is_decided and not decided:
            decided.append(dict(asked))

    found._allocation._share = seen
    found.go()
    assert decided[0]["told/dear"] <= PILOT + 2 * 12  # and what two rounds ask of it before its first are answered
    assert decided[0]["told/cheap"] > 60


def test_the_noise_of_few_comparisons_is_not_taken_for_small():
    """On a chain of texts, noise cannot be told from taste, and its estimate is too small."""
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        truth, rows = rng.standard_normal(60), []
        for i in range(20):
            for first, second in ((i, i + 1), (i + 1, i)):
                logit = truth[first] - truth[second] + 0.5 * rng.standard_normal()
                rows.append((str(first), str(second), 1 / (1 + math.exp(-logit))))
        (voice,) = fit_members(Comparisons.from_rows(rows)).voices
        found.append((voice.noise, voice.noise / _known_noise(voice)))
    alone, reckoned = np.median(found, axis=0)
    assert alone < 0.18
    assert 0.18 < reckoned < 0.35  # the noise has the variance ¼


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
        with pytest.raises(StoreError, match="another version of comparo"):
            read(tmp_path / "run")
    with pytest.raises(StoreError, match="another version of comparo"):
        run(work, tmp_path / "run")
    with pytest.raises(StoreError, match="another version of comparo"):
        Comparisons.read(tmp_path / "run")
