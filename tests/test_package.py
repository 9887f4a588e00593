"""What the package promises as a whole."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import comparo

ROOT = Path(__file__).parents[1]


def modules_after(statement):
    """The modules that a fresh interpreter has loaded after `statement`."""
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def installed(modules):
    return {name.split(".")[0] for name in modules if not name.startswith("_")} - set(sys.stdlib_module_names)


def test_comparo_needs_numpy_scipy_and_narwhals_only():
    before = modules_after("pass")
    # The page is made with jinja2, by those who ask for one.
    names = "; ".join(f"comparo.{name}" for name in comparo.__all__ if name != "write_report")
    used = installed(modules_after(f"import comparo; {names}") - before)
    assert used <= {"comparo", "numpy", "scipy", "narwhals", "cython_runtime", "charset_normalizer"}, used


def test_import_takes_no_time_because_it_loads_nothing():
    assert installed(modules_after("import comparo") - modules_after("pass")) == {"comparo"}


def test_every_exported_name_is_documented():
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    for name in comparo.__all__:
        assert re.search(rf"`{name}\b", reference), f"{name} is not in docs/reference.md"
        assert getattr(comparo, name).__doc__
    assert sorted(comparo.__all__) == comparo.__all__
    assert set(comparo.__all__) <= set(dir(comparo))
    with pytest.raises(AttributeError, match="no attribute 'rank_everything'"):
        comparo.rank_everything  # noqa: B018


def test_rooms_import_only_rooms_above():
    order = """money words experts frames objects sheets tables rundata columns comparisons markers prompts sources
        items sequences contrast style graph laplacian determinant newton effects biases product covariance standing
        notebook ranking zermelo noise pooling methods fitting calibration designs greedy resistance selection agreement
        confidence curves plots planning judges budget rounds disk identity database store task spending asking run runs
        repair job report
        studies cli""".split()
    for number, room in enumerate(order):
        files = [ROOT / "src" / "comparo" / f"{room}.py", *(ROOT / "src" / "comparo" / room).glob("*.py")]
        text = "\n".join(file.read_text(encoding="utf-8") for file in files if file.exists())
        used = set(re.findall(r"^from comparo\.(\w+)[\w.]* import", text, re.MULTILINE))
        assert text, room
        assert used <= {*order[:number], room}, (room, used)


def test_rooms_of_studies_import_only_rooms_above():
    order = """layouts download datasets length geval pairs recorded scorers subsets draws cells sweep tables figures
        opening paper baselines experiments claims page yardstick""".split()
    folder = ROOT / "src" / "comparo" / "studies"
    assert {file.stem for file in folder.glob("*.py")} == {"__init__", *order}
    for number, room in enumerate(order):
        text = (folder / f"{room}.py").read_text(encoding="utf-8")
        used = set(re.findall(r"^from comparo\.studies\.(\w+) import", text, re.MULTILINE))
        assert used <= set(order[:number]), (room, used)
