"""A folder in which runs are kept, a sealed file each, so that whatever is killed goes on there.

Two kinds are the same: that of a plan (`Manifest`), which ends with tables and has nothing in it
that was not asked for; and one without, where studies keep what they have played.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import socket
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from operator import le
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
from faultline.experiments.runs.record import COLUMNS, column
from faultline.platforms.files import is_draft, write_file

FOLDER = "runs"
SET_ASIDE = "set-aside"
LOCK = ".lock"
NAMED_AT_MOST = 20
"""Misplaced files that are named; further ones are counted."""
_SUFFIX = ".json"
_DISK_IS_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_LOCKS_HERE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A finished run as it is kept."""

    run_id: str  # Its name.
    record: Any  # The flat record, or what a function returned; None if the run failed.
    error: str | None  # One line: why it failed; None if it did not.
    code: str  # Digest of the source that made it.
    # Seconds of real time it took; differs from machine to machine, so no table has it.
    wall_s: float

    @property
    def failed(self) -> bool:
        """Whether there is an error in place of a record."""
        return self.error is not None


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Something that does not belong where it was found, and what is wrong with it."""

    path: Path
    reason: str


def write_run(directory: Path, run: StoredRun) -> None:
    """Put a run in its place in a store, all at once."""
    write_file(directory / FOLDER / f"{run.run_id}{_SUFFIX}", seal(asdict(run)))


_OF_KIND: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "count": (int,),
    "number": (int, float),
}
_TYPES = [
    {"run_id": str, "error": error, "code": str, "wall_s": wall_s}
    for error in (str, type(None))
    for wall_s in (float, int)
]


def read_runs(
    directory: Path, requested: Manifest | frozenset[str]
) -> tuple[dict[str, StoredRun], list[Misplaced]]:
    """Read runs of a store, by name; and what is damaged or does not belong there, by path.

    Of the plan that it is the answer to, whatever else lies there is out of place, and so is a
    record of something else; else only the named runs are read, of whatever kind. Files under way
    are not looked at.
    """
    runs: dict[str, StoredRun] = {}
    misplaced: list[Misplaced] = []
    checked: Checked = {}
    stated: dict[str, dict[str, Any]] | None = None
    if isinstance(requested, Manifest):
        stated = requested.stated()
        requested = frozenset(stated)
    folder = directory / FOLDER
    if os.path.lexists(folder) and not _is_own_folder(folder):
        return runs, [Misplaced(folder, "no folder")]
    with suppress(FileNotFoundError), _without_collector():
        for name in sorted(entry.name for entry in os.scandir(folder)):
            known = name.removesuffix(_SUFFIX) in requested
            if is_draft(name) or not (known or stated is not None):
                continue
            try:
                run = _read(folder, name)
                if not known:
                    raise DamagedError("a run that is not in the grid")
                if stated is not None:
                    _check_record(run.record, stated[run.run_id], checked)
            except DamagedError as error:
                misplaced.append(Misplaced(folder / name, str(error)))
            else:
                runs[run.run_id] = run
    return runs, misplaced


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep Python from looking through all records, again and again, for garbage in circles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read(folder: Path, name: str) -> StoredRun:
    content = unseal(read_own(f"{folder}/{name}"))
    # A sweep may have a hundred thousand of these files: no slower check of the types than this.
    if {key: type(value) for key, value in content.items() if key != "record"} not in _TYPES:
        raise DamagedError("not the file of a run")
    run = StoredRun(**content)
    if (run.record is None) == (run.error is None):
        raise DamagedError("not the file of a run")
    if name != run.run_id + _SUFFIX:
        raise DamagedError(f"is the run {run.run_id} under another name")
    return run


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The columns of a kind of record that are numbers, and between what their values lie."""

    names: tuple[str, ...]
    least: tuple[float, ...]
    most: tuple[float, ...]

    def hold(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record keeps them; called a hundred thousand times."""
        values = tuple(map(record.__getitem__, self.names))
        # Not a number is on neither side.
        return all(map(le, self.least, values)) and all(map(le, values, self.most))


Checked = dict[Any, _Bounds]
"""Columns and types that were found good, and what bounds the values of the columns."""


def _check_record(record: Any, stated: Mapping[str, Any], checked: Checked) -> None:
    """Refuse a record of something else, or with a value that its column cannot have.

    Most records of a sweep have the same columns with the same types.
    """
    if record is None:
        return
    if not isinstance(record, dict):
        raise DamagedError("not the record of a run")
    shape = (tuple(record), tuple(map(type, record.values())))
    if shape not in checked:
        checked[shape] = _checked_columns(record)
    bounds = checked[shape]
    if not bounds.hold(record):
        for name, least, most in zip(bounds.names, bounds.least, bounds.most, strict=True):
            if not least <= record[name] <= most:
                raise DamagedError(f"has {record[name]!r} in {name!r}, which cannot be")
    for name, value in stated.items():
        if record.get(name, value) != value:
            raise DamagedError(
                f"says {record[name]!r:.100} in {name!r}, and {value!r:.100} was requested"
            )


def _checked_columns(record: Mapping[str, Any]) -> _Bounds:
    """Refuse a record that lacks a value, or has one of another type than its column."""
    bounded = []
    for name, value in record.items():
        defined = column(name)
        fitting = _OF_KIND[defined.kind] if defined else (str, int, float, bool)
        if value is not None and type(value) not in fitting:
            raise DamagedError(f"has a value in {name[:100]!r} that is none of a record")
        if value is not None and defined and defined.kind != "text":
            bounded.append((name, *defined.bounds))
    for name, defined in COLUMNS.items():
        if record.get(name) is None and not defined.optional:
            raise DamagedError(f"has no value in {name!r}, as every record has")
    return _Bounds(*zip(*bounded, strict=True)) if bounded else _Bounds((), (), ())


def _is_own_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


@dataclass
class Store:
    """A store in the hands of one process."""

    directory: Path  # Where it is.
    manifest: Manifest | None  # The plan of its runs, if there is one.
    runs: dict[str, StoredRun] = field(default_factory=dict)  # The runs that are there, by name.
    wanted: frozenset[str] = frozenset()  # Names of the requested runs.

    def missing(self, *, retry_failed: bool = False) -> set[str]:
        """Return the names of the missing runs."""
        runs = self.runs.values()
        return set(self.wanted) - {run.run_id for run in runs if not (retry_failed and run.failed)}

    def staying(self, to_play: set[str]) -> list[StoredRun]:
        """Return the runs that exist and will not be repeated."""
        return [run for run_id, run in self.runs.items() if run_id not in to_play]

    def begin(self) -> None:
        """Make the folders of runs, and write the manifest."""
        with self.writing():
            (self.directory / FOLDER).mkdir(exist_ok=True)
            if self.manifest is not None:
                write_file(self.directory / manifests.FILE, self.manifest.encoded())

    def save(self, run: StoredRun) -> None:
        """Keep a run; a UserError if the disk is full, or cannot be written to."""
        with self.writing():
            write_run(self.directory, run)
        self.runs[run.run_id] = run

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Explain what goes wrong while something is written."""
        try:
            yield
        except OSError as error:
            if error.errno in _DISK_IS_FULL:
                raise UserError(
                    f"{self.directory}: {error.strerror}: {len(self.runs)} of {len(self.wanted)} "
                    "runs are kept; make room, and the same command goes on"
                ) from error
            raise UserError(f"{self.directory}: cannot be written: {error.strerror}") from error


@contextmanager
def open_store(
    directory: Path, requested: Manifest | Iterable[str], tell: Tell, option: str = "-o DIR"
) -> Iterator[Store]:
    """Take a store into one's hands; it is made if there is none.

    Temporary files of a process that was killed are removed. Whatever is damaged or does not belong
    there is moved to ``set-aside/`` and told of. Nothing else changes before `Store.begin`.

    Asked is a plan, or names of runs that may stand beside others. Everything that a user should
    know is told in a line, and by which option the folder is chosen.

    Raises
    ------
    UserError
        If there is something else in the directory, or results of another plan.
    """
    _make(directory, option)
    with locked(directory, tell) as alone:
        if alone:
            _remove_temporary_files(directory)
        if isinstance(requested, Manifest):
            _check_requested(directory, requested, tell)
            store = Store(directory, requested, wanted=frozenset(requested.run_ids))
        else:
            store = Store(directory, None, wanted=frozenset(requested))
        store.runs, misplaced = read_runs(directory, store.manifest or store.wanted)
        for place, found in enumerate(misplaced):
            set_aside(directory, found, tell if place < NAMED_AT_MOST else lambda _: None)
        if (more := len(misplaced) - NAMED_AT_MOST) > 0:
            tell(f"{directory}: {more} more such files; moved to {directory / SET_ASIDE}")
        yield store


def _make(directory: Path, option: str) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in directory.iterdir()}
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror}; choose another {option}") from error
    if not names & {manifests.FILE, FOLDER} and names - {LOCK}:
        raise UserError(
            f"{directory}: holds files and no sweep; choose a new or an empty folder for {option}"
        )


