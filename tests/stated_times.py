"""Times of moving snapshots about, as tests state them for which nothing is to be measured."""

from __future__ import annotations

SNAPSHOTS = {
    "times.snapshot_copy_s": 1.0,
    "times.snapshot_copy_interference_s": 0.0,
    "times.snapshot_send_s": 1.0,
    "times.snapshot_send_interference_s": 0.0,
    "times.snapshot_load_s": 1.0,
    "times.snapshot_rebuild_s": 10.0,
    "times.snapshot_fetch_s": 10.0,
}
SNAPSHOT_SETTINGS = [f"{key}={value_s}" for key, value_s in SNAPSHOTS.items()]
# On top of spare-sound: what its study states.
NOTHING_MEASURED = [
    "times.all_reduce_per_group_s=0.01",
    "times.checkpoint_write_s=58.8",
    "~restart.readers",
]
# A job with snapshots that take long, so that failures meet them.
PROTECTED = [
    "job.gpus=384",
    "job.parameter_bytes=1e11",
    "times.all_reduce_per_group_s=0.01",
    "times.checkpoint_write_s=30",
    "~restart.readers",
    "times.restart_s=300",
    "times.snapshot_copy_s=20",
    "times.snapshot_copy_interference_s=3",
    "times.snapshot_send_s=60",
    "times.snapshot_send_interference_s=2",
    "times.snapshot_load_s=7",
    "times.snapshot_rebuild_s=31",
    "times.snapshot_fetch_s=23",
    "protection.reft.sharding_group=4",
    "failures.hardware_share=0.6",
]
