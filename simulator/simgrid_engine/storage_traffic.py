"""Checkpoints on their way to and from the storage, as flows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import simgrid
from faultline.simulator.simgrid_engine.traffic import Readers


def write_checkpoint(hosts: Sequence[str], storage: str, size_bytes: float) -> bool:
    """Write bytes from each of some hosts to the storage at once; blocks the calling actor.

    On an idle fabric this takes the route's latency and the bytes over the share of bandwidth that
    max-min fairness gives each flow. Returns False if one of them broke off.
    """
    target = simgrid.Host.by_name(storage)
    return _transfer([(simgrid.Host.by_name(host), target) for host in hosts], size_bytes)


def load_checkpoint(
    groups: Sequence[Sequence[str]], storage: str, size_bytes: float, readers: Readers
) -> bool:
    """Bring a checkpoint from the storage to every host of every group.

    Every host needs `size_bytes`, its share of the state. With ``every-group`` all hosts read at
    once and share the storage's bandwidth. With ``one-group`` the hosts of the first group read,
    then each passes its share on along a chain of the hosts at its position: a pipelined broadcast
    of many small pieces, in which all edges carry the bytes at the same time and the last host has
    them one latency an edge later. Blocks the calling actor; returns False if a host was down or
    went down.
    """
    nodes = [[simgrid.Host.by_name(name) for name in hosts] for hosts in groups]
    source = simgrid.Host.by_name(storage)
    chain = list(pairwise(nodes)) if readers == "one-group" else []
    reading = nodes[:1] if readers == "one-group" else nodes
    stages = [
        [(source, node) for hosts in reading for node in hosts],
        [edge for near, far in chain for edge in zip(near, far, strict=True)],
    ]
    for transfers in stages:
        # SimGrid aborts where a transfer to a host begins that is off.
        if not all(node.is_on for hosts in nodes for node in hosts):
            return False
        if not _transfer(transfers, size_bytes):
            return False
    simgrid.this_actor.sleep_for(sum(near[0].route_to(far[0])[1] for near, far in chain[1:]))
    return True


def _transfer(transfers: Sequence[tuple[simgrid.Host, simgrid.Host]], size_bytes: float) -> bool:
    """Send the same bytes between all pairs at once; False if one of the flows broke off.

    All flows are waited for, also after one has failed: SimGrid does not survive that a flow is
    forgotten while it runs.
    """
    flows = [simgrid.Comm.sendto_async(near, far, round(size_bytes)) for near, far in transfers]
    arrived = [_arrives(flow) for flow in flows]
    return all(arrived)


def _arrives(flow: simgrid.Comm) -> bool:
    try:
        flow.wait()
    except (simgrid.NetworkFailureException, simgrid.HostFailureException):
        return False
    return True
