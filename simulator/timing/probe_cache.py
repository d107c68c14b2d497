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
from functools import cache
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from faultline.platforms.cache_folder import cache_directory, keep_within_bounds
from faultline.platforms.files import MEBIBYTE, read_file, write_file
from faultline.platforms.network_model import engine_arguments
from faultline.platforms.xml_reader import content_digest

# Tidying a full folder takes as long as a small measurement: it lists 10,000 files.
_WRITES_PER_TIDYING = 200
_writes = count()

if TYPE_CHECKING:
    import simgrid

Arguments = ParamSpec("Arguments")
Measured = TypeVar("Measured")


def cached(
    platform: Path, request: object, measure: Callable[[], Measured], kind: Callable[..., Measured]
) -> Measured:
    """Return a measurement of a platform, from the cache if it holds it.

    Parameters
    ----------
    platform : Path
        Platform XML; its content is part of the key.
    request : object
        The quantity and its version as JSON values; the rest of the key.
    measure : callable
        Measures it.
    kind : type
        Type of the measurement: `float`, `list`, or a dataclass of JSON values.
    """
    key = json.dumps([content_digest(platform), _simgrid_version(), engine_arguments(), request])
    name = hashlib.sha256(key.encode()).hexdigest()
    entry = cache_directory() / "probes" / f"{name}.json"
    with suppress(OSError, ValueError, TypeError, RecursionError):
        stored = json.loads(read_file(entry, MEBIBYTE))
        return kind(**stored) if isinstance(stored, dict) else kind(stored)
    known = measure()
    _write(entry, known)
    return known


def cached_simulation(
    platform: Path,
    kind: Callable[..., Measured],
    version: int,
    simulate: Callable[Concatenate[simgrid.Engine, Arguments], Measured],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> Measured:
    """Return the result of `simulate_on`, from the cache if it holds it.

    `kind` is the type of the result: `float`, `list`, or a dataclass of JSON values. The arguments
    and the `version` are part of the key; raise the version when the same request would be
    simulated differently.
    """

    def measure() -> Measured:
        # A cached result needs no processes, and importing them takes long.
        from faultline.simulator.timing.kept_platform import simulate_on

        return simulate_on(platform, simulate, *args, **kwargs)

    request = [version, simulate.__name__, repr(args), repr(kwargs)]
    return cached(platform, request, measure, kind)


@cache
def _simgrid_version() -> str:
    """Return the version of the installed SimGrid without importing it."""
    return version("simgrid")


def _write(entry: Path, measured: object) -> None:
    """Write an entry atomically; a cache that cannot be written is ignored."""
    with suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        write_file(entry, json.dumps(measured, default=asdict))
        if next(_writes) % _WRITES_PER_TIDYING == 0:
            keep_within_bounds(entry.parent)
