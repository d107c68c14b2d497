"""What is written on the nodes of a drawing and beside its rows."""

from __future__ import annotations

from faultline.experiments.figures.platform.sketch import (
    GPU_ROW,
    NVSWITCH_ROW,
    STORAGE_ROW,
    Node,
    Sketch,
)
from faultline.platforms import xml_names
from faultline.platforms.fabric import Layer, storage_rates
from faultline.platforms.platform_data import Platform
from faultline.platforms.units import BANDWIDTH, format_quantity

_KINDS = {"leaf": "leaf switch", "pod": "pod"}


def rounded(bytes_per_s: float) -> str:
    """Write a bandwidth with four digits."""
    return format_quantity(float(f"{bytes_per_s:.4g}"), BANDWIDTH)


def long_label(drawn: Sketch, node: Node) -> str:
    """Return the label of a node that has room."""
    if node.row == NVSWITCH_ROW:
        return f"NVSwitch {_numbers(node.members[0])}"
    if node.row == GPU_ROW and len(node.domains) > 1:
        return f"{_counted(len(node.domains), 'domain')}\n{_counted(len(node.members), 'GPU')}"
    if node.row != GPU_ROW and len(node.members) > 1:
        return _counted(len(node.members), _kind(node.members[0]))
    return short_label(drawn, node)


def short_label(drawn: Sketch, node: Node) -> str:
    """Return the label of a node between many others."""
    name = node.members[0]
    if node.row == GPU_ROW and not drawn.gpus_one_by_one:
        if len(node.domains) == 1:
            return str(node.domains[0])
        return f"{len(node.domains)}×{len(node.members) / len(node.domains):g}"
    if len(node.members) > 1 and node.row != NVSWITCH_ROW:
        return f"{len(node.members)}×"
    return _numbers(name)


def row_title(platform: Platform, drawn: Sketch, row: str, layer: Layer | None) -> str:
    """Return what stands left of a row."""
    if row == GPU_ROW:
        return _gpu_title(platform, drawn)
    if row == NVSWITCH_ROW:
        return "NVSwitches"
    if row == STORAGE_ROW:
        rates = storage_rates(platform)
        text = "file system"
        if rates is not None:
            text += f"\nreads {rounded(rates.read_bytes_per_s)}"
            text += f"\nwrites {rounded(rates.write_bytes_per_s)}"
        return text
    if layer is None:
        return row
    if layer.oversubscription is None:
        return layer.name
    lines = [_counted(layer.switches, _KINDS.get(layer.name, f"{layer.name} switch"))]
    nodes = [drawn.nodes[key] for of_row, keys in drawn.rows if of_row == row for key in keys]
    if any(len(node.members) > 1 for node in nodes):
        lines.append("n× are n as one")
    elif all("." in _numbers(node.members[0]) for node in nodes):
        lines.append("named set.rail")
    lines.append(f"{layer.oversubscription[1]:.3g}:1 down to up")
    return "\n".join(lines)


def _gpu_title(platform: Platform, drawn: Sketch) -> str:
    domains, gpus = len(platform.domains), len(platform.gpus)
    if domains == gpus:
        return _counted(gpus, "GPU")
    if drawn.gpus_one_by_one:
        lines = [_counted(gpus, "GPU"), f"in {_counted(domains, 'domain')}"]
        if len(platform.hosts) > domains:
            lines.append(f"and {_counted(len(platform.hosts), 'host')}")
        return "\n".join(lines)
    lines = [_counted(domains, "domain"), f"of {gpus / domains:g} GPUs each"]
    if nvlink := platform.link_classes.get("nvlink"):
        lines.append(f"NVLink {rounded(nvlink.bandwidth_bytes_per_s[0])}")
    return "\n".join(lines)


def _kind(name: str) -> str:
    kind = xml_names.link_class(name)
    return _KINDS.get(kind, kind)


def _numbers(name: str) -> str:
    """Return the numbers of a name, without zeros in front: ``leaf-00001-03`` is 1.3."""
    plain = name.removesuffix("-in").removesuffix("-out")
    numbers = [part.lstrip("0") or "0" for part in plain.split("-")[1:] if part.isdigit()]
    return ".".join(numbers) or name


def _counted(count: int, what: str) -> str:
    if count == 1:
        return f"1 {what}"
    return f"{count:,} {what}{'es' if what.endswith('ch') else 's'}"
