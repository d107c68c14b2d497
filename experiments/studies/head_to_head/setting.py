"""Who takes part in the head-to-head; its platform, model and rules; and its cells.

Every registered scheme takes part, with protections beneath it that make sense for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil
from typing import Any, Literal, get_args

from faultline.experiments.config.errors import UserError, did_you_mean
from faultline.experiments.config.model_numbers import parallel_job, transformer_of
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.config.tables.phases import SNAPSHOT_TIMES
from faultline.experiments.job.durations import MovesOfMoreGroups, durations_of, recovery_prices
from faultline.experiments.job.platform_files import (
    platform_file,
    platform_in_cache,
    spec_of,
)
from faultline.experiments.job.protected import protect
from faultline.experiments.job.resolved_job import undisturbed_step_s
from faultline.experiments.job.step_times import with_compute
from faultline.experiments.studies.data import read_rows
from faultline.experiments.studies.head_to_head.failures import HARDWARE_REPAIR, Process
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import xml_text
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.job import Durations
from faultline.simulator.workload.memory import gpu_memory
from faultline.strategies.job_shape import JobShape
from faultline.strategies.recovery import RESTART, RecoveryKind
from faultline.strategies.registry import all_strategies, strategy_class

Machines = Literal["stated", "queue", "standbys"]

SCENARIO = "head-to-head"
GROUPS = 64
GPUS_PER_GROUP = 512
# 419 interruptions in 54 days on 16,384 GPUs (Grattafiori et al. 2024, Llama 3).
GPU_MTBF_S = 54 * 86_400.0 / 419 * 16_384
_LEAST_STEPS = 120
_NO_LIMIT_OF_RESTARTS = 10**9


# Beneath schemes that were published with checkpoints on storage, both are simulated; just-in-time
# checkpoints exist for plain checkpointing (Gupta et al. 2024). Everybody else gets the best.
_PROTECTIONS: Mapping[str, tuple[str, ...]] = {
    "checkpoint": ("storage", "reft", "just-in-time"),
    "replication": ("storage", "reft"),
    "spare": ("storage", "reft"),
    "varuna": ("storage",),
}
_DEFAULT_PROTECTION = ("reft",)

_TUNED: Mapping[str, Mapping[str, Any]] = {"replica-drop": {"broken_step": "kept"}}
"""Options with which a scheme is sooner than with their defaults, in all settings."""

DEPEND_ON_LAYERS = ("oobleck",)
"""Schemes whose pipelines are cut anew by whole layers."""

APPROXIMATE = tuple(name for name, scheme in all_strategies().items() if scheme.approximate)
"""Schemes whose gradients differ from those of a run without failures: they set no standards."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scheme with a way to keep its state."""

    # Registered names.
    scheme: str
    protection: str

    @property
    def name(self) -> str:
        """One word for tables: ``spare/reft``."""
        return f"{self.scheme}/{self.protection}"


def all_candidates(names: Sequence[str] | None = None) -> list[Candidate]:
    """Return the candidates in the order of the registry.

    Names are schemes, or candidates such as ``spare/reft``; all by default.

    Raises
    ------
    UserError
        If there is none of that name.
    """
    everybody = [
        Candidate(scheme, protection)
        for scheme in all_strategies()
        for protection in _PROTECTIONS.get(scheme, _DEFAULT_PROTECTION)
    ]
    if not names:
        return everybody
    known = [name for one in everybody for name in (one.name, one.scheme)]
    for name in names:
        if name not in known:
            raise UserError(f"--schemes {name}: no such candidate; {did_you_mean(name, known)}")
    return [one for one in everybody if one.name in names or one.scheme in names]


