"""The cluster that ``platform.file`` names: a shipped one, or a platform XML."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.tables.job import ModelTable, PlatformTable
from faultline.platforms.files import read_file
from faultline.platforms.preset_library import gpu_of_kind, load_preset, preset_names
from faultline.platforms.units import SIZE, SPEED, format_quantity

if TYPE_CHECKING:
    from faultline.platforms.platform_data import Platform
    from faultline.platforms.spec import ClusterSpec
    from faultline.platforms.spec_tables import Gpu


def cluster_file(name: str, place: str = "") -> Path:
    """Return the path of a platform XML that is no shipped cluster.

    Raises UserError if there is no such file; by default, `place` is the key of a scenario.
    """
    path = Path(name)
    if not path.is_file():
        raise UserError(
            f"{place or f'platform.file = {name!r}'}: no such file; name a platform XML or a "
            f"shipped cluster ({', '.join(preset_names())})"
        )
    return path


def cluster_of(table: PlatformTable, model: ModelTable) -> str:
    """Return the cluster of a scenario: its ``platform.file``, or a copy that names the GPUs.

    Raises UserError or PlatformError if ``platform.gpu_hosts`` or ``model.gpu`` does not fit the
    file.
    """
    name = table.file
    if table.gpu_hosts is None and model.gpu is None:
        return name
    if name not in preset_names():
        return str(naming_gpus(cluster_file(name), table.gpu_hosts, model.gpu))
    if table.gpu_hosts is not None:
        raise UserError(
            f"platform.gpu_hosts = {table.gpu_hosts!r}: {name} is a shipped cluster, whose "
            "GPUs are known; leave the key out"
        )
    if model.gpu is not None:
        _check_gpu(model.gpu, _preset(name).gpu, name)
    return name


def _check_gpu(kind: str, described: Gpu, platform: str) -> None:
    """Raise UserError if a platform describes another GPU than the scenario."""
    named = gpu_of_kind(kind)
    if named != described:
        raise UserError(
            f'model.gpu = "{kind}": {platform} describes its GPU as {_gpu_text(described)}, not as '
            f"{_gpu_text(named)}; leave model.gpu out, or name another platform"
        )


def _gpu_text(gpu: Gpu) -> str:
    speed = format_quantity(gpu.speed_flop_per_s, SPEED)
    return f"{gpu.name} of {speed} and {format_quantity(gpu.memory_bytes, SIZE)}"


def naming_gpus(path: Path, gpu_hosts: str | None, gpu_kind: str | None = None) -> Path:
    """Return a copy of a platform XML in the cache that names its GPU hosts, and their kind.

    `gpu_hosts` is a shell pattern of their names. A file that describes these GPUs needs no copy.
    """
    status = path.stat()
    return _copy_naming_gpus(path, gpu_hosts, gpu_kind, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _copy_naming_gpus(
    path: Path, gpu_hosts: str | None, gpu_kind: str | None, _changed_ns: int, _size_bytes: int
) -> Path:
    from faultline.platforms.cache_folder import platform_in_cache
    from faultline.platforms.foreign_reader import with_gpus
    from faultline.platforms.xml_reader import LARGEST_BYTES, read_platform

    # Mistakes are those of the file, not of the copy.
    platform = read_platform(path, gpu_hosts)
    if gpu_kind is not None and platform.gpu is not None:
        _check_gpu(gpu_kind, platform.gpu, str(path))
        if gpu_hosts is None:
            return path
    content = read_file(path, LARGEST_BYTES)
    return platform_in_cache(with_gpus(content, str(path), gpu_hosts, gpu_kind))


def spec_of_cluster(name: str) -> ClusterSpec | None:
    """Return the spec of a cluster; None for an XML that keeps none.

    Raises UserError or PlatformError if there is no such platform, or it is broken.
    """
    return _preset(name) if name in preset_names() else platform_at(cluster_file(name)).spec


def gpu_of_cluster(name: str) -> Gpu | None:
    """Return the kind of a cluster's GPUs; None for an XML that names none.

    Raises UserError or PlatformError if there is no such platform, or it is broken.
    """
    return _preset(name).gpu if name in preset_names() else platform_at(cluster_file(name)).gpu


def gpus_of_cluster(name: str) -> int:
    """Return the number of GPUs that a cluster represents.

    Raises UserError or PlatformError if there is no such platform, or it is broken.
    """
    if name not in preset_names():
        platform = platform_at(cluster_file(name))
        return len(platform.gpus) * platform.gpus_per_rank
    spec = _preset(name)
    return spec.plane.cluster_gpus if spec.plane else spec.gpus


def platform_at(path: Path) -> Platform:
    """Return `xml_reader.platform_at`, which is imported on first use."""
    from faultline.platforms import xml_reader

    return xml_reader.platform_at(path)


@lru_cache(maxsize=32)
def _preset(name: str) -> ClusterSpec:
    return load_preset(name)
