"""Notebooks run in a kernel of their own, and the page of a guide that is a notebook.

The notebook is the source: `python tests/notebooks.py` runs docs/guides/summaries.ipynb, stores what it prints, and
writes the page beside it and the pictures in docs/images. A cell that draws names its picture and describes it in its
metadata (`picture`, `alt`).
"""

from __future__ import annotations

import base64
import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from guides import GUIDES, ROOT, prepare

GUIDE = GUIDES / "summaries.ipynb"
BOLD = re.compile(r"\x1b\[\d*m")  # how a terminal is told to write bold, and to stop
IMAGES = ROOT / "docs" / "images"


def execute(notebook: Any, folder: Path) -> Any:
    """Run all cells in a folder, with `comparo` there as a program; the notebook with what they showed."""
    private = {name: str(folder) for name in ("TMPDIR", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR")}
    environment = {**prepare(folder), **private, "TERM": "dumb"}
    del environment["MPLBACKEND"]  # the kernel has its own, which shows pictures in the notebook
    kernel = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=300, resources=kernel, record_timing=False, coalesce_streams=True)
    client.execute(env=environment)
    for cell in _code(notebook):
        cell.outputs.sort(key=lambda output: output.get("name") == "stderr")  # they arrive in any order
        for output in cell.outputs:
            if "text/markdown" in output.get("data", {}):  # the other form of a table has digits without meaning
                del output.data["text/plain"]
    return notebook


def shown(cell: Any) -> tuple[str, str]:
    """What a cell shows, without its pictures: what it prints, and a table in Markdown."""
    printed = "".join(output.text for output in cell.outputs if output.output_type == "stream")
    tables = [output.data.get("text/markdown", "") for output in cell.outputs if output.output_type != "stream"]
    return "\n".join(line.rstrip() for line in BOLD.sub("", printed).splitlines()), "".join(tables)


def pictures(notebook: Any) -> dict[str, bytes]:
    """The pictures that a notebook has drawn, by the names in its cells."""
    return {
        cell.metadata.picture: base64.b64decode(output.data["image/png"])
        for cell in _code(notebook)
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    }


def page_of(notebook: Any) -> str:
    """A notebook as a page of the site: code in blocks, and what it shows below."""
    return "\n\n".join(part for cell in notebook.cells for part in _parts(cell)) + "\n"


def _parts(cell: Any) -> list[str]:
    if cell.cell_type == "markdown":
        return [cell.source]
    is_shell = cell.source.startswith("!")
    parts = [f"```{'sh' if is_shell else 'python'}\n{cell.source.removeprefix('!')}\n```"]
    printed, table = shown(cell)
    if printed:
        parts.append(f"```text\n{printed}\n```")
    if table:
        parts.append(table)
    if "picture" in cell.metadata:
        parts.append(f"![{cell.metadata.alt}](../images/{cell.metadata.picture})")
    return parts


def _code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def main() -> None:
    notebook = nbformat.read(GUIDE, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        execute(notebook, Path(folder))
    nbformat.write(notebook, GUIDE)
    GUIDE.with_suffix(".md").write_text(page_of(notebook), encoding="utf-8")
    for name, picture in pictures(notebook).items():
        (IMAGES / name).write_bytes(picture)


if __name__ == "__main__":
    main()