def _check_requested(directory: Path, manifest: Manifest, tell: Tell) -> None:
    try:
        before = read_manifest(directory)
    except FileNotFoundError:
        return
    except DamagedError as error:
        set_aside(directory, Misplaced(directory / manifests.FILE, str(error)), tell)
        return
    difference = next(differences(before, manifest), None)
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
        if _is_own_folder(folder):
            for path in folder.iterdir():
                if is_draft(path.name):
                    path.unlink(missing_ok=True)


def set_aside(directory: Path, found: Misplaced, tell: Tell) -> None:
    """Move a misplaced file into ``set-aside/``, and report it."""
    folder = directory / SET_ASIDE
    if not os.path.lexists(folder):
        folder.mkdir()
    elif not _is_own_folder(folder):
        raise UserError(f"{folder}: no folder, where something damaged is to go; remove it")
    number, target = 1, folder / found.path.name
    while os.path.lexists(target):
        number += 1
        target = folder / f"{found.path.name}.{number}"
    # Where there are no locks, another process may have been quicker.
    with suppress(FileNotFoundError):
        found.path.rename(target)
    tell(f"{found.path}: {found.reason}; moved to {target}")


@contextmanager
def locked(directory: Path, tell: Tell) -> Iterator[bool]:
    """Hold a directory's lock, waiting for it if another process has it.

    The kernel gives the lock back when its holder ends, however it ends.

    Yields
    ------
    bool
        Whether the directory is ours alone. Some network file systems have no locks; there two
        sweeps at once play some runs twice, and results still appear whole.
    """
    descriptor = _open_lock(directory / LOCK)
    try:
        alone = _acquire(descriptor, directory, tell)
        if alone:
            # Says who holds it; a full disk may leave that out.
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
                signed = f"process {os.getpid()} on {socket.gethostname()}\n"
                os.pwrite(descriptor, signed.encode(), 0)
        yield alone
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    """Open a lock file; its content is overwritten."""
    remedy = "remove it, unless another sweep is under way here"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise UserError(f"{path}: no lock but a link, a folder or a socket; {remedy}") from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise UserError(f"{path}: no lock but a pipe, or another file as well; {remedy}")
    return descriptor


def _acquire(descriptor: int, directory: Path, tell: Tell) -> bool:
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            tell(f"{directory}: waiting for another sweep to end ({holder or 'just started'})")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise
        tell(f"{directory}: this file system has no locks; start no second sweep there meanwhile")
        return False
    return True
