"""What is published and simulated, and what stands behind the study's constants.

That is the fabric, and that both engines agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.platform_files import generate_preset, traffic_of
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.point import Labels, Point
from faultline.experiments.runs.single_run import run
from faultline.experiments.studies.data import read_rows, value_if_published
from faultline.simulator.job import Durations
from faultline.simulator.probe_cache import cached_probe
from faultline.simulator.timeline import Event
from faultline.strategies.golomb import largest_redundancy

GROUPS = (200, 600, 1000)
STUDY_ALL_REDUCE_S = {200: 2.0, 600: 6.0, 1000: 10.0}
STUDY_SAVE_S = 58.8
"""2e13 bytes at 340 GB/s."""
SCHEMES = ("replication", "spare")
RULES = ("spare-study", "spare-sound")
DISTRIBUTIONS = ("weibull", "exponential")
_SHORTCUT = "N=200 shortcut: {}"
Settings = Mapping[str, Any]
"""Values that differ from a scenario's, by their dotted keys."""


def table(name: str) -> pd.DataFrame:
    """Return one of the tracked tables of published numbers; its first line names the source."""
    return pd.DataFrame(read_rows("spare", name))


def trials() -> pd.DataFrame:
    """Means over three published trials at N = 200, Weibull, for every redundancy."""
    return table("spare_n200_weibull")


def headline() -> pd.DataFrame:
    """The best redundancy of each scheme and N, as the paper's table has it."""
    return table("spare_headline")


def published(name: str, scheme: str, groups: int, redundancy: int) -> float | None:
    """Return a published mean: from the trials where they reach, else from the headline.

    ``interval_steps`` is the checkpoint interval that the study used, where it is known.
    """
    cell = {"scheme": scheme, "groups": groups, "redundancy": redundancy}
    for kept in ("spare_n200_weibull", "spare_headline", "spare_intervals"):
        for row in read_rows("spare", kept):
            if cell.items() <= row.items() and name in row:
                return float(row[name])
    return None


def published_shortcut(shortcut: str, scheme: str) -> float | None:
    """Return the ratio of the published simulator with a shortcut undone, if it is known."""
    return value_if_published("spare", "time_to_train_ratio", scheme, _SHORTCUT.format(shortcut))


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of a curve."""

    rules: str  # Name of the scenario: ``spare-study`` or ``spare-sound``.
    # The point.
    scheme: str
    groups: int
    redundancy: int
    distribution: str = "weibull"

    def settings(self) -> dict[str, Any]:
        """Return what sets this cell apart from its scenario.

        The rules of the study include its checkpoint intervals; sound rules derive their own.
        """
        settings = {
            "strategy.name": self.scheme,
            "job.groups": self.groups,
            "strategy.redundancy": self.redundancy,
            "failures.distribution": self.distribution,
        }
        interval = published("interval_steps", self.scheme, self.groups, self.redundancy)
        if self.rules == "spare-study" and interval is not None:
            settings["checkpoint.interval_steps"] = int(interval)
        return settings


def default_cells() -> list[Cell]:
    """All redundancies up to 12; for replication at N = 600 and 1000, those up to 6.

    Exponential failures: those around the best, under the rules of the study.
    """
    around = {"replication": range(2, 7), "spare": range(2, 13)}
    best = {"replication": range(2, 5), "spare": range(7, 11)}
    exponential = [
        Cell("spare-study", scheme, groups, redundancy, "exponential")
        for groups, scheme in product(GROUPS, SCHEMES)
        for redundancy in best[scheme]
    ]
    return exponential + [
        Cell(rules, scheme, groups, redundancy)
        for rules, groups, scheme in product(RULES, GROUPS, SCHEMES)
        for redundancy in (range(2, 13) if groups == 200 else around[scheme])
    ]


def full_cells() -> list[Cell]:
    """Every redundancy that has a ruler, both distributions."""
    return [
        Cell(rules, scheme, groups, redundancy, distribution)
        for rules, distribution, groups, scheme in product(RULES, DISTRIBUTIONS, GROUPS, SCHEMES)
        for redundancy in range(2, largest_redundancy(groups) + 1)
    ]


def cell_points(cells: Iterable[Cell], seeds: int) -> Iterator[Point]:
    """Yield the runs of every cell, labelled with its ``rules``."""
    # What is measured on the platform depends on the rules and the groups only.
    durations: dict[tuple[str, int], Durations] = {}
    for cell in cells:
        known = durations.get((cell.rules, cell.groups))
        job = resolve(load_scenario(cell.rules, cell.settings()), known)
        durations[cell.rules, cell.groups] = job.durations
        for seed in range(seeds):
            yield Point.of(job, seed, (("rules", cell.rules),))


def simgrid_points() -> Iterator[Point]:
    """Yield SPARe at its best at N = 200 under the study's rules, for the SimGrid engine.

    One seed: 10,000 steps of 200 ranks, with some 6,600 failures, take a few minutes.
    """
    cell = Cell("spare-study", "spare", 200, 9, "weibull")
    job = resolve(load_scenario(cell.rules, cell.settings()))
    yield Point(job.scenario, 0, "simgrid", (("rules", cell.rules),), job)


SHORTCUTS: Mapping[str, Settings] = {
    "as published": {},
    "resume after the checkpointed step": {"restart.resume": "after"},
    "failed all-reduce in full": {
        "all_reduce.failed_fraction": 1.0,
        "all_reduce.fixed_step": "retries",
    },
    "failures while waiting absorbed": {"restart.failure_while_waiting": "absorbed"},
    "restart takes 3600 s": {
        "restart.failure_while_waiting": "absorbed",
        "restart.failure_during": "absorbed",
    },
    "controller sees all failures": {"strategy.replication.controller_sees": "all"},
    "all wait for the checkpoint": {"strategy.replication.checkpoint_waits": True},
}
"""The shortcuts of the published simulator, each with the sound choice in its place."""


def shortcut_points(seeds: int) -> Iterator[Point]:
    """Yield the study's N = 200 with one shortcut undone at a time, for whom it concerns."""
    for shortcut, settings in SHORTCUTS.items():
        of_replication = any(key.startswith("strategy.replication") for key in settings)
        for scheme in ("replication",) if of_replication else SCHEMES:
            cell = Cell("spare-study", scheme, 200, {"spare": 9, "replication": 3}[scheme])
            changed = {**cell.settings(), **settings}
            yield from _points(cell.rules, changed, seeds, (("shortcut", shortcut),))


