"""Ends work at a time, whatever it waits for: a simulation, a measurement, another process."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf


class OutOfTimeError(BaseException):
    """The real time is over. As an interrupt is, it is no `Exception` that others may handle."""


@contextmanager
def deadline(ends_s: float) -> Iterator[None]:
    """Raise an OutOfTimeError within the context at a time of the monotonic clock, in seconds.

    Only the main thread can be interrupted; in another thread the context just runs to its end.
    """
    left_s = ends_s - time.monotonic()
    if left_s <= 0.0:
        raise OutOfTimeError
    if left_s == inf or threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise OutOfTimeError

    before, began_s = signal.signal(signal.SIGALRM, end), time.monotonic()
    outer_s, _ = signal.setitimer(signal.ITIMER_REAL, left_s)
    try:
        yield
    finally:
        rest_s = max(outer_s - (time.monotonic() - began_s), 1e-3) if outer_s else 0.0
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, rest_s)
