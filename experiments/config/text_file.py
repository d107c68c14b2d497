"""Reading small text files: those that come with Faultline by name, a user's own by path.

Reading is bounded, and never waits for what does not come.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from faultline.experiments.config.errors import UserError
from faultline.platforms.errors import nearest

LARGEST_BYTES = 2**20
"""More than any file written by hand has."""


@dataclass(frozen=True, slots=True)
class Library:
    """TOML files of one kind: the shipped ones by name, a user's own by path.

    Attributes
    ----------
    kind : str
        What messages call one of them.
    folder : str
        Where in this package the shipped ones are.
    """

    kind: str
    folder: str

    def names(self) -> list[str]:
        """Return the names of those that come with Faultline."""
        shipped = files("faultline.experiments.config").joinpath(self.folder).iterdir()
        return sorted(
            file.name.removesuffix(".toml") for file in shipped if file.name.endswith(".toml")
        )

    def text(self, name_or_path: str, called: str = "") -> str:
        """Return the text of a file.

        Parameters
        ----------
        name_or_path : str
            The name of a shipped file, or the path of a user's.
        called : str
            How the message calls it; its name where this is empty.

        Raises
        ------
        UserError
            If there is no such file, or it cannot be read.
        """
        shipped = self.names()
        if name_or_path in shipped:
            folder = files("faultline.experiments.config").joinpath(self.folder)
            return folder.joinpath(f"{name_or_path}.toml").read_text(encoding="utf-8")
        try:
            return read_text_file(Path(name_or_path))
        except UserError:
            raise
        except (OSError, ValueError) as error:
            missing = isinstance(error, FileNotFoundError)
            reason = "no such file" if missing else getattr(error, "strerror", None) or str(error)
            raise UserError(
                f"{called or name_or_path}: {reason}{nearest(name_or_path, shipped)}; name a TOML "
                f"file or a shipped {self.kind} ({', '.join(shipped)})"
            ) from error


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
