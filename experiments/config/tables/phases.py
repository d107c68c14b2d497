"""The phases of a job: choices of each, and stated times, which override derived ones."""

from __future__ import annotations

from typing import Any, Literal, get_args

from faultline.experiments.config.tables.table import SOUND, ScenarioTable, key, seconds, share
from faultline.simulator.job.job import (
    Detection,
    FailedWriter,
    FailureInAllReduce,
    FailureInRestart,
    FailureWhileWaiting,
    FixedStep,
    Rejoin,
    Resume,
)
from faultline.strategies.interface.recovery import RecoveryKind
from faultline.strategies.plugins.registry import all_protections


class DetectionTable(ScenarioTable):
    """``[detection]``: how the job detects that a group is down."""

    mode: Detection = key(
        "all-reduce",
        "Behaviour of an all-reduce with an absent member.",
        "choice: the fastest detection possible",
        choices={
            "all-reduce": "it fails after all_reduce.failed_fraction of its time",
            "watchdog": "it hangs until watchdog_s after its start",
        },
        rule="detection",
    )
    watchdog_s: float = seconds(
        600.0,
        "Time-out of the watchdog, from the start of the all-reduce. If the steps of a model are "
        "simulated, from the moment at which the rest of the group waits for the failed rank.",
        "PyTorch: default time-out of an NCCL process group, 10 minutes",
        above=(0, 1e9),
        only_with={"detection.mode": "watchdog"},
        rule="watchdog_s",
    )
    failure_in_all_reduce: FailureInAllReduce = key(
        "fails-it",
        "Effect of a group that fails after its compute.",
        f"{SOUND} next-step",
        choices={
            "fails-it": "this all-reduce fails",
            "next-step": "the group is missed in the next step only",
        },
        rule="failure_in_all_reduce",
    )


class AllReduceTable(ScenarioTable):
    """``[all_reduce]``: the gradient all-reduce at the end of a step."""

    failed_fraction: float = share(
        1.0,
        "Duration of an all-reduce with an absent member, as a fraction of its usual duration.",
        f"{SOUND} 0.5",
        only_with={"detection.mode": "all-reduce"},
        rule="failed_all_reduce_fraction",
    )
    fixed_step: FixedStep = key(
        "retries",
        "End of a step whose failures lost no gradient (phase 0).",
        f"{SOUND} commits",
        choices={
            "retries": "the survivors repeat the all-reduce",
            "commits": "the step ends without an all-reduce of the survivors",
        },
        rule="fixed_step",
    )


class CheckpointTable(ScenarioTable):
    """``[checkpoint]``: checkpoints on storage."""

    interval_steps: int | None = key(
        None,
        "Steps between checkpoints. Unset: the best by the closed form of `period`.",
        "derived: closed forms",
        "steps",
        between=(1, 10**18),
        only_with={"checkpoint.policy": "fixed"},
    )
    period: Literal["of-lives", "first-order"] = key(
        "of-lives",
        "Closed form of intervals that are not stated.",
        "choice: the exact one; published forms are first-order",
        choices={
            "of-lives": "the best for the distribution of the time between restarts under the "
            "scheme; first-order if that has no closed form",
            "first-order": "T_c* of Saxena et al. 2024, for restarts much rarer than checkpoints",
        },
    )
    policy: Literal["fixed", "dynamic"] = key(
        "fixed",
        "Moment at which a checkpoint is due.",
        "choice: as in frameworks",
        choices={
            "fixed": "every interval_steps steps",
            "dynamic": "as soon as the unsaved work, times the current rate of restarts, is worth "
            "a checkpoint. The rate grows with each group that is down (after Ling et al. 2001 "
            "and Bougeret et al. 2011)",
        },
    )
    failed_writer: FailedWriter = key(
        "replaced",
        "Effect of a failed writer on a checkpoint.",
        f"{SOUND} skips",
        choices={"replaced": "the next member writes it", "skips": "the checkpoint is skipped"},
        rule="failed_writer",
    )


class RestartTable(ScenarioTable):
    """``[restart]``: restarts of the whole job."""

    failure_during: FailureInRestart = key(
        "absorbed",
        "Effect of a failure on a group that restarts.",
        f"{SOUND} begins-anew",
        choices={
            "absorbed": "none: the restart repairs it",
            "begins-anew": "the group restarts again, and all groups wait for the slowest",
        },
        rule="failure_in_restart",
    )
    failure_while_waiting: FailureWhileWaiting = key(
        "absorbed",
        "Effect of a failure on a restarted group that waits for slower ones.",
        f"{SOUND} surfaces",
        choices={
            "absorbed": "none: the restart repairs it",
            "surfaces": "the group is missing in the first step",
        },
        rule="failure_while_waiting",
    )
    resume: Resume = key(
        "after",
        "Step at which training continues after a restart.",
        f"{SOUND} redo",
        choices={
            "after": "the step after the checkpointed one",
            "redo": "the checkpointed step, which is repeated and saved again",
        },
        rule="resume",
    )
    readers: Literal["one-group", "every-group"] | None = key(
        None,
        "Groups that read the checkpoint from storage. The measured time is added to the "
        "restart. Unset: the restart includes loading, unless times.checkpoint_load_s is "
        "stated.",
        "ByteRobust (arXiv 2509.16293): its times last until the job has resumed",
        choices={
            "one-group": "one group, which sends it to the others",
            "every-group": "all groups at once, which share the bandwidth of the storage",
        },
    )


