"""The scripts of .ci: recipes of published files, and same results."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.child_processes import run_python

ROOT = Path(__file__).resolve().parents[1]


def publish(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python(ROOT / ".ci" / "publish", *arguments)


def test_each_published_file_has_one_recipe() -> None:
    lines = publish("--list").stdout.splitlines()
    files = [file for line in lines for file in line.split(maxsplit=1)[1].split(", ")]
    assert sorted(files) == sorted(one.name for one in (ROOT / "results" / "published").iterdir())


def test_an_unknown_recipe_is_refused() -> None:
    refused = publish("spare", "spar")
    assert refused.returncode == 2
    assert refused.stdout.startswith("publish: no recipe spar: choose of step-time,")
    assert len(refused.stdout.splitlines()) == 1


def compared(*folders: Path) -> tuple[int, str]:
    done = run_python(ROOT / ".ci" / "compare-results", *folders)
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
