"""Courses of a job while its state is copied, simulated from the start of the first copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from math import inf, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.job.courses import Course, Exchange, Fails, Part, Passes
from faultline.simulator.simgrid.traffic import Traffic
from faultline.simulator.timing.kept_platform import cached_simulation, simulate_on

if TYPE_CHECKING:
    import simgrid

# Raise it when the same request would be simulated differently.
_VERSION = 2
_MOST_GPUS = 256
"""Largest job whose courses are simulated: with all ranks, a step takes a second and more."""
_MOST_KNOWN = 10_000
_PARTS_OF_LARGEST_JOB = 32
"""Parts of a course of the largest such job; courses of smaller jobs have more."""
_MOST_GPUS_FAILING = 64
"""Largest job whose courses include failures: each failure time makes another course."""


@dataclass(frozen=True, slots=True)
class SimulatedCourses:
    """Courses of a job, each simulated once."""

    platform: Path  # Platform XML, with host memories if snapshots go there.
    traffic: Traffic  # The job's traffic, with its step if that is simulated.
    layout: JobLayout | None  # The GPUs of each component; needed if some components are slow.
    # Whether groups may fail during a course.
    simulate_failures: bool = field(default=True, repr=False)
    most_parts: int = field(default=32, repr=False)  # Largest number of parts of a course.
    _known: dict[tuple[Part, ...], Course] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def of(self, parts: tuple[Part, ...]) -> Course:
        """Return the course that begins with some parts."""
        if parts not in self._known:
            likely_parts = (*parts, *_likely_after(parts, self.most_parts - len(parts)))
            course = self._simulated(likely_parts, len(parts))
            if len(self._known) > _MOST_KNOWN:
                # A course with a failure occurs only once.
                self._known.clear()
            for count in range(len(parts), len(course.ends_s) + 1):
                self._known.setdefault(likely_parts[:count], course)
        return self._known[parts]

    def _simulated(self, parts: tuple[Part, ...], at_least: int) -> Course:
        if any(isinstance(part, Fails) for part in parts):
            # Other runs have failures at other moments, so the result is not cached.
            return simulate_on(self.platform, simulate_course, self, parts, at_least)
        return cached_simulation(
            self.platform, Course, _VERSION, simulate_course, self, parts, at_least
        )


def _likely_after(parts: Sequence[Part], most: int) -> list[Part]:
    """Return the next parts if all further steps are like the last one."""
    passes = [part for part in parts if isinstance(part, Passes)]
    if not passes:
        return []
    last = passes[-1]
    step: list[Part] = [Exchange(last.members, last.pipelines, last.parts_down, last.slow), last]
    if not isinstance(parts[-1], Passes):
        step.reverse()
    return list(islice(cycle(step), max(0, most)))


def simulate_course(
    engine: simgrid.Engine, job: SimulatedCourses, parts: Sequence[Part], at_least: int
) -> Course:
    """Simulate `at_least` parts, and more until all copies have ended or a member fails."""
    import simgrid
    from faultline.simulator.simgrid.course_runner import CourseRunner
    from faultline.simulator.simgrid.links import level_memory_doors
    from faultline.simulator.simgrid.loading import run_controller

    level_memory_doors(job.traffic)
    runner = CourseRunner(job.platform, job.traffic, job.layout)
    ends_s: list[float] = []

    def simulate_parts() -> None:
        for part in parts:
            # After the failure of a member the course has no known time.
            members = part.members if isinstance(part, Passes | Exchange) else ()
            has_failed = runner.fails_s(members) <= simgrid.Engine.clock
            # Gradients that hide behind the last passes may still be in flight.
            in_flight = inf in runner.ends_s or isinstance(part, Exchange)
            if len(ends_s) >= at_least and (has_failed or not in_flight):
                return
            runner.simulate(part)
            ends_s.append(simgrid.Engine.clock)

    run_controller(engine, "course", simulate_parts)
    return Course(ends_s, runner.ends_s, runner.arrived)


def courses_of(
    platform: Path, traffic: Traffic, layout: JobLayout | None
) -> SimulatedCourses | None:
    """Return the courses of a job; None for a job that is too large to simulate each rank."""
    gpus = sum(map(len, traffic.hosts)) if traffic.step is None else len(traffic.step.names)
    if gpus > _MOST_GPUS:
        return None
    # Each further part may make another course, which is simulated from its beginning.
    most_parts = round(_PARTS_OF_LARGEST_JOB * sqrt(_MOST_GPUS / gpus))
    return SimulatedCourses(platform, traffic, layout, gpus <= _MOST_GPUS_FAILING, most_parts)
