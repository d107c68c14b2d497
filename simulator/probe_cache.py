"""Measurements of platforms, kept between runs.

A measurement is kept under a key made of the platform's content and of what was measured. An entry
that cannot be read is thrown away and measured again. Entries appear atomically, so that two
processes may fill the cache at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from simulator.simgrid_engine.probes import ProbeResult, probe
from simulator.simgrid_engine.traffic import Traffic

# Raise it when a change to the probes changes what they measure.
_PROBE_VERSION = 1


def cache_directory() -> Path:
    """Return the directory of Faultline's caches: below XDG_CACHE_HOME, or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "faultline"


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
    entry = (directory or cache_directory() / "probes") / f"{_key(platform, traffic)}.json"
    known = _read(entry, len(traffic.hosts))
    if known is None:
        known = probe(platform, traffic)
        _write(entry, known)
    return known


def _key(platform: Path, traffic: Traffic) -> str:
    asked = [list(map(list, traffic.hosts)), traffic.storage, traffic.bytes_per_rank]
    digest = hashlib.sha256(platform.read_bytes())
    digest.update(json.dumps([_PROBE_VERSION, traffic.fidelity, traffic.readers, *asked]).encode())
    return digest.hexdigest()


def _read(entry: Path, groups: int) -> ProbeResult | None:
    try:
        stored = json.loads(entry.read_text(encoding="utf-8"))
        known = ProbeResult(**stored)
        stored.pop("groups")
        believable = all(isinstance(time_s, float) and time_s >= 0.0 for time_s in stored.values())
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None
    return known if believable and known.groups == groups else None


def _write(entry: Path, measured: ProbeResult) -> None:
    """Put an entry in its place at once; a cache that cannot be written is done without."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=entry.parent, delete=False, encoding="utf-8"
        ) as draft:
            json.dump(asdict(measured), draft)
        Path(draft.name).replace(entry)
    except OSError:
        return
