"""The metric in the style of Hugging Face evaluate, alone and as a metric of the real library."""

import json
import subprocess
import sys

import pytest

from comparo import compare
from comparo.adapters.evaluate import as_metric, compute

REFERENCES = [f"answer {k}" for k in range(30)]
MIXED = [f"a longer {text}" if k % 3 else text[:3] for k, text in enumerate(REFERENCES)]


def longer(first, second):
    return 0.7 if len(first) > len(second) else 0.4


@pytest.mark.long
def test_it_says_what_compare_says():
    found = compute(MIXED, REFERENCES, "better", judge=longer, stop=False)
    duel = compare(REFERENCES, MIXED, "better", judge=longer, stop=False, names=("reference", "prediction"))
    assert found["win_rate"] == duel.win_rate == pytest.approx(0.55)
    assert (found["low"], found["high"]) == duel.interval
    assert (found["verdict"], found["probability"]) == (duel.verdict, duel.probability)
    assert (found["inputs"], found["calls"]) == (30, 60)


def test_contexts_are_shown_to_the_judge():
    seen = set()

    def judge(first, second, context):
        seen.add(context)
        return longer(first, second)

    questions = [f"question {k}" for k in range(30)]
    compute(MIXED, REFERENCES, "better", judge=judge, contexts=questions, stop=False)
    assert seen == set(questions)


def test_lists_of_different_lengths_are_refused_before_anything_is_asked():
    with pytest.raises(ValueError, match=r"30 predictions, 29 references.*one of each"):
        compute(MIXED, REFERENCES[1:], "better", judge=longer)


REAL = """
import sys
sys.modules["transformers"] = None  # evaluate loads it for its evaluators of models, which takes ten seconds
import evaluate, json, test_evaluate_metric as here
del sys.modules["transformers"]
metric = here.as_metric("better", judge=here.longer, stop=False)
assert isinstance(metric, evaluate.Metric)
for start in (0, 10, 20):
    part = slice(start, start + 10)
    metric.add_batch(predictions=here.MIXED[part], references=here.REFERENCES[part])
batches = metric.compute()
contexts = [f"question {k}" for k in range(30)]
shown = metric.compute(predictions=here.MIXED, references=here.REFERENCES, contexts=contexts, heading="Question")
both = evaluate.combine([metric]).compute(predictions=here.MIXED, references=here.REFERENCES)
print(json.dumps([batches, shown, both]))
"""


@pytest.mark.long
def test_it_is_a_metric_of_the_real_library(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("USE_TORCH", "0")
    folders = [str(path) for path in sys.path if path]
    code = f"import sys; sys.path[:0] = {[__file__.rpartition('/')[0], *folders]!r}\n{REAL}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    alone = compute(MIXED, REFERENCES, "better", judge=longer, stop=False)
    batches, shown, both = json.loads(done.stdout.splitlines()[-1])
    assert batches == both == json.loads(json.dumps(alone))
    assert shown["win_rate"] == alone["win_rate"]


def test_without_the_library_the_pip_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match="as_metric needs datasets: pip install evaluate"):
        as_metric("better")
