"""Results about platforms that take seconds, kept in the cache between runs.

A result counts as long as the source of this package is the same. A file that cannot be read is
made again.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from faultline.platforms.cache_folder import cache_directory, keep_within_bounds
from faultline.platforms.files import read_file, write_file

Result = TypeVar("Result")

_MOST_BYTES = 2**29
_CLASSES = {
    ("faultline.platforms.platform_data", "GpuHost"),
    ("faultline.platforms.platform_data", "Link"),
    ("faultline.platforms.platform_data", "Platform"),
    ("faultline.platforms.symmetry", "Symmetry"),
    ("pathlib", "PosixPath"),
    ("pathlib._local", "PosixPath"),
}
"""The classes of kept results: a forged file in a shared cache may name others, to run code."""


class _Reader(pickle.Unpickler):
    """Reads plain data and the listed classes only."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in _CLASSES:
            raise pickle.UnpicklingError(f"{module_name}.{global_name} is not allowed")
        return super().find_class(module_name, global_name)


def kept(name: str, key: object, compute: Callable[[], Result]) -> Result:
    """Return a result, from the cache if it holds it.

    `name` and the `repr` of `key` identify it. It has plain data and the listed classes only.
    """
    digest = hashlib.sha256(f"{_source_digest()} {name} {key!r}".encode()).hexdigest()
    entry = cache_directory() / "analyses" / f"{digest}.pickle"
    with suppress(Exception):  # Whatever the content is.
        known: Result = _Reader(BytesIO(read_file(entry, _MOST_BYTES))).load()
        return known
    result = compute()
    with suppress(OSError):  # A cache that cannot be written is ignored.
        entry.parent.mkdir(parents=True, exist_ok=True)
        write_file(entry, pickle.dumps(result))
        keep_within_bounds(entry.parent)
    return result


@cache
def _source_digest() -> str:
    """Return a digest of this package's source."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
