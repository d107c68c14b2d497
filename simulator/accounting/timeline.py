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

    # Simulated time, in seconds: when a failure during a restart happened; for all other kinds, the
    # end of the phase.
    time_s: float
    kind: EventKind  # What happened.
    step: int  # Steps completed by then.
    groups: tuple[int, ...] = ()  # Groups that are missing, have failed, write, or rejoin.
    # Stacks that a group computes: in the step just completed, or from a reordering on.
    stacks: int = 0
    moved_types: int = 0  # Shard types that changed their place.
    recovery: str = ""  # The kind of recovery that ended, or the phase of one.
