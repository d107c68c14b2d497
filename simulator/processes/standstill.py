"""Detects that a simulation's process is deadlocked, because it uses no processor time."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress
from pathlib import PurePath

LOOK_EVERY_S = 10.0
LIMIT_S = 120.0
"""Seconds of real time without processor time after which a process is deadlocked."""

_FRAME = re.compile(r'File "([^"]*)", line (\d+) in (\S+)')


class Watch:
    """Follows the processor time of a process, by its number, and of all processes below it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used_s = -1.0
        self._since_s = time.monotonic()

    def stands_still(self) -> bool:
        """Return whether they have used no processor time for `LIMIT_S`; False if unknown."""
        used_s = self._processor_s()
        if used_s is None or used_s != self._used_s:
            self._used_s, self._since_s = used_s or 0.0, time.monotonic()
        return time.monotonic() - self._since_s >= LIMIT_S

    def _processor_s(self) -> float | None:
        # Needed only if a simulation takes long.
        import psutil

        with suppress(psutil.Error, OSError):
            root = psutil.Process(self._pid)
            processes = [root, *root.children(recursive=True)]
            if any(process.status() == psutil.STATUS_STOPPED for process in processes):
                return None
            return sum(sum(process.cpu_times()[:2]) for process in processes)
        return None


def lines_of_threads(pid: int, errors: int) -> str:
    """Return the current lines of code of a process's threads, four at most.

    On SIGUSR1 the process prints its threads (`faulthandler`) into the file with the descriptor
    `errors`.
    """
    begin = os.fstat(errors).st_size
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGUSR1)
        time.sleep(0.5)
    text = os.pread(errors, 1 << 20, begin).decode(errors="replace")
    innermost: dict[str, None] = {}
    for thread in text.split("hread 0x")[1:]:
        if found := _FRAME.search(thread):
            path, line, function = found.groups()
            innermost[f"{PurePath(path).name}:{line} {function}"] = None
    return ", ".join([*innermost][:4]) or "unknown"
