"""Operators' jobs as scenarios, played by Faultline's own loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.operators.incidents import (
    DAY_S,
    HOUR_S,
    Incident,
    write_incidents,
)
from faultline.experiments.studies.stage import Stage

DrawIncidents = Callable[[np.random.Generator], Sequence[Incident]]
"""Draws the incidents of a run."""

_FREE_S = 1e-6
"""For what takes no time, where a scenario wants some."""
_REDUCE_S = 0.1

# The state outlives every failure: nothing is lost but the step under way.
EVERY_STEP_KEPT: Mapping[str, Any] = {
    "protection.name": "just-in-time",
    "protection.times": "stated",
    "protection.copy_s": 0.0,
    "protection.fetch_s": 0.0,
    "protection.load_s": 0.0,
    "protection.rebuild_s": 0.0,
}


@dataclass(frozen=True, slots=True)
class LoopJob:
    """A job that is played, and what of its record is compared."""

    # The row of the study.
    setting: str
    quantity: str
    days: float  # How long it runs.
    step_s: float  # An undisturbed step.
    interval_s: float  # Between checkpoints.
    restart_s: float  # To bring the job back, beside what an incident says.
    write_s: float = 0.0  # To write a checkpoint.
    mtbf_s: float | None = None  # Of failures at random; None where `draw` says what happens.
    draw: DrawIncidents | None = None  # Draws the incidents.
    # The column of the record; or "mttf_h", hours from failure to failure; "reconfiguring", the
    # share of the time in which groups leave; "commits", that of steps without a loss; or
    # "mean_groups" in them.
    measure: str = "goodput"
    factor: float = 1.0  # Of the value: the part of a step, or of the run, that counts.
    sweep: str = ""  # Which values of what is not stated.
    scheme: str = "checkpoint"
    groups: int = 2  # Data-parallel groups.
    components: Sequence[str] = ("job",)  # What incidents strike, in turn.
    changes: Mapping[str, Any] = field(default_factory=dict)  # Further keys of the scenario.
    seeds: int | None = None  # How many runs, at least; as many as the study's if None.

    def scenario_keys(self, trace: Path | None) -> dict[str, Any]:
        """Return the keys of its scenario; `trace` is the file of its incidents."""
        keys: dict[str, Any] = {
            "job.groups": self.groups,
            "job.gpus": 8 * self.groups,
            # Nothing is measured: a model that fits any host.
            "job.parameter_bytes": 1e9,
            "job.steps": 10**9,
            "job.time_limit_s": self.days * DAY_S,
            "job.compute_s": self.step_s - _REDUCE_S,
            "job.compute_jitter": 0.0,
            "strategy.name": self.scheme,
            "all_reduce.time": "stated",
            "all_reduce.time_s": _REDUCE_S,
            "all_reduce.failed_fraction": 0.0,
            "checkpoint.write": "stated",
            "checkpoint.write_s": max(self.write_s, _FREE_S),
            "checkpoint.interval_steps": max(1, round(self.interval_s / self.step_s)),
            "restart.duration_s": max(self.restart_s, _FREE_S),
            "restart.load": "included",
            "recovery.hardware": "repaired",
        }
        if trace is None:
            keys["failures.distribution"] = "exponential"
            keys["failures.mtbf_s"] = self.mtbf_s or 1e12
        else:
            keys |= {"failures.model": "trace", "failures.trace": str(trace)}
        return keys | dict(self.changes)

    def point(self, seed: int, number: int, folder: Path) -> Point:
        """Return the run of a seed; its incidents are written into a folder."""
        trace = None
        drawn = self.draw(np.random.default_rng([seed, number])) if self.draw else ()
        if drawn:
            trace = write_incidents(drawn, folder / f"{number}-{seed}.csv", self.components)
        labels = (
            ("setting", self.setting),
            ("quantity", self.quantity),
            ("sweep", self.sweep),
            ("measure", self.measure),
            ("factor", self.factor),
        )
        scenario = load_scenario("spare-sound", self.scenario_keys(trace))
        return Point(scenario, seed, labels=labels)


SAMPLE = ("setting", "quantity", "scheme", "sweep", "seed", "value")
"""Columns of what is measured: a row a run and quantity."""


def play(stage: Stage, jobs: Sequence[LoopJob]) -> pd.DataFrame:
    """Play jobs; a row a run with `SAMPLE`'s columns."""
    folder = (stage.directory / "traces").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    points = [
        job.point(seed, number, folder)
        for number, job in enumerate(jobs)
        # What nothing is drawn for needs no second seed.
        for seed in range(max(stage.seeds, job.seeds or 0) if job.draw or job.mtbf_s else 1)
    ]
    runs = stage.runs("runs", points)
    measured = runs.assign(
        mttf_h=runs.time_s / runs.failures.clip(lower=1) / HOUR_S,
        reconfiguring=runs.reconfigure_s / runs.time_s,
        commits=runs.played_steps / (runs.played_steps + runs.failures - runs.failures_while_down),
        mean_groups=runs.groups * runs.completed_steps / runs.played_steps,
        scheme=runs.strategy,
    )
    values = [row[row["measure"]] * row["factor"] for row in measured.to_dict(orient="records")]
    return measured.assign(value=values)[list(SAMPLE)]
