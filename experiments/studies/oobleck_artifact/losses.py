"""A job that loses nodes at a fixed interval, by the rules of the artifact's simulators.

A run has fifteen intervals of equal length. The job starts after `START_S`. At the end of each
interval a node fails; the last failure ends the run. Detection takes no time, and no node returns.
The systems differ only in their reaction to a loss:

- Oobleck rebuilds its pipelines and repeats the broken step.
- Varuna restarts from its last checkpoint; it waits for one every ten steps.
- Bamboo loses no step: a neighbour has the lost stage. Its pipeline reconfigures (local
  rendezvous), the rest of the step takes half as long again, and all pipelines are rebuilt (global
  rendezvous). The last is needed after each loss, as twice one node is more than 5 % of 30.

A loss during any of this restarts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from faultline.experiments.studies.oobleck_artifact.published_oobleck import (
    BAMBOO_GLOBAL_S,
    BAMBOO_SLOWDOWN,
    START_S,
    VARUNA_INTERVAL_STEPS,
    ArtifactCosts,
)

System = Literal["oobleck", "varuna", "bamboo"]

_TIMES_BOOKED = {"varuna": 2}
"""Number of times that the artifact books a lost step. One explains all printed values of Oobleck's
6.7B, the model whose speeds are printed too; two explains Varuna's BERT-large, for unknown reasons.
Other models are predicted."""


@dataclass(slots=True)
class LossRun:
    """A run: its result, and the step under way."""

    system: System
    costs: ArtifactCosts
    takes_back: bool  # Whether Varuna returns to its last checkpoint.
    steps: int = 0  # Kept steps at its end.
    elapsed_s: float = 0.0  # Length of the run.
    useful_s: float = 0.0  # Time of the kept steps.
    # Time of all started steps, each with its whole length, finished or not.
    begun_s: float = 0.0
    # Time of those that a loss broke or undid, with whole lengths.
    lost_s: float = 0.0
    paid_s: float = 0.0  # Checkpoints, restarts, rendezvous, pipelines re-formed.
    unsaved_s: list[float] = field(default_factory=list)  # Steps that a loss may undo.
    # The step that a loss has broken, and its remaining time.
    broken_s: float = 0.0
    left_s: float = 0.0

    @property
    def effective(self) -> float:
        """Effective time as in the artifact: steps begun, over these, lost ones and costs.

        A lost step counts on both sides: as a started one, and as a lost one.
        """
        lost_s = _TIMES_BOOKED.get(self.system, 1) * self.lost_s
        return self.begun_s / (self.begun_s + lost_s + self.paid_s)

    @property
    def goodput(self) -> float:
        """Time of the kept steps over the whole time."""
        return self.useful_s / self.elapsed_s

    def step(self, now_s: float, step_s: float, end_s: float) -> float:
        """Do a step; returns its end, or that of the interval if a loss breaks it."""
        self.begun_s += step_s
        if now_s + step_s > end_s:
            self.broken_s, self.left_s = step_s, now_s + step_s - end_s
            now_s = end_s
        else:
            self.unsaved_s.append(step_s)
            now_s += step_s
        if self.system != "varuna" or len(self.unsaved_s) < VARUNA_INTERVAL_STEPS:
            return now_s
        if now_s + self.costs.varuna_save_s <= end_s:
            self.keep()
        return self.pay(now_s, self.costs.varuna_save_s, end_s)

    def lose(self, now_s: float, until_s: float) -> float:
        """React to a loss; returns the time at which training resumes, at most the next loss."""
        if self.system == "bamboo":
            now_s = self.pay(now_s, self.costs.bamboo_local_s, until_s)
            now_s = self.pay(now_s + self.left_s, (BAMBOO_SLOWDOWN - 1.0) * self.left_s, until_s)
            if self.broken_s and now_s < until_s:
                self.unsaved_s.append(self.broken_s)
            self.keep()
            return self.pay(now_s, BAMBOO_GLOBAL_S, until_s)
        cost_s = self.costs.oobleck_s
        lost_s = self.broken_s
        if self.system == "varuna":
            cost_s = self.costs.varuna_restart_s
            lost_s = sum(self.unsaved_s) + self.broken_s
            if self.takes_back:
                self.unsaved_s.clear()
        self.lost_s += lost_s
        self.keep()
        return self.pay(now_s, cost_s, until_s)

    def keep(self) -> None:
        """Mark the finished steps as kept, safe from later losses."""
        self.steps += len(self.unsaved_s)
        self.useful_s += sum(self.unsaved_s)
        self.unsaved_s.clear()

    def pay(self, now_s: float, cost_s: float, until_s: float) -> float:
        """Spend time on an overhead, which the next loss interrupts."""
        spent_s = max(0.0, min(cost_s, until_s - now_s))
        self.paid_s += spent_s
        return now_s + spent_s


def simulate(
    system: System,
    costs: ArtifactCosts,
    steps_s: Sequence[float],
    interval_s: float,
    *,
    takes_back: bool = True,
) -> LossRun:
    """Simulate a run.

    `steps_s` has the step time of each interval. Whether Varuna returns to its last checkpoint is
    a switch of the artifact.
    """
    run, now_s = LossRun(system, costs, takes_back), START_S
    for step_s in steps_s:
        if run.elapsed_s:
            now_s = run.lose(run.elapsed_s, run.elapsed_s + interval_s)
        run.elapsed_s += interval_s
        run.broken_s = run.left_s = 0.0
        while now_s < run.elapsed_s:
            now_s = run.step(now_s, step_s, run.elapsed_s)
    run.keep()
    return run
