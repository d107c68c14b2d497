"""Differences between a platform file and the spec in its properties, and their effects."""

from __future__ import annotations

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
    effects: dict[str, Effect] = {}
    for one in (expected, platform):
        effects |= _effects(one)
    return [
        *_counts("GPU", platform.gpu_names, expected.gpu_names, effects, other),
        *_counts("switch", platform.switches, expected.switches, effects, other),
        *_counts("link", platform.links, expected.links, effects, other),
        *_values(platform.links, expected.links, _LINK_VALUES, effects, other),
        *_values(
            _gpus(platform),
            _gpus(expected),
            _SPEED,
            dict.fromkeys(platform.gpu_names, "compute"),
            other,
        ),
        # Routes follow cables, so the place properties of a GPU have no effect.
        *_values(_gpus(platform), _gpus(expected), _PLACE, {}, other),
        *_cables(platform, expected, other),
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


def _gpus(platform: Platform) -> Mapping[str, GpuHost]:
    return {gpu.name: gpu for gpu in platform.gpus}


def _effects(platform: Platform) -> dict[str, Effect]:
    """Return the largest effect of each host, switch and link that is on a cable."""
    effects: dict[str, Effect] = {}
    for name, hops in platform.edges.items():
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


def _counts(
    what: str,
    names: Iterable[str],
    expected: Iterable[str],
    effects: Mapping[str, Effect],
    other: str,
) -> list[Difference]:
    has, should = set(names), set(expected)
    differences = []
    for verb, found in (("is missing", should - has), (f"is not in {other}", has - should)):
        if found:
            first, *others = sorted(found)
            more = f" (and {len(others)} more)" if others else ""
            effect = min((effects.get(name, "none") for name in found), key=_ORDER.index)
            differences.append(Difference(f"{what} {first}{more} {verb}", effect))
    return differences


def _values(
    found: Mapping[str, object],
    expected: Mapping[str, object],
    readers: Mapping[str, Callable[..., str]],
    effects: Mapping[str, Effect],
    other: str,
) -> list[Difference]:
    """Return a line for each class of parts and each value that differs, with the first part."""
    changed: dict[tuple[str, str, Effect], list[tuple[str, str, str]]] = {}
    for name in sorted(found.keys() & expected.keys()):
        if found[name] == expected[name]:
            continue
        for value, read in readers.items():
            has, should = read(found[name]), read(expected[name])
            if has != should:
                case = link_class(name), value, effects.get(name, "none")
                changed.setdefault(case, []).append((name, has, should))
    of_class: dict[str, int] = {}
    for name in expected:
        of_class[link_class(name)] = of_class.get(link_class(name), 0) + 1
    lines = []
    for (kind, value, effect), cases in changed.items():
        name, has, should = cases[0]
        many = f" ({len(cases)} of {of_class[kind]} {kind} differ)" if len(cases) > 1 else ""
        text = f"{name}: {value} is {has}, {other} says {should}{many}"
        lines.append(Difference(text, effect))
    return lines


def _cables(platform: Platform, expected: Platform, other: str) -> list[Difference]:
    has, should = (
        {
            (name, *hop)
            for routes in (one.edges, one.flow_routes)
            for name, hops in routes.items()
            for hop in hops
        }
        for one in (platform, expected)
    )
    differences = []
    for verb, found, where in (
        ("is missing", should - has, expected),
        (f"is not in {other}", has - should, platform),
    ):
        if found:
            source, destination, links = min(found)
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            text = f"route {source} to {destination} over {', '.join(links)}{more} {verb}"
            effect = min((_effect_between(where, *cable[:2]) for cable in found), key=_ORDER.index)
            differences.append(Difference(text, effect))
    return differences
