"""Throughput under random sets of failed GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.studies.ntp.resharding import step_slowdowns
from faultline.experiments.studies.ntp.setting import (
    GPUS,
    PACES,
    Purpose,
    StudyJob,
    stream,
    study_job,
)
from faultline.strategies.nonuniform.availability import available_fraction
from faultline.strategies.nonuniform.packing import Counts, packed, unpacked, worst_first
from faultline.strategies.nonuniform.replica_plan import Scheme
from faultline.strategies.nonuniform.throughput import batch_sequences
from numpy.typing import NDArray

FRACTIONS = tuple(round(0.00025 * number, 5) for number in range(17))
"""Failed fractions of the figure: 0 to 0.4 %."""
DOMAIN_SIZES = (8, 16, 32, 64, 72)
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


def _drawn_counts(
    job: StudyJob, purpose: Purpose, fractions: Iterable[float], seeds: Sequence[int], sets: int
) -> Iterator[tuple[dict[str, Any], Counts]]:
    """Yield the sets of each seed and failed fraction, with what they are."""
    gpus = job.domains * job.domain_gpus
    for seed, (index, fraction) in product(seeds, enumerate(fractions)):
        failures = round(gpus * fraction)
        rng = stream(seed, purpose, index)
        counts = random_counts(rng, sets, failures, job.domains, job.domain_gpus)
        yield {"seed": seed, "failed_fraction": fraction, "failed_gpus": failures}, counts


def pod_table(
    job: StudyJob, fractions: Sequence[float], seeds: Sequence[int], sets: int
) -> pd.DataFrame:
    """Return a row a seed, failed fraction, pod size and scheme: mean loss, packed within pods."""
    rows = []
    for drawn, counts in _drawn_counts(job, Purpose.PODS, fractions, seeds, sets):
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
    found = _drawn_counts(job, Purpose.PLACEMENTS, fractions, seeds, sets)
    return pd.DataFrame(drawn | row for drawn, counts in found for row in _losses(counts, job))


def pace_table(fraction: float, seeds: Sequence[int], sets: int) -> pd.DataFrame:
    """Return the packed loss of each scheme under every model of an iteration's time."""
    tables = []
    for pace in PACES:
        losses = loss_table(study_job(pace=pace), [fraction], seeds, sets)
        tables.append(losses[losses.packed].assign(pace=pace))
    return pd.concat(tables, ignore_index=True)


def blast_table(job: StudyJob, seeds: Sequence[int], sets: int) -> pd.DataFrame:
    """Return a row a seed, blast radius, scheme and packing: loss at a number of failures."""
    rows = []
    for seed, (index, radius) in product(seeds, enumerate(BLAST_RADII)):
        rng = stream(seed, Purpose.BLASTS, index)
        counts = random_counts(rng, sets, BLAST_FAILURES, job.domains, job.domain_gpus, radius)
        rows += [{"seed": seed, "blast_radius": radius, **row} for row in _losses(counts, job)]
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


def _losses(counts: Counts, job: StudyJob) -> Iterator[dict[str, Any]]:
    for scheme, packing in product(Scheme, (True, False)):
        shares, resharded = (
            lost_shares(counts, job, scheme, packing=packing, resharded=all_of_it)
            for all_of_it in (False, True)
        )
        low, high = np.percentile(shares, (5, 95))
        losses = {"loss": shares.mean(), "low": low, "high": high, "resharded": resharded.mean()}
        yield {"scheme": scheme.value, "packed": packing, **losses}
