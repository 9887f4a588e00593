"""The documented example of a provider is code that runs."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import comparo
from comparo import JudgeError, Prompt, Question, load_judge
from servers import Api, Reply

PAGE = (Path(__file__).parents[1] / "docs" / "providers.md").read_text(encoding="utf-8")
PROMPT = Prompt("{first} or {second}?")


@pytest.fixture
def reward():
    codes = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (code,) = (code for code in codes if not code.startswith(">>>"))  # examples with a prompt are run as doctests
    assert len([line for line in code.splitlines() if line.strip()]) <= 45
    module = ModuleType("documented_provider")
    sys.modules["documented_provider"] = module  # where dataclasses look for it
    exec(compile(code, "docs/providers.md", "exec"), module.__dict__)
    yield module
    del sys.modules["documented_provider"]


def scores(request):
    """A reward model named length, which fails on a text with an exclamation mark."""
    if request.body["model"] != "length":
        return Reply(status=404)
    return Reply(status=500) if "!" in request.body["text"] else Reply({"score": len(request.body["text"]) / 10})


@pytest.fixture
def server():
    with Api(scores) as api:
        yield api.url.replace("/v1", "/score")


def test_the_example_ranks(reward, server):
    texts = {name: "x" * length for name, length in {"long": 60, "middle": 35, "short": 5}.items()}
    ranking = comparo.rank(texts, "more helpful", judge=reward.load("length", url=server))
    assert ranking.to_columns()["item"].tolist() == ["long", "middle", "short"]


def test_the_example_keeps_failures_apart_and_stops_where_it_must(reward, server):
    asked = [Question(1, 2, None, "aaaaaaaaaa", ""), Question(1, 3, None, "a", "b!")]
    good, bad = reward.Reward("length", server).judge(asked, PROMPT)
    assert good.p == pytest.approx(0.7310585786300049)
    assert "500" in bad.error
    with pytest.raises(JudgeError, match="404"):
        list(reward.Reward("other", server).judge([Question(1, 2)], PROMPT))


def test_a_provider_of_another_package_is_found_by_its_entry_point(tmp_path, monkeypatch):
    information = tmp_path / "theirs-1.0.dist-info"
    information.mkdir()
    (tmp_path / "theirs.py").write_text(
        "from comparo.judges.simulated import load as simulated\n"
        "def load(model, *, seed=0):\n    return simulated(model, seed=seed)\n"
    )
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[comparo.judges]\ntheirs = theirs:load\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_judge("theirs/hard", seed=3).settings["seed"] == 3
    with pytest.raises(ValueError, match=r"'sead'; .*seed"):
        load_judge("theirs/hard", sead=3)
    with pytest.raises(ValueError, match=r"local, .* theirs"):
        load_judge("ours/hard")
