"""The probability that a restart does not find the state in memory."""

from __future__ import annotations

from math import expm1

from faultline.experiments.config.scenario import Scenario
from faultline.experiments.job.failure_model import job_layout
from faultline.simulator.failures.failure import Level
from faultline.simulator.failures.mix import CauseMix
from faultline.simulator.failures.models import FailureModel
from faultline.strategies.protection.base import ProtectedJob, Protection
from faultline.strategies.protection.node_groups import loss_probability

_LEAST_LOSS = 1e-6
"""Least probability, in closed forms, that a restart loses the state in memory."""


def loss_in_restart(
    protection: Protection, scenario: Scenario, model: FailureModel, window_s: float
) -> float:
    """Return the probability that a restart does not find the state in memory.

    The failure before the restart stops some nodes at once. The state is lost if their peers do not
    survive that. It is also lost if more nodes of a group of peers than it survives fail within
    `window_s`: the time from the snapshot to the end of the restart, in seconds. A failure of
    several nodes weakens the group of peers of each.
    """
    peers = protection.peers
    if peers is None:
        return 1.0
    servers_struck = _servers_struck(scenario, model, protection.job)
    struck = [(peers.nodes_on(servers), share) for servers, share in servers_struck.items()]
    nodes_per_failure = sum(share * len(nodes) for nodes, share in struck)
    lost = -expm1(-nodes_per_failure * window_s / model.mtbf_s / peers.nodes)
    elsewhere = among_peers = 0.0
    if peers.tolerated:
        among_peers = loss_probability(lost, peers.size - 1, peers.size - 1, peers.tolerated - 1)
        elsewhere = loss_probability(lost, peers.nodes, peers.size, peers.tolerated)
    loss = 0.0
    for nodes, share in struck:
        weakened = len({peers.group_of(node) for node in nodes})
        more = weakened * among_peers + elsewhere if peers.tolerated else 0.0
        loss += share * min(1.0, more) if peers.survives(nodes) else share
    return min(1.0, max(_LEAST_LOSS, loss))


def _servers_struck(
    scenario: Scenario, model: FailureModel, job: ProtectedJob
) -> dict[range, float]:
    """Return the servers that a hardware failure stops at once, with their share of failures.

    The first component of each level represents the level. A trace counts as one server at a time.
    """
    table, layout = scenario.failures, job_layout(scenario)
    levels: dict[Level, float] = {"host": 1.0}
    if isinstance(model, CauseMix):
        levels = model.hardware_shares()
    elif table.model == "independent":
        levels = {table.component: table.hardware_share}
    struck: dict[range, float] = {}
    for level, share in levels.items():
        last_gpu = min(layout.gpus_per_component(level), layout.gpus) - 1
        servers = range(min(last_gpu // layout.gpus_per_host + 1, job.servers))
        struck[servers] = struck.get(servers, 0.0) + share
    return struck
