"""Measurements of platforms, kept between runs.

A measurement is kept under a key made of the platform's content, of what was measured, and of the
SimGrid and its network options that measured it. An entry that cannot be read is thrown away and
measured again. Entries appear atomically, so that two processes may fill the cache at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import cache, lru_cache
from importlib.metadata import version
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


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


Measured = TypeVar("Measured", bound=_Dataclass)


def cached_probe(platform: Path, traffic: Traffic, directory: Path | None = None) -> ProbeResult:
    """Return the measurements of a platform, from the cache if they are there.

    Parameters
    ----------
    platform : Path
        Platform XML.
    traffic : Traffic
        Whose bytes, between which hosts.
    directory : Path, optional
        Where entries are kept; below `cache_directory` by default.
    """

    def believable(stored: dict[str, Any]) -> ProbeResult:
        known = ProbeResult(**stored)
        if known.groups != len(traffic.hosts):
            raise ValueError("was measured for other groups")
        stored.pop("groups")
        if not all(isinstance(time_s, float) and 0.0 <= time_s < inf for time_s in stored.values()):
            raise ValueError("has a time that is none")
        return known

    asked = [
        _PROBE_VERSION,
        traffic.fidelity,
        traffic.readers,
        list(map(list, traffic.hosts)),
        traffic.storage,
        traffic.bytes_per_rank,
        traffic.checkpoint_bytes_per_rank,
    ]
    return cached(platform, asked, lambda: probe(platform, traffic), believable, directory)


def cached(
    platform: Path,
    asked: object,
    measure: Callable[[], Measured],
    believable: Callable[[dict[str, Any]], Measured],
    directory: Path | None = None,
) -> Measured:
    """Return a measurement of a platform, from the cache if it is there.

    Parameters
    ----------
    platform : Path
        Platform XML; its content is part of the key.
    asked : object
        What was measured, and in which version, as JSON can say it; the rest of the key.
    measure : callable
        Measures it; returns a dataclass of JSON values.
    believable : callable
        Makes that dataclass of an entry's values again; raises an error of a wrong value, type,
        name or key where they cannot be what was measured.
    directory : Path, optional
        Where entries are kept; below `cache_directory` by default.
    """
    key = json.dumps([_content(platform), _simgrid_version(), engine_arguments(), asked])
    name = hashlib.sha256(key.encode()).hexdigest()
    entry = (directory or cache_directory() / "probes") / f"{name}.json"
    known = _read(entry, believable)
    if known is None:
        known = measure()
        _write(entry, known)
    return known


def _content(platform: Path) -> str:
    """Return a digest of a file, read once for as long as it does not change."""
    status = platform.stat()
    return _digest(platform, (status.st_mtime_ns, status.st_size, status.st_ino))


@lru_cache(maxsize=16)
def _digest(path: Path, _stamp: tuple[int, int, int]) -> str:
    return hashlib.sha256(read_file(path, LARGEST_BYTES)).hexdigest()


@cache
def _simgrid_version() -> str:
    """Return the version of the installed SimGrid, without the time that importing it takes."""
    return version("simgrid")


def _read(entry: Path, believable: Callable[[dict[str, Any]], Measured]) -> Measured | None:
    try:
        return believable(json.loads(read_file(entry, MEBIBYTE)))
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None


def _write(entry: Path, measured: _Dataclass) -> None:
    """Put an entry in its place at once; a cache that cannot be written is done without."""
    with suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        write_file(entry, json.dumps(asdict(measured)))
        keep_within_bounds(entry.parent)
