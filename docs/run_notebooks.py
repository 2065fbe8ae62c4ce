"""Run the notebooks of docs/notebooks from the first cell to the last, and keep what they show.

    python docs/run_notebooks.py          all of them
    python docs/run_notebooks.py frame    docs/notebooks/frame.ipynb
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent / "notebooks"


def executed(path: Path, edit: Callable[[str], str] = str) -> nbformat.NotebookNode:
    """The notebook after a run in a process and a folder of its own; a cell that raises is an error.

    `edit` changes the source of each cell before. Temporary folders that cells make go with the folder. Times, and what
    libraries write to stderr, are left out: they differ from run to run.
    """
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = edit(cell.source)
    with TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=600, record_timing=False,
                       resources={"metadata": {"path": folder}}).execute(env={**os.environ, "TMPDIR": folder})
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata.pop("language_info", None)  # the version of Python
    return notebook


if __name__ == "__main__":
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if path.stem in sys.argv[1:] or not sys.argv[1:]:
            nbformat.write(executed(path), path)
