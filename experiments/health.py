"""Checks of this machine: versions, limits, and single flows on SimGrid."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import psutil
from faultline.experiments.config.distribution import DISTRIBUTION
from faultline.experiments.runs.point import cores
from faultline.platforms.cache_folder import cache_directory
from faultline.platforms.child_python import python_command
from faultline.platforms.errors import PlatformError
from faultline.platforms.preset_library import load_preset
from faultline.platforms.simgrid_check import single_flow
from faultline.platforms.xml_writer import write_xml
from packaging.requirements import Requirement

MAPS_PER_ACTOR = 3
"""Memory maps of a rank actor: its thread's stack, guard page and bookkeeping (measured)."""
_OTHER_MAPS, _OTHER_THREADS = 1_000, 500
"""Maps of Python and SimGrid before the first actor; threads of all else on the machine."""
_LEAST_RANKS = 1_000
_RUN_BYTES, _LEAST_DISK_BYTES = 200e6, 1e9
# Small, with a route of each kind.
_CLUSTERS = {"hgx-h100": {"domains": 4, "domains_per_leaf": 2}, "spare-600k": {"groups": 24}}
_FLOWS = {"nvlink": "single NVLink flow", "nic": "single NIC flow"}


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    section: str  # The table of its row.
    what: str
    value: str  # The finding, as text.
    state: Literal["ok", "warning", "failed"]  # A warning limits the size of jobs on this machine.
    meaning: str  # The meaning and, unless all is well, the remedy.
    number: float | None = None  # The value as a number: a count, bytes, or bytes/s.


def version_checks() -> Iterator[Check]:
    """Check Faultline, Python and each package that Faultline requires."""
    yield Check("versions", "python", platform.python_version(), "ok", platform.platform())
    try:
        wanted = [Requirement(line) for line in metadata.requires(DISTRIBUTION) or ()]
    except metadata.PackageNotFoundError:
        wanted = []
    for one in (Requirement(DISTRIBUTION), *wanted):
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        needs = f"needs {one.name} {one.specifier or 'of any version'}"
        try:
            found = metadata.version(one.name)
        except metadata.PackageNotFoundError:
            found = "missing"
        if found != "missing" and one.specifier.contains(found, prereleases=True):
            yield Check("versions", one.name, found, "ok", needs)
        else:
            yield Check("versions", one.name, found, "failed", f"{needs}; run: make setup")


def limit_checks() -> Iterator[Check]:
    """Check processors, memory, memory maps, threads and disk space."""
    yield _limit("cores available", cores(), "one run uses one core")
    memory_bytes = psutil.virtual_memory().available
    runs = int(memory_bytes // _RUN_BYTES)
    meaning = f"room for {runs:,} runs of the replay engine at once, at most 200 MB each"
    yield _limit("memory available", memory_bytes, meaning, runs >= cores())
    maps = _number_in(Path("/proc/sys/vm/max_map_count"))
    remedy = "raise it with sysctl -w vm.max_map_count=262144"
    yield _actors("vm.max_map_count", maps, (maps - _OTHER_MAPS) // MAPS_PER_ACTOR, remedy)
    threads = min(
        _number_in(Path("/proc/sys/kernel/threads-max")),
        _number_in(Path("/proc/sys/kernel/pid_max")),
        resource.getrlimit(resource.RLIMIT_NPROC)[0] % 2**63,  # No limit is -1.
    )
    remedy = "raise it with ulimit -u, or in /proc/sys/kernel/threads-max and pid_max"
    yield _actors("threads allowed", threads, threads - _OTHER_THREADS, remedy)
    for place, option in ((Path("results"), "-o DIR"), (cache_directory(), "XDG_CACHE_HOME")):
        yield disk_check(place, f"choose another place with {option}")


def disk_check(directory: Path, remedy: str) -> Check:
    """Check the free space of a directory, which need not exist yet."""
    there = next(
        one for one in (directory.absolute(), *directory.absolute().parents) if one.exists()
    )
    what = f"free disk, {directory}"
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        return Check("limits", what, "none", "failed", f"cannot be written; {remedy}")
    free_bytes = psutil.disk_usage(str(there)).free
    return _limit(what, free_bytes, f"a reproduction writes some 10 MB; {remedy}",
                  free_bytes >= _LEAST_DISK_BYTES)  # fmt: skip


def _limit(what: str, number: float, meaning: str, suffices: bool = True) -> Check:
    value = f"{number / 1e9:.1f} GB" if number >= 1e8 else f"{number:,.0f}"
    return Check("limits", what, value, "ok" if suffices else "warning", meaning, number)


def _actors(what: str, number: int, actors: int, remedy: str) -> Check:
    meaning = f"about {float(f'{max(0, actors):.2g}'):,.0f} rank actors on the SimGrid engine"
    return _limit(what, number, f"{meaning}; {remedy}", actors >= _LEAST_RANKS)


def _number_in(path: Path) -> int:
    """Return the number in a kernel file; a large one if there is none."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 2**63


def simgrid_checks() -> Iterator[Check]:
    """Import SimGrid as a user would, and simulate single flows on two shipped clusters."""
    # In a process of its own, without LD_LIBRARY_PATH: the program has to find the library.
    environment = {name: text for name, text in os.environ.items() if name != "LD_LIBRARY_PATH"}
    command = python_command(
        "from faultline.platforms.simgrid_library import find_simgrid_library; "
        "find_simgrid_library(); import simgrid"
    )
    child = subprocess.run(
        command, capture_output=True, text=True, timeout=60.0, env=environment, check=False
    )
    what = "import without LD_LIBRARY_PATH"
    if child.returncode:
        error = (child.stderr.strip().splitlines() or ["SimGrid crashed on import"])[-1]
        remedy = "make setup compiles SimGrid 4.1 (5 to 9 minutes, once)"
        yield Check("SimGrid", what, "failed", "failed", f"{error}; {remedy}")
        return
    yield Check("SimGrid", what, "works", "ok", "the library is found beside the module")
    for cluster, overrides in _CLUSTERS.items():
        try:
            with tempfile.TemporaryDirectory(prefix="faultline-") as folder:
                path = Path(folder) / f"{cluster}.xml"
                write_xml(load_preset(cluster, **overrides), path)
                flows = single_flow(path)
        except (PlatformError, OSError) as error:
            complaint = " ".join(str(error).split())
            yield Check("fabric", cluster, "not simulated", "failed", complaint)
            continue
        for flow in flows:
            measured, route = flow.measured_bandwidth_bytes_per_s, flow.route
            expected, latency_s = route.bandwidth_bytes_per_s, route.latency_s
            meaning = f"{expected / 1e9:.4g} GB/s and {latency_s * 1e6:.3g} us by its links"
            what, value = f"{cluster}: {_FLOWS[flow.kind]}", f"{measured / 1e9:.4g} GB/s"
            state: Literal["ok", "failed"] = "ok" if flow.passes() else "failed"
            yield Check("fabric", what, value, state, meaning, measured)
