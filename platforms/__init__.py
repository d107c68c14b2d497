"""Clusters: their specs, and the SimGrid platforms that are written from them and read back.

This package does not import SimGrid. `load_in_simgrid`, `simulate_flows` and `single_flow` run it
in a separate process. Each name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faultline.platforms.errors import PlatformError as PlatformError
    from faultline.platforms.fabric import bisection as bisection
    from faultline.platforms.fabric import fabric_layers as fabric_layers
    from faultline.platforms.fabric import storage_rates as storage_rates
    from faultline.platforms.network_model import ENGINE_CONFIGURATION as ENGINE_CONFIGURATION
    from faultline.platforms.network_model import engine_arguments as engine_arguments
    from faultline.platforms.outages import (
        gpus_cut_off_by_a_leaf_switch as gpus_cut_off_by_a_leaf_switch,
    )
    from faultline.platforms.platform_data import Platform as Platform
    from faultline.platforms.preset_library import load_preset as load_preset
    from faultline.platforms.preset_library import preset_names as preset_names
    from faultline.platforms.simgrid_check import load_in_simgrid as load_in_simgrid
    from faultline.platforms.simgrid_check import simulate_flows as simulate_flows
    from faultline.platforms.simgrid_check import single_flow as single_flow
    from faultline.platforms.spec import ClusterSpec as ClusterSpec
    from faultline.platforms.spec_file import load_spec as load_spec
    from faultline.platforms.spec_file import parse_spec as parse_spec
    from faultline.platforms.topology import rail_plane as rail_plane
    from faultline.platforms.xml_reader import read_platform as read_platform
    from faultline.platforms.xml_writer import write_xml as write_xml

_NAMES = {
    "errors": ("PlatformError",),
    "fabric": ("bisection", "fabric_layers", "storage_rates"),
    "network_model": ("ENGINE_CONFIGURATION", "engine_arguments"),
    "outages": ("gpus_cut_off_by_a_leaf_switch",),
    "platform_data": ("Platform",),
    "preset_library": ("load_preset", "preset_names"),
    "simgrid_check": ("load_in_simgrid", "simulate_flows", "single_flow"),
    "spec": ("ClusterSpec",),
    "spec_file": ("load_spec", "parse_spec"),
    "topology": ("rail_plane",),
    "xml_reader": ("read_platform",),
    "xml_writer": ("write_xml",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'faultline.platforms' has no attribute {name!r}")
    value: object = getattr(import_module(f"faultline.platforms.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
