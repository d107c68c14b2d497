"""How often snapshots are taken and checkpoints written, where the scenario leaves it open."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, expm1

from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.failure_model import job_layout
from faultline.experiments.job.protected import Protected
from faultline.simulator.failures.failure import Level
from faultline.simulator.failures.mix import CauseMix
from faultline.simulator.failures.models import FailureModel, SharedFailures
from faultline.strategies.base import Strategy
from faultline.strategies.checkpoint_period import Costs
from faultline.strategies.in_memory.reliability import loss_probability
from faultline.strategies.protection.base import ProtectedJob, Protection

_LEAST_LOSS = 1e-6
"""State in memory is not trusted to be lost less often than once in a million restarts."""


def with_intervals(
    protected: Protected,
    scenario: Scenario,
    scheme: Strategy,
    costs: Costs,
    failures: FailureModel,
) -> tuple[Protected, int]:
    """Return the protection with its interval, and the interval of checkpoints on storage.

    Both are the best for what they cost and save, and neither is so short that a snapshot is not
    whole before the next. Memory is lost with some restarts only, so that much rarer are the
    failures that checkpoints on storage are for.

    Parameters
    ----------
    protected : Protected
        How the state is kept.
    scenario : Scenario
        What may state intervals.
    scheme : Strategy
        The scheme that is protected.
    costs : Costs
        Of the job, with checkpoints on storage.
    failures : FailureModel
        What fails when.
    """
    step_s = scheme.step_s(costs)
    stated = scenario.checkpoint.interval_steps
    if not protected.in_background:
        return protected, stated or scheme.best_interval_steps(costs)
    interval = 0
    if protected.protection.takes_snapshots and protected.protection.peers is not None:
        best = scheme.best_interval_steps(protected.costs_of_memory(costs))
        whole = ceil(protected.snapshot_cost.lag_s / step_s)
        interval = scenario.protection.interval_steps or max(best, whole, 1)
    window_s = interval * step_s + costs.restart_s
    lost = loss_in_restart(protected.protection, scenario, failures, window_s)
    rarer = replace(costs, mtbf_s=costs.mtbf_s / lost, save_s=protected.persist_cost.stall_s)
    on_storage = max(
        scheme.best_interval_steps(rarer),
        ceil(protected.persist_cost.lag_s / step_s),
        1,
    )
    return replace(protected, snapshot_interval_steps=interval), stated or on_storage


def loss_in_restart(
    protection: Protection, scenario: Scenario, model: FailureModel, window_s: float
) -> float:
    """Return the probability that a restart does not find the state in memory.

    The failure that caused it has taken some nodes at once: if peers do not survive that, the state
    is lost. Else more nodes may be lost, one by one, within `window_s`, the time from the snapshot
    to the end of the restart; a loss needs more in a group of peers than it survives. A failure
    that takes several nodes has weakened as many groups of peers.
    """
    peers = protection.peers
    if peers is None:
        return 1.0
    struck = _nodes_struck(scenario, model, protection.job)
    nodes_a_failure = sum(share * len(nodes) for nodes, share in struck.items())
    lost = -expm1(-nodes_a_failure * window_s / model.mtbf_s / peers.nodes)
    elsewhere = among_peers = 0.0
    if peers.tolerated:
        among_peers = loss_probability(lost, peers.size - 1, peers.size - 1, peers.tolerated - 1)
        elsewhere = loss_probability(lost, peers.nodes, peers.size, peers.tolerated)
    loss = 0.0
    for nodes, share in struck.items():
        weakened = len({peers.group_of(node) for node in nodes})
        more = weakened * among_peers + elsewhere if peers.tolerated else 0.0
        loss += share * min(1.0, more) if peers.survives(nodes) else share
    return min(1.0, max(_LEAST_LOSS, loss))


def _nodes_struck(scenario: Scenario, model: FailureModel, job: ProtectedJob) -> dict[range, float]:
    """Return which nodes a failure of hardware takes at once, and which share of failures does.

    The first component of each level stands for all of them. A trace counts as one node at a time.
    """
    table, layout = scenario.failures, job_layout(scenario)
    levels: dict[Level, float] = {"host": 1.0}
    if isinstance(model, SharedFailures) and isinstance(model.sequence, CauseMix):
        levels = model.sequence.hardware_shares()
    elif table.model == "independent":
        levels = {table.component: table.hardware_share}
    struck: dict[range, float] = {}
    for level, share in levels.items():
        last_gpu = min(layout.gpus_per_component(level), layout.gpus) - 1
        nodes = range(min(last_gpu // layout.gpus_per_host + 1, job.nodes))
        struck[nodes] = struck.get(nodes, 0.0) + share
    return struck
