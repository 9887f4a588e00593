"""Several criteria in one call: the run and its folder, the overall and its intervals, the report, the command."""

import csv
import json
import re
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, ndtri

from comparo import Comparisons, Judgement, Question, load_judge, rank, write_report
from comparo.judges import as_judge
from comparo.selection import greedy_pairs
from inside import (
    CriteriaRanking,
    Several,
    about,
    combine,
    criteria_prompt,
    criterion_prompt,
    open_database,
    quiet_fit,
    read_judgements,
)
from split import one_short

CRITERIA = {"coherence": "more coherent", "fluency": "more fluent"}
NAMES = [f"t{number}" for number in range(12)]
TEXTS = {name: f"The story of {name}." for name in NAMES}
TRUTH = {
    name: dict(zip(NAMES, np.random.default_rng(seed).normal(size=len(NAMES)).tolist(), strict=True))
    for seed, name in enumerate(CRITERIA)
}


def simulated(**options):
    return load_judge("simulated/soft", scores=TRUTH, **options)


class Counting:
    """A judge that counts its calls, and may be told to fail."""

    def __init__(self, inner, fails=lambda _: ()):
        self.inner, self.calls, self.fails = inner, 0, fails
        self.name, self.settings, self.ahead, self.several = inner.name, inner.settings, 4, True

    def judge(self, questions, prompt):
        for call in self.inner.judge(questions, prompt):
            self.calls += 1
            lost = self.fails(self.calls)
            each = [
                replace(one, p=float("nan"), error="no") if one.question.voice in lost else one for one in call.each
            ]
            yield Several.of(each)


def test_the_prompt_asks_about_the_texts_once_and_each_part_as_a_run_of_its_own_does():
    prompt = criteria_prompt(CRITERIA, "Summary", "Article")
    asked = Question("a", "b", 0, "One {text}.", "Two.", "An article.")
    text = prompt.text(asked)
    assert text.count("One {text}.") == text.count("An article.") == 1
    for name, words in CRITERIA.items():
        assert prompt.parts[name] == criterion_prompt(words, "Summary", "Article", "delimited")
        assert f"\n{name}: Which Summary is {words}, Summary A or Summary B?" in text


def test_each_criterion_has_the_ranking_that_its_answers_give_alone():
    found = rank(TEXTS, CRITERIA, judge=simulated(noise=0.2), budget="10n")
    assert isinstance(found, CriteriaRanking)
    for name, ranking in found.rankings.items():
        truth = [TRUTH[name][item] for item in ranking.items.tolist()]
        assert np.corrcoef(truth, ranking.scores)[0, 1] > 0.97
    first, other = (ranking.comparisons.first.tolist() for ranking in found.rankings.values())
    assert first == other
    table = json.loads(found.to_json())
    assert [row["item"] for row in table["ranking"]] == list(found)
    assert table["correlations"][0]["fluency"] == pytest.approx(found.correlations["fluency"][0])


def weighed(**weights):
    return CRITERIA | {name: f"{CRITERIA[name]}; weight={weight}" for name, weight in weights.items()}


def test_the_overall_is_the_mean_of_standardised_scores_by_weight():
    found = rank(TEXTS, weighed(coherence=3), judge=simulated(), budget="6n")
    expected = np.zeros(len(NAMES))
    for name, share in (("coherence", 0.75), ("fluency", 0.25)):
        ranking = found.rankings[name]
        expected += share * ranking.scores / np.sqrt(np.var(ranking.scores) + np.mean(ranking.std**2))
    np.testing.assert_allclose(found.scores, expected)
    alone = rank(TEXTS, weighed(fluency=0), judge=simulated(), budget="6n")
    assert list(alone) == list(alone.rankings["coherence"])


def test_two_criteria_that_are_one_have_its_intervals_and_not_narrower_ones():
    rng = np.random.default_rng(0)
    pairs = np.concatenate([greedy_pairs(10, 30, seed=1)] * 2)
    p = expit(rng.normal(size=10)[pairs] @ [1, -1] + rng.normal(size=len(pairs)))
    data = Comparisons.from_columns(*pairs.T.tolist(), p)
    one = quiet_fit(data, "poe-bt", bias="joint", prior="estimated")
    both = combine({"a": one, "b": one}, {"a": 0.5, "b": 0.5})
    spread = np.sqrt(np.var(one.scores) + np.mean(one.std**2))
    np.testing.assert_allclose(both.scores, one.scores / spread)
    np.testing.assert_allclose(both.std, one.std / spread)
    assert both.probability(0, 1) == pytest.approx(one.probability(0, 1))
    assert both.tier.tolist() == one.tier.tolist()


