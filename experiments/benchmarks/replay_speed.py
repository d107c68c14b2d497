"""The replay engine: whole runs of the SPARe study, beside the published simulator."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from statistics import median
from time import perf_counter

from faultline.experiments.benchmarks.measurement import Answer, Case, Measurement, measured
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.single_run import run_question

SECTION = "replay engine, 10,000 steps"
_STEPS = 10_000
_SEEDS = 3
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
        Case(SECTION, _title(*cell), partial(_measure, *cell))
        for cell in PUBLISHED_SIMULATOR_S
        if not quick or cell[2] == 200
    ]


def _title(scheme: str, redundancy: int, groups: int) -> str:
    return f"{_TITLES[scheme]} r = {redundancy}, N = {groups:,}"


def _measure(scheme: str, redundancy: int, groups: int) -> list[Measurement]:
    # Read here, as the published tables bring pandas along, which a run does not need.
    from faultline.experiments.studies.spare.cells import Cell

    settings = {
        **Cell("spare-study", scheme, groups, redundancy).settings(),
        "job.steps": _STEPS,
    }
    answer = measured(time_replay, "spare-study", settings, _SEEDS)
    what, cell = _title(scheme, redundancy, groups), (scheme, redundancy, groups)
    seconds = median(answer["seconds"])
    return [
        Measurement(
            SECTION,
            what,
            seconds,
            "s",
            minimum=min(answer["seconds"]),
            target=_TARGET_S.get(cell),
            ratio=PUBLISHED_SIMULATOR_S[cell] / seconds,
            ratio_to="published C++",
        ),
        Measurement(SECTION, f"{what}: peak memory", answer["peak_mb"], "MB", target=_TARGET_MB),
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
