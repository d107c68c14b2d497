"""Make a platform from a graph of GPUs, switches and cables, for clusters without a spec.

The graph is undirected, in NetworkX's node-link JSON or GraphML.

Nodes have a ``role``: ``gpu``, ``switch`` or ``storage``. The default is the role that the name
begins with, else ``switch``. A GPU has a ``speed`` ("989TFLOP/s") and optionally the numbers of its
``host``, ``domain`` and ``rack``.

Edges have a ``bandwidth`` ("50GB/s", each way), a ``latency`` (0 by default) and a ``kind``, which
is the first part of the link's name. The default is ``nic`` at a GPU, ``storage`` at the file
system, else ``up``.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import networkx as nx
from faultline.platforms import xml_names
from faultline.platforms.errors import PlatformError
from faultline.platforms.files import read_text
from faultline.platforms.units import BANDWIDTH, SPEED, TIME, Kind, parse_quantity
from faultline.platforms.xml_elements import add_management, add_ports, host, link, prop, route
from faultline.platforms.xml_reader import LARGEST_BYTES, platform_from_xml
from faultline.platforms.xml_writer import as_text

_ROLES = ("gpu", "switch", "storage")
_PLACES = (xml_names.HOST_PROPERTY, xml_names.DOMAIN_PROPERTY, xml_names.RACK_PROPERTY)
_WHOLE_NUMBER = re.compile(r"[0-9]{1,9}")
_OURS = (xml_names.CONTROLLER_HOST, xml_names.MANAGEMENT, xml_names.FABRIC_ZONE)


def read_graph(path: Path) -> nx.Graph:
    """Return the graph of a file.

    Raises
    ------
    PlatformError
        The file has no graph, or a graph that is directed or has parallel edges.
    """
    where = str(path)
    try:
        text = read_text(path, LARGEST_BYTES)
    except OSError as error:
        raise PlatformError(error.strerror or str(error), where) from error
    try:
        if path.suffix.lower() == ".graphml":
            graph = nx.read_graphml(BytesIO(text.encode()))
        else:
            content = json.loads(text)
            edges = "edges" if "edges" in content else "links"
            graph = nx.node_link_graph(content, edges=edges)
        named = nx.relabel_nodes(graph, str)
    except Exception as error:
        # NetworkX does not validate its input: wrong content raises exceptions of any type.
        reason = f"{type(error).__name__}: {error}"
        what = f"is no graph: {reason}; write node-link JSON or GraphML with NetworkX"
        raise PlatformError(what, where) from None
    if graph.is_directed() or graph.is_multigraph():
        what = "is directed, or has several edges between two nodes: write one undirected edge"
        raise PlatformError(what, where)
    if len(named) < len(graph):
        raise PlatformError("has two nodes of the same name, such as 1 and '1': rename one", where)
    return named


def graph_xml(graph: nx.Graph, where: str) -> str:
    """Return the SimGrid platform of a graph as text for `read_platform`.

    Raises
    ------
    PlatformError
        A node or an edge is wrong. The message names it, and the graph as `where`.
    """
    roles = {name: _role(name, node, where) for name, node in graph.nodes(data=True)}
    gpus = [name for name, role in roles.items() if role == "gpu"]
    if not gpus:
        raise PlatformError("has no node whose role is gpu", where)
    if not nx.is_connected(graph):
        lost = min(nx.connected_components(graph), key=len)
        raise PlatformError(f"no path leads from {min(lost)!r} to all others", where)
    platform = ET.Element("platform", version="4.1")
    root = ET.SubElement(platform, "zone", id=xml_names.ROOT_ZONE, routing="Full")
    prop(root, xml_names.VERSION_PROPERTY, xml_names.FORMAT_VERSION)
    prop(root, xml_names.GPUS_PER_RANK_PROPERTY, "1")
    zone = ET.SubElement(root, "zone", id=xml_names.FABRIC_ZONE, routing="DijkstraCache")
    links: list[ET.Element] = []
    routes: list[ET.Element] = []
    for name, node in graph.nodes(data=True):
        if roles[name] == "gpu":
            speed = _quantity(node, "speed", SPEED, f"{where}: GPU {name!r}")
            host(zone, name, f"{speed:.12g}f", _properties(graph, roles, name, node, where))
        elif roles[name] == "storage":
            host(zone, name, "1Gf", {xml_names.ROLE_PROPERTY: "storage"})
        else:
            ET.SubElement(zone, "router", id=name)
    for one, other, edge in graph.edges(data=True):
        place = f"{where}: edge {one} - {other}"
        kind = edge.get("kind") or _kind(roles[one], roles[other])
        if not isinstance(kind, str):
            raise PlatformError(f"kind is {kind!r}: write a text", place)
        named = f"{kind}-{one}-{other}"
        bandwidth = _quantity(edge, "bandwidth", BANDWIDTH, place)
        latency_s = _quantity(edge, "latency", TIME, place, "0s")
        links.append(link(named, bandwidth, latency_s, "SPLITDUPLEX"))
        routes.append(route(one, other, [named], "UP"))
    add_ports(zone, links, routes, gpus)
    zone.extend(links)
    zone.extend(routes)
    add_management(root)
    text = as_text(platform)
    try:
        platform_from_xml(text.encode(), "the platform")
    except (PlatformError, UnicodeEncodeError) as error:
        raise PlatformError(f"makes no valid platform: {error}", where) from None
    return text


def _role(name: str, node: Mapping[str, Any], where: str) -> str:
    begins = name.split("-", 1)[0].rstrip("0123456789").lower()
    role = node.get("role", begins if begins in _ROLES else "switch")
    if role not in _ROLES:
        what = f"node {name!r}: role is {role!r}: write one of {', '.join(_ROLES)}"
        raise PlatformError(what, where)
    if name.startswith(_OURS) or not name:
        raise PlatformError(f"node {name!r} has a reserved name: choose another", where)
    return str(role)


def _kind(*roles: str) -> str:
    return "nic" if "gpu" in roles else "storage" if "storage" in roles else "up"


def _properties(
    graph: nx.Graph, roles: Mapping[str, str], name: str, node: Mapping[str, Any], where: str
) -> dict[str, str]:
    stated = {key: _place(name, node, key, where) for key in _PLACES if key in node}
    switches = sorted(each for each in graph.neighbors(name) if roles[each] == "switch")
    leaf = {xml_names.LEAF_PROPERTY: switches[0]} if switches else {}
    return {xml_names.ROLE_PROPERTY: "gpu", **stated, **leaf}


def _place(name: str, node: Mapping[str, Any], key: str, where: str) -> str:
    """Return the number of a host, domain or rack, which GraphML and JSON type differently."""
    stated = node[key]
    number = str(int(stated)) if isinstance(stated, float) and stated.is_integer() else str(stated)
    if isinstance(stated, bool) or not _WHOLE_NUMBER.fullmatch(number):
        what = f"GPU {name!r}: {key} is {stated!r}: write a whole number from 0"
        raise PlatformError(what, where)
    return str(int(number))


def _quantity(
    values: Mapping[str, Any], key: str, kind: Kind, where: str, default: str | None = None
) -> float:
    if key not in values and default is None:
        raise PlatformError(f"has no {key}: write one like {kind.example}", where)
    value = parse_quantity(values.get(key, default), kind, f"{where}: {key}")
    if value == 0 and kind is not TIME:
        raise PlatformError(f"{key} is zero: write one like {kind.example}", where)
    return value
