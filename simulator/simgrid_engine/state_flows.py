"""Which flows move training state: plain data, from nodes to their GPUs and memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faultline.platforms import xml_names
from faultline.platforms.platform_data import Platform
from faultline.simulator.simgrid_engine.state_transfers import StateTransfers
from faultline.simulator.simgrid_engine.traffic import Flow


@dataclass(frozen=True, slots=True)
class Layout:
    """GPUs of a server, and of a data-parallel group; groups fill the platform in order."""

    gpus_per_node: int
    gpus_per_group: int

    def gpus_of(self, node: int) -> range:
        """Return the GPUs of a node."""
        return range(node * self.gpus_per_node, (node + 1) * self.gpus_per_node)

    def rings(self, groups: int) -> list[range]:
        """Return the GPUs of each ring of an all-reduce: those of one position in their groups."""
        size = self.gpus_per_group
        return [range(position, groups * size, size) for position in range(size)]


def snapshots(layout: Layout, node: int, size_bytes: float) -> list[Flow]:
    """Return the copies of a node's GPUs to its memory."""
    return [(xml_names.gpu(gpu), xml_names.memory(gpu), size_bytes) for gpu in layout.gpus_of(node)]


def copies_to_peers(layout: Layout, transfers: StateTransfers) -> list[Flow]:
    """Return the copies that all nodes send at once, to those behind them in their peer group.

    A copy goes from GPU to GPU of the same position, and from there to the memory of the peer, as
    GEMINI does it (Wang et al. 2023, SOSP): the PCIe link of a GPU carries its own copy and
    the copy that it passes on to memory.
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
    """Return a snapshot's flows while steps go on: copies to the own memory, and to peers'.

    A copy for a peer goes to its GPU like any message, and at the same pace on to its memory.
    """
    assert platform.spec is not None, "nothing is measured without"
    gpus, size_bytes = range(len(platform.gpus)), transfers.snapshot_bytes_per_gpu
    layout = Layout(platform.spec.gpus_per_host, len(gpus) // transfers.groups)
    own = [(xml_names.gpu(gpu), xml_names.memory(gpu), size_bytes) for gpu in gpus]
    door = {xml_names.memory(gpu): xml_names.gpu(gpu) for gpu in gpus}
    sent = [
        flow
        for near, far, _ in copies_to_peers(layout, transfers)
        for flow in ((near, door[far], size_bytes), (door[far], far, size_bytes))
    ]
    return (*own, *sent)


def from_memories(
    layout: Layout, sources: Sequence[int], target: int, size_bytes: float
) -> list[Flow]:
    """Return the flows from nodes' memories to another node's memory, for each of its GPUs."""
    return [
        (xml_names.memory(near), xml_names.memory(far), size_bytes)
        for node in sources
        for near, far in zip(layout.gpus_of(node), layout.gpus_of(target), strict=True)
    ]


def to_storage(layout: Layout, size_bytes: float) -> list[Flow]:
    """Return the first group's flows from host memory to storage."""
    return [
        (xml_names.memory(gpu), xml_names.STORAGE_HOST, size_bytes)
        for gpu in range(layout.gpus_per_group)
    ]


def all_reduces(layout: Layout, groups: int, gradient_bytes: float) -> list[Flow]:
    """Return the rings of an all-reduce, with a steady flow an edge: 2 (n - 1)/n of the bytes."""
    if groups < 2:
        return []
    on_an_edge = 2 * (groups - 1) / groups * gradient_bytes
    return [
        (xml_names.gpu(near), xml_names.gpu(ring[(place + 1) % groups]), on_an_edge)
        for ring in layout.rings(groups)
        for place, near in enumerate(ring)
    ]
