"""What is trained, and where."""

from __future__ import annotations

from pydantic import Field

from experiments.schema.field_documentation import about
from experiments.schema.tables.sources import STUDY
from experiments.schema.tables.table import Table


class JobTable(Table):
    """``[job]``: what is trained."""

    groups: int = Field(
        200,
        ge=1,
        le=100_000,
        description="Data-parallel groups N; each holds one replica.",
        json_schema_extra=about(f"{STUDY}: 200, 600 and 1000", unit="1"),
    )
    gpus: int = Field(
        600_000,
        ge=1,
        le=10**9,
        description="GPUs of the whole job.",
        json_schema_extra=about(f"{STUDY}: 600k H100", unit="1"),
    )
    gpus_per_group: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="GPUs of a group; unset: gpus / groups, rounded down.",
        json_schema_extra=about("derived: gpus / groups, rounded down", unit="1"),
    )
    steps: int = Field(
        10_000,
        ge=1,
        le=10**9,
        description="Training steps to complete.",
        json_schema_extra=about(STUDY, unit="steps"),
    )
    compute_s: float = Field(
        64.0,
        gt=0,
        le=1e9,
        description="Time a group computes one shard type (one stack).",
        json_schema_extra=about(f"{STUDY}: 2.56e16 FLOP on a 400 TFLOP/s host", unit="s"),
    )
    compute_jitter: float = Field(
        0.05,
        ge=0,
        le=10,
        description="Standard deviation of the factor N(1, jitter^2) on compute_s.",
        json_schema_extra=about(STUDY, unit="1"),
    )
    minimum_compute_factor: float = Field(
        0.1,
        ge=0,
        lt=1,
        description="The factor on compute_s is never below this.",
        json_schema_extra=about(STUDY, unit="1"),
    )
    parameter_bytes: float = Field(
        2e13,
        gt=0,
        le=1e18,
        description="Size of a model replica: gradients reduced, and checkpoint written unless "
        "protection.state_bytes says otherwise.",
        json_schema_extra=about(f"{STUDY}: 10T parameters of 16 bits", unit="bytes"),
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
        """GPUs of one group, stated or derived; at least 1."""
        return self.gpus_per_group or max(1, self.gpus // self.groups)


class PlatformTable(Table):
    """``[platform]``: where the job runs."""

    file: str = Field(
        "spare-600k",
        max_length=4096,
        description="A shipped cluster, or a platform XML relative to the scenario's file.",
        json_schema_extra=about(f"choice: the cluster of the {STUDY}"),
    )
