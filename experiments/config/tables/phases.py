"""The phases of a job: all-reduce and detection, checkpoints, restarts, and groups that rejoin."""

from __future__ import annotations

from typing import Literal

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
        "Time from the moment a failure is noticed until the group could come back.",
        "NTP (Arfeen et al. 2025, arXiv 2504.06095): 3 h for software",
        only_with={"rejoin.when": "at-checkpoint"},
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
