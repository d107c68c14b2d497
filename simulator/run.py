"""Plays a training job on an engine, and boils it down to a record."""

from __future__ import annotations

from typing import Protocol

from faultline.simulator.failures.clocks import FailureClocks
from faultline.simulator.phases import Outcome, Phase
from faultline.simulator.training import Training


class Engine(Protocol):
    """Something that plays phases."""

    clocks: FailureClocks

    def execute(self, phase: Phase) -> Outcome:
        """Play one phase and return what came of it."""
        ...


def play(training: Training, engine: Engine) -> None:
    """Play a training job to its end; `training.progress` tells what came of it."""
    loop = training.loop()
    try:
        phase = next(loop)
        while True:
            phase = loop.send(engine.execute(phase))
    except StopIteration:
        training.progress.failures = engine.clocks.failures
        training.progress.failures_while_down = engine.clocks.failures_while_down
        training.progress.failures_by_cause = engine.clocks.failures_by_cause
