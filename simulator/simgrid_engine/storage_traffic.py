"""Checkpoints on their way to and from the storage, as flows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import simgrid


def write_checkpoint(hosts: Sequence[str], storage: str, size_bytes: float) -> None:
    """Write bytes from each of some hosts to the storage at once; blocks the calling actor.

    On an idle fabric this takes the route's latency and the bytes over the share of bandwidth that
    max-min fairness gives each flow.
    """
    target = simgrid.Host.by_name(storage)
    flows = [
        simgrid.Comm.sendto_async(simgrid.Host.by_name(host), target, round(size_bytes))
        for host in hosts
    ]
    for flow in flows:
        flow.wait()


def load_checkpoint(groups: Sequence[Sequence[str]], storage: str, size_bytes: float) -> bool:
    """Read bytes from the storage to the first group and pass them on from group to group.

    Every host of the first group reads its part; then each sends it along a chain of the hosts at
    its position. A chain is a pipelined broadcast of many small pieces: all its edges carry the
    bytes at the same time, and the last host has them one latency an edge later. Blocks the calling
    actor; returns False if a host was down or went down.
    """
    nodes = [[simgrid.Host.by_name(name) for name in hosts] for hosts in groups]
    size = round(size_bytes)
    source = simgrid.Host.by_name(storage)
    chain = list(pairwise(nodes))
    edges = [edge for near, far in chain for edge in zip(near, far, strict=True)]
    try:
        for transfers in ([(source, node) for node in nodes[0]], edges):
            # SimGrid aborts where a transfer to a host begins that is off.
            if not all(node.is_on for hosts in nodes for node in hosts):
                return False
            for flow in [simgrid.Comm.sendto_async(near, far, size) for near, far in transfers]:
                flow.wait()
        simgrid.this_actor.sleep_for(sum(near[0].route_to(far[0])[1] for near, far in chain[1:]))
    except (simgrid.NetworkFailureException, simgrid.HostFailureException):
        return False
    return True
