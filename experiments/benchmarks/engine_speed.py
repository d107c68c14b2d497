"""Whole runs: replay beside the published simulator, and the SimGrid engine beside replay."""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

from faultline.experiments.benchmarks.measurement import Answer, Case, Measurement, measured
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.platform_files import generate_preset, traffic_of
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.single_run import run_question
from faultline.simulator.simgrid_engine.process import run_on_simgrid

_REPLAY = "replay engine, 10,000 steps"
_REPLAY_STEPS = 10_000
_REPLAY_SEEDS = 3
_TITLES = {"spare": "SPARe", "replication": "replication"}

# Seconds of one run of 10,000 steps of the C++ simulator that Lee et al. 2026 (SPARe, arXiv
# 2603.00357) published with their paper, measured on a machine of this kind
# (2 cores); by scheme, redundancy and groups.
PUBLISHED_SIMULATOR_S = {
    ("spare", 9, 200): 25.0,
    ("spare", 9, 600): 127.0,
    ("spare", 9, 1000): 316.0,
    ("replication", 3, 200): 13.0,
    ("replication", 3, 600): 63.0,
    ("replication", 3, 1000): 173.0,
}
_TARGET_S = {("spare", 9, 200): 0.5, ("spare", 9, 1000): 1.0}
_TARGET_MB = 200.0


def replay_cases(quick: bool) -> list[Case]:
    """Return a case for each published time; if quick, for the smallest of each scheme."""
    return [
        Case(_REPLAY, _title_of_replay(*cell), partial(_measure_replay, *cell))
        for cell in PUBLISHED_SIMULATOR_S
        if not quick or cell[2] == 200
    ]


def _title_of_replay(scheme: str, redundancy: int, groups: int) -> str:
    return f"{_TITLES[scheme]} r = {redundancy}, N = {groups:,}"


def _measure_replay(scheme: str, redundancy: int, groups: int) -> list[Measurement]:
    # Read here, as the published tables bring pandas along, which a run does not need.
    from faultline.experiments.studies.spare.cells import Cell

    settings = {
        **Cell("spare-study", scheme, groups, redundancy).settings(),
        "job.steps": _REPLAY_STEPS,
    }
    answer = measured(time_replay, "spare-study", settings, _REPLAY_SEEDS)
    what, cell = _title_of_replay(scheme, redundancy, groups), (scheme, redundancy, groups)
    seconds = median(answer["seconds"])
    return [
        Measurement(
            _REPLAY,
            what,
            seconds,
            "s",
            minimum=min(answer["seconds"]),
            target=_TARGET_S.get(cell),
            ratio=PUBLISHED_SIMULATOR_S[cell] / seconds,
            ratio_to="published C++",
        ),
        Measurement(_REPLAY, f"{what}: peak memory", answer["peak_mb"], "MB", target=_TARGET_MB),
    ]


def time_replay(scenario: str, settings: Mapping[str, object] | list[str], seeds: int) -> Answer:
    """Play a scenario with some seeds; returns the seconds of each, after imports."""
    seconds = []
    for seed in range(seeds):
        question = resolve(load_scenario(scenario, settings))
        started = perf_counter()
        run_question(question, seed)
        seconds.append(perf_counter() - started)
    return {"seconds": seconds}


_SIMGRID = "SimGrid engine"
_STEPS, _QUICK_STEPS = 300, 30


def simgrid_cases(quick: bool) -> list[Case]:
    """Return a case for each of two sizes; if quick, for the smaller, and with fewer steps."""
    runs = ((24, 3, _QUICK_STEPS),) if quick else ((24, 3, _STEPS), (60, 4, _STEPS))
    return [
        Case(_SIMGRID, _title_of_simgrid(*run), partial(_measure_simgrid, *run)) for run in runs
    ]


def _title_of_simgrid(groups: int, redundancy: int, steps: int) -> str:
    return f"SPARe r = {redundancy}, N = {groups}, {steps} steps"


def _measure_simgrid(groups: int, redundancy: int, steps: int) -> list[Measurement]:
    what = _title_of_simgrid(groups, redundancy, steps)
    settings = [
        "strategy.name=spare",
        f"job.groups={groups}",
        f"strategy.redundancy={redundancy}",
        f"job.steps={steps}",
    ]
    simgrid = measured(time_simgrid, settings, groups)
    replay_s = median(measured(time_replay, "spare-study", settings, _REPLAY_SEEDS)["seconds"])
    wall_s = simgrid["wall_s"]
    return [
        Measurement(_SIMGRID, f"{what}: activities", simgrid["activities"] / wall_s, "1/s"),
        Measurement(_SIMGRID, f"{what}: played steps", simgrid["played_steps"] / wall_s, "1/s"),
        Measurement(_SIMGRID, f"{what}: peak memory", simgrid["peak_mb"], "MB"),
        Measurement(
            _SIMGRID,
            f"{what}: by replay",
            replay_s,
            "s",
            ratio=wall_s / replay_s,
            ratio_to="SimGrid",
        ),
    ]


def time_simgrid(settings: list[str], groups: int) -> Answer:
    """Play seed 0 of a scenario of the SPARe study on the SimGrid engine."""
    with tempfile.TemporaryDirectory(prefix="faultline-") as directory:
        path = generate_preset("spare-600k", groups, Path(directory))
        scenario = load_scenario("spare-study", [*settings, f'platform.file="{path.as_posix()}"'])
        question = resolve(scenario)
        result = run_on_simgrid(
            question.job(0), question.strategy(), path, traffic_of(scenario, path)
        )
    # The engine ran in a process of its own, a child of this one.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {
        "wall_s": result.wall_s,
        "activities": result.activities,
        "played_steps": result.progress.played_steps,
        "peak_mb": (peak if sys.platform == "darwin" else peak * 1024) / 1e6,
    }
