"""From a scenario to the way its state is kept: what snapshots cost, and when they are taken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, expm1

from experiments.errors import UserError
from experiments.failure_models.of_scenario import failure_model, job_layout
from experiments.platform_files import explaining_aborts, platform_file, spec_of, state_bytes
from experiments.scenario import Scenario
from simulator.failures.failure import Level
from simulator.failures.mix import CauseMix
from simulator.failures.models import SharedFailures
from simulator.job import Durations
from simulator.simgrid_engine.state_transfers import StateTransfers, StateTransferTimes
from strategies.base import Strategy
from strategies.checkpoint_period import Costs
from strategies.checkpoint_policies import CheckpointPolicy, EverySteps
from strategies.in_memory.node_groups import NodeGroups
from strategies.in_memory.reliability import loss_probability
from strategies.protection.base import ProtectedJob, Protection, SnapshotCost
from strategies.protection.registry import protection_class
from strategies.protection.storage import Storage
from strategies.protection.tier import Durable, LoadTimes, Tier

_LEAST_LOSS = 1e-6
"""State in memory is not trusted to be lost less often than once in a million restarts."""


@dataclass(frozen=True, slots=True)
class Protected:
    """How the state of a job is kept, with every value filled in.

    Attributes
    ----------
    protection : Protection
        The way.
    times : StateTransferTimes
        What moving the state takes, measured or stated.
    snapshot_interval_steps : int
        Steps between snapshots in memory; 0 where none are taken.
    """

    protection: Protection
    times: StateTransferTimes
    snapshot_interval_steps: int = 0

    @property
    def in_background(self) -> bool:
        """Whether checkpoints go to storage while the job goes on."""
        return type(self.protection) is not Storage

    @property
    def snapshot_cost(self) -> SnapshotCost:
        """What a snapshot in memory costs."""
        return self.protection.snapshot_cost(self.times)

    @property
    def persist_cost(self) -> SnapshotCost:
        """What bringing a snapshot to storage costs."""
        return self.protection.persist_cost(self.times)

    def tiers(self, storage_policy: CheckpointPolicy) -> tuple[Tier, ...]:
        """Return where snapshots are kept in the background, memory first."""
        if not self.in_background:
            return ()
        load, persist = self.protection.load_times(self.times), self.persist_cost
        storage = Tier(
            "storage",
            storage_policy,
            persist.stall_s,
            persist.lag_s,
            Durable(),
            LoadTimes(load.local_s, load.peers_s),
        )
        if self.protection.peers is None:
            return (storage,)
        cost, policy = self.snapshot_cost, None
        if self.protection.takes_snapshots:
            policy = EverySteps(self.snapshot_interval_steps)
        memory = Tier("memory", policy, cost.stall_s, cost.lag_s, self.protection, load)
        return (memory, storage)

    def costs_of_memory(self, costs: Costs) -> Costs:
        """Return the costs that a scheme sees whose state is found in memory after a failure."""
        if self.protection.peers is None:
            return replace(costs, save_s=self.persist_cost.stall_s)
        load_s = self.protection.load_times(self.times).local_s
        return replace(costs, save_s=self.snapshot_cost.stall_s, restart_s=costs.restart_s + load_s)


def protect(scenario: Scenario, durations: Durations) -> Protected:
    """Return how the state of a scenario's job is kept, all but the interval.

    Raises
    ------
    StrategyError, UserError, PlatformError
        If the job is too small for it, its platform does not say what is needed, or a node has too
        little memory.
    """
    table = scenario.protection
    chosen = protection_class(table.name)
    protection = chosen(protected_job(scenario), table.options())
    if chosen is Storage:
        return Protected(protection, _no_times(durations.save_s))
    if table.times == "stated":
        times = StateTransferTimes(
            copy_s=table.copy_s,
            copy_interference_s=table.copy_interference_s,
            encode_s=0.0,
            send_s=table.send_s,
            send_interference_s=table.send_interference_s,
            load_s=table.load_s,
            rebuild_s=table.rebuild_s,
            fetch_s=table.rebuild_s,
            persist_s=durations.save_s,
            host_memory_bytes=_memory_of_platform(scenario),
        )
    else:
        times = replace(_measured(scenario, protection), persist_s=durations.save_s)
        if protection.gathers:
            times = _with_gathering(times, scenario, durations)
    _check_memory(scenario, protection, times.host_memory_bytes)
    return Protected(protection, times)


def with_intervals(
    protected: Protected,
    scenario: Scenario,
    scheme: type[Strategy],
    redundancy: int,
    costs: Costs,
) -> tuple[Protected, int]:
    """Return the protection with its interval, and the interval of checkpoints on storage.

    Both are the best for what they cost and save, and neither is so short that a snapshot is not
    whole before the next. Memory is lost with some restarts only, so that much rarer are the
    failures that checkpoints on storage are for.
    """
    groups = scenario.job.groups
    step_s = scheme.work_per_step(groups, redundancy) * costs.compute_s + costs.all_reduce_s
    stated = scenario.checkpoint.interval_steps
    if not protected.in_background:
        return protected, stated or scheme.best_interval_steps(groups, redundancy, costs)
    interval = 0
    if protected.protection.takes_snapshots and protected.protection.peers is not None:
        best = scheme.best_interval_steps(groups, redundancy, protected.costs_of_memory(costs))
        whole = ceil(protected.snapshot_cost.lag_s / step_s)
        interval = scenario.protection.interval_steps or max(best, whole, 1)
    lost = _loss_in_restart(protected.protection, scenario, interval * step_s + costs.restart_s)
    rarer = replace(costs, mtbf_s=costs.mtbf_s / lost, save_s=protected.persist_cost.stall_s)
    on_storage = max(
        scheme.best_interval_steps(groups, redundancy, rarer),
        ceil(protected.persist_cost.lag_s / step_s),
        1,
    )
    return replace(protected, snapshot_interval_steps=interval), stated or on_storage


def protected_job(scenario: Scenario) -> ProtectedJob:
    """Return what of a scenario's job matters to those who protect its state."""
    layout = job_layout(scenario)
    per_group = max(1, round(layout.gpus_per_group / layout.gpus_per_host))
    # Where several groups share a node, it counts once.
    nodes = max(1, -(-layout.gpus // layout.gpus_per_host))
    rows = max(1, round(nodes / per_group))
    return ProtectedJob(
        layout.groups,
        per_group,
        rows * per_group,
        layout.gpus_per_host,
        state_bytes(scenario) / layout.gpus_per_group,
        scenario.job.compute_s,
    )


def _no_times(persist_s: float) -> StateTransferTimes:
    return StateTransferTimes(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, persist_s, None)


def _measured(scenario: Scenario, protection: Protection) -> StateTransferTimes:
    from simulator.simgrid_engine.state_probe import cached_state_probe

    spec = spec_of(scenario)
    if spec is None:
        raise UserError(
            f"{scenario.platform.file}: does not say what its hosts are like, so nothing can be "
            'measured; set protection.times = "stated" and the times'
        )
    job, moved = scenario.job, protection.transfers
    transfers = StateTransfers(
        groups=job.groups,
        snapshot_bytes_per_gpu=moved.snapshot_bytes_per_gpu,
        state_bytes_per_gpu=protection.job.state_bytes_per_gpu,
        peers=_peers_on_platform(scenario, protection),
        copies=moved.copies,
        gradient_bytes_per_gpu=job.parameter_bytes / job.gpus_of_group,
        share_bytes_per_gpu=moved.share_bytes_per_gpu,
    )
    with explaining_aborts(platform_file(scenario)):
        return cached_state_probe(spec, transfers)


def _with_gathering(
    times: StateTransferTimes, scenario: Scenario, durations: Durations
) -> StateTransferTimes:
    """Add the all-gather of the state, which is the second half of a ring all-reduce of as much."""
    job = scenario.job
    half_s = durations.all_reduce_s(job.groups) / 2
    gather_s = half_s * state_bytes(scenario) / job.parameter_bytes
    return replace(
        times,
        load_s=times.load_s + gather_s,
        rebuild_s=times.rebuild_s + gather_s,
        fetch_s=times.fetch_s + gather_s,
    )


def _peers_on_platform(scenario: Scenario, protection: Protection) -> tuple[tuple[int, ...], ...]:
    """Return the nodes that share their state, as the platform numbers them.

    On a rail plane a group has one node, which stands for all of its nodes.
    """
    peers = protection.peers
    if peers is None:
        return ()
    spec = spec_of(scenario)
    if spec is not None and spec.plane is not None and peers.positions == 1:
        size = min(peers.size, scenario.job.groups)
        peers = NodeGroups(scenario.job.groups, size, 0, "across-domains")
    elif spec is not None and spec.plane is not None:
        peers = replace(peers, nodes=peers.rows, positions=1)
    return tuple(tuple(peers.nodes_of(group)) for group in range(peers.groups))


def _memory_of_platform(scenario: Scenario) -> float | None:
    spec = spec_of(scenario)
    if spec is None or spec.host.memory_bytes is None:
        return None
    return spec.host.memory_bytes


def _check_memory(scenario: Scenario, protection: Protection, of_platform: float | None) -> None:
    table, spec = scenario.protection, spec_of(scenario)
    if spec is not None and spec.plane is not None and of_platform is not None:
        # A node of a rail plane is one GPU's part of a server.
        of_platform *= protection.job.gpus_per_node
    available = table.host_memory_bytes or of_platform
    needed = protection.memory_bytes_per_node
    if available is not None and needed > available:
        raise UserError(
            f'protection.name = "{table.name}": needs {needed / 1e9:,.0f} GB of host memory a '
            f"node, a node has {available / 1e9:,.0f} GB; use more nodes a replica or larger "
            "groups of peers, or set protection.host_memory_bytes if it has more"
        )


def _loss_in_restart(protection: Protection, scenario: Scenario, window_s: float) -> float:
    """Return the probability that a restart does not find the state in memory.

    The failure that caused it has taken some nodes at once: if peers do not survive that, the state
    is lost. Else more nodes may be lost, one by one, within `window_s`, the time from the snapshot
    to the end of the restart; a loss needs more in a group of peers than it survives.
    """
    peers = protection.peers
    if peers is None:
        return 1.0
    struck = _nodes_struck(scenario, protection.job)
    hardware = sum(struck.values())
    lost = -expm1(-hardware * window_s / failure_model(scenario).mtbf_s / peers.nodes)
    at_once = sum(share for nodes, share in struck.items() if not peers.survives(nodes))
    more = 0.0
    if peers.tolerated:
        among_peers = loss_probability(lost, peers.size - 1, peers.size - 1, peers.tolerated - 1)
        more = among_peers + loss_probability(lost, peers.nodes, peers.size, peers.tolerated)
    return min(1.0, max(_LEAST_LOSS, at_once + (hardware - at_once) * more))


def _nodes_struck(scenario: Scenario, job: ProtectedJob) -> dict[range, float]:
    """Return which nodes a failure of hardware takes at once, and which share of failures does.

    The first component of each level stands for all of them. A trace counts as one node at a time.
    """
    table, layout = scenario.failures, job_layout(scenario)
    levels: dict[Level, float] = {"host": 1.0}
    model = failure_model(scenario)
    if table.model == "independent":
        levels = {table.component: table.hardware_share}
    elif isinstance(model, SharedFailures) and isinstance(model.sequence, CauseMix):
        levels = model.sequence.hardware_shares()
    struck: dict[range, float] = {}
    for level, share in levels.items():
        last_gpu = min(layout.gpus_per_component(level), layout.gpus) - 1
        nodes = range(min(last_gpu // layout.gpus_per_host + 1, job.nodes))
        struck[nodes] = struck.get(nodes, 0.0) + share
    return struck
