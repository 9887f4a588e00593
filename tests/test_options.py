"""An option is one field: whatever takes its group has it."""

import inspect
import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from comparo import rank
from comparo.options import AmountOptions, Options, RankOptions, accepts, part
from inside import read_configuration

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
    assert "Days until it ends. Default: 3" in said
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
    with pytest.raises(TypeError, match=r"rank has no parameter 'bugdet'; it has .*budget"):
        rank(["A.", "B."], "better", bugdet=6)
    for wrong in ({"least_mass": 2}, {"seed": -1}, {"orders": "none"}, {"until": 1}, {"estimate": "mine"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            rank(["A.", "B."], "better", **wrong)


def test_a_group_is_a_part_of_what_has_it():
    @dataclass(frozen=True, kw_only=True)
    class Two(Options):
        lineup: int = 3
        other: int = 4

    given = AmountOptions(lineup="4")
    assert part(given, Two) == {"lineup": 4}
    assert accepts(Two)(lambda data, options: data * options.other)(2, other=5) == 10
