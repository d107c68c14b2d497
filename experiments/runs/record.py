"""The record of a run: the one definition of each column, with value, unit and meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from faultline.experiments.config.distribution import own_version
from faultline.experiments.job.hardware import machines_text, paid_gpus
from faultline.experiments.job.platform_files import gpu_of
from faultline.experiments.job.workload import model_flop_utilisation
from faultline.simulator.accounting.badput import BADPUT_TYPES, BESIDE_STEPS, CAUSES, MEANINGS
from faultline.strategies.theory.ettr import expected_ettr

if TYPE_CHECKING:
    from faultline.experiments.job.resolved_job import ResolvedJob
    from faultline.simulator.accounting.progress import Progress

Record = dict[str, Any]
"""A flat record: column to scalar."""

Kind = Literal["text", "count", "number"]


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """A finished run, from which a record is computed."""

    job: ResolvedJob  # With every value filled in.
    progress: Progress  # Steps, times and counts of the run.
    seed: int  # Seed of the random numbers.
    engine: str  # The engine.
    scenario_hash: str  # Digest of the resolved scenario.

    @property
    def full_batch_s(self) -> float:
        """Time of an undisturbed step with a full batch (`job.undisturbed_step`), in seconds."""
        return self.job.ideal_step_s

    @property
    def ideal_s(self) -> float:
        """Time of the kept steps without redundancy, failures and checkpoints, in seconds.

        A step that trains half a batch is half a step.
        """
        return self.progress.completed_batches * self.full_batch_s

    @property
    def mean_step_s(self) -> float:
        """Mean time of a step, including failures and redundancy, in seconds."""
        progress = self.progress
        stepping_s = progress.now_s - progress.seconds_of(BESIDE_STEPS)
        return (
            stepping_s / progress.simulated_steps if progress.simulated_steps else self.full_batch_s
        )

    @property
    def goodput(self) -> float:
        """Share of the time that went into kept steps, between 0 and 1.

        It is independent of the speed of the machine.
        """
        return self.ideal_s / self.progress.now_s if self.progress.now_s else 1.0

    @property
    def closed_form_ettr(self) -> float | None:
        """Goodput by RSC's closed form, if each failure restarts the job; None if negative.

        The job restarts from the state that is kept, which may be a snapshot in memory.
        """
        costs, protected = self.job.costs(), self.job.protected
        if protected.protection.peers is not None:
            costs = replace(costs, restart_s=self.job.restart_s)  # Without loading from storage.
        if protected.in_background:
            costs = protected.costs_of_memory(costs)
        interval_s = self.job.kept_every_steps * self.full_batch_s
        found = expected_ettr(1.0 / costs.mtbf_s, costs.restart_s, interval_s, costs.save_s)
        return found if found >= 0.0 else None

    @property
    def gpu_hours(self) -> float:
        """GPU-hours of the whole run, including standbys."""
        gpus = paid_gpus(self.job.scenario)
        return gpus * self.progress.now_s / 3600.0

    @property
    def energy_j(self) -> float | None:
        """Energy of all GPUs, in joules; None if the platform does not state their power."""
        gpu, job = gpu_of(self.job.scenario), self.job.scenario.job
        if gpu is None or gpu.power_w is None:
            return None
        raised_s = self.progress.raised_power_s * job.gpus_of_group * job.groups
        return gpu.power_w * (self.gpu_hours * 3600.0 + raised_s)

    @property
    def completed_steps(self) -> float:
        """Full batches trained; an integer unless steps had smaller batches."""
        batches = self.progress.completed_batches
        return round(batches) if abs(batches - round(batches)) < 1e-6 else batches


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a record."""

    # The key. It ends with the unit, if there is one. A key that ends with a dot is the prefix of a
    # family of columns.
    name: str
    kind: Kind  # Text, an integer, or any number (one of "text", "count", "number").
    label: str  # Name in words, without the unit, for axes and tables.
    meaning: str  # A sentence without a full stop.
    # The better direction ({"lower", "higher"}); None if there is none.
    better: Literal["lower", "higher"] | None = None
    unit: str = "1"  # Of the values: "s", "steps", or "1" for counts and ratios; empty for text.
    # The displayed unit, and the factor from the unit of the values to it.
    shown_unit: str = ""
    scale: float = 1.0
    symbol: str = ""  # Short label; by default the label.
    share: bool = False  # Whether the values, and so their intervals, are between 0 and 1.
    optional: bool = False  # Whether a run may have no value.
    # Computes the value of a run, or the values of a family by name. The default is the attribute
    # of `SimulatedRun` or `Progress` with the name of the column.
    value: Callable[[SimulatedRun], Any] | None = None

    def of(self, simulated: SimulatedRun) -> Any:
        """Return the value of a run."""
        if self.value:
            return self.value(simulated)
        return getattr(
            simulated if hasattr(SimulatedRun, self.name) else simulated.progress, self.name
        )


