"""Random failures of single GPUs: sets at one moment, and days of failures and repairs.

What they do to throughput, and how many spare domains make up for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    packing: bool,
    pod_replicas: int | None = None,
    resharded: bool = False,
) -> NDArray[np.float64]:
    """Return the share of throughput lost in each state.

    The states are rows of failed GPUs by domain; packing puts hit domains into the fewest replicas,
    of the whole job or within pods. Where replicas that are whole reshard for reduced ones, they
    may wait for all of it.
    """
    stages = job.layout.pipeline
    if packing:
        pods = range(0, job.domains, stages * (pod_replicas or job.domains))
        parts = np.split(failed, pods[1:], axis=1)
        worst = np.hstack([packed(worst_first(one), one.shape[1], stages) for one in parts])
    else:
        worst = unpacked(failed, stages)
    kept = batch_sequences(worst, job.replicas, job.plans(scheme)) / job.batch
    if resharded:
        kept = kept / (1.0 + step_slowdowns(job, scheme)[worst].max(axis=1, initial=0.0))
    return 1.0 - kept


_Cell = tuple[dict[str, Any], int, int]
"""Labels of a cell of a table, its failures, and the GPUs that each of them takes."""


def _by_fraction(job: StudyJob, fractions: Iterable[float]) -> list[_Cell]:
    gpus = job.domains * job.domain_gpus
    failures = {fraction: round(gpus * fraction) for fraction in fractions}
    return [
        ({"failed_fraction": fraction, "failed_gpus": count}, count, 1)
        for fraction, count in failures.items()
    ]


def _drawn(
    job: StudyJob, purpose: Purpose, cells: Sequence[_Cell], seeds: Sequence[int], sets: int
) -> Iterator[tuple[dict[str, Any], Counts]]:
    """Yield the sets of each seed and cell, with what they are."""
    for seed, (index, (labels, failures, radius)) in product(seeds, enumerate(cells)):
        rng = stream(seed, purpose, index)
        counts = random_counts(rng, sets, failures, job.domains, job.domain_gpus, radius)
        yield {"seed": seed, **labels}, counts


def pod_table(
    job: StudyJob, fractions: Sequence[float], seeds: Sequence[int], sets: int
) -> pd.DataFrame:
    """Return a row a seed, failed fraction, pod size and scheme: mean loss, packed within pods."""
    rows = []
    for drawn, counts in _drawn(job, Purpose.PODS, _by_fraction(job, fractions), seeds, sets):
        for replicas, scheme in product(POD_REPLICAS, Scheme):
            lost = lost_shares(counts, job, scheme, packing=True, pod_replicas=replicas)
            cell = {"pod_replicas": replicas, "scheme": scheme.value, "loss": lost.mean()}
            rows.append(drawn | cell)
    return pd.DataFrame(rows).drop(columns="failed_gpus")


def loss_table(
    job: StudyJob, fractions: Sequence[float], seeds: Sequence[int], sets: int
) -> pd.DataFrame:
    """Return a row a seed, failed fraction, scheme and packing: loss over random sets.

    Columns `loss`, `low` and `high` are the mean and the 5th and 95th percentile over the sets,
    `resharded` the mean with all resharding charged. All schemes see the same sets.
    """
    return _losses(job, Purpose.PLACEMENTS, _by_fraction(job, fractions), seeds, sets)


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
    return _losses(job, Purpose.BLASTS, cells, seeds, sets)


def _losses(
    job: StudyJob, purpose: Purpose, cells: Sequence[_Cell], seeds: Sequence[int], sets: int
) -> pd.DataFrame:
    rows = []
    for drawn, counts in _drawn(job, purpose, cells, seeds, sets):
        for scheme, packing in product(Scheme, (True, False)):
            shares, resharded = (
                lost_shares(counts, job, scheme, packing=packing, resharded=all_of_it)
                for all_of_it in (False, True)
            )
            low, high = np.percentile(shares, (5, 95))
            found = {"loss": shares.mean(), "low": low, "high": high}
            cell = {"scheme": scheme.value, "packed": packing, **found}
            rows.append({**drawn, **cell, "resharded": resharded.mean()})
    return pd.DataFrame(rows)


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
class TraceRules:
    """How GPUs fail and come back."""

    gpus: int  # GPUs of the cluster, all healthy at the start.
    duration_s: float = 15 * DAY_S  # Length of the trace.
    # Rate at which a healthy GPU fails; times between failures are exponential.
    failures_per_gpu_s: float = LLAMA3_FAILURES_PER_GPU_S
    hardware_share: float = 0.78  # Share of failures that need a repair of the hardware.
    # How long that takes, each value as likely as the others; else it is `SOFTWARE_REPAIR_S`.
    hardware_repair_s: tuple[float, ...] = (5 * DAY_S,)


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


def simulate_trace(rules: TraceRules, rng: np.random.Generator) -> Trace:
    """Run failures and repairs.

    Failures of the whole cluster come at the summed rate of all GPUs; one that would hit a GPU
    which is being repaired does not happen, so every healthy GPU fails at its own rate.
    """
    mean_s = 1 / (rules.gpus * rules.failures_per_gpu_s)
    back_s: dict[int, float] = {}
    events: list[tuple[float, int, int]] = []
    now_s = rng.exponential(mean_s)
    while now_s < rules.duration_s:
        gpu = int(rng.integers(rules.gpus))
        if back_s.get(gpu, 0.0) <= now_s:
            back_s[gpu] = now_s + _repair_s(rules, rng)
            events.append((now_s, gpu, 1))
            if back_s[gpu] < rules.duration_s:
                events.append((back_s[gpu], gpu, -1))
        now_s += rng.exponential(mean_s)
    events.sort()
    times_s, gpus, changes = zip(*events, strict=True) if events else ((), (), ())
    return Trace(
        np.array(times_s, dtype=np.float64),
        np.array(gpus, dtype=np.int64),
        np.array(changes, dtype=np.int16),
        rules.duration_s,
    )


def _repair_s(rules: TraceRules, rng: np.random.Generator) -> float:
    if rng.random() >= rules.hardware_share:
        return SOFTWARE_REPAIR_S
    return rules.hardware_repair_s[int(rng.integers(len(rules.hardware_repair_s)))]


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
            rows.append({**row, **_failed(trace), **_outcome_by_scheme(trace, job)})
    return pd.DataFrame(rows)


def course_table(repair: str, rate_factor: int, seed: int, count: int) -> pd.DataFrame:
    """Return the failed fraction over time: median, 5th and 95th percentile, and the first trace.

    Columns `day`, `median`, `low`, `high`, `one`.
    """
    # Points two hours apart.
    grid_s = np.linspace(0.0, trace_rules(repair, rate_factor).duration_s, 180 + 1)
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
    hit = worst_first(trace.domain_counts(job.domains, job.domain_gpus))
    worst = packed(hit, job.domains, PIPELINE_STAGES)
    peaks = hit[trace.local_peaks]
    result: dict[str, float] = {}
    for scheme in Scheme:
        plans = job.plans(scheme)
        loss = 1.0 - batch_sequences(worst, job.replicas, plans) / job.batch
        result[f"loss_{scheme.value}"] = trace.mean_over_time(loss)
        for column, step in (("spares", 1), ("replica_spares", PIPELINE_STAGES)):
            needed = spare_domains(peaks, job.domains, PIPELINE_STAGES, plans, job.batch, step=step)
            result[f"{column}_{scheme.value}"] = float(needed.max(initial=0))
    return result


MOST_SPARES = 256
"""Spare domains of the cluster that the traces are of."""


def failing_spares_table(repair: str, seeds: Sequence[int], count: int) -> pd.DataFrame:
    """Return a row a seed, trace and scheme: the spare domains that keep the batch, `spares`.

    Spares are part of the cluster: they fail at the rate of all GPUs, and are repaired like them.
    They come in whole replicas, as in `trace_table`, where they never fail.
    """
    job = study_job()
    gpus = (job.domains + MOST_SPARES) * job.domain_gpus
    rules = replace(trace_rules(repair, 1), gpus=gpus)
    rows: list[tuple[Any, ...]] = []
    for seed, index in product(seeds, range(count)):
        trace = simulate_trace(rules, stream(seed, Purpose.FAILING_SPARES, index))
        counts = trace.domain_counts(job.domains + MOST_SPARES, job.domain_gpus)
        peaks = counts[trace.local_peaks]
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
