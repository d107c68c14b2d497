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
from faultline.experiments.commands.declarations.shared import PLOT_FORMATS
from faultline.experiments.config.errors import UserError
from faultline.experiments.planner.resizing import Size
from faultline.experiments.progress import WorkProgress
from faultline.experiments.screen import Screen, message_console, text_column
from faultline.experiments.streams import print_text
from faultline.platforms.files import check_writable, write_file
from rich.progress import ProgressColumn, SpinnerColumn, TimeElapsedColumn
from rich.table import Table


def print_json(content: Any) -> None:
    """Print one line of JSON; NaN and infinity, which JSON lacks, become null."""
    print_text(json.dumps(_finite(content), allow_nan=False))


def print_files(arguments: argparse.Namespace, written: Mapping[Path, str]) -> None:
    """Print the written files: a line per file, or JSON."""
    if arguments.json:
        print_json({"files": list(map(str, written))})
        return
    console = Screen()
    for line in written.values():
        console.print(line, soft_wrap=True)


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
    columns = (SpinnerColumn(), text_column("{task.description}"), TimeElapsedColumn())
    with progress_of(*columns) as progress:
        progress.add_task(what, total=None)
        yield


def refuse_idle(arguments: argparse.Namespace, options: Iterable[str], where: str) -> None:
    """Refuse stated options, named as in the namespace, that have no effect `where`."""
    for option in options:
        if getattr(arguments, option) not in (None, False):
            name = option.replace("_", "-")
            raise UserError(f"--{name}: has no effect {where}; leave it out")


def size_of(arguments: argparse.Namespace) -> Size:
    """Return the options that `declarations.shared.add_size` adds."""
    return Size(arguments.gpus, arguments.mtbf, arguments.restart, arguments.steps)


@contextmanager
def explained(place: object, remedy: str = "", *others: type[Exception]) -> Iterator[None]:
    """Turn an OSError, or one of other kinds, into a UserError: place, reason, remedy."""
    kinds: tuple[type[Exception], ...] = (OSError, *others)
    try:
        yield
    except kinds as error:
        line = f"{place}: {getattr(error, 'strerror', None) or error}"
        raise UserError(f"{line}; {remedy}" if remedy else line) from error


_REMEDY = "name a file that can be written"


def check_output(option: str, path: Path) -> None:
    """Refuse before long work a file that cannot be written."""
    with explained(f"{option} {path}", _REMEDY):
        check_writable(path)


def write_output(option: str, path: Path, text: str) -> None:
    """Write the file that an option names."""
    with explained(f"{option} {path}", _REMEDY):
        write_file(path, text)


def is_figure(path: Path) -> bool:
    """Return whether the suffix of a file is that of a figure."""
    return path.suffix.lower().removeprefix(".") in PLOT_FORMATS


def make_folder(folder: Path, option: str) -> None:
    """Make a folder that an option names, unless it is there."""
    with explained(folder, f"choose another {option}"):
        folder.mkdir(parents=True, exist_ok=True)


def pairs_table(rows: Iterable[tuple[str, ...]], title: str | None = None) -> Table:
    """Return a table of pairs: names to the left, numbers to the right."""
    look = ({"style": "bold"}, {"justify": "right"})
    return text_table(rows, look, title=title, show_header=False)
