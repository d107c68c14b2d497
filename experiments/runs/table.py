"""The table of a sweep, finished or not: one row per run, in the order of the plan."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from faultline.experiments.runs.record import REQUIRED, column
from faultline.experiments.runs.store import FOLDER, StoredRun, read_runs
from faultline.platforms.files import write_file

PARQUET = "table.parquet"
CSV = "table.csv"
_PLAN = b"faultline.plan"
_CSV_DIGEST = b"faultline.csv"
_RECORDS_AT_ONCE = 100
# A column of numbers may have only integers.
_ARROW_TYPES = {"text": pa.string(), "count": pa.int64(), "number": None}


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
        for place, key in enumerate(manifest.keys):
            columns[key] = pa.array([values[place] for _, values, _ in rows])
        columns["seed"] = pa.array([seed for _, _, seed in rows], pa.int64())
        for name, values in _columns_of([run.record or {} for run, _, _ in rows]).items():
            if name not in columns:
                defined = column(name)
                columns[name] = pa.array(values, _ARROW_TYPES[defined.kind] if defined else None)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise UserError(
            f"its runs do not fit into one table ({error}); run the grid in another folder"
        ) from error
    return pa.table(columns)


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
        content = pa.BufferReader(read_own(directory / PARQUET))
        file = pq.ParquetFile(content, page_checksum_verification=True, pre_buffer=False)
        known = file.schema_arrow
        if (known.metadata or {}).get(_PLAN) != manifest.digest().encode():
            return None
        if file.metadata.num_rows != len(manifest.run_ids) or REQUIRED - set(known.names):
            return None
        # Without threads: one that releases a Python object after Python's end causes a SIGABRT.
        return file.read(use_threads=False)
    except (OSError, pa.ArrowException, DamagedError):
        return None


def tables_stand(directory: Path, manifest: Manifest) -> bool:
    """Return whether both tables exist, are valid for this plan, and are newer than all runs."""
    if not _table_is_youngest(directory) or not (directory / CSV).exists():
        return False
    table = read_table(directory, manifest)
    digest = hashlib.sha256((directory / CSV).read_bytes()).hexdigest().encode()
    return table is not None and table.schema.metadata.get(_CSV_DIGEST) == digest
