"""What is trained, and where."""

from __future__ import annotations

from faultline.experiments.config.field_documentation import about
from faultline.experiments.config.tables.table import Table
from pydantic import Field


class JobTable(Table):
    """``[job]``: what is trained."""

    groups: int = Field(
        8,
        ge=1,
        le=100_000,
        description="Data-parallel groups N; each holds one replica.",
        json_schema_extra=about("choice: a small job; state yours", unit="1"),
    )
    gpus: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="GPUs of the whole job; unset: gpus_per_group * groups where that is stated, "
        "else all GPUs of the platform.",
        json_schema_extra=about("derived: all GPUs of the platform", unit="1"),
    )
    gpus_per_group: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="GPUs of a group; unset: gpus / groups, rounded down.",
        json_schema_extra=about("derived: gpus / groups, rounded down", unit="1"),
    )
    steps: int = Field(
        100_000,
        ge=1,
        le=10**9,
        description="Training steps to complete.",
        json_schema_extra=about("choice: a round number; state yours", unit="steps"),
    )
    compute_s: float = Field(
        10.0,
        gt=0,
        le=1e9,
        description="Time a group computes one shard type (one stack); follows from model.name "
        "where that names a model.",
        json_schema_extra=about("choice: a round number; state yours, or a model", unit="s"),
    )
    compute_jitter: float = Field(
        0.0,
        ge=0,
        le=10,
        description="Standard deviation of the factor N(1, jitter^2) on compute_s.",
        json_schema_extra=about("choice: none, all groups compute equally fast", unit="1"),
    )
    minimum_compute_factor: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="The factor on compute_s is never below this.",
        json_schema_extra=about("choice: no time is negative", unit="1"),
    )
    parameter_bytes: float = Field(
        1.4e11,
        gt=0,
        le=1e18,
        description="Size of a model replica's parameters, and of the gradients that are reduced; "
        "follows from model.name where that names a model.",
        json_schema_extra=about(
            "choice: 70e9 parameters of 16 bits; state yours, or a model", unit="bytes"
        ),
    )
    time_limit_s: float | None = Field(
        None,
        gt=0,
        description="Give up after this much simulated time; unset: never.",
        json_schema_extra=about("choice: no limit", unit="s"),
    )
    give_up_after_restarts: int = Field(
        1000,
        ge=1,
        le=10**9,
        description="Give up after this many restarts without a new checkpoint.",
        json_schema_extra=about("choice: a job that makes no progress has to end", unit="1"),
    )

    @property
    def gpus_of_group(self) -> int:
        """GPUs of one group, stated or derived; at least 1.

        Raises
        ------
        ValueError
            If neither they nor the GPUs of the job are stated, nor yet filled in
            (`Scenario.completed`).
        """
        if self.gpus_per_group is not None:
            return self.gpus_per_group
        if self.gpus is None:
            raise ValueError(
                "job.gpus is open; read the scenario by faultline.experiments.config.scenario_file"
            )
        return max(1, self.gpus // self.groups)

    @property
    def all_gpus(self) -> int:
        """GPUs of all groups; those that are left over are none of the job's."""
        return self.gpus_of_group * self.groups


class PlatformTable(Table):
    """``[platform]``: where the job runs."""

    file: str = Field(
        "hgx-h100",
        max_length=4096,
        description="A shipped cluster, or a platform XML relative to the scenario's file.",
        json_schema_extra=about("choice: 256 GPUs of the kind that most published runs had"),
    )
