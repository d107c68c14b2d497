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
from collections.abc import Collection, Mapping, Sequence
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


_NEAR = ("PIX", "PXB")
"""Connections of an adapter and a GPU that cross PCIe switches only."""
_PRESETS = {80: "hgx-a100", 90: "hgx-h100", 100: "hgx-b200"}
"""Shipped cluster of servers with GPUs of a compute capability, by ten times its number."""
_OF_LINKS = {12: "hgx-a100"}
"""The same by the number of NVLinks of a GPU, where that tells it."""
_LIKE = "hgx-h100"


@dataclass(frozen=True, slots=True)
class Adapter:
    """A network adapter of a server."""

    names: frozenset[str]  # Its names: in the matrix, in its legend, in NCCL's file.
    is_near: bool  # Whether it is next to a GPU, as adapters for training are.
    mbit_per_s: float | None = None  # None if the topology has no speed.

    @property
    def name(self) -> str:
        """The name by which people know it."""
        return max(self.names, key=lambda name: (not name.startswith("NIC"), name))


@dataclass(frozen=True, slots=True)
class Server:
    """One server: its GPUs, network adapters, and NVLink links from a GPU to its domain."""

    gpus: int
    adapters: tuple[Adapter, ...]
    nvlinks: int
    sm: int | None = None  # Ten times the compute capability of its GPUs, if it is known.

    def used_adapters(self, named: Collection[str] = ()) -> tuple[Adapter, ...]:
        """Return the adapters that carry the job's traffic.

        They are those `named` in a table of switches; else those next to a GPU, if others are not.
        """
        if named:
            return tuple(one for one in self.adapters if one.names & set(named))
        near = tuple(one for one in self.adapters if one.is_near)
        return near or self.adapters

    @property
    def preset(self) -> str:
        """The shipped cluster that has such GPUs, by default HGX H100."""
        if self.sm is None:
            return _OF_LINKS.get(self.nvlinks, _LIKE)
        return _PRESETS.get(self.sm, _LIKE)


@dataclass(frozen=True, slots=True)
class Imported:
    """A spec, and notes on what the sources do not say or what was left out of them."""

    spec: ClusterSpec
    like: str
    notes: tuple[str, ...]


def read_matrix(text: str, where: str) -> Server:
    """Read the output of ``nvidia-smi topo -m``."""
    rows = [line.split() for line in _ESCAPE.sub("", text).splitlines()]
    headers = [row for row in rows if row[:1] == ["GPU0"] and "X" not in row and "0" not in row]
    if not headers:
        what = "is not a matrix of nvidia-smi topo -m: no line begins with GPU0"
        raise PlatformError(f"{what}; {READS}", where)
    if len(headers) > 1:
        what = f"has the matrices of {len(headers)} servers: keep one, as servers are alike"
        raise PlatformError(what, where)
    (header,) = headers
    if any("XGMI" in row for row in rows):
        raise PlatformError(f"is a matrix of rocm-smi, of AMD GPUs; {READS}", where)
    names = header[: header.index("CPU")] if "CPU" in header else header
    gpus = [name for name in names if re.fullmatch(r"GPU\d+", name)]
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
    legend = {
        row[0].removesuffix(":"): row[1] for row in rows if len(row) == 2 and row[0][-1] == ":"
    }
    adapters = tuple(
        Adapter(
            frozenset((name, legend.get(name, name))),
            any(cells[gpu][name] in _NEAR for gpu in gpus),
        )
        for name in names
        if name not in gpus
    )
    return Server(len(gpus), adapters, max(counts, default=0))


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
        what = (
            "has no <gpu>: a file for NCCL_TOPO_FILE has PCI devices alone; set "
            "NCCL_TOPO_DUMP_FILE in a job on the server, and import the file that NCCL writes"
        )
        raise PlatformError(f"{what}; {READS}", where)
    servers = {cpu.attributes.get("host_hash", "") for cpu in system.all("cpu")}
    if len(servers) > 1:
        what = (
            f"has {len(servers)} servers (host_hash): keep the <cpu> of one, as servers are alike"
        )
        raise PlatformError(what, where)
    counts = {sum(_number(link, "count") for link in gpu.all("nvlink")) for gpu in gpus.values()}
    reached = (
        {link.attribute("target") for link in gpu.all("nvlink")} & gpus.keys()
        for gpu in gpus.values()
    )
    # A link that does not end at a GPU ends at an NVSwitch, which joins all GPUs.
    if len(counts) > 1 or any(others and len(others) < len(gpus) - 1 for others in reached):
        links = ", ".join(map(str, sorted(counts)))
        raise PlatformError(f"has GPUs that NVLink joins unequally ({links} links)", where)
    near = {
        net.attribute("name")
        for bridge in system.all("pci")
        if any(True for _ in bridge.all("gpu"))
        for net in bridge.all("net")
    }
    adapters = {
        net.attribute("name"): Adapter(
            frozenset((net.attribute("name"),)),
            net.attribute("name") in near,
            float(_number(net, "speed")) or None,
        )
        for net in system.all("net")
    }
    sms = {_number(gpu, "sm") for gpu in gpus.values() if "sm" in gpu.attributes}
    sm = sms.pop() if len(sms) == 1 else None
    return Server(len(gpus), tuple(adapters.values()), counts.pop(), sm)


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
    server: Server, switches: Mapping[str, Mapping[str, str]] | None, like: str | None, where: str
) -> Imported:
    """Return the spec of a cluster of equal servers; all other values are those of `like`.

    `like` is a shipped cluster, by default one with such GPUs. `switches` is the table of
    `read_switches`; None for a cluster of one server. `where` names the sources in error messages.
    """
    chosen = like or server.preset
    base, notes = load_preset(chosen), []
    if like is None and server.sm is None:
        notes.append(
            f"the matrix does not name the GPUs, so they are those of {chosen}: see --like"
        )
    elif server.sm is not None and _PRESETS.get(server.sm, chosen) != chosen:
        fitting = _PRESETS[server.sm]
        notes.append(f"its GPUs have sm {server.sm}, as in {fitting}, but are those of {chosen}")
    elif server.sm is not None and server.sm not in _PRESETS:
        notes.append(f"no shipped cluster has GPUs of sm {server.sm}: state [gpu] yourself")
    named = {name for ports in (switches or {}).values() for name in ports}
    used = server.used_adapters(named)
    if named and not used:
        what = f"names no adapter of the server ({', '.join(one.name for one in server.adapters)})"
        raise PlatformError(what, where)
    if left_out := [one.name for one in server.adapters if one not in used]:
        why = "not in the table of switches" if named else "next to no GPU"
        notes.append(f"left out, as {why}: {', '.join(left_out)}")
    changes = {
        "domains": 1,
        "gpus_per_domain": server.gpus,
        **_nvlink(server, base, chosen, where, notes),
        **_network(server, used, chosen, where, notes),
    }
    if switches:
        changes |= _plugged(switches, len(used), where)
    sources = f"From a server's topology and a table of switches; all else is that of {chosen}"
    spec = load_preset(chosen, **changes)
    renamed = spec.model_copy(update={"name": "imported", "description": sources})
    return Imported(renamed, chosen, tuple(notes))


