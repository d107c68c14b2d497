"""The cluster that ``platform.file`` names: a shipped spec, or a platform XML."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from faultline.experiments.config.errors import UserError
from faultline.platforms.platform_data import Platform
from faultline.platforms.preset_library import load_preset, preset_names
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.xml_reader import read_platform


def cluster_file(name: str) -> Path:
    """Return the path of a platform XML that is no shipped cluster.

    Raises
    ------
    UserError
        If there is no such file.
    """
    path = Path(name)
    if not path.is_file():
        raise UserError(
            f"platform.file = {name!r}: no such file; name a platform XML or a shipped "
            f"cluster ({', '.join(preset_names())})"
        )
    return path


def spec_of_cluster(name: str) -> ClusterSpec | None:
    """Return the spec of a cluster; None for an XML that keeps none.

    Raises
    ------
    UserError, PlatformError
        If there is no such platform, or it is broken.
    """
    return _preset(name) if name in preset_names() else platform_at(cluster_file(name)).spec


def gpus_of_cluster(name: str) -> int:
    """Return how many GPUs a cluster stands for.

    Raises
    ------
    UserError, PlatformError
        If there is no such platform, or it is broken.
    """
    if name not in preset_names():
        platform = platform_at(cluster_file(name))
        return len(platform.gpus) * platform.gpus_per_rank
    spec = _preset(name)
    return spec.plane.cluster_gpus if spec.plane else spec.gpus


def platform_at(path: Path) -> Platform:
    """Read a platform, once for as long as its file does not change: large ones take a second."""
    status = path.stat()
    return _platform_as_of(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=32)
def _preset(name: str) -> ClusterSpec:
    return load_preset(name)


@lru_cache(maxsize=8)
def _platform_as_of(path: Path, _changed_ns: int, _size_bytes: int) -> Platform:
    return read_platform(path)
