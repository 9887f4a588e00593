"""The notebooks run, in a kernel of their own, and show what they say; a guide's page is its notebook."""

from copy import deepcopy
from pathlib import Path

import nbformat
import pytest

from notebooks import GUIDE, IMAGES, execute, page_of, pictures, shown

NOTEBOOK = Path(__file__).parents[1] / "examples" / "texts_to_report.ipynb"


@pytest.fixture(scope="module")
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def guide():
    return nbformat.read(GUIDE, as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_nothing_is_stored_but_the_cells(notebook):
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in code(notebook))


@pytest.mark.long
def test_it_goes_from_texts_to_a_report(notebook, tmp_path):
    execute(notebook, tmp_path)
    outputs = [output for cell in code(notebook) for output in cell.outputs]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    found = [output.data for output in outputs if "data" in output]
    (table,) = [data["text/html"] for data in found if "text/html" in data]
    assert "<th>low</th><th>high</th>" in table
    assert table.index("<td>clock</td>") < table.index("<td>rain</td>")
    assert len([data for data in found if "image/png" in data]) == 2
    (report,) = tmp_path.glob("*/openings/report.html")
    assert "more intriguing" in report.read_text(encoding="utf-8")
    assert "report.html: " in outputs[-1].text


@pytest.mark.long
def test_the_guide_runs_from_its_first_cell_to_its_last_picture(guide, tmp_path):
    """What it shows now is what is stored in it; of pictures, whose letters differ by machine, that they are there."""
    nbformat.validate(guide)
    again = execute(deepcopy(guide), tmp_path)
    for stored, now in zip(code(guide), code(again), strict=True):
        assert shown(now) == shown(stored), now.source
    drawn = pictures(again)
    assert list(drawn) == list(pictures(guide)) == [cell.metadata.picture for cell in code(guide) if cell.metadata]
    assert all(picture.startswith(b"\x89PNG") and len(picture) > 5000 for picture in drawn.values())
    assert [cell.execution_count for cell in code(guide)] == list(range(1, len(code(guide)) + 1))


def test_the_page_of_the_guide_is_the_notebook(guide):
    assert GUIDE.with_suffix(".md").read_text(encoding="utf-8") == page_of(guide), "run python tests/notebooks.py"
    for name, picture in pictures(guide).items():
        assert (IMAGES / name).read_bytes() == picture
