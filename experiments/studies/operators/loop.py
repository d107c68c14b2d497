"""Operators' jobs as scenarios, with their incidents, simulated by Faultline's own loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.data import read_rows, settings_of
from faultline.experiments.studies.operators.incidents import (
    DAY_S,
    HOUR_S,
    Cluster,
    DrawIncidents,
    Incident,
    IncidentKind,
    incidents,
    scattered,
    with_gaps,
    write_incidents,
)
from faultline.experiments.studies.stage import Stage

RSC_RATES = {"RSC-1": 6.50e-3, "RSC-2": 2.34e-3}
"""Failures per node and day."""

_FREE_S = 1e-6
"""Duration of steps that take no time, if a scenario requires a positive one."""
_REDUCE_S = 0.1
_NEVER_S = 1e12

_STRUCK: Mapping[str, Sequence[str]] = {
    "job": ("job",),
    "two machines": ("gpu-0", "gpu-8"),
    "all but the first": tuple(f"gpu-{8 * (1 + 7 * one % 29)}" for one in range(29)),
    "each of 12": tuple(f"gpu-{8 * one}" for one in (0, 5, 10, 3, 8, 1, 6, 11, 4, 9, 2, 7)),
    "each of 33": tuple(f"gpu-{8 * one}" for one in range(33)),
}
"""Components that incidents strike in turn."""


@dataclass(frozen=True, slots=True)
class LoopJob:
    """A simulated job, and its compared value: a row of ``data/jobs.csv``."""

    # The row of the study.
    setting: str
    quantity: str
    days: float  # Length of the run, including planned stops.
    step_s: float  # An undisturbed step.
    restart_s: float  # Time to restart the job, in addition to that of an incident.
    interval_s: float = _NEVER_S  # Between checkpoints.
    write_s: float = 0.0  # Time to write a checkpoint.
    # Restarts are lognormal with this median; `restart_s` is the mean.
    median_restart_s: float | None = None
    # The column of the record; or "mttf_h", mean hours between failures; "reconfiguring", the share
    # of time while groups leave; "commits", the share of steps without a loss; "mean_groups", their
    # mean number of groups; or "running", the share of time while the job is up.
    measure: str = "goodput"
    factor: float = 1.0  # Of the value: the counted part of a step or run.
    sweep: str = ""  # Names its unstated values.
    groups: int = 2  # Data-parallel groups.
    seeds: int = 0  # Least number of runs.
    planned_stops: int = 0  # Each takes a restart and a write from the run.
    # Random failures: number of nodes, and one of `RSC_RATES`.
    nodes: int = 0
    rate: str = ""
    # Incidents: "kinds" (of data/incidents.csv, by name), "uniform" (gap between two bounds),
    # "random" (memoryless, by the mean gap) or "spare nodes"; or a function that draws them.
    drawn: str = ""
    kinds: str = ""
    gap_s: float = 0.0
    longest_gap_s: float = 0.0
    count: int = 0
    cause: str = "failure"
    spares: int = 4
    frail_nodes: int = 0
    draw: DrawIncidents | None = None
    struck: str = "job"  # One of `_STRUCK`.
    keeps_each_step: bool = False  # The state survives every failure.
    # A struck group is dropped: all stall, and the group is absent for a time. Each step is kept.
    stall_s: float | None = None
    absent_s: float = 0.0

    @property
    def run_days(self) -> float:
        """Length of the run without its planned stops."""
        return self.days - self.planned_stops * (self.restart_s + self.write_s) / DAY_S

    @property
    def value_factor(self) -> float:
        """Factor on the value, after the time of planned stops."""
        return self.factor * (self.run_days / self.days if self.planned_stops else 1.0)

    @property
    def is_random(self) -> bool:
        """Whether it has random draws."""
        return bool(self.drawn or self.draw or self.nodes)

    def incidents(self, rng: np.random.Generator) -> Sequence[Incident]:
        """Draw its incidents."""
        span_s = self.run_days * DAY_S
        match self.drawn:
            case "kinds":
                return scattered(_kinds(self.kinds), span_s, self.restart_s, rng)
            case "uniform":
                gaps_s = rng.uniform(self.gap_s, self.longest_gap_s, self.count)
                return with_gaps(gaps_s, self.cause)
            case "random":
                gaps_s = rng.exponential(self.gap_s, round(2 * span_s / self.gap_s) + 10)
                return with_gaps(gaps_s[np.cumsum(gaps_s) < span_s], self.cause)
            case "spare nodes":
                cluster = Cluster(spares=self.spares, frail_nodes=self.frail_nodes)
                return incidents(cluster, span_s, rng)
        return self.draw(rng) if self.draw else ()

    def scenario_keys(self, trace: Path | None) -> dict[str, Any]:
        """Return the keys of its scenario; `trace` is the file of its incidents."""
        keys: dict[str, Any] = {
            **settings_of("operators", "loop"),
            "job.groups": self.groups,
            "job.gpus": 8 * self.groups,
            "job.time_limit_s": self.run_days * DAY_S,
            "times.compute_s": self.step_s - _REDUCE_S,
            "strategy.name": "checkpoint" if self.stall_s is None else "replica-drop",
            "times.all_reduce_s": _REDUCE_S,
            "times.checkpoint_write_s": max(self.write_s, _FREE_S),
            "checkpoint.interval_steps": max(1, round(self.interval_s / self.step_s)),
            "times.restart_s": max(self.restart_s, _FREE_S),
        }
        if trace is None:
            keys["failures.distribution"] = "exponential"
            rate_per_s = job_failures_per_s(self.nodes, RSC_RATES[self.rate]) if self.nodes else 0.0
            keys["failures.mtbf_s"] = 1.0 / rate_per_s if rate_per_s else 1e12
        else:
            keys |= {"failures.model": "trace", "failures.trace": str(trace)}
        if self.keeps_each_step or self.stall_s is not None:
            keys |= settings_of("operators", "each step kept")
        if self.stall_s is not None:
            keys |= {
                "times.shrink_s": self.stall_s,
                "rejoin.when": "at-checkpoint",
                "times.rejoin_s": 0.0,
            }
        if self.median_restart_s is not None:
            keys["recovery.spread"] = sqrt(2.0 * log(self.restart_s / self.median_restart_s))
        return keys

    def point(self, seed: int, number: int, folder: Path) -> Point:
        """Return the run of a seed; its incidents are written into a folder."""
        trace = None
        drawn = self.incidents(np.random.default_rng([seed, number]))
        if self.stall_s is not None:
            # The time of a repair in a trace is that of its failure.
            drawn = [one._replace(down_s=self.absent_s) for one in drawn]
        if drawn:
            path = folder / f"{number}-{seed}.csv"
            trace = write_incidents(drawn, path, _STRUCK[self.struck])
        printed = ("setting", "quantity", "sweep", "measure")
        labels = tuple((name, getattr(self, name)) for name in printed)
        scenario = load_scenario("spare-sound", self.scenario_keys(trace))
        return Point(scenario, seed, labels=(*labels, ("factor", self.value_factor)))


def _kinds(name: str) -> list[IncidentKind]:
    rows = [dict(row) for row in read_rows("operators", "incidents")]
    return [IncidentKind(**row) for row in rows if row.pop("kinds") == name]


SAMPLE = ("setting", "quantity", "scheme", "sweep", "seed", "value")
"""Columns of measured values: a row per run and quantity."""


def simulate(stage: Stage, jobs: Sequence[LoopJob]) -> pd.DataFrame:
    """Run jobs; a row per run with `SAMPLE`'s columns."""
    folder = stage.folder("traces").resolve()
    points = [
        job.point(seed, number, folder)
        for number, job in enumerate(jobs)
        # A job without drawn incidents needs one seed only.
        for seed in range(max(stage.seeds, job.seeds) if job.is_random else 1)
    ]
    runs = stage.runs("runs", points)
    measured = runs.assign(
        running=1.0 - (runs.restart_s + runs.load_s) / runs.time_s,
        mttf_h=runs.time_s / runs.events.clip(lower=1) / HOUR_S,
        reconfiguring=runs.reconfigure_s / runs.time_s,
        commits=runs.simulated_steps / (runs.simulated_steps + runs.hits - runs.hits_while_down),
        mean_groups=runs.groups * runs.completed_steps / runs.simulated_steps,
        scheme=runs.strategy,
    )
    values = [row[row["measure"]] * row["factor"] for row in measured.to_dict(orient="records")]
    return measured.assign(value=values)[list(SAMPLE)]


def job_failures_per_s(nodes: float, failures_per_node_day: float) -> float:
    """Return the failure rate of a job in 1/s; its nodes fail independently."""
    return nodes * failures_per_node_day / DAY_S
