"""The file of results: SQLite, written by one process, and complete up to its last finished run.

While it is written, the file has a write-ahead log beside it, so that others may read it and a
kill loses only the runs in flight. At rest it is a single file.

========== ======================================================================================
table      rows
========== ======================================================================================
`settings` the last sweep as keys and JSON values: its grid, engine, seeds
`points`   the points of the last sweep: place, hash of the scenario, keys and their values as JSON
`runs`     the runs of all sweeps: hash of the scenario, seed, code, error, and the record's columns
`calls`    results of functions as JSON
========== ======================================================================================
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.grid import EngineName
from faultline.experiments.runs.point import name_run
from faultline.experiments.runs.record import COLUMNS
from faultline.platforms.files import check_replaceable
from filelock import FileLock, Timeout

_APPLICATION = 0x464C5331
"""Number by which SQLite identifies the files of a program."""
_FORMAT = 1
_OWN = ("run_id", "stated_hash", "seed", "code", "error", "wall_s")
"""Columns of `runs` before those of the record."""


class PlannedRun(NamedTuple):
    """A run without the code that makes it."""

    run_id: str  # Its name.
    stated_hash: str  # Digest of the scenario as stated.
    seed: int  # Seed of the random numbers.


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs of a sweep as they are stored: named without the code that planned them."""

    faultline: str  # Version of Faultline that planned it.
    grid: dict[str, Any]  # The grid file as read: its tables flattened to dotted keys.
    engine: EngineName  # The engine of the runs (one of "replay", "simgrid").
    fixed: dict[str, Any]  # Dotted keys and values of the scenario before any of `keys` is set.
    keys: list[str]  # The dotted keys that differ between points.
    seeds: list[int]  # The seeds of every point.
    # The values of `keys` at each point, by the hash of its scenario as stated.
    points: dict[str, dict[str, Any]]

    def runs(self) -> Iterator[PlannedRun]:
        """Yield each run; the seeds of a point are adjacent."""
        for stated_hash in self.points:
            for seed in self.seeds:
                yield PlannedRun(name_run(stated_hash, seed, self.engine), stated_hash, seed)

    @property
    def count(self) -> int:
        """Number of runs."""
        return len(self.points) * len(self.seeds)

    @property
    def axes(self) -> dict[str, list[Any]]:
        """The keys that take more than one value, and their values in order."""
        values = {
            key: list(dict.fromkeys(point[key] for point in self.points.values()))
            for key in self.keys
        }
        return {key: each for key, each in values.items() if len(each) > 1}


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A finished run as it is stored."""

    run_id: str  # Its name.
    stated_hash: str  # Digest of the scenario as stated.
    seed: int  # Seed of the random numbers.
    code: str  # Digest of the source that made it.
    error: str | None  # One line if the run failed.
    wall_s: float  # Real time of the run, in seconds. It differs between machines: in no table.
    record: Mapping[str, Any]  # The flat record; empty if the run failed.


class Store:
    """An open file of results."""

    def __init__(self, file: Path, connection: sqlite3.Connection) -> None:
        self.file = file
        self._connection = connection
        self.columns = [row[1] for row in connection.execute("PRAGMA table_info(runs)")]

    def write_plan(self, plan: Plan) -> None:
        """Make a plan the last one."""
        execute = self._connection.execute
        execute("BEGIN")
        execute("DELETE FROM settings")
        execute("DELETE FROM points")
        for one in fields(plan):
            if one.name != "points":
                value = _json(getattr(plan, one.name))
                execute("INSERT INTO settings VALUES (?, ?)", (one.name, value))
        for place, (stated_hash, values) in enumerate(plan.points.items()):
            execute("INSERT INTO points VALUES (?, ?, ?)", (place, stated_hash, _json(values)))
        execute("COMMIT")

    def plan(self) -> Plan | None:
        """Return the last plan; None if there is none."""
        execute = self._connection.execute
        settings = {key: json.loads(value) for key, value in execute("SELECT * FROM settings")}
        points = execute("SELECT stated_hash, settings FROM points ORDER BY point")
        stored = {stated_hash: json.loads(values) for stated_hash, values in points}
        return Plan(points=stored, **settings) if settings else None

    def save_run(self, run: StoredRun) -> None:
        """Write a run, in place of an earlier one of the same name."""
        values = {name: getattr(run, name) for name in _OWN}
        values |= {name: _plain(value) for name, value in run.record.items()}
        for name in values.keys() - set(self.columns):
            self._connection.execute(f"ALTER TABLE runs ADD COLUMN {_quoted(name)}")
            self.columns.append(name)
        names = ", ".join(map(_quoted, values))
        marks = ", ".join("?" * len(values))
        self._connection.execute(
            f"INSERT OR REPLACE INTO runs ({names}) VALUES ({marks})", tuple(values.values())
        )

    def runs(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return some columns of all runs."""
        names = ", ".join(map(_quoted, columns))
        return self._connection.execute(f"SELECT {names} FROM runs").fetchall()

    def save_value(self, name: str, code: str, value: Any) -> Any:
        """Write the result of a function, and return it as it will be read."""
        text = _json(value)
        self._connection.execute(
            "INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", (name, code, text)
        )
        return json.loads(text)

    def values(self, code: str) -> dict[str, Any]:
        """Return the results of functions that some code made, by name."""
        rows = self._connection.execute("SELECT name, value FROM calls WHERE code = ?", (code,))
        return {name: json.loads(value) for name, value in rows}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _json(value: Any) -> str:
    # Infinity and NaN, too: an extension of JSON that Python and SQLite read.
    return json.dumps(value, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


@contextmanager
def open_store(file: Path) -> Iterator[Store]:
    """Open a file of results to write it, alone; it is created if missing.

    It is a UserError if it is something else, damaged, or open already, or if the disk is full.
    """
    _check_path(file)
    with _locked(file), _explained(file), closing(_connected(file, "rwc")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        # A machine that loses power may lose the last runs, but no file is damaged.
        connection.execute("PRAGMA synchronous = NORMAL")
        try:
            yield Store(file, connection)
        finally:
            # A full disk, or a reader, may prevent that; the next writer does it.
            with suppress(sqlite3.Error):
                connection.execute("PRAGMA journal_mode = DELETE")


@contextmanager
def read_store(file: Path) -> Iterator[Store]:
    """Open a file of results to read it, also while it is written.

    It is a UserError if it is missing, something else, or damaged.
    """
    _check_path(file)
    if not file.exists():
        raise UserError(f"{file}: no such file; make one with faultline sweep GRID")
    if not file.is_file():  # Opening a pipe would wait for ever.
        raise UserError(f"{file}: not a regular file; name a file that faultline sweep wrote")
    with _explained(file), closing(_connected(file, "ro")) as connection:
        yield Store(file, connection)


def _check_path(file: Path) -> None:
    if file.is_dir():
        raise UserError(
            f"{file}: a folder, but the results of a sweep are one file; name a file, such as "
            f"{file.with_name(file.name + '.sqlite')}"
        )


def _connected(file: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{file.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=60.0
    )
    try:
        is_new = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if is_new and mode == "rwc":
            _create_tables(connection)
        if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            raise UserError(f"{file}: not a file of faultline sweep; name another one")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != _FORMAT:
            raise UserError(f"{file}: has format {version}, and this version reads {_FORMAT}")
        damage = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if damage != "ok":
            raise sqlite3.DatabaseError(damage)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_tables(connection: sqlite3.Connection) -> None:
    names = ", ".join(map(_quoted, dict.fromkeys((*_OWN, *COLUMNS))))
    connection.executescript(
        f"""
        BEGIN;
        PRAGMA application_id = {_APPLICATION};
        PRAGMA user_version = {_FORMAT};
        CREATE TABLE settings (key PRIMARY KEY, value);
        CREATE TABLE points (point INTEGER PRIMARY KEY, stated_hash, settings);
        CREATE TABLE runs ({names}, PRIMARY KEY (run_id));
        CREATE TABLE calls (name, code, value, PRIMARY KEY (name, code));
        COMMIT;
        """
    )


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    lock = FileLock(file.with_name(f".{file.name}.lock"), blocking=False)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        check_replaceable(file)
        lock.acquire()
    except Timeout as error:
        raise UserError(f"{file}: another sweep writes it; wait until that has ended") from error
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}; name another file") from error
    try:
        yield
    finally:
        lock.release()


_REMEDIES = {
    "database or disk is full": "finished runs are kept; make room, and repeat the command",
    "file is not a database": "name a file that faultline sweep wrote",
}


@contextmanager
def _explained(file: Path) -> Iterator[None]:
    """Turn an error of the file into a UserError."""
    try:
        yield
    except sqlite3.OperationalError as error:
        remedy = _REMEDIES.get(str(error), "finished runs are kept; repeat the command")
        raise UserError(f"{file}: {error}; {remedy}") from error
    except sqlite3.DatabaseError as error:
        remedy = _REMEDIES.get(str(error), "the file is damaged: remove it, and repeat the sweep")
        raise UserError(f"{file}: {error}; {remedy}") from error