def _text(
    name: str, label: str, meaning: str, value: Callable[[SimulatedRun], str] | None = None
) -> Column:
    return Column(name, "text", label, meaning, unit="", value=value)


def _count(name: str, label: str, meaning: str, **more: Any) -> Column:
    return Column(name, "count", label, meaning, **more)


_SCALES = {"days": 1 / 86400.0, "hours": 1 / 3600.0, "minutes": 1 / 60}


def _time(name: str, label: str, meaning: str, shown: str, **more: Any) -> Column:
    scale = _SCALES[shown]
    return Column(name, "number", label, meaning, unit="s", shown_unit=shown, scale=scale, **more)


def _step(part: str, meaning: str) -> Column:
    """Return the column of a part of an undisturbed step; None unless the step is simulated."""
    return Column(
        f"step_{part}_s",
        "number",
        f"step: {meaning}",
        f"{meaning}, of an undisturbed step as the busiest stage sees it",
        unit="s",
        shown_unit="s",
        optional=True,
        value=lambda run: None if run.job.step is None else getattr(run.job.step, f"{part}_s"),
    )


def _share(name: str, label: str, meaning: str, **more: Any) -> Column:
    percent: dict[str, Any] = {"shown_unit": "%", "scale": 100.0, "share": True}
    return Column(name, "number", label, meaning, "higher", **percent, **more)


def _booked(cause: str) -> Column:
    words = MEANINGS[cause]
    called = f" (ml-goodput-measurement: {BADPUT_TYPES[cause]})" if cause in BADPUT_TYPES else ""
    return _time(
        f"{cause}_s",
        words,
        f"simulated time booked under: {words}{called}",
        "hours",
        value=lambda run: run.progress.seconds[cause],
    )


def _same_tokens(run: SimulatedRun) -> dict[str, float]:
    """Return two values without the charge for approximate gradients, if there is a charge."""
    samples = run.progress.completed.samples
    if not run.job.scenario.strategy.approximation_loss or not samples:
        return {}
    ratio = run.progress.now_s / (samples * run.full_batch_s)
    return {"completed_steps": samples, "time_to_train_ratio": ratio}


_STEPS = {"unit": "steps", "shown_unit": "steps"}

