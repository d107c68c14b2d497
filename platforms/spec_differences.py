"""Differences between a platform file and the spec in its properties, and their effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from faultline.platforms import xml_names
from faultline.platforms.platform_data import GpuHost, Link, Platform
from faultline.platforms.units import BANDWIDTH, SPEED, TIME, format_quantity
from faultline.platforms.xml_names import link_class
from faultline.platforms.xml_reader import platform_from_xml
from faultline.platforms.xml_writer import xml_text

Effect = Literal["network", "scale-up", "compute", "memory", "none"]
"""Effect of a difference on the measured phases of a job (step, all-reduce, checkpoint, load).

"network": it is on paths between scale-up domains or to the storage. "scale-up": it is on paths
inside a domain, for tensor parallelism and for groups that share a domain. "compute": it changes a
GPU. "memory": it is on the path to host memory, for snapshots. "none": no measured phase changes.
"""


class Difference(NamedTuple):
    """A difference in one line, and its effect."""

    text: str
    effect: Effect


def spec_differences(platform: Platform) -> list[Difference] | None:
    """Return each difference, or None if the file has no spec.

    The file is compared with a new platform from the spec. A difference is no error: the file is
    simulated, and the difference has its stated effect.
    """
    spec = platform.spec
    if spec is None:
        return None
    return platform_differences(platform, platform_from_xml(xml_text(spec).encode(), "spec"))


def platform_differences(
    platform: Platform, expected: Platform, other: str = "the spec"
) -> list[Difference]:
    """Return the differences of a platform from another one, which the texts call `other`."""
    effects = _effects(expected) | _effects(platform)
    # Names of a foreign file have no classes.
    kind_of = (lambda _: "link") if platform.is_foreign else link_class

    def named(kind: str, names: Iterable[str]) -> dict[str, Effect]:
        return {f"{kind} {name}": effects.get(name, "none") for name in names}

    gpus, stated = ({gpu.name: gpu for gpu in each.gpus} for each in (platform, expected))
    gpu_names = named("GPU", platform.gpu_names), named("GPU", expected.gpu_names)
    switches = named("switch", platform.switches), named("switch", expected.switches)
    links = named("link", platform.links), named("link", expected.links)
    return [
        *_one_sided(*gpu_names, other),
        *_one_sided(*switches, other),
        *_one_sided(*links, other),
        *_values(platform.links, expected.links, _LINK_VALUES, effects, other, kind_of),
        *_values(gpus, stated, _SPEED, dict.fromkeys(platform.gpu_names, "compute"), other),
        # Routes follow cables, so the place properties of a GPU have no effect.
        *_values(gpus, stated, _PLACE, {}, other),
        *_one_sided(_cables(platform), _cables(expected), other),
    ]


_LINK_VALUES: Mapping[str, Callable[[Link], str]] = {
    "bandwidth": lambda link: format_quantity(link.bandwidth_bytes_per_s, BANDWIDTH),
    "latency": lambda link: format_quantity(link.latency_s, TIME),
    "sharing": lambda link: link.sharing,
}
_SPEED: Mapping[str, Callable[[GpuHost], str]] = {
    "speed": lambda gpu: format_quantity(gpu.speed_flop_per_s, SPEED),
}
_PLACE: Mapping[str, Callable[[GpuHost], str]] = {
    "domain": lambda gpu: str(gpu.domain),
    "host": lambda gpu: str(gpu.host),
    "rack": lambda gpu: str(gpu.rack),
    "leaf": lambda gpu: gpu.leaf,
}
_ORDER: tuple[Effect, ...] = ("network", "scale-up", "compute", "memory", "none")


def _effects(platform: Platform) -> dict[str, Effect]:
    """Return the largest effect of each host, switch and link that is on a cable or route."""
    effects: dict[str, Effect] = {}
    for name, hops in (*platform.edges.items(), *platform.flow_routes.items()):
        for neighbour, cable in hops:
            effect = _effect_between(platform, name, neighbour)
            for part in (name, neighbour, *cable):
                effects[part] = min(effect, effects.get(part, "none"), key=_ORDER.index)
    return effects


def _effect_between(platform: Platform, *ends: str) -> Effect:
    """Return the effect of a cable between two hosts or switches."""
    kinds = {link_class(end) for end in ends}
    roles = {platform.roles.get(end) for end in ends}
    if xml_names.MANAGEMENT in kinds or roles & {"controller", "disk"}:
        return "none"
    if "memory" in roles:
        return "memory"
    return "scale-up" if xml_names.NVSWITCH in kinds else "network"


def _one_sided(
    platform: Mapping[str, Effect], expected: Mapping[str, Effect], other: str
) -> list[Difference]:
    """Return a line for the missing parts and one for the additional parts, with the first part."""
    differences = []
    for verb, parts, effects in (
        ("is missing", expected.keys() - platform.keys(), expected),
        (f"is not in {other}", platform.keys() - expected.keys(), platform),
    ):
        if parts:
            more = f" (and {len(parts) - 1} more)" if len(parts) > 1 else ""
            effect = min((effects[part] for part in parts), key=_ORDER.index)
            differences.append(Difference(f"{min(parts)}{more} {verb}", effect))
    return differences


def _values(
    parts: Mapping[str, object],
    expected: Mapping[str, object],
    readers: Mapping[str, Callable[..., str]],
    effects: Mapping[str, Effect],
    other: str,
    kind_of: Callable[[str], str] = link_class,
) -> list[Difference]:
    """Return a line for each class of parts and each value that differs, with the first part."""
    changed: dict[tuple[str, str, Effect], list[str]] = {}
    for name in sorted(parts.keys() & expected.keys()):
        if parts[name] == expected[name]:
            continue
        for value, read in readers.items():
            actual, stated = read(parts[name]), read(expected[name])
            if actual != stated:
                case = kind_of(name), value, effects.get(name, "none")
                text = f"{name}: {value} is {actual}, {other} says {stated}"
                changed.setdefault(case, []).append(text)
    numbers = Counter(map(kind_of, expected))
    lines = []
    for (kind, _, effect), texts in changed.items():
        more = f" ({len(texts)} of {numbers[kind]} {kind} differ)" if len(texts) > 1 else ""
        lines.append(Difference(texts[0] + more, effect))
    return lines


def _cables(platform: Platform) -> dict[str, Effect]:
    """Return the effect of each cable and flow route, by a text of its ends and links."""
    return {
        f"route {source} to {destination} over {', '.join(links)}": _effect_between(
            platform, source, destination
        )
        for routes in (platform.edges, platform.flow_routes)
        for source, hops in routes.items()
        for destination, links in hops
    }
