"""How commands tell what they found: JSON, tables, progress, and where they cannot write."""

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
from faultline.experiments.runs.player import message_console
from rich.progress import (
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table


def print_json(content: Any) -> None:
    """Print one line of JSON, which knows neither NaN nor infinity: both are null."""
    print(json.dumps(_finite(content), allow_nan=False))


def print_files(arguments: argparse.Namespace, written: Mapping[Path, str]) -> None:
    """Tell which files were written: a line each, or as JSON."""
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
    # A number out of a table may be numpy's, which JSON does not know.
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def progress_of(*columns: ProgressColumn) -> Iterator[WorkProgress]:
    """Show progress on the standard error; a terminal's bar is wiped out at the end."""
    with WorkProgress(*columns, console=message_console(), transient=True) as progress:
        yield progress


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show what is under way and for how long; nothing is to be printed meanwhile."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with progress_of(*columns) as progress:
        progress.add_task(what, total=None)
        yield


def refuse_idle(arguments: argparse.Namespace, options: Iterable[str], where: str) -> None:
    """Refuse options that were stated and have no effect there; by their names without dashes."""
    for option in options:
        if getattr(arguments, option) not in (None, False):
            raise UserError(f"--{option}: has no effect {where}; leave it out")


@contextmanager
def explained(place: object, remedy: str = "", *others: type[Exception]) -> Iterator[None]:
    """Tell an error of the system, or another, in one line: where, why, what would be right."""
    kinds: tuple[type[Exception], ...] = (OSError, *others)
    try:
        yield
    except kinds as error:
        told = f"{place}: {getattr(error, 'strerror', None) or error}"
        raise UserError(f"{told}; {remedy}" if remedy else told) from error


def make_folder(folder: Path, option: str) -> None:
    """Make a folder that an option names, unless it is there."""
    with explained(folder, f"choose another {option}"):
        folder.mkdir(parents=True, exist_ok=True)


def pairs_table(rows: Iterable[tuple[str, ...]], title: str | None = None) -> Table:
    """Return a table of what was found: names to the left, numbers to the right."""
    look = ({"style": "bold"}, {"justify": "right"})
    return text_table(rows, look, title=title, show_header=False)
