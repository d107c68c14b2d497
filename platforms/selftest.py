"""Does a single flow get what the links say? The first question about any platform."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from faultline.platforms.platform_data import Platform, Route
from faultline.platforms.simgrid_check import play_flows
from faultline.platforms.xml_reader import read_platform

_SIZE_BYTES = 1e9


@dataclass(frozen=True)
class FlowCheck:
    """One flow, as the links say and as SimGrid has it; in bytes, s and bytes/s.

    `kind` is ``nvlink`` for a flow inside a domain and ``nic`` for one between domains.
    """

    kind: str
    source: str
    destination: str
    size_bytes: float
    expected_s: float
    measured_s: float
    expected_bandwidth_bytes_per_s: float
    latency_s: float

    @property
    def measured_bandwidth_bytes_per_s(self) -> float:
        """Size over the measured time without the links' latency."""
        return self.size_bytes / (self.measured_s - self.latency_s)

    @property
    def relative_error(self) -> float:
        """Difference of the measured from the expected time, relative to the expected one."""
        return abs(self.measured_s - self.expected_s) / self.expected_s

    def passes(self, tolerance: float = 1e-6) -> bool:
        """Tell whether measured and expected time agree."""
        return self.relative_error <= tolerance


def single_flow(path: str | Path, size_bytes: float = _SIZE_BYTES) -> list[FlowCheck]:
    """Send a flow inside a domain and one between domains, alone, and compare with the links.

    A platform with domains of one GPU has no flow of the first kind, one with a single domain none
    of the second. The partner in another domain is taken from the last one, which is as far as any.

    Raises
    ------
    PlatformError
        The file is wrong, or SimGrid rejects it.
    """
    platform = read_platform(path)
    checks: list[FlowCheck] = []
    for kind, source, destination in _pairs(platform):
        route: Route = platform.route(source, destination)
        (measured_s,) = play_flows(path, [(source, destination, size_bytes)])
        checks.append(
            FlowCheck(
                kind,
                source,
                destination,
                size_bytes,
                route.seconds(size_bytes),
                measured_s,
                route.bandwidth_bytes_per_s,
                route.latency_s,
            )
        )
    return checks


def _pairs(platform: Platform) -> list[tuple[str, str, str]]:
    domains = list(platform.domains.values())
    first, last = domains[0], domains[-1]
    pairs: list[tuple[str, str, str]] = []
    if len(first) > 1:
        pairs.append(("nvlink", first[0].name, first[1].name))
    if len(domains) > 1:
        pairs.append(("nic", first[0].name, last[0].name))
    return pairs
