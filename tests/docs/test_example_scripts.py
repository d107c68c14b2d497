"""The scripts of docs/examples run as they are, and print results."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.child_processes import output_of_python
from tests.docs.pages import ROOT

pytestmark = pytest.mark.system

EXAMPLES = ROOT / "docs" / "examples"


def test_types_of_every_script() -> None:
    output_of_python("-m", "mypy", *sorted(EXAMPLES.glob("*.py")), cwd=ROOT)


def test_first_run(tmp_path: Path) -> None:
    printed = output_of_python(EXAMPLES / "first_run.py", cwd=tmp_path)
    (failures,) = re.findall(r"(\d+) failures", printed)
    assert int(failures) > 0
    (slower,) = re.findall(r"replication takes ([\d.]+) times", printed)
    assert float(slower) > 1.0


def test_sweep_and_plot(tmp_path: Path) -> None:
    printed = output_of_python(EXAMPLES / "sweep_and_plot.py", cwd=tmp_path)
    assert "paired by seed" in printed
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_own_scheme(tmp_path: Path) -> None:
    """It passes the check of schemes, and the command of its docstring runs it."""
    output_of_python(EXAMPLES / "own_scheme.py", cwd=tmp_path)
    text = (EXAMPLES / "own_scheme.py").read_text(encoding="utf-8")
    (command,) = re.findall(r"^faultline (.*)$", text, re.MULTILINE)
    short = ("--set", "job.groups=24", "--set", "job.steps=100")
    program = str(Path(sys.executable).with_name("faultline"))
    assert "one-less" in output_of_python(program, *command.split(), *short, cwd=ROOT)
