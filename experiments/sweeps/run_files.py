"""The files of ``runs/``: one a finished run, named after it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from experiments.single_run import Record
from experiments.sweeps.sealed_json import (
    DamagedError,
    is_temporary,
    seal,
    unseal,
    write_atomically,
)

FOLDER = "runs"
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A finished run as it is kept.

    Attributes
    ----------
    run_id : str
        Its name.
    record : dict or None
        The flat record; None if the run failed.
    error : str or None
        One line: why it failed; None if it did not.
    code : str
        Digest of the source that made it.
    wall_s : float
        Seconds of real time it took; differs from machine to machine, so no table has it.
    """

    run_id: str
    record: Record | None
    error: str | None
    code: str
    wall_s: float

    @property
    def failed(self) -> bool:
        """Whether there is an error in place of a record."""
        return self.record is None


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Something that does not belong where it was found.

    Attributes
    ----------
    path : Path
        Where it is.
    reason : str
        What is wrong with it, in a few words.
    """

    path: Path
    reason: str


def write_run(directory: Path, run: StoredRun) -> None:
    """Put a run in its place in a sweep directory, all at once."""
    write_atomically(directory / FOLDER / f"{run.run_id}{_SUFFIX}", seal(asdict(run)))


def read_runs(
    directory: Path, planned: frozenset[str]
) -> tuple[dict[str, StoredRun], list[Misplaced]]:
    """Read all runs of a sweep directory.

    Parameters
    ----------
    directory : Path
        The sweep directory.
    planned : frozenset of str
        Names of the runs that belong there.

    Returns
    -------
    runs : dict of str to StoredRun
        By name, in no particular order.
    misplaced : list of Misplaced
        Everything else that lies there, by path; files under way are not looked at.
    """
    runs: dict[str, StoredRun] = {}
    misplaced: list[Misplaced] = []
    try:
        entries = sorted(os.scandir(directory / FOLDER), key=lambda entry: entry.name)
    except FileNotFoundError:
        return runs, misplaced
    for entry in entries:
        if is_temporary(entry.name):
            continue
        path = Path(entry.path)
        try:
            run = _read(path)
            if run.run_id not in planned:
                raise DamagedError("a run that is not in the grid")
        except DamagedError as error:
            misplaced.append(Misplaced(path, str(error)))
        else:
            runs[run.run_id] = run
    return runs, misplaced


def _read(path: Path) -> StoredRun:
    if path.is_dir():
        raise DamagedError("a folder")
    if not path.is_file():
        # A pipe would keep its reader waiting for ever, and a link may lead nowhere.
        raise DamagedError("not a regular file")
    content = unseal(path.read_bytes())
    try:
        run = StoredRun(**_checked(content))
    except TypeError as error:
        raise DamagedError("not the file of a run") from error
    if path.name != run.run_id + _SUFFIX:
        raise DamagedError(f"is the run {run.run_id} under another name")
    return run


def _checked(content: dict[str, Any]) -> dict[str, Any]:
    record, error = content.get("record"), content.get("error")
    if not (isinstance(record, dict) and error is None) and not (
        record is None and isinstance(error, str)
    ):
        raise DamagedError("not the file of a run")
    return content
