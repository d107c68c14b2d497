"""The scripts of docs/examples run as they are, and print results."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from faultline.experiments.cli import main

from tests.docs.pages import ROOT

EXAMPLES = ROOT / "docs" / "examples"


def output_of(name: str, place: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


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
    scripts = map(str, sorted(EXAMPLES.glob("*.py")))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *scripts],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def test_first_run(tmp_path: Path) -> None:
    printed = output_of("first_run", tmp_path)
    (failures,) = re.findall(r"(\d+) failures", printed)
    assert int(failures) > 0
    (slower,) = re.findall(r"replication takes ([\d.]+) times", printed)
    assert float(slower) > 1.0


def test_sweep_and_plot(tmp_path: Path) -> None:
    assert "each at its best" in output_of("sweep_and_plot", tmp_path)
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_own_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It passes the check of schemes, and the command of its docstring runs it."""
    output_of("own_scheme", tmp_path)
    monkeypatch.chdir(ROOT)
    text = (EXAMPLES / "own_scheme.py").read_text(encoding="utf-8")
    (command,) = re.findall(r"^faultline (.*)$", text, re.MULTILINE)
    assert main([*command.split(), "--set", "job.groups=24", "--set", "job.steps=100"]) == 0
    assert "one-less" in capsys.readouterr().out
