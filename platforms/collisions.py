"""The slowdown of an all-reduce if its flows are hashed onto spines instead of sprayed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from math import exp, inf, lgamma, log

import numpy as np
import numpy.typing as npt
from faultline.platforms.errors import PlatformError
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.topology import (
    SpineChoice,
    gpu_places,
    nic_bandwidth_bytes_per_s,
    passes_spines,
    trunks,
)

_Series = npt.NDArray[np.float64]


CONNECTIONS = (1, 4, 16)
"""Connections between a pair of GPUs; Llama 3 was trained with 16."""


@dataclass(frozen=True)
class HashingCost:
    """The cost of hashed routing for the all-reduce of a job.

    Attributes
    ----------
    leaf_flows, leaf_links
        Largest number of flows from one leaf switch to the spines, and its links to them.
    busiest_over_mean
        Expected load of the busiest of these links over the mean, by `busiest_over_mean`.
    d_mod_k
        All-reduce time over that with adaptive routing, if the destination selects the spine.
    ecmp
        The same ratio with a hash, by connections per pair; one value per seed, in seed order.
    """

    leaf_flows: int
    leaf_links: int
    busiest_over_mean: float
    d_mod_k: float
    ecmp: dict[int, list[float]]


def hashing_cost(spec: ClusterSpec, groups: int, seeds: int) -> HashingCost:
    """Return the cost of hashing for the all-reduce of `groups` groups, for seeds from 0.

    Raises
    ------
    PlatformError
        The groups do not divide the GPUs, no flow passes a spine, or the spec has no spines.
    """
    rings = Rings(spec, groups)
    flows, links = rings.most_flows_of_a_leaf, len(spec.scale_out.spines_left)
    if not flows:
        raise PlatformError(
            f"the rings of {groups} groups pass no spine: they stay below leaf switches", spec.name
        )
    return HashingCost(
        flows,
        links,
        busiest_over_mean(flows, links),
        rings.slowdown("d-mod-k"),
        {
            connections: [rings.slowdown("ecmp", seed, connections) for seed in range(seeds)]
            for connections in CONNECTIONS
        },
    )


def busiest_over_mean(flows: int, links: int) -> float:
    """Return the expected load of the busiest link over the mean, with flows hashed at random.

    All flows have the same size. Each selects a link independently, with equal probabilities. The
    result is exact: given their sum, independent Poisson counts are multinomial. So the
    probability that no link has more than m flows is a coefficient of a polynomial: the Poisson
    probabilities up to m, to the power of `links`.

    Examples
    --------
    >>> round(busiest_over_mean(1000, 16), 3)
    1.23
    """
    mean = flows / links
    numbers = np.arange(flows + 1)
    factorials = np.array([lgamma(number + 1) for number in numbers])
    poisson = np.exp(numbers * log(mean) - mean - factorials)
    of_all = exp(flows * log(flows) - flows - factorials[flows])
    expected = 0.0
    # E max = sum over m of P(max > m). Below the mean, this probability is 1.
    for most in range(flows):
        none_above = 0.0
        if most * links >= flows:
            none_above = _power(poisson[: most + 1], links, flows)[flows] / of_all
        expected += 1.0 - none_above
        if none_above > 1.0 - 1e-12:
            break
    return float(expected / mean)


class Rings:
    """The rings of an all-reduce: GPU k of each group sends to GPU k of the next group.

    Groups take GPUs in order. All flows have the same size and start together. With max-min
    fairness, the flows over the link with the most flows per bandwidth finish last.

    Raises
    ------
    PlatformError
        The groups do not divide the GPUs, or the spec has no spines.
    """

    def __init__(self, spec: ClusterSpec, groups: int) -> None:
        if spec.scale_out.spines is None:
            raise PlatformError("scale_out.spines is missing: write their number", spec.name)
        if groups < 2 or spec.gpus % groups:
            raise PlatformError(
                f"{groups} groups do not divide its {spec.gpus} GPUs, or are fewer than two",
                spec.name,
            )
        self._spec = spec
        self._places = list(gpu_places(spec))
        shift = spec.gpus // groups
        self._pairs = [
            (place, self._places[(place.index + shift) % spec.gpus]) for place in self._places
        ]
        self._widths = {
            trunk.below: trunk.bandwidth_bytes_per_s for trunk in trunks(self._routed("adaptive"))
        }

    @property
    def most_flows_of_a_leaf(self) -> int:
        """Largest number of GPUs below one leaf switch that send over the spines."""
        sources = Counter(pair[0].leaf for pair in self._pairs if passes_spines(*pair))
        return max(sources.values(), default=0)

    def slowdown(self, routing: str, seed: int | None = None, connections: int = 1) -> float:
        """Return the time of the rings over that with adaptive routing.

        `routing` is ``"d-mod-k"`` or ``"ecmp"``. `seed` is that of the hash. A pair of GPUs splits
        its bytes over `connections` connections, each of which has its own hash.
        """
        out = self._routed(routing, seed).scale_out
        choice = SpineChoice(out, self._places)
        flows: Counter[tuple[str, str, int]] = Counter()
        for source, destination in self._pairs:
            if passes_spines(source, destination):
                for connection in range(connections):
                    spine = choice.of(source, destination, connection)
                    flows["up", source.leaf, spine] += 1
                    flows["down", destination.leaf, spine] += 1
        left = len(out.spines_left)
        busiest = max(
            (
                count / connections / (self._widths[leaf] / left)
                for (_, leaf, _), count in flows.items()
            ),
            default=0.0,
        )
        elsewhere = self._seconds_per_byte_at_ends
        return max(elsewhere, busiest) / max(elsewhere, self._seconds_per_byte_in_trunks)

    def _routed(self, routing: str, seed: int | None = None) -> ClusterSpec:
        """Return the spec with another routing, without the size limit of routes in a file."""
        out = self._spec.scale_out.model_copy(update={"routing": routing, "routing_seed": seed})
        return self._spec.model_copy(update={"scale_out": out})

    @cached_property
    def _seconds_per_byte_in_trunks(self) -> float:
        """Time per byte of each pair with adaptive routing, which uses a leaf's uplinks as one."""
        flows: Counter[tuple[str, str]] = Counter()
        for source, destination in self._pairs:
            if passes_spines(source, destination):
                flows["up", source.leaf] += 1
                flows["down", destination.leaf] += 1
        return max((count / self._widths[leaf] for (_, leaf), count in flows.items()), default=0.0)

    @cached_property
    def _seconds_per_byte_at_ends(self) -> float:
        """Time per byte of each pair on NVLink, PCIe and adapters."""
        nic, up = self._spec.nic, self._spec.scale_up
        adapters: Counter[tuple[str, int]] = Counter()
        slowest = 0.0
        for source, destination in self._pairs:
            if source.domain == destination.domain:
                slowest = max(slowest, 1 / (up.bandwidth_bytes_per_s or 1.0))
                continue
            slowest = max(slowest, 1 / (nic.pcie_bandwidth_bytes_per_s or inf))
            adapters["out", source.nic] += 1
            adapters["in", destination.nic] += 1
        width = nic_bandwidth_bytes_per_s(self._spec)
        return max(slowest, max(adapters.values(), default=0) / width)


def _power(series: _Series, exponent: int, degree: int) -> _Series:
    """Return a power of a series up to a degree, by squaring."""
    found = np.ones(1)
    for bit in f"{exponent:b}":
        found = np.convolve(found, found)[: degree + 1]
        if bit == "1":
            found = np.convolve(found, series)[: degree + 1]
    return found
