"""The candidates of the head-to-head, its platform, model and rules, and its cells.

Every registered scheme is a candidate, over the protections that suit it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil
from typing import Any, Literal, get_args

from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.config.keys import path_of, value_at
from faultline.experiments.config.model_numbers import parallel_job, transformer_of
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.config.tables.phases import SNAPSHOT_TIMES
from faultline.experiments.job.durations import durations_of, recovery_prices
from faultline.experiments.job.platform_files import platform_file, spec_of
from faultline.experiments.job.protected import protect
from faultline.experiments.job.resolved_job import undisturbed_step_s
from faultline.experiments.job.workload import workload_of
from faultline.experiments.studies.data import read_rows
from faultline.experiments.studies.head_to_head.failures import FailureProcess
from faultline.experiments.studies.head_to_head.moves import MovesOfMoreGroups
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import xml_text
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.job.durations import Durations
from faultline.simulator.timing.cache_folder import platform_in_cache
from faultline.simulator.workload.gpu_memory import gpu_memory
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.recovery import RESTART, RecoveryKind
from faultline.strategies.plugins.registry import all_strategies, strategy_class

Machines = Literal["stated", "queue", "standbys"]

SCENARIO = "head-to-head"
GROUPS = 64
GPUS_PER_GROUP = 512
# 419 interruptions in 54 days on 16,384 GPUs (Grattafiori et al. 2024, Llama 3).
GPU_MTBF_S = 54 * 86_400.0 / 419 * 16_384
_LEAST_STEPS = 120
_NO_LIMIT_OF_RESTARTS = 10**9


# Schemes that were published with checkpoints on storage have both protections. Just-in-time
# checkpoints exist for plain checkpointing (Gupta et al. 2024). Other schemes have the best one.
_PROTECTIONS: Mapping[str, tuple[str, ...]] = {
    "checkpoint": ("storage", "reft", "just-in-time"),
    "replication": ("storage", "reft"),
    "spare": ("storage", "reft"),
    "varuna": ("storage",),
}
_DEFAULT_PROTECTION = ("reft",)

_TUNED: Mapping[str, Mapping[str, Any]] = {
    "replica-drop": {"strategy.replica-drop.broken_step": "kept"}
}
"""Options that make a scheme faster than their defaults do, in all settings."""

DEPEND_ON_LAYERS = ("oobleck",)
"""Schemes that divide their pipelines anew by whole layers."""

APPROXIMATE = tuple(name for name, scheme in all_strategies().items() if scheme.approximate)
"""Schemes whose gradients differ from those of a run without failures; they are never the best."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scheme over a protection."""

    # Registered names.
    scheme: str
    protection: str

    @property
    def name(self) -> str:
        """The name in tables: ``spare/reft``."""
        return f"{self.scheme}/{self.protection}"


def all_candidates(names: Sequence[str] | None = None) -> list[Candidate]:
    """Return the candidates in the order of the registry.

    Names are schemes, or candidates such as ``spare/reft``; all by default.

    Raises
    ------
    UserError
        If there is none of that name.
    """
    candidates = [
        Candidate(scheme, protection)
        for scheme in all_strategies()
        for protection in _PROTECTIONS.get(scheme, _DEFAULT_PROTECTION)
    ]
    if not names:
        return candidates
    known = [name for candidate in candidates for name in (candidate.name, candidate.scheme)]
    for name in names:
        if name not in known:
            raise UserError(f"--schemes {name}: no such candidate; {did_you_mean(name, known)}")
    return [one for one in candidates if {one.name, one.scheme} & {*names}]


def extra_compute_share(scheme: str, shape: JobShape) -> float:
    """Return the compute that a scheme adds to undisturbed steps, as a share of theirs.

    Bamboo also computes the forward pass of the next stage: a third of the work of its
    micro-batches, less the part that fits into the bubbles. Plain pipelines of 16 stages with 64
    micro-batches have 15 idle slots of 3 thirds each, so this is (64 - 45) / (3 * 79) of a step.
    Other schemes declare their extra compute themselves.
    """
    if scheme != "bamboo":
        return 0.0
    return max(0.0, shape.micro_batches / 3 - shape.idle_slots) / shape.slots


@dataclass(frozen=True, slots=True)
class Cell:
    """One set of circumstances."""

    plane: str  # Its list or map.
    # Its place there.
    x: float
    y: float
    # Mean time between failures of the whole job, and time of a restart without loading, in
    # seconds.
    mtbf_s: float
    restart_s: float
    groups: int = GROUPS
    domain_share: float = 0.0  # Share of the failures that break a whole scale-up domain.
    # Time of each recovery other than a restart, the same for all schemes, in seconds; None if it
    # follows from the recovery's phases.
    stall_s: float | None = None
    layers: int | None = None  # Layers of the model, if they differ from those of the job.
    name: str = ""  # Name of `x` in a list.
    # Source of replacement machines. "stated": the cell states the time of a restart. Otherwise it
    # follows from each scheme's phases, with the queue of a shared cluster, or with standbys first.
    machines: Machines = "stated"


