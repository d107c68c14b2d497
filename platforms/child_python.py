"""How every Python process is started: it imports what its owner does, and nothing else.

Python puts the working folder first on the module path of ``-c`` and ``-m``. A file ``json.py`` in
a folder with results would then run in each child.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import util

_SAFE_PATH = "-P" if sys.version_info >= (3, 11) else "-I"
"""Leaves the working folder out, also for what the child starts. Python 3.10 has only ``-I``."""

_flags_of_owner = subprocess._args_from_interpreter_flags  # type: ignore[attr-defined]


def python_command(code: str) -> list[str]:
    """Return the command of a fresh interpreter that runs code with the module path of this one."""
    path = f"import sys; sys.path[:] = {sys.path!r}"
    return [sys.executable, _SAFE_PATH, "-c", f"{path}; {code}"]


@contextmanager
def helpers_on_safe_path() -> Iterator[None]:
    """Start the helpers of `multiprocessing` meanwhile: fork server and resource tracker.

    They are started with ``-c``, by one function that states their flags.
    """
    vars(util)["_args_from_interpreter_flags"] = _safe_flags
    try:
        yield
    finally:
        vars(util)["_args_from_interpreter_flags"] = _flags_of_owner


def _safe_flags() -> list[str]:
    return [*_flags_of_owner(), _SAFE_PATH]
