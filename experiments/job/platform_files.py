"""From a scenario's ``platform.file`` to a platform XML and the hosts of each group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from faultline.experiments.config.cluster import (
    cluster_file,
    cluster_of,
    gpu_of_cluster,
    gpus_of_cluster,
    platform_at,
    spec_of_cluster,
)
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.platforms.cache_folder import (
    cache_directory,
    platform_in_cache,
    put_platform,
)
from faultline.platforms.errors import PlatformError
from faultline.platforms.files import read_text
from faultline.platforms.kept_results import kept
from faultline.platforms.preset_library import load_preset, preset_names
from faultline.platforms.spec_file import spec_from_mapping, with_overrides
from faultline.platforms.units import BANDWIDTH, format_quantity
from faultline.simulator.simgrid.errors import SimulationError

if TYPE_CHECKING:
    # Functions import these on first use: most runs need none of them.
    from faultline.platforms.platform_data import Platform
    from faultline.platforms.spec import ClusterSpec
    from faultline.platforms.spec_tables import Gpu
    from faultline.platforms.symmetry import Symmetry


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_WRITTEN: dict[Path, tuple[ClusterSpec, tuple[int, int, int] | None]] = {}
"""The shipped clusters that this process has written, with the stamps of their files."""


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def once_per_file(
    read: Callable[Concatenate[Path, Arguments], Result], kept: int = 8
) -> Callable[Concatenate[Path, Arguments], Result]:
    """Cache a function of a file until the file changes."""

    @lru_cache(maxsize=kept)
    def cached(_: object, path: Path, *rest: Arguments.args, **named: Arguments.kwargs) -> Result:
        return read(path, *rest, **named)

    @wraps(read)
    def call(path: Path, /, *rest: Arguments.args, **named: Arguments.kwargs) -> Result:
        return cached(_stamp(path), path, *rest, **named)  # type: ignore[arg-type]

    return call


def kept_per_file(read: Callable[[Path], Result]) -> Callable[[Path], Result]:
    """Cache a function of a platform until the file changes, also between runs."""

    def find(path: Path) -> Result:
        from faultline.platforms.xml_reader import content_digest

        return kept(read.__name__, content_digest(path), partial(read, path))

    return once_per_file(wraps(read)(find))


def platform_file(scenario: Scenario) -> Path:
    """Return the platform XML of a scenario; if the scenario names a preset, generate it."""
    name = cluster_of(scenario.platform, scenario.model)
    if name not in preset_names():
        return cluster_file(name)
    directory = cache_directory() / "platforms"
    return generate_preset(name, scenario.job.groups, directory, spec_at_size(scenario))


def check_platform(scenario: Scenario) -> None:
    """Refuse a platform file that is missing or invalid, even if the run would not need it."""
    name = cluster_of(scenario.platform, scenario.model)
    if name not in preset_names():
        platform_at(cluster_file(name))


def spec_of(scenario: Scenario) -> ClusterSpec | None:
    """Return the spec of a scenario's platform; None for an XML without a spec."""
    return spec_of_cluster(cluster_of(scenario.platform, scenario.model))


def gpu_of(scenario: Scenario) -> Gpu | None:
    """Return the kind of a scenario's GPUs; None if neither it nor its platform names one."""
    return gpu_of_cluster(cluster_of(scenario.platform, scenario.model))


def switches_are_unknown(scenario: Scenario) -> bool:
    """Return whether a scenario's platform is from elsewhere: SimGrid reports no switches."""
    name = cluster_of(scenario.platform, scenario.model)
    return name not in preset_names() and platform_at(cluster_file(name)).is_foreign


def is_plane(spec: ClusterSpec | None) -> bool:
    """Return whether one rail plane represents a cluster, with a host per GPU of one rail."""
    return spec is not None and spec.plane is not None


def gpus_on_platform(scenario: Scenario) -> int:
    """Return the number of GPUs of a scenario's platform; a rail plane has those of the job."""
    if is_plane(spec_of(scenario)):
        return scenario.job.all_gpus
    return gpus_of_cluster(cluster_of(scenario.platform, scenario.model))


