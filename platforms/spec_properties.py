"""The spec of a cluster as flat properties of its platform file, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from faultline.platforms import xml_names
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_file import spec_from_mapping

_LISTS: dict[str, Callable[[str], float]] = {
    "scale_out.oversubscription": float,
    "scale_out.failed_spines": int,
}
_BOOLEANS = {"scale_out.rail_optimised", "host.doors"}
_WHOLE = {
    "scale_up.domains",
    "scale_up.gpus_per_domain",
    "nic.per_gpu",
    "nic.gpus_per_nic",
    "host.gpus_per_host",
    "rack.domains_per_rack",
    "scale_out.levels",
    "scale_out.domains_per_leaf",
    "scale_out.leaves_per_pod",
    "scale_out.rails",
    "scale_out.spines",
    "scale_out.routing_seed",
    "plane.cluster_gpus",
}


def spec_properties(spec: ClusterSpec) -> Iterator[tuple[str, str]]:
    """Yield name and value of the properties that keep a spec in the XML."""
    yield xml_names.VERSION_PROPERTY, xml_names.FORMAT_VERSION
    yield xml_names.GPUS_PER_RANK_PROPERTY, str(spec.gpus_per_rank)
    for key, value in _flat(spec.as_mapping()):
        yield xml_names.SPEC_PROPERTY_PREFIX + key, value


def spec_from_properties(properties: Mapping[str, str], where: str) -> ClusterSpec | None:
    """Return the spec kept in properties, or None if there is none.

    Raises
    ------
    PlatformError
        The properties were edited into something that is no spec.
    """
    mapping: dict[str, Any] = {}
    for name, text in properties.items():
        if not name.startswith(xml_names.SPEC_PROPERTY_PREFIX):
            continue
        key = name.removeprefix(xml_names.SPEC_PROPERTY_PREFIX)
        *tables, last = key.split(".")
        table = mapping
        for part in tables:
            table = cast("dict[str, Any]", table.setdefault(part, {}))
        table[last] = _value(key, text)
    return spec_from_mapping(mapping, where) if mapping else None


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, bool):
            yield prefix + key, str(value).lower()
        elif isinstance(value, (list, tuple)):
            yield prefix + key, " ".join(f"{item:g}" for item in value)
        else:
            yield prefix + key, str(value)


def _value(key: str, text: str) -> object:
    """Turn text back into what stood in the TOML file; what fits nothing stays, to be refused."""
    try:
        if key in _LISTS:
            return [_LISTS[key](item) for item in text.split()]
        if key in _WHOLE:
            return int(text)
    except ValueError:
        return text
    if key in _BOOLEANS:
        return {"true": True, "false": False}.get(text, text)
    return text
