"""Replica drop, whose groups return after a repair, in the comparison that it overturns."""

from __future__ import annotations

from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.single_run import run

HOUR_S = 3600.0


def ratio(scheme: str, **keys: object) -> float:
    """Return the time-to-train ratio of part of a job of 600,000 GPUs."""
    settings = {"strategy.name": scheme, "job.steps": 1500, **keys}
    record = run(load_scenario("spare-sound", settings), seed=0)
    return float(record["time_to_train_ratio"])


def test_repairs_decide_between_replica_drop_and_spare() -> None:
    """A failure every 5 min: SPARe is first only if groups are away for days."""
    spare = ratio("spare", **{"strategy.redundancy": 7, "protection.name": "just-in-time"})
    soon, late = (
        ratio("replica-drop", **{"rejoin.repair_s": hours * HOUR_S}) for hours in (3.0, 72.0)
    )
    assert soon < 0.9 * spare
    assert late > 1.1 * spare


def test_a_dropped_group_comes_back_unless_it_is_told_to_wait() -> None:
    back = ratio("replica-drop", **{"job.steps": 400})
    away = ratio("replica-drop", **{"job.steps": 400, "rejoin.when": "at-restart"})
    assert back < away