@pytest.mark.statistical
@pytest.mark.parametrize(("hard", "alike"), one_short([(False, 0.8), (False, 0.0), (True, 0.8)]))
def test_intervals_of_the_overall_hold_although_one_call_answers_both(hard, alike):
    """With errors that are alike, intervals as of independent criteria would hold in 84 to 90 of 100 cases."""
    rng, inside, narrow = np.random.default_rng(3), [], []
    for _ in range(25):
        truth = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 20)
        pairs = greedy_pairs(20, 100, seed=rng)
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
        error = rng.multivariate_normal([0, 0], [[1, alike], [alike, 1]], len(pairs))
        rankings = {}
        for number, name in enumerate(CRITERIA):
            d = truth[pairs[:, 0], number] - truth[pairs[:, 1], number]
            p = (error[:, number] < ndtri(expit(d))).astype(float) if hard else expit(d + error[:, number])
            data = Comparisons.from_columns(*pairs.T.tolist(), p)
            rankings[name] = quiet_fit(data, "poe-bt", bias="joint", prior="estimated")
        found = combine(rankings, dict.fromkeys(CRITERIA, 0.5))
        item = found.items.astype(int)
        wanted, variance = np.zeros(20), np.zeros(20)
        for number, ranking in enumerate(rankings.values()):
            a = 0.5 / np.sqrt(np.var(ranking.scores) + np.mean(ranking.std**2))
            wanted += a * (truth[item, number] - truth[:, number].mean())
            variance += (a * ranking.std) ** 2
        inside.append(np.abs(found.scores - wanted) < 1.96 * found.std)
        narrow.append(np.abs(found.scores - wanted) < 1.96 * np.sqrt(variance))
    assert 0.92 < np.mean(inside) < 0.98
    if alike:
        assert np.mean(narrow) < 0.92


def test_a_criterion_without_an_answer_is_asked_once_more_and_the_others_are_kept(tmp_path):
    judge = Counting(simulated(), fails=lambda number: ("fluency",) if number <= 3 else ())
    found = rank(TEXTS, CRITERIA, judge=judge, budget="6n", out=tmp_path)
    assert judge.calls == 6 * len(NAMES) + 3
    stored = read_judgements(tmp_path)
    answered = [one for one in stored if not one.failed]
    assert len({one.question for one in answered}) == len(answered) == 2 * 6 * len(NAMES)
    assert sum(one.failed for one in stored) == 3
    idle = Counting(simulated())
    again = rank(TEXTS, CRITERIA, judge=idle, budget="6n", out=tmp_path)
    np.testing.assert_allclose(found.scores, again.scores)
    assert rank(TEXTS, weighed(fluency=5), judge=idle, budget="6n", out=tmp_path).shares["fluency"] > 0.8
    assert idle.calls == 0


@pytest.mark.long
def test_what_never_gets_an_answer_is_missing_in_that_criterion_only(tmp_path):
    def judge(question):
        rest = {} if {question.first, question.second} == {"t0", "t1"} else {"fluency": 0.6}
        return {"coherence": 0.7} | rest

    found = rank(TEXTS, CRITERIA, judge=judge, budget="100%", out=tmp_path)
    counts = [len(ranking.comparisons) for ranking in found.rankings.values()]
    assert counts == [132, 130]
    assert len(found.comparisons) == 130
    assert write_report(tmp_path).is_file()


def test_what_a_call_cost_is_counted_once_also_when_it_is_asked_again():
    asked = Question("a", "b")
    call = Several.of(
        [
            Judgement(about(asked, "wit"), p=0.7, tokens_in=90, cost=0.5, seconds=1.0),
            Judgement(about(asked, "length"), error="no", cost=0.0, seconds=0.0),
        ]
    )
    left = call.without({"wit"})
    assert [one.question.voice for one in left.each] == ["length"]
    assert (left.tokens_in, left.cost, left.seconds) == (call.tokens_in, call.cost, call.seconds) == (90, 0.5, 1.0)
    assert left.failed
    assert call.failed


@pytest.mark.long
def test_until_waits_for_every_criterion():
    calls = {}
    for noise, name in ((0.05, "both sure"), (None, "one unsure")):

        def judge(question, noise=noise):
            first, second = question.first, question.second
            rng = np.random.default_rng(int(first[1:]) * 100 + int(second[1:]))
            other = rng.normal() if noise is None else TRUTH["fluency"][first] - TRUTH["fluency"][second]
            sure = TRUTH["coherence"][first] - TRUTH["coherence"][second] + 0.05 * rng.normal()
            return {"coherence": expit(sure), "fluency": expit(other)}

        counting = Counting(as_judge(judge))
        rank(TEXTS, CRITERIA, judge=counting, budget="100%", until=0.9)
        calls[name] = counting.calls
    assert calls["both sure"] < 100
    assert calls["one unsure"] == 132


