"""The one reader and the one writer of files: both bounded, neither trusts what lies at a path.

A file comes from a user, or from a stranger with whom a folder is shared. So nothing but a regular
file is read, and no more of it than was agreed; and a file is written beside its place and renamed
into it, so that it is there as a whole or not at all, and no link is followed on the way.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

MEBIBYTE = 2**20
DRAFT_SUFFIX = ".tmp"
_LEAST_PIECE = 65_536


def read_file(path: str | Path, most_bytes: int, *, follow: bool = True) -> bytes:
    """Return the content of a regular file.

    Parameters
    ----------
    path : str or Path
        The file.
    most_bytes : int
        A larger one is refused, also one that grows meanwhile or has no end.
    follow : bool
        Whether it may be a symbolic link.

    Raises
    ------
    OSError
        If there is no such file, it is a pipe, a device, a folder or a socket, too large, or cannot
        be read; `OSError.strerror` says so in a few words, and `OSError.filename` is the path.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        # Looked at before it is opened, too: to open a device may do something.
        _check_regular(os.stat(path, follow_symlinks=follow), path)  # noqa: PTH116 - asked often
        descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    except ValueError as error:  # A name with a NUL.
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    try:
        found = os.fstat(descriptor)
        _check_regular(found, path)
        pieces: list[bytes] = []
        left = most_bytes + 1 if found.st_size <= most_bytes else 0
        # A file of the kernel says that it has no size, and may have nothing to say for now.
        with suppress(BlockingIOError):
            while left and (
                piece := os.read(
                    descriptor, min(left, found.st_size + 1 if found.st_size else _LEAST_PIECE)
                )
            ):
                pieces.append(piece)
                left -= len(piece)
    finally:
        os.close(descriptor)
    if not left:
        size = f"{most_bytes // MEBIBYTE} MiB" if most_bytes >= MEBIBYTE else f"{most_bytes} bytes"
        raise OSError(errno.EFBIG, f"larger than {size}", str(path))
    return b"".join(pieces)


def read_text(path: str | Path, most_bytes: int) -> str:
    """Return the text of a regular file in UTF-8; a byte order mark before it is left out.

    Raises
    ------
    OSError
        As `read_file`, or if it is no text in UTF-8.
    """
    try:
        return read_file(path, most_bytes).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "not UTF-8 text", str(path)) from None


def write_file(path: Path, content: bytes | str, *, mode: int = 0o666) -> None:
    """Put a file in its place, all at once, also if the machine loses power.

    What was there stays as it was until the new one is whole on the disk. The process's mask is
    taken off `mode`, as of any new file.

    Raises
    ------
    OSError
        If it cannot be written, or something else than a regular file is in its place;
        `OSError.filename` is the path.
    """
    draft = path.parent / f".{secrets.token_hex(8)}{DRAFT_SUFFIX}"
    try:
        check_replaceable(path)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(draft, flags, mode), "wb") as file:
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
    """Return a folder that is made unless it is there; a link to another place is refused.

    Raises
    ------
    OSError
        If it cannot be made, or something else is in its place.
    """
    path.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.EINVAL, "a symbolic link, and no folder", str(path))
    return path


def check_writable(path: Path) -> None:
    """Find out before long work, and not after it, that a file could not be put in its place.

    Raises
    ------
    OSError
        As `write_file`.
    """
    check_replaceable(path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        missing = not path.parent.is_dir()
        code = errno.ENOENT if missing else errno.EACCES
        raise OSError(code, os.strerror(code), str(path))


def check_replaceable(path: Path) -> None:
    """Refuse to put a file where a link, a folder, a pipe or a device is."""
    try:
        _check_regular(path.lstat(), path)
    except FileNotFoundError:
        return
    except ValueError as error:  # A name with a NUL.
        raise OSError(errno.EINVAL, str(error), str(path)) from None


def is_draft(name: str) -> bool:
    """Tell whether a file of this name is one that `write_file` had no time to finish."""
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
