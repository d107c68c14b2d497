"""Steps of a job that names a model: timed on its platform, and played by all of its ranks."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from time import perf_counter

from faultline.experiments.benchmarks.measurement import Answer, Case, Measurement, measured
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.job.step_times import step_time_of
from faultline.experiments.runs.single_run import play_on_simgrid

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
