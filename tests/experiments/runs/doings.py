"""Functions that workers call in tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


def double(number: int) -> int:
    """Return twice a number."""
    return 2 * number


def end(how: str) -> None:
    """End this process."""
    if how == "abort":
        os.abort()
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(3)


def end_once(mark: str) -> str:
    """End this process if no process has done so before."""
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "second"


def allocate(size_bytes: int) -> int:
    """Use memory for a moment."""
    return len(bytearray(size_bytes))


def print_much(_: None) -> str:
    """Print in all ways, and return the input."""
    print("x" * 100_000)
    os.write(2, b"from C")
    subprocess.run(["echo", "from a program"], check=True, timeout=60)
    return sys.stdin.read(10)
