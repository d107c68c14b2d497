"""Random failures of single GPUs: sets at one moment, and days of failures and repairs.

What they do to throughput, and how many spare domains make up for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.studies.ntp.setting import (
    GPUS,
    PACES,
    PIPELINE_STAGES,
    Purpose,
    StudyJob,
    step_slowdowns,
    stream,
    study_job,
)
from faultline.strategies.nonuniform.replica_plan import Scheme
from faultline.strategies.nonuniform.throughput import (
    Counts,
    available_fraction,
    batch_sequences,
    packed,
    spare_domains,
    unpacked,
    worst_first,
)
from numpy.typing import NDArray

FRACTIONS = tuple(round(0.00025 * number, 5) for number in range(17))
"""Failed fractions of the figure: 0 to 0.4 %."""
DOMAIN_SIZES = (8, 16, 32, 64, 72)
"""GPUs of a domain: those that the paper compares."""
BLAST_RADII = (1, 2, 4, 8, 16)
POD_REPLICAS = (1, 4, 16, 64, 128)
"""Replicas of 256 GPUs in a pod; one is no packing, 128 are the whole job."""
BLAST_FAILURES = 33
"""0.1 % of the GPUs, if each failure takes one."""


def random_counts(
    rng: np.random.Generator,
    sets: int,
    failures: int,
    domains: int,
    domain_gpus: int,
    blast_radius: int = 1,
) -> NDArray[np.int16]:
    """Draw sets of failures, uniform over the cluster; failed GPUs, shape (sets, domains).

    A failure takes a blast radius of GPUs, which divides a domain: neighbours in one domain, no GPU
    twice.
    """
    blocks_per_domain = domain_gpus // blast_radius
    blocks = domains * blocks_per_domain
    drawn = [rng.choice(blocks, failures, replace=False, shuffle=False) for _ in range(sets)]
    domain = np.array(drawn, dtype=np.int64).reshape(sets, failures) // blocks_per_domain
    cells = domain + domains * np.arange(sets)[:, np.newaxis]
    hits = np.bincount(cells.ravel(), minlength=sets * domains).reshape(sets, domains)
    return (blast_radius * hits).astype(np.int16)


def lost_shares(
    failed: Counts,
    job: StudyJob,
    scheme: Scheme,
    *,
    pod_replicas: int | None = None,
    resharded: bool = False,
) -> NDArray[np.float64]:
    """Return the share of throughput lost in each state: a row of failed GPUs by domain.

    Hit domains are packed into the fewest replicas, within pods or the whole job (None); a pod of
    one replica is no packing. If whole replicas reshard for reduced ones (`resharded`), they wait
    for all of it.
    """
    stages = job.layout.pipeline
    if pod_replicas == 1:
        worst = unpacked(failed, stages)
    else:
        pods = range(0, job.domains, stages * (pod_replicas or job.domains))
        parts = np.split(failed, pods[1:], axis=1)
        worst = np.hstack([packed(worst_first(one), one.shape[1], stages) for one in parts])
    kept = batch_sequences(worst, job.replicas, job.plans(scheme)) / job.batch
    if resharded:
        kept = kept / (1.0 + step_slowdowns(job, scheme)[worst].max(axis=1, initial=0.0))
    return 1.0 - kept


_Cell = tuple[dict[str, Any], int, int]
"""Labels of a cell of a table, its failures, and the GPUs that each of them takes."""


def _by_fraction(job: StudyJob, fractions: Iterable[float]) -> list[_Cell]:
    gpus = job.domains * job.domain_gpus
    counts = [(fraction, round(gpus * fraction)) for fraction in fractions]
    return [({"failed_fraction": one, "failed_gpus": count}, count, 1) for one, count in counts]


def _losses(
    job: StudyJob,
    purpose: Purpose,
    cells: Sequence[_Cell],
    seeds: Sequence[int],
    sets: int,
    pods: Sequence[int | None] = (None, 1),
) -> pd.DataFrame:
    """Return a row a seed, cell, scheme and pod size, with the columns of `loss_table`."""
    rows = []
    for seed, (index, (labels, failures, radius)) in product(seeds, enumerate(cells)):
        rng = stream(seed, purpose, index)
        counts = random_counts(rng, sets, failures, job.domains, job.domain_gpus, radius)
        for scheme, pod in product(Scheme, pods):
            shares, resharded = (
                lost_shares(counts, job, scheme, pod_replicas=pod, resharded=all_of_it)
                for all_of_it in (False, True)
            )
            low, high = np.percentile(shares, (5, 95))
            found = {"loss": shares.mean(), "low": low, "high": high, "resharded": resharded.mean()}
            cell = {"seed": seed, **labels, "scheme": scheme.value, "packed": pod != 1}
            rows.append({**cell, **found, "pod_replicas": pod})
    return pd.DataFrame(rows)


def pod_table(
    job: StudyJob, fractions: Sequence[float], seeds: Sequence[int], sets: int
) -> pd.DataFrame:
    """Return a row a seed, failed fraction, pod size and scheme: mean loss, packed within pods."""
    cells = _by_fraction(job, fractions)
    table = _losses(job, Purpose.PODS, cells, seeds, sets, POD_REPLICAS)
    table = table.sort_values(["seed", "failed_fraction", "pod_replicas"], kind="stable")
    return table[["seed", "failed_fraction", "pod_replicas", "scheme", "loss"]]


def loss_table(
    job: StudyJob, fractions: Sequence[float], seeds: Sequence[int], sets: int
) -> pd.DataFrame:
    """Return a row a seed, failed fraction, scheme and packing: loss over random sets.

    Columns `loss`, `low` and `high` are the mean and the 5th and 95th percentile over the sets,
    `resharded` the mean with all resharding charged. All schemes see the same sets.
    """
    table = _losses(job, Purpose.PLACEMENTS, _by_fraction(job, fractions), seeds, sets)
    return table.drop(columns="pod_replicas")


def pace_table(fraction: float, seeds: Sequence[int], sets: int) -> pd.DataFrame:
    """Return the packed loss of each scheme under every model of an iteration's time."""
    tables = (
        loss_table(study_job(pace=pace), [fraction], seeds, sets).assign(pace=pace)
        for pace in PACES
    )
    return pd.concat([table[table.packed] for table in tables], ignore_index=True)


