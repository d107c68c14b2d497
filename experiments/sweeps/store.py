"""A sweep directory that is written to: made ready, filled run by run, closed with its tables."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from experiments.errors import UserError
from experiments.sweeps import lock
from experiments.sweeps import manifest as manifests
from experiments.sweeps.lock import locked
from experiments.sweeps.manifest import (
    Manifest,
    first_difference,
    read_manifest,
    write_manifest,
)
from experiments.sweeps.run_files import FOLDER, Misplaced, StoredRun, read_runs, write_run
from experiments.sweeps.sealed_json import DamagedError, is_temporary
from experiments.sweeps.table import damaged_tables, remove_tables, write_tables

SET_ASIDE = "set-aside"
_DISK_IS_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass
class Store:
    """A sweep directory in the hands of one sweep.

    Attributes
    ----------
    directory : Path
        Where it is.
    manifest : Manifest
        What it is the answer to.
    code : str
        Digest of the source that makes the runs from now on.
    runs : dict of str to StoredRun
        The runs that are there, by name.
    """

    directory: Path
    manifest: Manifest
    code: str
    runs: dict[str, StoredRun] = field(default_factory=dict)

    def missing(self, *, retry_failed: bool = False) -> set[str]:
        """Return the names of the runs that are still to be played."""
        runs = self.runs.values()
        done = {run.run_id for run in runs if not (retry_failed and run.failed)}
        return set(self.manifest.run_ids) - done

    def staying(self, to_play: set[str]) -> list[StoredRun]:
        """Return the runs that are there and are not going to be played again."""
        return [run for run_id, run in self.runs.items() if run_id not in to_play]

    def begin(self, to_play: set[str]) -> None:
        """Write down what is asked; if there is anything to play, no tables remain meanwhile."""
        with self._writing():
            (self.directory / FOLDER).mkdir(exist_ok=True)
            if to_play:
                remove_tables(self.directory)
            write_manifest(self.directory, self.manifest)

    def save(self, run: StoredRun) -> None:
        """Keep a run.

        Raises
        ------
        UserError
            If the disk is full, or cannot be written to.
        """
        with self._writing():
            write_run(self.directory, run)
        self.runs[run.run_id] = run

    def finish(self) -> None:
        """Write the tables; all runs must be there.

        Raises
        ------
        UserError
            If some are missing, or the tables cannot be written.
        """
        missing = self.missing()
        if missing:
            raise UserError(
                f"{self.directory}: {len(missing)} runs came to no result; the same command again "
                "plays them"
            )
        with self._writing():
            write_tables(self.directory, self.manifest, self.runs)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in _DISK_IS_FULL:
                raise UserError(
                    f"{self.directory}: {error.strerror}: {len(self.runs)} of "
                    f"{len(self.manifest.run_ids)} runs are kept; make room, and the same command "
                    "goes on"
                ) from error
            raise UserError(f"{self.directory}: cannot be written: {error.strerror}") from error


@contextmanager
def open_store(
    directory: Path, manifest: Manifest, code: str, tell: Callable[[str], None]
) -> Iterator[Store]:
    """Take a sweep directory into one's hands; it is made if there is none.

    Temporary files of a sweep that was killed are removed. Whatever is damaged or does not belong
    there is moved to ``set-aside/`` and told of. Nothing else changes before `Store.begin`.

    Parameters
    ----------
    directory : Path
        Where the results are, or will be.
    manifest : Manifest
        What is asked.
    code : str
        Digest of the source that is going to make runs; see `code_digest`.
    tell : callable
        Called with one line for everything that a user should know.

    Raises
    ------
    UserError
        If there is something else in the directory, or results of another grid.
    """
    _make(directory)
    with locked(directory, tell) as alone:
        if alone:
            _remove_temporary_files(directory)
        _check_asked(directory, manifest, tell)
        runs, misplaced = read_runs(directory, frozenset(manifest.run_ids))
        for found in (*misplaced, *damaged_tables(directory)):
            _set_aside(directory, found, tell)
        yield Store(directory, manifest, code, runs)


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in directory.iterdir()}
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror}; choose another -o DIR") from error
    if not names & {manifests.FILE, FOLDER} and names - {lock.FILE}:
        raise UserError(
            f"{directory}: holds files and no sweep; choose a new or an empty folder for -o DIR"
        )


def _check_asked(directory: Path, manifest: Manifest, tell: Callable[[str], None]) -> None:
    try:
        before = read_manifest(directory)
    except FileNotFoundError:
        return
    except DamagedError as error:
        _set_aside(directory, Misplaced(directory / manifests.FILE, str(error)), tell)
        return
    difference = first_difference(before, manifest)
    if difference is not None:
        raise UserError(
            f"{directory}: holds a sweep of another grid: {difference}; choose another -o DIR, or "
            "a grid that has all of the old one's runs"
        )
    more = len(manifest.run_ids) - len(before.run_ids)
    if more:
        tell(f"{directory}: the grid has grown by {more} runs, from {len(before.run_ids)}")


def _remove_temporary_files(directory: Path) -> None:
    for folder in (directory, directory / FOLDER):
        if folder.is_dir():
            for path in folder.iterdir():
                if is_temporary(path.name):
                    path.unlink(missing_ok=True)


def _set_aside(directory: Path, found: Misplaced, tell: Callable[[str], None]) -> None:
    folder = directory / SET_ASIDE
    folder.mkdir(exist_ok=True)
    number, target = 1, folder / found.path.name
    while os.path.lexists(target):
        number += 1
        target = folder / f"{found.path.name}.{number}"
    # Where there are no locks, another sweep may have been quicker.
    with suppress(FileNotFoundError):
        found.path.rename(target)
    tell(f"{found.path}: {found.reason}; moved to {target}")
