"""A training job for the simulator: its values, and the rules by which it fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from faultline.simulator.failures.clocks import ClockRule
from faultline.simulator.failures.failure import Failure, Transient, stops_machine
from faultline.simulator.failures.models import FailureModel
from faultline.simulator.job.conditions import NO_DISTURBANCES, Disturbances
from faultline.simulator.job.durations import Durations
from faultline.simulator.job.timer import Timer
from faultline.simulator.job.work import Hardware, Saving, Work

Detection = Literal["all-reduce", "watchdog"]
FailureInAllReduce = Literal["next-step", "fails-it"]
FixedStep = Literal["commits", "retries"]
FailureInRestart = Literal["begins-anew", "absorbed"]
FailureWhileWaiting = Literal["surfaces", "absorbed"]
Resume = Literal["redo", "after"]
FailedWriter = Literal["skips", "replaced"]
Rejoin = Literal["at-restart", "at-checkpoint"]


@dataclass(frozen=True, slots=True)
class Rules:
    """How failures are noticed and what they cost: the named choices of a scenario."""

    clock: ClockRule  # What determines a group's next failure (`simulator.failures.clocks`).
    # Whether an all-reduce that lacks a member fails after a fraction of its time, or hangs until a
    # watchdog fires.
    detection: Detection
    # Cost of an all-reduce that lacked a member from the start, as a fraction of a good one.
    failed_all_reduce_fraction: float
    # Time-out of the watchdog, from the start of the all-reduce, in seconds. If steps are
    # simulated, the rest of a group waits for a rank that fails in the passes, and the watchdog's
    # time counts from then on.
    watchdog_s: float
    # Whether a failure of a group that has finished its compute breaks this all-reduce, or is
    # noticed only in the next step.
    failure_in_all_reduce: FailureInAllReduce
    # Whether a step that lost nothing by its failures commits at once, or repeats its all-reduce.
    fixed_step: FixedStep
    # Whether a group that fails during its own restart begins it again, while all wait for the
    # slowest; or the failure is repaired within the restart.
    failure_in_restart: FailureInRestart
    # Whether a group that fails after its own restart, while it waits for others, is missing in the
    # first step; or the failure is repaired within the restart.
    failure_while_waiting: FailureWhileWaiting
    # Whether the job, restarted, repeats the last step before the checkpoint, or goes on after it.
    resume: Resume
    # Whether the checkpoint is left out if its writer is down, or the next member writes it.
    failed_writer: FailedWriter
    # When groups that were dropped come back: with a global restart only, or at the first
    # checkpoint or snapshot after their repair.
    rejoin: Rejoin = "at-restart"
    # Whether a restart moves to other machines even if only software has failed.
    transient: Transient = "replaced"

    def stops_machine(self, failure: Failure) -> bool:
        """Return whether a failure stops machines, rather than processes alone."""
        return stops_machine(failure.kind, failure.level, self.transient)


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that an engine needs for a run, except the scheme."""

    work: Work
    hardware: Hardware
    saving: Saving
    rules: Rules
    durations: Durations
    failures: FailureModel
    seed: int
    disturbances: Disturbances = NO_DISTURBANCES

    @property
    def timer(self) -> Timer:
        """How long each part of the job takes."""
        return Timer(self.work, self.durations, self.disturbances)
