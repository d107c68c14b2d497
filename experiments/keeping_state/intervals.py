"""How often snapshots are taken and checkpoints written, where the scenario leaves it open."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, expm1

from experiments.failure_models.of_scenario import failure_model, job_layout
from experiments.keeping_state.protected import Protected
from experiments.scenario import Scenario
from simulator.failures.failure import Level
from simulator.failures.mix import CauseMix
from simulator.failures.models import SharedFailures
from strategies.base import Strategy
from strategies.checkpoint_period import Costs
from strategies.in_memory.reliability import loss_probability
from strategies.protection.base import ProtectedJob, Protection

_LEAST_LOSS = 1e-6
"""State in memory is not trusted to be lost less often than once in a million restarts."""


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
