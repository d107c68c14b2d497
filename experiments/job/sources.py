"""How each number of a resolved job is known: stated, derived from others, or measured."""

from __future__ import annotations

from typing import Literal

from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.step_times import is_simulated
from faultline.experiments.job.workload import Source, Workload
from faultline.simulator.job.recovery_times import RecoveryPrices
from faultline.strategies.plugins.registry import strategy_class

Number = Literal[
    "compute",
    "jitter",
    "all_reduce",
    "checkpoint",
    "load",
    "snapshot",
    "restart",
    "recovery",
    "failures",
    "redundancy",
    "checkpoint_interval",
    "snapshot_interval",
    "standbys",
]
"""A number of a resolved job: a time, the rate of failures, or a choice."""


def sources_of(
    scenario: Scenario, workload: Workload, prices: RecoveryPrices
) -> dict[Number, Source]:
    """Return the source of each number of a scenario's job."""
    measured, failures = scenario.measured, scenario.failures
    kinds = strategy_class(scenario.strategy.name).recoveries
    has_own_rate = failures.model == "trace" or (
        failures.model == "mix" and failures.rate == "model"
    )
    jitter_is_measured = scenario.job.compute_jitter > 0.0 and is_simulated(scenario)
    return {
        "compute": workload.source,
        "jitter": "measured" if jitter_is_measured else "stated",
        "all_reduce": _stated_unless(measured.all_reduce, "measured"),
        "checkpoint": _stated_unless(measured.checkpoint, "measured"),
        "load": _stated_unless(measured.load, "measured"),
        "snapshot": _stated_unless(not scenario.times.states_snapshots, "measured"),
        "restart": _stated_unless("restart" not in prices.stated_s, "derived"),
        "recovery": _stated_unless(not set(kinds) <= set(prices.stated_s), "derived"),
        "failures": _stated_unless(has_own_rate or failures.mtbf_s is None, "derived"),
        "redundancy": _stated_unless(scenario.strategy.redundancy is None, "derived"),
        "checkpoint_interval": _stated_unless(
            scenario.checkpoint.interval_steps is None, "derived"
        ),
        "snapshot_interval": _stated_unless(scenario.protection.interval_steps is None, "derived"),
        "standbys": _stated_unless(scenario.recovery.standbys is None, "derived"),
    }


def _stated_unless(is_open: bool, otherwise: Source) -> Source:
    return otherwise if is_open else "stated"
