"""The SimGrid engine: activities and steps a second, and how much faster replay is."""

from __future__ import annotations

import resource
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median

from faultline.experiments.benchmarks.measurement import Answer, Case, Measurement, measured
from faultline.experiments.benchmarks.replay_speed import time_replay
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.platform_files import generate_preset, traffic_of
from faultline.experiments.job.resolved_job import resolve
from faultline.simulator.simgrid_engine.process import run_on_simgrid

SECTION = "SimGrid engine"
_SEEDS_OF_REPLAY = 3
_STEPS, _QUICK_STEPS = 300, 30


def simgrid_cases(quick: bool) -> list[Case]:
    """Return a case for each of two sizes; if quick, for the smaller, and with fewer steps."""
    runs = ((24, 3, _QUICK_STEPS),) if quick else ((24, 3, _STEPS), (60, 4, _STEPS))
    return [Case(SECTION, _title(*run), partial(_measure, *run)) for run in runs]


def _title(groups: int, redundancy: int, steps: int) -> str:
    return f"SPARe r = {redundancy}, N = {groups}, {steps} steps"


def _measure(groups: int, redundancy: int, steps: int) -> list[Measurement]:
    what = _title(groups, redundancy, steps)
    settings = [
        "strategy.name=spare",
        f"job.groups={groups}",
        f"strategy.redundancy={redundancy}",
        f"job.steps={steps}",
    ]
    simgrid = measured(time_simgrid, settings, groups)
    replay_s = median(measured(time_replay, "spare-study", settings, _SEEDS_OF_REPLAY)["seconds"])
    wall_s = simgrid["wall_s"]
    return [
        Measurement(SECTION, f"{what}: activities", simgrid["activities"] / wall_s, "1/s"),
        Measurement(SECTION, f"{what}: played steps", simgrid["played_steps"] / wall_s, "1/s"),
        Measurement(SECTION, f"{what}: peak memory", simgrid["peak_mb"], "MB"),
        Measurement(
            SECTION,
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
