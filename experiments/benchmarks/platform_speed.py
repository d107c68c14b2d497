"""Platform files, written, read and loaded in SimGrid; and collectives by rank actors on them."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Literal, NamedTuple

from faultline.experiments.benchmarks.measurement import Answer, Case, Measurement, measured
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml

_PLATFORM = "platform"
_HGX_GPUS_PER_DOMAIN = 8
_LOAD_TARGET_S = 5.0
_MEMORY_TARGET_MB = 300.0
_SIZES = (("hgx-h100", 4096), ("spare-600k", 1000))
_QUICK_SIZES = (("hgx-h100", 256), ("spare-600k", 200))


def platform_cases(quick: bool) -> list[Case]:
    """Return a case for each cluster; if quick, for small ones."""
    return [
        Case(_PLATFORM, _title_of_platform(*size), partial(_measure_platform, *size))
        for size in (_QUICK_SIZES if quick else _SIZES)
    ]


def _title_of_platform(cluster: str, ranks: int) -> str:
    return f"{cluster}, {ranks:,} {'groups' if cluster == 'spare-600k' else 'GPUs'}"


def _measure_platform(cluster: str, ranks: int) -> list[Measurement]:
    with tempfile.TemporaryDirectory(prefix="faultline-") as directory:
        path = str(Path(directory) / f"{cluster}.xml")
        files = measured(time_files, cluster, ranks, path)
        loading = measured(time_loading, path)
    what = _title_of_platform(cluster, ranks)
    size = f"{files['size_bytes'] / 1e6:.1f} MB"
    return [
        Measurement(_PLATFORM, f"{what}: write ({size})", files["write_s"], "s"),
        Measurement(_PLATFORM, f"{what}: read", files["read_s"], "s"),
        Measurement(
            _PLATFORM, f"{what}: load in SimGrid", loading["load_s"], "s", target=_LOAD_TARGET_S
        ),
        Measurement(
            _PLATFORM,
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


_COLLECTIVES = "collectives"
_SIZE_BYTES = 1e9
_TARGET_S = 5.0


class AllReduce(NamedTuple):
    """One all-reduce to be timed."""

    algorithm: str
    ranks: int
    fidelity: Literal["flow", "chunk"]

    @property
    def title(self) -> str:
        """How the table names it."""
        return f"{self.algorithm} all-reduce, {self.ranks:,} GPUs, {self.fidelity}"


_ALL_REDUCES = (AllReduce("hierarchical", 1024, "flow"), AllReduce("ring", 64, "chunk"))
_QUICK_ALL_REDUCES = (AllReduce("ring", 16, "chunk"),)


def collective_cases(quick: bool) -> list[Case]:
    """Return a case for each all-reduce; if quick, a small one."""
    return [
        Case(_COLLECTIVES, case.title, partial(_measure_collective, case))
        for case in (_QUICK_ALL_REDUCES if quick else _ALL_REDUCES)
    ]


def _measure_collective(case: AllReduce) -> list[Measurement]:
    """Time the process's start, reading the platform, loading it and the all-reduce itself."""
    from faultline.simulator.simgrid_engine.collective_probe import probe_collective

    with tempfile.TemporaryDirectory(prefix="faultline-") as directory:
        path = Path(directory) / "hgx-h100.xml"
        write_xml(load_preset("hgx-h100", domains=case.ranks // _HGX_GPUS_PER_DOMAIN), path)
        started = perf_counter()
        result = probe_collective(
            path,
            "all-reduce",
            case.algorithm,
            _SIZE_BYTES,
            case.ranks,
            case.fidelity,
            directory=Path(directory) / "cache",
        )
        wall_s = perf_counter() - started
    title = f"{case.title} ({result.messages:,} messages)"
    return [Measurement(_COLLECTIVES, title, wall_s, "s", target=_TARGET_S)]
