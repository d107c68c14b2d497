"""Actors of SimGrid side by side: none waits for another, and steady flows take one thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.child_processes import output_of_python

# Other actors need Python's lock whenever the first one changes a graph.
CHATTER = """
import sys
from pathlib import Path
import simgrid
from faultline.platforms.xml_names import CONTROLLER_HOST
from faultline.platforms.xml_reader import read_platform
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
    assert output_of_python("-c", CHATTER, platform_of(4)) == "[1.0, 3.0, 6.0, 7.0]\n"


HOSTS = 64
ALL_REDUCE = """
import os, sys
from pathlib import Path
import simgrid
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_names import CONTROLLER_HOST
from faultline.simulator.simgrid_engine.group_all_reduce import GroupAllReduce
from faultline.simulator.simgrid_engine.loading import actor_on, load_engine

path = Path(sys.argv[1])
engine, threads = load_engine(path), []


def simulate():
    ended = simgrid.Semaphore(0)
    hosts = [[name] for name in read_platform(path).gpu_names]
    rings = GroupAllReduce(hosts, 1e9)
    before = len(os.listdir("/proc/self/task"))
    rings.start(range(len(hosts)), ended.release)
    simgrid.this_actor.sleep_for(1e-6)
    threads.append(len(os.listdir("/proc/self/task")) - before)
    ended.acquire()


actor_on(CONTROLLER_HOST, "simulate", simulate)
engine.run()
print(threads[0])
"""


def test_one_actor_begins_all_flows_of_an_all_reduce(platform_of: Callable[[int], Path]) -> None:
    assert output_of_python("-c", ALL_REDUCE, platform_of(HOSTS)) == "1\n"
