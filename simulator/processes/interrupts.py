"""Interrupts that wait: Ctrl-C, or an alarm, at the wrong moment would leave garbage behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Let Ctrl-C and alarms wait until the end of the context.

    Threads and processes that start within it get none until they unblock it: they inherit the mask
    of signals.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGALRM])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
