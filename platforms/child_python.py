"""Start child Python processes with the module path of their parent, and no other folder.

With ``-c`` and ``-m``, Python puts the working folder first on the module path. A file ``json.py``
in a results folder would then run in each child.
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
"""Omits the working folder, also in processes of the child. Python 3.10 has only ``-I``."""

_LONGEST_FOLDER = 70
"""Bytes for the folder, of the 107 bytes that the name of a socket may have."""

_flags_of_owner = subprocess._args_from_interpreter_flags  # type: ignore[attr-defined]


def python_command(code: str) -> list[str]:
    """Return the command that runs code in a new interpreter with this process's module path."""
    path = f"import sys; sys.path[:] = {sys.path!r}"
    return [sys.executable, _SAFE_PATH, "-c", f"{path}; {code}"]


@contextmanager
def helpers_on_safe_path() -> Iterator[None]:
    """Keep the working folder off the module path of `multiprocessing`'s helper processes.

    The fork server and the resource tracker start with ``-c`` and the flags of one function. The
    context replaces that function.
    """
    vars(util)["_args_from_interpreter_flags"] = _safe_flags
    _shorten_sockets()
    try:
        yield
    finally:
        vars(util)["_args_from_interpreter_flags"] = _flags_of_owner


def _shorten_sockets() -> None:
    """Put the sockets of `multiprocessing` into /tmp if TMPDIR is too long for their names."""
    config = vars(current_process())["_config"]
    if "tempdir" not in config and len(os.fsencode(gettempdir())) > _LONGEST_FOLDER:
        folder = TemporaryDirectory(prefix="pymp-", dir="/tmp")
        util.Finalize(None, folder.cleanup, exitpriority=-100)
        config["tempdir"] = folder.name


def _safe_flags() -> list[str]:
    return [*_flags_of_owner(), _SAFE_PATH]
