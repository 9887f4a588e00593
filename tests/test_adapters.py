"""The adapters: the fixture for pytest, in runs of their own and by its entry point, and the scorer for inspect_ai."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from split import one_short

pytest_plugins = "pytester"

TEXTS = """
old = [f"answer {k}" for k in range(40)]
longer = [f"a longer answer {k}" for k in range(40)]

def judge(first, second):
    return 0.7 if len(first) > len(second) else 0.3
"""


def outcomes(pytester, source):
    """A run of pytest of its own, of a file of one test or more."""
    pytester.makepyfile(TEXTS + source)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")


def compared(pytester, old, new, more="judge=judge"):
    """The same of one comparison."""
    call = f"comparo_compare({old}, {new}, 'better', {more})"
    return outcomes(pytester, f"def test_answers(comparo_compare):\n    {call}\n")


def test_a_new_side_that_is_better_passes_and_its_figures_can_be_asked(pytester):
    done = outcomes(
        pytester,
        """
def test_answers(comparo_compare):
    duel = comparo_compare(old, longer, "better", judge=judge)
    assert duel.side == 1 and round(duel.win_rate, 9) == 0.7 and duel.calls < 40
    assert duel.verdict.startswith("new is better than old")
""",
    )
    done.assert_outcomes(passed=1)


def test_a_new_side_that_is_worse_fails_with_the_figures_and_the_inputs(pytester):
    done = compared(pytester, "longer", "old", "judge=judge, names=('main', 'branch')")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["branch * main*30% (* to *) *", "* (-0.85), * (-0.85), * (-0.85)"])
    done.stdout.no_fnmatch_line("*pytest_plugin.py*")  # no traceback through comparo


@pytest.mark.long
@pytest.mark.parametrize(("sure", "outcome"), one_short([(0.9, "failed"), (0.99, "passed")]))
def test_how_sure_is_asked_for_decides(pytester, sure, outcome):
    """Six losses: each bettor has 1/P(as bad by chance) = 2⁶ at most, less than the 100 that 0.99 needs."""
    judge = "judge=lambda first, second: len(first) > len(second)"
    compared(pytester, "longer[:6]", "old[:6]", f"{judge}, sure={sure}").assert_outcomes(**{outcome: 1})


def test_the_same_texts_pass_and_a_judge_that_never_answers_does_not(pytester):
    done = outcomes(
        pytester,
        """
def broken(first, second):
    raise OSError("no answer")

def test_same(comparo_compare):
    assert comparo_compare(old, old, "better", judge=broken).calls == 0

def test_broken(comparo_compare):
    comparo_compare(old[:2], longer[:2], "better", judge=broken)
""",
    )
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines("*RunError: 4 of 4 *OSError: no answer*")


def test_pytest_starts_without_the_rest_of_comparo():
    code = "import sys, comparo.adapters.pytest_plugin; print([name for name in sys.modules if 'numpy' in name])"
    code += "; print([name for name in sys.modules if name.startswith('comparo')])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["[]", "['comparo', 'comparo.adapters', 'comparo.adapters.pytest_plugin']"]


def test_the_test_in_the_docs_runs(pytester):
    page = (Path(__file__).parents[1] / "docs" / "adapters.md").read_text(encoding="utf-8")
    [block] = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "comparo_compare" in code]
    answers = "\n".join(f'{{"id": "q{k}", "text": "answer {k}"}}' for k in range(30))
    for name, text in (("main", answers), ("branch", answers.replace("answer ", "a better answer "))):
        pytester.makefile(".jsonl", **{name: text})
    judge = '"openai/gpt-6-luna"'
    assert judge in block
    outcomes(pytester, block.replace(judge, "judge").replace("outputs/", "")).assert_outcomes(passed=1)


@pytest.mark.long
@pytest.mark.judges
def test_the_scorer_for_inspect_ai_in_a_process_of_its_own():
    """inspect_ai changes asyncio for all that runs beside it."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "inspect_scorer.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
