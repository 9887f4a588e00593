"""The documented example of a provider is code that runs."""

import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

import comparo
from comparo import JudgeError, Prompt, Question, load_judge

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


@pytest.fixture
def server():
    class Scores(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if asked["model"] != "length":
                self.send_error(404)
                return
            if "!" in asked["text"]:
                self.send_error(500)
                return
            body = json.dumps({"score": len(asked["text"]) / 10}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Scores) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/score"
        server.shutdown()


def test_the_example_ranks(reward, server):
    texts = {name: "x" * length for name, length in {"long": 60, "middle": 35, "short": 5}.items()}
    ranking = comparo.rank(texts, "more helpful", judge=reward.load("length", url=server))
    assert ranking.to_columns()["item"].tolist() == ["long", "middle", "short"]


def test_the_example_keeps_failures_apart_and_stops_where_it_must(reward, server):
    answers = list(
        reward.Reward("length", server).judge(
            [Question(1, 2, first_text="aaaaaaaaaa", second_text=""), Question(1, 3, first_text="a", second_text="b!")],
            PROMPT,
        )
    )
    assert answers[0].p == pytest.approx(0.7310585786300049)
    assert answers[1].error == "the server answered 500"
    with pytest.raises(JudgeError, match="answered 404"):
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
    with pytest.raises(ValueError, match=r"no option 'sead'; .*seed"):
        load_judge("theirs/hard", sead=3)
    with pytest.raises(ValueError, match=r"the providers are local, .* theirs"):
        load_judge("ours/hard")
