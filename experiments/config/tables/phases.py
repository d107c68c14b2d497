"""The phases of a job: choices of each, and stated times, which hold whatever would be derived."""

from __future__ import annotations

from typing import Any, Literal, get_args

from faultline.experiments.config.tables.table import SOUND, Table, key, seconds, share
from faultline.simulator.job import (
    Detection,
    FailedWriter,
    FailureInAllReduce,
    FailureInRestart,
    FailureWhileWaiting,
    FixedStep,
    Rejoin,
    Resume,
)
from faultline.strategies.protection.registry import all_protections
from faultline.strategies.recovery import RecoveryKind


class DetectionTable(Table):
    """``[detection]``: how the job learns that a group is down."""

    mode: Detection = key(
        "all-reduce",
        "What becomes of an all-reduce that lacks a member.",
        "choice: the least that detection can take",
        choices={
            "all-reduce": "it fails after all_reduce.failed_fraction of its time",
            "watchdog": "it hangs until watchdog_s after its start",
        },
        rule="detection",
    )
    watchdog_s: float = seconds(
        600.0,
        "Time-out of the watchdog, from the start of the all-reduce; where a model's steps are "
        "played, from where the rest of its group waits for one that dies.",
        "PyTorch: default time-out of an NCCL process group, 10 minutes",
        above=(0, 1e9),
        only_with={"detection.mode": "watchdog"},
        rule="watchdog_s",
    )
    failure_in_all_reduce: FailureInAllReduce = key(
        "fails-it",
        "What a group does that dies after its compute.",
        f"{SOUND} next-step",
        choices={
            "fails-it": "it makes this all-reduce fail",
            "next-step": "it is missed in the next step only",
        },
        rule="failure_in_all_reduce",
    )


class AllReduceTable(Table):
    """``[all_reduce]``: the gradient all-reduce at the end of a step."""

    failed_fraction: float = share(
        1.0,
        "Cost of an all-reduce that lacked a member, as a fraction of its time.",
        f"{SOUND} 0.5",
        only_with={"detection.mode": "all-reduce"},
        rule="failed_all_reduce_fraction",
    )
    fixed_step: FixedStep = key(
        "retries",
        "What a step does that lost nothing by its failures (phase 0).",
        f"{SOUND} commits",
        choices={
            "retries": "the survivors repeat the all-reduce",
            "commits": "it is done, without an all-reduce of the survivors",
        },
        rule="fixed_step",
    )
    fidelity: Literal["flow", "chunk"] = key(
        "flow",
        "How messages are played where the time of an all-reduce is measured.",
        "choice: both take the same time on a ring; flow is much faster to simulate",
        choices={
            "flow": "one steady flow an edge of the ring",
            "chunk": "every single message",
        },
    )


class CheckpointTable(Table):
    """``[checkpoint]``: saving the state to storage."""

    interval_steps: int | None = key(
        None,
        "Steps between checkpoints; unset: the best by the closed form of `period`.",
        "derived: closed forms",
        "steps",
        between=(1, 10**18),
        only_with={"checkpoint.policy": "fixed"},
    )
    period: Literal["of-lives", "first-order"] = key(
        "of-lives",
        "Which closed form gives intervals that are not stated.",
        "choice: the exact one; published ones are first-order",
        choices={
            "of-lives": "the best for how long lives last under the scheme; first-order where "
            "that is not known in closed form",
            "first-order": "T_c* of Saxena et al. 2024, for lives much longer than the period",
        },
    )
    policy: Literal["fixed", "dynamic"] = key(
        "fixed",
        "When a checkpoint is due.",
        "choice: what frameworks do",
        choices={
            "fixed": "every interval_steps steps",
            "dynamic": "as soon as the unsaved work is worth its price under the hazard of a "
            "restart at that moment, which grows with every group that is down (after Ling et "
            "al. 2001 and Bougeret et al. 2011)",
        },
    )
    failed_writer: FailedWriter = key(
        "replaced",
        "What becomes of a checkpoint whose writer is down.",
        f"{SOUND} skips",
        choices={"replaced": "the next member writes it", "skips": "it is left out"},
        rule="failed_writer",
    )


