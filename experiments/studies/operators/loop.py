"""Operators' jobs as scenarios, with their incidents, played by Faultline's own loop."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.config.tables.phases import SNAPSHOT_TIMES
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.stage import Stage
from faultline.platforms.files import write_file

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0


class Incident(NamedTuple):
    """A stop of the whole job."""

    time_s: float  # When it happens, in seconds from the start.
    cause: str  # What it is.
    # From there to where processes are started again: detection, diagnosis, waiting for people or
    # machines, in seconds.
    down_s: float


@dataclass(frozen=True, slots=True)
class IncidentKind:
    """Incidents of one kind in a run."""

    cause: str  # What it is.
    count: int  # How many there were.
    # From the failure to where it is known, and to where it is known what to do: least and
    # greatest, all between equally likely, in seconds.
    detect_s: tuple[float, float] = (0.0, 0.0)
    locate_s: tuple[float, float] = (0.0, 0.0)
    # What bringing the job back takes longer than the run's own restart, in seconds.
    restart_s: float = 0.0


def scattered(
    kinds: Sequence[IncidentKind], span_s: float, restart_s: float, rng: np.random.Generator
) -> list[Incident]:
    """Return the incidents of a run at random moments at which it is up.

    The restart is the run's own; kinds say what happened how often.
    """
    causes = rng.permutation([kind.cause for kind in kinds for _ in range(kind.count)])
    by_cause = {kind.cause: kind for kind in kinds}
    downs_s = [
        float(rng.uniform(*by_cause[cause].detect_s) + rng.uniform(*by_cause[cause].locate_s))
        + by_cause[cause].restart_s
        for cause in causes
    ]
    up_s = np.sort(rng.uniform(0.0, span_s - sum(downs_s) - len(downs_s) * restart_s, len(causes)))
    down_before_s = 0.0
    found = []
    for cause, at_s, down_s in zip(causes, up_s, downs_s, strict=True):
        found.append(Incident(float(at_s) + down_before_s, str(cause), down_s))
        down_before_s += down_s + restart_s
    return found


def even(gap_s: float, count: int, cause: str = "failure") -> list[Incident]:
    """Return incidents with equal gaps from start to start, in seconds."""
    return [Incident(gap_s * (number + 1), cause, 0.0) for number in range(count)]


def write_incidents(
    incidents: Iterable[Incident], path: Path, components: Sequence[str] = ("job",)
) -> Path:
    """Write incidents as a trace that scenarios read; they strike the components in turn."""
    text = StringIO(newline="")
    rows = csv.writer(text)
    rows.writerow(("time", "component", "cause", "repair"))
    for number, one in enumerate(incidents):
        struck = components[number % len(components)]
        rows.writerow((repr(one.time_s), struck, one.cause, repr(one.down_s)))
    write_file(path, text.getvalue())
    return path


DrawIncidents = Callable[[np.random.Generator], Sequence[Incident]]
"""Draws the incidents of a run."""

_FREE_S = 1e-6
"""For what takes no time, where a scenario wants some."""
_REDUCE_S = 0.1

# The state outlives every failure: nothing is lost but the step under way.
EVERY_STEP_KEPT: Mapping[str, Any] = {
    "protection.name": "just-in-time",
    **{f"times.snapshot_{name}": 0.0 for name in SNAPSHOT_TIMES},
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
            "times.compute_s": self.step_s - _REDUCE_S,
            "job.compute_jitter": 0.0,
            "strategy.name": self.scheme,
            "times.all_reduce_s": _REDUCE_S,
            "all_reduce.failed_fraction": 0.0,
            "times.checkpoint_write_s": max(self.write_s, _FREE_S),
            "checkpoint.interval_steps": max(1, round(self.interval_s / self.step_s)),
            "times.restart_s": max(self.restart_s, _FREE_S),
            "restart.readers": None,
            "recovery.hardware": "repaired",
            # Where an incident states no repair, there is nothing to wait for.
            "rejoin.repair_s": 0.0,
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
        told = ("setting", "quantity", "sweep", "measure", "factor")
        labels = tuple((name, getattr(self, name)) for name in told)
        scenario = load_scenario("spare-sound", self.scenario_keys(trace))
        return Point(scenario, seed, labels=labels)


SAMPLE = ("setting", "quantity", "scheme", "sweep", "seed", "value")
"""Columns of what is measured: a row a run and quantity."""


def play(stage: Stage, jobs: Sequence[LoopJob]) -> pd.DataFrame:
    """Play jobs; a row a run with `SAMPLE`'s columns."""
    folder = stage.folder("traces").resolve()
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
