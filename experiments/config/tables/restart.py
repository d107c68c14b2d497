"""Bringing the whole job back, or single groups."""

from __future__ import annotations

from typing import Literal

from faultline.experiments.config.field_documentation import about
from faultline.experiments.config.tables.sources import BYTEROBUST, NCCLX, SOUND
from faultline.experiments.config.tables.table import Table, implying
from pydantic import Field


class RestartTable(Table):
    """``[restart]``: bringing the whole job back after a wipe-out."""

    _a_duration_is_stated = implying("time", "stated", "duration_s")

    time: Literal["stated", "modelled"] = Field(
        "modelled",
        description="Where the time of a restart comes from. Where duration_s alone is given, "
        "it is 'stated'.",
        json_schema_extra=about(
            "choice: restarts take longer on more GPUs",
            choices={
                "stated": "duration_s",
                "modelled": "scheduling_s + initialisation_s * (GPUs / initialisation_gpus) ^ "
                "initialisation_exponent",
            },
        ),
    )
    duration_s: float | None = Field(
        None,
        gt=0,
        le=1e9,
        description="Time until a group is up again.",
        json_schema_extra=about(
            "choice: unset, for you to say", unit="s", only_with={"restart.time": "stated"}
        ),
    )
    scheduling_s: float = Field(
        0.0,
        ge=0,
        le=1e9,
        description="Time until the job has its machines again.",
        json_schema_extra=about(
            "assumption: spare machines stand by", unit="s", only_with={"restart.time": "modelled"}
        ),
    )
    initialisation_s: float = Field(
        454.0,
        ge=0,
        le=1e9,
        description="Time to start processes and communicators on initialisation_gpus GPUs.",
        json_schema_extra=about(
            f"{BYTEROBUST}: 454 s on 2,048 GPUs",
            unit="s",
            only_with={"restart.time": "modelled"},
        ),
    )
    initialisation_gpus: int = Field(
        2048,
        ge=1,
        le=10**9,
        description="GPUs that initialisation_s is of.",
        json_schema_extra=about(
            f"{BYTEROBUST}: 128 servers of 16 GPUs",
            unit="1",
            only_with={"restart.time": "modelled"},
        ),
    )
    initialisation_exponent: float = Field(
        0.25,
        ge=0,
        le=4,
        description="How initialisation grows with the number of GPUs.",
        json_schema_extra=about(
            f"{BYTEROBUST}: 454, 545, 635, 768 s on 2,048 to 16,384 GPUs grow by 2^0.25 a doubling",
            unit="1",
            only_with={"restart.time": "modelled"},
        ),
    )
    failure_during: Literal["begins-anew", "absorbed"] = Field(
        "absorbed",
        description="What becomes of a group that fails during its restart.",
        json_schema_extra=about(
            f"{SOUND} begins-anew",
            choices={
                "absorbed": "the restart repairs it in passing",
                "begins-anew": "it starts over, and all wait for the slowest",
            },
        ),
    )
    failure_while_waiting: Literal["surfaces", "absorbed"] = Field(
        "absorbed",
        description="What becomes of a restarted group that fails while it waits for slower ones.",
        json_schema_extra=about(
            f"{SOUND} surfaces",
            choices={
                "absorbed": "the restart repairs it in passing",
                "surfaces": "the first step finds it down",
            },
        ),
    )
    resume: Literal["redo", "after"] = Field(
        "after",
        description="Where training goes on after a restart.",
        json_schema_extra=about(
            f"{SOUND} redo",
            choices={
                "after": "after the step that was checkpointed",
                "redo": "with the step that was checkpointed, which is done and saved once more",
            },
        ),
    )
    load: Literal["included", "measured"] = Field(
        "included",
        description="Where the time to load the checkpoint comes from.",
        json_schema_extra=about(
            f"{BYTEROBUST}: its times go on to the resumed job",
            choices={
                "included": "it is part of the restart's time",
                "measured": "it comes on top, as measured on the platform",
            },
        ),
    )
    load_by: Literal["one-group", "every-group"] = Field(
        "one-group",
        description="Who reads the checkpoint from storage.",
        json_schema_extra=about(
            "choice: storage is read once",
            choices={
                "one-group": "one group, which passes it on",
                "every-group": "all at once, sharing the storage's bandwidth",
            },
            only_with={"restart.load": "measured"},
        ),
    )
    controller_s: float | None = Field(
        None,
        ge=0,
        le=1e9,
        description="Time of the controller's decision and the shrinking of the communicator; "
        "unset: as long as making one of all GPUs of the job.",
        json_schema_extra=about(
            f"derived: {NCCLX}, 3.97, 11.9, 24.0 s on 8k, 32k, 96k GPUs are 0.88 s * (GPUs / "
            "1,000) ^ 0.72 within 9 %",
            unit="s",
        ),
    )
    shrink_per_member_s: float = Field(
        0.0,
        ge=0,
        le=1e6,
        description="What the shrinking takes on top for each member that is left.",
        json_schema_extra=about("assumption: communicators of all sizes shrink alike", unit="s"),
    )


class RejoinTable(Table):
    """``[rejoin]``: whether groups that were dropped come back before the next restart."""

    when: Literal["at-restart", "at-checkpoint"] = Field(
        "at-restart",
        description="When groups that were dropped come back.",
        json_schema_extra=about(
            "choice: a job that has lost groups goes on without them",
            choices={
                "at-restart": "with a global restart only",
                "at-checkpoint": "at the first checkpoint or snapshot at which they are repaired, "
                "or a spare group is free; stacks and replica sets are then as if they had never "
                "failed",
            },
        ),
    )
    repair_s: float = Field(
        10_800.0,
        ge=0,
        le=1e9,
        description="Time from the moment a failure is noticed until the group could come back.",
        json_schema_extra=about(
            "NTP (Arfeen et al. 2025, arXiv 2504.06095): 3 h for software",
            unit="s",
            only_with={"rejoin.when": "at-checkpoint"},
        ),
    )
    spare_groups: int = Field(
        0,
        ge=0,
        le=100_000,
        description="Groups that stand by from the beginning, on top of job.groups, to take the "
        "place of failed ones.",
        json_schema_extra=about(
            "choice: none", unit="1", only_with={"rejoin.when": "at-checkpoint"}
        ),
    )
    time_s: float | None = Field(
        None,
        ge=0,
        le=1e11,
        description="Time that all wait for groups that come back: joining, and being sent the "
        "state; unset: as long as writing a checkpoint.",
        json_schema_extra=about(
            "assumption: the state is read as fast as it is written",
            unit="s",
            only_with={"rejoin.when": "at-checkpoint"},
        ),
    )
