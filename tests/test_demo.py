"""comparo demo, with a simulated judge in place of the embedded model, which the tests of judges load."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from comparo import load_judge
from comparo.cli import demo


@pytest.fixture
def shown(monkeypatch, tmp_path, capsys):
    def run(judge, is_open=False):
        opened = []
        monkeypatch.setattr(demo, "load_judge", lambda *_, **__: judge)
        monkeypatch.setattr(demo.webbrowser, "open", opened.append)
        demo.demo_command(tmp_path / "demo", is_open)
        return capsys.readouterr(), opened

    return run


def test_the_demo_ranks_and_auditions_and_names_the_page(shown, tmp_path):
    quality = {f"{n} words": n / 4.0 for n in demo.LENGTHS}
    printed, opened = shown(load_judge("simulated/soft", scores=quality), is_open=True)
    assert "24 words" in printed.out
    assert "with words: 0.9" in printed.err
    assert "restaurant review" in printed.err
    page = tmp_path / "demo" / "sentences" / "report.html"
    assert page.is_file()
    assert opened == [page.as_uri()]
    calls = json.loads((tmp_path / "demo" / "reviews" / "run.json").read_text())
    assert calls["identity"]["judge"] == "simulated/soft"


@pytest.mark.parametrize(
    ("reads", "words"),
    [("no", "it cannot tell"), ("yes", "it sees something of them"), ("not yet known", "it may be a coin")],
)
def test_what_the_audition_found_is_told(reads, words):
    table = {"content": 0.0, "content_low": 0.0, "content_high": 0.4, "position": 0.99, "reads": reads}
    found = SimpleNamespace(table={name: np.array([value]) for name, value in table.items()})
    assert words in demo.sentence(found)
