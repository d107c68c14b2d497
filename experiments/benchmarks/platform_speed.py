"""Platform files, written, read and loaded in SimGrid; and what rank actors play on them.

Collectives, and the steps of a job that names a model, timed on its platform.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Literal, NamedTuple

from faultline.experiments.benchmarks.measurement import Answer, Case, Measurement, measured
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.job.step_times import step_time_of
from faultline.experiments.runs.single_run import play_on_simgrid
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


STEP_SECTION = "steps of llama3-70b-hgx"
_SCENARIO = "llama3-70b-hgx"
_RANKS = 256
_COLD_TARGET_S, _WARM_TARGET_S = 10.0, 0.1
_STEPS = 100
_STEP_TARGET_S = 0.6
_ACTIVITY_TARGET_US = 40.0


def step_cases(quick: bool) -> list[Case]:
    """Return a case for the timer and one for the SimGrid engine; if quick, for the timer."""
    engine = partial(_measure_engine, _STEPS)
    cases = [
        Case(STEP_SECTION, "timer", _measure_timer),
        Case(STEP_SECTION, f"SimGrid engine, {_STEPS} steps", engine),
    ]
    return cases[:1] if quick else cases


def _measure_timer() -> list[Measurement]:
    answer = measured(time_timer)
    return [
        Measurement(STEP_SECTION, "timer, cold", answer["cold_s"], "s", target=_COLD_TARGET_S),
        Measurement(STEP_SECTION, "timer, warm", answer["warm_s"], "s", target=_WARM_TARGET_S),
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


def _measure_engine(steps: int) -> list[Measurement]:
    answer = measured(time_engine, steps)
    wall_s, what = answer["wall_s"], f"{_RANKS} ranks, {steps} steps"
    activity_us = wall_s / answer["activities"] * 1e6
    return [
        Measurement(STEP_SECTION, f"{what}: SimGrid", wall_s, "s", target=steps * _STEP_TARGET_S),
        Measurement(
            STEP_SECTION, f"{what}: an activity", activity_us, "us", target=_ACTIVITY_TARGET_US
        ),
        Measurement(STEP_SECTION, f"{what}: peak memory", answer["peak_mb"], "MB"),
    ]


def time_engine(steps: int) -> Answer:
    """Let the SimGrid engine play undisturbed steps."""
    settings = [f"job.steps={steps}", "failures.mtbf_s=1e12"]
    result = play_on_simgrid(resolve(load_scenario(_SCENARIO, settings)), 0)
    return {
        "wall_s": result.wall_s,
        "activities": result.activities,
        "peak_mb": result.peak_memory_bytes / 1e6,
    }
