"""Runs a graph of activities as SimGrid's tasks, which start each other without Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial

import simgrid
from faultline.simulator.pattern.activity_graph import Activity, ActivityGraph, Kind, Rank, Ring
from faultline.simulator.simgrid.links import way_between

HostOf = Callable[[Rank], simgrid.Host]
Signal = Callable[[Callable[[simgrid.Task], None]], None]
"""Registers the callback for the start or end of a task."""


@dataclass(frozen=True, slots=True)
class Span:
    """Start and end of an activity of the watched rank, in simulated seconds."""

    kind: Kind
    begun_s: float
    ended_s: float


def mean_latency_s(ring: Ring, host_of: HostOf) -> float:
    """Return the mean latency of the messages of a ring, in seconds."""
    ways = [
        (way_between(host_of(sender).name, host_of(receiver).name), share)
        for sender, receiver, share in ring
    ]
    return sum(share * way.latency_s for way, share in ways) / sum(share for _, share in ways)


def work_of(
    activity: Activity, host_of: HostOf, latency_s: Callable[[Ring], float]
) -> tuple[simgrid.Host, simgrid.Host | None, float]:
    """Return the host of a computation and its FLOP, or both hosts of a message and its bytes.

    `latency_s` is the mean latency of a ring's messages, for which a host computes. A node with
    stages of several pipelines sends nothing to itself.
    """
    here = host_of(activity.rank)
    if activity.ring:
        return here, None, activity.amount * latency_s(activity.ring) * here.speed
    if activity.peer is None:
        return here, None, activity.amount
    there = host_of(activity.peer)
    return (here, None, 0.0) if there == here else (here, there, activity.amount)


class GraphRunner:
    """A graph that is built once, and simulated any number of times.

    It has passed when all activities have ended except gradients that nothing in the graph waits
    for. It `hides` if there are such gradients, besides other last activities. It has the spans of
    the `watched` rank.
    """

    def __init__(self, graph: ActivityGraph, host_of: HostOf, watched: Rank | None = None) -> None:
        self.spans: list[Span] = []
        # When the graph last ended and passed, in simulated seconds.
        self.ended_s = self.passed_s = 0.0
        self._ended, self._passed = simgrid.Semaphore(0), simgrid.Semaphore(0)
        self._tasks = _tasks_of(graph, host_of)
        self._computations = [
            (task, activity.rank, activity.amount)
            for task, activity in zip(self._tasks, graph.activities, strict=True)
            if activity.peer is None and activity.amount and not activity.ring
        ]
        self._factors: Mapping[Rank, float] = {}
        self._next_factors: Mapping[Rank, float] = {}
        # One task starts all: an actor's call into SimGrid costs two switches of threads.
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
        late = {number for number in leaves if graph.activities[number].kind == "gradient"}
        held = {
            number
            for after, numbers in enumerate(graph.waits_for)
            if after not in late
            for number in numbers
        }
        passes = [each for each in range(len(self._tasks)) if each not in held and each not in late]
        some_host = host_of(graph.activities[0].rank)
        # Without hidden gradients the passes end with the graph.
        ends = [("end", leaves, self._end)]
        self.hides = bool(passes and late)
        if self.hides:
            ends.append(("passed", passes, self._pass))
        for name, last, on_end in ends:
            # Kept with the other tasks: a task that Python collects crashes SimGrid.
            end = simgrid.ExecTask.init(name, 0.0, some_host)
            for number in last:
                self._tasks[number].add_successor(end)
            end.on_this_completion_cb(on_end)
            self._tasks.append(end)
        self._length = len(self._tasks) + 1
        if watched is not None:
            for number, activity in enumerate(graph.activities):
                senders = [sender for sender, _, _ in activity.ring] or [activity.rank]
                task = self._tasks[number]
                if watched in senders and activity.kind != "meeting":
                    self._watch(activity.kind, task.on_this_start_cb, task.on_this_completion_cb)
                for sent in graph.waits_for[number] if activity.kind == "meeting" else ():
                    message = graph.activities[sent]
                    if message.rank == watched and message.kind == "tensor":
                        # The rank waits until all messages of its ring have arrived.
                        on_arrival = self._tasks[sent].on_this_completion_cb
                        self._watch(message.kind, on_arrival, task.on_this_completion_cb)

    def __len__(self) -> int:
        return self._length

    def free(self) -> None:
        """Release the tasks; the graph is not simulated again.

        Tasks refer to this object by their callbacks: both would be kept until the process ends.
        """
        self._tasks.clear()
        self._computations.clear()
        del self._begin

    def slow_down(self, factors: Mapping[Rank, float]) -> None:
        """Multiply only the computations of some ranks by factors, from the next run on."""
        self._next_factors = factors

    def start(self) -> None:
        """Start to run the graph once; its last run must have ended."""
        self._begin.enqueue_firings(1)

    def wait(self) -> None:
        """Wait, from within an actor, until its last activity has ended."""
        self._ended.acquire()

    def simulate(self) -> None:
        """Run the graph once, from within an actor."""
        self.start()
        self.wait()

    def wait_for_passes(self) -> None:
        """Wait until the graph has passed; call `wait` next."""
        (self._passed if self.hides else self._ended).acquire()
        if not self.hides:
            self._ended.release()

    def simulate_alone(self, engine: simgrid.Engine) -> float:
        """Run the graph once, without actors; return the simulated seconds that it takes.

        Built and started outside of actors, a graph takes a tenth of the time to set up: calls into
        SimGrid then switch no threads.
        """
        begun_s = engine.clock
        self.start()
        engine.run()
        return float(engine.clock - begun_s)

    def _set_flop(self, _task: simgrid.Task) -> None:
        """Give tasks the FLOP of slow ranks.

        SimGrid's own thread calls this when a run begins. An actor must not do it: setting FLOP
        keeps Python's lock while other actors run, and an actor that needs the lock waits for ever.
        """
        if self._next_factors == self._factors:
            return
        for task, rank, amount in self._computations:
            factor = self._next_factors.get(rank, 1.0)
            if factor != self._factors.get(rank, 1.0):
                # The property lacks the parameter for a task's instance.
                simgrid.ExecTask.flops.fset(task, amount * factor, "instance_0")
        self._factors = self._next_factors

    def _end(self, _task: simgrid.Task) -> None:
        self.ended_s = simgrid.Engine.clock
        if not self.hides:
            self.passed_s = self.ended_s
        self._ended.release()

    def _pass(self, _task: simgrid.Task) -> None:
        self.passed_s = simgrid.Engine.clock
        self._passed.release()

    def _watch(self, kind: Kind, on_begin: Signal, on_end: Signal) -> None:
        """Record a span from each signal of one task to the next signal of another."""
        begun_s = 0.0

        def begin(_task: simgrid.Task) -> None:
            nonlocal begun_s
            begun_s = simgrid.Engine.clock

        def end(_task: simgrid.Task) -> None:
            self.spans.append(Span(kind, begun_s, simgrid.Engine.clock))

        on_begin(begin)
        on_end(end)


def _tasks_of(graph: ActivityGraph, host_of: HostOf) -> list[simgrid.Task]:
    tasks: list[simgrid.Task] = []
    latency_s = cache(partial(mean_latency_s, host_of=host_of))
    for number, activity in enumerate(graph.activities):
        here, there, amount = work_of(activity, host_of, latency_s)
        if there is None:
            tasks.append(simgrid.ExecTask.init(str(number), amount, here))
        else:
            tasks.append(simgrid.CommTask.init(str(number), amount, here, there))
    return tasks
