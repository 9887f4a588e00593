"""A plain function as a judge."""

import functools
import subprocess
import sys

import numpy as np
import pytest

from comparo import JudgeError, Question, rank
from comparo.judges import as_judge

ASKED = Question("ana", "bo", "c", "A long story.", "Short.", "About cats.")


def one(judge, question=ASKED):
    (answer,) = as_judge(judge).judge([question], None)
    return answer


class Counting:
    def __init__(self):
        self.calls = 0

    def __call__(self, first, second):
        self.calls += 1
        return 0.8


def texts(first, second, _unused=None):
    return float((first, second) == ("A long story.", "Short."))


def with_context(first, second, context):
    return float((first, second, context) == ("A long story.", "Short.", "About cats."))


def whole(question):
    return float(question == ASKED)


@pytest.mark.parametrize(
    "function",
    [texts, with_context, whole, lambda *pair: len(pair) == 2, functools.partial(with_context, context="About cats.")],
)
def test_a_function_is_called_with_what_it_requires(function):
    assert one(function).p == 1.0


@pytest.mark.parametrize(("value", "p"), [(True, 1.0), (0, 0.0), (np.float32(0.5), 0.5), (np.array(0.25), 0.25)])
def test_numbers_of_all_kinds_are_probabilities(value, p):
    answer = one(lambda _first, _second: value)
    assert (answer.p, answer.failed) == (p, False)
    assert answer.seconds >= 0


@pytest.mark.parametrize("value", [None, float("nan"), 1.2, -0.1, "0.7", [0.5, 0.5], 10**400, b"1"])
def test_what_is_no_probability_is_a_failed_judgement(value):
    answer = one(lambda _first, _second: value)
    assert answer.failed
    assert "returned" in answer.error


def test_what_a_function_raises_is_a_failed_judgement():
    def broken(_first, _second):
        raise KeyError("model")

    answer = one(broken)
    assert answer.failed
    assert answer.error.endswith("KeyError: 'model'")

    def gone(_first, _second):
        raise JudgeError("the model is gone; start it again")

    with pytest.raises(JudgeError, match="gone"):
        one(gone)


async def later(_first, _second):
    return 0.5


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (later, "asynchronous"),
        (lambda _a, _b, _c, _d: 0.5, "4 arguments"),
        (lambda: 0.5, "0 arguments"),
        (Counting, r"Counting\(…\)"),
        (None, "None"),
    ],
)
def test_what_cannot_be_a_judge_is_said_at_once(judge, said):
    with pytest.raises(TypeError, match=said):
        as_judge(judge)


def test_a_function_is_known_by_name_and_code():
    assert as_judge(texts).name == "function/test_function_judge.texts"
    assert as_judge(Counting()).name == "function/test_function_judge.Counting.__call__"
    assert as_judge(functools.partial(with_context, context="")).name == "function/test_function_judge.with_context"
    assert as_judge(Counting()).settings.keys() == {"code"}
    one_way, other_way, again = (as_judge(eval(f"lambda first, second: {way}")) for way in ("0.9", "0.1", "0.9"))
    assert one_way.settings == again.settings != other_way.settings


def test_the_code_is_told_the_same_way_in_every_process():
    """Neither the order of a set nor an address is in it."""
    program = (
        "from comparo.judges import as_judge\n"
        "def known(first, second):\n"
        "    return any(word in {'one', 'two', 'three', 'four'} for word in (first, second))\n"
        "print(as_judge(known).settings)"
    )
    told = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(3)
    }
    assert len(told) == 1


def test_a_run_by_a_function():
    texts = {name: "x" * (number + 1) for number, name in enumerate("abcdef")}
    ranking = rank(texts, "longer", judge=lambda one, other: len(one) / (len(one) + len(other)), budget="4n")
    assert ranking.to_columns()["item"].tolist() == list("fedcba")
