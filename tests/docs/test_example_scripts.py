"""The scripts of docs/examples run as they are, and print results."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.child_processes import output_of_python
from tests.docs.pages import ROOT

EXAMPLES = ROOT / "docs" / "examples"


def script(name: str) -> Path:
    return EXAMPLES / f"{name}.py"


def test_every_script_is_run() -> None:
    """Here or in `test_examples_of_pages`."""
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "first_run",
        "lean_on",
        "own_scheme",
        "sweep_and_plot",
        "whole_copies",
    }


def test_types_of_every_script() -> None:
    output_of_python("-m", "mypy", *sorted(EXAMPLES.glob("*.py")), cwd=ROOT)


def test_first_run(tmp_path: Path) -> None:
    printed = output_of_python(script("first_run"), cwd=tmp_path)
    (failures,) = re.findall(r"(\d+) failures", printed)
    assert int(failures) > 0
    (slower,) = re.findall(r"replication takes ([\d.]+) times", printed)
    assert float(slower) > 1.0


def test_sweep_and_plot(tmp_path: Path) -> None:
    assert "paired by seed" in output_of_python(script("sweep_and_plot"), cwd=tmp_path)
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_own_scheme(tmp_path: Path) -> None:
    """It passes the check of schemes, and the command of its docstring runs it."""
    output_of_python(script("own_scheme"), cwd=tmp_path)
    text = (EXAMPLES / "own_scheme.py").read_text(encoding="utf-8")
    (command,) = re.findall(r"^faultline (.*)$", text, re.MULTILINE)
    short = ("--set", "job.groups=24", "--set", "job.steps=100")
    program = str(Path(sys.executable).with_name("faultline"))
    assert "one-less" in output_of_python(program, *command.split(), *short, cwd=ROOT)
