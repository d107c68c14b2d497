"""Random failures of single GPUs: sets at one moment, and days of failures and repairs.

The module also computes their effect on throughput, and the spare domains that compensate it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.studies.ntp.setting import (
    GPUS,
    PIPELINE_STAGES,
    StreamPurpose,
    StudyJob,
    step_slowdowns,
    stream,
    study_job,
)
from faultline.experiments.studies.ntp.throughput import (
    Counts,
    batch_sequences,
    packed,
    unpacked,
    worst_first,
)
from faultline.strategies.schemes.ntp.replica_plan import Scheme
from numpy.typing import NDArray

FRACTIONS = tuple(round(0.00025 * number, 5) for number in range(17))
"""Failed fractions of the figure: 0 to 0.4 %."""
DOMAIN_SIZES = (8, 16, 32, 64, 72)
"""GPUs of a domain: the sizes that the paper compares."""


def random_counts(
    rng: np.random.Generator, sets: int, failures: int, domains: int, domain_gpus: int
) -> NDArray[np.int16]:
    """Return counts of failed GPUs by domain, uniform over the cluster, shape (sets, domains)."""
    gpus = domains * domain_gpus
    drawn = [rng.choice(gpus, failures, replace=False, shuffle=False) for _ in range(sets)]
    domain = np.array(drawn, dtype=np.int64).reshape(sets, failures) // domain_gpus
    cells = domain + domains * np.arange(sets)[:, np.newaxis]
    hits = np.bincount(cells.ravel(), minlength=sets * domains).reshape(sets, domains)
    return hits.astype(np.int16)


def lost_shares(
    failed: Counts,
    job: StudyJob,
    scheme: Scheme,
    *,
    in_order: bool = False,
    resharded: bool = False,
) -> NDArray[np.float64]:
    """Return the share of throughput lost in each state: a row of failed GPUs by domain.

    Hit domains are packed into the fewest replicas, unless domains are used `in_order`. With
    `resharded`, the full time counts as lost in which whole replicas reshard for reduced ones.
    """
    stages = job.layout.pipeline
    if in_order:
        worst = unpacked(failed, stages)
    else:
        worst = packed(worst_first(failed), job.domains, stages)
    kept = batch_sequences(worst, job.replicas, job.plans(scheme)) / job.batch
    if resharded:
        kept = kept / (1.0 + step_slowdowns(job, scheme)[worst].max(axis=1, initial=0.0))
    return 1.0 - kept


def loss_table(
    job: StudyJob, fractions: Sequence[float], seeds: Sequence[int], sets: int
) -> pd.DataFrame:
    """Return a row per seed, failed fraction, scheme and packing: loss over random sets.

    Columns `loss` and `high` are the mean and the 95th percentile over the sets, `resharded` the
    mean with the full time of resharding. All schemes have the same sets.
    """
    gpus, rows = job.domains * job.domain_gpus, []
    for seed, (index, fraction) in product(seeds, enumerate(fractions)):
        rng = stream(seed, StreamPurpose.PLACEMENTS, index)
        failed = round(gpus * fraction)
        counts = random_counts(rng, sets, failed, job.domains, job.domain_gpus)
        for scheme, in_order in product(Scheme, (False, True)):
            shares, resharded = (
                lost_shares(counts, job, scheme, in_order=in_order, resharded=in_full)
                for in_full in (False, True)
            )
            cell = (seed, fraction, scheme.value, not in_order)
            rows.append((*cell, shares.mean(), np.percentile(shares, 95), resharded.mean()))
    columns = ["seed", "failed_fraction", "scheme", "packed", "loss", "high", "resharded"]
    return pd.DataFrame(rows, columns=columns)


DAY_S = 86_400.0
SOFTWARE_REPAIR_S = 3 * 3_600.0
"""Down time of a GPU with intact hardware."""
LLAMA3_FAILURES_PER_GPU_S = 419 / (54 * DAY_S * 16_384)
"""Llama 3's rate (Grattafiori et al. 2024, table 5): 419 unexpected interruptions in 54 days of
pretraining on 16,384 GPUs, each counted as one GPU."""


@dataclass(frozen=True, slots=True)
class FailureTrace:
    """Failures and returns of GPUs in the order of time; arrays have the shape (events,)."""

    times_s: NDArray[np.float64]
    gpus: NDArray[np.int64]
    changes: NDArray[np.int16]  # 1 if the GPU fails, -1 if it returns.
    duration_s: float  # End of the trace.

    @property
    def failed(self) -> NDArray[np.int64]:
        """Number of failed GPUs after each event."""
        return np.asarray(np.cumsum(self.changes, dtype=np.int64))

    @property
    def local_peaks(self) -> NDArray[np.bool_]:
        """Whether a repair or the end follows the failure: fewer failures are never worse."""
        following = np.append(self.changes[1:], np.int16(-1))
        return np.asarray((self.changes == 1) & (following == -1))

    @property
    def lengths_s(self) -> NDArray[np.float64]:
        """Length of the state after each event."""
        return np.diff(self.times_s, append=self.duration_s)

    def domain_counts(self, domains: int, domain_gpus: int) -> NDArray[np.int16]:
        """Return the failed GPUs of each whole domain after each event, shape (events, domains)."""
        steps = np.zeros((self.times_s.size, domains), dtype=np.int16)
        domain = self.gpus // domain_gpus
        inside = domain < domains
        steps[np.flatnonzero(inside), domain[inside]] = self.changes[inside]
        return np.cumsum(steps, axis=0, dtype=np.int16)


def simulate_trace(
    rng: np.random.Generator,
    gpus: int,
    hardware_repair_s: Sequence[float] = (5 * DAY_S,),
    *,
    duration_s: float = 15 * DAY_S,
    failures_per_gpu_s: float = LLAMA3_FAILURES_PER_GPU_S,
    hardware_share: float = 0.78,
) -> FailureTrace:
    """Simulate failures and repairs of GPUs that are all healthy at the start.

    Failures of the whole cluster come at the summed rate of all GPUs. A failure on a GPU under
    repair is discarded, so every healthy GPU fails at its own rate. A share of the failures needs a
    hardware repair, which takes one of several equally likely times. All other repairs take
    `SOFTWARE_REPAIR_S`.
    """
    mean_s = 1 / (gpus * failures_per_gpu_s)
    back_s: dict[int, float] = {}
    events: list[tuple[float, int, int]] = []
    now_s = rng.exponential(mean_s)
    while now_s < duration_s:
        gpu = int(rng.integers(gpus))
        if back_s.get(gpu, 0.0) <= now_s:
            repair_s = SOFTWARE_REPAIR_S
            if rng.random() < hardware_share:
                repair_s = hardware_repair_s[int(rng.integers(len(hardware_repair_s)))]
            back_s[gpu] = now_s + repair_s
            events.append((now_s, gpu, 1))
            if back_s[gpu] < duration_s:
                events.append((back_s[gpu], gpu, -1))
        now_s += rng.exponential(mean_s)
    events.sort()
    times_s, failing, changes = zip(*events, strict=True) if events else ((), (), ())
    return FailureTrace(
        np.array(times_s, dtype=np.float64),
        np.array(failing, dtype=np.int64),
        np.array(changes, dtype=np.int16),
        duration_s,
    )


REPAIRS_DAYS: Mapping[str, tuple[float, ...]] = {
    "5 days": (5.0,),
    "3 days": (3.0,),
    "3 or 5 days": (3.0, 5.0),
}
"""Duration of a hardware repair, by name."""
RATE_FACTORS = (1, 3)
"""Failure rates over Llama 3's."""
THRESHOLD = 0.001
"""Failed fraction that the paper uses as threshold."""
MOST_SPARES = 256
"""Spare domains of the cluster: more than any trace needs."""
SPARES_REPAIR = "5 days"
"""Repair time of the traces for which spares are counted."""


