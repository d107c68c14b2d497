"""Any of the logs: which format it has shows in its first line."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.logs.failure_log import FailureLog
from faultline.experiments.config.logs.preemptions import LINE, read_preemptions
from faultline.experiments.config.logs.prometheus import read_prometheus
from faultline.experiments.config.logs.slurm import is_sacct, read_sacct
from faultline.experiments.config.logs.tables import read_badput, read_named, read_own_trace
from faultline.experiments.config.trace_file import LARGEST_BYTES
from faultline.platforms.files import read_text

FORMATS = (
    "sacct --parsable2, a range of Prometheus in JSON, lines of milliseconds,add|remove,node, a "
    "CSV file with columns time,node,cause,kind,repair or time,badput,seconds,node, or a trace "
    "with time,component"
)


def read_log(
    path: Path, nodes: int | None = None, gpus_per_node: int = 8, span_s: float | None = None
) -> FailureLog:
    """Read a log of failures, whatever its format.

    Parameters
    ----------
    path : Path
        The file.
    nodes : int, optional
        Nodes of the cluster; those that the log names if None.
    gpus_per_node : int
        GPUs of each.
    span_s : float, optional
        For how many seconds the cluster was watched, if longer than the log shows.

    Raises
    ------
    UserError
        If there is no such file, or it is none of these; names the place of the first mistake.
    """
    try:
        text = read_text(path, LARGEST_BYTES)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a log of failures") from error
    first = next((line for line in text.splitlines() if line.strip()), "")
    columns = [cell.strip().lower() for cell in first.split(",")]
    if first.lstrip().startswith(("{", "[")):
        log = read_prometheus(path, text, nodes, gpus_per_node, span_s)
    elif is_sacct(first):
        log = read_sacct(path, text, nodes, gpus_per_node, span_s)
    elif "component" in columns:
        log = read_own_trace(path, nodes, gpus_per_node, span_s)
    elif "badput" in columns:
        log = read_badput(path, text, nodes, gpus_per_node, span_s)
    elif "node" in columns or "time" in columns:
        log = read_named(path, text, nodes, gpus_per_node, span_s)
    elif first and (LINE.fullmatch(first) or columns[1:2] in (["add"], ["remove"])):
        log = read_preemptions(path, text, nodes, gpus_per_node, span_s)
    else:
        raise UserError(f"{path}:1: this is no log that is known here; give {FORMATS}")
    if not log.failures:
        raise UserError(f"{path}: nothing fails in it ({log.form}); choose a longer time")
    if not (isfinite(log.node_s) and log.node_s > 0.0):
        raise UserError(f"{path}: no node was ever up in it; there is nothing to make rates of")
    return log
