"""How far a sweep has come: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

_LINE_EVERY_S = 30.0


class Display(Protocol):
    """Shows how far a sweep has come."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def update(self, done: int, failed: int) -> None:
        """Show the number of runs that are there by now, and how many of them failed."""
        ...


class Pace:
    """How fast runs come in.

    Parameters
    ----------
    total : int
        Runs of the whole sweep.
    done : int
        Runs that are there from before; they took no time.
    """

    def __init__(self, total: int, done: int) -> None:
        self.total = total
        self._before = done
        self._began_s = time.monotonic()

    def describe(self, done: int, failed: int) -> str:
        """Return rate, time left and number of failed runs in a few words."""
        elapsed_s = time.monotonic() - self._began_s
        rate_per_s = (done - self._before) / elapsed_s if elapsed_s > 0 else 0.0
        left = _clock((self.total - done) / rate_per_s) if rate_per_s > 0 else "-:--"
        return f"{_rate(rate_per_s)}, {left} left, {failed} failed"


class Bar:
    """A progress bar on a terminal."""

    def __init__(self, console: Console, name: str, total: int, done: int, failed: int) -> None:
        self._pace = Pace(total, done)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pace]}"),
            console=console,
            transient=True,
        )
        pace = self._pace.describe(done, failed)
        self._task: TaskID = self._progress.add_task(name, total=total, completed=done, pace=pace)

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def update(self, done: int, failed: int) -> None:
        pace = self._pace.describe(done, failed)
        self._progress.update(self._task, completed=done, pace=pace)


class Lines:
    """Plain lines, where nobody watches: the first at once, then one every half a minute."""

    def __init__(self, console: Console, name: str, total: int, done: int, failed: int) -> None:
        self._console, self._name = console, name
        self._pace = Pace(total, done)
        self._told_s = time.monotonic()
        console.print(f"{name}: {done} of {total} runs are there", highlight=False, soft_wrap=True)

    def __enter__(self) -> Lines:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    def update(self, done: int, failed: int) -> None:
        now_s = time.monotonic()
        if now_s - self._told_s < _LINE_EVERY_S:
            return
        self._told_s = now_s
        pace = self._pace.describe(done, failed)
        self._console.print(
            f"{self._name}: {done} of {self._pace.total} runs, {pace}",
            highlight=False,
            soft_wrap=True,
        )


def make_display(console: Console, name: str, total: int, done: int, failed: int) -> Display:
    """Return what fits the console.

    Parameters
    ----------
    console : Console
        Where to show it.
    name : str
        Of the sweep.
    total, done, failed : int
        Runs asked for, already there, and failed among those.
    """
    kind = Bar if console.is_terminal else Lines
    return kind(console, name, total, done, failed)


def _rate(per_s: float) -> str:
    return f"{per_s:.1f} runs/s" if per_s >= 1 or per_s == 0 else f"{per_s * 60:.1f} runs/min"


def _clock(seconds: float) -> str:
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
