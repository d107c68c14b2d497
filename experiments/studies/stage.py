"""Where a study runs: how much, how often, on how many cores, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from faultline.experiments.progress import WorkProgress
from faultline.experiments.runs.execution import simulate, workers_kept
from faultline.experiments.runs.point import Call, Point
from faultline.experiments.screen import message_console, text_column
from faultline.platforms.files import own_folder
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

Argument = TypeVar("Argument")
Result = TypeVar("Result")


@dataclass
class Stage:
    """What a study is given to run on."""

    # Where tables and figures go, and the runs: a study that was killed goes on where it was.
    directory: Path
    # Where people read what came of it; not the standard output if that carries JSON.
    console: Console
    seeds: int = 3  # Seeds a cell.
    full: bool = False  # Everything that was published, however long it takes.
    workers: int | None = None  # Worker processes; as many as there are cores if None.
    _progress: WorkProgress = field(init=False, repr=False)
    _open: ExitStack = field(init=False, repr=False, default_factory=ExitStack)

    def __post_init__(self) -> None:
        self._progress = WorkProgress(
            text_column("{task.description:22}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=message_console(),
        )

    def __enter__(self) -> Stage:
        self._open.enter_context(workers_kept(self.workers))
        self._open.enter_context(self._progress)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def pick(self, quick: Result, full: Result) -> Result:
        """Return how much is simulated: `full` if everything was asked for."""
        return full if self.full else quick

    def folder(self, name: str) -> Path:
        """Return a folder inside of the study's own, made unless it is there, and no link."""
        return own_folder(self.directory / name)

    def runs(self, title: str, points: Iterable[Point]) -> pd.DataFrame:
        """Run points; a row a run, in their order, with the labels before the record's columns."""
        asked, kept = list(points), self.folder("runs")
        with self.step(title, len(asked)) as advance:
            return pd.DataFrame(simulate(asked, kept, workers=self.workers, on_done=advance))

    def calls(
        self,
        title: str,
        function: Callable[[Argument], Result],
        arguments: Sequence[Argument],
        kept_in: str | None = None,
    ) -> list[Result]:
        """Return ``[function(argument) for argument in arguments]``, from all cores.

        `function` is one of a module, so that other processes find it; what takes longest is best
        put last, as that is begun first. Results that JSON knows may be kept in a folder, by its
        name: a study that was killed goes on where it was.
        """
        with self.step(title, len(arguments)) as advance:
            tasks: list[Any] = Call.each(function, arguments)
            kept = None if kept_in is None else self.folder(kept_in)
            return simulate(tasks, kept, workers=self.workers, on_done=advance)

    @contextmanager
    def step(self, title: str, total: int = 1) -> Iterator[Callable[[], None]]:
        """Show a part of the study; what is yielded tells of each piece that is done."""
        task = self._progress.add_task(title, total=total)
        yield lambda: self._progress.advance(task)
        self._progress.update(task, completed=total)