_DEFINED = (
    _text("scenario", "scenario", "name of the scenario", lambda run: run.job.scenario.name),
    _text("scenario_hash", "scenario", "digest of the resolved scenario without its name"),
    _text("version", "version", "version of Faultline", lambda _: own_version()),
    _text(
        "strategy",
        "scheme",
        "the fault-tolerance scheme",
        lambda run: run.job.scenario.strategy.name,
    ),
    _text("engine", "engine", "the engine: replay or simgrid"),
    _count("seed", "seed", "seed of the random numbers; it determines the record"),
    _count(
        "groups",
        "groups N",
        "data-parallel groups of the job",
        symbol="N",
        value=lambda run: run.job.scenario.job.groups,
    ),
    _count(
        "gpus",
        "GPUs",
        "GPUs of the job, without spares",
        value=lambda run: run.job.scenario.job.gpus_of_group * run.job.scenario.job.groups,
    ),
    _count(
        "redundancy",
        "redundancy r",
        "copies of each shard type",
        symbol="r",
        value=lambda run: run.job.redundancy,
    ),
    _count(
        "checkpoint_interval_steps",
        "checkpoint interval",
        "steps between checkpoints",
        value=lambda run: run.job.interval_steps,
        **_STEPS,
    ),
    _time(
        "checkpoint_interval_s",
        "time between checkpoints",
        "mean time of the steps between two checkpoints, failures included",
        "minutes",
        value=lambda run: run.job.interval_steps * run.mean_step_s,
    ),
    Column(
        "step_s",
        "number",
        "undisturbed step",
        "mean time of a step of all groups, without failures, redundancy and checkpoints",
        "lower",
        unit="s",
        shown_unit="s",
        value=lambda run: run.full_batch_s,
    ),
    _step("compute", "computing"),
    _step("tensor", "messages of tensor parallelism"),
    _step("context", "messages of context parallelism"),
    _step("pipeline", "messages between stages"),
    _step("gather", "gathers of sharded weights"),
    _step("bubble", "waiting for other stages"),
    _step("data_parallel", "gradients and weights between groups"),
    _step("optimizer", "the optimizer"),
    _text(
        "protection",
        "protection",
        "the protection of the state between checkpoints",
        lambda run: run.job.scenario.protection.name,
    ),
    _count(
        "snapshot_interval_steps",
        "snapshot interval",
        "steps between snapshots in memory",
        optional=True,
        value=lambda run: run.job.snapshot_interval_steps,
        **_STEPS,
    ),
    _text(
        "machines",
        "machines",
        "the source of replacement machines, and how many are under repair on average",
        lambda run: machines_text(run.job.scenario, run.job.failures),
    ),
    _text(
        "distribution",
        "failures",
        "the process that generates failures",
        lambda run: run.job.scenario.failures.process,
    ),
    _count(
        "steps",
        "steps",
        "steps that the job has to complete",
        value=lambda run: run.job.scenario.job.steps,
    ),
    Column(
        "completed_steps",
        "number",
        "steps completed",
        "full batches trained and not lost to a restart",
        "higher",
    ),
    _time(
        "time_s",
        "simulated time",
        "simulated time of the whole job",
        "days",
        better="lower",
        value=lambda run: run.progress.now_s,
    ),
    _share(
        "goodput",
        "goodput",
        "share of the time spent on useful work: the effective training time ratio (ETTR)",
    ),
    _share(
        "closed_form_ettr",
        "ETTR by RSC's form",
        "goodput by the closed form of RSC (Kokolis et al. 2025), to first order in failures, "
        "if each failure restarts the job from a checkpoint, or from a snapshot if it takes any",
        optional=True,
    ),
    _share(
        "mfu",
        "MFU",
        "model FLOP of an undisturbed step over the FLOP of all its GPUs at their dense peaks",
        optional=True,
        value=lambda run: model_flop_utilisation(run.job.scenario, run.full_batch_s),
    ),
    Column(
        "gpu_hours",
        "number",
        "GPU-hours",
        "simulated time times the GPUs of the job, its spare groups and its standbys",
        "lower",
        unit="h",
    ),
    Column(
        "energy_j",
        "number",
        "energy of GPUs",
        "energy of the GPU-hours at rated power, plus the energy beyond it if a scheme raises "
        "power",
        "lower",
        unit="J",
        shown_unit="MWh",
        scale=1 / 3.6e9,
        optional=True,
    ),
    Column(
        "time_to_train_ratio",
        "number",
        "time-to-train ratio",
        "simulated time over that of the same number of undisturbed steps, without redundancy, "
        "failures and checkpoints; infinite if no step was completed",
        "lower",
        value=lambda run: run.progress.now_s / run.ideal_s if run.ideal_s else float("inf"),
    ),
    Column(
        "same_tokens.",
        "number",
        "same tokens:",
        "if approximate gradients are charged, the value at the same number of tokens instead of "
        "the same loss: completed steps, and the time-to-train ratio",
        value=_same_tokens,
    ),
    _share(
        "availability",
        "availability",
        "share of the time in which the job was up: not restarting, loading or reconfiguring",
        value=lambda run: (
            1.0 - run.progress.downtime_s / run.progress.now_s if run.progress.now_s else 1.0
        ),
    ),
    _time(
        "downtime_s",
        "downtime",
        "time of restarts, loads and reconfigurations",
        "days",
        better="lower",
    ),
    _count("restarts", "restarts", "global restarts", better="lower"),
    _count(
        "restarts_from_memory",
        "restarts from nodes' own memory",
        "restarts after which each node loaded its state from its own memory",
    ),
    _count(
        "restarts_from_peers",
        "restarts from the memory of peers",
        "restarts after which lost nodes loaded their state from the memory of peers",
    ),
    _count("rejoined", "groups that rejoined", "groups that returned, spares included"),
    _count("events", "failures (events)", "failures that stopped groups, one or many each"),
    _count(
        "events_by_cause.",
        "failures by",
        "failures that stopped groups by cause, if causes are known",
        value=lambda run: run.progress.events_by_cause,
    ),
    _count("hits", "groups stopped (hits)", "groups that these failures stopped, for each failure"),
    _count(
        "hits_while_down",
        "hits of groups that were down",
        "hits of a group that was already down",
    ),
    _count(
        "disturbances.",
        "disturbances by",
        "failures by cause that stopped no group at once",
        value=lambda run: run.progress.disturbances,
    ),
    _count(
        "remedies.",
        "remedies by",
        "times that this mitigation of stragglers was applied",
        value=lambda run: run.progress.remedies,
    ),
    _count("reorderings", "reorderings", "times that shard types were reordered"),
    _count(
        "standby_failures",
        "failures of standbys",
        "standbys found to have failed when the job needed them",
    ),
    _count(
        "states_refused",
        "states refused for memory",
        "times that the scheme rejected a state that does not fit into the memory of GPUs",
    ),
    _count("moved_types", "shard types moved", "shard types that groups took over"),
    _count("checkpoints", "checkpoints written", "checkpoints written to storage"),
    _count(
        "snapshots",
        "snapshots taken in the background",
        "snapshots in the background, to memory and to storage",
    ),
    _count(
        "simulated_steps", "steps simulated", "simulated steps, lost and repeated ones included"
    ),
    Column(
        "mean_stacks",
        "number",
        "mean stacks per step",
        "mean number of shard types that a group computes in a step, patch compute included",
        value=lambda run: run.progress.stack_computations / max(1, run.progress.simulated_steps),
    ),
    *map(_booked, CAUSES),
)

COLUMNS = {one.name: one for one in _DEFINED if not one.name.endswith(".")}
"""All columns of a record by name, in order; `FAMILIES` come in between."""

FAMILIES = {one.name: one for one in _DEFINED if one.name.endswith(".")}
"""Families of columns, by prefix."""


def column(name: str) -> Column | None:
    """Return the definition of a column of a record, or None if there is none."""
    if name in COLUMNS:
        return COLUMNS[name]
    return next((FAMILIES[prefix] for prefix in FAMILIES if name.startswith(prefix)), None)


def in_order(names: Iterable[str]) -> list[str]:
    """Return those names that are columns of a record, but the seed, in the order of records."""
    places = {one.name: place for place, one in enumerate(_DEFINED)}
    found = [(places[one.name], name) for name in names if (one := column(name)) is not None]
    return [name for _, name in sorted(found) if name != "seed"]


def record_of(simulated: SimulatedRun) -> Record:
    """Return the record of a run."""
    record: Record = {}
    for one in _DEFINED:
        value = one.of(simulated)
        if one.name in FAMILIES:
            record.update((one.name + name, part) for name, part in value.items())
        else:
            record[one.name] = value
    return record
