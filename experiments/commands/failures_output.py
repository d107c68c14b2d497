"""What ``faultline failures`` reads and prints in the same way everywhere."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console


def gpu_count(text: str) -> int:
    """Read a number of GPUs: a whole number from 1."""
    if not text.isdecimal() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of GPUs: use 1 to 1000000000")
    return int(text)


def output() -> Console:
    """Return where to print: lines of a file or a pipe are as long as a table needs."""
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else 120)


def duration(time_s: float) -> str:
    """Return a time in seconds as people say it: 3.09 h."""
    for seconds, name in ((86_400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if time_s >= seconds:
            return f"{time_s / seconds:.3g} {name}"
    return f"{time_s:.3g} s"
