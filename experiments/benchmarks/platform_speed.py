"""Platform files: writing, reading, and loading in SimGrid."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter

from faultline.experiments.benchmarks.measurement import Answer, Case, Measurement, measured
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml

SECTION = "platform"
_HGX_GPUS_PER_DOMAIN = 8
_LOAD_TARGET_S = 5.0
_MEMORY_TARGET_MB = 300.0
_SIZES = (("hgx-h100", 4096), ("spare-600k", 1000))
_QUICK_SIZES = (("hgx-h100", 256), ("spare-600k", 200))


def platform_cases(quick: bool) -> list[Case]:
    """Return a case for each cluster; if quick, for small ones."""
    return [
        Case(SECTION, _title(*size), partial(_measure, *size))
        for size in (_QUICK_SIZES if quick else _SIZES)
    ]


def _title(cluster: str, ranks: int) -> str:
    return f"{cluster}, {ranks:,} {'groups' if cluster == 'spare-600k' else 'GPUs'}"


def _measure(cluster: str, ranks: int) -> list[Measurement]:
    with tempfile.TemporaryDirectory(prefix="faultline-") as directory:
        path = str(Path(directory) / f"{cluster}.xml")
        files = measured(time_files, cluster, ranks, path)
        loading = measured(time_loading, path)
    what = _title(cluster, ranks)
    size = f"{files['size_bytes'] / 1e6:.1f} MB"
    return [
        Measurement(SECTION, f"{what}: write ({size})", files["write_s"], "s"),
        Measurement(SECTION, f"{what}: read", files["read_s"], "s"),
        Measurement(
            SECTION, f"{what}: load in SimGrid", loading["load_s"], "s", target=_LOAD_TARGET_S
        ),
        Measurement(
            SECTION,
            f"{what}: peak memory of it",
            loading["peak_mb"],
            "MB",
            target=_MEMORY_TARGET_MB,
        ),
    ]


def time_files(cluster: str, ranks: int, path: str) -> Answer:
    """Write the platform of a cluster of `ranks` GPUs or groups, and read it back."""
    domains = ranks if cluster == "spare-600k" else ranks // _HGX_GPUS_PER_DOMAIN
    started = perf_counter()
    write_xml(load_preset(cluster, domains=domains), path)
    written = perf_counter()
    read_platform(path)
    return {
        "write_s": written - started,
        "read_s": perf_counter() - written,
        "size_bytes": Path(path).stat().st_size,
    }


def time_loading(path: str) -> Answer:
    """Load a platform in SimGrid, up to the point where its routes exist."""
    from faultline.simulator.simgrid_engine.loading import load_engine

    started = perf_counter()
    engine = load_engine(Path(path))
    engine.netzone_root.seal()
    return {"load_s": perf_counter() - started}
