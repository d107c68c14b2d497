"""Runs a training job on an engine."""

from __future__ import annotations

from faultline.simulator.loop.engine import Engine
from faultline.simulator.loop.training import Training

MOST_HITS_WITHOUT_PROGRESS = 200_000
"""A job that trains nothing new during this many failures of groups is taken to never end."""


class StandstillError(ValueError):
    """A job makes no progress between its failures; the message is one line."""


def simulate(training: Training, engine: Engine) -> None:
    """Run a training job to its end; `training.progress` holds the result.

    Raises
    ------
    StandstillError
        If the job would never end.
    """
    progress, clocks = training.progress, engine.clocks
    loop = training.loop(clocks)
    execute, go_on = engine.execute, loop.send
    furthest, events_then, most = 0.0, 0, MOST_HITS_WITHOUT_PROGRESS
    try:
        phase = next(loop)
        while True:
            phase = go_on(execute(phase))
            if clocks.hits > most:
                if progress.completed_batches <= furthest:
                    raise StandstillError(
                        f"{clocks.events - events_then:,} failures have passed, and nothing "
                        f"beyond step {furthest:,.10g} was trained: this job would never end; "
                        "raise failures.mtbf_s, or shorten what a step, a restart or a repair takes"
                    )
                furthest, events_then = progress.completed_batches, clocks.events
                most = clocks.hits + MOST_HITS_WITHOUT_PROGRESS
    except StopIteration:
        progress.events, progress.events_by_cause = clocks.events, clocks.events_by_cause
        progress.hits, progress.hits_while_down = clocks.hits, clocks.hits_while_down
