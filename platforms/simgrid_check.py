"""Check a platform file: load it in SimGrid, count its parts, and compare flows with its links.

SimGrid runs in a separate process. A single flow must get the latency and the bandwidth of its
links.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any, cast

from faultline.platforms import xml_names
from faultline.platforms.errors import PlatformError
from faultline.platforms.fabric import bisection, fabric_layers, storage_rates
from faultline.platforms.files import read_file
from faultline.platforms.platform_data import Platform, Route
from faultline.platforms.simgrid_process import run_in_simgrid
from faultline.platforms.spec_differences import spec_differences
from faultline.platforms.xml_reader import LARGEST_BYTES, read_platform
from faultline.platforms.xml_tree import check_document_type

Flow = tuple[str, str, float]
"""Source host, destination host, size in bytes."""


def load_in_simgrid(path: str | Path, timeout_s: float = 120.0) -> int:
    """Load a platform file in SimGrid with its routes, and return the number of its hosts.

    Raises
    ------
    PlatformError
        SimGrid rejects the platform, crashes, takes longer than `timeout_s`, or finds no route
        between zones or from the first GPU to a host.
    """
    hosts: int = run_in_simgrid(path, {"joined": True}, timeout_s)["hosts"]
    return hosts


def simulate_flows(
    path: str | Path, flows: Sequence[Flow], timeout_s: float = 120.0
) -> list[float]:
    """Start all flows at once in SimGrid and return the duration of each, in s.

    Errors are those of `load_in_simgrid`.
    """
    return cast("list[float]", run_in_simgrid(path, {"flows": list(flows)}, timeout_s)["seconds"])


def routes_in_simgrid(
    platform: Platform, pairs: Sequence[tuple[str, str]], timeout_s: float = 120.0
) -> list[Route]:
    """Return the routes that SimGrid takes between pairs of hosts, on the file of a platform.

    The links of one cable may be in either order. Errors are those of `load_in_simgrid`, and a pair
    without a route.
    """
    found = run_in_simgrid(platform.path, {"routes": list(pairs)}, timeout_s)["routes"]
    return [_as_route(platform, *pair, names) for pair, names in zip(pairs, found, strict=True)]


def _as_route(platform: Platform, source: str, end: str, names: list[str] | None) -> Route:
    if names is None:
        raise PlatformError(f"no route leads from {source!r} to {end!r}", str(platform.path))
    # SimGrid has a link for each direction of a split link; a file of Faultline has one for both.
    known = (name if name in platform.links else _DIRECTION.sub("", name) for name in names)
    return Route(tuple(map(platform.links.__getitem__, known)))


_DIRECTION = re.compile("_(UP|DOWN)$")
_SIZE_BYTES = 1e9


@dataclass(frozen=True)
class FlowCheck:
    """One flow, computed from its links and measured in SimGrid; in bytes, s and bytes/s."""

    kind: str  # ``nvlink`` for a flow inside a domain, ``nic`` for one between domains.
    source: str
    destination: str
    size_bytes: float
    measured_s: float
    route: Route

    @property
    def expected_s(self) -> float:
        """Time of the flow on its links."""
        return self.route.seconds(self.size_bytes)

    @property
    def measured_bandwidth_bytes_per_s(self) -> float:
        """Size over the measured time without the links' latency."""
        return self.size_bytes / (self.measured_s - self.route.latency_s)

    def passes(self) -> bool:
        """Return whether measured and expected time agree, up to a relative error of 1e-6."""
        return abs(self.measured_s - self.expected_s) / self.expected_s <= 1e-6


def single_flow(path: str | Path) -> list[FlowCheck]:
    """Run one flow inside a domain and one between domains, alone, and compare with the links.

    Domains of one GPU have no flow inside. The other flow goes from the first to the last domain,
    which is the farthest, if there are several.

    Raises
    ------
    PlatformError
        The file is wrong, or SimGrid rejects it.
    """
    platform = read_platform(path)
    domains = list(platform.domains.values())
    ends = {"nvlink": domains[0][1:2], "nic": domains[-1][:1] if len(domains) > 1 else ()}
    checks: list[FlowCheck] = []
    for kind, destinations in ends.items():
        for destination in destinations:
            pair = domains[0][0].name, destination.name
            (route,) = routes_in_simgrid(platform, [pair])
            (measured_s,) = simulate_flows(path, [(*pair, _SIZE_BYTES)])
            checks.append(FlowCheck(kind, *pair, _SIZE_BYTES, measured_s, route))
    return checks


def check_report(path: str | Path, gpu_hosts: str | None = None) -> dict[str, Any]:
    """Return the content of ``faultline platform check``, of a file that SimGrid loads.

    The report has counts, bandwidths in bytes/s and latencies in s, from the file's hosts, cables
    and links; None for parts that the platform does not have. ``differs_from_spec`` lists the
    differences from the spec in the file, and the effect of each on the measured phases of a job
    (`platforms.spec_differences.Effect`). A file from elsewhere may have no GPUs; `gpu_hosts` is a
    shell pattern of their names.
    """
    platform = read_platform(path, gpu_hosts, gpus_needed=False)
    check_document_type(read_file(path, LARGEST_BYTES), str(path))
    simgrid_hosts = len(platform.roles) if platform.is_foreign else load_in_simgrid(path)
    rates, differences = storage_rates(platform), spec_differences(platform)
    width = bisection(platform)
    racks = {gpu.rack for gpu in platform.gpus if gpu.rack >= 0}
    return {
        "file": str(path),
        "name": platform.properties.get(xml_names.SPEC_PROPERTY_PREFIX + "name"),
        "gpus": len(platform.gpus),
        "gpus_per_rank": platform.gpus_per_rank,
        "hosts": len(platform.hosts),
        "domains": len(platform.domains),
        "racks": len(racks) or None,
        "switches": _switches(platform),
        "links": {
            name: {key: value for key, value in asdict(links).items() if key != "name"}
            for name, links in platform.link_classes.items()
            if name != xml_names.MANAGEMENT
        },
        "layers": [asdict(layer) for layer in fabric_layers(platform)],
        "bisection": width
        and {
            "bandwidth_bytes_per_s": width.bandwidth_bytes_per_s,
            "of_full": width.bandwidth_bytes_per_s / (width.full_bytes_per_s or inf),
        },
        "is_foreign": platform.is_foreign,
        "flow_routes": sum(map(len, platform.flow_routes.values())) or None,
        "storage": rates and asdict(rates),
        "simgrid_hosts": simgrid_hosts,
        "differs_from_spec": differences and [each._asdict() for each in differences],
    }


def _switches(platform: Platform) -> dict[str, int]:
    """Return the number of switches by kind; the two ports of an NVSwitch count once."""
    names = {name.removesuffix("-in").removesuffix("-out") for name in platform.switches}
    kinds = Counter(map(xml_names.link_class, sorted(names)))
    return {kind: count for kind, count in kinds.items() if kind != xml_names.MANAGEMENT}
