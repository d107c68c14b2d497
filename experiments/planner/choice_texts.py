"""A candidate and its set-up in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from faultline.experiments.analysis.quantities import duration_text
from faultline.experiments.config.model_numbers import job_of, memory_of
from faultline.experiments.figures.palette import look_of
from faultline.experiments.job.choices import Choice
from faultline.experiments.job.hardware import standbys_of
from faultline.experiments.job.platform_files import gpu_of
from faultline.experiments.planner.answer import Row


def pair_name(scheme: str, protection: str | None) -> str:
    """Return the name of a scheme over a protection; storage, the default, is left out."""
    name = look_of(scheme).label
    return name if protection in (None, "storage") else f"{name} over {protection}"


def set_up_parts(row: Row) -> list[str]:
    """Return how a candidate is set up: protection, redundancy, interval and returns.

    The scheme comes first, if the candidate is not named after it.
    """
    choice = row.choice
    scheme, groups = look_of(choice.scheme).label, choice.resolved.scenario.job.groups
    parts = [
        "" if row.name == scheme else f"{groups:,} groups, {scheme}",
        choice.protection,
        f"r = {choice.redundancy}" if choice.redundancy > 1 else "",
        interval_text(choice),
        return_text(choice),
    ]
    return [part for part in parts if part]


def usual_parts(rows: Sequence[Row]) -> list[str]:
    """Return the protection and the interval that most of the rows share; every row has both."""
    parts = (part for row in rows for part in (row.choice.protection, interval_text(row.choice)))
    return [part for part, count in Counter(parts).items() if 2 * count > len(rows) > 1]


def short_text(parts: Sequence[str]) -> str:
    """Return parts of a set-up for a narrow column: ``gemini, r = 2, every step (5.9 s)``."""
    text = ", ".join(parts).replace("groups return", "back")
    for what in ("a snapshot every", "a checkpoint every"):
        text = text.replace(what, "every")
    return text


def row_text(row: Row) -> str:
    """Return a candidate with its set-up, and how often a state in memory goes to storage."""
    parts = [*set_up_parts(row), storage_text(row.choice)]
    return f"{row.name} ({', '.join(filter(None, parts))})"


def interval_text(choice: Choice) -> str:
    """Return how often a choice saves the state."""
    if choice.resolved.scenario.checkpoint.policy == "dynamic":
        return "checkpoints by the dynamic policy"
    every = choice.resolved.kept_every_steps
    what = "a snapshot" if choice.resolved.snapshot_interval_steps else "a checkpoint"
    has_peers = choice.resolved.protected.protection.peers is not None
    if has_peers and not choice.resolved.snapshot_interval_steps:
        return "a checkpoint after a failure"
    steps = "step" if every == 1 else f"{every:,} steps"
    return f"{what} every {steps} ({duration_text(every * choice.step_s)})"


def storage_text(choice: Choice) -> str:
    """Return how often a state that is kept in memory is written to storage, too."""
    resolved = choice.resolved
    has_peers = resolved.protected.protection.peers is not None
    if not has_peers or resolved.scenario.checkpoint.policy == "dynamic":
        return ""
    return f"on storage every {duration_text(resolved.interval_steps * choice.step_s)}"


def return_text(choice: Choice) -> str:
    """Return when dropped groups return; empty for a scheme that drops none."""
    scheme = choice.resolved.strategy()
    if scheme.tracks_components or scheme.masked_failures() <= 1.0:
        return ""
    return f"groups return {choice.rejoin_when.replace('-', ' a ')}"


def choice_data(choice: Choice) -> dict[str, Any]:
    """Return a choice as JSON data: a scheme with its protection, redundancy and intervals."""
    scenario = choice.resolved.scenario
    return {
        "groups": scenario.job.groups,
        "standbys": standbys_of(scenario),
        "scheme": choice.scheme,
        "protection": choice.protection,
        "redundancy": choice.redundancy,
        "rejoin_when": choice.rejoin_when,
        "checkpoint_interval_steps": choice.resolved.interval_steps,
        "snapshot_interval_steps": choice.resolved.snapshot_interval_steps,
    }


def gpu_memory(choice: Choice) -> tuple[float, float] | None:
    """Return the bytes on the fullest GPU without failures, and those that a GPU has.

    None if the scenario names no model, or the platform states no GPU.
    """
    scenario = choice.resolved.scenario
    gpu = None if scenario.model.name == "stated" else gpu_of(scenario)
    if gpu is None:
        return None
    return memory_of(job_of(scenario)).total, gpu.memory_bytes
