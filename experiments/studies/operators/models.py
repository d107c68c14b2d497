"""The rows from closed forms and from phases of a recovery."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.studies.data import settings_of
from faultline.experiments.studies.operators.incidents import DAY_S
from faultline.experiments.studies.operators.jobs import loop_jobs
from faultline.experiments.studies.operators.loop import RSC_RATES, SAMPLE
from faultline.experiments.studies.stage import Stage
from faultline.strategies.closed_forms.ettr import (
    expected_ettr,
    expected_ettr_with_queue,
    job_failures_per_s,
)
from faultline.strategies.recovery import RESTART

SampleRow = tuple[str, str, str, str, int, float]
"""A row with the columns of `loop.SAMPLE`."""


def simulate(stage: Stage) -> pd.DataFrame:
    """Return all these rows, one per quantity."""
    with stage.step("closed forms", 1):
        rows = [*_forms(), *_restarts(), *_state_copies(), *_time_outs()]
    return pd.DataFrame(rows, columns=list(SAMPLE))


def _forms() -> Iterator[SampleRow]:
    """A by RSC's closed form: the jobs of the loop, and A3 with a minute in a queue."""
    for job in loop_jobs():
        if job.setting in ("A1", "A2", "A4", "A5"):
            failures_per_s = job_failures_per_s(job.nodes, RSC_RATES[job.rate])
            value = expected_ettr(failures_per_s, job.restart_s, job.interval_s)
            sweep = job.sweep.removesuffix(" in the queue")
            yield job.setting, "ETTR", "RSC's form", sweep, 0, value
    failures_per_s = job_failures_per_s(1000, RSC_RATES["RSC-1"])
    queued = expected_ettr_with_queue(failures_per_s, 300.0, 1800.0, 60.0, 40 * DAY_S)
    yield "A3", "ETTR", "RSC's form", "", 0, queued


def _restarts() -> Iterator[SampleRow]:
    """F1: restarts of Megatron-LM without loading."""
    for gpus in (32, 128, 256, 512, 1024):
        keys = {
            **settings_of("operators", "Megatron restart"),
            "recovery.warm_up_s": float(44.0 + 5.5 * np.log2(gpus / 64)),
            "model.name": "stated",
            "job.gpus": gpus,
            "job.groups": min(64, gpus),
        }
        value = recovery_prices(load_scenario("head-to-head", keys)).duration_s(RESTART)
        yield f"F1 Megatron restart {gpus:,} GPUs", "seconds", "phases", "", 0, value


# dlrover's GPT of 1.5B on 16 A100 (TP8): state with and without a distributed optimizer, the ranks
# that hold it, and Megatron-LM's time for the former on storage of 100 MB/s.
_STATE_BYTES = {"18 GB": (18e9, 8), "24 GB": (24e9, 16)}
_OF_18_GB_S = {"save": 151.0, "load": 205.0}
_MEMORY_BYTES_PER_S = {"3 GB/s": 3e9, "25 GB/s": 25e9}
"""A GPU's copy to host memory: pageable, and pinned over PCIe 4."""


def _state_copies() -> Iterator[SampleRow]:
    """H4: bytes over bandwidth."""
    for kind, measured_s in _OF_18_GB_S.items():
        storage = {"the pace of 18 GB": measured_s * 24e9 / 18e9, "100 MB/s": 24e9 / 100e6}
        for swept, value in storage.items():
            yield f"H4 Megatron {kind} 24 GB", "seconds", "bytes", swept, 0, value
        for size, (of_bytes, ranks) in _STATE_BYTES.items():
            for swept, rate in _MEMORY_BYTES_PER_S.items():
                value = of_bytes / ranks / rate
                yield f"H4 memory {kind} {size}", "seconds", "bytes", swept, 0, value


def _time_outs() -> Iterator[SampleRow]:
    """H5: time-outs between a fault and the next whole step, by defaults of torchft's repository.

    Silence counts as failure after 5 s. Operations, and the wait for groups that may join, time out
    after 60 s each. A process group takes 1 s (Gloo) to 10 s (NCCL with a host's GPUs).
    """
    yield "H5", "seconds", "time-outs", "no time-out runs out", 0, 5.0 + 1.0
    yield "H5", "seconds", "time-outs", "both run out", 0, 5.0 + 60.0 + 60.0 + 10.0
