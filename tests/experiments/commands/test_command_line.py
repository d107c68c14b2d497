"""The command line as a whole: how it ends where nobody reads what it says."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest
from faultline.experiments.cli import main
from faultline.experiments.commands import machine
from faultline.experiments.commands.arguments import Command, declare
from faultline.platforms import load_preset, write_xml


def end_without_a_reader(*words: str, unbuffered: str = "") -> tuple[int, str]:
    """Return exit status and complaints of a command whose standard output nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "faultline.experiments.cli", *words],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            timeout=120,
            check=False,
        )
    finally:
        os.close(writing)
    return done.returncode, done.stderr


def test_what_is_not_installed_is_told_in_one_line() -> None:
    """As in an environment without rich, where pip was told to leave dependencies alone."""
    without = (
        "import sys; sys.modules['rich'] = None; import importlib.metadata as known\n"
        "found = known.version\n"
        "def version(name):\n"
        "    if name == 'rich': raise known.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "known.version = version\n"
        "from faultline.experiments.entry import main; sys.exit(main())"
    )
    words = [sys.executable, "-c", without, "--version"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("faultline: not installed: rich; ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("platform", "list"),
        pytest.param(("scenario", "show", "spare-study"), marks=pytest.mark.slow),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_a_command_that_nobody_reads_ends_quietly(words: tuple[str, ...]) -> None:
    """As if SIGPIPE had ended it; Rich, print and argparse each fail in a way of their own."""
    assert end_without_a_reader(*words) == (141, "")


def test_it_does_so_where_python_writes_at_once() -> None:
    assert end_without_a_reader("--help", unbuffered="1") == (141, "")


def test_so_does_a_report_of_a_platform(tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    write_xml(load_preset("hgx-h100", domains=2), path)
    assert end_without_a_reader("platform", "check", str(path)) == (141, "")


def test_bad_input_is_told_though_nobody_reads_the_output() -> None:
    status, complaints = end_without_a_reader("run", "no-such-scenario")
    assert status == 2
    assert complaints.startswith("faultline: no-such-scenario: ")
    assert complaints.count("\n") == 1


def test_another_pipe_that_breaks_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def execute(arguments: argparse.Namespace) -> int:
        raise BrokenPipeError(32, "Broken pipe", "a worker")

    monkeypatch.setattr(machine, "execute_doctor", execute)
    assert main(["doctor"]) == 2
    assert capsys.readouterr().err == "faultline: a worker: Broken pipe\n"


def test_options_are_read_as_their_help_writes_them(capsys: pytest.CaptureFixture[str]) -> None:
    text = """\
        FILE...  what is read
        --count N [3]  how many, and a long
            story about it
        or --none  none at all

        a title:
        -o --output DIR!  where to
        --kind a|b [b]
        --span FROM TO
        --set KEY=VALUE
    """
    whole = argparse.ArgumentParser()
    read = {"--span": float}
    declare(whole.add_subparsers(), [Command("try-it", "x", options=text, read=read)])
    told = vars(whole.parse_args(["try-it", "x", "y", "-o", "z", "--span", "1", "2"]))
    assert told == {
        "file": [Path("x"), Path("y")],
        "count": 3,
        "none": False,
        "json": False,
        "output": Path("z"),
        "kind": "b",
        "span": [1.0, 2.0],
        "settings": [],
        "execute": "try_it",
    }
    told = vars(
        whole.parse_args(
            ["try-it", "x", "-o", "z", "--kind", "a", "--none", "--set", "a=1", "--set", "b=2"]
        )
    )
    assert (told["kind"], told["none"], told["settings"]) == ("a", True, ["a=1", "b=2"])
    for wrong in ("x", "x -o z --kind c", "x -o z --count 1 --none", "x -o z --count 0", "-o z"):
        with pytest.raises(SystemExit):
            whole.parse_args(["try-it", *wrong.split()])
    with pytest.raises(SystemExit):
        whole.parse_args(["try-it", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--count N how many, and a long story about it" in shown
    assert "a title: -o DIR, --output DIR where to" in shown