def traces(
    repair: str,
    rate_factor: int,
    seed: int,
    count: int,
    gpus: int = GPUS,
    purpose: StreamPurpose = StreamPurpose.TRACE,
) -> Iterator[FailureTrace]:
    """Yield traces of a named repair time and a multiple of the rate; the same seeds for all."""
    rate = rate_factor * LLAMA3_FAILURES_PER_GPU_S
    repairs_s = [days * DAY_S for days in REPAIRS_DAYS[repair]]
    for index in range(count):
        rng = stream(seed, purpose, index)
        yield simulate_trace(rng, gpus, repairs_s, failures_per_gpu_s=rate)


def trace_table(seeds: Sequence[int], count: int) -> pd.DataFrame:
    """Return a row per setting, seed and trace.

    `share_above` is the share of time above `THRESHOLD`, `least_availability_tp32` and `_tp64` the
    share of whole domains at the worst moment.
    """
    rows: list[dict[str, Any]] = []
    for repair, factor, seed in product(REPAIRS_DAYS, RATE_FACTORS, seeds):
        for index, trace in enumerate(traces(repair, factor, seed, count)):
            above_s = trace.lengths_s[trace.failed > THRESHOLD * GPUS].sum()
            row = {"repair": repair, "rate_factor": factor, "seed": seed, "trace": index}
            row["share_above"] = float(above_s / trace.duration_s)
            row["peak_gpus"] = float(trace.failed.max(initial=0))
            for size in (32, 64):
                whole = trace.domain_counts(GPUS // size, size) == 0
                least = float(whole.mean(axis=1).min(initial=1.0))
                row[f"least_availability_tp{size}"] = least
            rows.append(row)
    return pd.DataFrame(rows)


def spares_table(seeds: Sequence[int], count: int) -> pd.DataFrame:
    """Return a row per seed, trace and scheme: the spare domains that keep the batch, `spares`.

    Spares come in whole replicas. `how` is one of two modes: spares never fail, or they fail and
    are repaired like all other GPUs.
    """
    job = study_job()
    domains = job.domains + MOST_SPARES
    rows: list[tuple[Any, ...]] = []
    for how, purpose, failing in (
        ("spares never fail", StreamPurpose.TRACE, job.domains),
        ("spares fail too", StreamPurpose.FAILING_SPARES, domains),
    ):
        for seed in seeds:
            drawn = traces(SPARES_REPAIR, 1, seed, count, failing * job.domain_gpus, purpose)
            for index, trace in enumerate(drawn):
                peaks = trace.domain_counts(domains, job.domain_gpus)[trace.local_peaks]
                for scheme in Scheme:
                    needed = spares_needed(peaks, job, scheme)
                    rows.append((how, seed, index, scheme.value, needed))
    return pd.DataFrame(rows, columns=["how", "seed", "trace", "scheme", "spares"])


def spares_needed(counts: Counts, job: StudyJob, scheme: Scheme) -> int:
    """Return the fewest spare domains, in whole replicas, that keep the batch in every state.

    States are rows of failed GPUs by domain, spares last. Too few spares are a ValueError.
    """
    plans = job.plans(scheme)
    for domains in range(job.domains, counts.shape[1] + 1, PIPELINE_STAGES):
        worst = packed(worst_first(counts[:, :domains]), domains, PIPELINE_STAGES)
        sequences = batch_sequences(worst, domains // PIPELINE_STAGES, plans)
        if np.all(sequences >= job.batch):
            return domains - job.domains
    raise ValueError(f"{counts.shape[1] - job.domains} spare domains are not enough")
