"""What 15 days of failures and repairs do to the job, and how many spare domains they call for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.studies.ntp.setting import GPUS, PIPELINE_STAGES, StudyJob, study_job
from faultline.experiments.studies.ntp.streams import Purpose, stream
from faultline.experiments.studies.ntp.traces import (
    DAY_S,
    LLAMA3_FAILURES_PER_GPU_S,
    Trace,
    TraceRules,
    simulate_trace,
)
from faultline.strategies.nonuniform.packing import packed, worst_first
from faultline.strategies.nonuniform.replica_plan import Scheme
from faultline.strategies.nonuniform.throughput import batch_sequences, spare_domains

REPAIRS_DAYS: Mapping[str, tuple[float, ...]] = {
    "5 days": (5.0,),
    "3 days": (3.0,),
    "3 or 5 days": (3.0, 5.0),
}
"""How long a hardware repair takes, by name."""
RATE_FACTORS = (1, 3)
"""Failure rates over Llama 3's."""
THRESHOLD = 0.001
"""Failed fraction that the paper counts the time above."""
GRID_STEPS = 180
"""Points of a trace in the figure: two hours apart."""
AVAILABILITY_DOMAINS = (32, 64)


def trace_rules(repair: str, rate_factor: int) -> TraceRules:
    """Return how GPUs fail and come back at a named repair time and a multiple of the rate."""
    return TraceRules(
        GPUS,
        failures_per_gpu_s=rate_factor * LLAMA3_FAILURES_PER_GPU_S,
        hardware_repair_s=tuple(days * DAY_S for days in REPAIRS_DAYS[repair]),
    )


def traces(repair: str, rate_factor: int, seed: int, count: int) -> Iterator[Trace]:
    """Yield traces of a setting; the same seeds whatever the setting."""
    rules = trace_rules(repair, rate_factor)
    for index in range(count):
        yield simulate_trace(rules, stream(seed, Purpose.TRACE, index))


def trace_table(seeds: Sequence[int], count: int) -> pd.DataFrame:
    """Return a row a setting, seed and trace: failed GPUs, availability, loss and spare domains.

    Columns: `share_above` (of time, above `THRESHOLD`), `peak_gpus`, `mean_fraction`,
    `least_availability_tp32` and `..._tp64` (of whole domains, at the worst moment),
    `loss_<scheme>` (mean over time, packed), `spares_<scheme>` (domains, at the worst moment, one
    at a time), `replica_spares_<scheme>` (in whole replicas).
    """
    job = study_job()
    rows: list[dict[str, Any]] = []
    for repair, factor, seed in product(REPAIRS_DAYS, RATE_FACTORS, seeds):
        for index, trace in enumerate(traces(repair, factor, seed, count)):
            row = {"repair": repair, "rate_factor": factor, "seed": seed, "trace": index}
            rows.append({**row, **_failed(trace), **_what_schemes_make_of_it(trace, job)})
    return pd.DataFrame(rows)


def course_table(repair: str, rate_factor: int, seed: int, count: int) -> pd.DataFrame:
    """Return the failed fraction over time: median, 5th and 95th percentile, and the first trace.

    Columns `day`, `median`, `low`, `high`, `one`.
    """
    grid_s = np.linspace(0.0, trace_rules(repair, rate_factor).duration_s, GRID_STEPS + 1)
    courses = []
    for trace in traces(repair, rate_factor, seed, count):
        failed = np.concatenate(([0], trace.failed))
        courses.append(failed[np.searchsorted(trace.times_s, grid_s, side="right")] / GPUS)
    low, median, high = np.percentile(courses, (5, 50, 95), axis=0)
    return pd.DataFrame(
        {"day": grid_s / DAY_S, "median": median, "low": low, "high": high, "one": courses[0]}
    )


def _failed(trace: Trace) -> dict[str, float]:
    failed = trace.failed
    result = {
        "share_above": trace.share_of_time(failed > THRESHOLD * GPUS),
        "peak_gpus": float(failed.max(initial=0)),
        "mean_fraction": trace.mean_over_time(failed / GPUS, 0.0),
    }
    for size in AVAILABILITY_DOMAINS:
        whole = trace.domain_counts(GPUS // size, size) == 0
        result[f"least_availability_tp{size}"] = float(whole.mean(axis=1).min(initial=1.0))
    return result


def _what_schemes_make_of_it(trace: Trace, job: StudyJob) -> dict[str, float]:
    hit = worst_first(trace.domain_counts(job.domains, job.domain_gpus))
    worst = packed(hit, job.domains, PIPELINE_STAGES)
    peaks = hit[trace.local_peaks]
    result: dict[str, float] = {}
    for scheme in Scheme:
        plans = job.plans(scheme)
        loss = 1.0 - batch_sequences(worst, job.replicas, plans) / job.batch
        result[f"loss_{scheme.value}"] = trace.mean_over_time(loss, 0.0)
        for column, step in (("spares", 1), ("replica_spares", PIPELINE_STAGES)):
            needed = spare_domains(peaks, job.domains, PIPELINE_STAGES, plans, job.batch, step=step)
            result[f"{column}_{scheme.value}"] = float(needed.max(initial=0))
    return result
