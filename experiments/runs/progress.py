"""How far many runs have come: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

_LINE_EVERY_S = 30.0


class Display:
    """Shows how far runs have come, as a context.

    Parameters
    ----------
    console : Console
        Where to show it.
    name : str
        Of what is played.
    total, done, failed : int
        Runs asked for, there from before, and failed among those.
    """

    def __init__(self, console: Console, name: str, total: int, done: int, failed: int) -> None:
        self._console, self._name, self._total, self._before = console, name, total, done
        self._began_s = self._told_s = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[pace]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        pace = self._pace(done, failed)
        self._task = self._bar.add_task(name, total=total, completed=done, pace=pace)

    def __enter__(self) -> Display:
        self._bar.start()
        if not self._console.is_terminal:
            self._say(f"{self._name}: {self._before} of {self._total} runs are there")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def update(self, done: int, failed: int) -> None:
        """Show the number of runs that are there by now, and how many of them failed."""
        pace = self._pace(done, failed)
        self._bar.update(self._task, completed=done, pace=pace)
        now_s = time.monotonic()
        if not self._console.is_terminal and now_s - self._told_s >= _LINE_EVERY_S:
            self._told_s = now_s
            self._say(f"{self._name}: {done} of {self._total} runs, {pace}")

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)

    def _pace(self, done: int, failed: int) -> str:
        """Return rate, time left and number of failed runs in a few words."""
        elapsed_s = time.monotonic() - self._began_s
        per_s = (done - self._before) / elapsed_s if elapsed_s > 0 else 0.0
        left = _clock((self._total - done) / per_s) if per_s > 0 else "-:--"
        slow = 0 < per_s < 1
        rate = f"{per_s * 60:.1f} runs/min" if slow else f"{per_s:.1f} runs/s"
        return f"{rate}, {left} left, {failed} failed"


def _clock(seconds: float) -> str:
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"
