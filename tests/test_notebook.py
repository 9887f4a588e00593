"""The example notebook runs, in a kernel of its own, and shows what it says."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "texts_to_report.ipynb"


@pytest.fixture(scope="module")
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def test_nothing_is_stored_but_the_cells(notebook):
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


def test_it_goes_from_texts_to_a_report(notebook, tmp_path, monkeypatch):
    for name in ("TMPDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    shown = [output.data for output in outputs if "data" in output]
    (table,) = [data["text/html"] for data in shown if "text/html" in data]
    assert "95% interval" in table
    assert table.index("<td>clock</td>") < table.index("<td>rain</td>")
    assert len([data for data in shown if "image/png" in data]) == 3
    (report,) = tmp_path.glob("*/openings/report.html")
    assert "Which Opening is more intriguing" in report.read_text(encoding="utf-8")
    assert "report.html: " in outputs[-1].text
