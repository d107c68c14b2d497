"""What stands behind the study's constants: the fabric, measured; and the engines, compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.platform_files import generate_preset, traffic_of
from faultline.experiments.runs.single_run import run
from faultline.experiments.studies.spare.published import STUDY_ALL_REDUCE_S, STUDY_SAVE_S
from faultline.simulator.probe_cache import cached_probe
from faultline.simulator.timeline import Event


def measure_fabric(asked: tuple[int, Path]) -> dict[str, Any]:
    """Generate ``spare-600k`` for N groups in a directory, and measure the job's phases on it.

    Returns
    -------
    dict
        All-reduce, checkpoint write and load in SimGrid, in seconds, beside the study's constants.
    """
    groups, directory = asked
    path = generate_preset("spare-600k", groups, directory)
    settings = {"job.groups": groups, "platform.file": path.as_posix()}
    measured = cached_probe(path, traffic_of(load_scenario("spare-sound", settings), path))
    return {
        "groups": groups,
        "all_reduce_s": measured.all_reduce_s,
        "study_all_reduce_s": STUDY_ALL_REDUCE_S[groups],
        "save_s": measured.save_s,
        "study_save_s": STUDY_SAVE_S,
        "load_s": measured.load_s,
    }


SMALL_JOBS = [
    (rules, scheme, redundancy)
    for rules in ("spare-study", "spare-sound")
    for scheme, redundancy in (("checkpoint", 1), ("replication", 3), ("spare", 3))
]
"""Rules, scheme and redundancy of the jobs that both engines play."""


def compare_engines(asked: tuple[str, str, int]) -> dict[str, Any]:
    """Play one of the `SMALL_JOBS` without jitter on both engines.

    Returns
    -------
    dict
        The job; ``events`` of the replay engine, ``same_events`` in the same order on SimGrid,
        ``largest_difference`` in time of an event, relative to the time; ``failures`` that struck.
    """
    rules, scheme, redundancy = asked
    scenario = load_scenario(
        rules,
        {
            "strategy.name": scheme,
            "strategy.redundancy": redundancy,
            "job.groups": 24,
            "job.steps": 100,
            "job.compute_jitter": 0.0,
            # Ten times as rare as in the study, so that checkpoint-only gets somewhere too.
            "failures.mtbf_s": 3000.0,
            "checkpoint.interval_steps": 10,
        },
    )
    replayed: list[Event] = []
    simulated: list[Event] = []
    record = run(scenario, 0, "replay", replayed.append)
    run(scenario, 0, "simgrid", simulated.append)
    differences = (
        abs(one.time_s - other.time_s) / max(one.time_s, 1.0)
        for one, other in zip(replayed, simulated, strict=False)
    )
    return {
        "rules": rules,
        "scheme": scheme,
        "events": len(replayed),
        "same_events": [event[1:] for event in replayed] == [event[1:] for event in simulated],
        "largest_difference": max(differences, default=0.0),
        "failures": record["failures"],
    }
