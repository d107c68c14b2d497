"""Reading small text files of a user: bounded, and never waiting for what does not come."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from faultline.experiments.config.errors import UserError

LARGEST_BYTES = 2**20
"""More than any file written by hand has."""


def read_text_file(path: Path) -> str:
    """Return the text of a file.

    Pipes are read as well, so that ``<(command)`` can be given to Faultline.

    Raises
    ------
    UserError
        If it is larger than `LARGEST_BYTES`, no text in UTF-8, or a pipe that nobody writes to.
    OSError, ValueError
        If there is no such file, or it cannot be opened.
    """
    content = _read(path)
    if len(content) > LARGEST_BYTES:
        raise UserError(f"{path}: larger than {LARGEST_BYTES // 2**20} MiB; name a TOML file")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: this is no TOML: it is not UTF-8 text") from error


def _read(path: Path) -> bytes:
    # Opened without waiting: to open a named pipe otherwise waits until somebody writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        first = file.read(LARGEST_BYTES + 1)
        if first == b"" and pipe:
            raise UserError(f"{path}: a pipe that nobody writes to; name a TOML file")
        os.set_blocking(descriptor, True)
        pieces = [first or b""]
        while piece := file.read(LARGEST_BYTES + 1 - sum(map(len, pieces))):
            pieces.append(piece)
    return b"".join(pieces)
