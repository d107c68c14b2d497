"""The child process that loads a platform in SimGrid, describes it, and simulates flows on it.

SimGrid allows one engine per process and ends the process at errors. So `simgrid_check` calls
`main` in a new interpreter. The task is JSON on standard input. The result is JSON in the last line
of standard output.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import permutations
from typing import Any

from faultline.platforms import xml_names
from faultline.platforms.network_model import engine_arguments
from faultline.platforms.simgrid_library import find_simgrid_library

MOST_MEMORY_BYTES = 4 * 2**30
"""A short file can describe a cluster of any size."""

_MOST_PAIRED = 256
"""Most hosts between which all routes are reported."""


def _flow_seconds(engine: Any, flows: list[tuple[str, str, float]]) -> list[float]:
    """Start all flows at once and return the duration of each, in s."""
    from simgrid import Comm, Engine

    seconds = [float("nan")] * len(flows)

    def send(number: int, source: Any, destination: Any, size_bytes: float) -> None:
        Comm.sendto_async(source, destination, int(size_bytes)).wait()
        seconds[number] = Engine.clock

    for number, (source, destination, size_bytes) in enumerate(flows):
        ends = [engine.host_by_name(name) for name in (source, destination)]
        ends[0].add_actor(f"flow-{number}", send, number, *ends, size_bytes)
    engine.run()
    return seconds


def _description(engine: Any, gpu_hosts: str | None) -> dict[str, Any]:
    """Return the hosts, links and routes of a platform.

    Routes are those between GPUs and the storage; without GPUs, those between all hosts. Pairs of
    the first GPU and each host that is not among these show whether all zones are joined.
    """
    hosts = []
    for host in engine.all_hosts:
        properties = host.get_properties()
        hosts.append((host.name, _role(host.name, properties, gpu_hosts), host.speed, properties))
    roles = {name: role for name, role, _, _ in hosts}
    gpus = [name for name, role in roles.items() if role == "gpu"]
    gpus.sort(key=xml_names.in_order_of_numbers)
    others = [name for name, role in roles.items() if role in ("storage", "memory")]
    ends = [*gpus, *others] if gpus else list(roles)
    pairs = list(_pairs(ends))
    apart = roles.keys() - set(ends)
    joining = [pair for name in sorted(apart) for pair in ((ends[0], name), (name, ends[0]))]
    loopback = "__loopback__"
    return {
        "hosts": hosts,
        "links": [
            (link.name, link.bandwidth, link.latency, link.get_sharing_policy().name)
            for link in engine.all_links
            if link.name != loopback
        ],
        "pairs": pairs,
        "joining": joining,
        "routes": [
            (*pair, links)
            for pair in (*pairs, *joining)
            if (links := _route(engine, *pair)) is not None
        ],
    }


def _role(name: str, properties: Mapping[str, str], gpu_hosts: str | None) -> str:
    role = properties.get(xml_names.ROLE_PROPERTY, "gpu" if name.startswith("gpu-") else name)
    if gpu_hosts is None:
        return role
    if fnmatchcase(name, gpu_hosts):
        return "gpu"
    return name if role == "gpu" else role


def _pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield all pairs of hosts; of many hosts, those with the first, the next and the opposite."""
    if len(names) <= _MOST_PAIRED:
        yield from permutations(names, 2)
        return
    for place, name in enumerate(names):
        others = names[0], names[place - 1], names[place - len(names) // 2]
        for other in dict.fromkeys(others):
            if other != name:
                yield name, other
                yield other, name


def _check_joined(engine: Any) -> None:
    """Refuse hosts that the first GPU cannot reach, and zones that cannot reach it."""
    hosts = sorted((host.name, host.get_properties()) for host in engine.all_hosts)
    first = next((name for name, own in hosts if _role(name, own, None) == "gpu"), hosts[0][0])
    zones = [engine.netzone_root]
    for zone in zones:
        zones += zone.get_children()
    back = [zone.all_hosts[0].name for zone in zones if zone.all_hosts]
    for pair in (*((first, name) for name, _ in hosts), *((name, first) for name in back)):
        if pair[0] != pair[1] and _route(engine, *pair) is None:
            raise ValueError(f"no route leads from {pair[0]!r} to {pair[1]!r}: add it")


def _route(engine: Any, start: str, end: str) -> list[str] | None:
    """Return the links of a route; None if there is none."""
    links, latency_s = engine.host_by_name(start).route_to(engine.host_by_name(end))
    return [link.name for link in links] if links or latency_s else None


def main() -> None:
    """Read the task, run it, print the result."""
    find_simgrid_library()
    from simgrid import Engine

    task = json.load(sys.stdin)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = MOST_MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MOST_MEMORY_BYTES, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    engine = Engine(["faultline", "--log=root.thres:error", "--log=no_loc", *engine_arguments()])
    engine.load_platform(task["platform"])
    # Computes the routes, and reports mistakes in them.
    engine.netzone_root.seal()
    result: dict[str, Any] = {"hosts": len(engine.all_hosts)}
    if task.get("joined"):
        _check_joined(engine)
    if "describe" in task:
        result |= _description(engine, **task["describe"])
    if "routes" in task:
        result["routes"] = [_route(engine, *pair) for pair in task["routes"]]
    if task.get("flows"):
        result["seconds"] = _flow_seconds(engine, task["flows"])
    sys.stdout.write(json.dumps(result) + "\n")
