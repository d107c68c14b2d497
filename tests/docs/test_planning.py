"""The page on planning is real: its commands run, and its example is what they print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from faultline.experiments.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "planning.md"


def blocks(language: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.replace("\\\n", "").splitlines()]


def marked(command: str) -> object:
    """A cluster of another size than the scenario's is measured and played at length."""
    return pytest.param(command, marks=pytest.mark.slow) if "--gpus 100000" in command else command


@pytest.mark.parametrize("command", [marked(command) for command in commands()])
def test_the_commands_of_the_page_work(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(command)
    assert program == "faultline"
    assert main(arguments) == 0
    if command == commands()[0]:
        example = blocks("text")[0]
        printed = capsys.readouterr().out
        assert [line.rstrip() for line in printed.splitlines()] == example.splitlines()
