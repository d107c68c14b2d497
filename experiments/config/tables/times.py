"""Stated times: a number here is what a phase takes, whatever model or platform would say."""

from __future__ import annotations

from typing import Any, get_args

from faultline.experiments.config.tables.table import Table, seconds
from faultline.strategies.protection.registry import all_protections
from faultline.strategies.recovery import RecoveryKind

ASSUMED_COMPUTE_S = 10.0
"""What a job computes that names no model and states no time: a round number."""

_MEASURED = "derived: measured on the platform"
_PHASES = "derived: phases by [recovery]"
_IN_MEMORY = {"protection.name": [name for name in all_protections() if name != "storage"]}


def _whole(meaning: str, most: float = 1e9, **documentation: Any) -> Any:
    return seconds(None, f"Time of {meaning}, all of it.", _PHASES, most, **documentation)


def _snapshot(meaning: str) -> Any:
    return seconds(None, meaning, _MEASURED, only_with=_IN_MEMORY)


class TimesTable(Table):
    """``[times]``: stated times; what is left out is derived, or measured on the platform."""

    compute_s: float | None = seconds(
        None,
        "Time a group computes one shard type (one stack).",
        f"derived: a model's passes on the platform; {ASSUMED_COMPUTE_S:g} s where none is named",
        above=(0, 1e9),
    )
    all_reduce_s: float | None = seconds(
        None,
        "Time of an all-reduce; unset: all_reduce_per_group_s * groups, where that is stated.",
        _MEASURED,
        1e11,
    )
    all_reduce_per_group_s: float | None = seconds(
        None, "Time of an all-reduce for each group, where all_reduce_s is unset.", _MEASURED, 1e6
    )
    checkpoint_write_s: float | None = seconds(
        None, "Time to write a checkpoint to storage.", _MEASURED, above=(0, 1e9)
    )
    checkpoint_load_s: float | None = seconds(
        None,
        "Time to load a checkpoint from storage, on top of that of the restart.",
        "derived: measured where restart.readers are named, else part of the restart",
    )
    restart_s: float | None = _whole("a restart until a group is up again", above=(0, 1e9))
    shrink_s: float | None = _whole("going on after groups have left")
    shrink_per_member_s: float | None = seconds(
        None,
        "What that takes on top for each member that is left, where shrink_s is stated.",
        "assumption: communicators of all sizes shrink alike",
        1e6,
    )
    rejoin_s: float | None = _whole(
        "joining and being sent the state, for which all wait when groups come back",
        1e11,
        only_with={"rejoin.when": "at-checkpoint"},
    )
    take_over_s: float | None = _whole("a neighbour's taking over a stage")
    hand_back_s: float | None = _whole("a stage's going back to its node")
    re_form_s: float | None = _whole("forming pipelines anew")
    local_rendezvous_s: float | None = _whole("a pipeline's agreeing on who does a lost stage")
    change_of_degree_s: float | None = _whole("a group's going on at another tensor degree")
    snapshot_copy_s: float | None = _snapshot(
        "Time in which all GPUs copy their snapshot to host memory, parity included."
    )
    snapshot_copy_interference_s: float | None = _snapshot(
        "What an all-reduce takes longer during that."
    )
    snapshot_send_s: float | None = _snapshot("Time in which all nodes send their copies to peers.")
    snapshot_send_interference_s: float | None = _snapshot(
        "What an all-reduce takes longer during that."
    )
    snapshot_load_s: float | None = _snapshot("Time to load the state from a node's own memory.")
    snapshot_rebuild_s: float | None = _snapshot(
        "Time to rebuild a replaced node's state from what several peers hold, loading included."
    )
    snapshot_fetch_s: float | None = _snapshot(
        "Time to send a replaced node its state from a peer that has all of it, loading included."
    )

    def snapshots(self) -> dict[str, float]:
        """Return the stated of `SNAPSHOT_TIMES`."""
        return self._stated({name: f"snapshot_{name}" for name in SNAPSHOT_TIMES})

    @property
    def states_snapshots(self) -> bool:
        """Whether all of them are stated: then nothing of them is measured."""
        return len(self.snapshots()) == len(SNAPSHOT_TIMES)

    def recoveries(self) -> dict[str, float]:
        """Return the recoveries whose whole time is stated, by their kinds."""
        return self._stated({kind: key_of_recovery(kind) for kind in get_args(RecoveryKind)})

    def _stated(self, keys: dict[str, str]) -> dict[str, float]:
        values = {name: getattr(self, key) for name, key in keys.items()}
        return {name: value for name, value in values.items() if value is not None}


def key_of_recovery(kind: str) -> str:
    """Return the key that states the whole time of a recovery."""
    return f"{kind.replace('-', '_')}_s"


SNAPSHOT_TIMES = [key[9:] for key in TimesTable.model_fields if key.startswith("snapshot_")]
"""What moving snapshots about takes that may be stated, each by ``snapshot_`` before it."""
