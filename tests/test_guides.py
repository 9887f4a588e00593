"""Every guide runs from its first line to its last picture, and says what it prints; notebooks: test_notebook.py."""

import pytest

from guides import GUIDES, ROOT, Step, pictures, run_guide, steps

PAGES = {page.stem: page for page in sorted(GUIDES.glob("*.md"))}
SCRIPTS = [name for name, page in PAGES.items() if not page.with_suffix(".ipynb").exists()]  # not of a notebook
NEEDS = {"million": [pytest.mark.cluster, pytest.mark.xdist_group("ray")]}  # tests of Ray run one after another


@pytest.mark.long
@pytest.mark.parametrize("name", [pytest.param(name, marks=NEEDS.get(name, [])) for name in SCRIPTS])
def test_a_guide_runs_from_its_first_line_to_its_last_picture(name, tmp_path):
    run_guide(PAGES[name], tmp_path)


@pytest.mark.parametrize("name", PAGES)
def test_a_guide_shows_its_own_picture(name):
    assert f"{name}.png" in pictures(PAGES[name])
    assert all((ROOT / "docs" / "images" / picture).stat().st_size > 5000 for picture in pictures(PAGES[name]))


@pytest.mark.parametrize("name", PAGES)
def test_a_guide_needs_no_word_of_statistics(name):
    text = PAGES[name].read_text(encoding="utf-8").lower()
    assert not [word for word in ("bradley", "laplacian", "posterior", "likelihood") if word in text]


def test_a_guide_that_prints_something_else_is_found(tmp_path):
    page = tmp_path / "guide.md"
    page.write_text("```sh\necho 3 mice\n```\n\n```text\n4 mice\n```\n", encoding="utf-8")
    assert steps(page) == [Step("sh", "echo 3 mice\n", "4 mice\n", False, 1)]
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(AssertionError, match="line 1 printed"):
        run_guide(page, folder)


def test_numbers_that_differ_are_left_out_where_the_guide_says_so():
    Step("sh", "", "about 3,400 mice\n", True, 1).check("about 2.5 mice\n")
    with pytest.raises(AssertionError):
        Step("sh", "", "about 3,400 mice\n", True, 1).check("about 2.5 men\n")
    with pytest.raises(AssertionError):
        Step("sh", "", "about 3,400 mice\n", False, 1).check("about 2.5 mice\n")
