"""Measurements of platforms, cached between runs.

The key of a measurement is made of the platform's content, the request, and the SimGrid version
with its network options. An entry that cannot be read is measured again. Entries appear
atomically, so two processes may fill the cache at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import cache, lru_cache
from importlib.metadata import version
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from faultline.platforms.files import MEBIBYTE, read_file, write_file
from faultline.platforms.network_model import engine_arguments
from faultline.platforms.xml_reader import LARGEST_BYTES
from faultline.simulator.cache_folder import cache_directory, keep_within_bounds
from faultline.simulator.simgrid_engine.probes import ProbeResult, probe
from faultline.simulator.simgrid_engine.traffic import Traffic

# Raise it when a change to the probes changes what they measure.
_PROBE_VERSION = 4

# Tidying a full folder takes as long as a small measurement: it lists 10,000 files.
_WRITES_PER_TIDYING = 200
_writes = count()


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


Measured = TypeVar("Measured", bound=_Dataclass)


def cached_probe(platform: Path, traffic: Traffic, directory: Path | None = None) -> ProbeResult:
    """Return the measurements of a platform, from the cache if it holds them.

    Parameters
    ----------
    platform : Path
        Platform XML.
    traffic : Traffic
        Bytes and hosts.
    directory : Path, optional
        Folder of the entries; below `cache_directory` by default.
    """

    def from_cache(stored: dict[str, Any]) -> ProbeResult:
        known = ProbeResult(**stored)
        if known.groups != len(traffic.hosts):
            raise ValueError("the entry was measured for other groups")
        stored.pop("groups")
        if not all(isinstance(time_s, float) and 0.0 <= time_s < inf for time_s in stored.values()):
            raise ValueError("the entry has a time out of range")
        return known

    request = [
        _PROBE_VERSION,
        traffic.fidelity,
        traffic.readers,
        list(map(list, traffic.hosts)),
        traffic.storage,
        traffic.bytes_per_rank,
        traffic.checkpoint_bytes_per_rank,
    ]
    return cached(platform, request, lambda: probe(platform, traffic), from_cache, directory)


def cached(
    platform: Path,
    request: object,
    measure: Callable[[], Measured],
    from_cache: Callable[[dict[str, Any]], Measured],
    directory: Path | None = None,
) -> Measured:
    """Return a measurement of a platform, from the cache if it holds it.

    Parameters
    ----------
    platform : Path
        Platform XML; its content is part of the key.
    request : object
        The quantity and its version as JSON values; the rest of the key.
    measure : callable
        Measures it; returns a dataclass of JSON values.
    from_cache : callable
        Builds that dataclass from an entry's values; raises ValueError, TypeError, AttributeError
        or KeyError if the values are invalid.
    directory : Path, optional
        Folder of the entries; below `cache_directory` by default.
    """
    key = json.dumps([_content(platform), _simgrid_version(), engine_arguments(), request])
    name = hashlib.sha256(key.encode()).hexdigest()
    entry = (directory or cache_directory() / "probes") / f"{name}.json"
    known = _read(entry, from_cache)
    if known is None:
        known = measure()
        _write(entry, known)
    return known


def _content(platform: Path) -> str:
    """Return a digest of a file, which is read again only if it has changed."""
    status = platform.stat()
    return _digest(platform, (status.st_mtime_ns, status.st_size, status.st_ino))


@lru_cache(maxsize=16)
def _digest(path: Path, _stamp: tuple[int, int, int]) -> str:
    return hashlib.sha256(read_file(path, LARGEST_BYTES)).hexdigest()


@cache
def _simgrid_version() -> str:
    """Return the version of the installed SimGrid without importing it."""
    return version("simgrid")


def _read(entry: Path, from_cache: Callable[[dict[str, Any]], Measured]) -> Measured | None:
    try:
        return from_cache(json.loads(read_file(entry, MEBIBYTE)))
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None


def _write(entry: Path, measured: _Dataclass) -> None:
    """Write an entry atomically; a cache that cannot be written is ignored."""
    with suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        write_file(entry, json.dumps(asdict(measured)))
        if next(_writes) % _WRITES_PER_TIDYING == 0:
            keep_within_bounds(entry.parent)
