"""Times of moving training state in and out of host memory, on a platform with doors to them.

If groups are whole servers, one GPU per server is simulated (`folded_servers`), which is as exact
and faster. In an edited XML all GPUs are simulated. A copy to a server's own memory, and a load
from it, share links only with that server's GPUs. If servers are alike, one gives the time of all.
Copies to peers, the all-reduce, and the writing of a group are simulated with all their nodes, a
rebuild with one of the largest groups of peers.

Between host memory and network a platform has the PCIe link of the GPU at the same door, down and
up again. That link limits a flow only if PCIe is slower than the adapter, or if other traffic uses
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeVar

from faultline.platforms.cache_folder import platform_in_cache
from faultline.platforms.errors import PlatformError
from faultline.platforms.memory_doors import with_memory_doors
from faultline.platforms.platform_data import Platform
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.xml_writer import xml_text
from faultline.simulator.simgrid.state_transfers import (
    NodeLayout,
    StateTransfers,
    StateTransferTimes,
    all_reduces,
    copies_to_peers,
    from_memories,
    snapshots,
    to_storage,
)
from faultline.simulator.simgrid.traffic import Flow
from faultline.simulator.timing.probe_cache import cached_simulation
from pydantic import BaseModel

if TYPE_CHECKING:
    import simgrid

# Raise it when a change to this file, or to the flows, changes what is measured.
_VERSION = 6

_Scenes = Sequence[Sequence[Flow]]
_Table = TypeVar("_Table", bound=BaseModel)


def state_transfer_times(
    spec: ClusterSpec, transfers: StateTransfers, edited: Platform | None = None
) -> StateTransferTimes:
    """Return the times of state moves as SimGrid measures them, from the cache if it holds them.

    Parameters
    ----------
    spec : ClusterSpec
        The platform; doors to its host memories are added.
    transfers : StateTransfers
        The moves, and their nodes.
    edited : Platform, optional
        The platform of the XML, if it differs from the spec. Its servers are not folded: they may
        differ.

    Raises
    ------
    PlatformError
        The platform is too small, or does not define the bandwidth of host memory or its links.
    SimulationError
        SimGrid aborts.
    """
    return _on_spec(spec, transfers) if edited is None else _measured_on(spec, transfers, edited)


# All schemes of a plan request the same.
@lru_cache(maxsize=32)
def _on_spec(spec: ClusterSpec, transfers: StateTransfers) -> StateTransferTimes:
    return _measured_on(spec, transfers, None)


def _measured_on(
    spec: ClusterSpec, transfers: StateTransfers, edited: Platform | None
) -> StateTransferTimes:
    alike = edited is None
    simulated, layout = _folded(spec, transfers, may_fold=alike)
    memory_bytes_per_s = _memory_bandwidth(simulated)
    if edited is None:
        host = simulated.host.model_copy(update={"doors": True})
        text = xml_text(simulated.model_copy(update={"host": host, "disk": None}))
    else:
        text = with_memory_doors(edited, spec)
        buses = (link for link in edited.links.values() if link.link_class == "hostmemory")
        widths = (link.bandwidth_bytes_per_s for link in buses)
        memory_bytes_per_s = min(widths, default=memory_bytes_per_s)
    path = platform_in_cache(text.encode())

    def simulate(scenes: _Scenes) -> list[float]:
        return cached_simulation(path, list[float], _VERSION, simulate_scenes, scenes)

    times = _measured(simulate, layout, transfers, memory_bytes_per_s, alike=alike)
    return replace(times, host_memory_bytes=spec.host.memory_bytes)


def simulate_scenes(engine: simgrid.Engine, scenes: _Scenes) -> list[float]:
    """Return how long each scene of flows that start at once lasts, in s; 0 without flows.

    Flows share a link equally (max-min fairness), like transfers of many small requests on PCIe and
    in switches. SimGrid alone would divide it in inverse proportion to the latencies, like TCP: a
    copy to host memory, with a latency of 250 ns, would leave a message through the fabric an
    eighth of the PCIe link. So all flows run without latency, and the largest latency of a scene's
    flows is added to its time.
    """
    import simgrid
    from faultline.simulator.simgrid.loading import lasting_s, run_controller
    from faultline.simulator.simgrid.storage_traffic import arrivals_s

    def latency_s(near: str, far: str) -> float:
        return float(simgrid.Host.by_name(near).route_to(simgrid.Host.by_name(far))[1])

    latencies_s = [
        max((latency_s(near, far) for near, far, _ in scene), default=0.0) for scene in scenes
    ]
    for link in engine.all_links:
        link.set_latency(0.0)
    lasted_s: list[float] = []

    def simulate() -> None:
        for scene, longest_s in zip(scenes, latencies_s, strict=True):
            lasted_s.append(lasting_s(partial(arrivals_s, scene)) + longest_s)

    run_controller(engine, "scenes", simulate)
    return lasted_s


def _folded(
    spec: ClusterSpec, transfers: StateTransfers, *, may_fold: bool = True
) -> tuple[ClusterSpec, NodeLayout]:
    """Return the platform to simulate, with one GPU per server if it folds, and the job on it."""
    gpus_per_group = _gpus_per_group(spec, transfers)
    _memory_bandwidth(spec)
    folded = folded_servers(spec) if may_fold else None
    if folded is None or gpus_per_group % spec.gpus_per_host:
        return spec, NodeLayout(spec.gpus_per_host // transfers.slices, gpus_per_group)
    return folded, NodeLayout(1, gpus_per_group // spec.gpus_per_host)


def _gpus_per_group(spec: ClusterSpec, transfers: StateTransfers) -> int:
    nodes = spec.gpus // spec.gpus_per_host * transfers.slices
    highest = max((node for group in transfers.peers for node in group), default=0)
    if highest >= nodes:
        raise PlatformError(f"has nodes 0 to {nodes - 1}: there is no node {highest}", spec.name)
    gpus_per_group = spec.gpus // transfers.groups
    if gpus_per_group == 0:
        raise PlatformError(
            f"has {spec.gpus} GPU hosts for {transfers.groups} groups; use a larger platform or "
            "fewer groups",
            spec.name,
        )
    return gpus_per_group


def _memory_bandwidth(spec: ClusterSpec) -> float:
    """Return the bandwidth of a host's memory; a PlatformError if it or its link is not stated."""
    host = spec.host
    if host.memory_bandwidth_bytes_per_s is None:
        raise PlatformError(
            'is missing: state in host memory is copied at it, written like "614GB/s"',
            f"{spec.name}: host.memory_bandwidth",
        )
    if host.link_bandwidth_bytes_per_s is None and spec.nic.pcie_bandwidth_bytes_per_s is None:
        raise PlatformError(
            "is missing: state goes to host memory over PCIe, written like "
            '"64GB/s", or over a link of its own (host.link_bandwidth)',
            f"{spec.name}: nic.pcie_bandwidth",
        )
    return host.memory_bandwidth_bytes_per_s