@dataclass(frozen=True, slots=True)
class MeasuredJob:
    """A job as measured on its platform, common to all cells."""

    scenario: Scenario
    compute_s: float  # Time in which a group computes one shard type.
    durations: Durations
    # The scenario under each protection, with its measured times.
    protections: Mapping[str, Scenario]
    memory_bytes: float  # Of a GPU of the platform.
    failures: int = 120  # Failures of a cell, if these need at most `most_steps`.
    most_steps: int = 5000

    @property
    def gpus_per_group(self) -> int:
        """GPUs of a data-parallel group."""
        return self.scenario.job.gpus_of_group

    def held_bytes(self, stages: float, activations: float = 1.0) -> float:
        """Return the bytes on a GPU that holds a number of stages.

        Each parameter has 16-bit weights, 32-bit gradients and Adam's 12 bytes.

        Parameters
        ----------
        stages : float
            Stages per GPU; one without failures.
        activations : float
            Activations over those of an undisturbed step. A pipeline of fewer, longer stages has
            fewer micro-batches in flight.
        """
        table = self.scenario.model
        job = parallel_job(table, self.scenario.job.groups)
        share = replace(job.model, sequence_tokens=job.model.sequence_tokens // job.context)
        whole = gpu_memory(
            share,
            job.layout,
            job.micro_batch_sequences,
            job.micro_batches,
            recompute=table.recompute,
            fused_attention=table.attention != "unfused",
            shard_optimizer=table.shard_optimizer,
        )
        state_bytes = whole.parameters + whole.gradients + whole.optimizer
        return stages * state_bytes + activations * whole.activations

    def scenario_of(self, candidate: Candidate, cell: Cell) -> Scenario:
        """Return the scenario of a candidate in a cell, at redundancy 1."""
        base, scheme = self.protections[candidate.protection], candidate.scheme
        changes: dict[str, Any] = {
            "job.groups": cell.groups,
            "job.gpus": cell.groups * self.gpus_per_group,
            "job.steps": self.steps_in(cell),
            "strategy.name": scheme,
            "strategy.redundancy": 1,
            "failures.mtbf_s": cell.mtbf_s,
        }
        if cell.layers is not None:
            changes["model.layers"] = cell.layers
        changes |= _TUNED.get(scheme, {})
        if cell.machines == "stated":
            # A shared cluster replaces machines, and those of dropped groups, in this time.
            changes |= {"times.restart_s": cell.restart_s, "recovery.shortage": "reschedule"}
        else:
            changes |= {"recovery.transient": "in-place", **self._standbys_of(cell)}
        if not strategy_class(scheme).restart_replaces:
            changes["rejoin.when"] = "at-restart"
        for key in ("protection.reft.sharding_group", "protection.gemini.replicas"):
            # At most as many nodes share a snapshot as there are groups.
            if (value_at(base, path_of(key)) or 0) > cell.groups:
                changes[key] = cell.groups
        return base.change(changes)

    def _standbys_of(self, cell: Cell) -> dict[str, Any]:
        """Return the keys of standbys that suffice for 95 % of restarts; none without standbys."""
        if cell.machines != "standbys":
            return {}
        process = self.process(cell)
        machines = process.spare_gpus() // process.layout.gpus_per_host
        return {"recovery.hardware": "standby", "recovery.standbys": machines}

    def durations_in(self, cell: Cell, scenario: Scenario) -> Durations:
        """Return the times of a cell's phases; recoveries depend on the GPUs of the scenario."""
        prices = recovery_prices(scenario)
        if cell.stall_s is not None:
            stated_s = dict.fromkeys(get_args(RecoveryKind), cell.stall_s)
            # A migration is part of a restart.
            stated_s |= {"restart": cell.restart_s, "migrate": 0.0}
            prices = replace(prices, stated_s=stated_s)
        durations, groups = replace(self.durations, recovery=prices), self.scenario.job.groups
        if durations.moves is None or cell.groups <= groups:
            return durations
        # The platform has fewer groups, so writing to storage and loading take the measured times.
        return replace(durations, moves=MovesOfMoreGroups(durations.moves, groups), storage=None)

    def steps_in(self, cell: Cell) -> int:
        """Return the number of simulated steps, enough for about `failures` failures."""
        step_s = self.undisturbed_step_s(cell)
        return min(self.most_steps, max(_LEAST_STEPS, ceil(self.failures * cell.mtbf_s / step_s)))

    def tokens_in(self, cell: Cell) -> int:
        """Return the tokens of a step."""
        table = self.scenario.model
        sequences = cell.groups * table.micro_batches * table.micro_batch_sequences
        return sequences * transformer_of(table).sequence_tokens

    def undisturbed_step_s(self, cell: Cell) -> float:
        """Return the mean time of a step in a cell without failures, in seconds."""
        job = self.scenario.change({"job.groups": cell.groups}).job
        return undisturbed_step_s(job, self.compute_s, self.durations)

    def process(self, cell: Cell) -> FailureProcess:
        """Return the failure process of a cell."""
        table = self.scenario.failures
        host = table.gpus_per_host or 8
        gpus, domain = self.gpus_per_group, table.gpus_per_domain or host
        layout = JobLayout(cell.groups, gpus, host, domain, gpus)
        return FailureProcess(layout, cell.mtbf_s, cell.domain_share)


def measure_job(
    protections: Iterable[str],
    changes: Mapping[str, Any] | None = None,
    edits: Mapping[str, object] | None = None,
    name: str = SCENARIO,
) -> MeasuredJob:
    """Measure a job on its platform; cached measurements are not repeated.

    The compute of a step follows from the model and is stated from here on; a step at another pace
    takes a multiple of it.

    Parameters
    ----------
    protections : iterable of str
        Protections of the candidates.
    changes, edits : mapping, optional
        Changed keys of the scenario, and of its cluster's spec.
    name : str
        The scenario; its platform is one rail plane.
    """
    scenario = load_scenario(name)
    spec = spec_of(scenario)
    assert spec is not None
    assert spec.plane is not None
    assert spec.plane.domain_gpus is not None
    # The study draws its own failures, among them those of whole domains.
    own = {
        "job.give_up_after_restarts": _NO_LIMIT_OF_RESTARTS,
        "failures.gpus_per_domain": spec.plane.domain_gpus,
    }
    scenario = load_scenario(name, own | dict(changes or {}))
    # A preset would be generated anew at each reading.
    file = platform_file(scenario)
    if edits:
        edited = load_preset(scenario.platform.file, groups=scenario.job.groups, **edits)
        file = platform_in_cache(xml_text(edited).encode())
    scenario = scenario.change({"platform.file": str(file)})
    workload = workload_of(scenario)
    durations = durations_of(scenario, workload)
    scenario = scenario.change({"times.compute_s": workload.compute_s})
    names = sorted(set(protections))
    beneath = {name: _with_times(scenario, name, durations, workload.compute_s) for name in names}
    memory_bytes = float(spec.gpu.memory_bytes)
    return MeasuredJob(scenario, workload.compute_s, durations, beneath, memory_bytes)


def _with_times(
    scenario: Scenario, protection: str, durations: Durations, compute_s: float
) -> Scenario:
    """Return the scenario under a protection, with the measured times of moving the state."""
    measured = scenario.change({"protection.name": protection})
    found = protect(measured, durations, compute_s).times
    stated = {f"times.snapshot_{name}": getattr(found, name) for name in SNAPSHOT_TIMES}
    stated["times.snapshot_copy_s"] += found.encode_s
    return measured.change(stated)


@cache
def modelled_restart_s(gpus: int, hardware: str = "requeue") -> float:
    """Return the time of a restart on a number of GPUs, by its phases, in seconds."""
    # The phases depend on the GPUs alone, and a named model would set their number.
    changes: dict[str, object] = {"model.name": "stated", "job.gpus": gpus}
    changes |= {"recovery.hardware": hardware, "recovery.standbys": 1}
    scenario = load_scenario(SCENARIO, changes)
    return recovery_prices(scenario).duration_s(RESTART)


SETTINGS = {"calm": 6 * 3600.0, "today": GPU_MTBF_S / (GROUPS * GPUS_PER_GROUP), "storm": 600.0}
"""Mean time between failures of the table's settings, in seconds; today's is that of Llama 3."""

FACTS: tuple[Machines, ...] = ("queue", "standbys")
"""Sources of replacement machines in the table's settings; an operator knows which one applies."""


EDITS: Mapping[str, Mapping[str, object]] = {
    "as it is": {},
    "GPU speed halved": {"gpu.flops": "1.125PFLOP/s"},
    "NVLink halved": {"scale_up.bandwidth": "450GB/s"},
    "adapters and fabric halved": {"nic.bandwidth": "400Gbps"},
    "leaf uplinks halved": {"scale_out.oversubscription": [2]},
    "storage halved": {"storage.read_bandwidth": "1TB/s", "storage.write_bandwidth": "1TB/s"},
}
"""Edits of the cluster: the GPUs, and each kind of link."""

CHANGES: Mapping[str, Mapping[str, object]] = {"interleaved": {"model.virtual_stages": 4}}
"""Changed keys of the scenario by the list."""

MOST_SEEDS = {"links": 2}
"""Most seeds of a list; the time of a step hardly depends on chance."""


def listed_cells(plane: str) -> list[Cell]:
    """Return the cells of a list in ``data/cells.csv``."""
    return [_listed(**row) for row in read_rows("head_to_head", "cells") if row["plane"] == plane]


def _listed(*, name: str, failures: str, machines: Machines = "stated", **row: Any) -> Cell:
    """Return the cell of a row; a stated stall is also the time of a restart."""
    hardware = "standby" if machines == "standbys" else "requeue"
    restart_s = row.get("stall_s") or modelled_restart_s(GROUPS * GPUS_PER_GROUP, hardware)
    mtbf_s = SETTINGS[failures]
    return Cell(mtbf_s=mtbf_s, restart_s=restart_s, name=name, machines=machines, **row)
