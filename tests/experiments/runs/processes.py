"""Requests to run, and the processes that running them starts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, TypeVar

import psutil
from faultline.experiments.config.grid import EngineName
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.point import Limits, Point, Request

Value = TypeVar("Value")

PATIENCE_S = 120.0
"""What a test waits for a process at most, in seconds, before it fails."""

# Steps that no engine gets through while a test looks on.
ENDLESS = "job.steps=1000000000"


def request(
    name: str,
    *settings: str,
    seed: int = 0,
    engine: EngineName = "replay",
    of: str = "spare-study",
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
) -> Request:
    """A request to run a shipped scenario with some settings."""
    scenario = load_scenario(of, ["job.groups=12", "job.steps=50", *settings])
    return Request(name, Point(scenario, seed, engine), limits)


def wait_for(what: Callable[[], Value], patience_s: float = PATIENCE_S) -> Value:
    """Return the first true value of a function, or its last one when patience ends."""
    deadline = monotonic() + patience_s
    while not (value := what()) and monotonic() < deadline:
        sleep(0.02)
    return value


def running(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those of some processes that still run; a zombie that is not yet reaped does not."""
    left = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                left.append(process)
    return left


def simulated_by(number: int | None = None) -> list[psutil.Process]:
    """All workers of a process, and the processes that they started for SimGrid."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for child in running(psutil.Process(number).children()):
            # The fork server stays: it has workers as its children.
            with suppress(psutil.NoSuchProcess):
                found += running(child.children(recursive=True))
    return found


def gone(processes: list[psutil.Process]) -> bool:
    """Whether all processes end, in a while."""
    return wait_for(lambda: not running(processes))


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    """Whether a process listens at a port of this machine."""
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def start_python(*words: str, **options: Any) -> subprocess.Popen[Any]:
    """Start Python on what this process imports, heeding signals whatever its caller ignores."""
    return subprocess.Popen(
        [sys.executable, *words],
        env=with_tests(),
        preexec_fn=_heed_signals,  # noqa: PLW1509 - it takes no lock
        **options,
    )


def _heed_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def with_tests() -> dict[str, str]:
    """The environment of a process that imports what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
