"""Why a run did not end: no machines, no progress, or more time than the cap."""

from __future__ import annotations

from faultline.experiments.analysis.quantities import duration_text
from faultline.experiments.job.hardware import awaits_repairs, breakage_of, free_machines_of
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.simulator.accounting.badput import CAUSES, MEANINGS, USEFUL
from faultline.simulator.accounting.progress import Progress

_STUCK = 0.5
"""Share of the time in restarts and reconfigurations from which on a job waits, not trains."""


def ending_of(progress: Progress, resolved: ResolvedJob, *, ended: bool) -> str:
    """Return in words why a run did not end, or why it or the rest of its job takes too long."""
    seconds, limit_s = progress.seconds, resolved.scenario.job.time_limit_s or 0.0
    gave_up = not ended and progress.now_s < limit_s * (1.0 - 1e-9)
    waiting = (seconds["restart"] + seconds["reconfigure"]) / max(progress.now_s, 1e-9)
    if waiting > _STUCK and _waits_for_repairs(resolved):
        repair = duration_text(breakage_of(resolved.scenario, resolved.failures).mean_repair_s)
        return f"no replica is left while machines are repaired, {repair} on average"
    if gave_up:
        limit = resolved.scenario.job.give_up_after_restarts
        return f"{limit:,} restarts in a row came without a new checkpoint"
    worst = max((cause for cause in CAUSES if cause not in USEFUL), key=lambda one: seconds[one])
    return f"more time than the cap, most of it for: {MEANINGS[worst]}"


def _waits_for_repairs(resolved: ResolvedJob) -> bool:
    scenario = resolved.scenario
    return awaits_repairs(scenario) or free_machines_of(scenario) is not None
