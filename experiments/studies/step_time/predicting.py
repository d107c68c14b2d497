"""Fits a stack's efficiency on one row, and predicts the others: every step is played."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from faultline.experiments.studies.step_time.published import Case
from faultline.experiments.studies.step_time.windows import (
    Window,
    WindowTimer,
    gpus_per_domain,
    write_platform,
)
from faultline.simulator.simgrid_engine.step_timing import StepTime, Timer, with_timer
from faultline.simulator.workload.parallel_job import ParallelJob

_TOLERANCE = 1e-4
"""Of a fitted step time."""
_MOST_STEPS = 12

TimeJob = Callable[[ParallelJob], StepTime]


@dataclass(frozen=True, slots=True)
class Group:
    """Cases of one stack that are played in one process.

    Attributes
    ----------
    cases : tuple of Case
        What is predicted.
    fitted : Case
        The row that the efficiency is fitted on.
    efficiencies : mapping
        Efficiency by parts of a stage, where it is known already.
    """

    cases: tuple[Case, ...]
    fitted: Case
    efficiencies: Mapping[int, float]


def play(group: Group) -> tuple[dict[int, float], pd.DataFrame]:
    """Return the efficiencies of a group, and a row a case and number of parts of a stage."""
    kind = group.fitted.software.cluster
    size = gpus_per_domain(kind)
    everything = group.cases if group.efficiencies else (group.fitted, *group.cases)
    domains = max(Window.of(case.layout, size).domains for case in everything)
    with TemporaryDirectory() as directory:
        platform = write_platform(kind, max(2, domains), Path(directory))
        return with_timer(platform, partial(_play, group, platform))


def _play(group: Group, platform: Path, timer: Timer) -> tuple[dict[int, float], pd.DataFrame]:
    time_job = WindowTimer(platform, timer)
    fitted = group.fitted
    efficiencies = dict(group.efficiencies)
    if not efficiencies:
        for parts in _all_parts(fitted):
            efficiencies[parts] = fit(fitted, parts, time_job)
    usual = efficiencies[fitted.layout.virtual_stages]
    rows: list[dict[str, Any]] = []
    for case in group.cases:
        alike = case.model.layers == fitted.model.layers
        alike = alike and case.layout.pipeline == fitted.layout.pipeline
        for parts in _all_parts(case):
            # Where the fitted row has the same choice, it is made once for both.
            efficiency = efficiencies.get(parts, usual) if alike else usual
            time = time_job(case.job(efficiency, parts))
            rows.append(
                {
                    "case": case.label,
                    "parts": parts,
                    "stated": parts == case.layout.virtual_stages,
                    "efficiency": efficiency,
                    "step_s": time.step_s,
                    **asdict(time),
                }
            )
    return efficiencies, pd.DataFrame(rows)


def _all_parts(case: Case) -> Sequence[int]:
    return (case.layout.virtual_stages, *case.virtual_choices)


def fit(case: Case, parts: int, time_job: TimeJob) -> float:
    """Return the efficiency at which a played step takes as long as published.

    A step's time is nearly a + b / efficiency: secants over its inverse meet it at once.
    """
    unit, value = case.outputs[0]
    assert value is not None, f"{case.label} is not published: nothing to fit on"
    target_s = case.in_unit(value, unit)

    def missed_s(inverse: float) -> float:
        return time_job(case.job(1.0 / inverse, parts)).step_s - target_s

    before, inverse = 1.0, 1.3
    missed_before_s, missed = missed_s(before), missed_s(inverse)
    for _ in range(_MOST_STEPS):
        if abs(missed) <= _TOLERANCE * target_s:
            return 1.0 / inverse
        slope = (missed - missed_before_s) / (inverse - before)
        before, missed_before_s = inverse, missed
        inverse -= missed / slope
        missed = missed_s(inverse)
    raise RuntimeError(f"no efficiency explains {case.label}")
