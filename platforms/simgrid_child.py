"""The child process that loads a platform in SimGrid and simulates flows on it.

SimGrid allows one engine per process and ends the process at errors. So `simgrid_check` calls
`main` in a new interpreter. The task is JSON on standard input. The result is JSON in the last line
of standard output.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from faultline.platforms.network_model import engine_arguments


def _flow_seconds(engine: Any, flows: list[tuple[str, str, float]]) -> list[float]:
    """Start all flows at once and return the duration of each, in s."""
    from simgrid import Comm, Engine

    seconds = [float("nan")] * len(flows)

    def send(number: int, source: Any, destination: Any, size_bytes: float) -> None:
        Comm.sendto_async(source, destination, int(size_bytes)).wait()
        seconds[number] = Engine.clock

    for number, (source, destination, size_bytes) in enumerate(flows):
        ends = [engine.host_by_name(name) for name in (source, destination)]
        ends[0].add_actor(f"flow-{number}", send, number, *ends, size_bytes)
    engine.run()
    return seconds


def main() -> None:
    """Read the task, run it, print the result."""
    from simgrid import Engine

    task = json.load(sys.stdin)
    engine = Engine(["faultline", "--log=root.thres:error", "--log=no_loc", *engine_arguments()])
    engine.load_platform(task["platform"])
    # Computes the routes, and reports mistakes in them.
    engine.netzone_root.seal()
    result: dict[str, Any] = {"hosts": len(engine.all_hosts)}
    if task["flows"]:
        result["seconds"] = _flow_seconds(engine, task["flows"])
    sys.stdout.write(json.dumps(result) + "\n")
