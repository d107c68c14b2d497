"""Snapshots in host memory: published times and speeds on A800, compared with the model.

The state probe measures snapshots of the published size on 16 HGX A800 servers of 8 GPUs, one
replica per server. This part has no fits: the bandwidths are those of the preset, which names their
sources.

The bytes of a rank's snapshot are not published by model. A rank's state and compute are both
proportional to its parameters, if all ranks train the same number of tokens. So a copy that is slow
because of its implementation lengthens an iteration by a fixed multiple. One constant per mode,
taken from one model, is that multiple. With its own thread and stream, the copy is hidden and a
stall of fixed length remains. REFT's own mode needs no constant: the platform determines the
copy's length, and its cost is the overlap with the exchange on PCIe.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pandas as pd
from faultline.experiments.config.cluster import platform_at
from faultline.experiments.job.platform_files import generate_preset, with_memories
from faultline.experiments.studies.data import read_rows
from faultline.platforms.cache_folder import cache_directory
from faultline.platforms.preset_library import load_preset
from faultline.simulator.simgrid.state_transfers import (
    StateTransfers,
    StateTransferTimes,
    beside_steps,
)
from faultline.simulator.simgrid.traffic import Traffic
from faultline.simulator.timing.state_probe import state_transfer_times
from faultline.simulator.timing.write_probe import write_beside_steps
from faultline.strategies.protection.base import ProtectedJob
from faultline.strategies.protection.reft import Reft, ReftOptions

SNAPSHOT_BYTES = 11_471 * 2**20
"""State of a rank in the published snapshot times."""

SHARDED_SNAPSHOTS_S = {1: 0.46, 2: 0.51, 4: 0.354}
"""Seconds of a hidden snapshot by the size of the sharding group."""

LAUNCH_S = SHARDED_SNAPSHOTS_S[4]
"""Time to launch the copies of a snapshot, from shards of four, which PCIe copies faster."""

LOADING_FACTOR = 12.36
"""Speed of loading over that from NFS: Llama-2 34B on 256 MI250X, bandwidth unstated."""

CALIBRATED_ON = "13B"

PLATFORM = "hgx-a800"
REPLICAS = 16
GPUS_PER_NODE = 8
STORAGE_BANDWIDTHS = ("1GB/s", "5GB/s", "25GB/s", "100GB/s", "400GB/s")
"""Write bandwidths of a shared file system; 25 GB/s is that of the preset."""

OWN_STORAGE = "25GB/s"
SHARDING_GROUPS = (2, 4, 8, 16)


def snapshot_delay_s(passes_s: float) -> float:
    """Return the time that a snapshot of the published size adds to an iteration, in seconds.

    Replicas do not share the state, and there is no parity: the worst case. Bytes not copied during
    compute compete with an all-reduce of as many bytes on PCIe.
    """
    transfers = _transfers(reft(1))
    path = with_memories(generate_preset(PLATFORM, REPLICAS, cache_directory() / "platforms"))
    platform = platform_at(path)
    places = (platform.gpu_names[place::GPUS_PER_NODE] for place in range(GPUS_PER_NODE))
    hosts = tuple(zip(*places, strict=True))
    snapshot = beside_steps(platform, transfers)
    traffic = Traffic(
        hosts, platform.storage or "", SNAPSHOT_BYTES, True, False, False, snapshot=snapshot
    )
    beside = write_beside_steps(path, traffic)
    return beside.course(passes_s, _probe(transfers, OWN_STORAGE).all_reduce_s)[0]


def reft(sharding_group: int, code: str = "raim5") -> Reft:
    """Return REFT for the published state of a rank."""
    job = ProtectedJob(REPLICAS, 1, REPLICAS, GPUS_PER_NODE, SNAPSHOT_BYTES, 0.0)
    options = ReftOptions.model_validate({"sharding_group": sharding_group, "code": code})
    return Reft(job, options)


def measured(protection: Reft) -> StateTransferTimes:
    """Return the transfer times of the state on the platform."""
    return _probe(_transfers(protection), OWN_STORAGE)


def _transfers(protection: Reft) -> StateTransfers:
    peers, moved = protection.peers, protection.transfers
    return StateTransfers(
        groups=REPLICAS,
        snapshot_bytes_per_gpu=moved.snapshot_bytes_per_gpu,
        state_bytes_per_gpu=SNAPSHOT_BYTES,
        peers=tuple(tuple(peers.nodes_of(group)) for group in range(peers.groups)),
        copies=0,
        # Long enough to overlap with all of the copy.
        gradient_bytes_per_gpu=SNAPSHOT_BYTES,
        share_bytes_per_gpu=moved.share_bytes_per_gpu,
    )


def sharded_table() -> pd.DataFrame:
    """Compare the copy times of shards without parity with the published snapshot times.

    A row per sharding group: ``mib`` of a snapshot, and the seconds of its copy: ``published_s``,
    over PCIe alone (``no parity``), and at least as long as the launch of the copies takes
    (``no parity, launched in 0.354 s``). Each has its change against the whole snapshot.
    """
    shards = {size: reft(size, code="none") for size in SHARDED_SNAPSHOTS_S}
    table = pd.DataFrame(
        {
            "sharding_group": list(shards),
            "mib": [one.transfers.snapshot_bytes_per_gpu / 2**20 for one in shards.values()],
            "published_s": list(SHARDED_SNAPSHOTS_S.values()),
            "no parity": [measured(one).copy_s for one in shards.values()],
        }
    )
    launched = f"no parity, launched in {LAUNCH_S:g} s"
    table[launched] = table["no parity"].clip(lower=LAUNCH_S)
    for change, of in (
        ("published change", "published_s"),
        ("PCIe alone", "no parity"),
        ("launching limits, by shards of 4", launched),
    ):
        table[change] = table[of] / table[of][0] - 1.0
    return table


def saving_table() -> pd.DataFrame:
    """Compare saving in memory with asynchronous checkpoints, by file system and sharding group.

    The checkpoint is the best possible: all 16 replicas copy and write an equal part of one replica
    each, so all servers write at once. REFT copies its share and the blocks for its parity, and
    computes the parity.

    A row per file system and sharding group: ``reft_s``, ``storage_s``, and their ``factor``.
    """
    rows = []
    for bandwidth, size in product(STORAGE_BANDWIDTHS, SHARDING_GROUPS):
        times = measured(reft(size))
        reft_s, storage_s = times.copy_s + times.encode_s, _checkpoint_s(bandwidth)
        rows.append((bandwidth, size, reft_s, storage_s, storage_s / reft_s))
    columns = ["storage_bandwidth", "sharding_group", "reft_s", "storage_s", "factor"]
    return pd.DataFrame(rows, columns=columns)


def _checkpoint_s(bandwidth: str) -> float:
    """Return the seconds until a checkpoint of one replica is copied and written to storage.

    The probe treats the writers as one group of as many servers, each with an equal part.
    """
    nothing_else: dict[str, Any] = {"peers": (), "copies": 0, "gradient_bytes_per_gpu": 0.0}
    transfers = StateTransfers(1, SNAPSHOT_BYTES / REPLICAS, SNAPSHOT_BYTES, **nothing_else)
    times = _probe(transfers, bandwidth)
    return times.copy_s + times.persist_s


@cache
def _probe(transfers: StateTransfers, storage_bandwidth: str) -> StateTransferTimes:
    spec = load_preset(PLATFORM, **{"storage.write_bandwidth": storage_bandwidth})
    return state_transfer_times(spec, transfers)


def iteration_table() -> pd.DataFrame:
    """Predict every iteration of the published table.

    A row per mode and model: ``published_s`` and ``predicted_s`` of the iteration,
    ``published_overhead_s`` and ``overhead_s``; and ``calibrated``, a text for rows used for a
    constant.
    """
    table = pd.DataFrame(read_rows("reft", "iterations"))
    table = table.rename(columns={"measured_s": "published_s"})
    table["published_overhead_s"] = table.published_s - table.alone_s
    references = table[table.model == CALIBRATED_ON].set_index("mode")
    overheads_s = [
        _overhead_s(mode, alone_s, references.loc[mode])
        for mode, alone_s in zip(table["mode"], table.alone_s, strict=True)
    ]
    calibrated = (table.model == CALIBRATED_ON) & (table["mode"] != "hidden")
    return table.assign(
        overhead_s=overheads_s,
        predicted_s=table.alone_s + overheads_s,
        calibrated=calibrated.map({True: ", calibration", False: ""}),
    )


def _overhead_s(mode: str, alone_s: float, reference: pd.Series) -> float:
    """Return the seconds that snapshots add to an iteration, which takes `alone_s` without them.

    The mode is the overlap of a snapshot with training: none ("synchronous"), from a background
    thread ("one thread"), with its own copy stream ("thread and stream"), or in buckets while the
    GPU's link is idle ("hidden": hierarchical asynchronous snapshotting).
    """
    if mode == "hidden":
        return snapshot_delay_s(alone_s)
    constant_s = float(reference.published_overhead_s)
    return constant_s if mode == "thread and stream" else constant_s * alone_s / reference.alone_s


def loading_table() -> pd.DataFrame:
    """Return the speed of loading from memory over that from storage, by file system, readers."""
    found, load_s = [], measured(reft(REPLICAS)).load_s
    for bandwidth in STORAGE_BANDWIDTHS:
        storage = load_preset(PLATFORM, **{"storage.read_bandwidth": bandwidth}).storage
        assert storage is not None
        for readers, reading in ((1, "one replica reads and passes on"), (REPLICAS, "all read")):
            read_s = readers * SNAPSHOT_BYTES * GPUS_PER_NODE / storage.read_bandwidth_bytes_per_s
            found.append((bandwidth, reading, LOADING_FACTOR, read_s / load_s))
    return pd.DataFrame(found, columns=["bandwidth", "who", "known", "value"])