def spec_at_size(scenario: Scenario) -> ClusterSpec | None:
    """Return the spec of a scenario's platform; a shipped cluster has the size of the job.

    A shipped cluster that is too small for the job gets more domains.
    """
    name, job = scenario.platform.file, scenario.job
    if name not in preset_names():
        return spec_of(scenario)
    # Only a job without simulated steps may be folded.
    gpus_of_group = job.gpus_of_group if scenario.model.name == "stated" else None
    return _at_size(name, job.all_gpus, job.groups, gpus_of_group)


_MOST_GPUS_UNFOLDED = 4096
"""Largest enlarged cluster with all of its rails. One rail represents a larger one if groups are
whole scale-up domains."""


@lru_cache(maxsize=32)
def _at_size(name: str, gpus: int, groups: int, gpus_of_group: int | None) -> ClusterSpec:
    shipped, shipped_gpus = load_preset(name), gpus_of_cluster(name)
    if gpus <= shipped_gpus and not shipped.plane:
        return shipped
    if shipped.plane:
        # A smaller job has a part of the cluster and all of its storage.
        sized: dict[str, object] = {"plane.cluster_gpus": gpus, "groups": groups}
        grown = max(1.0, gpus / shipped_gpus)
    else:
        domains = -(-gpus // shipped.scale_up.gpus_per_domain)
        sized = {"scale_up.domains": domains}
        grown = domains / shipped.scale_up.domains
    if shipped.storage is not None:
        # Storage bandwidth per GPU is constant.
        for key in ("read", "write"):
            bandwidth = getattr(shipped.storage, f"{key}_bandwidth_bytes_per_s")
            sized[f"storage.{key}_bandwidth"] = format_quantity(bandwidth * grown, BANDWIDTH)
    spec = load_preset(name, **sized)
    if shipped.plane:
        return spec
    is_folded = spec.gpus > _MOST_GPUS_UNFOLDED and spec.scale_out.rail_optimised
    if gpus_of_group is None or gpus_of_group % spec.scale_up.gpus_per_domain:
        is_folded = False
    if not is_folded:
        return spec
    from faultline.platforms.topology import rail_plane

    return rail_plane(spec)


def platform_size_text(scenario: Scenario) -> str | None:
    """Return a sentence about a shipped cluster that was enlarged; None for other platforms.

    A UserError refuses a platform file that is too small for the job.
    """
    name, gpus = scenario.platform.file, scenario.job.all_gpus
    available = gpus_of_cluster(cluster_of(scenario.platform, scenario.model))
    if gpus <= available:
        return None
    if name not in preset_names():
        raise UserError(
            f"platform.file = {name!r}: has {available:,} GPUs, the job has {gpus:,}; generate one "
            "of that size (faultline platform generate), or name a shipped cluster"
        )
    spec = spec_at_size(scenario)
    assert spec is not None, "a shipped cluster has one"
    folded = ", of which one rail is simulated" if spec.plane else ""
    return (
        f"The platform is {name}, enlarged from {available:,} GPUs to the job's {gpus:,}{folded}. "
        "Storage bandwidth grows in proportion."
    )


def edited_platform(scenario: Scenario) -> Platform | None:
    """Return the platform of a scenario if its XML differs from the spec in it; else None."""
    if scenario.platform.file in preset_names():
        return None
    path = cluster_file(cluster_of(scenario.platform, scenario.model))
    return platform_at(path) if _was_edited(path) else None


@once_per_file
def _was_edited(path: Path) -> bool:
    """Return whether an XML differs from its spec; equal bytes need no comparison of content."""
    from faultline.platforms.spec_differences import spec_differences
    from faultline.platforms.xml_reader import LARGEST_BYTES
    from faultline.platforms.xml_writer import xml_text

    platform = platform_at(path)
    if platform.spec is not None and read_text(path, LARGEST_BYTES) == xml_text(platform.spec):
        return False
    return bool(spec_differences(platform))


def cut_off_with_a_switch(scenario: Scenario) -> int | None:
    """Return the number of GPUs that a leaf switch cuts off, by the cables of a platform XML.

    The number is 0 if all GPUs have a detour. It is None if leaf switches differ, or if no part of
    a step is simulated on a shipped cluster.
    """
    name = cluster_of(scenario.platform, scenario.model)
    if name not in preset_names():
        return _cut_off_in_file(cluster_file(name))
    if scenario.model.name == "stated" and not _reduces_on(spec_of(scenario), scenario):
        return None
    # The shipped size is enough: leaf switches are alike at any size.
    directory = cache_directory() / "platforms"
    return _cut_off_in_file(generate_preset(name, scenario.job.groups, directory))


@kept_per_file
def symmetry_of(path: Path) -> Symmetry:
    """Return the symmetry of a platform: the parts that are alike."""
    from faultline.platforms.symmetry import Symmetry

    return Symmetry(platform_at(path))


@kept_per_file
def _cut_off_in_file(path: Path) -> int | None:
    from faultline.platforms.outages import gpus_cut_off_by_a_leaf_switch

    return gpus_cut_off_by_a_leaf_switch(platform_at(path))


def reduces_on_network(scenario: Scenario) -> bool:
    """Return whether a scenario's all-reduce is measured, on a platform with all its switches."""
    return _reduces_on(spec_at_size(scenario), scenario)


def _reduces_on(spec: ClusterSpec | None, scenario: Scenario) -> bool:
    return scenario.measured.all_reduce and not is_plane(spec)


@kept_per_file
def switches_with_detours(path: Path) -> tuple[tuple[str, ...], int]:
    """Return the switches that have a detour, and the number of leaf switches without one."""
    from faultline.platforms.fabric import switch_levels
    from faultline.platforms.outages import with_detours

    platform = platform_at(path)
    levels = switch_levels(platform)
    switches = with_detours(platform, levels)
    leaves = {switch for switch, level in levels.items() if level == 1}
    return switches, len(leaves.difference(switches))


@kept_per_file
def cables_with_detours(path: Path) -> Mapping[str, bool]:
    """Return whether each cable between switches has a detour, by its name."""
    from faultline.platforms.outages import cables_between_switches, with_detours

    platform = platform_at(path)
    cables = cables_between_switches(platform)
    detoured = set(with_detours(platform, cables))
    return {cable: cable in detoured for cable in cables}


@contextmanager
def explaining_aborts(path: Path) -> Iterator[None]:
    """If SimGrid aborts, raise a UserError with its message about the platform."""
    try:
        yield
    except SimulationError as error:
        from faultline.platforms.simgrid_check import load_in_simgrid

        try:
            load_in_simgrid(path)
        except PlatformError as reason:
            what = f"{path}: SimGrid rejects this platform: {reason}"
            raise UserError(what) from error
        raise


def generate_preset(
    name: str, groups: int, directory: Path, sized: ClusterSpec | None = None
) -> Path:
    """Write the XML of a shipped cluster, or of its variant `sized` for a job.

    A rail plane has a GPU per group of the job.
    """
    from faultline.platforms.xml_writer import xml_text

    shipped = load_preset(name)
    spec = sized or shipped
    if spec.plane is not None and shipped.plane is not None:
        where = f"preset {name}"
        try:
            mapping = with_overrides(spec.as_mapping(), {"groups": groups}, where)
            name = f"{name}-{groups}-{spec.plane.cluster_gpus}"
            spec = spec_from_mapping(mapping, where)
        except PlatformError as error:
            raise UserError(f"job.groups = {groups} on {error}") from error
    elif spec != shipped:
        name = f"{name}-{spec.scale_up.domains}-{'rail' if spec.plane else 'domains'}"
    path = directory / f"{name}.xml"
    if path in _WRITTEN and _WRITTEN[path] == (spec, _stamp(path)):
        return path
    try:
        put_platform(path, xml_text(spec).encode())
        _WRITTEN[path] = (spec, _stamp(path))
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror}; make the folder writable, or set XDG_CACHE_HOME to a "
            "writable one"
        ) from error
    return path


def with_memories(path: Path) -> Path:
    """Return a platform XML with links to the memories of its hosts, and with its spec."""
    return platform_in_cache(_text_with_memories(path).encode())


@kept_per_file
def _text_with_memories(path: Path) -> str:
    from faultline.platforms.memory_doors import with_memory_doors

    platform = platform_at(path)
    assert platform.spec is not None, "measurements need a spec"
    return with_memory_doors(platform, platform.spec)
