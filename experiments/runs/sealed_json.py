"""JSON objects that carry a checksum of their content, and files that appear all at once.

What a killed or a crowded machine leaves behind is either a whole file or none; a file that was
cut off or edited later is told apart by its checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from pathlib import Path
from typing import Any

import numpy as np

TEMPORARY_SUFFIX = ".tmp"


class DamagedError(ValueError):
    """A file is not what was written there; the message says in a few words what is wrong."""


def seal(content: dict[str, Any]) -> bytes:
    """Return content as one JSON object with a ``checksum`` in front.

    Numbers keep every bit. A value may be infinite or NaN, which JSON proper does not know and
    Python's reads back.
    """
    return _dump({"checksum": _checksum(content), **content}) + b"\n"


def unseal(sealed: bytes) -> dict[str, Any]:
    """Return the content of `seal`.

    Raises
    ------
    DamagedError
        If it is cut off, no JSON object, or not as it was sealed.
    """
    try:
        content = json.loads(sealed)
    except (ValueError, RecursionError) as error:
        raise DamagedError("cut off, or no JSON") from error
    if not isinstance(content, dict) or "checksum" not in content:
        raise DamagedError("not written by a sweep")
    if content.pop("checksum") != _checksum(content):
        raise DamagedError("does not match its checksum")
    return content


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there as a whole or not at all, also if the machine loses power.

    The temporary file beside it is named after this process, and removed if anything goes wrong.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    owner = f"{socket.gethostname()}-{os.getpid()}"
    draft = path.with_name(f".{path.name}.{owner}{TEMPORARY_SUFFIX}")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def is_temporary(name: str) -> bool:
    """Tell whether a file of this name is one that `write_atomically` had no time to finish."""
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(_dump(content)).hexdigest()


def _dump(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), default=_plain).encode()


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a record")