class RejoinTable(ScenarioTable):
    """``[rejoin]``: return of dropped groups before the next restart."""

    when: Rejoin = key(
        "at-restart",
        "Moment at which dropped groups return. Unset: at-checkpoint under schemes that take them "
        "back, such as replica-drop.",
        "choice: a job continues without lost groups, unless the source of its scheme takes them "
        "back",
        choices={
            "at-restart": "at a global restart only",
            "at-checkpoint": "at the first checkpoint or snapshot after their repair, or as soon "
            "as a spare group is free. Stacks and replica sets are then as before the failure",
        },
        rule="rejoin",
    )
    repair_s: float = seconds(
        10_800.0,
        "Time from the detection of a failure until the group or machine is repaired, if the "
        "failure does not state it. On a shared cluster (recovery.shortage) a dropped group "
        "returns on other machines, as in a restart, if that is sooner.",
        "NTP (Arfeen et al. 2025, arXiv 2504.06095): 3 h for software",
    )
    spare_groups: int = key(
        0,
        "Standby groups, in addition to job.groups, that replace failed ones.",
        "choice: none",
        "1",
        between=(0, 100_000),
        only_with={"rejoin.when": "at-checkpoint"},
    )


ASSUMED_COMPUTE_S = 10.0
"""Compute time of a job without a model and without a stated time: a round number."""

_MEASURED = "derived: measured on the platform"
_PHASES = "derived: phases by [recovery]"
IN_MEMORY = {"protection.name": [name for name in all_protections() if name != "storage"]}


def _whole(meaning: str, most: float = 1e9, **documentation: Any) -> Any:
    return seconds(None, f"Whole time of {meaning}.", _PHASES, most, **documentation)


def _snapshot(meaning: str) -> Any:
    return seconds(None, meaning, _MEASURED, only_with=IN_MEMORY)


class TimesTable(ScenarioTable):
    """``[times]``: stated times. All others are derived, or measured on the platform."""

    compute_s: float | None = seconds(
        None,
        "Time in which a group computes one shard type (one stack).",
        f"derived: a model's passes on the platform; {ASSUMED_COMPUTE_S:g} s without a model",
        above=(0, 1e9),
    )
    all_reduce_s: float | None = seconds(
        None,
        "Time of an all-reduce. Unset: all_reduce_per_group_s * groups, if that is stated.",
        _MEASURED,
        1e11,
    )
    all_reduce_per_group_s: float | None = seconds(
        None, "Time of an all-reduce per group, if all_reduce_s is unset.", _MEASURED, 1e6
    )
    checkpoint_write_s: float | None = seconds(
        None, "Time to write a checkpoint to storage.", _MEASURED, above=(0, 1e9)
    )
    checkpoint_load_s: float | None = seconds(
        None,
        "Time to load a checkpoint from storage, in addition to the restart.",
        "derived: measured if restart.readers is stated, else part of the restart",
    )
    restart_s: float | None = _whole("a restart, until a group is up again", above=(0, 1e9))
    shrink_s: float | None = _whole("shrinking after groups have left")
    rejoin_s: float | None = _whole(
        "a rejoin with the transfer of state, for which all groups wait",
        1e11,
        only_with={"rejoin.when": "at-checkpoint"},
    )
    take_over_s: float | None = _whole("a take-over of a stage by a neighbour")
    hand_back_s: float | None = _whole("the return of a stage to its node")
    re_form_s: float | None = _whole("re-forming pipelines")
    local_rendezvous_s: float | None = _whole("the rendezvous of a pipeline that has lost a stage")
    migrate_s: float | None = _whole("moving stages to other domains of the job in a restart")
    snapshot_copy_s: float | None = _snapshot(
        "Time in which all GPUs copy their snapshot to host memory, including parity."
    )
    snapshot_copy_interference_s: float | None = _snapshot(
        "Delay of an all-reduce during that copy."
    )
    snapshot_send_s: float | None = _snapshot("Time in which all nodes send their copies to peers.")
    snapshot_send_interference_s: float | None = _snapshot(
        "Delay of an all-reduce during that transfer."
    )
    snapshot_load_s: float | None = _snapshot(
        "Time to load the state from the memory of the same node."
    )
    snapshot_rebuild_s: float | None = _snapshot(
        "Time to rebuild the state of a replaced node from several peers, including loading."
    )
    snapshot_fetch_s: float | None = _snapshot(
        "Time to send a replaced node its state from one peer, including loading."
    )

    def snapshots(self) -> dict[str, float]:
        """Return the stated times among `SNAPSHOT_TIMES`."""
        return self._stated({name: f"snapshot_{name}" for name in SNAPSHOT_TIMES})

    @property
    def states_snapshots(self) -> bool:
        """Whether all times of snapshots are stated, so that none is measured."""
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
"""Times of snapshots that may be stated, each as a key with ``snapshot_`` before its name."""
