"""The table of a sweep, finished or not: one row per run, in the order of the plan."""

from __future__ import annotations

import errno
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.manifest import (
    FILE,
    DamagedError,
    Manifest,
    read_manifest,
    read_own,
)
from faultline.experiments.runs.record import COLUMNS, column
from faultline.experiments.runs.store import FOLDER, StoredRun, read_runs
from faultline.platforms.files import write_file

PARQUET = "table.parquet"
CSV = "table.csv"
_PLAN = b"faultline.plan"
_CSV_DIGEST = b"faultline.csv"
_MOST_COLUMNS = 1_000
_RECORDS_AT_ONCE = 100
_OF_RUN = ("run_id", "status", "error", "code")
_ARROW_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


@dataclass(frozen=True)
class Sweep:
    """The results of a sweep."""

    directory: Path  # Their folder.
    # A row per finished run, in the order of the plan: ``run_id``, ``status`` ("ok" or "failed"),
    # ``error`` (str or None), ``code`` (digest of the source that made it), a column per varied
    # dotted key, ``seed``, and the columns of records, which are NaN if the run failed.
    frame: pd.DataFrame
    # Varied dotted keys with more than one value, and their values in order. Seeds are no axis.
    axes: dict[str, list[Any]]
    manifest: dict[str, Any]  # The content of ``sweep.json``.
    planned: int  # Runs of the grid; the frame of an unfinished sweep has fewer rows.
    problems: tuple[str, ...]  # A line per damaged file, which was ignored.


def read_sweep(directory: Path) -> Sweep:
    """Read a sweep directory; the sweep may be unfinished or still running.

    The table is read if it is valid and newer than all runs. Otherwise the files of the runs are
    read, which gives the same frame. Nothing is changed. It is a UserError if there is no sweep.
    """
    manifest = _manifest(directory)
    problems: tuple[str, ...] = ()
    table = read_table(directory, manifest) if _table_is_youngest(directory) else None
    if table is None:
        runs, damaged = read_runs(directory, manifest)
        problems = tuple(f"{path}: {reason}; left out" for path, reason in damaged.items())
        table = make_table(manifest, runs)
    return Sweep(
        directory,
        frame_of(table),
        manifest.axes,
        manifest.as_dict(),
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
            f"{directory / FILE}: {error}; repeat the faultline sweep command to fix it"
        ) from error
    except OSError as error:
        raise UserError(f"{directory / FILE}: {error.strerror}") from error


def _table_is_youngest(directory: Path) -> bool:
    """Return whether the table is newer than the last run added to or removed from the folder."""
    try:
        table_ns = (directory / PARQUET).stat().st_mtime_ns
    except OSError:
        return False
    try:
        return (directory / FOLDER).stat().st_mtime_ns <= table_ns
    except FileNotFoundError:
        return True


def make_table(manifest: Manifest, runs: Mapping[str, StoredRun]) -> pa.Table:
    """Return the finished runs as a table, in the order of the manifest.

    The columns are those of `Sweep.frame`; values of records are null for failed runs.
    """
    rows = [
        (runs[run_id], values, seed) for run_id, values, seed in manifest.rows() if run_id in runs
    ]
    texts = {
        "run_id": [run.run_id for run, _, _ in rows],
        "status": ["failed" if run.failed else "ok" for run, _, _ in rows],
        "error": [run.error for run, _, _ in rows],
        "code": [run.code for run, _, _ in rows],
    }
    columns = {name: pa.array(values, pa.string()) for name, values in texts.items()}
    try:
        columns |= _requested([(values, seed) for _, values, seed in rows], manifest)
        for name, values in _columns_of([run.record or {} for run, _, _ in rows]).items():
            if name not in columns:
                defined = column(name)
                # A column of numbers may have only integers.
                types = defined.types if defined else ()
                kind = _ARROW_TYPES[types[0]] if len(types) == 1 else None
                columns[name] = pa.array(values, kind)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise UserError(
            f"its runs do not fit into one table ({error}); run the grid in another folder"
        ) from error
    return pa.table(columns)


def _requested(
    rows: Sequence[tuple[Sequence[Any], int]], manifest: Manifest
) -> dict[str, pa.Array]:
    """Return the columns of the request: varied keys, and the seed."""
    columns = {
        key: pa.array([values[place] for values, _ in rows])
        for place, key in enumerate(manifest.keys)
    }
    return {**columns, "seed": pa.array([seed for _, seed in rows], pa.int64())}


