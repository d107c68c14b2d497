"""Progress of long work: a bar on a terminal, a line every half minute anywhere else."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Event, Thread
from typing import Any

from faultline.simulator.processes.interrupts import interrupts_blocked
from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.progress import Progress, ProgressColumn, Task

_ECHO = "^C"
"""A terminal's echo of an interrupt. A full line would move it, and the bar, to the next line."""


class WorkProgress(Progress):
    """Bars on a terminal; lines in a log file or a pipe, so that no long command is silent.

    Parameters
    ----------
    *columns : ProgressColumn or str
        What the bar shows. A line shows description, count, time, and the task's own texts.
    console : Console
        Where it goes. A quiet console gets neither bars nor lines.
    **options
        What rich's ``Progress`` takes.
    """

    line_every_s = 30.0
    """Seconds between two lines."""

    def __init__(
        self,
        *columns: ProgressColumn | str,
        console: Console,
        **options: Any,
    ) -> None:
        self._shown_on = console  # Rich draws once before it knows its console.
        disabled = console.quiet or not console.is_terminal
        super().__init__(*columns, console=console, disable=disabled, **options)
        self._stopped = Event()
        self._clock: Thread | None = None

    def start(self) -> None:
        """Begin to show progress."""
        try:
            with interrupts_blocked():  # Rich would write an interrupted drawing a second time.
                super().start()
        except BaseException:
            # An interrupt may come after the first bar, before the block that would erase it.
            self.stop()
            raise
        if not self.console.is_terminal and not self.console.quiet and self._clock is None:
            self._clock = Thread(target=self._print_lines, name="progress lines", daemon=True)
            self._clock.start()

    def stop(self) -> None:
        """End it; no line is printed after this."""
        with interrupts_blocked():
            super().stop()
        self._stopped.set()
        if self._clock is not None:
            self._clock.join()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return what is drawn, with room for the echo of an interrupt at the end of a line."""
        for drawn in super().get_renderables():
            yield Constrain(drawn, self._shown_on.width - len(_ECHO))

    def lines(self) -> list[str]:
        """Return how far each unfinished task has come, in a line each."""
        return [_line_of(task) for task in self.tasks if not task.finished]

    def _print_lines(self) -> None:
        # A clock of its own: work that reports nothing for minutes is the work to report on.
        while not self._stopped.wait(self.line_every_s):
            for line in self.lines():
                self.console.print(line, soft_wrap=True)


def _line_of(task: Task) -> str:
    minutes, seconds = divmod(round(task.elapsed or 0.0), 60)
    count = [] if task.total is None else [f"{task.completed:,.0f} of {task.total:,.0f}"]
    texts = [value for value in task.fields.values() if isinstance(value, str)]
    return f"{task.description}: {', '.join([*count, f'{minutes}:{seconds:02}', *texts])}"
