"""A sign of life for what takes seconds and has no steps to count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from faultline.experiments.commands.output import progress_of
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show on terminals what is under way and for how long; nothing is to be printed meanwhile."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with progress_of(*columns) as progress:
        progress.add_task(what, total=None)
        yield
