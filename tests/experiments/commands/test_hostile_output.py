"""What is written and shown: whole files, whatever the disk does, and texts as they are."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib.text
import pytest
from faultline.experiments import cli as program
from faultline.experiments.figures.style import figure_style
from faultline.experiments.runs.local import InThisProcess
from faultline.experiments.runs.sweep_plan import Plan
from matplotlib import pyplot as plt

from tests.child_processes import run_program
from tests.experiments.command_line import Cli
from tests.experiments.runs.in_process import plan_of, sweep
from tests.experiments.runs.processes import with_tests

GRID = (
    'scenario = "spare-study"\nseeds = 2\n[set]\njob.steps = 20\njob.groups = 12\n[grid]\n'
    "strategy.redundancy = [2, 3]"
)
HOSTILE = "$\\frac{$ [red]x[/] [/] \\u001b[31m :bomb: <b>"
"""A name in TOML that matplotlib, rich and a terminal would each do something with."""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A finished sweep of a hostile name."""
    plan: Plan = plan_of(tmp_path, f'name = "{HOSTILE}"\n{GRID}')
    directory = tmp_path / "results"
    sweep(plan, directory, InThisProcess())
    return directory


def fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)


_ENDINGS = {"figure": ".png", "timeline": ".csv", "report": ".html"}
WRITERS: dict[str, Callable[[Path, Path], tuple[object, ...]]] = {
    "report": lambda results, old: ("report", results, "-o", old),
    "compare": lambda results, old: ("compare", results, "--csv", old),
    "timeline": lambda _, old: ("run", "spare-study", "--set", "job.steps=5", "--timeline", old),
    "trace": lambda _, old: ("failures", "draw", "llama3", "--gpus", "1024", "--csv", old),
    "figure": lambda _, old: ("failures", "draw", "llama3", "--gpus", "1024", "-o", old),
    "platform": lambda _, old: ("platform", "generate", "hgx-h100", "-o", old),
}


