"""Ask whether SimGrid starts, and whether a flow gets what the links of its path say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from faultline.experiments.health.checks import Check
from faultline.platforms.errors import PlatformError
from faultline.platforms.preset_library import load_preset
from faultline.platforms.simgrid_check import FlowCheck, single_flow
from faultline.platforms.xml_writer import write_xml

_SIMGRID = "SimGrid"
_FABRIC = "fabric"
_FLOW_NAMES = {"nvlink": "single NVLink flow", "nic": "single NIC flow"}
# Small, and still with a path of every kind that the preset has.
_CLUSTERS: dict[str, dict[str, int]] = {
    "hgx-h100": {"domains": 4, "domains_per_leaf": 2},
    "spare-600k": {"groups": 24},
}


def simgrid_checks() -> list[Check]:
    """Import SimGrid as a user would, and let it play single flows on two shipped clusters."""
    checks = _import_checks()
    if any(check.state == "failed" for check in checks):
        return [*checks, Check(_FABRIC, "single flows", "not tried", "failed", "SimGrid first")]
    for cluster, overrides in _CLUSTERS.items():
        checks += _flow_checks(cluster, overrides)
    return checks


def _import_checks() -> list[Check]:
    """Look in a process of its own: an import leaves its mark on the process."""
    what = "import without LD_LIBRARY_PATH"
    environment = {name: text for name, text in os.environ.items() if name != "LD_LIBRARY_PATH"}
    try:
        child = subprocess.run(
            [sys.executable, "-c", "import simgrid"],
            capture_output=True,
            text=True,
            timeout=60.0,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [Check(_SIMGRID, what, "failed", "failed", f"{error}; run: make setup")]
    if child.returncode != 0:
        return [Check(_SIMGRID, what, "failed", "failed", _import_remedy(child.stderr))]
    # SimGrid says so on import, and has no function that tells.
    factory = re.search(r"contexts/factory' to '(\w+)'", child.stderr)
    name = factory.group(1) if factory else "not told"
    return [
        Check(_SIMGRID, what, "works", "ok", "the library is found beside the module"),
        Check(_SIMGRID, "context factory", name, "ok", "how actors run; Python's need threads"),
    ]


def _import_remedy(errors: str) -> str:
    lines = errors.strip().splitlines()
    complaint = lines[-1] if lines else "SimGrid crashed on import"
    if "libsimgrid" in complaint:
        return f"{complaint}; it was built without its rpath: make setup builds it with one"
    return f"{complaint}; make setup compiles SimGrid 4.1 (5 to 9 minutes, once)"


def _flow_checks(cluster: str, overrides: dict[str, int]) -> list[Check]:
    try:
        with tempfile.TemporaryDirectory(prefix="faultline-") as directory:
            path = Path(directory) / f"{cluster}.xml"
            write_xml(load_preset(cluster, **overrides), path)
            flows = single_flow(path)
    except (PlatformError, OSError) as error:
        return [Check(_FABRIC, cluster, "not played", "failed", " ".join(str(error).split()))]
    return [_flow_check(cluster, flow) for flow in flows]


def _flow_check(cluster: str, flow: FlowCheck) -> Check:
    measured = flow.measured_bandwidth_bytes_per_s
    expected = flow.expected_bandwidth_bytes_per_s
    meaning = f"{expected / 1e9:.4g} GB/s and {flow.latency_s * 1e6:.3g} us by its links"
    if not flow.passes():
        meaning += f"; its time is off by {flow.relative_error:.1e} of what they say"
    return Check(
        _FABRIC,
        f"{cluster}: {_FLOW_NAMES[flow.kind]}",
        f"{measured / 1e9:.4g} GB/s",
        "ok" if flow.passes() else "failed",
        meaning,
        measured,
    )
