"""The page on modelling a cluster is real: its spec, its commands and its code run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from faultline.experiments.cli import main
from faultline.platforms import parse_spec

PAGE = Path(__file__).parents[2] / "docs" / "modelling-a-cluster.md"


def blocks(language: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_every_command_of_the_page_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (spec,) = blocks("toml")
    Path("our-cluster.toml").write_text(spec, encoding="utf-8")
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert len(commands) == 12
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "faultline"
        assert main(arguments) == 0, command
    printed = capsys.readouterr()
    assert "128 GPUs" in printed.out
    assert "oversubscribed 2:1" in printed.out
    assert "the file is as its spec says" in printed.out
    promised = re.findall(r"^ecmp .*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(promised) == 3
    for line in promised:
        assert line.split() in [re.findall(r"[\w.-]+", row) for row in printed.out.splitlines()]
    assert Path("our-cluster.png").read_bytes().startswith(b"\x89PNG")
    (code,) = blocks("python")
    exec(code, {})
    assert "rack rack-00003 32" in capsys.readouterr().out


def test_the_error_of_the_page_is_the_one_that_comes() -> None:
    (spec,) = blocks("toml")
    promised = re.search(r"faultline: (our-cluster\.toml:.*)", PAGE.read_text(encoding="utf-8"))
    assert promised is not None
    with pytest.raises(ValueError, match=re.escape(promised[1])):
        parse_spec(spec.replace('"400Gbps"', '"400Gb"'), "our-cluster.toml")
