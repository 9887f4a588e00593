"""The pages: links lead somewhere, commands and flags exist, and navigation, llms.txt and reference list everything."""

import pkgutil
import re
import shlex
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import comparo
from documented import FENCE, logical_lines
from inside import COMMANDS, load_command

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MEASUREMENTS = DOCS / "measurements"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
CONFIG = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
EVERYWHERE = {"--help", "--help-all", "--version"}  # of `comparo` itself
# Flags of benchmarks that the page names, and a target of the reader's own.
OTHERS = {
    "CONTRIBUTING.md": {"--cells"},
    "systems.md": {"--runs"},
    "growing.md": {"--seeds"},
    "ci.md": {"make outputs"},
}


def read(page):
    return page.read_text(encoding="utf-8")


def prose(text):
    """A page without its blocks of code."""
    return FENCE.sub("", text)


def anchor(heading):
    """The name that a heading has in links to it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", prose(read(page)), re.MULTILINE)
    return {anchor(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)) for heading in headings}


def links(text):
    return re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", prose(text))


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_between_pages_lead_somewhere(page):
    for target in links(read(page)):
        path, _, part = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"it links to {target}"
        assert DOCS not in page.parents or DOCS in file.resolve().parents, f"{target} is outside the site"
        assert not part or part in anchors(file), f"it links to {target}"


@cache
def flags(name):
    return {flag for parameter in load_command(name).params for flag in (*parameter.opts, *parameter.secondary_opts)}


def lines_of_shell(text):
    """The commands of a page, in its blocks and in its sentences, a continued line as one."""
    for language, block in FENCE.findall(text):
        if language in ("", "sh", "yaml"):
            yield from (line for _, line in logical_lines(block))
    yield from (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(text)))


def words(line):
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # a sentence with an apostrophe is no command
        return []


def wrong_words(line):
    """What a line of shell names that does not exist: commands and flags of comparo, targets of make, benchmarks."""
    found = words(line)
    start = next((place for place, word in enumerate(found) if word in ("comparo", "make", "python")), None)
    if start is None:
        return []
    program, *rest = found[start:]
    if "comparo" in rest:  # one command gives the next its variables or its input
        return wrong_words(shlex.join(rest[rest.index("comparo") :]))
    if program == "make":
        return [f"make {word}" for word in rest[:1] if re.fullmatch(r"[a-z-]+", word) and word not in TARGETS]
    if program == "python":
        module = rest[1] if rest[:1] == ["-m"] else ""
        file = ROOT.joinpath(*module.split(".")).with_suffix(".py")
        return [module] if module.startswith("benchmarks.") and not file.exists() else []
    if not rest or not re.fullmatch(r"[a-z]+", rest[0]):
        return []
    name, *arguments = rest
    if name not in COMMANDS:
        return [f"comparo {name}"]
    used = {word.split("=")[0] for word in arguments if re.match(r"--?[a-z]", word)}
    return [f"comparo {name} {flag}" for flag in used - flags(name) - EVERYWHERE]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_command_and_flag_exists(page):
    wrong = {word for line in lines_of_shell(read(page)) for word in wrong_words(line)}
    assert not wrong - OTHERS.get(page.name, set())


def test_a_command_that_does_not_exist_is_found():
    for line, wrong in (
        ("comparo rank a.jsonl --criterion x --colour", ["comparo rank --colour"]),
        ("KEY=1 comparo rnak a.jsonl", ["comparo rnak"]),
        ("make tests", ["make tests"]),
        ("python -m benchmarks.nothing", ["benchmarks.nothing"]),
        ("comparo rank it's a sentence --colour", []),
    ):
        assert wrong_words(line) == wrong
    found = lines_of_shell("```sh\ncomparo rank \\\n    a.csv\n```\nand `make\ntest`")
    assert list(found) == ["comparo rank a.csv", "make test"]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_flag_named_alone_is_one_of_comparo(page):
    """`--flag` in a sentence; lines about other programs name them in the same code."""
    known = set().union(*map(flags, COMMANDS), EVERYWHERE)
    for span in re.findall(r"`(--[a-z][^`]*)`", prose(read(page))):
        flag = re.split(r"[\s=]", span)[0]
        assert flag in known | OTHERS.get(page.name, set()), f"{flag} is no flag of any command"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_extras_to_install_exist(page):
    for extras in re.findall(r"comparo\[([\w,]+)\]", read(page)):
        assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"]), extras


def navigation(entries=CONFIG["nav"], section=""):
    """The pages of the navigation with their sections, in order."""
    for entry in entries:
        ((title, target),) = entry.items()
        if isinstance(target, list):
            yield from navigation(target, title)
        else:
            yield section, target


def test_the_navigation_has_every_page_once_and_is_by_task():
    listed = [page for _, page in navigation()]
    there = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if page.parent != MEASUREMENTS}
    assert set(listed) == there | {"measurements/index.md"}, "zensical.toml lists other pages than docs/ has"
    assert len(listed) == len(set(listed))
    longest = max(Counter(section for section, _ in navigation()).values())
    assert longest <= 12, "a list of pages that nobody reads: divide the section"


def test_every_page_of_measurements_is_listed_and_linked():
    names = {page.name for page in MEASUREMENTS.glob("*.md")} - {"index.md"}
    assert set(links(read(MEASUREMENTS / "index.md"))) == names
    linked = {link for page in DOCS.glob("*.md") for link in links(read(page)) if link.startswith("measurements/")}
    assert {f"measurements/{name}" for name in names} <= {link.partition("#")[0] for link in linked}


def test_the_pages_beside_measurements_stay_short():
    pages = [page for page in DOCS.rglob("*.md") if page.parent != MEASUREMENTS]
    assert sum(len(read(page).split()) for page in pages) <= 40_000, "move tables and derivations to docs/measurements"


def test_llms_txt_has_every_page_with_its_line():
    """The layout of llmstxt.org: a title, a summary as a quotation, sections of links with a line each."""
    text = (DOCS / "llms.txt").read_text(encoding="utf-8")
    title, summary, *rest = [line for line in text.splitlines() if line]
    assert title == "# comparo"
    assert summary.startswith("> ")
    section, found = "", []
    for line in rest:
        if line.startswith("## "):
            section = line[3:]
        elif section:
            link = re.fullmatch(r"- \[(.+)\]\((.+)\): (.{20,}[^.])", line)
            assert link, f"llms.txt has a line that is no link with what is there: {line}"
            name, target, _ = link.groups()
            assert read(DOCS / target).startswith(f"# {name}\n"), f"{target} has another title than {name}"
            found.append((section, target))
    wanted = [(section or "Start", page) for section, page in navigation()]
    assert found == wanted, "docs/llms.txt lists other pages than zensical.toml, or in another order"


def test_the_reference_from_docstrings_has_every_public_name():
    listed = re.findall(r"^::: comparo\.(\S+)$", "\n".join(map(read, (DOCS / "api").glob("*.md"))), re.MULTILINE)
    assert len(listed) == len(set(listed))
    assert set(comparo.__all__) <= set(listed), "add it to a page in docs/api"
    for name in listed:
        assert pkgutil.resolve_name(f"comparo.{name}").__doc__
