"""Whether this machine is fit for Faultline: its versions, its limits, and SimGrid's self-tests."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Literal

from faultline.experiments.runs.point import cores
from faultline.platforms.child_python import python_command
from faultline.platforms.errors import PlatformError
from faultline.platforms.preset_library import load_preset
from faultline.platforms.simgrid_check import FlowCheck, single_flow
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.cache_folder import cache_directory

State = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    section: str  # Which table it belongs to.
    what: str  # What was looked at.
    value: str  # What was found, for people.
    # Whether that will do; a warning restricts what can be done here (one of "ok", "warning",
    # "failed").
    state: State
    meaning: str  # What it means for Faultline and, unless all is well, what to do.
    number: float | None = None  # The value for programs: a count, bytes, or bytes/s.


_of_version = partial(Check, "versions")
_of_limit = partial(Check, "limits")


_REQUIREMENT = re.compile(r"^(?P<name>[\w.-]+)\s*(?:(?P<relation>==|>=)\s*(?P<version>[\d.]+))?$")
_REMEDY = "run: make setup"


def version_checks() -> list[Check]:
    """Look at Faultline, Python and every package that Faultline requires."""
    python = _of_version("python", platform.python_version(), "ok", platform.platform())
    try:
        own = metadata.version("faultline")
        requirements = metadata.requires("faultline") or []
    except metadata.PackageNotFoundError:
        missing = _of_version("faultline", "not installed", "failed", f"no package data; {_REMEDY}")
        return [missing, python]
    # Those with a marker are for developers, or for other Pythons.
    always = [requirement for requirement in requirements if ";" not in requirement]
    return [
        _of_version("faultline", own, "ok", ""),
        python,
        *(_package_check(requirement) for requirement in always),
    ]


def _package_check(requirement: str) -> Check:
    parts = _REQUIREMENT.match(requirement)
    name = parts["name"] if parts else requirement
    wanted = requirement.removeprefix(name) or "any version"
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return _of_version(name, "missing", "failed", f"needs {name} {wanted}; {_REMEDY}")
    if parts and parts["version"] and not _satisfies(found, parts["relation"], parts["version"]):
        return _of_version(name, found, "failed", f"needs {name} {wanted}; {_REMEDY}")
    return _of_version(name, found, "ok", f"needs {wanted}")


def _satisfies(found: str, relation: str, wanted: str) -> bool:
    ours, theirs = _release(found), _release(wanted)
    return ours == theirs if relation == "==" else ours >= theirs


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, without zeros at the end: 2.0rc1 is (2,)."""
    digits = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in digits.group().split(".")] if digits else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


# A rank is a SimGrid actor, an actor is a thread, and each thread's stack, guard page and
# bookkeeping are memory maps of their own: counted in /proc/self/maps with 3,000 to 21,000 actors.
MAPS_PER_ACTOR = 3
# Maps of Python, SimGrid and numpy before the first actor, with room to spare.
_OTHER_MAPS = 1_000
# Threads and processes of everything else on the machine.
_OTHER_THREADS = 500

_MEMORY_OF_A_RUN_BYTES = 200e6
_LEAST_DISK_BYTES = 100e6
_COMFORTABLE_DISK_BYTES = 1e9
_LARGEST_STUDY_RANKS = 1_000

_CGROUP = Path("/sys/fs/cgroup")
_MEMORY_LIMITS = (_CGROUP / "memory.max", _CGROUP / "memory/memory.limit_in_bytes")
_KERNEL_THREAD_LIMITS = {
    "kernel.threads-max": Path("/proc/sys/kernel/threads-max"),
    "kernel.pid_max": Path("/proc/sys/kernel/pid_max"),
    "the container's pids.max": _CGROUP / "pids.max",
}


def limit_checks() -> list[Check]:
    """Look at processors, memory, memory maps, threads and disk space."""
    count = cores()
    meaning = (
        f"reproduce plays {count} run{'s' if count > 1 else ''} at a time; one run uses one core"
    )
    return [
        _of_limit("cores available", str(count), "ok", meaning, count),
        _memory_check(),
        maps_check(_number_in(Path("/proc/sys/vm/max_map_count"))),
        threads_check(_thread_limits()),
        disk_check("results", Path("results"), "choose another place with -o DIR"),
        _cache_check(),
    ]