class RestartTable(Table):
    """``[restart]``: bringing the whole job back after a wipe-out."""

    failure_during: FailureInRestart = key(
        "absorbed",
        "What becomes of a group that fails during its restart.",
        f"{SOUND} begins-anew",
        choices={
            "absorbed": "the restart repairs it in passing",
            "begins-anew": "it starts over, and all wait for the slowest",
        },
        rule="failure_in_restart",
    )
    failure_while_waiting: FailureWhileWaiting = key(
        "absorbed",
        "What becomes of a restarted group that fails while it waits for slower ones.",
        f"{SOUND} surfaces",
        choices={
            "absorbed": "the restart repairs it in passing",
            "surfaces": "the first step finds it down",
        },
        rule="failure_while_waiting",
    )
    resume: Resume = key(
        "after",
        "Where training goes on after a restart.",
        f"{SOUND} redo",
        choices={
            "after": "after the step that was checkpointed",
            "redo": "with the step that was checkpointed, which is done and saved once more",
        },
        rule="resume",
    )
    readers: Literal["one-group", "every-group"] | None = key(
        None,
        "Who reads the checkpoint from storage, as measured, on top of the restart's time; unset: "
        "loading is part of that, unless times.checkpoint_load_s is stated.",
        "ByteRobust (arXiv 2509.16293): its times go on to the resumed job",
        choices={
            "one-group": "one group, which passes it on",
            "every-group": "all at once, sharing the storage's bandwidth",
        },
    )


class RejoinTable(Table):
    """``[rejoin]``: whether groups that were dropped come back before the next restart."""

    when: Rejoin = key(
        "at-restart",
        "When groups that were dropped come back.",
        "choice: a job that has lost groups goes on without them",
        choices={
            "at-restart": "with a global restart only",
            "at-checkpoint": "at the first checkpoint or snapshot at which they are repaired, "
            "or a spare group is free; stacks and replica sets are then as if they had never "
            "failed",
        },
        rule="rejoin",
    )
    repair_s: float = seconds(
        10_800.0,
        "Time from the moment a failure is noticed until the group could come back; and until a "
        "machine is repaired that the job waits for, where the failure does not say.",
        "NTP (Arfeen et al. 2025, arXiv 2504.06095): 3 h for software",
    )
    spare_groups: int = key(
        0,
        "Groups that stand by from the beginning, on top of job.groups, to take the "
        "place of failed ones.",
        "choice: none",
        "1",
        between=(0, 100_000),
        only_with={"rejoin.when": "at-checkpoint"},
    )


ASSUMED_COMPUTE_S = 10.0
"""What a job computes that names no model and states no time: a round number."""

_MEASURED = "derived: measured on the platform"
_PHASES = "derived: phases by [recovery]"
IN_MEMORY = {"protection.name": [name for name in all_protections() if name != "storage"]}


def _whole(meaning: str, most: float = 1e9, **documentation: Any) -> Any:
    return seconds(None, f"Time of {meaning}, all of it.", _PHASES, most, **documentation)


def _snapshot(meaning: str) -> Any:
    return seconds(None, meaning, _MEASURED, only_with=IN_MEMORY)


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
    rejoin_s: float | None = _whole(
        "joining and being sent the state, for which all wait when groups come back",
        1e11,
        only_with={"rejoin.when": "at-checkpoint"},
    )
    take_over_s: float | None = _whole("a neighbour's taking over a stage")
    hand_back_s: float | None = _whole("a stage's going back to its node")
    re_form_s: float | None = _whole("forming pipelines anew")
    local_rendezvous_s: float | None = _whole("a pipeline's agreeing on who does a lost stage")
    migrate_s: float | None = _whole("a restart's sending stages to other domains of the job")
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
