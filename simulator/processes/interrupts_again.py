"""The last import of a fork server: from here on, it and its processes heed interrupts as usual."""

from __future__ import annotations

import signal

_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # An earlier one was for the owner.
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
signal.signal(signal.SIGINT, _handler)
