"""The work of a worker: a process that executes tasks, and keeps its imports and its platforms."""

from __future__ import annotations

import gc
import os
import re
import resource
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

from faultline.experiments.config.errors import EXPLAINED
from faultline.experiments.runs.point import Request, RunOutcome
from faultline.platforms.errors import one_line
from faultline.platforms.units import SIZE, format_quantity
from faultline.simulator.processes.process import end_with_parent, fork_from_here
from faultline.strategies.interface.errors import text_of


def begin() -> None:
    """Prepare a new worker process: it is silent, and ends with the process that started it."""
    end_with_parent()
    fork_from_here()
    gc.freeze()
    gc.set_threshold(100_000)  # Platforms and jobs have no cycles: a search finds little.
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)
    # Out of memory, the kernel should kill a worker rather than the sweep.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def perform(request: Request) -> RunOutcome:
    """Execute a task in this process; an error is an outcome, too.

    Another process enforces the limit of time.
    """
    try:
        os.chdir(request.folder)
    except OSError:
        # If the folder is missing here, a relative path must not name some other file.
        os.chdir("/")
    most_bytes, began_s = request.limits.memory_bytes, monotonic()
    value, error, trace = None, None, None
    try:
        with _memory_limited(most_bytes):
            value = request.task.simulate()
    except MemoryError:
        error = _out_of_memory(most_bytes)
    except (Exception, SystemExit) as raised:
        error = _explained(raised)
        trace = None if isinstance(raised, EXPLAINED) else traceback.format_exc()
    return RunOutcome(value, error, trace, wall_s=monotonic() - began_s)


@contextmanager
def _memory_limited(most_bytes: int | None) -> Iterator[None]:
    """Let the kernel refuse this process, and those it forks, more data than a limit."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _out_of_memory(most_bytes: int | None) -> str:
    if most_bytes is None:
        return "out of memory"
    return f"exceeded its memory limit of {format_quantity(most_bytes, SIZE)}"


def _explained(error: BaseException) -> str:
    """Return an error as one line that is the same in each run."""
    text = str(error) if isinstance(error, EXPLAINED) else text_of(error)
    # Addresses in memory differ from run to run.
    return one_line(re.sub(r" at 0x[0-9a-fA-F]+", "", text))
