"""Names in platform files, for writer and reader: hosts, switches, links, properties.

The class of a link is its name up to the first hyphen: ``nic-000017`` is of class ``nic``. So an
edited or added link needs no property for its class.
"""

from __future__ import annotations

import re

ROOT_ZONE = "faultline"
FABRIC_ZONE = "fabric"
MANAGEMENT_ZONE = "management"
STORAGE_HOST = "storage"
CONTROLLER_HOST = "controller"
TOP_SWITCH = "core"

FORMAT_VERSION = "1"
PROPERTY_PREFIX = "faultline:"
VERSION_PROPERTY = PROPERTY_PREFIX + "version"
SPEC_PROPERTY_PREFIX = PROPERTY_PREFIX + "spec."
"""Prefix of the dotted key of a spec: ``faultline:spec.nic.bandwidth``."""
GPUS_PER_RANK_PROPERTY = PROPERTY_PREFIX + "gpus_per_rank"
"""Number of the cluster's GPUs that a GPU host represents."""

GPU_HOSTS_PROPERTY = PROPERTY_PREFIX + "gpu_hosts"
"""Shell pattern of the names of GPU hosts, on the outermost zone of a file from elsewhere."""

GPU_KIND_PROPERTY = PROPERTY_PREFIX + "gpu_kind"
"""Kind of the GPUs of a file without a spec, on the outermost zone."""

DOMAIN_PROPERTY = "domain"
POSITION_PROPERTY = "position"
HOST_PROPERTY = "host"
RACK_PROPERTY = "rack"
LEAF_PROPERTY = "leaf"
POD_PROPERTY = "pod"
ROLE_PROPERTY = "role"
"""On every host: ``gpu``, ``memory``, ``disk``, ``storage`` or ``controller``."""

NVSWITCH = "nvswitch"
MANAGEMENT = "management"


def gpu(index: int) -> str:
    """Return the host name of a GPU, sortable as text: ``gpu-000017``."""
    return f"gpu-{index:06d}"


def memory(index: int) -> str:
    """Return the name of a GPU's door to the memory of its host."""
    return f"memory-{index:06d}"


def disk(index: int) -> str:
    """Return the name of a GPU's door to the disks of its host."""
    return f"disk-{index:06d}"


def leaf(group: int, rail: int | None) -> str:
    """Return the name of the leaf switch of a rail in a group of domains, or of the whole group."""
    return f"leaf-{group:05d}" if rail is None else f"leaf-{group:05d}-{rail:02d}"


def spine(number: int) -> str:
    """Return the name of a spine switch, for fabrics with separate spines."""
    return f"spine-{number:02d}"


def spine_link(leaf: str, spine: str) -> str:
    """Return the name of the link between a leaf switch and a spine, of class ``up_leaf``."""
    return f"up_{leaf}_{spine}"


def link_class(name: str) -> str:
    """Return the class of a link or the kind of a switch by its name."""
    return name.split("-", 1)[0]


def in_order_of_numbers(name: str) -> list[tuple[str, int]]:
    """Return a key that sorts ``node-2`` before ``node-10``."""
    parts = re.findall(r"([^0-9]*)([0-9]{0,15})", name)
    return [(text, int(digits or -1)) for text, digits in parts]
