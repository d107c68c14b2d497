"""Files of a sweep folder: JSON with a checksum, and the plan of the sweep, ``sweep.json``.

A file is written whole or not at all. Its checksum detects truncation and later edits.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from faultline.experiments.config.grid import EngineName
from faultline.platforms.files import read_file
from pydantic_core import from_json

_BEFORE_CONTENT = len('{"checksum":""') + 64


class DamagedError(ValueError):
    """A file differs from the written one; the message is the reason in a few words."""


def seal(content: dict[str, Any]) -> bytes:
    """Return content as one JSON object with a ``checksum`` in front.

    Numbers keep every bit, infinity and NaN included (an extension of JSON that Python reads).
    """
    body = json.dumps(content, separators=(",", ":"), default=_plain).encode()
    checksum = hashlib.sha256(body).hexdigest().encode()
    return b'{"checksum":"%b"%b%b\n' % (checksum, b"," if content else b"", body[1:])


def unseal(sealed: bytes) -> dict[str, Any]:
    """Return the content of `seal`; a DamagedError if it is truncated, not JSON, or edited."""
    try:
        content = from_json(sealed)
    except ValueError as error:
        raise DamagedError("truncated or not JSON") from error
    if not isinstance(content, dict) or "checksum" not in content:
        raise DamagedError("not written by a sweep")
    checksum = content.pop("checksum")
    # The checksum covers all bytes behind it.
    body = b"{" + sealed[_BEFORE_CONTENT:].removesuffix(b"\n").removeprefix(b",")
    if checksum != hashlib.sha256(body).hexdigest():
        raise DamagedError("does not match its checksum")
    return content


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a record cannot have a {type(value).__name__}")


def read_own(path: Path | str) -> bytes:
    """Return the content of a file of a results folder.

    A link, another irregular file or one that is too large is a DamagedError. A missing or
    unreadable file is an OSError.
    """
    try:
        return read_file(path, _LARGEST_BYTES, follow=False)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ELOOP, errno.EFBIG):
            raise DamagedError(error.strerror) from error
        raise


_LARGEST_BYTES = 2**30
FILE = "sweep.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """A plan as it is stored: it names every run without the code that planned it."""

    format: int  # Version of the layout of sweep directories.
    faultline: str  # Version of Faultline that planned it.
    grid: dict[str, Any]  # The grid file as read: its tables flattened to dotted keys.
    engine: EngineName  # The engine of the runs (one of "replay", "simgrid").
    fixed: dict[str, Any]  # Dotted keys and values of the scenario before any of `keys` is set.
    keys: list[str]  # The dotted keys that differ between points.
    # The keys with more than one value, and their values in order.
    axes: dict[str, list[Any]]
    points: list[list[Any]]  # A list for each point: its values of `keys`.
    seeds: list[int]  # The seeds of every point.
    # Name of the run of each point and seed; the seeds of a point are adjacent.
    run_ids: list[str]

    def rows(self) -> Iterator[tuple[str, list[Any], int]]:
        """Yield run, values of `keys` and seed of every row of the table, in order."""
        names = iter(self.run_ids)
        for values in self.points:
            for seed in self.seeds:
                yield next(names), values, seed

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the file by key, without copies."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def encoded(self) -> bytes:
        """Return the content of the file."""
        return seal(self.as_dict())

    def digest(self) -> str:
        """Return a digest of the whole manifest; the table has the digest of its manifest."""
        return hashlib.sha256(self.encoded()).hexdigest()


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of a sweep directory.

    It is a DamagedError if that is truncated, edited, or of an unknown version, and an OSError if
    it is missing or cannot be read.
    """
    content = unseal(read_own(directory / FILE))
    if content.get("format") != FORMAT:
        raise DamagedError(f"has format {content.get('format')!r}, this version reads {FORMAT}")
    return Manifest(**content)


def axes_of(keys: Sequence[str], points: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the keys that take more than one value in points, and their values in order."""
    values = {
        key: list(dict.fromkeys(point[place] for point in points)) for place, key in enumerate(keys)
    }
    return {key: each for key, each in values.items() if len(each) > 1}


def differences(old: Manifest, new: Manifest) -> Iterator[str]:
    """Yield the differences that make the new plan lose runs of the old one."""
    if old.engine != new.engine:
        yield f"engine was {old.engine!r} and is {new.engine!r}"
    if old.fixed["name"] != new.fixed["name"]:
        yield f"the scenario was named {old.fixed['name']!r}, and now {new.fixed['name']!r}"
    if set(old.run_ids) <= set(new.run_ids):
        return
    for seed in old.seeds:
        if seed not in new.seeds:
            yield f"seed {seed} is no longer requested"
    varied = list(dict.fromkeys((*old.keys, *new.keys)))
    for key in dict.fromkeys((*old.fixed, *new.fixed)):
        before, after = old.fixed.get(key), new.fixed.get(key)
        if before != after and key not in varied and key != "description":
            yield f"{key} was {before!r} and is {after!r}"
    requested = {_full_point(new, values, varied) for values in new.points}
    for values in old.points:
        point = _full_point(old, values, varied)
        if point not in requested:
            yield f"the point {name_point(varied, point)} is no longer requested"
    yield "its platform file, or the reading of it by this version, has changed"


def name_point(keys: Iterable[str], values: Iterable[Any]) -> str:
    """Return a point as text: ``job.groups = 200, strategy.name = 'spare'``."""
    return ", ".join(f"{key} = {value!r}" for key, value in zip(keys, values, strict=True))


def _full_point(manifest: Manifest, values: list[Any], keys: list[str]) -> tuple[Any, ...]:
    stated = dict(zip(manifest.keys, values, strict=True))
    return tuple(stated.get(key, manifest.fixed.get(key)) for key in keys)
