"""The only reader and the only writer of files.

The reader accepts regular files up to a given size. The writer creates a draft beside the target
and renames it, so the target is complete or absent. It follows no symbolic link.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

MEBIBYTE = 2**20
DRAFT_SUFFIX = ".tmp"


def read_file(path: str | Path, most_bytes: int) -> bytes:
    """Return the content of a regular file of at most `most_bytes`.

    Raises
    ------
    OSError
        The file is missing, no regular file, too large, or unreadable. `OSError.strerror` is the
        reason in a few words, and `OSError.filename` is the path.
    """
    try:
        found = Path(path).stat()
        _check_regular(found, path)
    except ValueError as error:  # A name with a NUL.
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    if found.st_size > most_bytes:
        size = f"{most_bytes // MEBIBYTE} MiB" if most_bytes >= MEBIBYTE else f"{most_bytes} bytes"
        raise OSError(errno.EFBIG, f"larger than {size}", str(path))
    return Path(path).read_bytes()


def read_text(path: str | Path, most_bytes: int) -> str:
    """Return the text of a regular UTF-8 file without its byte order mark.

    Raises
    ------
    OSError
        As for `read_file`, or the file is not UTF-8.
    """
    try:
        return read_file(path, most_bytes).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "not UTF-8 text", str(path)) from None


def write_file(path: Path, content: bytes | str) -> None:
    """Write a file atomically, also if the machine loses power.

    The old file stays until the new one is complete on the disk.

    Raises
    ------
    OSError
        The file cannot be written, or its path has something other than a regular file.
        `OSError.filename` is the path.
    """
    draft = path.parent / f".{secrets.token_hex(8)}{DRAFT_SUFFIX}"
    try:
        check_replaceable(path)
        try:
            with draft.open("xb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except ValueError as error:  # A name with a NUL.
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    except OSError as error:
        raise OSError(error.errno or errno.EIO, error.strerror, str(path)) from error


def own_folder(path: Path) -> Path:
    """Create a folder unless it exists, and return it; a symbolic link is refused.

    Raises
    ------
    OSError
        The folder cannot be created, or its path has something else.
    """
    path.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.EINVAL, "a symbolic link, and no folder", str(path))
    return path


def lines_of(path: Path, most_bytes_per_line: int) -> Iterator[bytes]:
    """Yield the lines of a regular file of any size; of a longer line, its pieces.

    Raises
    ------
    OSError
        As for `read_file`.
    """
    _check_regular(path.stat(), path)
    with path.open("rb") as file:
        while line := file.readline(most_bytes_per_line):
            yield line


def check_writable(path: Path) -> None:
    """Check before long work that `write_file` could write a file.

    Raises
    ------
    OSError
        As for `write_file`.
    """
    check_replaceable(path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        missing = not path.parent.is_dir()
        code = errno.ENOENT if missing else errno.EACCES
        raise OSError(code, os.strerror(code), str(path))


def check_replaceable(path: Path) -> None:
    """Refuse a path that has a link, a folder, a pipe or a device."""
    try:
        _check_regular(path.lstat(), path)
    except FileNotFoundError:
        return
    except ValueError as error:  # A name with a NUL.
        raise OSError(errno.EINVAL, str(error), str(path)) from None


def is_draft(name: str) -> bool:
    """Return whether a name is that of a draft, which `write_file` leaves if it is killed."""
    return name.startswith(".") and name.endswith(DRAFT_SUFFIX)


def _check_regular(found: os.stat_result, path: str | Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        kinds = {
            stat.S_IFLNK: "a symbolic link",
            stat.S_IFDIR: "a folder",
            stat.S_IFIFO: "a pipe",
            stat.S_IFSOCK: "a socket",
        }
        kind = kinds.get(stat.S_IFMT(found.st_mode), "a device")
        raise OSError(errno.EINVAL, f"{kind}, and no regular file", str(path))
