"""How many spare domains keep the batch, if spares fail like all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.studies.base import Row, row_of
from faultline.experiments.studies.ntp import published
from faultline.experiments.studies.ntp.setting import PIPELINE_STAGES, StudyJob, study_job
from faultline.experiments.studies.ntp.streams import Purpose, stream
from faultline.experiments.studies.ntp.trace_study import trace_rules
from faultline.experiments.studies.ntp.traces import simulate_trace
from faultline.strategies.nonuniform.packing import Counts, packed, worst_first
from faultline.strategies.nonuniform.replica_plan import Scheme
from faultline.strategies.nonuniform.throughput import batch_sequences

MOST_SPARES = 256
"""Spare domains of the cluster that the traces are of."""


def failing_spares_table(repair: str, seeds: Sequence[int], count: int) -> pd.DataFrame:
    """Return a row a seed, trace and scheme: the spare domains that keep the batch, `spares`.

    Spares are part of the cluster: they fail at the rate of all GPUs, and are repaired like them.
    They come in whole replicas, as in `trace_study.trace_table`, where they never fail.
    """
    job = study_job()
    gpus = (job.domains + MOST_SPARES) * job.domain_gpus
    rules = replace(trace_rules(repair, 1), gpus=gpus)
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        for index in range(count):
            trace = simulate_trace(rules, stream(seed, Purpose.FAILING_SPARES, index))
            counts = trace.domain_counts(job.domains + MOST_SPARES, job.domain_gpus)
            peaks = counts[trace.local_peaks]
            rows += [
                {
                    "seed": seed,
                    "trace": index,
                    "scheme": scheme.value,
                    "spares": spares_needed(peaks, job, scheme),
                }
                for scheme in Scheme
            ]
    return pd.DataFrame(rows)


def spares_needed(counts: Counts, job: StudyJob, scheme: Scheme) -> int:
    """Return the fewest spare domains, in whole replicas, with which every state keeps the batch.

    Parameters
    ----------
    counts : array of int, shape (states, domains and spares)
        Failed GPUs of each domain; spares come last, and only as many as there are take part.
    job : StudyJob
        The job.
    scheme : Scheme
        What becomes of replicas with failed GPUs.

    Raises
    ------
    ValueError
        All spares together are not enough.
    """
    plans = job.plans(scheme)
    for domains in range(job.domains, counts.shape[1] + 1, PIPELINE_STAGES):
        worst = packed(worst_first(counts[:, :domains]), domains, PIPELINE_STAGES)
        sequences = batch_sequences(worst, domains // PIPELINE_STAGES, plans)
        if np.all(sequences >= job.batch):
            return domains - job.domains
    raise ValueError(f"{counts.shape[1] - job.domains} spare domains are not enough")


def failing_spare_rows(table: pd.DataFrame, repair: str) -> list[Row]:
    """Return the spare domains of each scheme beside the published ones."""
    rows = []
    for scheme, mine in table.groupby("scheme", sort=False):
        by_seed = mine.groupby("seed").spares
        setting = f"15 days, repair {repair}, whole replicas, spares fail too"
        for name, found in (
            ("mean of traces", by_seed.mean()),
            ("95th percentile", by_seed.quantile(0.95)),
            ("worst trace", by_seed.max()),
        ):
            known = published.SPARE_DOMAINS[str(scheme)] if repair == "5 days" else None
            where = f"{setting}, {name}"
            values = [float(value) for value in found]
            rows.append(row_of("spare_domains", str(scheme), where, known, values, "domains"))
    return rows
