"""The schema of a scenario: its tables, and the keys that follow from others.

A scenario states a job, its failures, a scheme, and the choices that decide how a simulator treats
a failure. Values are in SI units.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from faultline.experiments.config.cluster import cluster_of, gpus_of_cluster
from faultline.experiments.config.errors import FORMULA, UserError, and_more, quote
from faultline.experiments.config.keys import (
    mistakes_in,
    path_of,
    schema_keys,
    set_keys,
    with_numbers,
)
from faultline.experiments.config.model_numbers import numbers_of_model, steps_of_tokens
from faultline.experiments.config.tables.failures import FailuresTable
from faultline.experiments.config.tables.job import JobTable, ModelTable, PlatformTable
from faultline.experiments.config.tables.phases import (
    AllReduceTable,
    CheckpointTable,
    DetectionTable,
    RejoinTable,
    RestartTable,
    TimesTable,
)
from faultline.experiments.config.tables.recovery import RecoveryTable
from faultline.experiments.config.tables.schemes import ProtectionTable, StrategyTable
from faultline.experiments.config.tables.table import ScenarioTable, key
from faultline.experiments.config.uncertain import Prior, check_priors, prior_in_unit
from faultline.simulator.job.job import Rejoin
from faultline.strategies.plugins.registry import strategy_class
from pydantic import Field, ValidationError, field_validator, model_validator


class Measured(NamedTuple):
    """Whether SimGrid measures each time of a job on its platform: the times not stated."""

    all_reduce: bool
    checkpoint: bool
    load: bool


class Scenario(ScenarioTable):
    """A job, its failures, a scheme, and the rules by which failures are treated."""

    version: Literal[2] = key(
        2, "Version of this schema; 1 stated times in other tables.", "choice: this one", "1"
    )
    name: str = key(
        "unnamed",
        "Name of the scenario; a file that has none is named after itself.",
        "choice",
        max_length=200,
    )
    description: str = key(
        "", "What it is for, and where its numbers come from.", "choice", max_length=10_000
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
    recovery: RecoveryTable = Field(default_factory=RecoveryTable)
    times: TimesTable = Field(default_factory=TimesTable)
    platform: PlatformTable = Field(default_factory=PlatformTable)
    uncertain: dict[str, Prior] = Field(
        default_factory=dict,
        description='Distributions of numeric keys, each as "table.key" = { kind, low, high, '
        "source }. plan draws from them; all else uses each key's own value. Kinds: "
        "uniform, log-uniform and triangular (with mode) between low and high; normal and "
        "lognormal with low and high as 5 % and 95 % quantiles.",
        json_schema_extra={
            "source": "choice: none stated; scenario explain KEY shows the shipped prior of a key"
        },
    )

    @model_validator(mode="before")
    @classmethod
    def _read_numbers(cls, tables: Any) -> Any:
        """Read numbers with units, such as "3h"; priors have the units of their keys."""
        if not isinstance(tables, Mapping):
            return tables
        read = with_numbers(tables, cls)
        if isinstance(priors := read.get("uncertain"), Mapping):
            keys = schema_keys(cls)
            read["uncertain"] = {
                dotted: prior_in_unit(prior, keys.get(path_of(str(dotted))))
                for dotted, prior in priors.items()
            }
        return read

    @field_validator("uncertain")
    @classmethod
    def _are_of_numeric_keys(cls, priors: dict[str, Prior]) -> dict[str, Prior]:
        check_priors(priors, cls)
        return priors

    @field_validator("name")
    @classmethod
    def _is_no_formula(cls, name: str) -> str:
        # Users open tables with the name in spreadsheets.
        if name.startswith(FORMULA):
            raise ValueError("is a formula to a spreadsheet; begin it with a letter")
        return name

    def change(self, changes: Mapping[str, object]) -> Scenario:
        """Return the scenario with other values, as if its file had stated them.

        Keys that are not stated stay open: times are derived, and the numbers of a model computed,
        from the changed scenario.

        Parameters
        ----------
        changes : mapping of str to value
            Dotted keys and their values, such as ``{"job.groups": 600}``; a table by its name is
            replaced as a whole. None leaves a key open.

        Raises
        ------
        UserError
            If a key is invalid; names the first one and the number of others.
        PlatformError
            If the platform is invalid.
        """
        tables = self.stated()
        set_keys(tables, changes)
        try:
            scenario = Scenario.model_validate(tables)
        except ValidationError as error:
            first, *others = mistakes_in(error, Scenario)
            raise UserError(first.describe() + and_more(len(others))) from error
        return scenario.completed()

    def _rejoin_when(self, scheme: str) -> Rejoin:
        """Return when dropped groups return: as stated, else as in the source of the scheme."""
        if "when" in self.rejoin.model_fields_set:
            return self.rejoin.when
        return "at-checkpoint" if strategy_class(scheme).readmits else "at-restart"

    @property
    def measured(self) -> Measured:
        """Which times are measured on the platform."""
        times, reads = self.times, self.restart.readers is not None
        return Measured(
            times.all_reduce_s is None and times.all_reduce_per_group_s is None,
            times.checkpoint_write_s is None,
            times.checkpoint_load_s is None and reads,
        )

    def stated(self) -> dict[str, Any]:
        """Return the stated tables: without defaults and without keys that follow from others."""
        return self.model_dump(exclude_unset=True)

    def completed(self) -> Scenario:
        """Return the scenario with the keys that follow from its model, platform and scheme.

        Raises UserError if the model does not fit the platform, or if a key that follows is out of
        range or stated otherwise. Raises PlatformError if the platform is invalid.
        """
        job, stated = self.job, self.stated()
        numbers: dict[tuple[str, str], object] = {}
        if self.model.name != "stated":
            numbers |= numbers_of_model(self.model, job.groups, self.platform, stated)
        elif job.gpus is None:
            numbers["job", "gpus"] = gpus_of_cluster(cluster_of(self.platform, self.model))
        elif job.gpus < job.groups:
            raise UserError(
                f"job.gpus = {job.gpus:,}: {job.groups:,} groups have at least as many GPUs; "
                f"set job.gpus to {job.groups:,} or more, or job.groups to less"
            )
        if job.tokens is not None:
            numbers["job", "steps"] = steps_of_tokens(job, self.model, stated)
        if self._rejoin_when(self.strategy.name) != self.rejoin.when:
            numbers["rejoin", "when"] = self._rejoin_when(self.strategy.name)
        if not numbers:
            return self
        for (table, name), value in numbers.items():
            stated.setdefault(table, {})[name] = value
        try:
            scenario = Scenario.model_validate(stated)
        except ValidationError as error:
            first = mistakes_in(error, Scenario)[0]
            of_job = "the [model] and job.groups"
            if first.location == ("job", "steps"):
                of_job = "job.tokens and the tokens of a step"
            elif self.model.name == "stated":
                of_job = f"platform.file = {quote(self.platform.file)}"
            raise UserError(f"{first.describe()}; that follows from {of_job}: change it") from error
        for table, name in numbers:
            if name not in getattr(self, table).model_fields_set:
                getattr(scenario, table).model_fields_set.discard(name)
        return scenario
