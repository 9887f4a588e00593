"""Every experiment asks the same and finds the same, however its answers arrive and whenever it is stopped.

The property: for any order of arrival and any interrupts, the questions that a judge answered, each as often, and the
result are those of a run that was never stopped and whose answers came in order. So no answer is lost or paid twice.
"""

import json
import random
import warnings
from collections import Counter
from dataclasses import dataclass, field

import pytest

import comparo as c
from inside import Budget, Experiment, Simulated, Storage, Task, check, criterion_prompt, key_of, prepare, prepare_why
from test_unchanged import NEAR, apart, compared, digest, ranked, rejudged, texts

ROWS, SCORES = texts(8, 3)
ONE, ONE_SCORES = texts(24)
TWO = texts(2, 24)[0]
CRITERIA = {"wit": "funnier; weight=2", "plot": "more coherent"}


@dataclass(frozen=True)
class Stirred(Simulated):
    """A simulated judge that answers some questions at a time, in any order, and is stopped after `left` answers."""

    stir: int | None = None
    left: list[int] = field(default_factory=lambda: [10**9])
    answered: Counter = field(default_factory=Counter)

    ahead = 6
    cacheable = True  # a check that was stopped goes on from its cache

    def judge(self, questions, prompt=None):
        rng, questions = random.Random(self.stir), iter(questions)
        while True:
            block = [question for _, question in zip(range(rng.randint(1, self.ahead)), questions, strict=False)]
            if not block:
                return
            if self.stir is not None:
                rng.shuffle(block)
            for answer in super().judge(block, prompt):
                if not self.left[0]:
                    raise KeyboardInterrupt
                self.left[0] -= 1
                self.answered[self.name, self.seed, getattr(prompt, "template", None), key_of(answer.question)] += 1
                yield answer


@dataclass(frozen=True)
class Judges:
    """Makes the judges of one try: all of them are stopped together, and count their answers together."""

    stir: int | None = None
    left: list[int] = field(default_factory=lambda: [10**9])
    answered: Counter = field(default_factory=Counter)

    def __call__(self, seed=0, kind="soft", scores=SCORES, **more):
        options = {"bias": 0.3, "noise": 0.6, "seed": seed} | more
        return Stirred(kind, scores, stir=self.stir, left=self.left, answered=self.answered, **options)


def rank(out, judge, rows=ROWS, question="better", **options):
    return ranked(c.rank(rows, question, judge=judge, out=out, **{"budget": "5n"} | options))


def grown(out, judges):
    is_begun = out.with_name("is begun")
    if not is_begun.exists():
        rank(out, judges(), [row for row in ROWS if row["id"] < "t6"])
        is_begun.touch()
    return rank(out, judges())


def of_two(out, judges, **options):
    return compared(TWO, judges(scores={"A": 0.0, "B": 0.4}), out=out, **options)


def auditioned(out, judges):
    found = c.audition(ROWS, "better", judge=[judges(0), judges(1, bias=2.0)], pairs=16, out=out)
    return {name: column for name, column in found.table.items() if name != "seconds"} | {"best": found.best}


def audited(out, judges):
    return json.loads(c.audit(ONE, "better", judge=judges(scores=ONE_SCORES), calls=98, out=out).to_json())


def judged_again(out, judges):
    first = out.parent.with_name("first")  # of all tries: which half is asked again follows its order of arrival
    if not first.exists():
        rank(first, Judges()())
    return rejudged(c.rejudge(first, judges(5), budget="50%", out=out))


def explained(out, judges):
    first = out.with_name("first")
    if not first.exists():
        rank(first, Judges()())
    found = prepare_why(first, c.fit(first), judges(5), because=["shorter"], out=out).run()
    return json.loads(json.dumps(found.to_dict(), default=str)) | {"calls": 0}


def checked(out, judges):
    first = out.with_name("first")
    if not first.exists():
        rank(first, Judges()())
    found = check(first, judges())
    return {"changed": [bool(found.is_changed)], "calls": [found.calls], "evidence": found.evidence.tolist()}


def begun(out, judges):
    first = out.with_name("audition")
    if not first.exists():
        c.audition(ROWS, "better", judge=Judges()(), pairs=16, out=first)
    return rank(out, judges(), audition=first)


class Search(Experiment[dict[str, list[float]]]):
    """What docs/architecture.md says of a new experiment: contexts are asked until one has a clear winner."""

    def may_begin(self, context):
        names = list(self.run.task.items.names)
        for before in names[: names.index(context)]:
            both = self.run.both_orders(before, "t0", "t1")
            if len(both) < 2:
                return None
            if abs(sum(both) - 1.0) > 0.7:
                return False
        return True

    def result(self):
        self.run.go()
        both = {context: self.run.both_orders(context, "t0", "t1") for context in self.run.task.items.names}
        return {str(context): found for context, found in both.items() if found}


def searched(out, judges):
    task = Task(c.Items.of(TWO), criterion_prompt("better"), judges(), Budget.of("100%"))
    found = prepare(task, Storage.of(out), Search).run()
    assert 1 < len(found) < len(TWO) // 2
    return found


EXPERIMENTS = {
    "rank": lambda out, judges: rank(out, judges()),
    "until": lambda out, judges: rank(out, judges(), budget="7n", until=0.85),
    "decisions": lambda out, judges: rank(out, judges(kind="hard"), strategy="adaptive", orders="one"),
    "panel": lambda out, judges: rank(out, [judges(0), judges(1, "hard"), judges(2)], budget="12n"),
    "criteria": lambda out, judges: rank(out, judges(), question=CRITERIA),
    "line-ups": lambda out, judges: rank(out, judges(), lineup=4),
    "pilot": lambda out, judges: rank(out, judges(scores=ONE_SCORES), ONE, lineup="auto", budget="14n"),
    "systems": lambda out, judges: rank(out, judges(), goal="systems"),
    "best system": lambda out, judges: rank(out, judges(), goal="best-system"),
    "best system in line-ups": lambda out, judges: rank(out, judges(), goal="best-system", lineup=3),
    "grown": grown,
    "begun by an audition": begun,
    "compare": of_two,
    "compare some": lambda out, judges: of_two(out, judges, budget=30, stop=False),
    **{"audition": auditioned, "audit": audited, "rejudge": judged_again, "why": explained, "check": checked},
    "a new one": searched,
}


def tried(make, out, judges):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return digest(make(out, judges))


LONG = ("pilot", "why", "best system", "best system in line-ups", "begun by an audition", "compare some")


@pytest.mark.parametrize("name", [pytest.param(x, marks=[pytest.mark.long] * (x in LONG)) for x in EXPERIMENTS])
def test_arrival_and_interrupts_change_neither_questions_nor_result(tmp_path, name):
    make, whole, stirred, stopped = EXPERIMENTS[name], Judges(), Judges(stir=1), Judges(stir=2)
    known = tried(make, tmp_path / "whole" / "run", whole)
    results = {"stirred": tried(make, tmp_path / "stirred" / "run", stirred)}
    rng, stops = random.Random(name), 0
    while "stopped" not in results:
        stopped.left[0] = rng.randint(whole.answered.total() // 5, whole.answered.total() // 3)
        try:
            results["stopped"] = tried(make, tmp_path / "stopped" / "run", stopped)
        except KeyboardInterrupt:
            stops += 1
    assert stops > 1
    assert stirred.answered == stopped.answered == whole.answered
    for kind, found in results.items():
        assert sorted(found) == sorted(known), kind
        assert {
            path: (found[path], known[path]) for path in known if apart(found[path], known[path]) > 1e3 * NEAR
        } == {}
