"""The only reader and the only writer of files; neither trusts the content of a shared folder.

The reader accepts regular files up to a given size. The writer creates a draft beside the target
and renames it, so the target is complete or absent. It follows no symbolic link.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MEBIBYTE = 2**20
DRAFT_SUFFIX = ".tmp"
_LEAST_PIECE = 65_536


def read_file(path: str | Path, most_bytes: int, *, follow: bool = True) -> bytes:
    """Return the content of a regular file; `follow` allows a symbolic link to one.

    A larger file is refused, also one that grows while it is read or has no end.

    Raises
    ------
    OSError
        The file is missing, no regular file, too large, or unreadable. `OSError.strerror` is the
        reason in a few words, and `OSError.filename` is the path.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        # Checked before it is opened, too: opening a device may have an effect.
        _check_regular(os.stat(path, follow_symlinks=follow), path)  # noqa: PTH116 - called often
        descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    except ValueError as error:  # A name with a NUL.
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    try:
        status = os.fstat(descriptor)
        _check_regular(status, path)
        pieces: list[bytes] = []
        allowed = most_bytes + 1 if status.st_size <= most_bytes else 0
        # A file of the kernel reports size 0, and may block because it has no data yet.
        piece_bytes = status.st_size + 1 if status.st_size else _LEAST_PIECE
        with suppress(BlockingIOError):
            while allowed and (piece := os.read(descriptor, min(allowed, piece_bytes))):
                pieces.append(piece)
                allowed -= len(piece)
    finally:
        os.close(descriptor)
    if not allowed:
        size = f"{most_bytes // MEBIBYTE} MiB" if most_bytes >= MEBIBYTE else f"{most_bytes} bytes"
        raise OSError(errno.EFBIG, f"larger than {size}", str(path))
    return b"".join(pieces)


def read_text(path: str | Path, most_bytes: int) -> str:
    """Return the text of a regular UTF-8 file without its byte order mark."""
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
        The file cannot be written, or its path is taken by something other than a regular file.
        `OSError.filename` is the path.
    """
    draft = path.parent / f".{secrets.token_hex(8)}{DRAFT_SUFFIX}"
    try:
        check_replaceable(path)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(draft, flags, 0o666), "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(error.errno or errno.EIO, error.strerror, str(path)) from error


def own_folder(path: Path) -> Path:
    """Create a folder unless it exists, and return it; a symbolic link is refused."""
    path.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        raise OSError(errno.EINVAL, "a symbolic link, not a folder", str(path))
    return path


def lines_of(path: Path, most_bytes_per_line: int) -> Iterator[bytes]:
    """Yield the lines of a regular file of any size; of a longer line, its pieces."""
    _check_regular(path.stat(), path)
    with path.open("rb") as file:
        while line := file.readline(most_bytes_per_line):
            yield line


def check_writable(path: Path) -> None:
    """Check before a long run that `write_file` can write a file."""
    check_replaceable(path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        missing = not path.parent.is_dir()
        code = errno.ENOENT if missing else errno.EACCES
        raise OSError(code, os.strerror(code), str(path))


def check_replaceable(path: Path) -> None:
    """Refuse a path that is a link, a folder, a pipe or a device."""
    try:
        _check_regular(path.lstat(), path)
    except FileNotFoundError:
        return


def is_draft(name: str) -> bool:
    """Return whether a name is that of a draft, which `write_file` leaves if it is killed."""
    return name.startswith(".") and name.endswith(DRAFT_SUFFIX)


def _check_regular(status: os.stat_result, path: str | Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        kinds = {
            stat.S_IFLNK: "a symbolic link",
            stat.S_IFDIR: "a folder",
            stat.S_IFIFO: "a pipe",
            stat.S_IFSOCK: "a socket",
        }
        kind = kinds.get(stat.S_IFMT(status.st_mode), "a device")
        raise OSError(errno.EINVAL, f"{kind}, not a regular file", str(path))
