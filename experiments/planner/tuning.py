"""Tunes a candidate: the redundancy and interval of the least expected cost by closed forms.

An operator chooses before the inputs are known. So a candidate has one redundancy and one interval
for all points of a design.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from faultline.experiments.analysis.design import Design
from faultline.experiments.config.errors import UserError
from faultline.experiments.job.choices import Choice, at_complete_snapshots, choices_for
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.sampled_job import at_sample, chosen_as

INTERVAL_FACTORS = (0.4, 0.5, 0.63, 0.8, 1.0, 1.25, 1.6, 2.0, 2.5)
"""Intervals that are tried for each redundancy, over the best at the point values."""

_SAMPLES = 16
_WORST = 20.0
"""Predictions count at most this: beyond, they differ by what no job would live to see."""


def tune(choices: Sequence[Choice], design: Design) -> Choice:
    """Return the redundancy and interval of the least expected cost over a design.

    Parameters
    ----------
    choices : sequence of Choice
        All redundancies of a candidate, at their best intervals at the point values: the first is
        the best there.
    design : Design
        The points. Without uncertain inputs, the first choice is the answer.
    """
    if not design.names:
        return choices[0]
    settings = [
        at_complete_snapshots(choice.resolved, max(1, round(factor * choice.interval_steps)))
        for choice in choices
        for factor in (INTERVAL_FACTORS if _interval_is_open(choice.resolved) else (1.0,))
    ]
    if len(settings) == 1:
        return choices[0]
    samples = min(_SAMPLES, len(design))
    costs = [_predicted(settings, design.sample(sample)) for sample in range(samples)]
    best = settings[int(np.mean(costs, axis=0).argmin())]
    return choices_for(best, [best])[0]


def _interval_is_open(resolved: ResolvedJob) -> bool:
    scenario = resolved.scenario
    if resolved.snapshot_interval_steps:
        return scenario.protection.interval_steps is None
    return scenario.checkpoint.interval_steps is None and scenario.checkpoint.policy == "fixed"


def _predicted(settings: Sequence[ResolvedJob], sample: Mapping[str, float]) -> list[float]:
    """Return the ratios of settings of one scheme and protection at a sample, by closed forms."""
    try:
        job = at_sample(settings[0], sample)
    except UserError:
        return [_WORST] * len(settings)
    predicted = choices_for(job, [chosen_as(job, setting) for setting in settings])
    return [min(choice.ratio, _WORST) for choice in predicted]