def price(scheme: str, shape: JobShape) -> float:
    """Return by which share a scheme's steps compute longer without failures, if it does not say.

    Bamboo computes the forward pass of the next stage as well: a third of the work of its
    micro-batches, as far as this does not fit into the bubbles. Plain pipelines of 16 stages with
    64 micro-batches have 15 idle slots of 3 thirds each: (64 - 45) / (3 * 79) of a step.
    """
    if scheme != "bamboo":
        return 0.0
    return max(0.0, shape.micro_batches / 3 - shape.idle_slots) / shape.slots


@dataclass(frozen=True, slots=True)
class Cell:
    """One set of circumstances."""

    plane: str  # The list or the map that it is in.
    # Where.
    x: float
    y: float
    # Mean time between failures of the whole job, and time of a restart without loading, in
    # seconds.
    mtbf_s: float
    restart_s: float
    groups: int = GROUPS
    domain_share: float = 0.0  # Share of the failures that break a whole scale-up domain.
    # What every recovery short of a restart costs everybody, in seconds; None for its phases.
    stall_s: float | None = None
    layers: int | None = None  # Layers of the model, where they are not those of the job.
    name: str = ""  # What `x` stands for, where it is a list's.
    # Where machines come from: the cell states a restart's time, or each scheme has its own phases,
    # with the queue of a shared cluster, or with standbys before that.
    machines: Machines = "stated"


