"""Make a cluster spec from one server's topology and a table of switches.

``nvidia-smi topo -m`` prints the topology as a matrix. NCCL writes it as XML
(``NCCL_TOPO_DUMP_FILE``). Both contain the connections between the GPUs of a server, and its
adapters. The table contains the switch of each adapter of each server. All other values are those
of a shipped cluster: GPU, memory, hosts and storage.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from itertools import product
from pathlib import Path

from faultline.platforms.errors import PlatformError
from faultline.platforms.files import read_text
from faultline.platforms.preset_library import load_preset
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_tables import GENERATIONS
from faultline.platforms.units import BANDWIDTH, format_quantity, parse_quantity
from faultline.platforms.xml_reader import LARGEST_BYTES
from faultline.platforms.xml_tree import Element, Listed, parse_xml

_WHOLE_NUMBER = re.compile(r"[0-9]{1,9}")
_LINKS = re.compile(r"NV[0-9]{1,4}")
_OF_NCCL: Listed = {
    "": ("system",),
    "system": ("cpu",),
    "cpu": ("pci", "nic"),
    "pci": ("pci", "gpu", "nic", "nvlink"),
    "gpu": ("nvlink", "c2c"),
    "nic": ("net",),
    "net": (),
    "nvlink": (),
    "c2c": (),
}
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
READS = "faultline platform import reads nvidia-smi topo -m and NCCL's topology (.xml)"


@dataclass(frozen=True)
class Server:
    """One server: its GPUs, network adapters, and NVLink links from a GPU to its domain."""

    gpus: int
    nics: int
    nvlinks: int
    nic_mbit_per_s: float | None = None  # Of an adapter; None if the topology has no speed.


def read_matrix(text: str, where: str) -> Server:
    """Read the output of ``nvidia-smi topo -m``."""
    rows = [line.split() for line in _ESCAPE.sub("", text).splitlines()]
    header = next((row for row in rows if row[:1] == ["GPU0"] and "X" not in row), None)
    if header is None:
        what = "is not a matrix of nvidia-smi topo -m: no line begins with GPU0"
        raise PlatformError(f"{what}; {READS}", where)
    names = [name for name in header if re.fullmatch(r"(GPU|NIC|mlx\d+_)\d+", name)]
    gpus = [name for name in names if name.startswith("GPU")]
    cells = {
        row[0]: dict(zip(names, row[1:], strict=False))
        for row in rows
        if row[:1] and row[0] in names and "X" in row
    }
    for gpu in gpus:
        if len(cells.get(gpu, ())) < len(names):
            raise PlatformError(f"has no complete row of {gpu}", where)
    peers = {gpu: {gpu} for gpu in gpus}
    counts = set()
    for gpu, peer in product(gpus, gpus):
        if (cell := cells[gpu][peer]).startswith("NV"):
            if not _LINKS.fullmatch(cell):
                what = f"has {cell!r} for {gpu} and {peer}: write NV and a number"
                raise PlatformError(what, where)
            peers[gpu].add(peer)
            counts.add(int(cell[2:]))
    if len(counts) > 1 or (counts and any(reached != set(gpus) for reached in peers.values())):
        links = ", ".join(f"NV{count}" for count in sorted(counts))
        raise PlatformError(f"has GPUs that NVLink joins unequally ({links})", where)
    return Server(len(gpus), len(names) - len(gpus), max(counts, default=0))


def read_nccl_topology(content: bytes, where: str) -> Server:
    """Read the XML that NCCL writes to ``NCCL_TOPO_DUMP_FILE``."""
    try:
        system = parse_xml(content, where, _OF_NCCL)
    except PlatformError as error:
        raise PlatformError(f"is not a topology of NCCL: {error}; {READS}", where) from None
    # A GPU is below its PCI bus address, which NVLink uses to name its target.
    gpus = {
        device.attributes.get("busid", ""): gpu
        for device in system.all("pci")
        for gpu in device.children
        if gpu.tag == "gpu"
    }
    if not gpus:
        raise PlatformError(f"has no <gpu>; {READS}", where)
    counts = {sum(_number(link, "count") for link in gpu.all("nvlink")) for gpu in gpus.values()}
    reached = (
        {link.attribute("target") for link in gpu.all("nvlink")} & gpus.keys()
        for gpu in gpus.values()
    )
    # A link that does not end at a GPU ends at an NVSwitch, which joins all GPUs.
    if len(counts) > 1 or any(others and len(others) < len(gpus) - 1 for others in reached):
        links = ", ".join(map(str, sorted(counts)))
        raise PlatformError(f"has GPUs that NVLink joins unequally ({links} links)", where)
    adapters = {net.attribute("name"): net for net in system.all("net")}
    speeds = {_number(net, "speed") for net in adapters.values()}
    if len(speeds) > 1:
        rates = ", ".join(map(str, sorted(speeds)))
        raise PlatformError(f"has adapters of unequal speed ({rates} Mbit/s)", where)
    return Server(len(gpus), len(adapters), counts.pop(), float(max(speeds, default=0)) or None)


def _number(element: Element, name: str) -> int:
    text = element.attribute(name)
    if not _WHOLE_NUMBER.fullmatch(text):
        what = f"<{element.tag}> has {name} = {text!r}: write a whole number"
        raise PlatformError(what, element.place)
    return int(text)


def read_switches(path: Path) -> dict[str, dict[str, str]]:
    """Return the switch of each adapter of each server, by server and adapter."""
    try:
        reader = csv.DictReader(StringIO(read_text(path, LARGEST_BYTES), newline=""))
        rows = list(reader)
    except OSError as error:
        raise PlatformError(error.strerror or str(error), str(path)) from error
    except csv.Error as error:
        raise PlatformError(f"is no CSV: {error}", str(path)) from error
    if not {"node", "nic", "switch"} <= set(reader.fieldnames or ()):
        raise PlatformError("has no columns node, nic and switch in its first line", str(path))
    switches: dict[str, dict[str, str]] = defaultdict(dict)
    for number, row in enumerate(rows, 2):
        node, nic, switch = (row[name] or "" for name in ("node", "nic", "switch"))
        place = f"{path}:{number}"
        if not (node and nic and switch):
            raise PlatformError("has no node, adapter or switch", place)
        if nic in switches[node]:
            raise PlatformError(f"lists {nic} of {node} a second time", place)
        switches[node][nic] = switch
    if not switches:
        raise PlatformError("has no row", str(path))
    return dict(switches)


def imported_spec(
    server: Server, switches: Mapping[str, Mapping[str, str]] | None, like: str, where: str
) -> ClusterSpec:
    """Return the spec of a cluster of equal servers; all other values are those of `like`.

    `like` is a shipped cluster. `switches` is the table of `read_switches`; None for a cluster of
    one server. `where` names the sources in error messages.
    """
    base = load_preset(like)
    generation = GENERATIONS[base.scale_up.nvlink or "nvlink4"]
    links = generation.links
    if server.nvlinks > links:
        what = f"has NV{server.nvlinks}, and a GPU of {like} has {links} links: name another --like"
        raise PlatformError(what, where)
    bandwidth = parse_quantity(generation.bandwidth, BANDWIDTH) * max(1, server.nvlinks) / links
    if server.nics and server.gpus % server.nics and server.nics % server.gpus:
        what = f"{server.gpus} GPUs cannot share {server.nics} adapters equally"
        raise PlatformError(what, where)
    changes: dict[str, object] = {
        "domains": 1,
        "gpus_per_domain": server.gpus,
        "gpus_per_nic": max(1, server.gpus // max(1, server.nics)),
        "per_gpu": max(1, server.nics // server.gpus),
        "scale_up.bandwidth": format_quantity(bandwidth, BANDWIDTH),
    }
    if server.nic_mbit_per_s is not None:
        changes["nic.bandwidth"] = f"{server.nic_mbit_per_s:g}Mbps"
    if switches:
        changes |= _plugged(switches, server, where)
    sources = f"From a server's topology and a table of switches; all else is that of {like}"
    spec = load_preset(like, **changes)
    return spec.model_copy(update={"name": "imported", "description": sources})


def _plugged(
    switches: Mapping[str, Mapping[str, str]], server: Server, where: str
) -> dict[str, object]:
    """Return the spec keys that follow from the table: servers, and servers per leaf switch."""
    below: dict[str, set[str]] = defaultdict(set)
    leaves_of_node = {}
    for node, ports in switches.items():
        if len(ports) != server.nics:
            what = f"has {len(ports)} adapters of {node}, but a server has {server.nics}"
            raise PlatformError(what, where)
        for switch in ports.values():
            below[switch].add(node)
        leaves_of_node[node] = len(set(ports.values()))
    per_leaf = {len(nodes) for nodes in below.values()}
    if len(set(leaves_of_node.values())) > 1 or len(per_leaf) > 2:
        emptiest = min(below, key=lambda switch: (len(below[switch]), switch))
        what = f"connects servers unequally, {len(below[emptiest])} of them to {emptiest}"
        raise PlatformError(what, where)
    (leaves,) = set(leaves_of_node.values())
    if leaves not in (1, server.nics):
        what = f"connects the {server.nics} adapters of a server to {leaves} switches"
        raise PlatformError(what, where)
    return {
        "domains": len(switches),
        "domains_per_leaf": max(per_leaf),
        "rail_optimised": leaves > 1 or server.nics == 1,
    }
