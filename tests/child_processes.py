"""Programs that tests run to their end, and what they print."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def run_program(
    *command: object, check: bool = False, capture_output: bool = True, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program; options are those of `subprocess.run`."""
    words, usual = list(map(str, command)), {"text": True, "timeout": 300}
    return subprocess.run(words, check=check, capture_output=capture_output, **usual | options)


def run_python(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return run_program(sys.executable, *words, **options)


def output_of_python(*words: object, **options: Any) -> str:
    """Return what Python prints, which has to end well."""
    done = run_python(*words, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
