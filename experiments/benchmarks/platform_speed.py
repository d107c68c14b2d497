"""Platform files, written, read and loaded in SimGrid; and what rank actors play on them.

Collectives, and the steps of a job that names a model, timed on its platform.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Literal

from faultline.experiments.benchmarks.measurement import Answer, Case, Measurement, measured
from faultline.experiments.benchmarks.run_speed import time_simgrid
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.step_times import step_time_of
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
    return [_platform_case(*size) for size in (_QUICK_SIZES if quick else _SIZES)]


def _platform_case(cluster: str, ranks: int) -> Case:
    what = f"{cluster}, {ranks:,} {'groups' if cluster == 'spare-600k' else 'GPUs'}"

    def measure() -> list[Measurement]:
        with tempfile.TemporaryDirectory(prefix="faultline-") as directory:
            path = str(Path(directory) / f"{cluster}.xml")
            files = measured(time_files, cluster, ranks, path)
            loading = measured(time_loading, path)
        size, load_s, peak_mb = files["size_bytes"] / 1e6, loading["load_s"], loading["peak_mb"]
        target_s, target_mb = _LOAD_TARGET_S, _MEMORY_TARGET_MB
        return [
            Measurement(_PLATFORM, f"{what}: write ({size:.1f} MB)", files["write_s"], "s"),
            Measurement(_PLATFORM, f"{what}: read", files["read_s"], "s"),
            Measurement(_PLATFORM, f"{what}: load in SimGrid", load_s, "s", target=target_s),
            Measurement(_PLATFORM, f"{what}: peak memory of it", peak_mb, "MB", target=target_mb),
        ]

    return Case(_PLATFORM, what, measure)


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


def collective_cases(quick: bool) -> list[Case]:
    """Return a case for each all-reduce; if quick, a small one."""
    ring = _collective_case("ring", 16 if quick else 64, "chunk")
    return [ring] if quick else [_collective_case("hierarchical", 1024, "flow"), ring]


def _collective_case(algorithm: str, ranks: int, fidelity: Literal["flow", "chunk"]) -> Case:
    """Time the process's start, reading the platform, loading it and the all-reduce itself."""
    what = f"{algorithm} all-reduce, {ranks:,} GPUs, {fidelity}"

    def measure() -> list[Measurement]:
        from faultline.simulator.simgrid_engine.collective_probe import probe_collective

        with tempfile.TemporaryDirectory(prefix="faultline-") as folder:
            path, cache = Path(folder, "hgx-h100.xml"), Path(folder, "cache")
            write_xml(load_preset("hgx-h100", domains=ranks // _HGX_GPUS_PER_DOMAIN), path)
            started = perf_counter()
            result = probe_collective(
                path, "all-reduce", algorithm, _SIZE_BYTES, ranks, fidelity, directory=cache
            )
            wall_s = perf_counter() - started
        title = f"{what} ({result.messages:,} messages)"
        return [Measurement(_COLLECTIVES, title, wall_s, "s", target=_TARGET_S)]

    return Case(_COLLECTIVES, what, measure)


_SCENARIO = "llama3-70b-hgx"
_STEP = f"steps of {_SCENARIO}"
_RANKS = 256
_COLD_TARGET_S, _WARM_TARGET_S = 10.0, 0.1
_STEPS = 100
_STEP_TARGET_S = 0.6
_ACTIVITY_TARGET_US = 40.0


def step_cases(quick: bool) -> list[Case]:
    """Return a case for the timer and one for the SimGrid engine; if quick, for the timer."""
    cases = [
        Case(_STEP, "timer", _measure_timer),
        Case(_STEP, f"SimGrid engine, {_STEPS} steps", _measure_engine),
    ]
    return cases[:1] if quick else cases


def _measure_timer() -> list[Measurement]:
    answer = measured(time_timer)
    return [
        Measurement(_STEP, "timer, cold", answer["cold_s"], "s", target=_COLD_TARGET_S),
        Measurement(_STEP, "timer, warm", answer["warm_s"], "s", target=_WARM_TARGET_S),
    ]


def _measure_engine() -> list[Measurement]:
    """Let the SimGrid engine play undisturbed steps."""
    settings = [f"job.steps={_STEPS}", "failures.mtbf_s=1e12"]
    answer = measured(time_simgrid, _SCENARIO, settings)
    wall_s, what = answer["wall_s"], f"{_RANKS} ranks, {_STEPS} steps"
    each_us, target_us = wall_s / answer["activities"] * 1e6, _ACTIVITY_TARGET_US
    return [
        Measurement(_STEP, f"{what}: SimGrid", wall_s, "s", target=_STEPS * _STEP_TARGET_S),
        Measurement(_STEP, f"{what}: an activity", each_us, "us", target=target_us),
        Measurement(_STEP, f"{what}: peak memory", answer["peak_mb"], "MB"),
    ]


def time_timer() -> Answer:
    """Time an undisturbed step where nothing is known of its platform, and once more."""
    with tempfile.TemporaryDirectory(prefix="faultline-") as directory:
        os.environ["XDG_CACHE_HOME"] = directory
        scenario = load_scenario(_SCENARIO)
        started = perf_counter()
        step_time_of(scenario)
        cold = perf_counter()
        step_time_of(scenario)
        return {"cold_s": cold - started, "warm_s": perf_counter() - cold}
