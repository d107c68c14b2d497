"""Runs a graph of activities, each started separately, on hosts that may fail meanwhile.

SimGrid aborts if a host with a task goes off, so `graph_runner` is for steps in which nothing
fails. Separate activities end with their host, and ranks that need them wait for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cache, partial
from math import inf

import simgrid
from faultline.simulator.pattern.activity_graph import ActivityGraph, Rank
from faultline.simulator.simgrid.graph_runner import HostOf, mean_latency_s, work_of
from faultline.simulator.simgrid.storage_traffic import BROKEN_OFF, may_begin


class BreakableGraph:
    """A graph that runs once, until its end or until no activity can go on.

    If a host goes off, its messages stop, and so do the other messages of their rings, whose
    members wait for each other. Activities that wait for a stopped message never begin.
    Computations of some ranks take `factors` times as long. `off_s` is when hosts go off, by their
    names, in simulated seconds.
    """

    def __init__(
        self,
        graph: ActivityGraph,
        host_of: HostOf,
        factors: Mapping[Rank, float],
        off_s: Mapping[str, float],
    ) -> None:
        self._graph, self._host_of = graph, host_of
        self._latency_s = cache(partial(mean_latency_s, host_of=host_of))
        self._factors, self._off_s = factors, off_s
        self._waiting_for = list(map(len, graph.waits_for))
        self._successors: list[list[int]] = [[] for _ in graph.activities]
        for number, before in enumerate(graph.waits_for):
            for predecessor in before:
                self._successors[predecessor].append(number)
        # Gradients that hide behind the passes: no rank waits for them before the step's end.
        self._waited_for = [
            bool(after) or activity.kind != "gradient"
            for after, activity in zip(self._successors, graph.activities, strict=True)
        ]
        self._running: dict[int, simgrid.Comm | simgrid.Exec] = {}
        self._lost: set[int] = set()
        self._stopped = False
        self._passed, self._ended = simgrid.Semaphore(0), simgrid.Semaphore(0)

    def start(self) -> None:
        """Start an actor that runs the graph, from within another one."""
        simgrid.this_actor.get_host().add_actor("breakable graph", self._run)

    def wait(self) -> None:
        """Wait, from within an actor, until no activity runs that a rank waits for."""
        self._passed.acquire()

    def ends_before(self, time_s: float) -> bool:
        """Wait, from within an actor, for the end of the graph, until a time at most.

        Returns whether all activities have ended by then. May be called once.
        """
        if time_s == inf:
            self._ended.acquire()
            return not self._lost
        timeout_s = time_s - simgrid.Engine.clock
        # A time-out of 0 means none to SimGrid.
        return timeout_s > 0.0 and not self._ended.acquire_timeout(timeout_s) and not self._lost

    def stop(self) -> None:
        """Cancel all running activities, from within an actor, and begin no others."""
        self._stopped = True
        for activity in list(self._running.values()):
            activity.cancel()

    def _run(self) -> None:
        ready = deque(number for number, count in enumerate(self._waiting_for) if not count)
        has_passed = False
        while ready or self._running:
            self._begin(ready)
            if not has_passed and not any(self._waited_for[number] for number in self._running):
                self._passed.release()
                has_passed = True
            if self._running:
                self._wait_for_any(ready)
        if not has_passed:
            self._passed.release()
        self._ended.release()

    def _begin(self, ready: deque[int]) -> None:
        """Start all activities that are ready; those without duration end at once."""
        for number in [number for number in ready if not self._can_begin(number)]:
            self._lose(number)
        while ready:
            number = ready.popleft()
            if number in self._lost:
                continue
            if not self._can_begin(number):
                self._lose(number)
                continue
            activity = self._graph.activities[number]
            here, there, amount = work_of(activity, self._host_of, self._latency_s)
            if not amount:
                self._end(number, ready)
            elif there is None:
                factor = 1.0 if activity.ring else self._factors.get(activity.rank, 1.0)
                computation = simgrid.this_actor.exec_init(amount * factor)
                computation.host = here
                self._running[number] = computation.start()
            else:
                self._running[number] = simgrid.Comm.sendto_async(here, there, round(amount))

    def _wait_for_any(self, ready: deque[int]) -> None:
        pending = simgrid.ActivitySet()
        for activity in self._running.values():
            pending.push(activity)
        with suppress(*BROKEN_OFF):
            pending.wait_any()
        for number, activity in list(self._running.items()):
            if number not in self._running:
                continue
            try:
                has_ended = activity.test()
            except BROKEN_OFF:
                del self._running[number]
                self._lose(number)
                continue
            if has_ended:
                del self._running[number]
                self._end(number, ready)

    def _end(self, number: int, ready: deque[int]) -> None:
        for successor in self._successors[number]:
            self._waiting_for[successor] -= 1
            if not self._waiting_for[successor] and successor not in self._lost:
                ready.append(successor)

    def _lose(self, number: int) -> None:
        """Give up an activity, and all messages of its ring."""
        for message in self._ring_of(number):
            self._lost.add(message)
            activity = self._running.pop(message, None)
            if activity is not None:
                activity.cancel()

    def _ring_of(self, number: int) -> Collection[int]:
        """Return an activity and the messages of its ring: those with the same meeting."""
        activities, waits_for = self._graph.activities, self._graph.waits_for
        meetings = [
            successor
            for successor in self._successors[number]
            if activities[successor].kind == "meeting" or activities[successor].ring
        ]
        return {number, *(message for meeting in meetings for message in waits_for[meeting])}

    def _can_begin(self, number: int) -> bool:
        if self._stopped:
            return False
        activity = self._graph.activities[number]
        hosts = (self._host_of(rank) for rank in (activity.rank, activity.peer) if rank)
        return may_begin(hosts, self._off_s)
