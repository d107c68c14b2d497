"""What is published of REFT and FT-HSDP, in SI units."""

from __future__ import annotations

from typing import Literal

Mode = Literal["synchronous", "one thread", "thread and stream", "hidden"]
"""How a snapshot overlaps with training: not at all, from a background thread, with a copy stream
of its own, or in buckets where the GPU's link is idle (hierarchical asynchronous snapshotting)."""

MODES: tuple[Mode, ...] = ("synchronous", "one thread", "thread and stream", "hidden")

# Measurements of the authors of REFT (Wang et al. 2023, arXiv 2310.12670) on A800: seconds of an
# iteration without snapshots, and with one in each iteration.
ITERATIONS_S: dict[str, tuple[float, dict[Mode, float]]] = {
    "7B": (3.277, dict(zip(MODES, (19.51, 8.33, 4.30, 3.02), strict=True))),
    "13B": (3.580, dict(zip(MODES, (23.15, 10.17, 4.52, 3.38), strict=True))),
    "34B": (5.473, dict(zip(MODES, (39.30, 14.61, 6.41, 5.42), strict=True))),
}

SNAPSHOT_BYTES = 11_471 * 2**20
"""State of a rank whose snapshots were timed."""

SNAPSHOTS_S: dict[Mode, float] = dict(zip(MODES, (14.3, 3.58, 0.98, 0.46), strict=True))
"""Seconds of a snapshot of `SNAPSHOT_BYTES` a rank."""

SHARDED_SNAPSHOTS_S = {1: 0.46, 2: 0.51, 4: 0.354}
"""Seconds of a hidden snapshot by the size of the sharding group."""

SAVING_FACTOR = 14.0
"""REFT saves more than this many times as fast as the best asynchronous checkpoints."""

TIMES_TO_LOSS = {0: 2.34, 1: 7.79, 2: 12.37}
"""Time until state is lost with 10 %, by the tolerated losses of a group: 1,024 nodes in groups of
16, F(t) = 1 - exp(-(t / 50)^3)."""

EFFECTIVE_TIME = {600.0: 0.44, 180.0: 0.80}
"""Effective training time on O(100k) GPUs by seconds of a stall (FT-HSDP, arXiv 2602.00277)."""

FAILURES_PER_1000_NODE_DAYS = 6.50
"""RSC-1 (Kokolis et al. 2025, arXiv 2410.21680); nodes of eight GPUs."""