def _nvlink(
    server: Server, base: ClusterSpec, like: str, where: str, notes: list[str]
) -> dict[str, object]:
    """Return the spec keys of the links between the GPUs of a server."""
    if not server.nvlinks and server.gpus > 1:
        pcie = base.nic.pcie_bandwidth_bytes_per_s or 0.0
        notes.append("its GPUs have no NVLink: they exchange at the speed of PCIe, as in " + like)
        return {"scale_up.nvlink": None, "scale_up.bandwidth": format_quantity(pcie, BANDWIDTH)}
    generation = GENERATIONS[base.scale_up.nvlink or "nvlink4"]
    links = generation.links
    if server.nvlinks > links:
        what = f"has NV{server.nvlinks}, and a GPU of {like} has {links} links: name another --like"
        raise PlatformError(what, where)
    bandwidth = parse_quantity(generation.bandwidth, BANDWIDTH) * max(1, server.nvlinks) / links
    return {"scale_up.bandwidth": format_quantity(bandwidth, BANDWIDTH)}


def _network(
    server: Server, used: Sequence[Adapter], like: str, where: str, notes: list[str]
) -> dict[str, object]:
    """Return the spec keys of the adapters of a server."""
    if not used:
        notes.append(f"the file shows no adapters: those of {like} are kept")
        return {}
    if server.gpus % len(used) and len(used) % server.gpus:
        what = (
            f"{server.gpus} GPUs cannot share {len(used)} adapters equally "
            f"({', '.join(one.name for one in used)}): name those of the job in a table of switches"
        )
        raise PlatformError(what, where)
    changes: dict[str, object] = {
        "gpus_per_nic": max(1, server.gpus // len(used)),
        "per_gpu": max(1, len(used) // server.gpus),
    }
    speeds = {one.mbit_per_s for one in used if one.mbit_per_s is not None}
    if len(speeds) > 1:
        rates = ", ".join(f"{one.name} {one.mbit_per_s:g}" for one in used if one.mbit_per_s)
        what = (
            f"has adapters of unequal speed (Mbit/s: {rates}): name those of the job in a table of "
            "switches"
        )
        raise PlatformError(what, where)
    if speeds:
        changes["nic.bandwidth"] = f"{speeds.pop():g}Mbps"
    return changes


def _plugged(
    switches: Mapping[str, Mapping[str, str]], adapters: int, where: str
) -> dict[str, object]:
    """Return the spec keys that follow from the table: servers, and servers per leaf switch."""
    below: dict[str, set[str]] = defaultdict(set)
    leaves_of_node = {}
    for node, ports in switches.items():
        if len(ports) != adapters:
            what = f"has {len(ports)} adapters of {node}, but a server has {adapters}"
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
    if leaves not in (1, adapters):
        what = f"connects the {adapters} adapters of a server to {leaves} switches"
        raise PlatformError(what, where)
    return {
        "domains": len(switches),
        "domains_per_leaf": max(per_leaf),
        "rail_optimised": leaves > 1 or adapters == 1,
    }
