"""A job that loses a node every so often, by the rules of the artifact's simulators.

A run is fifteen intervals of equal length. The job starts after `START_S`; at the end of each
interval a node goes, at the last one the run is over. Nobody has to notice a loss, and nothing
comes back. What a system does at a loss is all that the three differ in:

- Oobleck re-forms its pipelines and does the broken step again.
- Varuna restarts, and goes back to its last checkpoint; it waits for one every ten steps.
- Bamboo loses no step: a neighbour has the lost stage. Its pipeline meets (local rendezvous), the
  rest of the step takes half as long again, and all pipelines are formed anew (global one). That is
  after each loss, as twice one node is more than 5 % of 30.

A loss during any of this begins it anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from faultline.strategies.takeover.published_oobleck import (
    BAMBOO_GLOBAL_S,
    BAMBOO_SLOWDOWN,
    START_S,
    VARUNA_INTERVAL_STEPS,
    ArtifactCosts,
)

System = Literal["oobleck", "varuna", "bamboo"]


@dataclass(slots=True)
class Booked:
    """What became of a run."""

    steps: int = 0  # Steps that count at its end.
    elapsed_s: float = 0.0  # How long it was.
    useful_s: float = 0.0  # Time of the steps that count.
    # Time of all steps that were begun, each with its whole length, whatever came of it.
    begun_s: float = 0.0
    # Of these, the steps that were broken by a loss or taken back at one, with whole lengths.
    lost_s: float = 0.0
    paid_s: float = 0.0  # Checkpoints, restarts, rendezvous, pipelines re-formed.
    times_booked: int = 1  # How often the artifact books what is lost.

    @property
    def effective(self) -> float:
        """Effective time as the artifact counts it: steps begun, over these, lost ones and costs.

        A lost step is on both sides: as one that was begun, and as what was lost.
        """
        lost_s = self.times_booked * self.lost_s
        return self.begun_s / (self.begun_s + lost_s + self.paid_s)

    @property
    def goodput(self) -> float:
        """Time of the steps that count over all of it."""
        return self.useful_s / self.elapsed_s


def simulate(
    system: System,
    costs: ArtifactCosts,
    steps_s: Sequence[float],
    interval_s: float,
    *,
    takes_back: bool = True,
) -> Booked:
    """Simulate a run.

    There is a time of a step for the nodes of each interval. Whether Varuna goes back to its last
    checkpoint is a switch of the artifact.
    """
    rules = {"oobleck": _Oobleck, "varuna": _Varuna, "bamboo": _Bamboo}[system]
    return rules(costs, takes_back).simulate(steps_s, interval_s)


class _Run:
    """A run: what all systems have in common."""

    times_booked: ClassVar[int] = 1
    """How often the artifact books a step that is lost. Once explains all that is printed of
    Oobleck's 6.7B, the model whose speeds are printed too; twice explains Varuna's BERT-large. Why
    it is twice is not known. Other models are predicted."""

    def __init__(self, costs: ArtifactCosts, takes_back: bool) -> None:
        self.costs, self.takes_back = costs, takes_back
        self.booked = Booked(times_booked=self.times_booked)
        self.unsaved_s: list[float] = []
        """Steps that a loss may take back."""
        self.broken_s = self.left_s = 0.0
        """The step that a loss has broken, and what was left of it."""

    def simulate(self, steps_s: Sequence[float], interval_s: float) -> Booked:
        booked, now_s, end_s = self.booked, START_S, 0.0
        for number, step_s in enumerate(steps_s):
            if number:
                now_s = self.lose(end_s, end_s + interval_s)
            end_s += interval_s
            self.broken_s = self.left_s = 0.0
            while now_s < end_s:
                now_s = self.step(now_s, step_s, end_s)
        booked.elapsed_s = end_s
        self.keep()
        return booked

    def step(self, now_s: float, step_s: float, end_s: float) -> float:
        """Do a step; returns when it is done, or the end where it is broken."""
        self.booked.begun_s += step_s
        if now_s + step_s > end_s:
            self.broken_s, self.left_s = step_s, now_s + step_s - end_s
            return end_s
        self.unsaved_s.append(step_s)
        return now_s + step_s

    def lose(self, now_s: float, until_s: float) -> float:
        """Go on after a loss; returns when training does, at most until the next loss."""
        raise NotImplementedError

    def keep(self) -> None:
        """Let the steps done so far count, whatever comes."""
        self.booked.steps += len(self.unsaved_s)
        self.booked.useful_s += sum(self.unsaved_s)
        self.unsaved_s.clear()

    def pay(self, now_s: float, cost_s: float, until_s: float) -> float:
        """Spend time on something that the next loss cuts short."""
        spent_s = max(0.0, min(cost_s, until_s - now_s))
        self.booked.paid_s += spent_s
        return now_s + spent_s


class _Oobleck(_Run):
    def lose(self, now_s: float, until_s: float) -> float:
        self.keep()
        self.booked.lost_s += self.broken_s
        return self.pay(now_s, self.costs.oobleck_s, until_s)


class _Varuna(_Run):
    times_booked = 2

    def step(self, now_s: float, step_s: float, end_s: float) -> float:
        now_s = super().step(now_s, step_s, end_s)
        if len(self.unsaved_s) < VARUNA_INTERVAL_STEPS:
            return now_s
        if now_s + self.costs.varuna_save_s <= end_s:
            self.keep()
        return self.pay(now_s, self.costs.varuna_save_s, end_s)

    def lose(self, now_s: float, until_s: float) -> float:
        self.booked.lost_s += sum(self.unsaved_s) + self.broken_s
        if self.takes_back:
            self.unsaved_s.clear()
        self.keep()
        return self.pay(now_s, self.costs.varuna_restart_s, until_s)


class _Bamboo(_Run):
    def lose(self, now_s: float, until_s: float) -> float:
        now_s = self.pay(now_s, self.costs.bamboo_local_s, until_s)
        now_s = self.pay(now_s + self.left_s, (BAMBOO_SLOWDOWN - 1.0) * self.left_s, until_s)
        if self.broken_s and now_s < until_s:
            self.unsaved_s.append(self.broken_s)
        self.keep()
        return self.pay(now_s, BAMBOO_GLOBAL_S, until_s)
