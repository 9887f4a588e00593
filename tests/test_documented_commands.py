"""Every command of the README and of the pages runs, in the order of its page, and ends well.

Models are asked at servers on this machine, or are a tiny network; files are made when a command names them. The
blocks of the guides are run whole by test_guides.py.
"""

import pytest

from comparo.judges import local
from documented import CALL, FENCE, PAGES, READ_ONLY, ROOT, Documented, commands, logical_lines, shell_lines
from pretenders import providers, tiny_model
from sandbox import Sandbox

# What no test can run, by a part of the command.
CANNOT = {
    "vllm/Qwen/Qwen2.5-7B-Instruct": "vLLM needs a GPU; `make slow` tests the judge, with an engine for CPUs",
}
# Other programs than comparo in blocks of the pages, and who answers for them.
OTHERS = {
    "pip": "installs; test_docs.py checks the extras, and test_wheel.py installs the wheel",
    "make": "test_docs.py checks the targets",
    "export": "sets the key of a provider",
    "git": "of continuous integration",
    "gh": "of continuous integration",
    "inspect": "inspect_scorer.py runs it",
    "ray": "starts a cluster of several machines",
    "python": "benchmarks, which take minutes to hours; test_docs.py checks that they are there",
}


def of_page(page):
    """The commands of a page that are to be run here."""
    return commands(page, has_blocks="guides" not in page.parts)


def can_run(command):
    return not any(part in command.text for part in CANNOT)


TO_RUN = {page: found for page in PAGES if (found := list(filter(can_run, of_page(page))))}


@pytest.fixture(scope="module")
def servers():
    with providers() as variables:
        yield variables


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """What makes the tiny network, once."""
    made = []

    def make():
        if not made:
            made.append(tiny_model(tmp_path_factory.mktemp("network")))
        return made[0]

    return make


@pytest.fixture
def sandbox(tmp_path, run, servers, network, monkeypatch):
    """Where commands run; local/ judges have the weights of the tiny network."""
    monkeypatch.setattr(local, "find_model", lambda *_: network())
    for name, value in {**servers, "BROWSER": "true", "COLUMNS": "150"}.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Sandbox(folder, run, servers, network)


@pytest.mark.long
@pytest.mark.parametrize("page", TO_RUN, ids=[str(page.relative_to(ROOT)) for page in TO_RUN])
def test_the_commands_of_a_page_run(page, sandbox):
    for command in TO_RUN[page]:
        sandbox.run(command)


def test_what_cannot_be_run_is_still_in_the_pages():
    found = [command.text for page in PAGES for command in of_page(page)]
    assert not [part for part in CANNOT if not any(part in text for text in found)]
    assert len(found) - sum(map(len, TO_RUN.values())) <= 5


def test_other_programs_are_known():
    lines = [line for page in PAGES for line in shell_lines(page) if not CALL.search(line.text)]
    assert {line.text.split()[0] for line in lines} == set(OTHERS)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_no_command_in_a_block_is_overlooked(page):
    found = {one.text for one in commands(page)}
    for language, block in FENCE.findall(page.read_text(encoding="utf-8")):
        if language not in (*READ_ONLY, "text"):
            called = {line.removeprefix("$ ") for _, line in logical_lines(block) if CALL.search(line)}
            assert called <= found


@pytest.mark.long
def test_a_command_that_fails_is_found(sandbox):
    for text in (
        "comparo rank stories.jsonl --criterion better --judge openai/gpt-5-mini",  # it gives no log-probabilities
        "comparo export RUN --format dpo  # RUN-pairs.jsonl",
        "comparo fit nothing.csv",
    ):
        with pytest.raises(AssertionError):
            sandbox.run(Documented("page.md", 1, text))
    shown = Documented("page.md", 1, "comparo plan 20 --target 0.9", "about 7 calls\n")
    with pytest.raises(AssertionError, match="line 1 printed"):
        sandbox.run(shown)


def test_commands_are_found_in_blocks_and_sentences(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```\nexport KEY=…\ncomparo rank a.csv \\\n    --top 3   # b.csv\n```\n"
        "See `comparo fit`, `comparo rank --top`,\n`comparo\nfit RUN`, `comparo plan …` and `comparo runs`.\n\n"
        "<!-- other numbers each time -->\n```text\n"
        "$ comparo plan 20\nabout 7 calls\n```\n```text\ncomparo fit printed\n```\n```python\ncomparo fit x\n```\n",
        encoding="utf-8",
    )
    assert [(one.line, one.text, one.printed, one.vague) for one in commands(page)] == [
        (3, "comparo rank a.csv --top 3   # b.csv", "", False),
        (7, "comparo fit RUN", "", False),
        (8, "comparo runs", "", False),
        (12, "comparo plan 20", "about 7 calls\n", True),
    ]
    assert commands(page)[0].made == ["b.csv"]
    assert shell_lines(page)[0].text == "export KEY=…"