def _measured(
    simulate: Callable[[_Scenes], list[float]],
    layout: NodeLayout,
    transfers: StateTransfers,
    memory_bytes_per_s: float,
    *,
    alike: bool,
) -> StateTransferTimes:
    snapshot_bytes, state_bytes = transfers.snapshot_bytes_per_gpu, transfers.state_bytes_per_gpu
    rebuilt_bytes = transfers.share_bytes_per_gpu
    if rebuilt_bytes is None:
        rebuilt_bytes = snapshot_bytes
    nodes = sorted(
        {gpu // layout.gpus_per_node for ring in layout.rings(transfers.groups) for gpu in ring}
    )
    survivors_by_lost_node = _lost_with_a_server(transfers)
    # If servers are alike, one server gives the time of all.
    measured_nodes = nodes[: transfers.slices] if alike else nodes
    copied, loaded = (
        [flow for node in measured_nodes for flow in snapshots(layout, node, size_bytes)]
        for size_bytes in (snapshot_bytes, state_bytes)
    )

    def rebuilding(senders: int | None) -> list[Flow]:
        return [
            flow
            for node, survivors in survivors_by_lost_node
            for flow in from_memories(layout, survivors[:senders], node, rebuilt_bytes)
        ]

    scenes = [
        copied,
        [(door, gpu, size_bytes) for gpu, door, size_bytes in loaded],
        all_reduces(layout, transfers.groups, transfers.gradient_bytes_per_gpu),
        copies_to_peers(layout, transfers),
        # Each survivor sends its parity, and its block in the parity of each other survivor: n - 1
        # blocks of 1/(n - 1) of a share. The next snapshot makes the lost parity again.
        rebuilding(None),
        rebuilding(1),
        to_storage(layout, snapshot_bytes),
    ]
    copy_s, load_s, alone_s, send_s, gather_s, get_s, persist_s = simulate(scenes)
    node_bytes = rebuilt_bytes * layout.gpus_per_node
    # For each lost node, n - 1 received shares are read and one share is written.
    xor_bytes = sum((len(survivors) + 1) * node_bytes for _, survivors in survivors_by_lost_node)
    rebuild_xor_s, share_bytes = xor_bytes / memory_bytes_per_s, node_bytes * transfers.slices
    any_survivors = any(survivors for _, survivors in survivors_by_lost_node)
    return StateTransferTimes(
        copy_s=copy_s,
        copy_interference_s=0.0,
        encode_s=_encoded_bytes(transfers, share_bytes) / memory_bytes_per_s,
        send_s=send_s,
        send_interference_s=0.0,
        load_s=load_s,
        rebuild_s=gather_s + rebuild_xor_s + load_s if any_survivors else 0.0,
        fetch_s=get_s + load_s if any_survivors else 0.0,
        persist_s=persist_s,
        host_memory_bytes=None,
        all_reduce_s=alone_s,
    )


def _lost_with_a_server(transfers: StateTransfers) -> list[tuple[int, list[int]]]:
    """Return the nodes of a server, each with the survivors of its peer group.

    The server is that of the first node of a largest group.
    """
    server = max(transfers.peers, key=len, default=(0,))[0] // transfers.slices
    return [
        (node, [peer for peer in peers if peer // transfers.slices != server])
        for peers in transfers.peers or ((0,),)
        for node in peers
        if node // transfers.slices == server
    ]


def _encoded_bytes(transfers: StateTransfers, share_bytes: float) -> float:
    """Return the bytes that a node reads and writes for its parity, in the smallest peer group.

    They are n blocks of 1/(n - 1) of the share. Only the node's own memory limits them, so this
    needs no measurement.
    """
    sizes = [len(group) for group in transfers.peers if len(group) > 1]
    return min(sizes) / (min(sizes) - 1) * share_bytes if sizes else 0.0


def folded_servers(spec: ClusterSpec) -> ClusterSpec | None:
    """Return the cluster with one GPU per server; None if its rails do not fold.

    If the g GPUs of each server move the same bytes at the same time to the GPUs of their position
    in other servers, each has an equal part of the shared resources: 1/g of the host memory, of the
    uplinks and of the storage, and its part of an adapter. So one GPU with these parts, and with
    its own PCIe and NVLink links, takes as long as all g, and SimGrid has g times fewer hosts and
    routes. `platforms.topology.rail_plane` does the same for scale-up domains on rails. Limits of a
    single transfer do not change.

    Rails fold if a server has all of them equally often, or if servers with a common rail have all
    rails in common. Disks are left out.
    """
    gpus = spec.gpus_per_host
    host, nic, out, storage = spec.host, spec.nic, spec.scale_out, spec.storage
    adapters = gpus // nic.gpus_per_nic
    if spec.rails % adapters and adapters % spec.rails:
        return None
    return _changed(
        spec,
        scale_up=_changed(spec.scale_up, gpus_per_domain=spec.scale_up.gpus_per_domain // gpus),
        nic=_changed(
            nic,
            gpus_per_nic=1,
            bandwidth_bytes_per_s=nic.bandwidth_bytes_per_s / nic.gpus_per_nic,
        ),
        scale_out=_changed(
            out, rails=max(1, spec.rails // adapters) if out.rail_optimised else None
        ),
        storage=_changed(
            storage,
            read_bandwidth_bytes_per_s=storage.read_bandwidth_bytes_per_s / gpus,
            write_bandwidth_bytes_per_s=storage.write_bandwidth_bytes_per_s / gpus,
        ),
        host=_changed(
            host,
            gpus_per_host=1,
            memory_bytes=_part(host.memory_bytes, gpus),
            memory_bandwidth_bytes_per_s=_part(host.memory_bandwidth_bytes_per_s, gpus),
        ),
        disk=None,
    )


def _changed(table: _Table, **values: object) -> _Table:
    return table.model_copy(update=values)


def _part(value: float | None, sharers: int) -> float | None:
    return None if value is None else value / sharers
