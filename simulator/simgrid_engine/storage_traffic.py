"""Checkpoints on their way to and from the storage, as flows."""

from __future__ import annotations

from collections.abc import Sequence

import simgrid


def write_checkpoint(host: str, storage: str, size_bytes: float) -> None:
    """Write bytes from a host to the storage; blocks the calling actor.

    On an idle fabric this takes the route's latency and the bytes over the least bandwidth on it.
    """
    by_name = simgrid.Host.by_name
    simgrid.Comm.sendto(by_name(host), by_name(storage), round(size_bytes))


def load_checkpoint(hosts: Sequence[str], storage: str, size_bytes: float) -> bool:
    """Read bytes from the storage to the first host and pass them on along a chain of all hosts.

    The chain is a pipelined broadcast of many small pieces: all its edges carry the bytes at the
    same time, and the last host has them one latency an edge later. Blocks the calling actor;
    returns False if a host was down or went down.
    """
    nodes = [simgrid.Host.by_name(name) for name in hosts]
    if not all(node.is_on for node in nodes):
        return False
    try:
        size = round(size_bytes)
        simgrid.Comm.sendto(simgrid.Host.by_name(storage), nodes[0], size)
        if len(nodes) == 1:
            return True
        edges = list(zip(nodes[:-1], nodes[1:]))
        flows = [simgrid.Comm.sendto_async(near, far, size) for near, far in edges]
        for flow in flows:
            flow.wait()
        simgrid.this_actor.sleep_for(sum(near.route_to(far)[1] for near, far in edges[1:]))
    except (simgrid.NetworkFailureException, simgrid.HostFailureException):
        return False
    return True
