"""Read any platform that SimGrid loads: SimGrid reports its hosts, links and routes.

`xml_reader` knows only the elements that `write_xml` writes. For files from elsewhere, SimGrid in a
child process computes what clusters, cabinets, nested zones and all its routings mean. A scan
before that refuses files that would make SimGrid read or write other files, or start code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from faultline.platforms import xml_names
from faultline.platforms.errors import PlatformError
from faultline.platforms.network_model import ENGINE_CONFIGURATION
from faultline.platforms.platform_data import GpuHost, Hop, Link, Platform, gpu_host
from faultline.platforms.preset_library import gpu_of_kind
from faultline.platforms.simgrid_process import run_in_simgrid
from faultline.platforms.units import simgrid_speed
from faultline.platforms.xml_tree import (
    PRECISIONS,
    Element,
    check_document_type,
    check_precision,
    parse_xml,
)

_TIME_LIMIT_S = 120.0
_ROOTS = ("zone", "AS", "cluster")
_ELEMENTS = (
    *_ROOTS,
    *("config", "prop", "host", "router", "link", "link_ctn", "disk", "cabinet", "peer"),
    *("backbone", "host_link", "route", "ASroute", "zoneRoute"),
    *("bypassRoute", "bypassASroute", "bypassZoneRoute"),
)
_LISTED = {"": ("platform",)} | dict.fromkeys(("platform", *_ELEMENTS), _ELEMENTS)
_TAG = re.compile(rb"<(?:[^>\"']|\"[^\"]*\"|'[^']*')*?(?P<end>/?>)")
_SPEED = re.compile(rb"(?:[^>\"']|\"[^\"]*\"|'[^']*')*?\sspeed\s*=\s*(?P<speed>\"[^\"]*\"|'[^']*')")
_COMPUTING = ("host", "cluster", "cabinet", "peer")
_OPTIONS = (*PRECISIONS, *ENGINE_CONFIGURATION, "path", "cpu/optim")
"""Options that a file may set. Those of Faultline's network model have no effect in a file."""


def read_foreign(
    content: bytes, where: str, gpu_hosts: str | None = None, *, gpus_needed: bool = True
) -> Platform:
    """Read a platform file with SimGrid; `where` is its path, and `content` what it contains.

    A host is a GPU if `gpu_hosts`, a shell pattern, matches its name. Without a pattern, GPUs are
    the hosts with the property ``role`` = ``gpu``, or whose name starts with ``gpu-``.

    Raises
    ------
    PlatformError
        The file is no platform, may not be loaded, or SimGrid rejects it; there are no GPUs, or
        hosts without a route between them.
    """
    root = _scanned(content, where)
    check_document_type(content, where)
    properties = _root_properties(root, where)
    pattern = gpu_hosts or properties.get(xml_names.GPU_HOSTS_PROPERTY)
    task = {"describe": {"gpu_hosts": pattern}}
    found = run_in_simgrid(where, task, _TIME_LIMIT_S)
    roles: dict[str, str] = {name: role for name, role, _, _ in found["hosts"]}
    gpus = _gpus(found["hosts"], where)
    if not roles:
        raise PlatformError("has no hosts", where)
    if not gpus and (gpus_needed or gpu_hosts):
        raise PlatformError(_no_gpus(pattern, roles), where)
    routes = {(start, end): tuple(links) for start, end, links in found["routes"]}
    links = _links(found["links"])
    if gpus:
        _check_routes(found["pairs"], routes, links, where)
    _check_joined([*found["pairs"], *found["joining"]], routes, where)
    flow_routes: dict[str, list[Hop]] = {}
    for (start, end), names in routes.items():
        flow_routes.setdefault(start, []).append((end, names))
    return Platform(
        path=Path(where),
        gpus=gpus,
        switches=(),
        links=links,
        storage=next((name for name, role in roles.items() if role == "storage"), None),
        controller=next((name for name, role in roles.items() if role == "controller"), None),
        properties=properties,
        edges=dict.fromkeys(roles, ()),
        flow_routes={start: tuple(hops) for start, hops in flow_routes.items()},
        roles=roles,
        is_foreign=True,
    )


def with_gpus(
    content: bytes, where: str, gpu_hosts: str | None = None, gpu_kind: str | None = None
) -> bytes:
    """Return a platform file whose outermost zone names its GPUs by a pattern, and their kind.

    If a kind is named, all hosts get its speed. Only GPUs compute, so that of others has no effect.
    """
    _outermost(_scanned(content, where), where)
    named = {xml_names.GPU_HOSTS_PROPERTY: gpu_hosts, xml_names.GPU_KIND_PROPERTY: gpu_kind}
    properties = "".join(
        f"<prop id={quoteattr(name)} value={quoteattr(value)}/>"
        for name, value in named.items()
        if value is not None
    )
    speed = None if gpu_kind is None else simgrid_speed(gpu_of_kind(gpu_kind).speed_flop_per_s)
    pieces, end, is_outermost = [], 0, True
    for tag, start in _starts_of_elements(content):
        found = _TAG.match(content, start)
        assert found is not None, "the parser found this element here"
        text = found[0]
        if speed is not None and tag in _COMPUTING:
            text = _at_speed(text, speed)
        if is_outermost and tag in _ROOTS:
            is_outermost = False
            closing = f"</{tag}>" if found["end"] == b"/>" else ""
            text = text[: len(text) - len(found["end"])] + f">{properties}{closing}".encode()
        pieces += [content[end:start], text]
        end = found.end()
    return b"".join([*pieces, content[end:]])


