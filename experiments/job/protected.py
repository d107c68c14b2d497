"""The protection of a job's state, with every value filled in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING

from faultline.experiments.config.cluster import platform_at
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.durations import write_beside
from faultline.experiments.job.failure_model import job_layout
from faultline.experiments.job.placement import shards_of, shared_bytes, state_bytes
from faultline.experiments.job.platform_files import (
    edited_platform,
    explaining_aborts,
    is_plane,
    platform_file,
    spec_at_size,
    spec_of,
    with_memories,
)
from faultline.experiments.job.step_times import is_simulated
from faultline.platforms.preset_library import preset_names
from faultline.simulator.job.compute_times import LEAST_COMPUTE_FACTOR
from faultline.simulator.job.durations import Durations, SyncTime
from faultline.simulator.simgrid.state_transfers import (
    StateTransfers,
    StateTransferTimes,
    beside_steps,
)
from faultline.strategies.plugins.registry import protection_class
from faultline.strategies.protection.base import (
    Durable,
    LoadTimes,
    ProtectedJob,
    Protection,
    SnapshotCost,
    Tier,
)
from faultline.strategies.protection.checkpoint_policies import CheckpointPolicy, EverySteps
from faultline.strategies.protection.node_groups import NodeGroups
from faultline.strategies.protection.storage import Storage
from faultline.strategies.theory.checkpoint_period import Costs

if TYPE_CHECKING:
    from faultline.platforms.spec import ClusterSpec
    from faultline.simulator.job.background import WriteBesideSteps
    from faultline.simulator.simgrid.traffic import Flow


_OF_FLOWS = ("copy_s", "copy_interference_s", "send_s", "send_interference_s")
"""Times of snapshots that a simulation of their flows during steps replaces, unless stated."""


_GPUS_BESIDE, _FEWEST_GROUPS = 1024, 8
"""GPUs, and fewest groups, that represent those of a large job in a simulation of its copies."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Snapshots to memory during steps, with which they share links."""

    flows: tuple[Flow, ...] = field(repr=False)
    platform: Path  # A platform XML with links to memories.
    times: WriteBesideSteps  # The mutual slowdown of flows and steps.
    course: tuple[float, float]  # Delay of sound steps and duration of one, in seconds.


@dataclass(frozen=True, slots=True)
class Protected:
    """The protection of a job's state, with every value filled in."""

    protection: Protection  # The kind of protection.
    times: StateTransferTimes  # Times to move the state, measured or stated.
    overlapped: Overlap | None = None  # Snapshots in memory that share links with steps.

    @property
    def in_background(self) -> bool:
        """Whether checkpoints are written to storage while the job continues."""
        return type(self.protection) is not Storage

    @property
    def snapshot_cost(self) -> SnapshotCost:
        """The cost of a snapshot in memory."""
        cost = self.protection.snapshot_cost(self.times)
        if self.overlapped is None:
            return cost
        delay_s, lasts_s = self.overlapped.course
        return SnapshotCost(cost.stall_s + delay_s, self._after_s(cost.lag_s) + lasts_s)

    def _after_s(self, lag_s: float) -> float:
        """Return the part of a lag after the last byte has arrived, in seconds."""
        return lag_s if self.overlapped is None else max(0.0, lag_s - self.overlapped.times.alone_s)

    @property
    def persist_cost(self) -> SnapshotCost:
        """The cost of writing a snapshot to storage."""
        return self.protection.persist_cost(self.times)

    def tiers(
        self, storage_policy: CheckpointPolicy, snapshot_interval_steps: int, *, simulated: bool
    ) -> tuple[Tier, ...]:
        """Return the tiers of snapshots in the background, memory first.

        `storage_policy` decides when a snapshot is written to storage. The write may be `simulated`
        during steps.
        """
        if not self.in_background:
            return ()
        load, persist = self.protection.load_times(self.times), self.persist_cost
        storage = Tier(
            "storage",
            storage_policy,
            persist.stall_s,
            0.0 if simulated else persist.lag_s,
            Durable(),
            LoadTimes(load.local_s, load.peers_s),
        )
        if self.protection.peers is None:
            return (storage,)
        cost, policy = self.protection.snapshot_cost(self.times), None
        if self.protection.takes_snapshots:
            policy = EverySteps(snapshot_interval_steps)
        lag_s = self._after_s(cost.lag_s)
        memory = Tier("memory", policy, cost.stall_s, lag_s, self.protection, load)
        return (memory, storage)

    def costs_of_memory(self, costs: Costs) -> Costs:
        """Return the costs of a scheme if a restart finds the state in memory."""
        if self.protection.peers is None:
            return replace(costs, save_s=self.persist_cost.stall_s)
        load_s = self.protection.load_times(self.times).local_s
        return replace(costs, save_s=self.snapshot_cost.stall_s, restart_s=costs.restart_s + load_s)


