"""What stands behind the study's constants: the fabric, measured; and the engines, compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.platform_files import generate_preset, traffic_of
from faultline.experiments.runs.single_run import run
from faultline.experiments.studies.base import Options
from faultline.experiments.studies.spare.published import GROUPS, STUDY_ALL_REDUCE_S, STUDY_SAVE_S
from faultline.simulator.probe_cache import cached_probe
from faultline.simulator.timeline import Event


def measure_fabric(options: Options, on_done: Callable[[], None]) -> pd.DataFrame:
    """Generate ``spare-600k`` for every N and measure the job's phases on it in SimGrid.

    Returns
    -------
    pandas.DataFrame
        A row an N: all-reduce, checkpoint write and load in seconds beside the study's constants.
    """
    rows = []
    for groups in GROUPS:
        path = generate_preset("spare-600k", groups, options.directory / "platforms")
        scenario = load_scenario(
            "spare-sound", [f"job.groups={groups}", f'platform.file="{path.as_posix()}"']
        )
        measured = cached_probe(path, traffic_of(scenario, path))
        rows.append(
            {
                "groups": groups,
                "all_reduce_s": measured.all_reduce_s,
                "study_all_reduce_s": STUDY_ALL_REDUCE_S[groups],
                "save_s": measured.save_s,
                "study_save_s": STUDY_SAVE_S,
                "load_s": measured.load_s,
            }
        )
        on_done()
    return pd.DataFrame(rows)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two engines agree on one job.

    Attributes
    ----------
    rules, scheme : str
        The job.
    events : int
        Events of the replay engine.
    same_events : bool
        Whether both engines had the same events in the same order.
    largest_difference : float
        Largest difference in time of an event, relative to the time.
    failures : int
        Failures that struck.
    """

    rules: str
    scheme: str
    events: int
    same_events: bool
    largest_difference: float
    failures: int


def compare_engines(on_done: Callable[[], None]) -> list[Agreement]:
    """Play a small job without jitter on both engines, for each scheme under both rules."""
    agreements = []
    for rules in ("spare-study", "spare-sound"):
        for scheme, redundancy in (("checkpoint", 1), ("replication", 3), ("spare", 3)):
            agreements.append(_compare(rules, scheme, redundancy))
            on_done()
    return agreements


COMPARISONS = 6
"""Number of jobs that `compare_engines` plays."""


def _compare(rules: str, scheme: str, redundancy: int) -> Agreement:
    scenario = load_scenario(
        rules,
        [
            f"strategy.name={scheme}",
            f"strategy.redundancy={redundancy}",
            "job.groups=24",
            "job.steps=100",
            "job.compute_jitter=0",
            # Ten times as rare as in the study, so that checkpoint-only gets somewhere too.
            "failures.mtbf_s=3000",
            "checkpoint.interval_steps=10",
        ],
    )
    replayed: list[Event] = []
    simulated: list[Event] = []
    record = run(scenario, 0, "replay", replayed.append)
    run(scenario, 0, "simgrid", simulated.append)
    same = [event[1:] for event in replayed] == [event[1:] for event in simulated]
    difference = max(
        (
            abs(one.time_s - other.time_s) / max(one.time_s, 1.0)
            for one, other in zip(replayed, simulated, strict=False)
        ),
        default=0.0,
    )
    return Agreement(rules, scheme, len(replayed), same, difference, record["failures"])