def _memory_check() -> Check:
    available_bytes = _available_memory_bytes()
    if available_bytes is None:
        return _unknown("memory available", "a run on the replay engine needs up to 200 MB")
    runs = int(available_bytes // _MEMORY_OF_A_RUN_BYTES)
    meaning = f"room for {runs:,} runs at once on the replay engine, at most 200 MB each"
    state: State = "ok"
    if runs == 0:
        state, meaning = "failed", "less than the 200 MB that one run may need; free some"
    elif runs < cores():
        state, meaning = "warning", f"{meaning}; give reproduce --workers {runs}"
    value = f"{available_bytes / 1e9:.1f} GB"
    return _of_limit("memory available", value, state, meaning, available_bytes)


def _available_memory_bytes() -> int | None:
    """Return what is left of the machine's memory, or of the container's where that is less."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        kibibytes = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        return None
    limits = [number for path in _MEMORY_LIMITS if (number := _number_in(path)) is not None]
    return min([kibibytes * 1024, *limits])


def maps_check(maps: int | None) -> Check:
    """Say how many rank actors ``vm.max_map_count`` leaves room for."""
    name = "vm.max_map_count"
    if maps is None:
        return _unknown(name, "it limits the ranks of the SimGrid engine")
    actors = max(0, (maps - _OTHER_MAPS) // MAPS_PER_ACTOR)
    meaning = (
        f"about {_rounded(actors):,} rank actors on the SimGrid engine, estimated as "
        f"(vm.max_map_count - {_OTHER_MAPS:,}) / {MAPS_PER_ACTOR} maps a thread; raise it with "
        "sysctl -w vm.max_map_count=262144. The replay engine has no such limit"
    )
    return _of_limit(name, f"{maps:,}", _state_for_ranks(actors), meaning, maps)


def threads_check(limits: dict[str, int]) -> Check:
    """Say how many rank actors the tightest limit on threads leaves room for."""
    name = "threads allowed"
    if not limits:
        return _unknown(name, "each rank actor of the SimGrid engine is a thread")
    tightest = min(limits, key=lambda limit: limits[limit])
    threads = limits[tightest]
    actors = max(0, threads - _OTHER_THREADS)
    others = ", ".join(f"{other} {limits[other]:,}" for other in limits if other != tightest)
    meaning = (
        f"about {_rounded(actors):,} rank actors, a thread each: {tightest} is the tightest limit"
        + (f" ({others})" if others else "")
    )
    return _of_limit(name, f"{threads:,}", _state_for_ranks(actors), meaning, threads)


def _thread_limits() -> dict[str, int]:
    limits = {
        name: number
        for name, path in _KERNEL_THREAD_LIMITS.items()
        if (number := _number_in(path)) is not None
    }
    try:
        import resource
    except ImportError:  # no POSIX system
        return limits
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft_limit != resource.RLIM_INFINITY:
        limits["ulimit -u"] = soft_limit
    return limits


def _state_for_ranks(actors: int) -> State:
    return "ok" if actors >= _LARGEST_STUDY_RANKS else "warning"


def disk_check(what: str, directory: Path, remedy: str) -> Check:
    """Say how much can be written below a directory, which need not exist yet."""
    name = f"free disk, {what}"
    try:
        whole = directory.absolute()
        place = next(place for place in (whole, *whole.parents) if place.exists())
        free_bytes = shutil.disk_usage(place).free
        writable = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    except OSError as error:
        return _of_limit(name, "unknown", "failed", f"{directory}: {error.strerror}")
    meaning = f"{directory}: a reproduction writes some 10 MB, a platform up to some MB"
    state: State = "ok"
    if not writable:
        state, meaning = "failed", f"{directory}: cannot be written; {remedy}"
    elif free_bytes < _LEAST_DISK_BYTES:
        state, meaning = "failed", f"{directory}: less than 100 MB; {remedy}"
    elif free_bytes < _COMFORTABLE_DISK_BYTES:
        state = "warning"
    return _of_limit(name, f"{free_bytes / 1e9:.1f} GB", state, meaning, free_bytes)


def _cache_check() -> Check:
    remedy = "choose another place with XDG_CACHE_HOME"
    try:
        return disk_check("cache", cache_directory(), remedy)
    except RuntimeError:  # no home directory
        return _of_limit("free disk, cache", "unknown", "failed", f"no home; {remedy}")


def _number_in(path: Path) -> int | None:
    """Return the number in a file of the kernel; None where there is none, or no limit."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _unknown(what: str, meaning: str) -> Check:
    return _of_limit(what, "unknown", "warning", f"this system does not tell; {meaning}")


def _rounded(actors: int) -> int:
    """Two digits: it is an estimate."""
    return int(float(f"{actors:.2g}"))


_SIMGRID = "SimGrid"
_FABRIC = "fabric"
_FLOW_NAMES = {"nvlink": "single NVLink flow", "nic": "single NIC flow"}
# Small, and still with a path of every kind that the preset has.
_CLUSTERS: dict[str, dict[str, int]] = {
    "hgx-h100": {"domains": 4, "domains_per_leaf": 2},
    "spare-600k": {"groups": 24},
}


def simgrid_checks() -> list[Check]:
    """Import SimGrid as a user would, and let it play single flows on two shipped clusters."""
    checks = _import_checks()
    if any(check.state == "failed" for check in checks):
        return [*checks, Check(_FABRIC, "single flows", "not tried", "failed", "SimGrid first")]
    for cluster, overrides in _CLUSTERS.items():
        checks += _flow_checks(cluster, overrides)
    return checks


def _import_checks() -> list[Check]:
    """Look in a process of its own: an import leaves its mark on the process."""
    what = "import without LD_LIBRARY_PATH"
    environment = {name: text for name, text in os.environ.items() if name != "LD_LIBRARY_PATH"}
    try:
        child = subprocess.run(
            python_command("import simgrid"),
            capture_output=True,
            text=True,
            timeout=60.0,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [Check(_SIMGRID, what, "failed", "failed", f"{error}; run: make setup")]
    if child.returncode != 0:
        return [Check(_SIMGRID, what, "failed", "failed", _import_remedy(child.stderr))]
    # SimGrid says so on import, and has no function that tells.
    factory = re.search(r"contexts/factory' to '(\w+)'", child.stderr)
    name = factory.group(1) if factory else "not told"
    return [
        Check(_SIMGRID, what, "works", "ok", "the library is found beside the module"),
        Check(_SIMGRID, "context factory", name, "ok", "how actors run; Python's need threads"),
    ]


def _import_remedy(errors: str) -> str:
    lines = errors.strip().splitlines()
    complaint = lines[-1] if lines else "SimGrid crashed on import"
    if "libsimgrid" in complaint:
        return f"{complaint}; it was built without its rpath: make setup builds it with one"
    return f"{complaint}; make setup compiles SimGrid 4.1 (5 to 9 minutes, once)"


def _flow_checks(cluster: str, overrides: dict[str, int]) -> list[Check]:
    try:
        with tempfile.TemporaryDirectory(prefix="faultline-") as directory:
            path = Path(directory) / f"{cluster}.xml"
            write_xml(load_preset(cluster, **overrides), path)
            flows = single_flow(path)
    except (PlatformError, OSError) as error:
        return [Check(_FABRIC, cluster, "not played", "failed", " ".join(str(error).split()))]
    return [_flow_check(cluster, flow) for flow in flows]


def _flow_check(cluster: str, flow: FlowCheck) -> Check:
    measured = flow.measured_bandwidth_bytes_per_s
    expected = flow.expected_bandwidth_bytes_per_s
    meaning = f"{expected / 1e9:.4g} GB/s and {flow.latency_s * 1e6:.3g} us by its links"
    if not flow.passes():
        meaning += f"; its time is off by {flow.relative_error:.1e} of what they say"
    return Check(
        _FABRIC,
        f"{cluster}: {_FLOW_NAMES[flow.kind]}",
        f"{measured / 1e9:.4g} GB/s",
        "ok" if flow.passes() else "failed",
        meaning,
        measured,
    )
