"""What a platform file is, in numbers: the content of ``faultline platform check``."""

from __future__ import annotations

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

    Returns
    -------
    dict
        Counts, bandwidths in bytes/s, latencies in s, memory in bytes; None for what the platform
        does not have. All of it comes from the file's hosts, cables and links;
        ``differs_from_spec`` says where they are not those of the spec that the file keeps, and
        what of it counts for the measured phases of a job (`platforms.spec_differences.Effect`).

    Raises
    ------
    PlatformError
        The file is broken, or SimGrid rejects it.
    """
    platform = read_platform(path)
    if b"<!DOCTYPE platform" not in read_file(path, LARGEST_BYTES):
        raise PlatformError(f"has no document type, which SimGrid wants: add {_TYPE}", f"{path}:2")
    loaded = load_in_simgrid(path)
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
            name: {
                "count": found.count,
                "bandwidth_bytes_per_s": list(found.bandwidth_bytes_per_s),
                "latency_s": list(found.latency_s),
            }
            for name, found in platform.link_classes.items()
            if name != xml_names.MANAGEMENT
        },
        "layers": [
            {
                "name": layer.name,
                "switches": layer.switches,
                "down_bytes_per_s": layer.down_bytes_per_s,
                "up_bytes_per_s": layer.up_bytes_per_s,
                "oversubscription": layer.oversubscription and list(layer.oversubscription),
            }
            for layer in fabric_layers(platform)
        ],
        "bisection": _bisection(platform),
        "flow_routes": sum(map(len, platform.flow_routes.values())) or None,
        "storage": _storage(platform),
        "simgrid": {
            "hosts": loaded.hosts,
            "load_s": loaded.load_s,
            "peak_memory_bytes": loaded.peak_memory_bytes,
        },
        "differs_from_spec": _differences(platform),
    }


def _differences(platform: Platform) -> list[dict[str, str]] | None:
    found = spec_differences(platform)
    return None if found is None else [difference._asdict() for difference in found]


def _switches(platform: Platform) -> dict[str, int]:
    """Return the number of switches by kind; both ports of an NVSwitch are one."""
    names = {name.removesuffix("-in").removesuffix("-out") for name in platform.switches}
    kinds: dict[str, int] = {}
    for name in sorted(names):
        kind = xml_names.link_class(name)
        if kind != xml_names.MANAGEMENT:
            kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def _bisection(platform: Platform) -> dict[str, float] | None:
    found = bisection(platform)
    if found is None:
        return None
    return {
        "bandwidth_bytes_per_s": found.bandwidth_bytes_per_s,
        "of_full": found.bandwidth_bytes_per_s / found.full_bytes_per_s
        if found.full_bytes_per_s
        else 0.0,
    }


def _storage(platform: Platform) -> dict[str, float | None] | None:
    rates = storage_rates(platform)
    if rates is None:
        return None
    return {
        "read_bytes_per_s": rates.read_bytes_per_s,
        "write_bytes_per_s": rates.write_bytes_per_s,
        "client_bytes_per_s": rates.client_bytes_per_s,
    }
