"""The page on sweeps is real: its grid, its commands and its code run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from faultline.experiments.cli import main
from faultline.experiments.commands import sweep
from faultline.experiments.config.grid import read_grid
from faultline.experiments.runs.sweep_plan import make_plan

from tests.experiments.runs.in_process import Invented, some_record

PAGE = Path(__file__).parents[2] / "docs" / "sweeps.md"


def blocks(language: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_grid_of_the_page_has_as_many_runs_as_it_says(tmp_path: Path) -> None:
    (grid,) = blocks("toml")
    path = tmp_path / "grid.toml"
    path.write_text(grid, encoding="utf-8")
    manifest = make_plan(read_grid(str(path))).manifest
    said = re.search(r"these are (\d+) points\s+and (\d+) runs", PAGE.read_text(encoding="utf-8"))
    assert said is not None
    assert [len(manifest.points), len(manifest.run_ids)] == [
        int(number) for number in said.groups()
    ]


def test_the_commands_and_the_code_of_the_page_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With invented results: what is simulated is tested elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sweep,
        "_executor",
        lambda arguments: Invented(lambda request: {**some_record(request)}),
    )
    for command in (line for block in blocks("sh") for line in block.splitlines()):
        program, *arguments = shlex.split(command)
        assert program == "faultline"
        assert main(arguments) == 0, command
    (code,) = blocks("python")
    capsys.readouterr()
    exec(compile(code, str(PAGE), "exec"), {})
    assert "strategy.redundancy" in capsys.readouterr().out
