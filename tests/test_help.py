"""Help as a newcomer meets it: flags in groups on two screens, suggestions for near misses, the first question."""

import json
import re

import pytest

from benchmarks.paper.prompts import PAPER
from inside import COMMANDS, COMMON, criterion_prompt, load_command, name_of, options_of
from servers import Api, prefers

PANELS = ["What is compared", "What the judge is asked", "Who is asked", "How much", "How pairs", "Output"]
ONE_SCREEN, TWO_SCREENS = 55, 110  # lines of 100 columns


def test_the_flags_of_rank_are_in_groups_and_fit_two_screens(run, tmp_path):
    said = run(tmp_path, ["rank", "--help-all"], COLUMNS="100").stdout
    assert len(said.splitlines()) <= TWO_SCREENS
    places = [said.index(f"─ {panel}") for panel in PANELS]
    assert places == sorted(places)
    assert "─ Options ─" not in said


@pytest.mark.parametrize("name", COMMON)
def test_help_is_one_screen_of_common_flags(name, run, tmp_path):
    said = run(tmp_path, [name, "--help"], COLUMNS="100").stdout
    assert len(said.splitlines()) <= ONE_SCREEN
    flags = {name_of(option) for option in options_of(load_command(name))}
    common = set(COMMON[name].split())
    assert common < flags
    shown = re.compile(r"^│[ *]* --([\w-]+)", re.MULTILINE)
    assert set(shown.findall(said)) == common | {"help", "help-all"}
    every = run(tmp_path, [name, "--help-all"], COLUMNS="100").stdout
    assert set(shown.findall(every)) == flags | {"help", "help-all"}


def test_rank_has_at_most_36_flags_and_there_are_at_most_15_commands():
    assert len(options_of(load_command("rank"))) <= 36
    assert len(COMMANDS) <= 15


@pytest.mark.parametrize("name", COMMANDS)
def test_a_flag_without_a_value_shows_none_and_others_show_theirs(name):
    for option in load_command(name).params:
        assert option.help
        if getattr(option, "is_flag", None) is not None:
            assert (option.metavar == "") == bool(option.is_flag)


def test_choices_are_all_shown(run, tmp_path):
    for name, choices in (("rank", ["davidson", "plug-in", "adaptive"]), ("fit", ["davidson", "plug-in"])):
        said = run(tmp_path, [name, "--help-all"], COLUMNS="300").stdout
        assert all(choice in said for choice in choices)


def test_near_misses_get_a_suggestion(run, tmp_path):
    (tmp_path / "items.jsonl").write_text("".join(json.dumps({"id": k, "text": f"T {k}"}) + "\n" for k in range(3)))
    done = run(tmp_path, ["rank", "items.jsonl", "--critereon", "better"])
    assert done.returncode == 2
    assert "--criterion" in done.stderr.split("--critereon")[1]
    done = run(tmp_path, ["rank", "items.jsonl", "--criterion", "coherence", "--judge", "simulated/soft"])
    assert done.returncode == 2
    assert 'compare: "more coherent"' in done.stderr


def test_an_attribute_is_no_criterion():
    for name in {name.split("/")[1] for name in PAPER} | {"Accuracy", "clarity", "honesty", "politeness"}:
        with pytest.raises(ValueError, match="compare: "):
            criterion_prompt(name)
        assert criterion_prompt(f"has the better {name}", wording="better").template
    for words in ("more coherent", "racy", "wittier", "fluent", "easier to read", "the better argument"):
        assert criterion_prompt(words).template


def test_a_dry_run_shows_what_is_then_sent_first(run, tmp_path):
    rows = [{"id": k, "text": f"Text number {k}. " + "Long. " * 300, "article": f"About {k}"} for k in range(6)]
    (tmp_path / "items.jsonl").write_text("\n".join(json.dumps(row | {"article": "About it."}) for row in rows))
    with Api(prefers(0.3)) as api:
        judge = ("--judge", "openai/any", "--base-url", api.url, "--price", "0.01,0.01", "-o", "concurrency=1")
        command = ("rank", "items.jsonl", "--context", "article", "--criterion", "better", *judge)
        said = run(tmp_path, [*command, "--dry-run"]).stdout
        assert not api.requests
        run(tmp_path, command)
        assert f"\n\n{api.requests[1].body['messages'][0]['content']}\n" in said  # the first one is the probe
    assert "$0.00 " not in said
    assert "at most $0.0" in said
