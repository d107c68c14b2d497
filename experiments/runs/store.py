"""A folder with one file per run, from which a killed sweep or study resumes.

The store of a sweep has a plan (`Manifest`), and gets tables at its end. The store of a study has
no plan.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from faultline.experiments.config.errors import UserError
from faultline.experiments.runs import manifest as manifests
from faultline.experiments.runs.manifest import (
    DamagedError,
    Manifest,
    differences,
    read_manifest,
    read_own,
    seal,
    unseal,
)
from faultline.experiments.runs.record import REQUIRED
from faultline.platforms.files import check_replaceable, is_draft, write_file

FOLDER = "runs"
LOCK = ".lock"
NAMED_AT_MOST = 20
"""Number of damaged files listed by name; further ones are only counted."""
_SUFFIX = ".json"
_NO_FOLDER = "not a folder"
_DISK_IS_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_LOCKS_HERE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}

PrintLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A finished run as it is stored."""

    run_id: str  # Its name.
    record: Any  # The flat record, or the value of a function; None if the run failed.
    error: str | None  # One line if the run failed.
    code: str  # Digest of the source that made it.
    wall_s: float  # Real time of the run, in seconds. It differs between machines: in no table.

    @property
    def failed(self) -> bool:
        """Whether the run has an error instead of a record."""
        return self.error is not None


def write_run(directory: Path, run: StoredRun) -> None:
    """Write a run into a store, in one atomic step."""
    write_file(directory / FOLDER / f"{run.run_id}{_SUFFIX}", seal(asdict(run)))


def read_runs(
    directory: Path, requested: Manifest | frozenset[str]
) -> tuple[dict[str, StoredRun], dict[Path, str]]:
    """Read the requested runs of a store by name, and return why damaged files are refused.

    With a plan, results are records, and need all columns of this version. Other files are ignored.
    """
    runs: dict[str, StoredRun] = {}
    damaged: dict[Path, str] = {}
    columns: frozenset[str] = frozenset()
    if isinstance(requested, Manifest):
        columns, requested = REQUIRED, frozenset(requested.run_ids)
    folder = directory / FOLDER
    if os.path.lexists(folder) and not _is_own_folder(folder):
        return runs, {folder: _NO_FOLDER}
    with suppress(FileNotFoundError), _without_collector():
        for name in sorted(entry.name for entry in os.scandir(folder)):
            if is_draft(name) or name.removesuffix(_SUFFIX) not in requested:
                continue
            try:
                run = _read(folder, name)
                if columns and not (run.failed or columns <= run.record.keys()):
                    raise DamagedError("lacks columns that this version has")
            except DamagedError as error:
                damaged[folder / name] = str(error)
            else:
                runs[run.run_id] = run
    return runs, damaged


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable the garbage collector, which would scan all records again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read(folder: Path, name: str) -> StoredRun:
    run = StoredRun(**unseal(read_own(f"{folder}/{name}")))
    if name != run.run_id + _SUFFIX:
        raise DamagedError(f"is the run {run.run_id} under another name")
    return run


def _is_own_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


