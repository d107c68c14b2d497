"""Snapshots of the published size on HGX A800 servers, as the state probe measures them.

16 servers of 8 GPUs, a replica a server. Nothing is fitted: the bandwidths are those of the preset,
which says where each comes from.
"""

from __future__ import annotations

from functools import cache

import pandas as pd
from faultline.experiments.studies.reft.published import SHARDED_SNAPSHOTS_S, SNAPSHOT_BYTES
from faultline.platforms.preset_library import load_preset
from faultline.simulator.simgrid_engine.state_probe import cached_state_probe
from faultline.simulator.simgrid_engine.state_transfers import StateTransfers, StateTransferTimes
from faultline.strategies.protection.base import ProtectedJob
from faultline.strategies.protection.reft import Reft, ReftOptions

PLATFORM = "hgx-a800"
REPLICAS = 16
GPUS_PER_NODE = 8
STORAGE_BANDWIDTHS = ("1GB/s", "5GB/s", "25GB/s", "100GB/s", "400GB/s")
"""Write bandwidths of a file system that all share; 25 GB/s is that of the preset."""

OWN_STORAGE = "25GB/s"
SHARDING_GROUPS = (2, 4, 8, 16)


def hidden_stall_s(iteration_s: float) -> float:
    """Return what a hidden snapshot of the published size adds to an iteration, in seconds.

    Nothing is divided among replicas, and no parity is kept: the most that has to be hidden.
    """
    protection = reft(1, iteration_s)
    return protection.snapshot_cost(measured(protection)).stall_s


def unhidden_stall_s() -> float:
    """Return what the same snapshot costs if all of it meets an all-reduce as long as itself."""
    protection = reft(1, 0.0)
    return protection.snapshot_cost(measured(protection)).stall_s


def reft(sharding_group: int, compute_s: float = 0.0, code: str = "raim5") -> Reft:
    """Return REFT for the published state of a rank."""
    job = ProtectedJob(REPLICAS, 1, REPLICAS, GPUS_PER_NODE, SNAPSHOT_BYTES, compute_s)
    options = ReftOptions.model_validate({"sharding_group": sharding_group, "code": code})
    return Reft(job, options)


def measured(protection: Reft) -> StateTransferTimes:
    """Return what moving the state takes on the platform."""
    peers = protection.peers
    moved = protection.transfers
    return _probe(
        StateTransfers(
            groups=REPLICAS,
            snapshot_bytes_per_gpu=moved.snapshot_bytes_per_gpu,
            state_bytes_per_gpu=SNAPSHOT_BYTES,
            peers=tuple(tuple(peers.nodes_of(group)) for group in range(peers.groups)),
            copies=0,
            # Long enough for all of the copy to meet it.
            gradient_bytes_per_gpu=SNAPSHOT_BYTES,
            share_bytes_per_gpu=moved.share_bytes_per_gpu,
        ),
        OWN_STORAGE,
    )


def sharded_table() -> pd.DataFrame:
    """Return the copy times of shards without parity beside the published snapshot times."""
    return pd.DataFrame(
        [
            {
                "sharding_group": size,
                "bytes_per_gpu": SNAPSHOT_BYTES / size,
                "published_s": published_s,
                "copy_s": measured(reft(size, code="none")).copy_s,
            }
            for size, published_s in SHARDED_SNAPSHOTS_S.items()
        ]
    )


def saving_table() -> pd.DataFrame:
    """Compare saving in memory with asynchronous checkpoints, by file system and sharding group.

    The checkpoint is the best that a file system allows: all 16 replicas copy and write an equal
    part of one replica each, so that all servers write at once. REFT copies its share and the
    blocks for its parity, and computes the parity.

    Returns
    -------
    DataFrame
        A row a file system and sharding group: ``reft_s``, ``storage_s`` (by all replicas),
        ``one_writer_s`` (by the servers of one replica), and the factors between them.
    """
    rows = []
    for bandwidth in STORAGE_BANDWIDTHS:
        storage_s = _checkpoint_s(bandwidth, REPLICAS)
        one_writer_s = _checkpoint_s(bandwidth, 1)
        for size in SHARDING_GROUPS:
            times = measured(reft(size))
            reft_s = times.copy_s + times.encode_s
            rows.append(
                {
                    "storage_bandwidth": bandwidth,
                    "sharding_group": size,
                    "copy_s": times.copy_s,
                    "encode_s": times.encode_s,
                    "reft_s": reft_s,
                    "storage_s": storage_s,
                    "one_writer_s": one_writer_s,
                    "factor": storage_s / reft_s,
                    "one_writer_factor": one_writer_s / reft_s,
                }
            )
    return pd.DataFrame(rows)


def _checkpoint_s(bandwidth: str, writers: int) -> float:
    """Return the seconds until a checkpoint of one replica is on storage, copied and written.

    To the probe the writers are one group of as many servers, each with an equal part.
    """
    transfers = StateTransfers(
        groups=REPLICAS // writers,
        snapshot_bytes_per_gpu=SNAPSHOT_BYTES / writers,
        state_bytes_per_gpu=SNAPSHOT_BYTES,
        peers=(),
        copies=0,
        gradient_bytes_per_gpu=0.0,
    )
    times = _probe(transfers, bandwidth)
    return times.copy_s + times.persist_s


@cache
def _probe(transfers: StateTransfers, storage_bandwidth: str) -> StateTransferTimes:
    spec = load_preset(PLATFORM, **{"storage.write_bandwidth": storage_bandwidth})
    return cached_state_probe(spec, transfers)