def _starts_of_elements(content: bytes) -> list[tuple[str, int]]:
    """Return the tag of each element, and where it starts in the file, in bytes."""
    starts: list[tuple[str, int]] = []
    parser = expat.ParserCreate("UTF-8")
    parser.StartElementHandler = lambda tag, _: starts.append((tag, parser.CurrentByteIndex))
    parser.Parse(content, True)
    return starts


def _at_speed(tag: bytes, speed: str) -> bytes:
    """Return the tag of an element with another speed, in each of its performance states."""
    found = _SPEED.match(tag)
    if found is None:
        return tag
    states = ",".join([speed] * (found["speed"].count(b",") + 1)).encode()
    return tag[: found.start("speed")] + b'"' + states + b'"' + tag[found.end("speed") :]


def _scanned(content: bytes, where: str) -> Element:
    """Parse a file, and refuse what makes SimGrid use other files or start code."""
    root = parse_xml(content, where, _LISTED)
    for element in root.walk():
        for name, value in element.attributes.items():
            if name.endswith("_file") and value:
                raise PlatformError(
                    f"{name!r} of <{element.tag}> reads another file: remove it, and describe "
                    "failures in the scenario",
                    element.place,
                )
        if element.tag == "config":
            _check_options(element)
    return root


def _check_options(config: Element) -> None:
    for option in config.children:
        name = option.attribute("id")
        place = f"{option.place}: option {name!r}"
        if name not in _OPTIONS:
            raise PlatformError(
                f"is not allowed, since options can make SimGrid write files: remove it; allowed "
                f"are {', '.join(_OPTIONS)}",
                place,
            )
        if name in PRECISIONS:
            check_precision(option.attribute("value"), place)


def _outermost(root: Element, where: str) -> Element:
    for child in root.children:
        if child.tag in _ROOTS:
            return child
    raise PlatformError("has no <zone>", where)


def _root_properties(root: Element, where: str) -> dict[str, str]:
    props = (child for child in _outermost(root, where).children if child.tag == "prop")
    return {prop.attribute("id"): prop.attribute("value") for prop in props}


def _links(reported: Iterable[Any]) -> dict[str, Link]:
    """Return the links by name; SimGrid reports the two directions of a split link as two links."""
    links = {name: Link(name, *values) for name, *values in reported}
    for name in [name for name in links if name.endswith("_UP")]:
        other = f"{name.removesuffix('_UP')}_DOWN"
        if other in links:
            for way in (name, other):
                links[way] = replace(links[way], sharing="SPLITDUPLEX")
    return links


def _gpus(hosts: Iterable[Any], where: str) -> tuple[GpuHost, ...]:
    """Return the GPUs in the order of the numbers in their names.

    A GPU whose host has no property ``domain`` is a scale-up domain of its own.
    """
    gpus = [
        gpu_host(name, speed, properties, f"{where}: host {name!r}")
        for name, role, speed, properties in hosts
        if role == "gpu"
    ]
    gpus.sort(key=lambda gpu: xml_names.in_order_of_numbers(gpu.name))
    next_domain = max((gpu.domain for gpu in gpus), default=-1) + 1
    return tuple(
        gpu if gpu.domain >= 0 else replace(gpu, domain=next_domain + number)
        for number, gpu in enumerate(gpus)
    )


def _no_gpus(pattern: str | None, hosts: Iterable[str]) -> str:
    if pattern is not None:
        first = next(iter(hosts), None)
        return f"no host is named like {pattern!r}; the first host is {first!r}"
    return (
        f"has no GPU hosts: name them by --gpu-hosts or platform.gpu_hosts, or by the property "
        f"{xml_names.ROLE_PROPERTY} = gpu"
    )


_Routes = Mapping[tuple[str, str], tuple[str, ...]]


def _check_routes(
    pairs: Iterable[tuple[str, str]], routes: _Routes, links: Mapping[str, Link], where: str
) -> None:
    """Refuse pairs of GPUs, or of a GPU and the storage, that cannot send to each other."""
    used: set[str] = set()
    for start, end in pairs:
        names = routes.get((start, end))
        if names is None:
            raise PlatformError(f"no route leads from {start!r} to {end!r}: add it", where)
        if not names:
            raise PlatformError(f"the route from {start!r} to {end!r} has no links", where)
        used.update(names)
    for name in sorted(used):
        if links[name].sharing == "WIFI":
            raise PlatformError(f"link {name!r} is WIFI: GPUs need links of cables", where)
        bandwidth, latency_s = links[name].bandwidth_bytes_per_s, links[name].latency_s
        if not (0 < bandwidth < inf and 0 <= latency_s < inf):
            raise PlatformError(
                f"link {name!r} has {bandwidth:g} bytes/s and {latency_s:g} s: write a bandwidth "
                "like 50GBps and a latency like 1us",
                where,
            )


def _check_joined(pairs: Iterable[tuple[str, str]], routes: _Routes, where: str) -> None:
    """Refuse a platform whose hosts are in parts without a route between them."""
    neighbours: dict[str, set[str]] = {}
    for start, end in pairs:
        for name in (start, end):
            neighbours.setdefault(name, set())
        if (start, end) in routes:
            neighbours[start].add(end)
            neighbours[end].add(start)
    first = next(iter(neighbours), None)
    if first is None:
        return
    seen, stack = {first}, [first]
    while stack:
        new = neighbours[stack.pop()] - seen
        seen |= new
        stack += new
    apart = next((name for name in neighbours if name not in seen), None)
    if apart is not None:
        raise PlatformError(
            f"no route joins {first!r} and {apart!r}: add a <route>, or a <zoneRoute> between "
            "their zones",
            where,
        )
