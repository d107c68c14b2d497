"""The all-reduce of a step, and how it shows that a group is down."""

from __future__ import annotations

from typing import Literal

from faultline.experiments.config.field_documentation import about
from faultline.experiments.config.tables.sources import SOUND
from faultline.experiments.config.tables.table import Table, implying
from pydantic import Field


class DetectionTable(Table):
    """``[detection]``: how the job learns that a group is down."""

    mode: Literal["all-reduce", "watchdog"] = Field(
        "all-reduce",
        description="What becomes of an all-reduce that lacks a member.",
        json_schema_extra=about(
            "choice: the least that detection can take",
            choices={
                "all-reduce": "it fails after all_reduce.failed_fraction of its time",
                "watchdog": "it hangs until watchdog_s after its start",
            },
        ),
    )
    watchdog_s: float = Field(
        600.0,
        gt=0,
        le=1e9,
        description="Time-out of the watchdog, from the start of the all-reduce.",
        json_schema_extra=about(
            "PyTorch: default time-out of an NCCL process group, 10 minutes",
            unit="s",
            only_with={"detection.mode": "watchdog"},
        ),
    )
    failure_in_all_reduce: Literal["next-step", "fails-it"] = Field(
        "fails-it",
        description="What a group does that dies after its compute.",
        json_schema_extra=about(
            f"{SOUND} next-step",
            choices={
                "fails-it": "it makes this all-reduce fail",
                "next-step": "it is missed in the next step only",
            },
        ),
    )


class AllReduceTable(Table):
    """``[all_reduce]``: the gradient all-reduce at the end of a step."""

    _a_time_is_stated = implying("time", "stated", "time_s", "time_per_group_s")

    time: Literal["stated", "measured"] = Field(
        "measured",
        description="Where the time of an all-reduce comes from. Where a time alone is given, it "
        "is 'stated'.",
        json_schema_extra=about(
            "choice: platforms differ",
            choices={
                "stated": "time_s, or time_per_group_s times groups",
                "measured": "messages on the platform; the replay engine takes what SimGrid "
                "measured",
            },
        ),
    )
    time_s: float | None = Field(
        None,
        ge=0,
        le=1e11,
        description="Time of an all-reduce; unset: time_per_group_s * groups.",
        json_schema_extra=about(
            "derived: time_per_group_s * groups", unit="s", only_with={"all_reduce.time": "stated"}
        ),
    )
    time_per_group_s: float | None = Field(
        None,
        ge=0,
        le=1e6,
        description="Time of an all-reduce for each group, where time_s is unset.",
        json_schema_extra=about(
            "choice: unset, for you to say",
            unit="s",
            only_with={"all_reduce.time": "stated"},
        ),
    )
    failed_fraction: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Cost of an all-reduce that lacked a member, as a fraction of its time.",
        json_schema_extra=about(
            f"{SOUND} 0.5", unit="1", only_with={"detection.mode": "all-reduce"}
        ),
    )
    fixed_step: Literal["commits", "retries"] = Field(
        "retries",
        description="What a step does that lost nothing by its failures (phase 0).",
        json_schema_extra=about(
            f"{SOUND} commits",
            choices={
                "retries": "the survivors repeat the all-reduce",
                "commits": "it is done, without an all-reduce of the survivors",
            },
        ),
    )
    fidelity: Literal["flow", "chunk"] = Field(
        "flow",
        description="How messages are played.",
        json_schema_extra=about(
            "choice: both take the same time on a ring; flow is much faster to simulate",
            choices={
                "flow": "one steady flow an edge of the ring",
                "chunk": "every single message",
            },
            only_with={"all_reduce.time": "measured"},
        ),
    )
