"""The table of a sweep, finished or not: one row per run, in the order of the plan."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from faultline.experiments.config.errors import UserError
from faultline.experiments.runs.record import COLUMNS, column, in_order
from faultline.experiments.runs.store import Plan, read_store

_BEFORE_RECORD = ("run_id", "error", "code", "seed")
# A column of numbers may have only integers.
_ARROW_TYPES = {"text": pa.string(), "count": pa.int64(), "number": None}


@dataclass(frozen=True)
class Sweep:
    """The results of a sweep."""

    file: Path  # Their file.
    # A row per finished run, in the order of the plan: ``run_id``, ``status`` ("ok" or "failed"),
    # ``error`` (str or None), ``code`` (digest of the source that made it), a column per varied
    # dotted key, ``seed``, and the columns of records, which are NaN if the run failed.
    frame: pd.DataFrame
    plan: Plan
    planned: int  # Runs of the grid; the frame of an unfinished sweep has fewer rows.

    @property
    def axes(self) -> dict[str, list[Any]]:
        """Varied dotted keys with more than one value, and their values; seeds are no axis."""
        return self.plan.axes


def read_sweep(file: Path) -> Sweep:
    """Read the last sweep of a file; it may be unfinished or still running.

    Nothing is changed. It is a UserError if there is no sweep.
    """
    plan, table = read_table(file)
    return Sweep(file, frame_of(table), plan, plan.count)


def read_table(file: Path) -> tuple[Plan, pa.Table]:
    """Return the plan of a sweep, and its finished runs with the columns of `Sweep.frame`."""
    with read_store(file) as store:
        plan = store.plan()
        if plan is None:
            raise UserError(f"{file}: has no sweep; make one with faultline sweep GRID")
        names = in_order(store.columns)
        stored = {run[0]: run for run in store.runs(*_BEFORE_RECORD, *names)}
    runs = [(stored[name], plan.points[point]) for name, point, _ in plan.runs() if name in stored]
    values = [*zip(*(run for run, _ in runs), strict=True)] or [()] * len((*_BEFORE_RECORD, *names))
    run_ids, errors, codes, seeds, *of_records = values
    statuses = ["ok" if error is None else "failed" for error in errors]
    texts = {"run_id": run_ids, "status": statuses, "error": errors, "code": codes}
    columns = {name: pa.array(each, pa.string()) for name, each in texts.items()}
    try:
        for key in plan.keys:
            columns[key] = pa.array([point[key] for _, point in runs])
        columns["seed"] = pa.array(seeds, pa.int64())
        for name, each in zip(names, of_records, strict=True):
            # A column of a family may be of another sweep in this file.
            if name in COLUMNS or any(value is not None for value in each):
                defined = column(name)
                columns[name] = pa.array(each, _ARROW_TYPES[defined.kind] if defined else None)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise UserError(
            f"{file}: its runs do not fit into one table ({error}); run parts of the grid by itself"
        ) from error
    return plan, pa.table(columns)


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Return a table as pandas; the ``error`` of a run that did not fail is None."""
    # Without threads: one that releases a Python object after Python's end causes a SIGABRT.
    frame: pd.DataFrame = table.to_pandas(use_threads=False)
    error = frame["error"].astype(object)
    frame["error"] = error.where(error.notna(), None)
    return frame


def _csv_of(table: pa.Table) -> bytes:
    text: str = frame_of(table).to_csv(index=False, lineterminator="\n")
    return text.encode()


def _parquet_of(table: pa.Table) -> bytes:
    content = io.BytesIO()
    pq.write_table(table, content, compression="zstd")
    return content.getvalue()


EXPORTS: dict[str, Callable[[pa.Table], bytes]] = {".csv": _csv_of, ".parquet": _parquet_of}
"""The content of a file with a table, by the ending of its name."""
