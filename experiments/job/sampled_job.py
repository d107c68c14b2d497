"""A job at one sample of its uncertain inputs, at redundancy and intervals chosen before.

An operator chooses these before the inputs are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from faultline.experiments.config.keys import path_of, value_at
from faultline.experiments.config.priors import UncertainKey
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.uncertain import Prior
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import open_job
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MTBF = "failures.mtbf_s"
_OF_STEPS = ("job", "times", "model", "platform", "all_reduce")
"""Tables of a scenario that say how long a step is, and what moves beside it."""


def quantiles_of(
    keys: Sequence[UncertainKey], schemes: Sequence[str], mtbf_s: float
) -> dict[str, Callable[[Floats], Floats]]:
    """Return the quantile function of each input.

    A key with a value per scheme is an input per scheme. `mtbf_s` is the job's mean time between
    failures at the point values, in seconds.
    """
    inputs: dict[str, Callable[[Floats], Floats]] = {}
    for key in keys:
        factor = mtbf_s if key.times and key.dotted == MTBF else 1.0
        names = [f"{key.dotted} of {scheme}" for scheme in schemes] if key.each_scheme else []
        for name in names or [key.dotted]:
            inputs[name] = partial(_scaled, key.prior, factor)
    return inputs


def _scaled(prior: Prior, factor: float, share: Floats) -> Floats:
    return factor * prior.quantile(share)


def at_sample(resolved: ResolvedJob, sample: Mapping[str, float]) -> ResolvedJob:
    """Return a job with the values of a sample, at its redundancy and intervals.

    The sample has values by the names of `quantiles_of`. A UserError reports an impossible value.
    """
    values = values_under(sample, resolved.scenario.strategy.name)
    chosen = {**values, "strategy.redundancy": resolved.redundancy}
    scenario = resolved.scenario.change(fitting(resolved.scenario, chosen))
    recovery = recovery_prices(scenario, resolved.durations.save_s)
    known = replace(resolved.durations, recovery=recovery)
    # A sample does not change what was measured, unless it has a key of the steps.
    workload = resolved.workload if scenario.times.compute_s is None else None
    tables = {name.partition(".")[0] for name in values}
    alike = resolved.protected if tables.isdisjoint(_OF_STEPS) else None
    changed, _ = open_job(scenario, known, workload=workload, alike=alike)
    return chosen_as(changed, resolved)


def chosen_as(resolved: ResolvedJob, chosen: ResolvedJob) -> ResolvedJob:
    """Return a job at the redundancy and the intervals of another."""
    return replace(
        resolved,
        redundancy=chosen.redundancy,
        interval_steps=chosen.interval_steps,
        snapshot_interval_steps=chosen.snapshot_interval_steps,
    )


def values_under(sample: Mapping[str, float], scheme: str) -> dict[str, float]:
    """Return the values of a sample that apply to a scheme, by their dotted keys."""
    values = {name: value for name, value in sample.items() if " of " not in name}
    for name, value in sample.items():
        if name.endswith(f" of {scheme}"):
            values[name.removesuffix(f" of {scheme}")] = value
    return values


def fitting(scenario: Scenario, values: Mapping[str, object]) -> dict[str, object]:
    """Return the changes of a scenario by values of some keys; whole numbers stay whole.

    A mean time between failures scales the rates of a failure mix.
    """
    changes = {
        dotted: round(value)
        if isinstance(value, float) and isinstance(value_at(scenario, path_of(dotted)), int)
        else value
        for dotted, value in values.items()
    }
    if MTBF in values and scenario.failures.model == "mix":
        changes["failures.rate"] = "mtbf"
    return changes
