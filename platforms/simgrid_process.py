"""Run SimGrid in a child process: it allows one engine per process, and ends it at errors."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faultline.platforms.child_python import python_command
from faultline.platforms.errors import PlatformError
from faultline.platforms.simgrid_child import MOST_MEMORY_BYTES

_CONTEXT = ("Backtrace", "(the backtrace", "Configuration change", "Traceback", 'File "', "^", "~")
_NOISE = re.compile(r"^\[.*?\]\s*(?:\[[^\]]*/(?:CRITICAL|ERROR|INFO)\]\s*)?")
_RAISED = re.compile(r"[\w.]*(?:Error|Exception): (.*)")
_REASONS = {
    "No Gateway": "zones are not joined: add a <zoneRoute> with its gateways between them",
    "in an Empty zone": "its hosts have no routes: write a routing other than None",
    "std::bad_alloc": f"it needs more than {MOST_MEMORY_BYTES // 2**30} GiB of memory",
    "Segmentation fault": "it crashes at one of the routes: put a <zone routing='Full'> around a "
    "<cluster>, and join all hosts and zones",
}
"""Clear words for some messages of SimGrid."""


def run_in_simgrid(path: str | Path, task: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """Load a platform in a child process and run a task of `simgrid_child` there."""
    try:
        child = subprocess.run(
            python_command("from faultline.platforms.simgrid_child import main; main()"),
            input=json.dumps({"platform": str(path), **task}),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PlatformError(f"SimGrid did not finish in {timeout_s:g} s", str(path)) from None
    if child.returncode != 0:
        raise PlatformError(
            f"SimGrid rejects it: {_error_line(child.stderr, child.returncode)}", str(path)
        )
    result: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return result


def _error_line(errors: str, returncode: int) -> str:
    lines = [_NOISE.sub("", line).strip() for line in errors.splitlines()]
    messages = [line for line in lines if line and not line.startswith(_CONTEXT)]
    for known, reason in _REASONS.items():
        if any(known in line for line in messages):
            return reason
    if not messages:
        return f"it ended with status {returncode} and printed nothing"
    # A Python traceback ends with the error, which may have further lines.
    raised = [found[1] for line in messages if (found := _RAISED.match(line))]
    return raised[-1] if raised else messages[0]
