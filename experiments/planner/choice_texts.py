"""A scheme and its set-up in words."""

from __future__ import annotations

from typing import Any

from faultline.experiments.analysis.quantities import duration_text
from faultline.experiments.config.model_numbers import job_of, memory_of
from faultline.experiments.figures.palette import look_of
from faultline.experiments.job.choices import Choice
from faultline.experiments.job.platform_files import gpu_of


def pair_name(scheme: str, protection: str | None) -> str:
    """Return the name of a scheme over a protection; storage, the default, is left out."""
    name = look_of(scheme).label
    return name if protection in (None, "storage") else f"{name} over {protection}"


def set_up_text(choice: Choice) -> str:
    """Return how a scheme is set up: its protection, redundancy, interval and returns."""
    redundancy = f"r = {choice.redundancy}" if choice.redundancy > 1 else ""
    parts = [choice.protection, redundancy, interval_text(choice), return_text(choice)]
    return ", ".join(filter(None, parts))


def short_set_up(choice: Choice) -> str:
    """Return the same for a narrow column: ``gemini, r = 2, every step (5.9 s)``."""
    text = set_up_text(choice).replace("groups return", "back")
    for what in ("a snapshot every", "a checkpoint every"):
        text = text.replace(what, "every")
    return text


def choice_text(choice: Choice) -> str:
    """Return a scheme with its set-up, and how often a state in memory is written to storage."""
    parts = ", ".join(filter(None, (set_up_text(choice), storage_text(choice))))
    return f"{look_of(choice.scheme).label} ({parts})"


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
    return {
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
