"""Output of commands: JSON, tables, progress, and errors of writing."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faultline.experiments.analysis.printing import text_table
from faultline.experiments.config.errors import UserError
from faultline.experiments.progress import WorkProgress
from faultline.experiments.screen import message_console
from rich.progress import (
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table


def print_json(content: Any) -> None:
    """Print one line of JSON; NaN and infinity, which JSON lacks, become null."""
    print(json.dumps(_finite(content), allow_nan=False))


def print_files(arguments: argparse.Namespace, written: Mapping[Path, str]) -> None:
    """Print which files were written: a line each, or as JSON."""
    if arguments.json:
        print_json({"files": list(map(str, written))})
        return
    for line in written.values():
        print(line)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    # A number from a table may be numpy's, which JSON cannot encode.
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def progress_of(*columns: ProgressColumn) -> Iterator[WorkProgress]:
    """Show progress on the standard error; a terminal's bar is erased at the end."""
    with WorkProgress(*columns, console=message_console(), transient=True) as progress:
        yield progress


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a task and its elapsed time; nothing may be printed meanwhile."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with progress_of(*columns) as progress:
        progress.add_task(what, total=None)
        yield


def refuse_idle(arguments: argparse.Namespace, options: Iterable[str], where: str) -> None:
    """Refuse stated options that have no effect there; named without dashes."""
    for option in options:
        if getattr(arguments, option) not in (None, False):
            raise UserError(f"--{option}: has no effect {where}; leave it out")


@contextmanager
def explained(place: object, remedy: str = "", *others: type[Exception]) -> Iterator[None]:
    """Turn an OSError, or another kind, into a UserError: place, reason, remedy."""
    kinds: tuple[type[Exception], ...] = (OSError, *others)
    try:
        yield
    except kinds as error:
        line = f"{place}: {getattr(error, 'strerror', None) or error}"
        raise UserError(f"{line}; {remedy}" if remedy else line) from error


def make_folder(folder: Path, option: str) -> None:
    """Make a folder that an option names, unless it is there."""
    with explained(folder, f"choose another {option}"):
        folder.mkdir(parents=True, exist_ok=True)


def pairs_table(rows: Iterable[tuple[str, ...]], title: str | None = None) -> Table:
    """Return a table of pairs: names to the left, numbers to the right."""
    look = ({"style": "bold"}, {"justify": "right"})
    return text_table(rows, look, title=title, show_header=False)
