"""Where Faultline keeps generated platforms and measurements between runs, within bounds."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from faultline.platforms.files import read_file, write_file

_MOST_FILES = 10_000
_MOST_BYTES = 10**9


def cache_directory() -> Path:
    """Return the directory of Faultline's caches: below XDG_CACHE_HOME, or ~/.cache.

    A relative XDG_CACHE_HOME is ignored, as its specification requires: it would mean a different
    cache for each working directory.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "faultline"


def platform_in_cache(content: bytes) -> Path:
    """Write a platform to the cache, and return the file; its name is a digest."""
    path = cache_directory() / "platforms" / f"{hashlib.sha256(content).hexdigest()}.xml"
    put_platform(path, content)
    return path


def put_platform(path: Path, content: bytes) -> None:
    """Write a cached file only if its content differs, so that results of readers stay valid."""
    with suppress(OSError):
        if read_file(path, len(content)) == content:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content)
    keep_within_bounds(path.parent)


def keep_within_bounds(
    folder: Path, most_files: int = _MOST_FILES, most_bytes: int = _MOST_BYTES
) -> None:
    """Remove the oldest files of a cache folder until the rest is within bounds.

    Another process may do the same at once, so a missing file is no error.
    """
    size_bytes = 0
    newest_first = sorted(_files(folder), key=lambda file: -file[1].st_mtime_ns)
    for files, (path, status) in enumerate(newest_first, 1):
        size_bytes += status.st_size
        # The newest file stays, however large: it has just been requested.
        if files > 1 and (files > most_files or size_bytes > most_bytes):
            with suppress(OSError):
                path.unlink()


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if not path.is_dir():
                yield path, path.lstat()