@pytest.mark.parametrize("command", WRITERS)
def test_a_full_disk_leaves_the_old_file_and_is_reported_with_its_name(
    command: str, results: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / f"old{_ENDINGS.get(command, '.xml')}"
    old.write_text("old", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    fill_the_disk(monkeypatch)
    status, _, err = cli.all(*WRITERS[command](results, old))
    assert (status, err.count("\n")) == (2, 1)
    assert str(old) in err
    assert "No space left on device" in err
    assert old.read_text(encoding="utf-8") == "old"
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", WRITERS)
def test_no_link_is_followed(command: str, results: Path, tmp_path: Path, cli: Cli) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    link = tmp_path / f"link{_ENDINGS.get(command, '.xml')}"
    link.symlink_to(victim)
    status, _, err = cli.all(*WRITERS[command](results, link))
    assert (status, err.count("\n")) == (2, 1)
    assert f"{link}: " in err
    assert "a symbolic link" in err
    assert victim.read_text(encoding="utf-8") == "precious"


def test_names_are_shown_letter_by_letter(results: Path, tmp_path: Path, cli: Cli) -> None:
    for words in (
        ("report", results, "-o", tmp_path / "report.html"),
        ("plot", results),
        ("compare", results),
        ("failures", "draw", hostile_mix(tmp_path), "--gpus", "9999", "-o", tmp_path / "f.png"),
    ):
        status, out, err = cli.all(*words)
        assert (status, err) == (0, "")
        assert "\x1b" not in out
    assert "$x$ [red]mix[b]" in out


def hostile_mix(folder: Path) -> Path:
    mix = folder / "$x$ [red]mix[b].toml"
    mix.write_text(
        'source = "[b]s[/b]"\n[[cause]]\nname = "gpu"\nper_1000_node_days = 9\n'
        'level = "gpu"\nkind = "hardware"\n',
        encoding="utf-8",
    )
    return mix


def test_no_text_of_a_figure_is_taken_for_mathematics() -> None:
    with figure_style():
        figure, axes = plt.subplots()
        axes.set_title("$\\frac{$ costs $5 and $6")
        figure.canvas.draw()
        texts = figure.findobj(matplotlib.text.Text)
        plt.close(figure)
    assert not any(text.get_parse_math() for text in texts)


def test_what_a_terminal_would_obey_is_escaped_everywhere(tmp_path: Path, cli: Cli) -> None:
    odd = "a\x1b[31mb\x07\x9b2J\u202e\udcff"
    for words in (
        ("run", odd),
        ("scenario", "check", odd),
        ("compare", odd),
        ("run", "spare-study", "--set", f"job.{odd}=1"),
        ("run", "spare-study", "--engine", odd),
        ("platform", "check", odd),
        (odd,),
    ):
        status, out, err = cli.all(*words)
        assert status == 2
        printed = out + err
        assert all(letter.isprintable() for letter in printed.replace("\n", ""))
        assert "\\x1b" in printed


def test_no_line_is_longer_than_a_thousand_letters(cli: Cli) -> None:
    long = "x" * 50_000
    for words in (
        ("run", long),
        ("run", "spare-study", "--set", f"job.{long}=1"),
        ("run", "spare-study", "--set", f'strategy.name="{long}"'),
        ("run", "spare-study", "--engine", long),
        ("plan", "spare-study", "--schemes", long),
    ):
        assert len(cli.refused(*words)) <= 1_001


def faultline(shell: str) -> subprocess.CompletedProcess[str]:
    """Run ``faultline`` with words and redirections of the shell."""
    code = "import sys; from faultline.experiments.cli import main; sys.exit(main(sys.argv[1:]))"
    return run_program("sh", "-c", f'"$0" -c "$1" {shell}', sys.executable, code, env=with_tests())


@pytest.mark.parametrize(
    "words", ["plan --help", pytest.param("list scenarios", marks=pytest.mark.slow)]
)
def test_a_full_or_closed_output_is_an_error(words: str) -> None:
    for where, printed in ((">/dev/full", "No space left on device"), (">&-", "closed; send it")):
        ended = faultline(f"{words} {where}")
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("faultline: standard output: ")
        assert printed in ended.stderr
        assert ended.stderr.count("\n") == 1


@pytest.mark.slow
def test_closed_errors_do_not_get_into_the_output() -> None:
    ended = faultline("list scenarios 2>&-")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "spare-study" in ended.stdout
    ended = faultline("run nonsense 2>&-")
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "")


def odd_paths(folder: Path) -> list[Path]:
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    huge = folder / "huge"
    with huge.open("wb") as file:
        file.truncate(10**12)
    nothing = folder / "nothing"
    nothing.symlink_to("nowhere")
    return [pipe, Path("/dev/zero"), Path("/dev/urandom"), huge, nothing, folder]


def test_every_reader_refuses_pipes_devices_and_what_has_no_end(tmp_path: Path, cli: Cli) -> None:
    """None of them may wait, or fill the memory."""
    for path in odd_paths(tmp_path):
        for words in (
            ("run", path),
            ("scenario", "show", path),
            ("sweep", path, "-o", tmp_path / "out"),
            ("platform", "check", path),
            ("platform", "generate", path, "-o", tmp_path / "p.xml"),
            ("run", "spare-sound", "--set", f"platform.file={path}"),
            ("run", "spare-study", "--set", "failures.model=mix", "--set", f"failures.mix={path}"),
            (
                *("run", "spare-study", "--set", "failures.model=trace"),
                *("--set", f"failures.trace={path}"),
            ),
            ("plot", path, "-o", tmp_path / "f.png"),
            ("compare", path),
        ):
            printed = cli.refused(*words)
            assert "Traceback" not in printed
    assert not (tmp_path / "out" / "runs").exists()


def test_a_traceback_is_escaped_and_cut(capsys: pytest.CaptureFixture[str]) -> None:
    error = ValueError("\x1b[31m" + "x" * 10**6 + "\ny" * 10**5)
    program._show(ValueError, error, None)
    printed = capsys.readouterr().err
    assert printed.startswith("ValueError: \\x1b[31mxxx")
    assert "99,801 lines ..." in printed
    assert len(printed) < 5_000
