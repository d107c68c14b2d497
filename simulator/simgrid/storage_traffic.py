"""Flows of bytes between hosts: checkpoints to and from the storage, and state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf

import simgrid
from faultline.simulator.simgrid.traffic import Flow, Readers

BROKEN_OFF = (
    simgrid.CancelException,
    simgrid.HostFailureException,
    simgrid.NetworkFailureException,
)
"""Exceptions of an activity that was cancelled, or whose host or link has failed."""


def may_begin(hosts: Iterable[simgrid.Host], off_s: Mapping[str, float]) -> bool:
    """Return whether an activity may begin on hosts that go off at times `off_s`, by their names.

    SimGrid aborts if a message begins at a host that is off, or that another actor turns off at
    the same moment.
    """
    # Clocks differ in their last digit.
    now_s = simgrid.Engine.clock * (1.0 + 1e-12) + 1e-9
    return all(host.is_on and now_s < off_s.get(host.name, inf) for host in hosts)


def load_checkpoint(
    groups: Sequence[Sequence[str]], storage: str, size_bytes: float, readers: Readers
) -> bool:
    """Send a checkpoint from the storage to each host of each group.

    Each host needs `size_bytes`, its share of the state. With ``every-group`` all hosts read at
    once and share the storage's bandwidth. With ``one-group`` the hosts of the first group read,
    then each passes its share on along a chain of the hosts at its position: a pipelined broadcast
    of many small pieces, in which all edges carry the bytes at the same time and the last host has
    them one latency per edge later. Blocks the calling actor; returns False if a host was down or
    went down.
    """
    chain = list(pairwise(groups)) if readers == "one-group" else []
    reading = groups[:1] if readers == "one-group" else groups
    stages = [
        [(storage, host, size_bytes) for hosts in reading for host in hosts],
        [(*edge, size_bytes) for near, far in chain for edge in zip(near, far, strict=True)],
    ]
    for transfers in stages:
        # Hosts that have their share must be up, too.
        if not all(simgrid.Host.by_name(host).is_on for hosts in groups for host in hosts):
            return False
        if not transfer(transfers):
            return False
    ends = [tuple(map(simgrid.Host.by_name, (near[0], far[0]))) for near, far in chain[1:]]
    simgrid.this_actor.sleep_for(sum(near.route_to(far)[1] for near, far in ends))
    return True


def transfer_beside(flows: Sequence[Flow], on_end: Callable[[bool], object]) -> None:
    """Start an actor that calls `transfer`; return once all flows have begun, or none will.

    The caller may turn hosts off next, and SimGrid aborts if a flow begins at a host that is off.
    When the last flow has ended, `on_end` is called with whether all have arrived.
    """
    begun = simgrid.Semaphore(0)
    simgrid.this_actor.get_host().add_actor(
        "transfer", lambda: on_end(transfer(flows, begun.release))
    )
    begun.acquire()


def transfer(flows: Sequence[Flow], on_begun: Callable[[], object] = lambda: None) -> bool:
    """Send bytes from hosts to hosts, all at once; False if one of the flows broke off.

    On an idle fabric a flow takes the latency of its route, and its bytes over the share of the
    bandwidth that max-min fairness gives it. This waits for all flows, also after one has failed:
    SimGrid crashes if a flow is forgotten while it runs. If a host is off, no flow begins: SimGrid
    would abort. `on_begun` is called when all have begun, or none will.
    """
    if not all(simgrid.Host.by_name(end).is_on for flow in flows for end in flow[:2]):
        on_begun()
        return False
    begun = begin(flows)
    on_begun()
    arrived = [_arrives(flow) for flow in begun]
    return all(arrived)


def arrivals_s(flows: Sequence[Flow]) -> list[float]:
    """Send bytes between hosts that stay up, all at once; return when each flow has arrived."""
    begun = begin(flows)
    for flow in begun:
        flow.wait()
    return [flow.finish_time for flow in begun]


def begin(flows: Sequence[Flow]) -> list[simgrid.Comm]:
    """Start to send bytes between hosts that are up."""
    return [
        simgrid.Comm.sendto_async(
            simgrid.Host.by_name(near), simgrid.Host.by_name(far), round(size)
        )
        for near, far, size in flows
    ]


def _arrives(flow: simgrid.Comm) -> bool:
    try:
        flow.wait()
    except (simgrid.NetworkFailureException, simgrid.HostFailureException):
        # If a host goes off, SimGrid also fails flows that have ended but were not waited for.
        return bool(flow.finish_time >= 0.0)
    return True
