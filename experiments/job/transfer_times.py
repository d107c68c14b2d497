"""What moving the state about takes on the platform of a scenario."""

from __future__ import annotations

from dataclasses import replace

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.failure_model import job_layout
from faultline.experiments.job.platform_files import (
    explaining_aborts,
    platform_file,
    spec_of,
    state_bytes,
)
from faultline.simulator.job import Durations
from faultline.simulator.simgrid_engine.state_transfers import StateTransfers, StateTransferTimes
from faultline.strategies.in_memory.node_groups import NodeGroups
from faultline.strategies.protection.base import ProtectedJob, Protection


def protected_job(scenario: Scenario) -> ProtectedJob:
    """Return what of a scenario's job matters to those who protect its state."""
    layout = job_layout(scenario)
    per_group = max(1, round(layout.gpus_per_group / layout.gpus_per_host))
    # A row of nodes is a replica: a group, or as many as share one node.
    rows = layout.groups
    if layout.gpus_per_group < layout.gpus_per_host:
        rows = -(-layout.gpus // layout.gpus_per_host)
    return ProtectedJob(
        layout.groups,
        per_group,
        rows * per_group,
        layout.gpus_per_host,
        state_bytes(scenario) / layout.gpus_per_group,
        scenario.job.compute_s,
    )


def no_times(persist_s: float) -> StateTransferTimes:
    """Return the times where nothing is kept in memory, but for writing to storage, in seconds."""
    return StateTransferTimes(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, persist_s, None)


def measured_times(scenario: Scenario, protection: Protection) -> StateTransferTimes:
    """Return what SimGrid measures for what a protection moves on the scenario's platform.

    Raises
    ------
    UserError, PlatformError
        If the platform does not say what its hosts are like.
    """
    from faultline.simulator.simgrid_engine.state_probe import cached_state_probe

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


def with_gathering(
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
