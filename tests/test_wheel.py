"""The package as it is installed: built, put into an empty environment, and run from there."""

import os
import subprocess
import sys
import sysconfig
import tarfile
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
VARIABLES = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COMPARO_"))}


def start(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=VARIABLES, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    start(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, cwd=ROOT)
    return folder


@pytest.mark.long
def test_the_wheel_runs_in_an_empty_environment(built, tmp_path):
    [wheel] = built.glob("*.whl")
    start(sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty")
    python = tmp_path / "empty" / "bin" / "python"
    start(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel)
    # What comparo depends on is taken from here; the folder's own .pth files, with this checkout, are not read.
    site = Path(start(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    assert Path(start(python, "-c", "import comparo; print(comparo.__file__)")).is_relative_to(site)
    command = ["rank", ROOT / "examples" / "sentences.jsonl", "--criterion", "longer", "--judge", "simulated/soft"]
    flags = ["--budget", "3n", "--out", "run", "--format", "csv"]
    ranking = start(python.with_name("comparo"), *command, *flags, cwd=tmp_path).splitlines()
    assert len(ranking) == 25
    assert ranking[0].startswith("item,score,std")
    assert "<html" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_what_is_built_is_complete_and_says_what_it_is(built):
    [wheel], [source] = built.glob("*.whl"), built.glob("*.tar.gz")
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        said = Parser().parsestr(archive.read(metadata).decode())
    package = ROOT / "src"
    files = {path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {path.relative_to(package).as_posix() for path in files} <= names
    assert not any(name.startswith(("tests/", "benchmarks/")) for name in names)
    assert (said["License-Expression"], said["Description-Content-Type"]) == ("MIT", "text/markdown")
    assert said["Project-URL"]
    assert "Rank texts" in said.get_payload()
    with tarfile.open(source) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "tests/test_wheel.py", "docs/ranking.md"} <= inside
