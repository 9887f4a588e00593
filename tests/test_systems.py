"""The goals "systems" and "best-system": which pairs are chosen, when runs stop, and going on after a stop."""

import re
from collections import Counter

import numpy as np
import pytest
from scipy.special import ndtr

from comparo import Items, Leaderboard, load_judge, rank
from comparo.selection.systems import OWN
from inside import Budget, Systems, Task, criterion_prompt, prepare, sureness, voices_of
from stored import asked, run

GROUPS = "abcdef"
MEANS = dict(zip(GROUPS, (1.0, 0.8, 0.0, -0.2, -0.6, -1.0), strict=True))


def items(contexts=10):
    """Six systems, each with a text in every context."""
    rows = [
        {"id": name, "context_id": f"c{number}", "text": f"{name} says {number * 7919 % 1000}"}
        for number in range(contexts)
        for name in GROUPS
    ]
    return Items.of(rows)


class Knowing:
    """A judge that knows the systems."""

    name, settings, ahead, lines_up = "knowing/judge", {}, 4, True

    def __init__(self, means=MEANS):
        rng = np.random.default_rng(0)
        scores = {
            (f"c{number}", name): means[name] + 0.3 * rng.standard_normal() for number in range(10) for name in GROUPS
        }
        self.inner = load_judge("simulated/soft", scores=scores, noise=0.3, seed=1)

    def judge(self, questions, prompt):
        return self.inner.judge(questions, prompt)


def task(goal="systems", budget="4n", judge=None, lineup=2, **options):
    prompt = criterion_prompt("better").resized(lineup)
    return Task(items(), prompt, judge or Knowing(), Budget.of(budget), goal=goal, **options)


def board(score, covariance):
    count = len(score)
    zero = np.zeros(count, dtype=np.int64)
    names = np.array(list(GROUPS[:count]), dtype=object)
    wins = np.full((count, count), 0.5)
    return Leaderboard(names, score, covariance, np.inf, 0.95, "new", wins, zero.astype(float), zero, zero, zero)


@pytest.mark.parametrize("learns", [False, True])
def test_each_pair_lowers_the_weighted_variance_of_differences_most(learns):
    texts = {
        number: {f"{name}{copy}": name for name in "abcd" for copy in range(1 + number % 2)} for number in range(3)
    }
    design = Systems(texts, "best-system")
    weight = 1.0 - np.eye(4)
    if learns:
        score, variance = np.array([1.0, 0.9, 0.2, -2.1]), 0.1
        design.learn(board(score, variance * np.eye(4)))
        weight = np.zeros((4, 4))
        z = (score[0] - score[1:]) / np.sqrt(2 * variance)
        weight[0, 1:] = weight[1:, 0] = np.exp(-(z**2))
    laplacian = np.diag(weight.sum(axis=1)) - weight
    precision, calls, met = np.eye(4), Counter(), set()

    def after(number, one, other):
        """The precision of the groups' means with a pair more."""
        r = np.zeros(4)
        r["abcd".index(one[0])], r["abcd".index(other[0])] = 1.0, -1.0
        return precision + np.outer(r, r) * 2 / ((1 + OWN * calls[number, one]) * (1 + OWN * calls[number, other]))

    def loss(*pair):
        return np.trace(laplacian @ np.linalg.inv(after(*pair)))

    parts = {number: design.of_context(number, "both", np.random.default_rng(number)) for number in texts}
    for number in 6 * [*texts]:
        names = list(texts[number])
        free = {(number, x, y) for x in names for y in names if x[0] < y[0]} - met
        (one, other), (second, first) = parts[number].next(2)
        assert (one, other) == (first, second)
        chosen = (number, *sorted((one, other)))
        assert chosen in free
        assert loss(*chosen) == pytest.approx(min(loss(*pair) for pair in free), rel=1e-9)
        precision = after(*chosen)
        met.add(chosen)
        calls.update({(number, one): 2, (number, other): 2})
    assert parts[0].remaining == 0


