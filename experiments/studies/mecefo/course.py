"""Throughput over time in one run of each system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from faultline.experiments.runs.single_run import run
from faultline.experiments.studies.mecefo.runs import Cell, scenario_of, step_s
from faultline.experiments.studies.mecefo.setting import MODELS
from faultline.simulator.timeline import Event, EventKind
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Course:
    """A run, in bins of equal length.

    Attributes
    ----------
    hours : array of float, shape (bins,)
        Middle of each bin.
    relative : array of float, shape (bins,)
        Throughput over that without failures.
    failures_h : array of float
        When groups were found missing, in hours.
    """

    hours: NDArray[np.float64]
    relative: NDArray[np.float64]
    failures_h: NDArray[np.float64]


def course_of(cell: Cell, seed: int, hours: float, bin_s: float = 300.0) -> Course:
    """Play a cell for some hours and count its steps.

    A step is dealt out to the bins in proportion to the time that it spent in them.
    """
    events: list[Event] = []
    scenario = scenario_of(cell)
    job = scenario.job.model_copy(update={"time_limit_s": hours * 3600.0})
    run(scenario.model_copy(update={"job": job}), seed, record_event=events.append)
    ends_s = [event.time_s for event in events if event.kind is EventKind.STEP]
    edges_s = np.arange(0.0, hours * 3600.0 + bin_s / 2, bin_s)
    done = np.interp(edges_s, [0.0, *ends_s], np.arange(len(ends_s) + 1.0))
    relative = np.diff(done) * step_s(cell.system, MODELS[cell.model]) / bin_s
    failures_s = [event.time_s for event in events if event.kind is EventKind.MISSING]
    middles_s = (edges_s[1:] + edges_s[:-1]) / 2
    return Course(middles_s / 3600.0, relative, np.array(failures_s) / 3600.0)


def courses_of(systems: Sequence[str], scenario: str, seed: int, hours: float) -> dict[str, Course]:
    """Return a course of the 7B model a system, all with the same failures."""
    return {system: course_of(Cell(system, "7B", scenario), seed, hours) for system in systems}
