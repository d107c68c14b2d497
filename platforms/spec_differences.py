"""Where a platform file differs from the spec that its properties keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from platforms.platform_data import GpuHost, Link, Platform
from platforms.units import BANDWIDTH, SPEED, TIME, format_quantity
from platforms.xml_names import link_class
from platforms.xml_reader import platform_from_xml
from platforms.xml_writer import xml_text


def spec_differences(platform: Platform) -> list[str] | None:
    """Return each difference in one line, or None if the file keeps no spec.

    The spec is written out once more and compared with the file. Differences are no mistakes: the
    links of the file are what is simulated.
    """
    spec = platform.spec
    if spec is None:
        return None
    expected = platform_from_xml(xml_text(spec).encode(), "spec")
    return [
        *_counts("GPU", platform.gpu_names, expected.gpu_names),
        *_counts("switch", platform.switches, expected.switches),
        *_counts("link", platform.links, expected.links),
        *_values(_links(platform), _links(expected), _LINK_VALUES),
        *_values(_gpus(platform), _gpus(expected), _GPU_VALUES),
        *_cables(platform, expected),
    ]


def _gbps(value: float) -> str:
    return format_quantity(value, BANDWIDTH)


_LINK_VALUES: Mapping[str, Callable[[Link], str]] = {
    "bandwidth": lambda link: _gbps(link.bandwidth_bytes_per_s),
    "latency": lambda link: format_quantity(link.latency_s, TIME),
    "sharing": lambda link: link.sharing,
}
_GPU_VALUES: Mapping[str, Callable[[GpuHost], str]] = {
    "speed": lambda gpu: format_quantity(gpu.speed_flop_per_s, SPEED),
    "domain": lambda gpu: str(gpu.domain),
    "host": lambda gpu: str(gpu.host),
    "rack": lambda gpu: str(gpu.rack),
    "leaf": lambda gpu: gpu.leaf,
}


def _links(platform: Platform) -> Mapping[str, Link]:
    return platform.links


def _gpus(platform: Platform) -> Mapping[str, GpuHost]:
    return {gpu.name: gpu for gpu in platform.gpus}


def _counts(what: str, names: Iterable[str], expected: Iterable[str]) -> list[str]:
    has, should = set(names), set(expected)
    told = []
    for verb, found in (("is missing", should - has), ("is not in the spec", has - should)):
        if found:
            first, *others = sorted(found)
            more = f" (and {len(others)} more)" if others else ""
            told.append(f"{what} {first}{more} {verb}")
    return told


def _values(
    found: Mapping[str, object],
    expected: Mapping[str, object],
    readers: Mapping[str, Callable[..., str]],
) -> list[str]:
    """Return a line for each class of things and value that differ, with the first of them."""
    changed: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for name in sorted(found.keys() & expected.keys()):
        if found[name] == expected[name]:
            continue
        for value, read in readers.items():
            has, should = read(found[name]), read(expected[name])
            if has != should:
                changed.setdefault((link_class(name), value), []).append((name, has, should))
    of_class: dict[str, int] = {}
    for name in expected:
        of_class[link_class(name)] = of_class.get(link_class(name), 0) + 1
    lines = []
    for (kind, value), cases in changed.items():
        name, has, should = cases[0]
        many = f" ({len(cases)} of {of_class[kind]} {kind} differ)" if len(cases) > 1 else ""
        lines.append(f"{name}: {value} is {has}, the spec says {should}{many}")
    return lines


def _cables(platform: Platform, expected: Platform) -> list[str]:
    has, should = (
        {(name, *hop) for name, hops in one.edges.items() for hop in hops}
        for one in (platform, expected)
    )
    told = []
    for verb, found in (("is missing", should - has), ("is not in the spec", has - should)):
        if found:
            source, destination, links = min(found)
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            told.append(f"route {source} to {destination} over {', '.join(links)}{more} {verb}")
    return told
