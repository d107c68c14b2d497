"""The events of a run with their times."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class EventKind(str, Enum):
    """Kinds of events, in the words of the field."""

    STEP = "step"
    MISSING = "missing"
    REORDERED = "reordered"
    CHECKPOINT = "checkpoint"
    CHECKPOINT_SKIPPED = "checkpoint-skipped"
    MIRRORED = "mirrored"
    WIPE_OUT = "wipe-out"
    FAILURE_IN_RESTART = "failure-in-restart"
    RESTARTED = "restarted"
    LOADED = "loaded"
    REJOINED = "rejoined"
    RECOVERED = "recovered"
    PHASE = "phase"


class Event(NamedTuple):
    """One event."""

    # Simulated time, in seconds. A failure during a restart carries the moment it happened, all
    # others the end of their phase.
    time_s: float
    kind: EventKind  # What happened.
    step: int  # Steps completed by then.
    groups: tuple[int, ...] = ()  # Groups concerned: found missing, failed, writing, or back.
    # Stacks that a group computes: in the step just done, or from now on after a reordering.
    stacks: int = 0
    moved_types: int = 0  # Shard types that changed their place.
    recovery: str = ""  # Which kind of recovery ended, or which phase of one.
