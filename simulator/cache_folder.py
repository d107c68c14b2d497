"""Where Faultline keeps generated platforms and measurements between runs, within bounds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from faultline.platforms.files import is_draft

_MOST_FILES = 10_000
_MOST_BYTES = 10**9
# A draft this old was left behind by a process that was killed.
_ABANDONED_S = 3_600.0


def cache_directory() -> Path:
    """Return the directory of Faultline's caches: below XDG_CACHE_HOME, or ~/.cache.

    A relative XDG_CACHE_HOME is ignored, as its specification requires: it would mean a different
    cache for each working directory.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "faultline"


def keep_within_bounds(
    folder: Path, most_files: int = _MOST_FILES, most_bytes: int = _MOST_BYTES
) -> None:
    """Remove the oldest files of a cache folder until the rest is within bounds.

    Another process may do the same at once, so a missing file is no error.
    """
    now_s = time.time()
    size_bytes = 0
    newest_first = sorted(_files(folder), key=lambda file: -file[1].st_mtime_ns)
    for files, (path, status) in enumerate(newest_first, 1):
        size_bytes += status.st_size
        abandoned = is_draft(path.name) and now_s - status.st_mtime > _ABANDONED_S
        # The newest file stays, however large: it has just been requested.
        if abandoned or (files > 1 and (files > most_files or size_bytes > most_bytes)):
            with suppress(OSError):
                path.unlink()


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    if folder.is_symlink():
        # Files outside the cache are not removed.
        return
    with suppress(FileNotFoundError):
        for path in list(folder.rglob("*")):
            with suppress(FileNotFoundError):
                status = path.lstat()
                if not path.is_dir() or path.is_symlink():
                    yield path, status
