"""A rank: the actor that does a group's work, on a host that may go off at any moment.

Orders and reports take no simulated time: the cost of a job's control plane is the scenario's
controller time. Data that ranks exchange goes through SimGrid's network.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Generic, TypeVar

import simgrid
from faultline.simulator.failures.random_streams import Purpose, stream
from faultline.simulator.job.compute_times import LEAST_COMPUTE_FACTOR

Message = TypeVar("Message")


class Channel(Generic[Message]):
    """An unbounded queue between actors; `get` blocks the actor that calls it.

    The queue holds the messages; the semaphore only wakes an actor that waits. An actor that is
    killed in the middle of its `put` may leave a message without a signal of the semaphore.
    """

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._wake = simgrid.Semaphore(0)

    def put(self, message: Message) -> None:
        """Add a message; never blocks."""
        self._messages.append(message)
        self._wake.release()

    def get(self) -> Message:
        """Wait for the next message."""
        while not self._messages:
            self._wake.acquire()
        return self._messages.popleft()

    def get_before(self, time_s: float) -> Message | None:
        """Wait for the next message until `time_s`, in simulated seconds; None if none came."""
        if time_s == inf:
            return self.get()
        while not self._messages:
            timeout_s = time_s - simgrid.Engine.clock
            # A time-out of 0 means none to SimGrid.
            if timeout_s <= 0.0 or self._wake.acquire_timeout(timeout_s):
                return None
        return self._messages.popleft()


@dataclass(frozen=True, slots=True)
class ComputeOrder:
    """Compute `stacks` stacks that take `stack_s` seconds each at a factor of 1.

    If the group's passes are `simulated` separately, the rank only waits for their expected end.
    """

    stacks: int
    stack_s: float
    simulated: bool = False


Order = ComputeOrder | Callable[[], bool]
"""Stacks to compute, or a function to call; it returns whether it has succeeded."""


@dataclass(frozen=True, slots=True)
class Report:
    """A rank has ended an order; `done` is whether the order has succeeded."""

    group: int
    order: Order
    done: bool
    time_s: float


@dataclass(frozen=True, slots=True)
class Ready:
    """A rank has come up."""

    group: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A group's hosts went down."""

    group: int


class Reduced:
    """All hosts have finished an all-reduce; each all-reduce has an object of its own."""


News = Report | Ready | Failed | Reduced


class Pace:
    """The compute times of one rank: one factor N(1, jitter^2) per stack, none below a minimum."""

    def __init__(self, group: int, jitter: float, seed: int) -> None:
        self._jitter = jitter
        self._normals = stream(seed, Purpose.RANK_COMPUTE_JITTER, group)

    def factor(self) -> float:
        """Draw the factor of the next stack."""
        if self._jitter == 0.0:
            return 1.0
        factor = 1.0 + self._jitter * float(self._normals.standard_normal())
        return max(LEAST_COMPUTE_FACTOR, factor)


@dataclass(slots=True)
class RankActor:
    """A callable that SimGrid runs as an actor; it ends when its host goes off."""

    group: int
    pace: Pace  # Draws its compute times; outlives the actor.
    news: Channel[News]
    boot_until_s: float = 0.0  # Simulated time at which it has come up.
    announce: bool = False  # Whether it reports that it has come up.
    orders: Channel[Order] = field(default_factory=Channel)

    def __call__(self) -> None:
        """Come up, then carry out orders until the host goes off."""
        simgrid.this_actor.sleep_until(self.boot_until_s)
        if self.announce:
            self.news.put(Ready(self.group))
        while True:
            order = self.orders.get()
            done = self._carry_out(order)
            self.news.put(Report(self.group, order, done, simgrid.Engine.clock))

    def _carry_out(self, order: Order) -> bool:
        if not isinstance(order, ComputeOrder):
            return order()
        speed = simgrid.this_actor.get_host().speed
        for _ in range(order.stacks):
            seconds = order.stack_s * self.pace.factor()
            if order.simulated:
                simgrid.this_actor.sleep_for(seconds)
            else:
                simgrid.this_actor.execute(seconds * speed)
        return True
