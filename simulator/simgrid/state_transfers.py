"""Moves of training state between GPUs, host memories and storage: sizes, flows and times.

Schemes that keep checkpoints in memory differ in what they move: REFT (Wang et al. 2023, arXiv
2310.12670) a share of the state and a parity, GEMINI (Wang et al. 2023, SOSP) whole copies to the
memories of peers, just-in-time checkpointing (Gupta et al. 2024, EuroSys) the state of one replica
after a failure. `simulator.timing.state_probe` measures the time of each move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faultline.platforms import xml_names
from faultline.platforms.platform_data import Platform
from faultline.simulator.simgrid.traffic import Flow
from faultline.strategies.protection.base import TransferTimes


@dataclass(frozen=True, slots=True)
class StateTransfers:
    """Bytes that a scheme moves between GPUs, host memories and storage.

    A node is a server: its number is the GPU number over the GPUs per host. On a rail plane it is
    one GPU host, which represents one GPU of each server of its group.
    """

    groups: int  # Data-parallel groups of the job, on the platform's GPU hosts in order.
    snapshot_bytes_per_gpu: float  # Copied to the memory of the GPU's host at a snapshot.
    state_bytes_per_gpu: float  # Loaded after a restart.
    peers: tuple[tuple[int, ...], ...]  # Nodes that keep each other's state; each in one group.
    # Copies of a node's snapshot that go to the next nodes of its peer group: m - 1 for the m
    # replicas of GEMINI, 0 for REFT.
    copies: int
    gradient_bytes_per_gpu: float  # In the all-reduce of the groups.
    # Bytes of its snapshot that a GPU's peers restore when its node is lost; None for all. REFT
    # also copies the blocks for its parity, and keeps only their XOR.
    share_bytes_per_gpu: float | None = None
    slices: int = 1  # Nodes per server: above 1 if its GPUs belong to several groups.


@dataclass(frozen=True, slots=True)
class StateTransferTimes(TransferTimes):
    """Times of the moves, the memory of a node, and the time of an all-reduce."""

    host_memory_bytes: float | None  # None if the platform does not state it.
    all_reduce_s: float = 0.0  # The ring all-reduce of the groups on idle links.


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """GPUs per node and per data-parallel group; groups fill the platform in order."""

    gpus_per_node: int
    gpus_per_group: int

    def gpus_of(self, node: int) -> range:
        """Return the GPUs of a node."""
        return range(node * self.gpus_per_node, (node + 1) * self.gpus_per_node)

    def rings(self, groups: int) -> list[range]:
        """Return the GPUs of each ring of an all-reduce: those at one position in their groups."""
        size = self.gpus_per_group
        return [range(position, groups * size, size) for position in range(size)]


def snapshots(layout: NodeLayout, node: int, size_bytes: float) -> list[Flow]:
    """Return the copies of a node's GPUs to its memory."""
    return [(xml_names.gpu(gpu), xml_names.memory(gpu), size_bytes) for gpu in layout.gpus_of(node)]


def copies_to_peers(layout: NodeLayout, transfers: StateTransfers) -> list[Flow]:
    """Return the copies that all nodes send at once to the next nodes of their peer groups.

    A copy goes from GPU to GPU of the same position, and from there to the memory of the peer, as
    in GEMINI (Wang et al. 2023, SOSP): the PCIe link of a GPU carries its own copy and the copy
    that it passes on to memory.
    """
    return [
        (xml_names.gpu(near), xml_names.memory(far), transfers.snapshot_bytes_per_gpu)
        for group in transfers.peers
        for place, node in enumerate(group)
        for distance in range(1, transfers.copies + 1)
        for near, far in zip(
            layout.gpus_of(node),
            layout.gpus_of(group[(place + distance) % len(group)]),
            strict=True,
        )
    ]


def beside_steps(platform: Platform, transfers: StateTransfers) -> tuple[Flow, ...]:
    """Return a snapshot's flows during steps: copies to the own memory, and to peers' memories.

    A copy for a peer goes to its GPU like any message, and at the same rate on to its memory.
    """
    assert platform.spec is not None, "platforms without a spec are not measured"
    gpus, size_bytes = range(len(platform.gpus)), transfers.snapshot_bytes_per_gpu
    layout = NodeLayout(platform.spec.gpus_per_host, len(gpus) // transfers.groups)
    own = [(xml_names.gpu(gpu), xml_names.memory(gpu), size_bytes) for gpu in gpus]
    gpu_of_memory = {xml_names.memory(gpu): xml_names.gpu(gpu) for gpu in gpus}
    sent = [
        flow
        for gpu, memory, _ in copies_to_peers(layout, transfers)
        for flow in (
            (gpu, gpu_of_memory[memory], size_bytes),
            (gpu_of_memory[memory], memory, size_bytes),
        )
    ]
    return (*own, *sent)


def from_memories(
    layout: NodeLayout, sources: Sequence[int], target: int, size_bytes: float
) -> list[Flow]:
    """Return the flows from nodes' memories to another node's memory, for each of its GPUs."""
    return [
        (xml_names.memory(near), xml_names.memory(far), size_bytes)
        for node in sources
        for near, far in zip(layout.gpus_of(node), layout.gpus_of(target), strict=True)
    ]


def to_storage(layout: NodeLayout, size_bytes: float) -> list[Flow]:
    """Return the first group's flows from host memory to storage."""
    return [
        (xml_names.memory(gpu), xml_names.STORAGE_HOST, size_bytes)
        for gpu in range(layout.gpus_per_group)
    ]


def all_reduces(layout: NodeLayout, groups: int, gradient_bytes: float) -> list[Flow]:
    """Return the flows of an all-reduce: one per edge of each ring, with 2 (n - 1)/n of the bytes.

    There are none for a single group.
    """
    if groups < 2:
        return []
    bytes_per_edge = 2 * (groups - 1) / groups * gradient_bytes
    return [
        (xml_names.gpu(near), xml_names.gpu(ring[(place + 1) % groups]), bytes_per_edge)
        for ring in layout.rings(groups)
        for place, near in enumerate(ring)
    ]