def _check_table(table: pa.Table, manifest: Manifest) -> None:
    """Raise a DamagedError for a table of other runs, or with a value that is out of range.

    The checks are those of records (`store.read_runs`), column by column.
    """
    requested = _requested([(values, seed) for _, values, seed in manifest.rows()], manifest)
    names, of_plan = table.column_names, [*_OF_RUN, *requested]
    if names[: len(of_plan)] != of_plan or len(set(names)) < len(names):
        raise DamagedError("has other columns than the table of this sweep")
    columns = {name: pa.concat_arrays(table.column(name).chunks) for name in names}
    texts = {name: columns[name].to_pylist() for name in _OF_RUN}
    if texts["run_id"] != manifest.run_ids or any(
        not columns[name].equals(array) for name, array in requested.items()
    ):
        raise DamagedError("has other runs than this sweep")
    good = np.array([error is None for error in texts["error"]])
    statuses = ["ok" if one else "failed" for one in good]
    if texts["status"] != statuses or not all(isinstance(code, str) for code in texts["code"]):
        raise DamagedError("has a run that neither succeeded nor failed")
    for name in names[len(of_plan) :]:
        _check_column(name, columns[name], good)
    required = {name for name, defined in COLUMNS.items() if not defined.optional}
    if good.any() and (missing := required - set(names)):
        raise DamagedError(f"lacks the column {min(missing)!r}")
    of_runs = list(manifest.stated().values())
    for name in {"scenario", "strategy", "engine"} & set(names):
        values = zip(columns[name].to_pylist(), of_runs, strict=True)
        if any(value not in (None, stated.get(name, value)) for value, stated in values):
            raise DamagedError(f"has another value in {name!r} than was requested")


def _check_column(name: str, array: pa.Array, good: np.ndarray) -> None:
    defined = column(name)
    fitting = [_ARROW_TYPES[kind] for kind in (defined.types if defined else _ARROW_TYPES)]
    if array.type not in (pa.null(), *fitting):
        raise DamagedError(f"has values of a wrong type in {name!r}")
    absent = array.is_null().to_numpy(zero_copy_only=False)
    if not absent[~good].all() or (defined and not defined.optional and absent[good].any()):
        raise DamagedError(f"lacks a value in {name!r}, or has one for a failed run")
    if defined and defined.kind != "text":
        values = array.drop_null().to_numpy(zero_copy_only=False)
        least, most = defined.bounds
        # Comparisons with NaN are false.
        if not ((least <= values) & (values <= most)).all():
            raise DamagedError(f"has a value in {name!r} that is out of range")


def _columns_of(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the values of records by column; None if a record lacks one."""
    shapes = dict.fromkeys(tuple(record) for record in records)
    columns: dict[str, list[Any]] = {name: [] for shape in shapes for name in shape}
    # In blocks that fit into the processor's cache.
    for first in range(0, len(records), _RECORDS_AT_ONCE):
        some = records[first : first + _RECORDS_AT_ONCE]
        for name, values in columns.items():
            values += [record.get(name) for record in some]
    return columns


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Return a table as pandas; the ``error`` of a run that did not fail is None."""
    frame: pd.DataFrame = table.to_pandas(use_threads=False)
    error = frame["error"].astype(object)
    frame["error"] = error.where(error.notna(), None)
    return frame


def write_tables(directory: Path, manifest: Manifest, runs: Mapping[str, StoredRun]) -> None:
    """Write both tables atomically; the Parquet file comes last, with the digest of the CSV."""
    table = make_table(manifest, runs)
    text: str = frame_of(table).to_csv(index=False, lineterminator="\n")
    csv = text.encode()
    write_file(directory / CSV, csv)
    table = table.replace_schema_metadata(
        {_PLAN: manifest.digest(), _CSV_DIGEST: hashlib.sha256(csv).hexdigest()}
    )
    parquet = io.BytesIO()
    pq.write_table(table, parquet, compression="zstd", write_page_checksum=True)
    write_file(directory / PARQUET, parquet.getvalue())


def remove_tables(directory: Path) -> None:
    """Remove the tables before runs change, so that no outdated table is left."""
    for name in (PARQUET, CSV):
        (directory / name).unlink(missing_ok=True)


def read_table(directory: Path, manifest: Manifest) -> pa.Table | None:
    """Return the Parquet table if it is valid and has all runs of this plan; else None."""
    try:
        table = parquet_from(read_own(directory / PARQUET), len(manifest.run_ids))
        if (table.schema.metadata or {}).get(_PLAN) != manifest.digest().encode():
            return None
        if table.num_rows != len(manifest.run_ids):
            return None
        _check_table(table, manifest)
    except (OSError, pa.ArrowException, DamagedError):
        return None
    return table


def tables_stand(directory: Path, manifest: Manifest) -> bool:
    """Return whether both tables exist, are valid for this plan, and are newer than all runs."""
    if not _table_is_youngest(directory) or not (directory / CSV).exists():
        return False
    table = read_table(directory, manifest)
    digest = hashlib.sha256((directory / CSV).read_bytes()).hexdigest().encode()
    return table is not None and table.schema.metadata.get(_CSV_DIGEST) == digest


def parquet_from(content: bytes, most_rows: int) -> pa.Table:
    """Return the table of a Parquet file.

    Arrow starts no thread: a thread that releases a Python object after Python's end causes a
    SIGABRT. Rows are counted before they are read, as a file of 1 MB may have 50 million. It is an
    OSError or a pyarrow.ArrowException if the file is invalid or has too many rows.
    """
    file = pq.ParquetFile(
        pa.BufferReader(content), page_checksum_verification=True, pre_buffer=False
    )
    found = file.metadata
    if found.num_rows > most_rows or found.num_columns > _MOST_COLUMNS:
        size = f"{found.num_rows:,} rows and {found.num_columns:,} columns"
        raise OSError(errno.EFBIG, f"{size}: more than {most_rows:,} or {_MOST_COLUMNS:,}")
    return file.read(use_threads=False)