def test_each_text_of_a_line_up_lowers_the_variance_of_differences_most():
    texts = {
        number: {f"{name}{copy}": name for name in "abcde" for copy in range(1 + number % 2)} for number in range(3)
    }
    design, k, calls = Systems(texts, "systems"), 3, Counter()
    precision = np.eye(5)

    def after(number, one, others):
        """The precision of the groups' means with the comparisons of one more text of a line-up with the others."""
        found = precision.copy()
        for other in others:
            r = np.zeros(5)
            r["abcde".index(one[0])] += 1.0
            r["abcde".index(other[0])] -= 1.0
            c = 2 / k / ((1 + OWN * calls[number, one]) * (1 + OWN * calls[number, other]))
            found += np.outer(r, r) * c
        return found

    def gain(*added):
        loss = (np.trace(5 * np.linalg.inv(each)) - np.sum(np.linalg.inv(each)) for each in (precision, after(*added)))
        return np.subtract(*loss)

    parts = {number: design.of_context(number, "one", np.random.default_rng(number), size=k) for number in texts}
    for number in 6 * [*texts]:
        [(first, rest)] = parts[number].next(1)
        left, chosen = {first, *rest}, []
        while left:  # the texts as they were chosen, whatever their slots
            worth = {
                one: sum(gain(number, one, [other]) for other in chosen)
                if chosen
                else max(gain(number, one, [other]) for other in texts[number] if other != one)
                for one in texts[number]
                if one not in chosen
            }
            best = max(worth.values())
            new = next(one for one in sorted(left) if worth[one] == pytest.approx(best, rel=1e-9))
            precision = after(number, new, chosen)
            left.remove(new)
            chosen.append(new)
        calls.update((number, one) for one in chosen)


@pytest.mark.parametrize("lineup", [3, 4, 6])
def test_line_ups_compare_systems_alike_and_in_all_slots(lineup):
    ranking, judgements = run(task(budget="1n", lineup=lineup))
    shown = [one.question.items for one in judgements]
    assert len({(one.question.context, *one.question.items) for one in judgements}) == 60
    for names in (shown, *([items[slot] for items in shown] for slot in range(lineup))):
        met = Counter(name for each in names for name in each)
        assert max(met.values()) - min(met.values()) <= 2
    assert ranking.groups().group.tolist() == sorted(MEANS, key=lambda name: -MEANS[name])


def test_a_run_of_line_ups_stops_once_the_order_of_systems_is_sure():
    clear = Knowing(means={name: 2.0 * mean for name, mean in MEANS.items()})
    ranking, judgements = run(task(budget="2n", lineup=6, judge=clear, until=0.9))
    assert 10 <= len(judgements) < 120
    assert sureness(ranking.groups(), "systems") >= 0.9


@pytest.mark.long
@pytest.mark.parametrize("options", [{"budget": "3n"}, {"budget": "2n", "lineup": 3}])
def test_the_goal_best_system_spends_the_calls_on_those_that_may_be_best(options):
    ranking, judgements = run(task("best-system", **options))
    met = Counter(name for one in judgements for name in one.question.items)
    assert min(met["a"], met["b"]) > 1.3 * max(met[name] for name in "cdef")
    assert ranking.groups().group[0] == "a"


def test_the_goal_systems_asks_all_systems_alike_in_every_context():
    _, judgements = run(task(budget="1n"))
    questions = [one.question for one in judgements]
    assert len(questions) == 60
    assert set(Counter(question.context for question in questions).values()) == {6}
    met = Counter(name for question in questions for name in (question.first, question.second))
    assert max(met.values()) - min(met.values()) <= 4
    assert len({frozenset((question.first, question.second)) for question in questions}) == 15


def test_texts_of_one_context_are_compared_by_their_column_group():
    rows = [{"id": f"t{k}", "text": f"text {k * 7919}", "group": "xyz"[k % 3]} for k in range(24)]
    made = Task(Items.of(rows, group="group"), criterion_prompt("better"), Knowing(), Budget.of("1n"), goal="systems")
    ranking, judgements = run(made)
    group = {row["id"]: row["group"] for row in rows}
    met = Counter(frozenset((group[one.question.first], group[one.question.second])) for one in judgements)
    assert sorted(met.values()) == [8, 8, 8]
    assert set(map(len, met)) == {2}
    assert len(ranking) == 24
    assert len(ranking.groups()) == 3


