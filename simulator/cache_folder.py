"""Where Faultline keeps generated platforms and measurements between runs, within bounds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from faultline.platforms.files import is_draft

SHELVES = ("probes", "platforms", "compiled")
"""Folders of what can be made again; the built SimGrid, which lies beside them, is not touched."""
_MOST_FILES = 10_000
_MOST_BYTES = 10**9
# A draft that old has been left behind by a process that was killed.
_ABANDONED_S = 3_600.0


def cache_directory() -> Path:
    """Return the directory of Faultline's caches: below XDG_CACHE_HOME, or ~/.cache.

    A relative XDG_CACHE_HOME counts as none, as its specification says: it would be another cache
    in each folder.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "faultline"


def keep_within_bounds(
    shelf: Path, most_files: int = _MOST_FILES, most_bytes: int = _MOST_BYTES
) -> None:
    """Remove the oldest files of a folder of the cache, so that the rest is within bounds.

    Another process may do the same at once: what is gone already is no error.
    """
    now_s = time.time()
    size_bytes = 0
    newest_first = sorted(_files(shelf), key=lambda file: -file[1].st_mtime_ns)
    for files, (path, status) in enumerate(newest_first, 1):
        size_bytes += status.st_size
        abandoned = is_draft(path.name) and now_s - status.st_mtime > _ABANDONED_S
        # The newest stays, however large: it has just been asked for.
        if abandoned or (files > 1 and (files > most_files or size_bytes > most_bytes)):
            with suppress(OSError):
                path.unlink()


def clean_cache() -> tuple[int, int]:
    """Remove all that can be made again; returns how many files that were, and their bytes."""
    removed = size_bytes = 0
    for shelf in SHELVES:
        for path, status in _files(cache_directory() / shelf):
            path.unlink(missing_ok=True)
            removed += 1
            size_bytes += status.st_size
    return removed, size_bytes


def _files(shelf: Path) -> Iterator[tuple[Path, os.stat_result]]:
    if shelf.is_symlink():
        # What lies in another place is not ours to remove.
        return
    with suppress(FileNotFoundError):
        for path in list(shelf.rglob("*")):
            with suppress(FileNotFoundError):
                status = path.lstat()
                if not path.is_dir() or path.is_symlink():
                    yield path, status
