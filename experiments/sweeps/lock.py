"""One sweep at a time in a directory."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FILE = ".lock"
_NO_LOCKS_HERE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


@contextmanager
def locked(directory: Path, tell: Callable[[str], None]) -> Iterator[bool]:
    """Hold a directory's lock, waiting for it if another sweep has it.

    The kernel gives the lock back when its holder ends, however it ends.

    Parameters
    ----------
    directory : Path
        The sweep directory.
    tell : callable
        Called with one line if there is something to wait for, or if there are no locks here.

    Yields
    ------
    bool
        Whether the directory is ours alone. Some network file systems have no locks; there two
        sweeps at once play some runs twice, and results still appear whole.
    """
    descriptor = os.open(directory / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        alone = _acquire(descriptor, directory, tell)
        if alone:
            _sign(descriptor)
        yield alone
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, directory: Path, tell: Callable[[str], None]) -> bool:
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            tell(f"{directory}: waiting for another sweep to end ({holder or 'just started'})")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise
        tell(f"{directory}: this file system has no locks; start no second sweep there meanwhile")
        return False
    return True


def _sign(descriptor: int) -> None:
    """Say who holds the lock; a full disk may leave that out."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
