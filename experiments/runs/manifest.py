"""A sweep folder's files: sealed JSON that appears all at once, and ``sweep.json`` among it.

What a killed or a crowded machine leaves behind is either a whole file or none; a file that was
cut off or edited later is told apart by its checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from faultline.experiments.config.grid import EngineName

TEMPORARY_SUFFIX = ".tmp"


class DamagedError(ValueError):
    """A file is not what was written there; the message says in a few words what is wrong."""


def seal(content: dict[str, Any]) -> bytes:
    """Return content as one JSON object with a ``checksum`` in front.

    Numbers keep every bit. A value may be infinite or NaN, which JSON proper does not know and
    Python's reads back.
    """
    return _dump({"checksum": _checksum(content), **content}) + b"\n"


def unseal(sealed: bytes) -> dict[str, Any]:
    """Return the content of `seal`.

    Raises
    ------
    DamagedError
        If it is cut off, no JSON object, or not as it was sealed.
    """
    try:
        content = json.loads(sealed)
    except (ValueError, RecursionError) as error:
        raise DamagedError("cut off, or no JSON") from error
    if not isinstance(content, dict) or "checksum" not in content:
        raise DamagedError("not written by a sweep")
    if content.pop("checksum") != _checksum(content):
        raise DamagedError("does not match its checksum")
    return content


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there as a whole or not at all, also if the machine loses power.

    The temporary file beside it is named after this process, and removed if anything goes wrong.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    owner = f"{socket.gethostname()}-{os.getpid()}"
    draft = path.with_name(f".{path.name}.{owner}{TEMPORARY_SUFFIX}")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def is_temporary(name: str) -> bool:
    """Tell whether a file of this name is one that `write_atomically` had no time to finish."""
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(_dump(content)).hexdigest()


def _dump(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), default=_plain).encode()


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a record")


FILE = "sweep.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """A plan as it is kept: enough to name every run without the code that planned it.

    Attributes
    ----------
    format : int
        Version of the layout of sweep directories.
    faultline : str
        Version of Faultline that planned it.
    grid : dict
        The grid file as read: its tables flattened to dotted keys.
    engine : {"replay", "simgrid"}
        Which engine plays the runs.
    fixed : dict
        Dotted keys and values of the scenario before any of `keys` is set.
    keys : list of str
        The dotted keys that differ between points.
    axes : dict of str to list
        Those of `keys` that take more than one value, and their values in order.
    points : list of list
        A list for each point: its values of `keys`.
    seeds : list of int
        The seeds that every point is played with.
    run_ids : list of str
        Name of the run of each point and seed; the seeds of a point stand together.
    """

    format: int
    faultline: str
    grid: dict[str, Any]
    engine: EngineName
    fixed: dict[str, Any]
    keys: list[str]
    axes: dict[str, list[Any]]
    points: list[list[Any]]
    seeds: list[int]
    run_ids: list[str]

    def rows(self) -> Iterator[tuple[str, list[Any], int]]:
        """Yield run, values of `keys` and seed of every row of the table, in order."""
        names = iter(self.run_ids)
        for values in self.points:
            for seed in self.seeds:
                yield next(names), values, seed

    def encoded(self) -> bytes:
        """Return the content of the file."""
        return seal(asdict(self))

    def digest(self) -> str:
        """Return a digest of the whole manifest, by which a table knows that it belongs to it."""
        return hashlib.sha256(self.encoded()).hexdigest()


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Put the manifest in its place, all at once."""
    write_atomically(directory / FILE, manifest.encoded())


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of a sweep directory.

    Raises
    ------
    DamagedError
        If it is cut off, edited, or of a version that this one does not know.
    OSError
        If it cannot be read, or is not there.
    """
    path = directory / FILE
    if path.exists() and not path.is_file():
        raise DamagedError("not a regular file")
    content = unseal(path.read_bytes())
    if content.get("format") != FORMAT:
        raise DamagedError(f"has format {content.get('format')!r}, this version knows {FORMAT}")
    try:
        return Manifest(**content)
    except TypeError as error:
        raise DamagedError("not the manifest of a sweep") from error


def first_difference(old: Manifest, new: Manifest) -> str | None:
    """Say what was asked before and is not any more; None if nothing that was asked is lost.

    Returns
    -------
    str or None
        The first difference, to stand behind the name of the directory.
    """
    return next(_differences(old, new), None)


def _differences(old: Manifest, new: Manifest) -> Iterator[str]:
    if old.engine != new.engine:
        yield f"engine was {old.engine!r} and is {new.engine!r}"
    if old.fixed["name"] != new.fixed["name"]:
        yield f"the scenario was called {old.fixed['name']!r}, and now {new.fixed['name']!r}"
    if set(old.run_ids) <= set(new.run_ids):
        return
    for seed in old.seeds:
        if seed not in new.seeds:
            yield f"seed {seed} is not asked any more"
    varied = list(dict.fromkeys((*old.keys, *new.keys)))
    for key in dict.fromkeys((*old.fixed, *new.fixed)):
        before, after = old.fixed.get(key), new.fixed.get(key)
        if before != after and key not in varied and key != "description":
            yield f"{key} was {before!r} and is {after!r}"
    asked = {_full_point(new, values, varied) for values in new.points}
    for values in old.points:
        point = _full_point(old, values, varied)
        if point not in asked:
            yield f"the point {name_point(varied, point)} is not asked any more"
    yield "the content of its platform file, or what this version makes of it, has changed"


def name_point(keys: Iterable[str], values: Iterable[Any]) -> str:
    """Return a point as people read it: ``job.groups = 200, strategy.name = 'spare'``."""
    return ", ".join(f"{key} = {value!r}" for key, value in zip(keys, values, strict=True))


def _full_point(manifest: Manifest, values: list[Any], keys: list[str]) -> tuple[Any, ...]:
    stated = dict(zip(manifest.keys, values, strict=True))
    return tuple(stated.get(key, manifest.fixed.get(key)) for key in keys)