def blast_table(job: StudyJob, seeds: Sequence[int], sets: int) -> pd.DataFrame:
    """Return `loss_table` by the GPUs that a failure takes, at a number of failures."""
    cells: list[_Cell] = [({"blast_radius": r}, BLAST_FAILURES, r) for r in BLAST_RADII]
    return _losses(job, Purpose.BLASTS, cells, seeds, sets).drop(columns="pod_replicas")


def availability_table(fractions: Iterable[float], seeds: Sequence[int], sets: int) -> pd.DataFrame:
    """Return a row a seed, domain size and failed fraction: whole domains by formula and by draw.

    `share` is the mean over the sets, `standard_error` that of the mean.
    """
    rows = []
    cells = list(enumerate(product(DOMAIN_SIZES, fractions)))
    for seed, (index, (size, fraction)) in product(seeds, cells):
        domains, failures = GPUS // size, round(GPUS * fraction)
        rng = stream(seed, Purpose.AVAILABILITY, index)
        share = (random_counts(rng, sets, failures, domains, size) == 0).mean(axis=1)
        formula = available_fraction(domains * size, size, failures)
        error = share.std(ddof=1) / np.sqrt(sets)
        rows.append((seed, size, fraction, formula, share.mean(), error))
    columns = ["seed", "domain_gpus", "failed_fraction", "formula", "share", "standard_error"]
    return pd.DataFrame(rows, columns=columns)


DAY_S = 86_400.0
SOFTWARE_REPAIR_S = 3 * 3_600.0
"""How long a GPU is gone whose hardware is whole."""
LLAMA3_FAILURES_PER_GPU_S = 419 / (54 * DAY_S * 16_384)
"""Llama 3's rate (Grattafiori et al. 2024, table 5): 419 unexpected interruptions in 54 days of
pretraining on 16,384 GPUs, each taken for one GPU."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Events in the order of time."""

    times_s: NDArray[np.float64]  # When a GPU fails or comes back (shape (events,)).
    gpus: NDArray[np.int64]  # Which one (shape (events,)).
    changes: NDArray[np.int16]  # 1 if it fails, -1 if it comes back (shape (events,)).
    duration_s: float  # When the trace ends.

    @property
    def failed(self) -> NDArray[np.int64]:
        """Failed GPUs from each event on, shape (events,)."""
        total: NDArray[np.int64] = np.cumsum(self.changes, dtype=np.int64)
        return total

    @property
    def local_peaks(self) -> NDArray[np.bool_]:
        """Whether the next event is a repair, or there is none, shape (events,).

        States in which less has failed than in the one before or behind are no worse than it.
        """
        following = np.append(self.changes[1:], np.int16(-1))
        return np.asarray((self.changes == 1) & (following == -1))

    @property
    def lengths_s(self) -> NDArray[np.float64]:
        """How long the state after each event lasts, shape (events,)."""
        return np.diff(self.times_s, append=self.duration_s)

    def mean_over_time(self, values: NDArray[np.float64]) -> float:
        """Return the mean over time of a value of each state that is 0 before any event."""
        return float(float(values @ self.lengths_s) / self.duration_s)

    def domain_counts(self, domains: int, domain_gpus: int) -> NDArray[np.int16]:
        """Return the failed GPUs of each domain after each event, shape (events, domains).

        GPUs beyond the last whole domain belong to none.
        """
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
) -> Trace:
    """Run failures and repairs of GPUs that are all healthy at the start.

    Failures of the whole cluster come at the summed rate of all GPUs; one that would hit a GPU
    which is being repaired does not happen, so every healthy GPU fails at its own rate. A share of
    the failures needs a repair of the hardware, which takes one of some times, each as likely as
    the others; all other repairs take `SOFTWARE_REPAIR_S`.
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
    return Trace(
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
"""How long a hardware repair takes, by name."""
RATE_FACTORS = (1, 3)
"""Failure rates over Llama 3's."""
THRESHOLD = 0.001
"""Failed fraction that the paper counts the time above."""
MOST_SPARES = 256
"""Spare domains of the cluster whose spares fail, too."""


