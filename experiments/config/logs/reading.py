"""Logs of failures in any format, whose first line determines it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, isfinite

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.logs.csv_log import (
    ENDS_WITH_LAST,
    delimiter_of,
    read_badput,
    read_named,
    watched,
)
from faultline.experiments.config.logs.failure_log import FailureLog, LogFile, Logged
from faultline.experiments.config.logs.fault_records import is_fault_records, read_fault_records
from faultline.experiments.config.logs.slurm import read_sacct
from faultline.experiments.config.logs.slurm_rows import NEEDED, is_sacct
from faultline.experiments.config.trace_file import read_trace
from faultline.simulator.failures.failure import JobLayout

_FORMATS = (
    "sacct --parsable2, a CSV file with columns time,node,cause,kind,repair or "
    "time,badput,seconds,node, a JSON list of fault records, or a trace with time,component"
)
_RATE_SPAN_S = 1_000 * 86_400.0
_PUBLISHED_RATES = 2, 12
"""Failures per 1,000 node-days of eight GPUs: from RSC-2 to Llama 3 405B."""
_FAR = 10
"""Beyond the published rates by this factor, a log is probably misread."""


def read_log(file: LogFile) -> FailureLog:
    """Read a log of failures in any format.

    Failures of a node that follow another of it within `LogFile.merge_within_s` are merged.

    Raises UserError if it is no log, or most of its rows cannot be read.
    """
    first = next((line for line in file.text.splitlines() if line.strip()), "")
    log = _reader_of(file, first)(file)
    if not log.failures:
        others = " or other jobs" if file.selection.options else ""
        raise UserError(f"{file.path}: has no failure ({log.form}); choose a longer time{others}")
    if not (isfinite(log.node_s) and log.node_s > 0.0):
        raise UserError(
            f"{file.path}: no node was ever up, so that rates are unknown; choose a longer time"
        )
    log = _merged(log, file.merge_within_s)
    rate = _RATE_SPAN_S * len(log.failures) / log.node_s
    least, most = _PUBLISHED_RATES
    if not least / _FAR <= rate <= most * _FAR:
        note = (
            f"{rate:.3g} failures per 1,000 node-days; clusters that published theirs have {least} "
            f"to {most}: check --nodes and --days, and that each row is one failure of a node"
        )
        log = replace(log, notes=(*log.notes, note))
    return log


def _merged(log: FailureLog, within_s: float) -> FailureLog:
    """Merge the failures of a host that follow another of it within a time: messages of one."""
    last_s: dict[int, float] = {}
    kept = []
    for failure in log.failures:
        if failure.level == "host" and failure.number is not None:
            before_s = last_s.get(failure.number, -inf)
            last_s[failure.number] = failure.time_s
            if failure.time_s - before_s <= within_s:
                continue
        kept.append(failure)
    count = len(log.failures) - len(kept)
    if not count:
        return log
    note = (
        f"merged: {count:,} that follow another of their node within {within_s:g} s count with it "
        "(--merge-within sets this time)"
    )
    return replace(log, failures=tuple(kept), notes=(*log.notes, note))


def _reader_of(file: LogFile, first: str) -> Callable[[LogFile], FailureLog]:
    """Return the reader of a log with this first line.

    Raises UserError if the format is unknown, or an option has no effect on it.
    """
    cells = [cell.strip().strip('"').lower() for cell in first.split(delimiter_of(first))]
    is_csv = False
    read: Callable[[LogFile], FailureLog]
    if is_sacct(first):
        read = read_sacct
    elif is_fault_records(first):
        read = read_fault_records
    elif first.lstrip().startswith("{"):
        raise UserError(
            f"{file.path}:1: this is JSON, one object a line, as of a goodput log or of events; "
            "faultline learn reads goodput logs; make a CSV file with time,node,cause of others"
        )
    elif "component" in cells and not file.columns:
        read = _read_own_trace
    elif len(cells) > 1:
        is_csv = True
        read = read_badput if {"badput"} & {*cells, *file.columns} else read_named
    else:
        raise UserError(f"{file.path}:1: this is no known log; give {_FORMATS}")
    if is_csv and _is_table_of_jobs(cells):
        raise UserError(
            f"{file.path}:1: this is a table of jobs, with a state of each; a row must be a "
            "failure of a node: keep the failures, with columns time,node,cause; of Slurm's jobs "
            f"print {', '.join(NEEDED)} by sacct"
        )
    if file.columns and not is_csv:
        raise UserError(f"--columns: {file.path} is read by its own columns; leave the option out")
    if file.selection.options and read is not read_sacct:
        raise UserError(
            f"{file.selection.options}: {file.path} is no log of jobs, as of sacct; leave it out"
        )
    return read


def _is_table_of_jobs(columns: Sequence[str]) -> bool:
    """Return whether a table has a column of jobs' identities and one of their states."""
    names = {column.replace("_", "").replace(" ", "") for column in columns}
    return bool(names & {"jobid", "idjob", "jobidraw"}) and bool(names & {"state", "status"})


def _read_own_trace(file: LogFile) -> FailureLog:
    """Read a trace of Faultline.

    Raises UserError if it is no trace, or if the number of nodes is unknown.
    """
    if file.nodes is None:
        raise UserError(f"{file.path}: a trace does not state the number of nodes; give --nodes N")
    # The groups, domains and switches of this layout have no effect on the log.
    layout = JobLayout(file.nodes * file.gpus_per_node, 1, file.gpus_per_node, 1, 1)
    traced = list(read_trace(file.path, layout))
    distinct = dict.fromkeys(traced)
    failures = [Logged(*failure[:6]) for failure in distinct]
    names = (f"host-{number}" for number in range(file.nodes))
    notes = [] if file.span_s else [ENDS_WITH_LAST]
    if twice := len(traced) - len(distinct):
        notes.insert(0, f"left out: {twice:,} exact duplicates")
    return watched(file.log("trace", failures, names, notes=notes), file.span_s)
