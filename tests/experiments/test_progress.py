"""Progress of long work: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import time

import pyte
import pytest
from faultline.experiments.progress import WorkProgress
from faultline.experiments.screen import Screen
from faultline.experiments.streams import print_text
from rich.console import Console


def test_work_that_reports_nothing_still_prints_lines_to_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(WorkProgress, "line_every_s", 0.01)
    printed = io.StringIO()
    with WorkProgress(console=Console(file=printed)) as progress:
        progress.add_task("step times", total=40, note="of SimGrid")
        deadline_s = time.monotonic() + 10
        while not printed.getvalue() and time.monotonic() < deadline_s:
            time.sleep(0.01)
    first, *_ = printed.getvalue().splitlines()
    assert first == "step times: 0 of 40, 0:00, of SimGrid"


def test_a_message_is_printed_above_the_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr("sys.stderr", terminal)
    console = Screen(stderr=True, force_terminal=True)
    with WorkProgress("{task.description}", console=console) as progress:
        progress.add_task("runs")
        progress.refresh()
        print_text("out: waiting for another sweep to end", as_message=True)
    screen = pyte.Screen(console.width, 5)
    pyte.Stream(screen).feed(terminal.getvalue().replace("\n", "\r\n"))
    assert [row.rstrip() for row in screen.display if row.strip()] == [
        "out: waiting for another sweep to end",
        "runs",
    ]
