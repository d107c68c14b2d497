"""Tests do not depend on the plug-ins that happen to be installed."""

from __future__ import annotations

import os
from pathlib import Path

from tests.child_processes import output_of_python
from tests.docs.pages import ROOT

PLUGIN = """
from faultline.strategies.checkpoint import Checkpoint
class Mine(Checkpoint):
    name, summary, title = "mine", "As checkpoint only", "Mine"
"""
LIST = "from faultline.strategies.registry import all_strategies; print('mine' in all_strategies())"
HIDE = (
    "import subprocess, sys, tests.conftest;"
    f"code = {LIST!r}; exec(code);"
    "print(subprocess.check_output([sys.executable, '-c', code], text=True), end='')"
)


def test_an_installed_plug_in_is_hidden_here_and_in_children(tmp_path: Path) -> None:
    installed = tmp_path / "site-packages"
    info = installed / "faultline_mine-1.0.dist-info"
    info.mkdir(parents=True)
    (installed / "mine.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faultline-mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[faultline.schemes]\nmine=mine:Mine\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(ROOT)])}
    assert output_of_python("-c", LIST, env=env) == "True\n"
    assert output_of_python("-c", HIDE, env=env) == "False\nFalse\n"
