"""Measurements, the cases that take them, and fresh interpreters to take them in.

The peak of memory there is the measurement's own.

The parent calls `answer_task` there with a task as JSON on standard input; the answer is JSON in
the last line of standard output. A process made by `multiprocessing` would not do: it imports the
main module of its parent and all that this imports.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ParamSpec

from faultline.platforms.child_python import python_command


@dataclass(frozen=True, slots=True)
class Measurement:
    """One number."""

    # What was measured.
    section: str
    what: str
    # The number: the median where there are several; None where the measurement failed.
    measured: float | None
    unit: str  # Its unit.
    minimum: float | None = None  # The best of several.
    target: float | None = None  # What it should be at most.
    ratio: float | None = None  # How many times as fast it is as `ratio_to`.
    ratio_to: str = ""  # What it is compared with.
    error: str = ""  # Why the measurement failed.

    @property
    def met(self) -> bool | None:
        """Whether the target was met; None where there is none."""
        if self.target is None or self.measured is None:
            return None
        return self.measured <= self.target


@dataclass(frozen=True, slots=True)
class Case:
    """Some measurements that are taken together."""

    # What will be measured.
    section: str
    what: str
    measure: Callable[[], list[Measurement]]  # Measures; raises `BenchmarkError` where it cannot.

    def failed(self, error: Exception) -> Measurement:
        """Return what stands in the table where the case could not be measured."""
        return Measurement(self.section, self.what, None, "", error=" ".join(str(error).split()))


Arguments = ParamSpec("Arguments")
Answer = dict[str, Any]

_TIMEOUT_S = 300.0


class BenchmarkError(RuntimeError):
    """A measurement came to no end; the message says why in one line."""


def measured(
    function: Callable[Arguments, Answer], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Answer:
    """Call a module-level function in a fresh process, with arguments that JSON can tell.

    Returns what the function returned, and ``peak_mb``: the peak memory of its process.

    Raises BenchmarkError if the function failed, or took longer than five minutes.
    """
    task = json.dumps([function.__module__, function.__name__, args, kwargs])
    try:
        child = subprocess.run(
            python_command(f"from {__name__} import answer_task; answer_task()"),
            input=task,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchmarkError(f"no end after {_TIMEOUT_S:g} s") from error
    if child.returncode != 0:
        lines = child.stderr.strip().splitlines() or [f"exit status {child.returncode}"]
        raise BenchmarkError(lines[-1])
    answer: Answer = json.loads(child.stdout.splitlines()[-1])
    return answer


def peak_memory_bytes() -> int:
    """Return the largest resident memory that this process has had."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        import resource

        # On Linux this would count what the parent had in memory when it started the process.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def answer_task() -> None:
    """Read a task, call its function, and print the answer."""
    module, name, args, kwargs = json.load(sys.stdin)
    answer: Answer = getattr(import_module(module), name)(*args, **kwargs)
    answer.setdefault("peak_mb", peak_memory_bytes() / 1e6)
    print(json.dumps(answer))
