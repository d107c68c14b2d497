"""The schema of a scenario: every field with its unit, its default and where that comes from.

A scenario says what is trained, under which failures, by which scheme, and which of the named
choices hold that decide how a simulator treats a failure. Fields are in SI units.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from experiments.schema.field_documentation import about
from experiments.schema.tables.checkpoint import CheckpointTable
from experiments.schema.tables.communication import AllReduceTable, DetectionTable
from experiments.schema.tables.failures import FailuresTable
from experiments.schema.tables.job import JobTable, PlatformTable
from experiments.schema.tables.model import ModelTable
from experiments.schema.tables.protection import ProtectionTable
from experiments.schema.tables.restart import RejoinTable, RestartTable
from experiments.schema.tables.strategy import StrategyTable
from experiments.schema.tables.table import Table


class Scenario(Table):
    """One question: a job, its failures, a scheme, and the rules of the game."""

    version: Literal[1] = Field(
        1,
        description="Version of this schema.",
        json_schema_extra=about("choice: the only one so far", unit="1"),
    )
    name: str = Field(
        "unnamed",
        max_length=200,
        description="Name of the scenario; a file that has none is named after itself.",
        json_schema_extra=about("choice"),
    )
    description: str = Field(
        "",
        max_length=10_000,
        description="What it is for, and where its numbers come from.",
        json_schema_extra=about("choice"),
    )
    job: JobTable = Field(default_factory=JobTable)
    model: ModelTable = Field(default_factory=ModelTable)
    strategy: StrategyTable = Field(default_factory=StrategyTable)
    failures: FailuresTable = Field(default_factory=FailuresTable)
    detection: DetectionTable = Field(default_factory=DetectionTable)
    all_reduce: AllReduceTable = Field(default_factory=AllReduceTable)
    checkpoint: CheckpointTable = Field(default_factory=CheckpointTable)
    protection: ProtectionTable = Field(default_factory=ProtectionTable)
    restart: RestartTable = Field(default_factory=RestartTable)
    rejoin: RejoinTable = Field(default_factory=RejoinTable)
    platform: PlatformTable = Field(default_factory=PlatformTable)