def test_the_page_shows_all_criteria_and_obeys_no_name(tmp_path):
    texts = {f"<b>{name}</b>": text for name, text in TEXTS.items()}
    rank(texts, CRITERIA, judge=load_judge("simulated/soft"), budget="6n", out=tmp_path)
    page = write_report(tmp_path).read_text(encoding="utf-8")
    assert "<b>" not in page
    assert "&lt;b&gt;t0&lt;/b&gt;" in page
    for name in CRITERIA:
        assert f'href="report-{name}.html"' in page
        assert (tmp_path / f"report-{name}.html").is_file()
        assert f"Which Text is {CRITERIA[name]}?" in (tmp_path / f"report-{name}.html").read_text(encoding="utf-8")
    assert len(re.findall(r"<tr><td data-name=\"Rank\">", page)) == len(NAMES)


@pytest.fixture
def items(tmp_path):
    rows = [{"id": name, "text": text, "coherence": TRUTH["coherence"][name]} for name, text in TEXTS.items()]
    path = tmp_path / "items.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def flags(*criteria):
    return [part for each in criteria for part in ("--criterion", each)]


BOTH = flags("coherence=more coherent", "fluency=more fluent")


def assert_shown(done):
    assert done.stdout.split()[:4] == ["item", "overall", "coherence", "fluency"]
    assert re.search(r"correlation +coherence +fluency", done.stdout)


def test_the_command_prints_a_column_a_criterion_and_the_correlations(run, tmp_path, items):
    asked = ["rank", items, *BOTH, "--judge", "simulated/soft", "--out", "run", "--columns", "scores=coherence"]
    done = run(tmp_path, [f"{flag}; weight=3" if flag == BOTH[1] else flag for flag in asked])
    assert done.returncode == 0, done.stderr
    assert_shown(done)
    assert "75%, fluency 25%" in done.stderr
    assert "coherence: Spearman correlation" in done.stderr
    for name in ("ranking.csv", "ranking-coherence.csv", "ranking-fluency.csv", "report.html", "report-fluency.html"):
        assert (tmp_path / "run" / name).is_file()
    again = run(tmp_path, [*asked, "--format", "json", "--top", "3"])
    table = json.loads(again.stdout)
    assert [row["rank"] for row in table["ranking"]] == [1, 2, 3]
    assert table["weights"] == {"coherence": 0.5, "fluency": 0.5}
    assert set(table["criteria"]) == set(CRITERIA)
    other = run(tmp_path, ["rank", items, *flags("coherence=better", "fluency=x"), *asked[6:]])
    assert "another run" in other.stderr


def test_one_criterion_without_a_name_is_asked_as_ever(run, tmp_path, items):
    done = run(tmp_path, ["rank", items, "--criterion", "closer to x = 3", "--judge", "simulated/soft", "--out", "run"])
    assert done.returncode == 0, done.stderr
    identity = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))["identity"]
    assert set(identity["prompt"]) == {"template", "labels", "answer"}
    assert "closer to x" in identity["prompt"]["template"]
    assert {one.question.voice for one in read_judgements(tmp_path / "run")} == {None}


@pytest.mark.parametrize(
    ("given", "place"),
    [
        (flags("wit=funnier", "wit=wittier"), "--criterion wit"),
        (flags("wit=funnier", "WIT=wittier"), "two criteria"),
        (flags("wit=funnier", "shorter"), "--criterion shorter"),
        (flags("wit=funnier", "length="), "is empty"),
        (flags("wit=funnier", "B=shorter"), "named 'B'"),
        (flags("wit=funnier", "rank=shorter"), "named 'rank'"),
        (flags("wit=funnier; weight=-1", "length=shorter"), "from 0 up"),
        (flags("wit=funnier; weight=much", "length=shorter"), "'much'"),
        (flags("wit=funnier; weight=0", "length=shorter; weight=0"), "weights are 0"),
        (flags("funnier; weight=2"), "'funnier; weight=2'"),
        ([*BOTH, "--wording", "all"], "--wording all"),
        ([*BOTH, "--wording", "before-after"], "'before-after'"),
        ([*BOTH, "--wording", "paper", "--wording", "compare"], "one wording"),
        ([*BOTH, "--judge", "simulated/hard"], "one judge"),
        ([*BOTH, "--prompt", "{first} {second}"], "--prompt"),
        ([*BOTH, "--goal", "systems"], "--goal systems"),
    ],
)
def test_what_does_not_fit_together_is_said_before_anything_is_asked(run, tmp_path, items, given, place):
    done = run(tmp_path, ["rank", items, *given, "--judge", "simulated/soft", "--out", "run"])
    assert done.returncode != 0
    assert place in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_judge_that_answers_one_criterion_is_refused_with_the_remedy():
    class Old:
        name, settings, ahead = "old/judge", {}, 1

        def judge(self, questions, prompt):
            raise AssertionError("nothing is asked")

    for judge in (Old(), load_judge("openai/m", base_url="http://localhost:1", prefill=True)):
        with pytest.raises(ValueError, match="several criteria"):
            rank(TEXTS, CRITERIA, judge=judge)


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    rank(TEXTS, weighed(coherence=3, fluency=1), judge=simulated(), budget="6n", out=folder / "run")
    return folder


