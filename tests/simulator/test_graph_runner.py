"""Graphs of tasks beside actors: what one sets, the others do not wait for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# Another actor wants Python's lock in each moment in which the first one changes a graph.
SCENE = """
import sys
from pathlib import Path
import simgrid
from faultline.platforms.xml_names import CONTROLLER_HOST
from faultline.platforms import read_platform
from faultline.simulator.pattern.activity_graph import Activity, ActivityGraph, Rank
from faultline.simulator.simgrid_engine.graph_runner import GraphRunner
from faultline.simulator.simgrid_engine.loading import actor_on, load_engine

path = Path(sys.argv[1])
engine = load_engine(path)
host = simgrid.Host.by_name(read_platform(path).gpu_names[0])
rank = Rank(0, 0, 0)
graph = ActivityGraph([Activity("forward", rank, None, host.speed)], [()])
runner = GraphRunner(graph, lambda rank: host)
ended, awake = [], simgrid.Semaphore(0)


def simulate():
    for factor in (1.0, 2.0, 3.0, 1.0):
        for _ in range(4):
            awake.release()
        runner.slow_down({rank: factor})
        runner.start()
        runner.wait()
        ended.append(round(simgrid.Engine.clock, 6))


def chatter():
    while True:
        awake.acquire()
        for _ in range(100):
            simgrid.this_actor.yield_()


for number in range(4):
    actor_on(CONTROLLER_HOST, f"chatter {number}", chatter, daemon=True)
actor_on(CONTROLLER_HOST, "simulate", simulate)
engine.run()
print(ended)
"""


def test_a_graph_changes_while_other_actors_are_awake(platform_of: Callable[[int], Path]) -> None:
    """Four runs of a second each at factors 1, 2, 3, 1 end at 1, 3, 6 and 7 s."""
    simulated = subprocess.run(
        [sys.executable, "-c", SCENE, str(platform_of(4))],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert simulated.stdout.strip() == "[1.0, 3.0, 6.0, 7.0]", simulated.stderr
