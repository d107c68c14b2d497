"""Messages that take no simulated time.

Faultline does not study the control plane of a job (orders and reports): its cost
is the scenario's controller time. What ranks exchange as data goes through SimGrid's network.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Generic, TypeVar

import simgrid

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
            # SimGrid takes a time-out of 0 for none at all.
            if timeout_s <= 0.0 or self._wake.acquire_timeout(timeout_s):
                return None
        return self._messages.popleft()
