"""Ask SimGrid, in a process of its own, about a platform file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from faultline.platforms.errors import PlatformError

Flow = tuple[str, str, float]
"""Source host, destination host, size in bytes."""

_NOISE = re.compile(r"^\[.*?\]\s*(?:\[[^\]]*/(?:CRITICAL|ERROR|INFO)\]\s*)?")


def check_in_simgrid(path: str | Path, timeout_s: float = 120.0) -> str | None:
    """Load a platform file in SimGrid; return its objection in one line, or None if all is well."""
    try:
        _ask(path, [], timeout_s)
    except PlatformError as error:
        return str(error)
    return None


@dataclass(frozen=True)
class Loaded:
    """A platform as SimGrid has loaded it: hosts of all roles, time in s, memory in bytes."""

    hosts: int
    load_s: float
    peak_memory_bytes: int


def load_in_simgrid(path: str | Path, timeout_s: float = 120.0) -> Loaded:
    """Load a platform file in SimGrid, up to the point where its routes exist.

    Raises
    ------
    PlatformError
        SimGrid rejects the platform, crashes, or takes longer than `timeout_s`.
    """
    answer = _ask(path, [], timeout_s)
    return Loaded(answer["hosts"], answer["load_s"], answer["peak_memory_bytes"])


def play_flows(path: str | Path, flows: Sequence[Flow], timeout_s: float = 120.0) -> list[float]:
    """Start all flows at once in SimGrid and return the duration of each, in s.

    Raises
    ------
    PlatformError
        SimGrid rejects the platform, crashes, or takes longer than `timeout_s`.
    """
    if not flows:
        return []
    return cast("list[float]", _ask(path, flows, timeout_s)["seconds"])


def _ask(path: str | Path, flows: Sequence[Flow], timeout_s: float) -> dict[str, Any]:
    task = json.dumps({"platform": str(path), "flows": list(flows)})
    package_parent = str(Path(__file__).resolve().parent.parent)
    search_path = os.pathsep.join(filter(None, [package_parent, os.environ.get("PYTHONPATH")]))
    try:
        child = subprocess.run(
            [sys.executable, "-m", "faultline.platforms.simgrid_child"],
            input=task,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env={**os.environ, "PYTHONPATH": search_path},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PlatformError(
            f"SimGrid did not come to an end in {timeout_s:g} s", str(path)
        ) from None
    if child.returncode != 0:
        raise PlatformError(
            f"SimGrid rejects it: {_complaint(child.stderr, child.returncode)}", str(path)
        )
    answer: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return answer


def _complaint(errors: str, returncode: int) -> str:
    lines = [_NOISE.sub("", line).strip() for line in errors.splitlines()]
    told = [
        line
        for line in lines
        if line
        and not line.startswith(
            ("Backtrace", "(the backtrace", "Configuration change", "Traceback")
        )
        and not line.startswith(('File "', "^", "~"))
    ]
    # A Python traceback tells the matter in its last line, SimGrid's own messages in their first.
    is_traceback = "Traceback (most recent call last)" in errors
    if not told:
        return f"it ended with status {returncode} and said nothing"
    return told[-1] if is_traceback else told[0]