def traces(
    repair: str,
    rate_factor: int,
    seed: int,
    count: int,
    gpus: int = GPUS,
    purpose: Purpose = Purpose.TRACE,
) -> Iterator[Trace]:
    """Yield traces of a named repair time and a multiple of the rate; the same seeds for all."""
    rate = rate_factor * LLAMA3_FAILURES_PER_GPU_S
    repairs_s = [days * DAY_S for days in REPAIRS_DAYS[repair]]
    for index in range(count):
        rng = stream(seed, purpose, index)
        yield simulate_trace(rng, gpus, repairs_s, failures_per_gpu_s=rate)


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
            rows.append({**row, **_failed(trace), **_outcome_by_scheme(trace, job)})
    return pd.DataFrame(rows)


def _failed(trace: Trace) -> dict[str, float]:
    failed = trace.failed
    above_s = trace.lengths_s[failed > THRESHOLD * GPUS].sum()
    result = {
        "share_above": float(above_s / trace.duration_s),
        "peak_gpus": float(failed.max(initial=0)),
        "mean_fraction": trace.mean_over_time(failed / GPUS),
    }
    for size in (32, 64):
        whole = trace.domain_counts(GPUS // size, size) == 0
        result[f"least_availability_tp{size}"] = float(whole.mean(axis=1).min(initial=1.0))
    return result


def _outcome_by_scheme(trace: Trace, job: StudyJob) -> dict[str, float]:
    counts = trace.domain_counts(job.domains, job.domain_gpus)
    peaks = worst_first(counts)[trace.local_peaks]
    result: dict[str, float] = {}
    for scheme in Scheme:
        plans = job.plans(scheme)
        result[f"loss_{scheme.value}"] = trace.mean_over_time(lost_shares(counts, job, scheme))
        for column, step in (("spares", 1), ("replica_spares", PIPELINE_STAGES)):
            needed = spare_domains(peaks, job.domains, PIPELINE_STAGES, plans, job.batch, step=step)
            result[f"{column}_{scheme.value}"] = float(needed.max(initial=0))
    return result


def course_table(repair: str, rate_factor: int, seed: int, count: int) -> pd.DataFrame:
    """Return the failed fraction over time: median, 5th and 95th percentile, and the first trace.

    Columns `day`, `median`, `low`, `high`, `one`.
    """
    # Points two hours apart.
    grid_s = 7_200.0 * np.arange(15 * 12 + 1)
    courses = []
    for trace in traces(repair, rate_factor, seed, count):
        failed = np.concatenate(([0], trace.failed))
        courses.append(failed[np.searchsorted(trace.times_s, grid_s, side="right")] / GPUS)
    low, median, high = np.percentile(courses, (5, 50, 95), axis=0)
    found = {"day": grid_s / DAY_S, "median": median, "low": low, "high": high, "one": courses[0]}
    return pd.DataFrame(found)


def failing_spares_table(repair: str, seeds: Sequence[int], count: int) -> pd.DataFrame:
    """Return a row a seed, trace and scheme: the spare domains that keep the batch, `spares`.

    Spares are part of the cluster: they fail at the rate of all GPUs, and are repaired like them.
    They come in whole replicas, as in `trace_table`, where they never fail.
    """
    job = study_job()
    domains = job.domains + MOST_SPARES
    rows: list[tuple[Any, ...]] = []
    for seed in seeds:
        found = traces(repair, 1, seed, count, domains * job.domain_gpus, Purpose.FAILING_SPARES)
        for index, trace in enumerate(found):
            peaks = trace.domain_counts(domains, job.domain_gpus)[trace.local_peaks]
            rows += [(seed, index, each.value, spares_needed(peaks, job, each)) for each in Scheme]
    return pd.DataFrame(rows, columns=["seed", "trace", "scheme", "spares"])


def spares_needed(counts: Counts, job: StudyJob, scheme: Scheme) -> int:
    """Return the fewest spare domains, in whole replicas, with which every state keeps the batch.

    States are rows of failed GPUs by domain, spares last; it is a ValueError if all spares together
    are not enough.
    """
    plans = job.plans(scheme)
    for domains in range(job.domains, counts.shape[1] + 1, PIPELINE_STAGES):
        worst = packed(worst_first(counts[:, :domains]), domains, PIPELINE_STAGES)
        sequences = batch_sequences(worst, domains // PIPELINE_STAGES, plans)
        if np.all(sequences >= job.batch):
            return domains - job.domains
    raise ValueError(f"{counts.shape[1] - job.domains} spare domains are not enough")
