"""How every Python process is started: it imports what its owner does, and nothing else.

Python puts the working folder first on the module path of ``-c`` and ``-m``. A file ``json.py`` in
a folder with results would then run in each child.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import current_process, util
from tempfile import TemporaryDirectory, gettempdir

_SAFE_PATH = "-P" if sys.version_info >= (3, 11) else "-I"
"""Leaves the working folder out, also for what the child starts. Python 3.10 has only ``-I``."""

_LONGEST_FOLDER = 70
"""Of the 107 bytes of a socket's name, without the rest of it."""

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
    _shorten_sockets()
    try:
        yield
    finally:
        vars(util)["_args_from_interpreter_flags"] = _flags_of_owner


def _shorten_sockets() -> None:
    """Keep the sockets of `multiprocessing` in /tmp where TMPDIR is too long for their names."""
    config = vars(current_process())["_config"]
    if "tempdir" not in config and len(os.fsencode(gettempdir())) > _LONGEST_FOLDER:
        folder = TemporaryDirectory(prefix="pymp-", dir="/tmp")
        util.Finalize(None, folder.cleanup, exitpriority=-100)
        config["tempdir"] = folder.name


def _safe_flags() -> list[str]:
    return [*_flags_of_owner(), _SAFE_PATH]
