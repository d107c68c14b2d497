"""Saving the state."""

from __future__ import annotations

from typing import Literal

from faultline.experiments.config.field_documentation import about
from faultline.experiments.config.tables.sources import SOUND
from faultline.experiments.config.tables.table import Table, implying
from pydantic import Field


class CheckpointTable(Table):
    """``[checkpoint]``: saving the state to storage."""

    _a_time_is_stated = implying("write", "stated", "write_s")

    interval_steps: int | None = Field(
        None,
        ge=1,
        le=10**18,
        description="Steps between checkpoints; unset: the best by the closed form of `period`.",
        json_schema_extra=about(
            "derived: closed forms", unit="steps", only_with={"checkpoint.policy": "fixed"}
        ),
    )
    period: Literal["of-lives", "first-order"] = Field(
        "of-lives",
        description="Which closed form gives intervals that are not stated.",
        json_schema_extra=about(
            "choice: the exact one; published ones are first-order",
            choices={
                "of-lives": "the best for how long lives last under the scheme; first-order where "
                "that is not known in closed form",
                "first-order": "T_c* of Saxena et al. 2024, for lives much longer than the period",
            },
        ),
    )
    policy: Literal["fixed", "dynamic"] = Field(
        "fixed",
        description="When a checkpoint is due.",
        json_schema_extra=about(
            "choice: what frameworks do",
            choices={
                "fixed": "every interval_steps steps",
                "dynamic": "as soon as the unsaved work is worth its price under the hazard of a "
                "restart at that moment, which grows with every group that is down (after Ling et "
                "al. 2001 and Bougeret et al. 2011)",
            },
        ),
    )
    write: Literal["stated", "measured"] = Field(
        "measured",
        description="Where the time to write a checkpoint comes from. Where write_s alone is "
        "given, it is 'stated'.",
        json_schema_extra=about(
            "choice: platforms differ",
            choices={"stated": "write_s", "measured": "a flow to the platform's storage"},
        ),
    )
    write_s: float | None = Field(
        None,
        gt=0,
        le=1e9,
        description="Time to write a checkpoint.",
        json_schema_extra=about(
            "choice: unset, for you to say", unit="s", only_with={"checkpoint.write": "stated"}
        ),
    )
    failed_writer: Literal["skips", "replaced"] = Field(
        "replaced",
        description="What becomes of a checkpoint whose writer is down.",
        json_schema_extra=about(
            f"{SOUND} skips",
            choices={"replaced": "the next member writes it", "skips": "it is left out"},
        ),
    )
