"""Runs a graph of activities as SimGrid's tasks: no switch to Python between two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial

import simgrid
from faultline.simulator.pattern.activity_graph import Activity, ActivityGraph, Kind, Rank, Ring
from faultline.simulator.simgrid_engine.links import way_between

HostOf = Callable[[Rank], simgrid.Host]
Signal = Callable[[Callable[[simgrid.Task], None]], None]
"""Registers the callback for the start or end of a task."""


@dataclass(frozen=True, slots=True)
class Span:
    """When an activity of the rank that was watched took place, in simulated seconds."""

    kind: Kind
    begun_s: float
    ended_s: float


def mean_latency_s(ring: Ring, host_of: HostOf) -> float:
    """Return the mean latency of the messages of a ring, in seconds."""
    ways = [
        (way_between(host_of(one).name, host_of(peer).name), share) for one, peer, share in ring
    ]
    return sum(share * way.latency_s for way, share in ways) / sum(share for _, share in ways)


class GraphRunner:
    """A graph that is built once, and simulated any number of times.

    Attributes
    ----------
    hides : bool
        Whether gradients may last longer than all that waits for none.
    spans : list of Span
        The activities of the `watched` rank, if one is.
    ended_s : float
        When the graph last reached its end, in simulated seconds.
    passed_s : float
        When its last activity ended but for gradients that nothing in the graph waits for.
    """

    def __init__(self, graph: ActivityGraph, host_of: HostOf, watched: Rank | None = None) -> None:
        self.spans: list[Span] = []
        self.ended_s = self.passed_s = 0.0
        self._ended, self._passed = simgrid.Semaphore(0), simgrid.Semaphore(0)
        latency_s = cache(partial(mean_latency_s, host_of=host_of))
        self._tasks = [
            _task(number, activity, host_of, latency_s)
            for number, activity in enumerate(graph.activities)
        ]
        self._computed = [
            (task, one.rank, one.amount)
            for task, one in zip(self._tasks, graph.activities, strict=True)
            if one.peer is None and one.amount and not one.ring
        ]
        self._slow: Mapping[Rank, float] = {}
        self._wanted: Mapping[Rank, float] = self._slow
        # One call begins them all: from within an actor each costs two switches of threads.
        self._begin = simgrid.ExecTask.init("begin", 0.0, host_of(graph.activities[0].rank))
        self._begin.on_this_completion_cb(self._set_flop)
        waited_for: set[int] = set()
        for task, numbers in zip(self._tasks, graph.waits_for, strict=True):
            for number in numbers:
                self._tasks[number].add_successor(task)
            waited_for.update(numbers)
            if not numbers:
                self._begin.add_successor(task)
        leaves = [number for number in range(len(self._tasks)) if number not in waited_for]
        passes = [number for number in leaves if graph.activities[number].kind != "gradient"]
        somewhere = host_of(graph.activities[0].rank)
        # Without hidden gradients both ends are one.
        ends = [("end", leaves, self._end)]
        self.hides = 0 < len(passes) < len(leaves)
        if self.hides:
            ends.append(("passed", passes, self._pass))
        for name, last, on_end in ends:
            # Kept with the others: a task that Python collects crashes SimGrid.
            end = simgrid.ExecTask.init(name, 0.0, somewhere)
            for number in last:
                self._tasks[number].add_successor(end)
            end.on_this_completion_cb(on_end)
            self._tasks.append(end)
        self._length = len(self._tasks) + 1
        if watched is not None:
            for number, activity in enumerate(graph.activities):
                senders = [here for here, _, _ in activity.ring] or [activity.rank]
                task = self._tasks[number]
                if watched in senders and activity.kind != "meeting":
                    self._watch(activity.kind, task.on_this_start_cb, task.on_this_completion_cb)
                for before in graph.waits_for[number] if activity.kind == "meeting" else ():
                    own = graph.activities[before]
                    if own.rank == watched and own.kind == "tensor":
                        # The rank waits until all messages of its ring have arrived.
                        sent = self._tasks[before].on_this_completion_cb
                        self._watch(own.kind, sent, task.on_this_completion_cb)

    def __len__(self) -> int:
        return self._length

    def free(self) -> None:
        """Release the tasks; the graph is not simulated again.

        Tasks refer to this object by their callbacks: both would be kept as long as the process.
        """
        self._tasks.clear()
        self._computed.clear()
        del self._begin

    def slow_down(self, factors: Mapping[Rank, float]) -> None:
        """Set factors on the computations of some ranks, from the next run on.

        Other ranks compute at their own speed.
        """
        self._wanted = factors

    def start(self) -> None:
        """Start to run the graph once; its last run has ended."""
        self._begin.enqueue_firings(1)

    def wait(self) -> None:
        """Wait, from within an actor, until its last activity has ended."""
        self._ended.acquire()

    def simulate(self) -> None:
        """Run the graph once, from within an actor."""
        self.start()
        self.wait()

    def wait_for_passes(self) -> None:
        """Wait for all but gradients that nothing in the graph waits for; `wait` comes after it."""
        (self._passed if self.hides else self._ended).acquire()
        if not self.hides:
            self._ended.release()

    def simulate_alone(self, engine: simgrid.Engine) -> float:
        """Run the graph once where there are no actors; return the simulated seconds it takes.

        Built and started from outside of actors, a graph takes a tenth of the time to set up: no
        call into SimGrid is then a switch between threads.
        """
        begun_s = engine.clock
        self._begin.enqueue_firings(1)
        engine.run()
        return float(engine.clock - begun_s)

    def _set_flop(self, _task: simgrid.Task) -> None:
        """Give tasks the FLOP of slow ranks.

        SimGrid's own thread calls this when a run begins. An actor must not do it: setting FLOP
        keeps Python's lock while other actors run, and one that wants the lock waits for ever.
        """
        if self._wanted == self._slow:
            return
        for task, rank, amount in self._computed:
            factor = self._wanted.get(rank, 1.0)
            if factor != self._slow.get(rank, 1.0):
                # The property does not know that a task may have several instances.
                simgrid.ExecTask.flops.fset(task, amount * factor, "instance_0")
        self._slow = self._wanted

    def _end(self, _task: simgrid.Task) -> None:
        self.ended_s = simgrid.Engine.clock
        if not self.hides:
            self.passed_s = self.ended_s
        self._ended.release()

    def _pass(self, _task: simgrid.Task) -> None:
        self.passed_s = simgrid.Engine.clock
        self._passed.release()

    def _watch(self, kind: Kind, on_begin: Signal, on_end: Signal) -> None:
        """Note a span from one signal of SimGrid's tasks to the next one of another."""
        begun_s = 0.0

        def begin(_task: simgrid.Task) -> None:
            nonlocal begun_s
            begun_s = simgrid.Engine.clock

        def end(_task: simgrid.Task) -> None:
            self.spans.append(Span(kind, begun_s, simgrid.Engine.clock))

        on_begin(begin)
        on_end(end)


def _task(
    number: int, activity: Activity, host_of: HostOf, latency_s: Callable[[Ring], float]
) -> simgrid.Task:
    """Return the task of an activity; `latency_s` is the mean latency of a ring's messages."""
    here = host_of(activity.rank)
    if activity.ring:
        waits_s = activity.amount * latency_s(activity.ring)
        return simgrid.ExecTask.init(str(number), waits_s * here.speed, here)
    if activity.peer is None:
        return simgrid.ExecTask.init(str(number), activity.amount, here)
    there = host_of(activity.peer)
    if there == here:
        # A node with stages of several pipelines sends nothing to itself.
        return simgrid.ExecTask.init(str(number), 0.0, here)
    return simgrid.CommTask.init(str(number), activity.amount, here, there)