def test_in_one_order_each_system_is_first_as_often_as_second():
    _, judgements = run(task(budget="2n", orders="one"))
    first, second = (Counter(getattr(one.question, side) for one in judgements) for side in ("first", "second"))
    assert max(abs(first[name] - second[name]) for name in GROUPS) <= 2


def test_several_voices_compare_systems(tmp_path):
    voices = voices_of([load_judge("simulated/soft", seed=seed) for seed in (1, 2)], [criterion_prompt("better")] * 1)
    options = {"budget": "6n", "judge": voices[0].judge, "panel": voices}
    ranking, judgements = run(task("best-system", **options), tmp_path / "run")
    assert len(ranking.groups()) == 6
    assert asked(judgements) == asked(run(task("best-system", **options))[1])


@pytest.mark.long
def test_a_run_stops_once_it_is_sure_and_not_between_equals():
    for goal in ("systems", "best-system"):
        assert len(run(task(goal, "10n", until=0.9))[1]) < 300
    equal = Knowing(means=dict.fromkeys(GROUPS, 0.0))
    assert len(run(task("best-system", "4n", equal, until=0.9))[1]) == 240


def test_sureness_is_the_posterior_probability():
    apart, variance = 0.8, 0.04
    score, covariance = np.array([apart / 2, -apart / 2]), variance * np.array([[0.5, -0.5], [-0.5, 0.5]])
    spread = apart**2 / 2 - variance
    kept = spread / (spread + variance)
    expected = ndtr(kept * apart / np.sqrt(2 * kept * variance))
    assert sureness(board(score, covariance), "best-system") == pytest.approx(expected, abs=0.01)
    assert sureness(board(score, covariance), "systems") == pytest.approx(2 * expected - 1, abs=0.02)
    assert sureness(board(score, 20 * covariance), "best-system") == 0.5
    assert sureness(board(score, 20 * covariance), "systems") == 0.0


def test_the_goal_is_part_of_what_identifies_a_run():
    assert task().identity["goal"] == "systems"
    assert task().identity != task("best-system").identity


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"text": letter} for letter in "abcd"], {}, "goal='systems' .*groups .*column"),
        (
            [{"text": letter, "group": "xxyy"[k]} for k, letter in enumerate("abcd")],
            {"strategy": "greedy"},
            "leave out",
        ),
        ([{"text": letter, "group": "x"} for letter in "abcd"], {}, "the 1 groups .*compared"),
        ([{"text": letter, "group": letter} for letter in "abcd"], {}, "the 4 groups .*compared"),
        (
            [{"text": f"{k}", "context_id": k // 3, "group": "xxyzzu"[k]} for k in range(6)],
            {},
            "the 4 groups .*compared",
        ),
    ],
)
def test_what_cannot_be_compared_is_an_error_before_anything_is_asked(rows, options, message):
    found = Items.of(rows, group="group" if "group" in rows[0] else None)
    with pytest.raises(ValueError, match=message):
        Task(found, criterion_prompt("better"), Knowing(), Budget.of("2n"), goal="systems", **options)


def test_too_few_calls_are_an_error():
    with pytest.raises(ValueError, match=r"8 calls.*6 groups.*\b10\b"):
        prepare(task(budget="8"))
    assert task(budget="10").expense.calls == 10


def test_the_command_compares_systems(request, tmp_path):
    lines = [f"{name},{number},{name} says {number}" for number in range(6) for name in GROUPS]
    (tmp_path / "texts.csv").write_text("\n".join(["id,context_id,text", *lines]))
    what = ["rank", "texts.csv", "--judge", "simulated/soft", "--criterion", "better", "--goal", "best-system"]
    command = request.getfixturevalue("run")
    dry = command(tmp_path, [*what, "--budget", "1n", "--dry-run"])
    assert re.search("best-system: .*6 groups.*contexts", dry.stdout)
    assert "36 calls" in dry.stdout
    done = command(tmp_path, [*what, "--budget", "1n", "--until", "0.95", "--out", "run"])
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "report.html").exists()
    wrong = command(tmp_path, [*what[:-1], "best"])
    assert wrong.returncode == 2
    assert "'best-system'" in wrong.stderr


def test_answers_of_an_audition_do_not_count_for_systems():
    with pytest.raises(ValueError, match="goal='systems'"):
        rank(items(), "better", judge=lambda *_: 0.5, goal="systems", audition="folder")