@dataclass(frozen=True, slots=True)
class Ground:
    """What all cells have in common."""

    scenario: Scenario  # The job, with protection times stated as they were measured.
    durations: Durations  # As measured on the platform.
    # The scenario under each protection, its times as measured.
    protections: Mapping[str, Scenario]
    memory_bytes: float  # Of a GPU of the platform.
    failures: int = 120  # Failures that a cell has, if that takes no more steps than these.
    most_steps: int = 5000

    @property
    def gpus_per_group(self) -> int:
        """GPUs of a data-parallel group."""
        return self.scenario.job.gpus_of_group

    def held_bytes(self, stages: float, activations: float = 1.0) -> float:
        """Return the bytes on a GPU with the state of so many stages, and so many activations.

        16-bit weights, 32-bit gradients and Adam's 12 bytes a parameter. It is one stage where
        nothing has failed. Activations count over those of a sound step: a pipeline of fewer,
        longer stages has as many micro-batches fewer in flight.
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
            shard_optimizer=table.shard_optimizer,
        )
        state_bytes = whole.parameters + whole.gradients + whole.optimizer
        return stages * state_bytes + activations * whole.activations

    def scenario_of(self, candidate: Candidate, cell: Cell) -> Scenario:
        """Return the scenario of a candidate in a cell, at redundancy 1."""
        base, scheme = self.protections[candidate.protection], candidate.scheme
        changes: dict[str, dict[str, Any]] = {
            "job": {
                "groups": cell.groups,
                "gpus": cell.groups * self.gpus_per_group,
                "steps": self.steps_in(cell),
            },
            "strategy": {"name": scheme, "redundancy": 1},
            "failures": {"mtbf_s": cell.mtbf_s},
            "model": {} if cell.layers is None else {"layers": cell.layers},
        }
        if scheme in _TUNED:
            options = getattr(base.strategy, scheme).model_copy(update=_TUNED[scheme])
            changes["strategy"][scheme] = options
        if cell.machines == "stated":
            changes["times"] = {"restart_s": cell.restart_s}
        else:
            changes["recovery"] = {"transient": "in-place", **self._standbys_of(cell)}
        if not strategy_class(scheme).restart_replaces:
            changes["rejoin"] = {"when": "at-restart"}
        elif cell.machines == "stated":
            # Another group is started in the place of a dropped one as in a restart.
            changes["rejoin"] = {"repair_s": cell.restart_s}
        for name, key in (("reft", "sharding_group"), ("gemini", "replicas")):
            # No more nodes share a snapshot than there are groups; small clusters have few.
            options = getattr(base.protection, name, None)
            if options is not None and getattr(options, key, 0) > cell.groups:
                smaller = options.model_copy(update={key: cell.groups})
                changes.setdefault("protection", {})[name] = smaller
        tables = {
            name: getattr(base, name).model_copy(update=values) for name, values in changes.items()
        }
        return base.model_copy(update=tables)

    def _standbys_of(self, cell: Cell) -> dict[str, Any]:
        """Return the keys of standbys, where a cell has some: enough 95 times of 100."""
        if cell.machines != "standbys":
            return {}
        process = self.process(cell)
        machines = process.spare_gpus() // process.layout.gpus_per_host
        again_s = HARDWARE_REPAIR.mean_s
        return {"hardware": "standby", "standbys": machines, "replenish_s": again_s}

    def durations_in(self, cell: Cell, scenario: Scenario) -> Durations:
        """Return the times of a cell's phases.

        Recoveries cost by the GPUs of the candidate's scenario.
        """
        prices = recovery_prices(scenario)
        if cell.stall_s is not None:
            stated_s = dict.fromkeys(get_args(RecoveryKind), cell.stall_s)
            # A migration is part of a restart, which costs what every event does.
            stated_s |= {"restart": cell.restart_s, "migrate": 0.0}
            prices = replace(prices, stated_s=stated_s)
        durations, groups = replace(self.durations, recovery=prices), self.scenario.job.groups
        if durations.moves is None or cell.groups <= groups:
            return durations
        # The platform has fewer groups: storage takes the measured time whoever writes or loads.
        return replace(durations, moves=MovesOfMoreGroups(durations.moves, groups), storage=None)

    def steps_in(self, cell: Cell) -> int:
        """Return how many steps are simulated: for about as many failures as a cell has."""
        step_s = self.undisturbed_step_s(cell)
        return min(self.most_steps, max(_LEAST_STEPS, ceil(self.failures * cell.mtbf_s / step_s)))

    def tokens_in(self, cell: Cell) -> int:
        """Return the tokens of a step."""
        table = self.scenario.model
        sequences = cell.groups * table.micro_batches * table.micro_batch_sequences
        return sequences * transformer_of(table).sequence_tokens

    def undisturbed_step_s(self, cell: Cell) -> float:
        """Return the mean time of a step in a cell without failures, in seconds."""
        job = self.scenario.job.model_copy(update={"groups": cell.groups})
        return undisturbed_step_s(job, self.scenario.compute_s, self.durations)

    def process(self, cell: Cell) -> Process:
        """Return the failures of a cell."""
        table = self.scenario.failures
        host = table.gpus_per_host or 8
        gpus, domain = self.gpus_per_group, table.gpus_per_domain or host
        layout = JobLayout(cell.groups, gpus, host, domain, gpus)
        return Process(layout, cell.mtbf_s, cell.domain_share)


def measured_ground(
    protections: Iterable[str],
    changes: Mapping[str, Any] | None = None,
    edits: Mapping[str, object] | None = None,
    name: str = SCENARIO,
) -> Ground:
    """Measure on the platform what all cells have in common; known measurements are not repeated.

    The step follows from the model, and its time is stated from here on: a step that a scheme has
    changed takes its pace times that. Gradients are reduced at 16 bits a parameter, and the state
    that is saved and loaded has 14 bytes a parameter: two probes, of which each gives its part.

    Parameters
    ----------
    protections : iterable of str
        How state is kept.
    changes, edits : mapping, optional
        Other values of keys of the scenario, and of its cluster's spec.
    name : str
        The scenario, on a platform of one rail plane.
    """
    scenario = load_scenario(name)
    spec = spec_of(scenario)
    assert spec is not None
    assert spec.plane is not None
    assert spec.plane.domain_gpus is not None
    # Whole domains fail in the study, which draws its own failures.
    own = {
        "job.give_up_after_restarts": _NO_LIMIT_OF_RESTARTS,
        "failures.gpus_per_domain": spec.plane.domain_gpus,
    }
    scenario = load_scenario(name, own | dict(changes or {}))
    # Read once as a file: a preset is generated anew at each request.
    file = platform_file(scenario)
    if edits:
        edited = load_preset(scenario.platform.file, groups=scenario.job.groups, **edits)
        file = platform_in_cache(xml_text(edited))
    platform = scenario.platform.model_copy(update={"file": str(file)})
    scenario = with_compute(scenario.model_copy(update={"platform": platform}))
    whole_state = scenario.job.model_copy(
        update={"parameter_bytes": scenario.protection.state_bytes}
    )
    of_state = durations_of(scenario.model_copy(update={"job": whole_state}))
    durations = replace(durations_of(scenario), save_s=of_state.save_s, load_s=of_state.load_s)
    names = sorted(set(protections))
    beneath = {name: _with_times(scenario, name, durations) for name in names}
    return Ground(scenario, durations, beneath, float(spec.gpu.memory_bytes))


def _with_times(scenario: Scenario, protection: str, durations: Durations) -> Scenario:
    """State what moving the state takes under a protection, as measured."""
    named = scenario.protection.model_copy(update={"name": protection})
    measured = scenario.model_copy(update={"protection": named})
    found = protect(measured, durations).times
    stated = {f"snapshot_{name}": getattr(found, name) for name in SNAPSHOT_TIMES}
    stated["snapshot_copy_s"] += found.encode_s
    return measured.model_copy(update={"times": measured.times.model_copy(update=stated)})


@cache
def modelled_restart_s(gpus: int, hardware: str = "requeue") -> float:
    """Return a restart's time by the number of GPUs, by its phases, in seconds."""
    # Prices depend on the GPUs alone: a model would say how many there are.
    changes: dict[str, object] = {"model.name": "stated", "job.gpus": gpus}
    changes |= {"recovery.hardware": hardware, "recovery.standbys": 1}
    scenario = load_scenario(SCENARIO, changes)
    return recovery_prices(scenario).duration_s(RESTART)