@dataclass
class Store:
    """A store that one process has locked."""

    directory: Path  # Its folder.
    manifest: Manifest | None  # The plan of its runs, if there is one.
    runs: dict[str, StoredRun] = field(default_factory=dict)  # The stored runs, by name.
    wanted: frozenset[str] = frozenset()  # Names of the requested runs.

    def missing(self, *, retry_failed: bool = False) -> set[str]:
        """Return the names of the missing runs."""
        runs = self.runs.values()
        return set(self.wanted) - {run.run_id for run in runs if not (retry_failed and run.failed)}

    def staying(self, to_simulate: set[str]) -> list[StoredRun]:
        """Return the runs that exist and will not be repeated."""
        return [run for run_id, run in self.runs.items() if run_id not in to_simulate]

    def begin(self) -> None:
        """Make the folder of runs, and write the manifest."""
        with self.writing():
            (self.directory / FOLDER).mkdir(exist_ok=True)
            if self.manifest is not None:
                write_file(self.directory / manifests.FILE, self.manifest.encoded())

    def save(self, run: StoredRun) -> None:
        """Write a run; a UserError if the disk is full or not writable."""
        with self.writing():
            write_run(self.directory, run)
        self.runs[run.run_id] = run

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn an OSError while writing into a UserError."""
        try:
            yield
        except OSError as error:
            if error.errno in _DISK_IS_FULL:
                raise UserError(
                    f"{self.directory}: {error.strerror}: {len(self.runs)} of {len(self.wanted)} "
                    "runs are kept; make room, and repeat the command to resume"
                ) from error
            raise UserError(f"{self.directory}: cannot be written: {error.strerror}") from error


@contextmanager
def open_store(
    directory: Path,
    requested: Manifest | Iterable[str],
    print_line: PrintLine,
    option: str = "-o DIR",
) -> Iterator[Store]:
    """Open a store under an exclusive lock; it is created if missing.

    Temporary files of killed processes are removed. A damaged run counts as missing; a link, a pipe
    or a folder at its place is refused. Nothing else changes before `Store.begin`.

    The request is a plan, or names of runs in a store that may have others. Messages name the
    folder by its command-line option. It is a UserError if the directory contains other files, or
    results of another plan.
    """
    _make(directory, option)
    with locked(directory, print_line) as alone:
        if alone:
            _remove_temporary_files(directory)
        if isinstance(requested, Manifest):
            _check_requested(directory, requested, print_line)
            store = Store(directory, requested, wanted=frozenset(requested.run_ids))
        else:
            store = Store(directory, None, wanted=frozenset(requested))
        store.runs, damaged = read_runs(directory, store.manifest or store.wanted)
        for place, (path, reason) in enumerate(damaged.items()):
            if reason == _NO_FOLDER:
                raise UserError(f"{path}: {reason}; remove it, and repeat the command")
            check_own(path)
            if place < NAMED_AT_MOST:
                print_line(f"{path}: {reason}; this run is executed again")
        if (more := len(damaged) - NAMED_AT_MOST) > 0:
            print_line(f"{directory}: {more} more such files")
        yield store


def check_own(path: Path) -> None:
    """Refuse a link, a pipe or a folder at the place of a file."""
    try:
        check_replaceable(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; remove it, and repeat the command") from error


def _make(directory: Path, option: str) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in directory.iterdir()}
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror}; choose another {option}") from error
    if not names & {manifests.FILE, FOLDER} and names - {LOCK}:
        raise UserError(
            f"{directory}: contains files but no sweep; choose a new or empty folder for {option}"
        )


def _check_requested(directory: Path, manifest: Manifest, print_line: PrintLine) -> None:
    try:
        before = read_manifest(directory)
    except FileNotFoundError:
        return
    except DamagedError as error:
        check_own(directory / manifests.FILE)
        print_line(f"{directory / manifests.FILE}: {error}; it is written again")
        return
    difference = next(differences(before, manifest), None)
    if difference is not None:
        raise UserError(
            f"{directory}: contains a sweep of another grid: {difference}; choose another -o DIR, "
            "or a grid that has all runs of the old one"
        )
    more = len(manifest.run_ids) - len(before.run_ids)
    if more:
        print_line(
            f"{directory}: the grid has {more} more runs than the {len(before.run_ids)} before"
        )


def _remove_temporary_files(directory: Path) -> None:
    for folder in (directory, directory / FOLDER):
        if _is_own_folder(folder):
            for path in folder.iterdir():
                if is_draft(path.name):
                    path.unlink(missing_ok=True)


@contextmanager
def locked(directory: Path, print_line: PrintLine) -> Iterator[bool]:
    """Hold a directory's lock; wait if another process has it.

    The kernel releases the lock when its holder ends, even if the holder is killed. Yields whether
    the lock is held, as some network file systems have no locks. Without one, concurrent sweeps
    execute some runs twice, but files stay whole.
    """
    descriptor = _open_lock(directory / LOCK)
    try:
        yield _acquire(descriptor, directory, print_line)
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    """Open a lock file; nothing else at its place is opened."""
    remedy = "remove it, unless another sweep runs here"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise UserError(f"{path}: not a lock but a link, a folder or a socket; {remedy}") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise UserError(f"{path}: not a lock but a pipe or a hard link; {remedy}")
    return descriptor


def _acquire(descriptor: int, directory: Path, print_line: PrintLine) -> bool:
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print_line(f"{directory}: waiting for another sweep to end")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise
        print_line(
            f"{directory}: the file system has no locks; start no second sweep there meanwhile"
        )
        return False
    return True
