"""The rows that come from closed forms, phases of a recovery and Oobleck's artifact."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.studies.data import settings_of
from faultline.experiments.studies.oobleck_artifact import losses
from faultline.experiments.studies.operators.incidents import HOUR_S, MINUTE_S
from faultline.experiments.studies.operators.loop import RSC_RATES, SAMPLE
from faultline.experiments.studies.stage import Stage
from faultline.strategies.closed_forms.ettr import (
    expected_ettr,
    expected_ettr_with_queue,
    job_failures_per_s,
)
from faultline.strategies.recovery import RESTART
from faultline.strategies.takeover.published_oobleck import ARTIFACT_COSTS, SAMPLES_PER_S

SampleRow = tuple[str, str, str, str, int, float]
"""A row with the columns of `loop.SAMPLE`."""


def simulate(stage: Stage) -> pd.DataFrame:
    """Return all of them, a row per quantity."""
    with stage.step("closed forms", 1):
        rows = [*_forms(), *_moves(), *_removals(), *_state_copies(), *_time_outs()]
    return pd.DataFrame(rows, columns=list(SAMPLE))


def _forms() -> Iterator[SampleRow]:
    """A by RSC's closed form."""
    for setting, gpus, rate, interval_min, startup_min in (
        ("A1", 16_000, "RSC-1", 60, 5),
        ("A2", 16_000, "RSC-1", 5, 5),
        ("A4", 100_000, "RSC-2", 2, 2),
    ):
        failures_per_s = job_failures_per_s(gpus / 8, RSC_RATES[rate])
        value = expected_ettr(failures_per_s, startup_min * MINUTE_S, interval_min * MINUTE_S)
        yield setting, "ETTR", "RSC's form", "", 0, value
    queued = expected_ettr_with_queue(
        job_failures_per_s(1000, RSC_RATES["RSC-1"]),
        5 * MINUTE_S,
        30 * MINUTE_S,
        MINUTE_S,
        40 * 24 * HOUR_S,
    )
    yield "A3", "ETTR", "RSC's form", "", 0, queued
    for gpus, queue_min in product((2048, 4096), (0, 10)):
        failures_per_s = job_failures_per_s(gpus / 8, RSC_RATES["RSC-1"])
        value = expected_ettr(failures_per_s, (5 + queue_min) * MINUTE_S, HOUR_S)
        yield "A5", "ETTR", "RSC's form", f"{gpus:,} GPUs, {queue_min} min", 0, value


def _moves() -> Iterator[SampleRow]:
    """F1: standbys that take a role, and restarts without loading."""
    move, restart = (settings_of("operators", part) for part in ("move", "Megatron restart"))
    for gpus in (32, 128, 256, 512, 1024):
        warm_up_s = 44.0 + 5.5 * np.log2(gpus / 64)
        for kind, keys in (
            ("unplanned", move),
            ("planned", {**move, "recovery.detect_s": 0.0}),
            ("Megatron restart", {**restart, "recovery.warm_up_s": float(warm_up_s)}),
        ):
            job = {"model.name": "stated", "job.gpus": gpus, "job.groups": min(64, gpus)}
            scenario = load_scenario("head-to-head", {**job, **keys})
            value = recovery_prices(scenario).duration_s(RESTART)
            yield f"F1 {kind} {gpus:,} GPUs", "seconds", "phases", "", 0, value


def _removals() -> Iterator[SampleRow]:
    """G4: Oobleck's artifact, 6.7B."""
    steps_s = [1024 / samples_per_s for samples_per_s in SAMPLES_PER_S]
    gaps = {"6 h": 6 * HOUR_S, "3 h": 3 * HOUR_S, "1 h": HOUR_S, "30 min": 1800, "601.2 s": 601.2}
    for name, gap_s in gaps.items():
        booked = losses.simulate("oobleck", ARTIFACT_COSTS["6.7B"], steps_s, gap_s)
        yield f"G4 {name}", "steps", "removals", "", 0, float(booked.steps)


# dlrover's GPT of 1.5B on 16 A100 (TP8): state with and without a distributed optimizer, the ranks
# that hold it, and what Megatron-LM took for the former on storage of 100 MB/s.
_STATE_BYTES = {"18 GB": (18e9, 8), "24 GB": (24e9, 16)}
_STORAGE_BYTES_PER_S = 100e6
_OF_18_GB_S = {"save": 151.0, "load": 205.0}
_MEMORY_BYTES_PER_S = (3e9, 25e9)
"""A GPU's copy to the memory of its host: pageable, and pinned over PCIe 4."""


def _state_copies() -> Iterator[SampleRow]:
    """H4: bytes over bandwidth."""
    for kind, measured_s in _OF_18_GB_S.items():
        setting = f"H4 Megatron {kind} 24 GB"
        by_pace_s = measured_s * _STATE_BYTES["24 GB"][0] / _STATE_BYTES["18 GB"][0]
        yield setting, "seconds", "bytes", "the pace of 18 GB", 0, by_pace_s
        by_storage_s = _STATE_BYTES["24 GB"][0] / _STORAGE_BYTES_PER_S
        yield setting, "seconds", "bytes", "100 MB/s", 0, by_storage_s
        for (name, (of_bytes, ranks)), rate in product(_STATE_BYTES.items(), _MEMORY_BYTES_PER_S):
            swept = f"{rate / 1e9:.0f} GB/s"
            value = of_bytes / ranks / rate
            yield f"H4 memory {kind} {name}", "seconds", "bytes", swept, 0, value


# Defaults of torchft's repository: silence that counts as death, the time-out of operations, the
# wait for groups that may join. A process group takes 1 s (Gloo) to 10 s (NCCL with a host's GPUs).
_SILENCE_S, _OPERATION_S, _JOIN_S = 5.0, 60.0, 60.0


def _time_outs() -> Iterator[SampleRow]:
    """H5: time-outs between a fault and the next whole step."""
    for swept, time_outs_s, group_s in (
        ("no time-out runs out", 0.0, 1.0),
        ("both run out", _OPERATION_S + _JOIN_S, 10.0),
    ):
        yield "H5", "seconds", "time-outs", swept, 0, _SILENCE_S + time_outs_s + group_s
