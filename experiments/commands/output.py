"""What commands tell in the same words: where they cannot write, and tables of two columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from faultline.experiments.config.errors import UserError
from rich.table import Table


@contextmanager
def explained(place: object, remedy: str = "") -> Iterator[None]:
    """Tell an error of the system in one line: the place, why, and what would be right."""
    try:
        yield
    except OSError as error:
        told = f"{place}: {error.strerror or error}"
        raise UserError(f"{told}; {remedy}" if remedy else told) from error


def make_folder(folder: Path, option: str) -> None:
    """Make a folder that an option names, unless it is there."""
    with explained(folder, f"choose another {option}"):
        folder.mkdir(parents=True, exist_ok=True)


def check_writable(path: Path, option: str) -> None:
    """Find out before a long run, and not after it, that its file has no place to go."""
    existed = path.exists()
    with explained(f"{option} {path}", "name a file that can be written"), path.open("a"):
        pass
    if not existed:
        path.unlink()


def pairs_table(rows: Iterable[tuple[str, ...]], title: str | None = None) -> Table:
    """Return a table of what was found: names to the left, numbers to the right."""
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for row in rows:
        table.add_row(*row)
    return table
