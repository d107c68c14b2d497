"""Where the time of a run went: every second of it under one cause.

`USEFUL` causes are the time of a job without failures, copies and checkpoints; all others are
badput. Work counts as useful when it is kept: a restart moves all that was done since the last
checkpoint to "repeated".
"""

from __future__ import annotations

USEFUL = ("compute", "all_reduce")
"""Each shard type computed once at nominal pace, and the all-reduce that commits the step."""

OF_STEPS = (*USEFUL, "redundancy", "patch_compute", "degraded", "waiting")
"""Causes of a step's time, which a restart may take back."""

CAUSES = (*OF_STEPS, "repeated", "detection", "reconfigure", "checkpoint", "restart", "load")
"""All causes, useful ones first.

redundancy
    Compute beyond one shard type a group, at nominal pace.
patch_compute
    Compute after a reordering.
degraded
    What steps take longer, or train less of a batch than they could, while components are broken.
waiting
    What the slowest group takes beyond the nominal pace; slightly negative where all are fast.
repeated
    All of the above in steps that a restart took back, to be done again.
detection
    Failed all-reduces, up to the moment when the failure is noticed; of steps that ranks run, all
    after the nominal passes.
reconfigure, checkpoint, restart, load
    The controller and the shrinking of the communicator; writing checkpoints, as far as a group
    waits for it, and mirrors of state that a scheme sends; global restarts; loading checkpoints.
"""

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
"""Names of Google's ml-goodput-measurement (0.2) for the causes that are not useful. It has none of
its own for redundant compute, nor for stragglers."""
