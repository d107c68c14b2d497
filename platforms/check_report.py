"""The content of ``faultline platform check``: counts and rates of a platform file."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any

from faultline.platforms import xml_names
from faultline.platforms.errors import PlatformError
from faultline.platforms.fabric import bisection, fabric_layers, storage_rates
from faultline.platforms.files import read_file
from faultline.platforms.platform_data import Platform
from faultline.platforms.simgrid_check import load_in_simgrid
from faultline.platforms.spec_differences import spec_differences
from faultline.platforms.xml_reader import LARGEST_BYTES, read_platform

_TYPE = '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'


def check_report(path: str | Path) -> dict[str, Any]:
    """Read a platform file, load it in SimGrid, and add up its links.

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
        "bisection": _bisection(platform),
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


def _bisection(platform: Platform) -> dict[str, float] | None:
    width = bisection(platform)
    if width is None:
        return None
    share = width.bandwidth_bytes_per_s / (width.full_bytes_per_s or inf)
    return {"bandwidth_bytes_per_s": width.bandwidth_bytes_per_s, "of_full": share}
