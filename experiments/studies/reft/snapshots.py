"""Snapshots in host memory: published times and speeds on A800, beside those of the model.

The state probe measures snapshots of the published size on 16 HGX A800 servers of 8 GPUs, a replica
a server. Nothing is fitted there: the bandwidths are those of the preset, which says where each
comes from.

The bytes of a rank's snapshot are not published by model. The state of a rank is proportional to
its parameters, and so is its compute, as long as ranks train the same number of tokens. A copy that
is slow because of how it is driven therefore lengthens an iteration by a fixed multiple of it; one
constant a mode, taken from one model, says by which. With a thread and a stream of its own the copy
itself is hidden, and a stall of fixed length is left. REFT's own mode needs no constant:
the copy is as long as the platform makes it, and costs what it meets of the exchange on PCIe.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pandas as pd
from faultline.experiments.config.model_numbers import platform_at
from faultline.experiments.job.platform_files import generate_preset, with_memories
from faultline.experiments.studies.data import read_rows
from faultline.platforms.preset_library import load_preset
from faultline.simulator.cache_folder import cache_directory
from faultline.simulator.simgrid_engine.state_flows import beside_steps
from faultline.simulator.simgrid_engine.state_probe import cached_state_probe
from faultline.simulator.simgrid_engine.state_transfers import StateTransfers, StateTransferTimes
from faultline.simulator.simgrid_engine.traffic import Traffic
from faultline.simulator.simgrid_engine.write_probe import write_beside_steps
from faultline.strategies.protection.base import ProtectedJob
from faultline.strategies.protection.reft import Reft, ReftOptions

SNAPSHOT_BYTES = 11_471 * 2**20
"""State of a rank whose snapshots were timed."""

SHARDED_SNAPSHOTS_S = {1: 0.46, 2: 0.51, 4: 0.354}
"""Seconds of a hidden snapshot by the size of the sharding group."""

SAVING_FACTOR = 14.0
"""REFT saves more than this many times as fast as the best asynchronous checkpoints."""

LAUNCH_S = SHARDED_SNAPSHOTS_S[4]
"""Time to launch the copies of a snapshot, taken from shards of four, which PCIe copies in less."""

OPTIMIZER_SHARE = 12 / 14
"""Share of the state that is the optimizer's: 12 of 14 bytes per parameter (mixed precision)."""

LOADING_FACTOR = 12.36
"""Speed of loading over that from NFS: Llama-2 34B on 256 MI250X, bandwidth not stated."""

CALIBRATED_ON = "13B"

PLATFORM = "hgx-a800"
REPLICAS = 16
GPUS_PER_NODE = 8
STORAGE_BANDWIDTHS = ("1GB/s", "5GB/s", "25GB/s", "100GB/s", "400GB/s")
"""Write bandwidths of a file system that all share; 25 GB/s is that of the preset."""

OWN_STORAGE = "25GB/s"
SHARDING_GROUPS = (2, 4, 8, 16)


