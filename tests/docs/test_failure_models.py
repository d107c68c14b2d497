"""The page on failure models is real: its files and its commands work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from faultline.experiments.cli import main
from faultline.experiments.config.mix_file import load_mix, shipped_mixes

PAGE = Path(__file__).parents[2] / "docs" / "failure-models.md"


def blocks(language: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_every_file_and_command_of_the_page_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    causes, slow = blocks("toml")
    _, _, slow_cause = slow.partition("\n\n")
    Path("our-causes.toml").write_text(causes + slow_cause, encoding="utf-8")
    (trace,) = blocks("csv")
    Path("log.csv").write_text(trace, encoding="utf-8")
    (jobs,) = blocks("text")
    Path("sacct.txt").write_text(jobs, encoding="utf-8")
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(commands) == 11
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "faultline"
        assert main(arguments) == 0, command
    printed = capsys.readouterr().out
    assert "power-shelf" in printed
    assert "4 failures" in printed
    assert "2 failures of 17 nodes" in printed
    assert load_mix("ours.toml").cause[0].per_1000_node_days is not None
    assert Path("llama3.png").read_bytes().startswith(b"\x89PNG")
    assert Path("llama3.csv").read_text(encoding="utf-8").startswith("time,component,cause")


def test_the_page_names_every_shipped_mix_and_its_source() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in shipped_mixes():
        assert f"`{name}`" in text
        (paper, *_) = re.findall(r"arXiv \d+\.\d+", load_mix(name).source)
        assert paper in text
