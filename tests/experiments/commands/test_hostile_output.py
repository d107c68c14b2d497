"""What is written and shown: whole files, whatever the disk does, and texts as they are."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib.text
import pytest
from faultline.experiments import cli as program
from faultline.experiments.figures.style import figure_style
from faultline.experiments.runs.executor import InThisProcess
from faultline.experiments.runs.sweep_plan import SweepPlan
from matplotlib import pyplot as plt

from tests.child_processes import run_program
from tests.experiments.command_line import Cli
from tests.experiments.runs.in_process import plan_of, sweep

pytestmark = pytest.mark.system

GRID = (
    'scenario = "spare-study"\nseeds = 2\n[set]\njob.steps = 20\njob.groups = 12\n[grid]\n'
    "strategy.redundancy = [2, 3]"
)
HOSTILE = "$\\frac{$ [red]x[/] [/] \\u001b[31m :bomb: <b>"
"""A name in TOML that matplotlib, rich and a terminal would each do something with."""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A finished sweep of a hostile name."""
    plan: SweepPlan = plan_of(tmp_path, f'name = "{HOSTILE}"\n{GRID}')
    file = tmp_path / "results.sqlite"
    sweep(plan, file, InThisProcess())
    return file


def fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)


_ENDINGS = {
    "figure": ".png", "platform": ".xml", "report": ".html"
}  # fmt: skip
WRITERS: dict[str, Callable[[Path, Path], tuple[object, ...]]] = {
    "report": lambda results, old: ("report", results, "-o", old),
    "compare": lambda results, old: ("compare", results, "-o", old),
    "timeline": lambda _, old: ("run", "spare-study", "--set", "job.steps=5", "-o", old),
    "trace": lambda _, old: ("failures", "draw", "llama3", "--gpus", "1024", "-o", old),
    "figure": lambda _, old: ("failures", "draw", "llama3", "--gpus", "1024", "-o", old),
    "platform": lambda _, old: ("platform", "generate", "hgx-h100", "-o", old),
}


@pytest.mark.parametrize("command", WRITERS)
def test_a_full_disk_leaves_the_old_file_and_is_reported_with_its_name(
    command: str, results: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / f"old{_ENDINGS.get(command, '.csv')}"
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
    link = tmp_path / f"link{_ENDINGS.get(command, '.csv')}"
    link.symlink_to(victim)
    status, _, err = cli.all(*WRITERS[command](results, link))
    assert (status, err.count("\n")) == (2, 1)
    assert f"{link}: " in err
    assert "a symbolic link" in err
    assert victim.read_text(encoding="utf-8") == "precious"


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
        (odd,),
    ):
        status, out, err = cli.all(*words)
        assert status == 2
        printed = out + err
        assert all(letter.isprintable() for letter in printed.replace("\n", ""))
        assert "\\x1b" in printed


def test_a_full_output_is_an_error() -> None:
    code = "import sys; from faultline.experiments.cli import main; sys.exit(main(sys.argv[1:]))"
    ended = run_program("sh", "-c", f'"$0" -c "{code}" plan --help >/dev/full', sys.executable)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "faultline: standard output: No space left on device\n"


def odd_paths(folder: Path) -> list[Path]:
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    huge = folder / "huge"
    with huge.open("wb") as file:
        file.truncate(10**12)
    nothing = folder / "nothing"
    nothing.symlink_to("nowhere")
    return [pipe, Path("/dev/zero"), huge, nothing, folder]


def test_every_reader_refuses_pipes_devices_and_what_has_no_end(tmp_path: Path, cli: Cli) -> None:
    """None of them may wait, or fill the memory."""
    for path in odd_paths(tmp_path):
        for words in (
            ("run", path),
            ("scenario", "show", path),
            ("sweep", path, "-o", tmp_path / "out.sqlite"),
            ("platform", "check", path),
            ("platform", "generate", path, "-o", tmp_path / "p.xml"),
            ("platform", "import", path, "-o", tmp_path / "p.toml"),
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
    assert not (tmp_path / "out.sqlite").exists()


def test_a_traceback_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    program._show(ValueError, ValueError("\x1b[31mred"), None)
    assert capsys.readouterr().err == "ValueError: \\x1b[31mred\n"