SETTINGS = {"calm": 6 * 3600.0, "today": GPU_MTBF_S / (GROUPS * GPUS_PER_GROUP), "storm": 600.0}
"""Mean time between failures of the table's settings, in seconds; today's is that of Llama 3."""

FACTS: tuple[Machines, ...] = ("queue", "standbys")
"""Where machines come from in the table's settings: an operator knows which of the two it is."""


EDITS: Mapping[str, Mapping[str, object]] = {
    "as it is": {},
    "GPU speed halved": {"gpu.flops": "1.125PFLOP/s"},
    "NVLink halved": {"scale_up.bandwidth": "450GB/s"},
    "adapters and fabric halved": {"nic.bandwidth": "400Gbps"},
    "leaf uplinks halved": {"scale_out.oversubscription": [2]},
    "storage halved": {"storage.read_bandwidth": "1TB/s", "storage.write_bandwidth": "1TB/s"},
}
"""Edits of the cluster: a kind of link each, and the GPUs."""

CHANGES: Mapping[str, Mapping[str, object]] = {"interleaved": {"model.virtual_stages": 4}}
"""Keys of the scenario that are others in a list."""

MOST_SEEDS = {"links": 2}
"""Seeds of a list, where fewer do: the time of a step has no luck in it."""


def listed_cells(plane: str) -> list[Cell]:
    """Return the cells of a list, of ``data/cells.csv``."""
    return [_listed(**row) for row in read_rows("head_to_head", "cells") if row["plane"] == plane]


def _listed(*, name: str, failures: str, machines: Machines = "stated", **row: Any) -> Cell:
    """Return the cell of a row; one with a stall states the time of a restart, too."""
    hardware = "standby" if machines == "standbys" else "requeue"
    restart_s = row.get("stall_s") or modelled_restart_s(GROUPS * GPUS_PER_GROUP, hardware)
    mtbf_s = SETTINGS[failures]
    return Cell(mtbf_s=mtbf_s, restart_s=restart_s, name=name, machines=machines, **row)
