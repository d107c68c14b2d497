"""A cluster with one GPU per server, which represents all GPUs of the server."""

from __future__ import annotations

from typing import TypeVar

from faultline.platforms.spec import ClusterSpec
from pydantic import BaseModel

Table = TypeVar("Table", bound=BaseModel)


def folded_servers(spec: ClusterSpec) -> ClusterSpec | None:
    """Return the cluster with one GPU per server; None if its rails do not fold.

    If the g GPUs of every server move the same bytes at the same time to the GPUs of their position
    in other servers, each has an equal part of the shared resources: 1/g of the host memory, of the
    uplinks and of the storage, and its part of an adapter. So one GPU with these parts, and with
    its own PCIe and NVLink links, takes as long as all g, and SimGrid has g times fewer hosts and
    routes. This is `platforms.rail_plane`, but for servers instead of scale-up domains, and for any
    fabric. Limits of a single transfer do not change.

    Rails fold if a server has all of them equally often, or if servers with a common rail have all
    rails in common. Disks are left out.
    """
    gpus = spec.gpus_per_host
    host, nic, out, storage = spec.host, spec.nic, spec.scale_out, spec.storage
    adapters = gpus // nic.gpus_per_nic
    if spec.rails % adapters and adapters % spec.rails:
        return None
    scale_up = spec.scale_up
    return _changed(
        spec,
        scale_up=_changed(scale_up, gpus_per_domain=scale_up.gpus_per_domain // gpus),
        nic=_changed(
            nic,
            gpus_per_nic=1,
            bandwidth_bytes_per_s=nic.bandwidth_bytes_per_s / nic.gpus_per_nic,
        ),
        scale_out=_changed(
            out, rails=max(1, spec.rails // adapters) if out.rail_optimised else None
        ),
        storage=_changed(
            storage,
            read_bandwidth_bytes_per_s=storage.read_bandwidth_bytes_per_s / gpus,
            write_bandwidth_bytes_per_s=storage.write_bandwidth_bytes_per_s / gpus,
        ),
        host=_changed(
            host,
            gpus_per_host=1,
            memory_bytes=_part(host.memory_bytes, gpus),
            memory_bandwidth_bytes_per_s=_part(host.memory_bandwidth_bytes_per_s, gpus),
        ),
        disk=None,
    )


def _changed(table: Table, **values: object) -> Table:
    return table.model_copy(update=values)


def _part(value: float | None, sharers: int) -> float | None:
    return None if value is None else value / sharers