def protect(
    scenario: Scenario, durations: Durations, compute_s: float, alike: Protected | None = None
) -> Protected:
    """Return the protection of a job with a known compute time, in seconds.

    What snapshots and steps cost each other is not measured again if a job that is `alike` in this
    has it.

    A StrategyError or UserError refuses a job that is too small for the protection, a platform that
    lacks a necessary number, and a node with too little memory.
    """
    table = scenario.protection
    chosen = protection_class(table.name)
    protection = chosen(protected_job(scenario, compute_s), table.options())
    nothing_s = (0.0,) * 8
    if chosen is Storage:
        return Protected(protection, StateTransferTimes(*nothing_s, durations.save_s, None))
    overlapped, stated = None, scenario.times.snapshots()
    if scenario.times.states_snapshots:
        platform = spec_at_size(scenario)
        memory_bytes = None if platform is None else platform.host.memory_bytes
        times = StateTransferTimes(*nothing_s, durations.save_s, memory_bytes)
    else:
        from faultline.simulator.timing.state_probe import state_transfer_times

        spec, transfers = _moved(scenario, protection)
        with explaining_aborts(platform_file(scenario)):
            times = state_transfer_times(spec, transfers, edited_platform(scenario))
        times = replace(times, persist_s=durations.save_s)
        times = replace(times, copy_s=max(times.copy_s, table.launch_s))
        if protection.gathers:
            times = _with_gathering(times, scenario, durations, protection.job)
        flows_are_simulated = scenario.measured.all_reduce and stated.keys().isdisjoint(_OF_FLOWS)
        if alike is not None:
            overlapped = alike.overlapped
        elif protection.copies_beside_steps and flows_are_simulated:
            overlapped = _overlap(scenario, durations, transfers, times, compute_s)
    if "copy_s" in stated:
        stated["encode_s"] = 0.0  # The stated copy includes parity.
    times = replace(times, **stated)
    _check_memory(scenario, protection, times.host_memory_bytes)
    return Protected(protection, times, overlapped=overlapped)


def _overlap(
    scenario: Scenario,
    durations: Durations,
    transfers: StateTransfers,
    times: StateTransferTimes,
    compute_s: float,
) -> Overlap | None:
    """Return the mutual slowdown of snapshots and steps; None if they never share a link."""
    least = LEAST_COMPUTE_FACTOR if scenario.job.compute_jitter else 1.0
    shortest_s = compute_s * least
    if not is_simulated(scenario) and times.copy_s + times.send_s <= shortest_s:
        # Snapshots end before the all-reduce, which alone uses links.
        return None
    scenario, transfers = _fewer_groups(scenario, transfers, compute_s)
    path = with_memories(platform_file(scenario))
    flows = beside_steps(platform_at(path), transfers)
    found = write_beside(scenario, path, flows)
    if found is None or found.fits_into(shortest_s):
        return None
    course = found.course(compute_s, durations.all_reduce_s(scenario.job.groups))
    return Overlap(flows, path, found, course)


