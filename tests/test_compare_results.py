"""The check that two sets of results are the same, byte by byte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent / ".ci" / "compare-results"


def compared(*folders: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, folders)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_differences_are_named_with_their_first_line(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before, after):
        folder.mkdir()
        (folder / "rows.csv").write_text("quantity,value\nratio,1.5\nratio,2.5\n")
    assert compared(before, after) == (0, "no difference in rows.csv\n")
    (after / "rows.csv").write_text("quantity,value\nratio,1.5\nratio,2.50\n")
    (after / "more.csv").write_text("quantity\n")
    status, printed = compared(before, after)
    assert status == 1
    assert printed.splitlines() == [
        "more.csv: only after",
        "rows.csv: 3 and 3 lines, 1 unlike; line 3:",
        "  - ratio,2.5",
        "  + ratio,2.50",
    ]
