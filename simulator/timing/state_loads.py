"""The duration of scenes of equal flows on a generated platform, by the load of its links.

All flows of a scene have one size and start at once. Flows through the link with the most flows for
its bandwidth get the smallest share, by max-min fairness, and keep it to the end: the scene lasts
as long as that link is busy. So nothing is simulated if routes follow from the spec, which they do
unless each flow keeps to one spine. SimGrid needs minutes to find the routes of 12,000 servers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from faultline.platforms import topology, xml_names
from faultline.platforms.spec import ClusterSpec
from faultline.simulator.simgrid.traffic import Flow


class _Hop(NamedTuple):
    """A link in one direction, its bandwidth in bytes/s, and its latency in s."""

    name: str
    bandwidth_bytes_per_s: float
    latency_s: float
    limits_each_flow: bool = False


class LinkLoads:
    """The links of a platform that equals its spec, with doors to host memories.

    No flow of the platform keeps to one spine.
    """

    def __init__(self, spec: ClusterSpec) -> None:
        assert not spec.scale_out.keeps_flows_on_one_spine
        self._spec = spec
        self._places = list(topology.gpu_places(spec))
        self._trunks = {trunk.below: trunk for trunk in topology.trunks(spec)}
        self._gpu_of = {xml_names.gpu(place.index): place.index for place in self._places}
        self._gpu_of_memory = {xml_names.memory(place.index): place.index for place in self._places}
        self._way_up = lru_cache(maxsize=None)(self._find_way_up)

    def simulate(self, scenes: Sequence[Sequence[Flow]]) -> list[float]:
        """Return the duration of each scene, in seconds, like `state_probe.simulate_scenes`."""
        return [self._lasts_s(scene) for scene in scenes]

    def _lasts_s(self, scene: Sequence[Flow]) -> float:
        assert len({size_bytes for _, _, size_bytes in scene}) < 2, "flows are equal"
        latest_s = longest_s = 0.0
        busy_s: dict[str, float] = {}
        for near, far, size_bytes in scene:
            hops = self._route(near, far)
            latest_s = max(latest_s, sum(hop.latency_s for hop in hops))
            for hop in hops:
                each_s = round(size_bytes) / hop.bandwidth_bytes_per_s
                if not hop.limits_each_flow:
                    each_s = busy_s[hop.name] = busy_s.get(hop.name, 0.0) + each_s
                longest_s = max(longest_s, each_s)
        return latest_s + longest_s

    def _route(self, near: str, far: str) -> list[_Hop]:
        first: list[_Hop] = []
        if (source := self._gpu_of_memory.get(near)) is None:
            source = self._gpu_of[near]
        else:
            first = self._to_memory(source, "down")[::-1]
        if far == xml_names.STORAGE_HOST:
            return [*first, *(hop for hop, _ in self._way_up(source, "up")), *self._storage]
        if (target := self._gpu_of_memory.get(far)) is None:
            return [*first, *self._between(source, self._gpu_of[far])]
        return [*first, *self._between(source, target), *self._to_memory(target, "up")]

    def _between(self, source: int, target: int) -> list[_Hop]:
        """Return the way from a GPU to another: that of the fewest links, like SimGrid's."""
        if source == target:
            return []
        up, down = self._way_up(source, "up"), self._way_up(target, "down")
        above = {switch: place for place, (_, switch) in enumerate(down) if switch}
        meet = next(place for place, (_, switch) in enumerate(up) if switch in above)
        fabric = [hop for hop, _ in up[: meet + 1]]
        fabric += [hop for hop, _ in reversed(down[: above[up[meet][1]] + 1])]
        near, far, nvlink = self._places[source], self._places[target], self._spec.scale_up
        if near.domain != far.domain or nvlink.bandwidth_bytes_per_s is None or len(fabric) < 3:
            return fabric
        width, size = nvlink.bandwidth_bytes_per_s, nvlink.gpus_per_domain
        return [
            _Hop(f"nvlink-{source}-up", width, nvlink.latency_s),
            _Hop(f"nvswitch-{near.domain}", width * size, nvlink.switch_latency_s),
            _Hop(f"nvlink-{target}-down", width, nvlink.latency_s),
        ]

    def _find_way_up(self, gpu: int, direction: str) -> list[tuple[_Hop, str]]:
        """Return the links from a GPU to the top layer, each with the switch at its end, if any."""
        nic, out, place = self._spec.nic, self._spec.scale_out, self._places[gpu]
        width = topology.nic_bandwidth_bytes_per_s(self._spec)
        latency_s = nic.latency_s + out.switch_latency_s / 2
        way = [(hop, "") for hop in self._pcie(gpu, direction)]
        way.append((_Hop(f"nic-{place.nic}-{direction}", width, latency_s), place.leaf))
        switch = place.leaf
        while switch in self._trunks:
            trunk = self._trunks[switch]
            latency_s = out.link_latency_s + out.switch_latency_s
            name, switch = f"{trunk.name}-{direction}", trunk.above
            way.append((_Hop(name, trunk.bandwidth_bytes_per_s, latency_s), switch))
        return way

    def _pcie(self, gpu: int, direction: str) -> list[_Hop]:
        nic = self._spec.nic
        if nic.pcie_bandwidth_bytes_per_s is None:
            return []
        name = f"pcie-{gpu}-{direction}"
        return [_Hop(name, nic.pcie_bandwidth_bytes_per_s, nic.pcie_latency_s)]

    def _to_memory(self, gpu: int, direction: str) -> list[_Hop]:
        """Return the links from a GPU to its door to host memory."""
        host, way = self._spec.host, self._pcie(gpu, direction)
        assert host.memory_bandwidth_bytes_per_s is not None, "was checked"
        if host.link_bandwidth_bytes_per_s is not None:
            width, latency_s = host.link_bandwidth_bytes_per_s, self._spec.nic.pcie_latency_s
            way = [_Hop(f"hostlink-{gpu}-{direction}", width, latency_s)]
        width, latency_s = host.memory_bandwidth_bytes_per_s, host.memory_latency_s
        return [*way, _Hop(f"hostmemory-{self._places[gpu].host}", width, latency_s)]

    @cached_property
    def _storage(self) -> list[_Hop]:
        storage, switch_s = self._spec.storage, self._spec.scale_out.switch_latency_s
        width = storage.write_bandwidth_bytes_per_s / self._spec.gpus_per_rank
        way = [_Hop("storage-write", width, storage.latency_s + switch_s / 2)]
        if storage.client_bandwidth_bytes_per_s is not None:
            way.append(_Hop("client", storage.client_bandwidth_bytes_per_s, 0.0, True))
        return way