ASSUMPTIONS: Mapping[str, Settings] = {
    "sound rules as they are": {},
    "shrinking takes 180 s": {"times.shrink_s": 180.0},
    "a watchdog of 600 s notices": {"detection.mode": "watchdog", "detection.watchdog_s": 600.0},
    "a state of 14 bytes a parameter": {"protection.state_bytes": 14e13},
}
"""What sound rules state, each with what may be assumed in its place.

Under `spare-sound` a hang is noticed within one all-reduce, 600,000 GPUs shrink their communicators
in 0.1 s, and a checkpoint is the 16-bit weights alone.
"""
CANDIDATES = (("replication", 2), ("replication", 3), ("spare", 7), ("spare", 9), ("spare", 11))
"""Schemes and redundancies among which the best is sought under each assumption."""


def sensitivity_points(seeds: int) -> Iterator[Point]:
    """Yield N = 200 under each assumption with each candidate, at the closed form's interval."""
    for (assumption, settings), (scheme, redundancy) in product(ASSUMPTIONS.items(), CANDIDATES):
        stated = {"strategy.name": scheme, "strategy.redundancy": redundancy}
        changed = {"job.groups": 200, **stated, **settings}
        yield from _points("spare-sound", changed, seeds, (("assumption", assumption),))


def checkpoint_points(seeds: int) -> Iterator[Point]:
    """Yield checkpoint-only where the study leaves it out, and all schemes where it has a chance.

    At the study's scale the job gets 30 simulated days. The smaller scale is the study's own
    extrapolation: a failure every 3 hours, as on 16,384 GPUs.
    """
    alone: Settings = {"strategy.name": "checkpoint"}
    large = {**alone, "job.time_limit_s": 30 * 86_400.0}
    label = (("setting", "N=200, failure every 300 s, 30 days"),)
    yield from _points("spare-study", large, seeds, label)
    masking: list[Settings] = [
        {"strategy.name": scheme, "strategy.redundancy": 2} for scheme in SCHEMES
    ]
    for settings in (alone, *masking):
        small = {"failures.mtbf_s": 10_800.0, "job.gpus": 16_000, **settings}
        yield from _points("spare-study", small, seeds, (("setting", "N=200, failure every 3 h"),))


def _points(rules: str, settings: Settings, seeds: int, labels: Labels) -> Iterator[Point]:
    job = resolve(load_scenario(rules, settings))
    for seed in range(seeds):
        yield Point.of(job, seed, labels)


def measure_fabric(asked: tuple[int, Path]) -> dict[str, Any]:
    """Generate ``spare-600k`` for N groups in a directory, and measure the job's phases on it.

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
    for rules in RULES
    for scheme, redundancy in (("checkpoint", 1), ("replication", 3), ("spare", 3))
]
"""Rules, scheme and redundancy of the jobs that both engines run."""


def compare_engines(asked: tuple[str, str, int]) -> dict[str, Any]:
    """Run one of the `SMALL_JOBS` without jitter on both engines.

    Returned are the job; ``events`` of the replay engine, ``same_events`` in the same order on
    SimGrid, ``largest_difference`` in time of an event, relative to the time; ``failures``.
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
