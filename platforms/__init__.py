"""Clusters: their specs, and the SimGrid platforms that are written from them and read back.

This package does not import SimGrid. `check_in_simgrid`, `play_flows` and `single_flow` run it in
a separate process.
"""

from faultline.platforms.errors import PlatformError
from faultline.platforms.fabric import bisection, fabric_layers, storage_rates
from faultline.platforms.failure_domains import FailureDomain, failure_domains
from faultline.platforms.network_model import ENGINE_CONFIGURATION, engine_arguments
from faultline.platforms.outages import Outage, gpus_cut_off_by_a_leaf_switch, outages
from faultline.platforms.platform_data import Platform
from faultline.platforms.preset_library import load_preset, preset_names
from faultline.platforms.simgrid_check import check_in_simgrid, play_flows, single_flow
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_differences import spec_differences
from faultline.platforms.spec_file import load_spec, parse_spec
from faultline.platforms.topology import rail_plane
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml

__all__ = [
    "ENGINE_CONFIGURATION",
    "ClusterSpec",
    "FailureDomain",
    "Outage",
    "Platform",
    "PlatformError",
    "bisection",
    "check_in_simgrid",
    "engine_arguments",
    "fabric_layers",
    "failure_domains",
    "gpus_cut_off_by_a_leaf_switch",
    "load_preset",
    "load_spec",
    "outages",
    "parse_spec",
    "play_flows",
    "preset_names",
    "rail_plane",
    "read_platform",
    "single_flow",
    "spec_differences",
    "storage_rates",
    "write_xml",
]
