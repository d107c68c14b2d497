"""Small text files: those that come with Faultline by name, a user's own by path."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from faultline.experiments.config.errors import UserError
from faultline.platforms.errors import nearest
from faultline.platforms.files import MEBIBYTE, read_text

LARGEST_BYTES = MEBIBYTE
"""More than any file written by hand has."""


@dataclass(frozen=True, slots=True)
class Library:
    """TOML files of one kind: the shipped ones by name, a user's own by path."""

    kind: str  # What messages call one of them.
    folder: str  # Where in this package the shipped ones are.

    def names(self) -> list[str]:
        """Return the names of those that come with Faultline."""
        shipped = files("faultline.experiments.config").joinpath(self.folder).iterdir()
        return sorted(
            file.name.removesuffix(".toml") for file in shipped if file.name.endswith(".toml")
        )

    def text(self, name_or_path: str, called: str = "") -> str:
        """Return the text of a shipped file by its name, or of a user's; messages say `called`.

        Raises UserError if there is no such file, or it cannot be read.
        """
        shipped = self.names()
        if name_or_path in shipped:
            folder = files("faultline.experiments.config").joinpath(self.folder)
            return folder.joinpath(f"{name_or_path}.toml").read_text(encoding="utf-8")
        try:
            return read_text(name_or_path, LARGEST_BYTES)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            reason = "no such file" if missing else error.strerror
            raise UserError(
                f"{called or name_or_path}: {reason}{nearest(name_or_path, shipped)}; name a TOML "
                f"file or a shipped {self.kind} ({', '.join(shipped)})"
            ) from error
