"""The schemes in the training loop on scale-up domains of other sizes, through the same failures.

Larger domains leave less to the slower network, and lose more with each GPU that breaks. Each size
trains as its model of a step says, with its own resharding, and as many stages as the memory asks
for; the GPUs that fail, and when, are the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.ntp.loop import (
    REPAIR,
    modelled_settings,
    placed_loss,
    scenario_of,
)
from faultline.experiments.studies.ntp.setting import (
    BATCH_SEQUENCES,
    GPUS,
    StudyJob,
    job_that_fits,
)
from faultline.experiments.studies.ntp.traces import DAY_S, trace_rules, traces

SIZES = (8, 16, 32, 64, 72)
"""GPUs of a domain: those that the paper compares."""
SCHEMES = ("checkpoint", "dp-drop", "ntp", "ntp-pw")
"""The first has new hardware at once for all that breaks."""


def domain_settings(job: StudyJob) -> list[str]:
    """Return what a scenario of the study's job sets on domains of another size."""
    modelled = modelled_settings(job)
    cut = {
        "job.groups": job.replicas,
        "job.gpus": job.replicas * job.replica_gpus,
        "model.pipeline": job.layout.pipeline,
        "model.tensor": job.domain_gpus,
        "model.micro_batches": job.rules.local_batch,
        "failures.gpus_per_domain": job.domain_gpus,
        "strategy.ntp-pw.resharding_slowdown": modelled["strategy.ntp.resharding_slowdown"],
    }
    return [f"{key}={value}" for key, value in (modelled | cut).items()]


def domain_points(directory: Path, seeds: int, count: int) -> Iterator[Point]:
    """Yield 15 days of `count` traces a seed under every scheme, on domains of every size."""
    rules = trace_rules(REPAIR, 1)
    for seed in range(seeds):
        for index, trace in enumerate(traces(REPAIR, 1, seed, count)):
            for size in SIZES:
                job = job_that_fits(size)
                path = directory / f"domains-{size}-{seed}-{index}.csv"
                path.unlink(missing_ok=True)
                for scheme in SCHEMES:
                    settings = domain_settings(job)
                    scenario = scenario_of(trace, rules, path, scheme, *settings, job=job)
                    labels: dict[str, str | int | float]
                    labels = {"domain_gpus": size, "stages": job.layout.pipeline, "trace": index}
                    labels["placed"] = placed_loss(trace, job, scheme)
                    labels["batches_per_day"] = _batches_per_day(job)
                    yield Point(scenario, seed, labels=tuple(labels.items()))


def _batches_per_day(job: StudyJob) -> float:
    """Return how many full batches all GPUs of the study would train without failures.

    GPUs that make up no whole replica are idle.
    """
    return DAY_S / job.rules.healthy_s * job.batch / BATCH_SEQUENCES


def domain_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what runs of `domain_points` came to, a row a run.

    Columns: `domain_gpus`, `stages`, `strategy`, `seed`, `trace`; `goodput`, of a job of that size
    without failures; `degraded`, the share of the training time lost to smaller batches and
    resharding; `placed`, what the placement study finds of it; `batches_per_day`, of 1,024
    sequences; `restarts`; and `idle_gpus`, in no replica.
    """
    trained_s = runs.compute_s + runs.all_reduce_s + runs.degraded_s
    goodput = 1.0 / runs.time_to_train_ratio
    columns = ["domain_gpus", "stages", "strategy", "seed", "trace", "placed", "restarts"]
    return runs[columns].assign(
        goodput=goodput,
        degraded=runs.degraded_s / trained_s,
        batches_per_day=goodput * runs.batches_per_day,
        idle_gpus=[GPUS - _used(size) for size in runs.domain_gpus],
    )


def _used(domain_gpus: int) -> int:
    job = job_that_fits(domain_gpus)
    return job.replicas * job.replica_gpus