def snapshot_delay_s(passes_s: float) -> float:
    """Return what a snapshot of the published size adds to an iteration, in seconds.

    Nothing is divided among replicas, and no parity is kept: the most that has to be hidden. What
    is not copied while GPUs compute meets an all-reduce of as many bytes on PCIe.
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
    """Return what moving the state takes on the platform."""
    return _probe(_transfers(protection), OWN_STORAGE)


def _transfers(protection: Reft) -> StateTransfers:
    peers, moved = protection.peers, protection.transfers
    return StateTransfers(
        groups=REPLICAS,
        snapshot_bytes_per_gpu=moved.snapshot_bytes_per_gpu,
        state_bytes_per_gpu=SNAPSHOT_BYTES,
        peers=tuple(tuple(peers.nodes_of(group)) for group in range(peers.groups)),
        copies=0,
        # Long enough for all of the copy to meet it.
        gradient_bytes_per_gpu=SNAPSHOT_BYTES,
        share_bytes_per_gpu=moved.share_bytes_per_gpu,
    )


def sharded_table() -> pd.DataFrame:
    """Return the copy times of shards without parity beside the published snapshot times."""
    shards = [
        (size, shards.transfers.snapshot_bytes_per_gpu, published_s, measured(shards).copy_s)
        for size, published_s in SHARDED_SNAPSHOTS_S.items()
        for shards in [reft(size, code="none")]
    ]
    columns = ["sharding_group", "bytes_per_gpu", "published_s", "copy_s"]
    return pd.DataFrame(shards, columns=columns)


def optimizer_table() -> pd.DataFrame:
    """Return what parity costs where the members of a sharding group share the optimizer's state.

    Weights are whole on every member, so each computes its blocks of their parity alone. Its part
    of the optimizer's state has no copy: its n - 1 blocks go one to each other member, and as
    many bytes come from them. A row per sharding group: bytes that a GPU copies, without the blocks
    that come to it, and that it sends; and the seconds of both.
    """
    rows = []
    for size in SHARDING_GROUPS:
        share_bytes = SNAPSHOT_BYTES / size
        sent_bytes = OPTIMIZER_SHARE * share_bytes
        copied_bytes = share_bytes + (1.0 - OPTIMIZER_SHARE) * share_bytes
        moved = replace(_transfers(reft(size)), share_bytes_per_gpu=None)
        copying = replace(moved, snapshot_bytes_per_gpu=copied_bytes)
        # All to one other member: as many bytes at each adapter as a block to each.
        sending = replace(moved, snapshot_bytes_per_gpu=sent_bytes, copies=1)
        copy_s, send_s = _probe(copying, OWN_STORAGE).copy_s, _probe(sending, OWN_STORAGE).send_s
        rows.append((size, copied_bytes, sent_bytes, copy_s, send_s))
    columns = ["sharding_group", "copied_bytes", "sent_bytes", "copy_s", "send_s"]
    return pd.DataFrame(rows, columns=columns)


def saving_table() -> pd.DataFrame:
    """Compare saving in memory with asynchronous checkpoints, by file system and sharding group.

    The checkpoint is the best that a file system allows: all 16 replicas copy and write an equal
    part of one replica each, so that all servers write at once. REFT copies its share and the
    blocks for its parity, and computes the parity.

    A row per file system and sharding group: ``reft_s``, ``storage_s`` (by all replicas),
    ``one_writer_s`` (by the servers of one replica), and the factors between them.
    """
    rows = []
    for bandwidth, size in product(STORAGE_BANDWIDTHS, SHARDING_GROUPS):
        times = measured(reft(size))
        of_reft = times.copy_s, times.encode_s, times.copy_s + times.encode_s
        of_storage = (_checkpoint_s(bandwidth, writers) for writers in (REPLICAS, 1))
        rows.append((bandwidth, size, *of_reft, *of_storage))
    columns = ["storage_bandwidth", "sharding_group", "copy_s", "encode_s", "reft_s"]
    table = pd.DataFrame(rows, columns=[*columns, "storage_s", "one_writer_s"])
    return table.assign(
        factor=table.storage_s / table.reft_s, one_writer_factor=table.one_writer_s / table.reft_s
    )


def _checkpoint_s(bandwidth: str, writers: int) -> float:
    """Return the seconds until a checkpoint of one replica is on storage, copied and written.

    To the probe the writers are one group of as many servers, each with an equal part.
    """
    part_bytes = SNAPSHOT_BYTES / writers
    nothing_else: dict[str, Any] = {"peers": (), "copies": 0, "gradient_bytes_per_gpu": 0.0}
    transfers = StateTransfers(REPLICAS // writers, part_bytes, SNAPSHOT_BYTES, **nothing_else)
    times = _probe(transfers, bandwidth)
    return times.copy_s + times.persist_s


@cache
def _probe(transfers: StateTransfers, storage_bandwidth: str) -> StateTransferTimes:
    spec = load_preset(PLATFORM, **{"storage.write_bandwidth": storage_bandwidth})
    return cached_state_probe(spec, transfers)


def iteration_table(calibrated_on: str = CALIBRATED_ON) -> pd.DataFrame:
    """Predict every iteration of the published table.

    A row per mode and model: ``published_s``, ``predicted_s``, ``error`` of the iteration;
    ``published_overhead_s``, ``overhead_s`` and ``overhead_error`` (None where nothing is published
    as overhead: iterations with hidden snapshots were faster than without); and whether the row is
    the ``calibration``.
    """
    rows = []
    for line in read_rows("reft", "iterations"):
        mode, model, alone_s, published_s = line.values()
        overhead_s = _overhead_s(mode, alone_s, calibrated_on)
        known_s, predicted_s = published_s - alone_s, alone_s + overhead_s
        error = overhead_s / known_s - 1.0 if known_s > 0.0 else None
        fitted = model == calibrated_on and mode != "hidden"
        whole = published_s, predicted_s, predicted_s / published_s - 1.0
        rows.append((mode, model, *whole, known_s, overhead_s, error, fitted))
    columns = ["mode", "model", "published_s", "predicted_s", "error", "published_overhead_s"]
    return pd.DataFrame(rows, columns=[*columns, "overhead_s", "overhead_error", "calibration"])


def _overhead_s(mode: str, alone_s: float, calibrated_on: str) -> float:
    """Return by how many seconds snapshots lengthen an iteration, which takes so long alone.

    The mode is how a snapshot overlaps with training: not at all ("synchronous"), from a background
    thread ("one thread"), with a copy stream of its own ("thread and stream"), or in buckets where
    the GPU's link is idle ("hidden": hierarchical asynchronous snapshotting).
    """
    if mode == "hidden":
        return snapshot_delay_s(alone_s)
    (reference,) = (
        line
        for line in read_rows("reft", "iterations")
        if (line["mode"], line["model"]) == (mode, calibrated_on)
    )
    constant_s: float = reference["measured_s"] - reference["alone_s"]
    if mode == "thread and stream":
        return constant_s
    return constant_s * alone_s / float(reference["alone_s"])


_ROW = ["quantity", "setting", "published", "unit", "value"]


def changes_by_sharding(sharded: pd.DataFrame) -> pd.DataFrame:
    """Return what sharding takes off a snapshot's bytes and time, by what launching is taken to be.

    Copies that launching limits take at least `LAUNCH_S`. Or launching comes before the copy, and
    takes what one of the published snapshots leaves: of the whole state or of shards of four.
    """
    table = sharded.set_index("sharding_group")
    mib = table.bytes_per_gpu[4] / 2**20
    found: list[tuple[Any, ...]] = [("bytes of a snapshot", "sharded over 4", None, "MiB", mib)]
    left_s = table.published_s - table.copy_s
    tried = {
        "PCIe alone": table.copy_s,
        "launching limits, by shards of 4": table.copy_s.clip(lower=LAUNCH_S),
        "launching comes before, by the whole": table.copy_s + left_s[1],
        "launching comes before, by shards of 4": table.copy_s + left_s[4],
    }
    for size, (how, times) in product(table.index[1:], tried.items()):
        known = table.published_s[size] / table.published_s[1] - 1.0
        setting = f"over {size} of 11,471 MiB, {how}"
        change = times[size] / times[1] - 1
        found.append(("change of a snapshot's time", setting, known, "1", change))
    gained_s = table.published_s[1] - table.published_s[4]
    needed = (table.bytes_per_gpu[1] - table.bytes_per_gpu[4]) / gained_s / 1e9
    quantity = "bandwidth a GPU at which bytes alone give the published times"
    found.append((quantity, "sharded over 4", None, "GB/s", needed))
    return pd.DataFrame(found, columns=_ROW)


def sent_at_a_save(table: pd.DataFrame) -> pd.DataFrame:
    """Return what a GPU sends at a save with its optimizer's state whole, and sharded."""
    found: list[tuple[Any, ...]] = []
    for cell in table.itertuples():
        groups = f"groups of {cell.sharding_group}"
        for state, sent in (("whole", 0.0), ("sharded", cell.sent_bytes / 2**20)):
            setting = f"{groups}, optimizer {state}"
            found.append(("bytes sent at a save", setting, None, "MiB", sent))
        setting = f"{PLATFORM}, {groups}, optimizer sharded"
        found.append(("copy at a save", setting, None, "s", cell.copy_s))
        found.append(("sending parity at a save", setting, None, "s", cell.send_s))
    return pd.DataFrame(found, columns=_ROW)


def copies_of_shards(table: pd.DataFrame) -> pd.DataFrame:
    """Return the copy times of shards, by PCIe alone and as far as launching limits them."""
    launched = {f"no parity, launched in {LAUNCH_S:g} s": table.copy_s.clip(lower=LAUNCH_S)}
    return table.rename(columns={"copy_s": "no parity"}).assign(**launched)


def loading_table() -> pd.DataFrame:
    """Return how much faster memory loads than storage, by file system and readers."""
    found, load_s = [], measured(reft(REPLICAS)).load_s
    for bandwidth in STORAGE_BANDWIDTHS:
        storage = load_preset(PLATFORM, **{"storage.read_bandwidth": bandwidth}).storage
        assert storage is not None
        for readers, who in ((1, "one replica reads and passes on"), (REPLICAS, "all read")):
            read_s = readers * SNAPSHOT_BYTES * GPUS_PER_NODE / storage.read_bandwidth_bytes_per_s
            found.append((bandwidth, who, LOADING_FACTOR, read_s / load_s))
    return pd.DataFrame(found, columns=["bandwidth", "who", "known", "value"])
