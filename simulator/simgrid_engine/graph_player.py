"""Plays a graph of activities as SimGrid's tasks: no switch to Python between two of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import simgrid
from faultline.simulator.pattern.activity_graph import Activity, ActivityGraph, Kind, Rank

HostOf = Callable[[Rank], simgrid.Host]


@dataclass(frozen=True, slots=True)
class Span:
    """When an activity of the rank that was watched took place, in simulated seconds."""

    kind: Kind
    begun_s: float
    ended_s: float


class GraphPlayer:
    """A graph that is built once, and played as often as is asked.

    Parameters
    ----------
    graph : ActivityGraph
        What is played; at least one activity.
    host_of : callable
        The host of a rank.
    watched : Rank, optional
        Whose activities are noted.

    Attributes
    ----------
    spans : list of Span
        What that rank did.
    ended_s : float
        When the graph was last played to its end, in simulated seconds.
    """

    def __init__(self, graph: ActivityGraph, host_of: HostOf, watched: Rank | None = None) -> None:
        self.spans: list[Span] = []
        self.ended_s = 0.0
        self._begun_s: dict[int, float] = {}
        self._ended = simgrid.Semaphore(0)
        self._tasks = [
            self._task(number, activity, host_of)
            for number, activity in enumerate(graph.activities)
        ]
        self._computed = [
            (task, one.rank, one.amount)
            for task, one in zip(self._tasks, graph.activities, strict=True)
            if one.peer is None and one.amount
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
        # Kept with the others: a task that Python collects crashes SimGrid.
        end = simgrid.ExecTask.init("end", 0.0, host_of(graph.activities[0].rank))
        for number, task in enumerate(self._tasks):
            if number not in waited_for:
                task.add_successor(end)
        end.on_this_completion_cb(self._end)
        self._tasks.append(end)
        if watched is not None:
            for number, activity in enumerate(graph.activities):
                if activity.rank == watched and activity.kind != "meeting":
                    self._watch(number, activity.kind)

    def __len__(self) -> int:
        return len(self._tasks) + 1

    def slow_down(self, factors: Mapping[Rank, float]) -> None:
        """Let some ranks take so many times as long for what they compute, from the next play on.

        Other ranks compute at their own speed.
        """
        self._wanted = factors

    def start(self) -> None:
        """Start to play the graph once; its last play has ended."""
        self._begin.enqueue_firings(1)

    def wait(self) -> None:
        """Wait, from within an actor, until its last activity has ended."""
        self._ended.acquire()

    def play_alone(self, engine: simgrid.Engine) -> float:
        """Play the graph once where there are no actors; return the simulated seconds it takes.

        Built and started from outside of actors, a graph takes a tenth of the time to set up: no
        call into SimGrid is then a switch between threads.
        """
        begun_s = engine.clock
        self._begin.enqueue_firings(1)
        engine.run()
        return float(engine.clock - begun_s)

    def _set_flop(self, _task: simgrid.Task) -> None:
        """Give tasks the FLOP of slow ranks.

        SimGrid's own thread calls this when a play begins. An actor must not do it: setting FLOP
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
        self._ended.release()

    @staticmethod
    def _task(number: int, activity: Activity, host_of: HostOf) -> simgrid.Task:
        here = host_of(activity.rank)
        if activity.peer is None:
            return simgrid.ExecTask.init(str(number), activity.amount, here)
        there = host_of(activity.peer)
        if there == here:
            # A node that does stages of several pipelines has what it would send to itself.
            return simgrid.ExecTask.init(str(number), 0.0, here)
        return simgrid.CommTask.init(str(number), activity.amount, here, there)

    def _watch(self, number: int, kind: Kind) -> None:
        def begin(_task: simgrid.Task) -> None:
            self._begun_s[number] = simgrid.Engine.clock

        def end(_task: simgrid.Task) -> None:
            self.spans.append(Span(kind, self._begun_s.pop(number), simgrid.Engine.clock))

        self._tasks[number].on_this_start_cb(begin)
        self._tasks[number].on_this_completion_cb(end)
