"""The notebooks run from their first cell to their last, and show what they promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"


def simulated(name: str, place: Path) -> Any:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    resources = {"metadata": {"path": str(place)}}
    return nbclient.NotebookClient(notebook, timeout=120, resources=resources).execute()


def shown_by(notebook: Any) -> list[str]:
    """Return the outputs of each cell: its texts and figures."""
    cells = (cell for cell in notebook.cells if cell.cell_type == "code")
    return ["".join(text for out in one.outputs for text in out.data.values()) for one in cells]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_ships_with_small_outputs_of_its_cells_in_order(path: Path) -> None:
    """`.ci/notebooks` executes them."""
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [out for cell in cells for out in cell.outputs]
    assert len(outputs) >= len(cells) - 1
    assert [
        out for out in outputs if out.output_type not in ("execute_result", "display_data")
    ] == []
    assert any("image/png" in out.data for out in outputs)
    assert path.stat().st_size < 300_000


@pytest.mark.slow
def test_spares_notebook_has_ten_cells(tmp_path: Path) -> None:
    shown = shown_by(simulated("spare-story", tmp_path))
    assert len(shown) == 10
    assert "goodput (ETTR)" in shown[4]
    assert "iVBOR" in shown[5]
    assert "differences from scheme replication" in shown[7]


@pytest.mark.slow
def test_a_cluster_is_planned(tmp_path: Path) -> None:
    shown = shown_by(simulated("planning-a-cluster", tmp_path))
    assert "iVBOR" in shown[0]
    assert "MFU" in shown[1]
    assert "32 GPUs, 20,000 steps" in shown[2]
    assert "cost" in shown[2]
    assert "SPARe" in shown[2]
