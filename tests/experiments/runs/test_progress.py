"""What is shown while a sweep runs."""

from __future__ import annotations

import io
import re
import time

import pytest
from faultline.experiments.runs.player import Display
from rich.console import Console


class Clock:
    """A clock that is set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_where_nobody_watches_there_is_a_line_every_half_a_minute(clock: Clock) -> None:
    """One hundred runs were there, then two a second: 30 s bring 60, and 840 are left."""
    said = io.StringIO()
    with Display(Console(file=said), "mine", 1000, 100, 1) as display:
        for done in range(101, 161):
            clock.now_s += 0.5
            display.update(done, 2)
    assert said.getvalue().splitlines() == [
        "mine: 100 of 1000 runs are there",
        "mine: 160 of 1000 runs, 2.0 runs/s, 7:00 left, 2 failed",
    ]


def test_slow_runs_are_counted_by_the_minute(clock: Clock) -> None:
    said = io.StringIO()
    with Display(Console(file=said), "mine", 100, 0, 0) as display:
        clock.now_s += 60
        display.update(1, 0)
    assert "1.0 runs/min, 1:39:00 left, 0 failed" in said.getvalue()


def test_a_terminal_has_a_bar_with_done_total_rate_time_left_and_failures() -> None:
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=120)
    with Display(console, "mine", 60, 20, 0) as display:
        display.update(21, 3)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert "mine" in shown
    assert "21/60" in shown
    assert "runs/s" in shown
    assert re.search(r"\d+:\d\d left, 3 failed", shown)
