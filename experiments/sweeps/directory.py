"""Reading what a sweep left behind, finished or not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.errors import UserError
from experiments.sweeps.manifest import FILE, Manifest, read_manifest
from experiments.sweeps.run_files import FOLDER, read_runs
from experiments.sweeps.sealed_json import DamagedError
from experiments.sweeps.table import PARQUET, frame_of, make_table, read_table


@dataclass(frozen=True)
class Sweep:
    """The results of a sweep.

    Attributes
    ----------
    directory : Path
        Where they are.
    frame : pandas.DataFrame
        A row a finished run, in the order of the plan: ``run_id``, ``status`` ("ok" or "failed"),
        ``error`` (str or None), ``code`` (digest of the source that made it), a column for each
        varied dotted key, ``seed``, and the columns of the runs' records, which are NaN where a
        run failed.
    axes : dict of str to list
        Varied dotted keys with more than one value, and their values in order. Seeds are no axis.
    manifest : dict
        The content of ``sweep.json``.
    planned : int
        Number of runs that the grid asks for; more than the rows of the frame while the sweep is
        not finished.
    problems : tuple of str
        A line for each file that was left out because it is damaged or does not belong there.
    """

    directory: Path
    frame: pd.DataFrame
    axes: dict[str, list[Any]]
    manifest: dict[str, Any]
    planned: int
    problems: tuple[str, ...]


def read_sweep(directory: Path) -> Sweep:
    """Read a sweep directory; it may be unfinished, or still growing.

    The table is taken where it is whole and younger than any run; otherwise the runs are collected,
    which gives the very same frame. Nothing is changed.

    Raises
    ------
    UserError
        If there is no sweep.
    """
    manifest = _manifest(directory)
    problems: tuple[str, ...] = ()
    table = read_table(directory, manifest) if _table_is_youngest(directory) else None
    if table is None:
        runs, misplaced = read_runs(directory, frozenset(manifest.run_ids))
        problems = tuple(f"{found.path}: {found.reason}; left out" for found in misplaced)
        table = make_table(manifest, runs)
    return Sweep(
        directory,
        frame_of(table),
        manifest.axes,
        asdict(manifest),
        len(manifest.run_ids),
        problems,
    )


def _manifest(directory: Path) -> Manifest:
    try:
        return read_manifest(directory)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(
            f"{directory}: there is no sweep (no {FILE}); make one with faultline sweep GRID.toml "
            f"-o {directory}"
        ) from error
    except DamagedError as error:
        raise UserError(
            f"{directory / FILE}: {error}; the same faultline sweep command again mends it"
        ) from error
    except OSError as error:
        raise UserError(f"{directory / FILE}: {error.strerror}") from error


def _table_is_youngest(directory: Path) -> bool:
    """Whoever adds or takes a run away by hand touches the folder, and so outdates the table."""
    try:
        table_ns = (directory / PARQUET).stat().st_mtime_ns
    except OSError:
        return False
    try:
        return (directory / FOLDER).stat().st_mtime_ns <= table_ns
    except FileNotFoundError:
        return True
