"""Commands on a terminal: tests read from an emulated one what a user would see."""

from __future__ import annotations

import codecs
import fcntl
import multiprocessing
import os
import pty
import re
import select
import shlex
import shutil
import struct
import sys
import termios
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import NoReturn

import pyte
import pytest
from faultline.experiments.cli import main
from faultline.experiments.commands import run
from faultline.experiments.config.scenario_file import shipped_scenarios
from faultline.experiments.runs.executor import InThisProcess
from rich.cells import cell_len

from tests.experiments.commands.test_learn_command import JOB
from tests.experiments.runs.in_process import plan_of, sweep

pytestmark = pytest.mark.system

PATIENCE_S = 180.0
ROWS = 50
BAR = re.compile("[━╸╺]|[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]")
"""Characters of bars and of spinners; both are drawn again and again."""
LETTERS = re.compile(r"\\x1b|\\r|\[\d*[A-HJKm]|\[\?25")
"""A control sequence that was printed as letters."""
_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


_PROCESSES = multiprocessing.get_context("forkserver")
"""Commands in processes that have imported everything: that takes most of the time of a command."""
_PROCESSES.set_forkserver_preload(
    [
        f"faultline.experiments.commands.{path.stem}"
        for path in Path(run.__file__).parent.glob("*.py")
    ]
)


def run_here(terminal: str, words: tuple[str, ...], folder: Path, env: dict[str, str]) -> NoReturn:
    """Run ``faultline`` in this process on a terminal, which controls the process."""
    os.setsid()
    descriptor = os.open(terminal, os.O_RDWR)
    for stream in range(3):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    sys.stdout, sys.stderr = (
        open(stream, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        for stream in (1, 2)
    )
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.exit(main(words))


@dataclass
class Terminal:
    """A command on a terminal of its own, and what is on the screen."""

    words: tuple[str, ...]
    columns: int
    folder: Path
    written: str = ""
    bars: int = 0  # The most rows with a bar at any time.
    drawn_twice: list[str] = field(default_factory=list)  # Bars that were in two rows at once.
    status: int | None = None
    screen: pyte.Screen = field(init=False)

    def __post_init__(self) -> None:
        self.screen = pyte.Screen(self.columns, ROWS)
        self._stream = pyte.Stream(self.screen)
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._mine, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, self.columns, 0, 0))
        left_out = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "FAULTLINE_QUIET"}
        env = {name: value for name, value in os.environ.items() if name not in left_out}
        env["TERM"] = "xterm-256color"
        self._process = _PROCESSES.Process(
            target=run_here, args=(os.ttyname(self._theirs), self.words, self.folder, env)
        )
        self._process.start()

    def read_until(self, is_enough: Callable[[], bool]) -> None:
        """Read what the command writes until it is enough, or the command has ended."""
        deadline_s = monotonic() + PATIENCE_S
        while not is_enough():
            assert monotonic() < deadline_s, self.rows()
            ready = select.select([self._mine, self._process.sentinel], [], [], 0.5)[0]
            if self._mine not in ready:
                if ready:
                    break
                continue
            # A bar may be drawn and erased between two calls.
            for text in re.split(r"(?<=\n)|(?=\r(?!\n))", self._decode(os.read(self._mine, 4096))):
                self.written += text
                self._stream.feed(text)
                words = [" ".join(re.findall("[a-z]+", row)) for row in self.bar_rows()]
                self.bars = max(self.bars, len(words))
                self.drawn_twice += {each for each in words if words.count(each) > 1}

    def press_ctrl_c(self) -> None:
        os.write(self._mine, b"\x03")

    def end(self) -> Terminal:
        """Read to the end of the command; its status is known then."""
        self.read_until(lambda: False)
        self._process.join(PATIENCE_S)
        self.status = self._process.exitcode
        return self

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        os.close(self._mine)
        os.close(self._theirs)

    def bar_rows(self) -> list[str]:
        return [row for row in self.screen.display if BAR.search(row)]

    def rows(self) -> list[str]:
        """Rows of the screen down to the last one with text."""
        return "\n".join(row.rstrip() for row in self.screen.display).rstrip().split("\n")

    def lines(self) -> list[str]:
        """Every line that was written, also those that were overwritten or left the screen."""
        return re.split(r"[\r\n]+", _CONTROLS.sub("", self.written))


