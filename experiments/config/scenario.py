"""The schema of a scenario: every field with its unit, its default and where that comes from.

A scenario says what is trained, under which failures, by which scheme, and which of the named
choices hold that decide how a simulator treats a failure. Fields are in SI units.
"""

from __future__ import annotations

from typing import Literal

from faultline.experiments.config.field_documentation import about
from faultline.experiments.config.tables.checkpoint import CheckpointTable
from faultline.experiments.config.tables.communication import AllReduceTable, DetectionTable
from faultline.experiments.config.tables.failures import FailuresTable
from faultline.experiments.config.tables.job import JobTable, PlatformTable
from faultline.experiments.config.tables.model import ModelTable
from faultline.experiments.config.tables.protection import ProtectionTable
from faultline.experiments.config.tables.restart import RejoinTable, RestartTable
from faultline.experiments.config.tables.strategy import StrategyTable
from faultline.experiments.config.tables.table import Table
from pydantic import Field


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