def fitted(run, folder, *more):
    done = run(folder, ["fit", "run", *more])
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("method", ["poe-bt", "bt", "win-ratio", "mixed"])
def test_fit_takes_the_answers_to_each_criterion_by_themselves(run, judged, method):
    answers = [(*one.question.items, one.p, one.question.voice) for one in read_judgements(judged / "run")]
    alone = {name: quiet_fit([row[:3] for row in answers if row[3] == name], method) for name in CRITERIA}
    done = fitted(run, judged, "--method", method, "--format", "csv")
    assert re.search(f"{method}: 144 .*2 criteria.*75%.*25%", done.stderr)
    rows = list(csv.DictReader(done.stdout.splitlines()))
    for name, ranking in alone.items():
        one = fitted(run, judged, "--criterion", name, "--format", "csv", "--method", method)
        own = list(csv.DictReader(one.stdout.splitlines()))
        for table, column in ((rows, name), (own, "score")):
            scores = {row["item"]: float(row[column]) for row in table}
            assert scores == pytest.approx({item: ranking[item].score for item in NAMES})
    overall = combine(alone, {"coherence": 0.75, "fluency": 0.25})
    assert {row["item"]: float(row["overall"]) for row in rows} == pytest.approx(
        {item: overall[item].score for item in NAMES}
    )


def test_fit_prints_criteria_as_the_run_does_and_says_which_was_chosen(run, judged):
    assert_shown(fitted(run, judged))
    table = json.loads(fitted(run, judged, "--format", "json").stdout)
    assert set(table["criteria"]) == set(CRITERIA)
    one = fitted(run, judged, "--criterion", "fluency", "--report", "fluency.html")
    assert re.search("mixed: 72 .*simulated/soft.*fluency", one.stderr)
    assert (judged / "fluency.html").is_file()


@pytest.mark.parametrize(
    ("more", "place"),
    [
        (["--criterion", "wit"], "'wit': .* coherence, fluency"),
        (["--voice", "fluency"], "--criterion .* --voice"),
        (["--report", "x.html"], "--criterion"),
        (["run"], r"\(coherence, fluency\)"),
    ],
)
def test_fit_names_the_choice_where_one_ranking_is_wanted(run, judged, more, place):
    done = run(judged, ["fit", "run", *more])
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(place, " ".join(done.stderr.split()))


def test_fit_of_other_comparisons_has_no_criterion(run, tmp_path):
    (tmp_path / "plain.csv").write_text("first,second,p\na,b,0.7\nb,c,0.6\n")
    done = run(tmp_path, ["fit", "plain.csv", "--criterion", "wit"])
    assert (done.returncode, "criterion 'wit'" in done.stderr) == (2, True)


@pytest.mark.parametrize("lost", [CRITERIA, ["fluency"], ["coherence"]])
def test_the_answer_to_one_criterion_that_a_folder_lost_is_asked_again(tmp_path, lost):
    first, again = Counting(simulated(), fails=lambda call: ["fluency"] * (call == 5)), Counting(simulated())
    rank(TEXTS, CRITERIA, judge=first, budget="5n", out=tmp_path / "run")
    before = sorted(one.question.voice for one in read_judgements(tmp_path / "run") if not one.failed)
    assert before == ["coherence"] * 60 + ["fluency"] * 60
    with closing(open_database(str(tmp_path / "run" / "judgements.db"))) as connection, connection:
        for number, name in enumerate(lost):
            rows = "SELECT number FROM judgements WHERE voice = ? AND error IS NULL LIMIT 1 OFFSET ?"
            connection.execute(f"DELETE FROM judgements WHERE number IN ({rows})", (name, 7 + number))
    for calls in (len(lost), len(lost)):
        rank(TEXTS, CRITERIA, judge=again, budget="5n", out=tmp_path / "run")
        assert again.calls == calls
    found = [one for one in read_judgements(tmp_path / "run") if not one.failed]
    assert sorted(one.question.voice for one in found) == before
    assert len({one.question for one in found}) == 120