WIDTHS = 80, 120
GRID = """
scenario = "spare-study"
seeds = 3
[set]
job.steps = 20
job.groups = 12
[grid]
strategy.name = ["replication", "spare"]
strategy.redundancy = [2, 3]
failures.mtbf_s = [1200.0, 7200.0]
"""
PLATFORM = "platform", "generate", "hgx-h100", "--set", "domains=2"
FAILURES = "time,node,cause\n" + "".join(
    f"{5 * hour}h,node-{hour % 7},{('gpu', 'switch-or-cable')[hour % 2]}\n" for hour in range(40)
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files for commands: a grid, a sweep, platforms, a job, and logs."""
    folder = tmp_path_factory.mktemp("inputs")
    sweep(plan_of(folder, GRID), folder / "swept.sqlite", InThisProcess())
    # A terminal would turn magenta.
    (folder / "odd.toml").write_text(f'name = "a\\u001b[35mb"\n{GRID}')
    (folder / "endless.toml").write_text(GRID.replace("steps = 20", "steps = 1_000_000_000"))
    (folder / "job.toml").write_text(JOB)
    (folder / "failures.csv").write_text(FAILURES)
    for words in (
        (*PLATFORM, "-o", folder / "a.xml"),
        (*PLATFORM, "--set", "nic.bandwidth=20GBps", "-o", folder / "b.xml"),
        ("run", folder / "job.toml", "-o", folder / "events.jsonl"),
    ):
        assert main([*map(str, words)]) == 0
    return folder


Start = Callable[..., list[Terminal]]


@pytest.fixture
def start(inputs: Path, tmp_path: Path) -> Iterator[Start]:
    """Start a command on a terminal of each width at once, in folders of their own."""
    started: list[Terminal] = []

    def start_command(command: str) -> list[Terminal]:
        for columns in WIDTHS:
            folder = tmp_path / str(columns)
            shutil.copytree(inputs, folder)
            started.append(Terminal(tuple(shlex.split(command)), columns, folder))
        return started

    yield start_command
    for terminal in started:
        terminal.close()


def check(terminal: Terminal) -> None:
    """Check what holds for every command: readable text, narrow lines, and a usable terminal."""
    text = "\n".join(terminal.lines())
    assert LETTERS.findall(text) == []
    assert [line for line in terminal.lines() if cell_len(line) > terminal.columns] == []
    assert not any("no room for" in line for line in terminal.lines())
    assert terminal.drawn_twice == []
    assert (terminal.screen.cursor.hidden, terminal.screen.cursor.x) == (False, 0)


WITH_BARS = {
    "run": "run spare-study --set job.steps=300",
    "plan": "plan job.toml --worlds 4 --steps 20 --at-values",
    "sweep": "sweep grid.toml -o out.sqlite",
    "reproduce": "reproduce gemini -o out",
    "report": "report swept.sqlite -o report.html",
    "plot": "plot swept.sqlite -o plots",
    "failures draw": "failures draw llama3 --gpus 1024",
    "platform check": "platform check a.xml",
    "platform diff": "platform diff a.xml b.xml",
    "platform probe": "platform probe a.xml all-reduce --bytes 64MB",
    "backtest": "backtest events.jsonl --seeds 20",
    "explain-recovery": "explain-recovery job.toml --schemes spare,checkpoint",
}
WITHOUT_BARS = {
    "compare": "compare swept.sqlite --baseline spare --price 2.5",
    "failures fit": "failures fit failures.csv",
    "learn": "learn events.jsonl failures.csv -o learned.toml",
    "list": "list",
    "doctor": "doctor",
    "scenario explain": "scenario explain failures",
}


@pytest.mark.parametrize("name", [*WITH_BARS, *WITHOUT_BARS])
def test_a_display_is_readable_and_fits(name: str, start: Start) -> None:
    for terminal in start((WITH_BARS | WITHOUT_BARS)[name]):
        terminal.end()
        assert terminal.status == 0, terminal.rows()
        assert (terminal.bars > 0) == (name in WITH_BARS)
        check(terminal)


@pytest.mark.parametrize(
    "command",
    [
        "run spare-study --set job.steps=1000000000",
        "plan spare-study --worlds 512",
        "sweep endless.toml -o out.sqlite",
        "head-to-head --quick --only settings --schemes checkpoint -o out",
        "backtest events.jsonl --seeds 100000",
        "reproduce step-time -o out",
        "run spare-study --engine simgrid --set job.groups=60 --steps 5k",
        "explain-recovery head-to-head",
    ],
)
def test_ctrl_c_leaves_a_clean_line_and_a_cursor(command: str, start: Start) -> None:
    for terminal in start(command):
        terminal.read_until(lambda terminal=terminal: terminal.bars > 0)
        terminal.press_ctrl_c()
        terminal.end()
        assert terminal.status == 130, terminal.rows()
        assert terminal.rows()[-1] == "faultline: interrupted"
        assert terminal.bar_rows() == []
        check(terminal)


def test_a_message_breaks_between_words(start: Start) -> None:
    known = ", ".join(shipped_scenarios())
    message = f"faultline: first-look: that is a grid; name a scenario ({known}) or a TOML file"
    for terminal in start("run first-look"):
        terminal.end()
        rows = terminal.rows()
        assert len(rows) > 1
        assert [word for row in rows for word in row.split()] == message.split()


def test_a_name_is_escaped_in_a_bar_and_in_what_follows(start: Start) -> None:
    for terminal in start("sweep odd.toml -o out.sqlite"):
        terminal.end()
        named = [line for line in terminal.lines() if r"a\x1b[35mb" in line]
        assert any(BAR.search(line) for line in named)
        assert not BAR.search(named[-1])
        assert "\x1b[35m" not in terminal.written
