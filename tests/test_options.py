"""An option is one field: whatever takes its group has it."""

import ast
import inspect
import json
import pickle
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

import pytest

import comparo
from comparo import rank
from comparo.data.grammar import Options, accepts, part
from comparo.errors import Message, OptionError, in_flags, named
from comparo.options import AmountOptions, RankOptions
from inside import COMMANDS, load_command, read_configuration

# Runs a statement where the source of comparo.options has one field more.
ADDED = """
import pathlib, sys, types
from importlib.util import find_spec
path = find_spec("comparo.options").origin
source = pathlib.Path(path).read_text(encoding="utf-8")
source = source.replace("    least_mass : Stop", "    patience : Days until it ends.\\n    least_mass : Stop")
source = source.replace("    least_mass: float", "    patience: int = 3\\n    least_mass: float")
sys.modules["comparo.options"] = module = types.ModuleType("comparo.options")
exec(compile(source, path, "exec"), module.__dict__)
"""


@pytest.fixture
def added(tmp_path):
    """Runs a statement, in a folder with some texts, by a comparo that has an option `patience`."""
    rows = [{"id": name, "text": f"A story by {name}."} for name in ("ana", "bo", "cy")]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def run(statement, *arguments, **variables):
        command = [sys.executable, "-c", ADDED + statement, *arguments]
        environment = {"PATH": "", "PYTHONPATH": ":".join(sys.path), "COLUMNS": "200", **variables}
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment).stdout

    return run


def test_an_added_field_is_a_parameter_a_flag_and_a_key(added, tmp_path):
    code = "import comparo, inspect; print(inspect.signature(comparo.rank).parameters['patience'])"
    assert added(code) == "patience: int = 3\n"
    command = "from comparo.cli.app import main; main()"
    said = added(command, "rank", "--help-all")
    assert "--patience" in said
    assert "Default: 3" in said
    asked = ("rank", "items.jsonl", "--criterion", "better", "--judge", "simulated/soft", "--out")
    (tmp_path / "comparo.toml").write_text("[rank]\npatience = 5\n")
    for folder, variables, kept in (("file", {}, 5), ("variable", {"COMPARO_PATIENCE": "7"}, 7)):
        added(command, *asked, folder, **variables)
        configuration = read_configuration(tmp_path / folder)
        assert configuration["patience"] == kept
        assert f"--patience {kept}" in configuration["command"]


def test_a_function_that_accepts_options_has_their_parameters():
    names = list(inspect.signature(rank).parameters)
    assert names[:2] == ["data", "criterion"]
    assert {*names} == {"data", *inspect.signature(RankOptions).parameters}
    with pytest.raises(TypeError, match=r"^rank .*'bugdet'; .*budget"):
        rank(["A.", "B."], "better", bugdet=6)
    for wrong in ({"least_mass": 2}, {"seed": -1}, {"orders": "none"}, {"until": 1}, {"estimate": "mine"}):
        with pytest.raises(OptionError) as refused:
            rank(["A.", "B."], "better", **wrong)
        assert {refused.value.option: refused.value.value} == wrong


def test_a_group_is_a_part_of_what_has_it():
    @dataclass(frozen=True, kw_only=True)
    class Two(Options):
        lineup: int = 3
        other: int = 4

    given = AmountOptions(lineup="4")
    assert part(given, Two) == {"lineup": 4}
    assert accepts(Two)(lambda data, options: data * options.other)(2, other=5) == 10


def literals():
    """Each text in the source that is no docstring, its place, and whether it is the template of a message."""
    for file in sorted(Path(comparo.__file__).parent.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
        templates = {id(call.args[0]) for call in calls if getattr(call.func, "id", "") == "Message"}
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
                yield f"{file}:{node.lineno}", node.value, id(node) in templates


def test_options_are_named_in_templates_only():
    functions = [each for name in comparo.__all__ if inspect.isfunction(each := getattr(comparo, name))]
    names = {name for each in functions for name in inspect.signature(each).parameters}
    names |= {"powered", "backend", "contexts"}  # a function, and parameters of methods
    names |= {str(each.name) for command in COMMANDS for each in load_command(command).params}
    for place, text, is_template in literals():
        if not is_template:
            assert not re.search(r"`\w+(=[^`]*)?`", text), place
            continue
        for _, option, value, _ in Formatter().parse(text):
            group, _, name = (option or "").rpartition(".")
            assert option is None or group in ("option", "columns") or name in names, (place, option)
            assert not value or ast.literal_eval(value) is not None, place


def test_messages_are_written_by_each_door():
    text = "{budget} `until` "  # of a user
    message = text + Message("raise {budget}, as {budget:'5 n'}, or {fresh:True}; {option.votes:5}, {columns.id}")
    message += "; " + str(ValueError(named("seed", text)))
    flags = {name: f"--{name}" for name in ("budget", "fresh", "option", "columns", "seed", "until")}
    here = f"{text}raise `budget`, as budget='5 n', or fresh=True; votes=5, `id`; seed={text!r}"
    there = f"{text}raise --budget, as --budget '5 n', or --fresh; --option votes=5, --columns id=; --seed '{text}'"
    for each in (
        message,
        pickle.loads(pickle.dumps(message)),
        str(pickle.loads(pickle.dumps(KeyError(message))).args[0]),
    ):
        assert each == here
        assert in_flags(each, flags) == there
    assert in_flags(message, {}) == here


def test_an_error_of_an_option_is_data():
    error = pickle.loads(pickle.dumps(OptionError("goal", "the best", Message("needs {group}"))))
    assert (error.option, error.value) == ("goal", "the best")
    assert str(error) == "goal = 'the best' needs `group`"
    assert in_flags(str(error), {"goal": "--goal", "group": "--group"}) == "--goal 'the best' needs --group"
