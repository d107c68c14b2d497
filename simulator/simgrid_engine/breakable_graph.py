"""Runs a graph of activities, each started separately, on hosts that may fail meanwhile.

SimGrid aborts if a host with a task goes off, so `graph_runner` is for steps in which nothing
fails. Activities survive that: those on the host end, and ranks that need them wait for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from math import inf

import simgrid
from faultline.simulator.pattern.activity_graph import ActivityGraph, Rank
from faultline.simulator.simgrid_engine.graph_runner import HostOf, mean_latency_s
from faultline.simulator.simgrid_engine.storage_traffic import BROKEN_OFF, may_begin


class BreakableGraph:
    """A graph that runs once, until its end or until no activity can go on.

    A message to or from a host that is off stops, and so do the other messages of its ring: its
    members wait for each other. Activities that wait for one of these never begin. Computations of
    some ranks take `factors` times as long. `off_s` is when hosts go off, by their names, in
    simulated seconds.
    """

    def __init__(
        self,
        graph: ActivityGraph,
        host_of: HostOf,
        factors: Mapping[Rank, float],
        off_s: Mapping[str, float],
    ) -> None:
        self._graph, self._host_of = graph, host_of
        self._factors, self._off_s = factors, off_s
        self._waiting_for = list(map(len, graph.waits_for))
        self._successors: list[list[int]] = [[] for _ in graph.activities]
        for number, before in enumerate(graph.waits_for):
            for one in before:
                self._successors[one].append(number)
        # Gradients that hide behind the passes: no rank waits for them before the step's end.
        self._waited_for = [
            bool(after) or activity.kind != "gradient"
            for after, activity in zip(self._successors, graph.activities, strict=True)
        ]
        self._running: dict[int, simgrid.Comm | simgrid.Exec] = {}
        self._lost: set[int] = set()
        self._stopped = False
        self._ended, self._over = simgrid.Semaphore(0), simgrid.Semaphore(0)

    def start(self) -> None:
        """Start an actor that runs the graph, from within another one."""
        simgrid.this_actor.get_host().add_actor("breakable graph", self._run)

    def wait(self) -> None:
        """Wait, from within an actor, until no activity runs that a rank waits for."""
        self._ended.acquire()

    def over_before(self, time_s: float) -> bool:
        """Wait, from within an actor, for the end of the graph, until a time at most.

        Returns whether all activities have ended by then. To be called once.
        """
        if time_s == inf:
            self._over.acquire()
            return not self._lost
        left_s = time_s - simgrid.Engine.clock
        # SimGrid takes a time-out of 0 for none at all.
        return left_s > 0.0 and not self._over.acquire_timeout(left_s) and not self._lost

    def stop(self) -> None:
        """Cancel all running activities, from within an actor; no other begins."""
        self._stopped = True
        for activity in list(self._running.values()):
            activity.cancel()

    def _run(self) -> None:
        ready = deque(number for number, left in enumerate(self._waiting_for) if not left)
        reported = False
        while ready or self._running:
            self._begin(ready)
            if not reported and not any(self._waited_for[number] for number in self._running):
                self._ended.release()
                reported = True
            if self._running:
                self._wait_for_any(ready)
        if not reported:
            self._ended.release()
        self._over.release()

    def _begin(self, ready: deque[int]) -> None:
        """Start all activities that are ready; those without duration end at once."""
        for number in [one for one in ready if not self._can_begin(one)]:
            self._lose(number)
        while ready:
            number = ready.popleft()
            if number in self._lost:
                continue
            if not self._can_begin(number):
                self._lose(number)
                continue
            _, rank, peer, amount, ring = self._graph.activities[number]
            here, there = self._host_of(rank), None if peer is None else self._host_of(peer)
            if not amount or there == here:
                self._end(number, ready)
            elif there is None:
                flop = amount * self._factors.get(rank, 1.0)
                if ring:
                    flop = amount * mean_latency_s(ring, self._host_of) * here.speed
                work = simgrid.this_actor.exec_init(flop)
                work.host = here
                self._running[number] = work.start()
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
                over = activity.test()
            except BROKEN_OFF:
                del self._running[number]
                self._lose(number)
                continue
            if over:
                del self._running[number]
                self._end(number, ready)

    def _end(self, number: int, ready: deque[int]) -> None:
        for after in self._successors[number]:
            self._waiting_for[after] -= 1
            if not self._waiting_for[after] and after not in self._lost:
                ready.append(after)

    def _lose(self, number: int) -> None:
        """Give up an activity, and all messages of its ring."""
        for mate in self._ring_of(number):
            self._lost.add(mate)
            activity = self._running.pop(mate, None)
            if activity is not None:
                activity.cancel()

    def _ring_of(self, number: int) -> Collection[int]:
        """Return the messages of an activity's ring, which meet once all have arrived."""
        activities = self._graph.activities
        meetings = [
            after
            for after in self._successors[number]
            if activities[after].kind == "meeting" or activities[after].ring
        ]
        return {number, *(one for each in meetings for one in self._graph.waits_for[each])}

    def _can_begin(self, number: int) -> bool:
        if self._stopped:
            return False
        activity = self._graph.activities[number]
        ends = (self._host_of(one) for one in (activity.rank, activity.peer) if one)
        return may_begin(ends, self._off_s)
