"""The resources of a study: its size, seeds, workers, folder and console."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from faultline.experiments.progress import WorkProgress
from faultline.experiments.runs.execution import simulate, workers_kept
from faultline.experiments.runs.point import Point, RunCall
from faultline.experiments.screen import message_console, text_column
from faultline.platforms.files import own_folder
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

Argument = TypeVar("Argument")
Result = TypeVar("Result")


@dataclass
class Stage:
    """The resources that a study runs with."""

    # Folder of tables, figures and runs; a killed study resumes from it.
    directory: Path
    # Console for results; not the standard output if that carries JSON.
    console: Console
    seeds: int = 3  # Seeds per cell.
    full: bool = False  # Whether to simulate everything that was published, however long it takes.
    workers: int | None = None  # Worker processes; one per core if None.
    scheduler: str | None = None  # Address of a Dask scheduler whose workers are used instead.
    _progress: WorkProgress = field(init=False, repr=False)
    _open: ExitStack = field(init=False, repr=False, default_factory=ExitStack)

    def __post_init__(self) -> None:
        self._progress = WorkProgress(
            text_column("{task.description:22}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=message_console(),
            transient=True,
        )

    def __enter__(self) -> Stage:
        self._open.enter_context(workers_kept(self.workers, self.scheduler))
        self._open.enter_context(self._progress)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def pick(self, quick: Result, full: Result) -> Result:
        """Return the size of a simulation: `full` if the user requested everything."""
        return full if self.full else quick

    def folder(self, name: str) -> Path:
        """Return a folder inside the study's own, created if missing; a link is refused."""
        return own_folder(self.directory / name)

    def runs(self, title: str, points: Iterable[Point]) -> pd.DataFrame:
        """Run points; return a row per run, in order, with labels before the record's columns."""
        requested, kept = list(points), self.directory / "runs.sqlite"
        with self.step(title, len(requested)) as advance:
            return pd.DataFrame(simulate(requested, kept, workers=self.workers, on_done=advance))

    def calls(
        self,
        title: str,
        function: Callable[[Argument], Result],
        arguments: Sequence[Argument],
        kept_in: str | None = None,
    ) -> list[Result]:
        """Return ``[function(argument) for argument in arguments]``, from all cores.

        `function` belongs to a module, so that other processes find it. Put the longest call last,
        since the last starts first. A file, by name, may keep results that JSON can represent; a
        killed study then resumes.
        """
        with self.step(title, len(arguments)) as advance:
            tasks: list[Any] = RunCall.each(function, arguments)
            kept = None if kept_in is None else self.directory / f"{kept_in}.sqlite"
            return simulate(tasks, kept, workers=self.workers, on_done=advance)

    @contextmanager
    def step(self, title: str, total: int = 1) -> Iterator[Callable[[], None]]:
        """Show a part of the study; yields a function to call after each finished piece."""
        task = self._progress.add_task(title, total=total)
        yield lambda: self._progress.advance(task)
        self._progress.update(task, completed=total)
