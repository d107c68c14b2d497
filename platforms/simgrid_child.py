"""Runs inside a process of its own: loads a platform in SimGrid and plays flows on it.

SimGrid allows one engine a process and ends the process at errors, so nobody imports this module:
`simgrid_check` calls `main` in a fresh interpreter with a task as JSON on standard input, and reads
the answer as JSON from the last line of standard output.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from faultline.platforms.network_model import engine_arguments


def _flow_seconds(engine: Any, flows: list[tuple[str, str, float]]) -> list[float]:
    """Play all flows at once and return how long each took."""
    from simgrid import Comm, Engine

    seconds = [float("nan")] * len(flows)

    def play(number: int, source: Any, destination: Any, size_bytes: float) -> None:
        Comm.sendto_async(source, destination, int(size_bytes)).wait()
        seconds[number] = Engine.clock

    for number, (source, destination, size_bytes) in enumerate(flows):
        ends = [engine.host_by_name(name) for name in (source, destination)]
        ends[0].add_actor(f"flow-{number}", play, number, *ends, size_bytes)
    engine.run()
    return seconds


def _peak_memory_bytes() -> int:
    """Return the most memory that this process has had, in bytes; 0 where it cannot be known.

    The resource module would count what the parent had when it started this process.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    peak = re.search(r"VmHWM:\s*(\d+) kB", status)
    return int(peak[1]) * 1024 if peak else 0


def main() -> None:
    """Read the task, do it, print the answer."""
    from simgrid import Engine

    task = json.load(sys.stdin)
    started = perf_counter()
    engine = Engine(["faultline", "--log=root.thres:error", "--log=no_loc", *engine_arguments()])
    engine.load_platform(task["platform"])
    # Routes exist from here on, and mistakes in them show.
    engine.netzone_root.seal()
    answer: dict[str, Any] = {
        "hosts": len(engine.all_hosts),
        "load_s": perf_counter() - started,
        "peak_memory_bytes": _peak_memory_bytes(),
    }
    if task["flows"]:
        answer["seconds"] = _flow_seconds(engine, task["flows"])
    sys.stdout.write(json.dumps(answer) + "\n")
