"""Check a platform file: load it in SimGrid, count its parts, and compare flows with its links.

SimGrid runs in a separate process. A single flow must get the latency and the bandwidth of its
links.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any, cast

from faultline.platforms import xml_names
from faultline.platforms.child_python import python_command
from faultline.platforms.errors import PlatformError
from faultline.platforms.fabric import bisection, fabric_layers, storage_rates
from faultline.platforms.files import read_file
from faultline.platforms.platform_data import Platform, Route
from faultline.platforms.spec_differences import spec_differences
from faultline.platforms.xml_reader import LARGEST_BYTES, read_platform

Flow = tuple[str, str, float]
"""Source host, destination host, size in bytes."""

_CONTEXT = ("Backtrace", "(the backtrace", "Configuration change", "Traceback", 'File "', "^", "~")
_NOISE = re.compile(r"^\[.*?\]\s*(?:\[[^\]]*/(?:CRITICAL|ERROR|INFO)\]\s*)?")


def load_in_simgrid(path: str | Path, timeout_s: float = 120.0) -> int:
    """Load a platform file in SimGrid with its routes, and return the number of its hosts.

    Raises
    ------
    PlatformError
        SimGrid rejects the platform, crashes, or takes longer than `timeout_s`.
    """
    hosts: int = _run_child(path, [], timeout_s)["hosts"]
    return hosts


def simulate_flows(
    path: str | Path, flows: Sequence[Flow], timeout_s: float = 120.0
) -> list[float]:
    """Start all flows at once in SimGrid and return the duration of each, in s.

    Errors are those of `load_in_simgrid`.
    """
    return cast("list[float]", _run_child(path, flows, timeout_s)["seconds"])


def _run_child(path: str | Path, flows: Sequence[Flow], timeout_s: float) -> dict[str, Any]:
    task = json.dumps({"platform": str(path), "flows": list(flows)})
    try:
        child = subprocess.run(
            python_command("from faultline.platforms.simgrid_child import main; main()"),
            input=task,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PlatformError(f"SimGrid did not finish in {timeout_s:g} s", str(path)) from None
    if child.returncode != 0:
        raise PlatformError(
            f"SimGrid rejects it: {_error_line(child.stderr, child.returncode)}", str(path)
        )
    result: dict[str, Any] = json.loads(child.stdout.splitlines()[-1])
    return result


def _error_line(errors: str, returncode: int) -> str:
    lines = [_NOISE.sub("", line).strip() for line in errors.splitlines()]
    messages = [line for line in lines if line and not line.startswith(_CONTEXT)]
    # The error is the last line of a Python traceback, but the first line of SimGrid's messages.
    is_traceback = "Traceback (most recent call last)" in errors
    if not messages:
        return f"it ended with status {returncode} and printed nothing"
    return messages[-1] if is_traceback else messages[0]


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
            route = platform.route(*pair)
            (measured_s,) = simulate_flows(path, [(*pair, _SIZE_BYTES)])
            checks.append(FlowCheck(kind, *pair, _SIZE_BYTES, measured_s, route))
    return checks


_TYPE = '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'


def check_report(path: str | Path) -> dict[str, Any]:
    """Return the content of ``faultline platform check``, of a file that SimGrid loads.

    The report has counts, bandwidths in bytes/s and latencies in s, from the file's hosts, cables
    and links; None for parts that the platform does not have. ``differs_from_spec`` lists the
    differences from the spec in the file, and the effect of each on the measured phases of a job
    (`platforms.spec_differences.Effect`).
    """
    platform = read_platform(path)
    if b"<!DOCTYPE platform" not in read_file(path, LARGEST_BYTES):
        raise PlatformError(f"has no document type, which SimGrid needs: add {_TYPE}", f"{path}:2")
    simgrid_hosts = load_in_simgrid(path)
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
