"""What all tests share: their tiers, their examples, and a way to run the command in this process.

The tier of a test is a marker, given here by its file: `make test` runs all tiers, `make test-core` the first one.
What takes long is marked `long` where it is defined, and runs in `make test-long`; pages of docs are marked here.
Hypothesis draws few examples in `make test` and all in `make test-long`, the same in every run unless random ones are
requested (`make test-random`).
"""

import gc
import logging
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from comparo import load_judge
from comparo.cli import main

# A shell's background jobs ignore SIGINT, and so would the commands that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("all", derandomize=True, deadline=None, database=None)
settings.register_profile("few", settings.get_profile("all"), max_examples=15)
settings.register_profile("random", derandomize=False, deadline=None, database=None, print_blob=True)
settings.load_profile(os.environ.get("COMPARO_EXAMPLES", "few"))

# Pages of docs, and functions with examples, that take more than two seconds.
LONG_PAGES = {"people.md", "panel.md", "plots.md", "planning.md", "systems.md", "runs.md", "sheets.md"}
LONG_EXAMPLES = {
    f"comparo.{name}"
    for name in (
        "ranking.votes.with_votes",
        "model.estimators.votes.voted",
        "analysis.reliability.reliability",
        "run.audition.audition",
        "run.rejudge.rejudge",
        "selection.planning.plan",
    )
}
RECORDED = Path(__file__).parents[2] / "shared" / "data"
# Files whose tests share an expensive fixture, or that start many processes, run in one worker each, the longest first.
TIERS = {
    "cluster": "ray",
    "judges": """hf_judge judges label_tokens single_failures openai_judge openai_faults models tree_attention verdicts
        anthropic_judge gemini_judge hosted_judges function_judge providers judge_command batch batch_endpoints
        vllm_judge reliability vote vote_lineups vote_server guides documented_commands criteria_judges""",
    "browser": "report_browser vote_browser notebook",
    "recorded": "recorded",
    "package": "wheel",
    "statistical": """mixed doubt ties control sound_cases contrast confidence planning study yardstick baselines
        soundness""",
}
FILES = {f"test_{name}.py": tier for tier, names in TIERS.items() for name in names.split()}
TOGETHER = {"test_judges.py": "unpacked", "test_hf_judge.py": "unpacked"}
TOGETHER |= {
    f"test_{name}.py": name for name in ("ray", "report_browser", "vote_browser", "notebook", "study", "wheel")
}


def pytest_ignore_collect(collection_path, config):
    """The core tier alone needs no file of another, some of which import torch."""
    return (
        config.option.markexpr in ("core", "core and not long and not slow") and collection_path.name in FILES
    ) or None


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("recorded") and not RECORDED.is_dir():
            item.add_marker(pytest.mark.skip(reason=f"the recorded judgements are not at {RECORDED}"))
        if not any(item.get_closest_marker(tier) for tier in TIERS):
            other = "judges" if item.nodeid.startswith("src/comparo/judges/") else "core"  # examples in docstrings
            item.add_marker(FILES.get(item.path.name, other))
        if (item.path.name in LONG_PAGES and item.path.suffix == ".md") or item.name in LONG_EXAMPLES:
            item.add_marker("long")
        if item.path.name in TOGETHER:
            item.add_marker(pytest.mark.xdist_group(TOGETHER[item.path.name]))
        elif item.get_closest_marker("measures"):
            item.add_marker(pytest.mark.xdist_group("measures"))
    files = list(FILES)
    items.sort(key=lambda item: files.index(item.path.name) if item.path.name in FILES else len(files))


def pytest_collection_finish():
    gc.freeze()  # what was imported stays, and need not be looked at again and again


@pytest.fixture(scope="session")
def unpacked():
    """The embedded model in transformers, which takes long to load; the file is read once, and not three times."""
    import gguf

    with pytest.MonkeyPatch.context() as patch:
        for name in ("GGUFReader", "get_tensor_name_map"):
            patch.setattr(gguf, name, cache(getattr(gguf, name)))
        return load_judge("local/smollm2", runtime="transformers", window=1024)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A browser for the tests of a file."""
    from browsers import chromium

    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def keys(monkeypatch):
    """A key for every provider, and no other address than its own."""
    from servers import KEY

    for name in ("OPENAI", "ANTHROPIC", "GEMINI"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def comparo(run, tmp_path):
    """What runs the command in the folder of the test."""
    return lambda *arguments, **variables: run(tmp_path, arguments, **variables)


@pytest.fixture
def run(monkeypatch, capfd):
    """What runs the command in this process, which takes a tenth of the time."""
    for name in [name for name in os.environ if name.startswith(("COMPARO_", "OPENAI_"))]:
        monkeypatch.delenv(name)

    def start(folder, arguments, **variables):
        monkeypatch.chdir(folder)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["comparo", *map(str, arguments)])
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        for name in variables:
            monkeypatch.delenv(name)
        said = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, code, said.out, said.err)

    return start
