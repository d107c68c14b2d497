"""An all-reduce of steady flows takes no thread for each of its hosts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

HOSTS = 64
SCENE = """
import os, sys
from pathlib import Path
import simgrid
from faultline.platforms import read_platform
from faultline.platforms.xml_names import CONTROLLER_HOST
from faultline.simulator.simgrid_engine.group_all_reduce import GroupAllReduce
from faultline.simulator.simgrid_engine.loading import actor_on, load_engine

path, fidelity = Path(sys.argv[1]), sys.argv[2]
engine, threads = load_engine(path), []


def simulate():
    ended = simgrid.Semaphore(0)
    hosts = [[name] for name in read_platform(path).gpu_names]
    rings = GroupAllReduce(hosts, 1e9, fidelity)
    before = len(os.listdir("/proc/self/task"))
    rings.start(range(len(hosts)), ended.release)
    simgrid.this_actor.sleep_for(1e-6)
    threads.append(len(os.listdir("/proc/self/task")) - before)
    ended.acquire()


actor_on(CONTROLLER_HOST, "simulate", simulate)
engine.run()
print(threads[0], engine.clock)
"""


def test_one_actor_begins_all_steady_flows(platform_of: Callable[[int], Path]) -> None:
    """Every message by itself takes an actor for each host, and ends at the same time."""
    (few, flows_s), (many, messages_s) = (
        map(float, simulated(platform_of(HOSTS), fidelity)) for fidelity in ("flow", "chunk")
    )
    assert few == 1.0
    assert many == HOSTS
    assert abs(flows_s / messages_s - 1.0) < 1e-4


def simulated(path: Path, fidelity: str) -> list[str]:
    """Return the threads that an all-reduce takes, and when it has ended, in seconds."""
    scene = subprocess.run(
        [sys.executable, "-c", SCENE, str(path), fidelity],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return scene.stdout.split()