def _fewer_groups(
    scenario: Scenario, transfers: StateTransfers, compute_s: float
) -> tuple[Scenario, StateTransfers]:
    """Return a smaller job whose links carry the same copies and steps as those of a large one.

    On a shipped cluster all groups are alike. Their copies and messages share links below the same
    kinds of switches in any number, so some of them represent the others.
    """
    table, job = scenario.protection, scenario.job
    most = max(_FEWEST_GROUPS, _GPUS_BESIDE // job.gpus_of_group)
    if job.groups <= most or not is_simulated(scenario) or edited_platform(scenario) is not None:
        return scenario, transfers
    if scenario.platform.file not in preset_names():
        return scenario, transfers
    small = scenario.change({"job.groups": most, "job.gpus": None})
    protection = protection_class(table.name)(protected_job(small, compute_s), table.options())
    _, moved = _moved(small, protection)
    size_bytes = transfers.snapshot_bytes_per_gpu
    return small, replace(moved, snapshot_bytes_per_gpu=size_bytes)


def _check_memory(scenario: Scenario, protection: Protection, of_platform: float | None) -> None:
    table, spec = scenario.protection, spec_at_size(scenario)
    if is_plane(spec) and of_platform is not None:
        # A node of a rail plane is one GPU's part of a server.
        of_platform *= protection.job.gpus_per_node
    available = table.host_memory_bytes or of_platform
    needed = protection.memory_bytes_per_node * protection.job.slices
    if available is not None and needed > available:
        raise UserError(
            f'protection.name = "{table.name}": needs {needed / 1e9:,.0f} GB of host memory per '
            f"node, a node has {available / 1e9:,.0f} GB; use more nodes per replica, or set "
            "protection.host_memory_bytes"
        )


def protected_job(scenario: Scenario, compute_s: float) -> ProtectedJob:
    """Return the parts of a scenario's job that protections use.

    `compute_s` is the time in which a group computes one shard type, in seconds.
    """
    layout, spec = job_layout(scenario), spec_of(scenario)
    of_group, of_node = layout.gpus_per_group, layout.gpus_per_host
    shorter, longer = sorted((of_group, of_node))
    if longer % shorter and not is_plane(spec):
        # The GPUs of a server in one group form a node, or several of equal size.
        of_node = gcd(shorter, longer)
    per_group = max(1, round(of_group / of_node))
    # A row of nodes is a replica: one group, or all groups that share a node.
    rows = layout.groups if of_group >= of_node else -(-layout.gpus // of_node)
    return ProtectedJob(
        layout.groups,
        per_group,
        rows * per_group,
        of_node,
        state_bytes(scenario) / layout.gpus_per_group,
        compute_s,
        shared_bytes(scenario) / layout.gpus_per_group,
        shards_of(scenario),
        layout.gpus_per_host // of_node,
    )


def _moved(scenario: Scenario, protection: Protection) -> tuple[ClusterSpec, StateTransfers]:
    """Return the spec of the scenario's platform, and the state that a protection moves on it."""
    spec = spec_at_size(scenario)
    if spec is None:
        raise UserError(
            f"{scenario.platform.file}: has no description of its hosts, so nothing can be "
            "measured; state all times.snapshot_*"
        )
    job, moved = scenario.job, protection.transfers
    peers = _peers_on_platform(scenario, protection)
    smallest = min(map(len, peers), default=1)
    if moved.copies >= smallest:
        # On a rail plane a group of the job is one machine.
        raise UserError(
            f'protection.name = "{scenario.protection.name}": {moved.copies + 1} machines must '
            f"hold the same state, and {scenario.platform.file} has {smallest} for it, one per "
            "group; use fewer copies or more job.groups, or state all times.snapshot_*"
        )
    loaded_bytes = moved.loaded_bytes_per_gpu
    return spec, StateTransfers(
        groups=job.groups,
        snapshot_bytes_per_gpu=moved.snapshot_bytes_per_gpu,
        state_bytes_per_gpu=(
            protection.job.held_bytes_per_gpu if loaded_bytes is None else loaded_bytes
        ),
        peers=peers,
        copies=moved.copies,
        gradient_bytes_per_gpu=job.parameter_bytes / job.gpus_of_group,
        share_bytes_per_gpu=moved.share_bytes_per_gpu,
        slices=protection.peers.slices if protection.peers else 1,
    )


def _with_gathering(
    times: StateTransferTimes, scenario: Scenario, durations: Durations, protected: ProtectedJob
) -> StateTransferTimes:
    """Add the all-gather of replicated state: half of a ring all-reduce of the same size."""
    job = scenario.job
    all_reduce_s = durations.all_reduce_s
    # A simulated step's sync time does not fit: it has the optimizer, but no hidden gradients.
    simulated = isinstance(all_reduce_s, SyncTime)
    half_s = (times.all_reduce_s if simulated else all_reduce_s(job.groups)) / 2
    gathered = protected.replicated_bytes_per_gpu * job.gpus_of_group
    gather_s = half_s * gathered / job.parameter_bytes
    return replace(
        times,
        load_s=times.load_s + gather_s,
        rebuild_s=times.rebuild_s + gather_s,
        fetch_s=times.fetch_s + gather_s,
    )


def _peers_on_platform(scenario: Scenario, protection: Protection) -> tuple[tuple[int, ...], ...]:
    """Return the groups of peers, by the platform's numbers of nodes.

    On a rail plane, one node represents all nodes of a group.
    """
    peers = protection.peers
    if peers is None:
        return ()
    on_plane = is_plane(spec_at_size(scenario))
    if on_plane and peers.positions == 1:
        size = min(peers.size, scenario.job.groups)
        peers = NodeGroups(scenario.job.groups, size, 0, "across-domains")
    elif on_plane:
        peers = replace(peers, nodes=peers.rows, positions=1)
    return tuple(tuple(peers.nodes_of(group)) for group in range(peers.groups))
