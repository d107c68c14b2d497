"""Simulated time by cause: each second of a run is booked under one cause.

A job without failures, copies and checkpoints has `USEFUL` causes only; all others are badput. Work
is useful only if it is kept: a restart moves all work since the last checkpoint to "repeated".
"""

from __future__ import annotations

USEFUL = ("compute", "all_reduce")
"""Each shard type computed once at nominal pace, and the all-reduce that commits the step."""

OF_STEPS = (*USEFUL, "redundancy", "patch_compute", "degraded", "waiting")
"""Causes of a step's time, which a restart may take back."""

CAUSES = (*OF_STEPS, "repeated", "detection", "reconfigure", "checkpoint", "restart", "load")
"""All causes, useful ones first.

redundancy
    Compute beyond one shard type per group, at nominal pace.
patch_compute
    Compute after a reordering.
degraded
    Time that steps take longer while components are broken, and compute for the part of a batch
    that they do not train.
waiting
    Time of the slowest group beyond the nominal pace; slightly negative if all groups are fast.
repeated
    All of the above in steps that a restart took back and that are repeated.
detection
    Failed all-reduces, up to the moment when the failure is noticed; in steps that are simulated
    rank by rank, all time after the nominal passes.
reconfigure
    The controller, and the shrinking of the communicator.
checkpoint
    Writing checkpoints, as far as a group waits for it, and sending mirrors of state.
restart, load
    Global restarts, and loading checkpoints.
"""

DOWNTIME = ("restart", "load", "reconfigure")
"""Causes of the time in which nothing is trained, saved or reduced."""

BESIDE_STEPS = ("checkpoint", "restart", "load")
"""Causes of the time that is not a part of any step."""

MEANINGS = {
    "compute": "useful compute",
    "all_reduce": "all-reduce",
    "redundancy": "redundancy",
    "patch_compute": "patch compute",
    "degraded": "degraded steps",
    "waiting": "waiting for the slowest",
    "repeated": "compute repeated",
    "detection": "failure detection",
    "reconfigure": "reconfiguration",
    "checkpoint": "checkpoint",
    "restart": "restart",
    "load": "checkpoint load",
}
"""The causes in words, for tables and legends."""

BADPUT_TYPES = {
    "redundancy": "CUSTOM_BADPUT_EVENTS",
    "patch_compute": "CUSTOM_BADPUT_EVENTS",
    "degraded": "CUSTOM_BADPUT_EVENTS",
    "waiting": "CUSTOM_BADPUT_EVENTS",
    "repeated": "WASTED_PROGRESS_FROM_DISRUPTION",
    "detection": "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION",
    "reconfigure": "ELASTIC_REINITIALIZATION",
    "checkpoint": "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME",
    "restart": "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION",
    "load": "UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME",
}
"""Names of Google's ml-goodput-measurement (0.2) for the causes that are not useful. It has none
for redundant compute and for stragglers."""
