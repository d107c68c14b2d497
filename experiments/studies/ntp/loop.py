"""The schemes in the training loop, through 15 days of failures, repairs and restarts.

The job of the study is a scenario, with traces as files. Other jobs are on scale-up domains of
other sizes, with the same failures. Larger domains use the slower network less, and lose more with
each broken GPU. Each size has its own step time, resharding, and stages as the memory needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.config.trace_file import write_trace
from faultline.experiments.figures.palette import title_of
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.data import read_rows
from faultline.experiments.studies.ntp import failures
from faultline.experiments.studies.ntp.iteration import iteration_time
from faultline.experiments.studies.ntp.setting import (
    B200,
    BATCH_SEQUENCES,
    SCHEMES,
    StudyJob,
    job_that_fits,
    resharding,
    study_job,
)
from faultline.simulator.failures.failure import Failure, Kind
from faultline.simulator.workload.known_models import NTP_480B
from faultline.strategies.schemes.ntp.replica_plan import Scheme

SCENARIO = "ntp-32k"
REPAIR = "3 or 5 days"
"""Repair time of hardware in the loop; one of `failures.REPAIRS_DAYS`."""
VARIANTS = {
    row["variant"]: str(row["settings"]).split("; ") if "settings" in row else []
    for row in read_rows("ntp", "variants")
}
"""Settings by variant: a scheme, and its mode after a comma."""
DOMAIN_SCHEMES = ("checkpoint", *SCHEMES)
"""Schemes of the domain runs; the first replaces all broken hardware at once."""


def variant_name(variant: str) -> str:
    """Return the display name of a variant: "NTP, resharding hidden"."""
    scheme, comma, how = variant.partition(", ")
    return ("all replaced" if scheme == "checkpoint" else title_of(scheme)) + comma + how


def modelled_settings(job: StudyJob | None = None) -> dict[str, float]:
    """Return values for the shipped scenario, by key, from the model of its job."""
    job = job or study_job()
    iteration = iteration_time(NTP_480B, job.layout, B200, 1, job.rules.local_batch)
    compute_s = iteration.total_s - iteration.gradient_sync_s
    resharded = resharding(job, job.plans(Scheme.NTP)[1].degree or job.domain_gpus - 1)
    of_step = resharded.iteration_slowdown / resharded.backward_slowdown
    return {
        "times.compute_s": compute_s,
        "times.all_reduce_s": iteration.gradient_sync_s,
        "model.least_tensor": job.rules.least_degree,
        "strategy.ntp.resharding_slowdown": resharded.backward_slowdown,
        "model.backward_share": of_step * iteration.total_s / compute_s,
    }


def failures_of(trace: failures.FailureTrace, job: StudyJob) -> list[Failure]:
    """Return the failures of a job's GPUs in a trace, each with its repair.

    A repair that ends after the trace gets the trace's length.
    """
    events = pd.DataFrame({"time_s": trace.times_s, "gpu": trace.gpus, "change": trace.changes})
    repair_s = events.groupby("gpu").time_s.shift(-1) - events.time_s
    events["repair_s"] = repair_s.fillna(trace.duration_s)
    of_job = []
    for event in events[(events.gpu < job.gpus) & (events.change == 1)].itertuples():
        group, is_short = event.gpu // job.replica_gpus, 1.5 * failures.SOFTWARE_REPAIR_S
        kind: Kind = "software" if event.repair_s < is_short else "hardware"
        groups = range(group, group + 1)
        of_job.append(Failure(event.time_s, "gpu", event.gpu, kind, kind, event.repair_s, groups))
    return of_job


def scenario_of(trace: failures.FailureTrace, path: Path, variant: str, *more: str) -> Scenario:
    """Return the job under one of the `VARIANTS`, with a trace from a file and `more` settings."""
    span = f"failures.trace_span_s={trace.duration_s}"
    of_trace = ["failures.model=trace", f"failures.trace={path}", span]
    scheme = f"strategy.name={variant.partition(', ')[0]}"
    return load_scenario(SCENARIO, [*of_trace, scheme, *VARIANTS[variant], *more])


def _points(
    directory: Path,
    seeds: int,
    count: int,
    jobs: Mapping[StudyJob, Sequence[str]],
    variants: Iterable[str],
) -> Iterator[Point]:
    """Yield 15 days of `count` traces per seed, at Llama 3's rate, for each job and variant.

    Each job has its settings of the scenario. Traces are files in the directory.
    """
    for seed in range(seeds):
        for index, trace in enumerate(failures.traces(REPAIR, 1, seed, count)):
            for job, more in jobs.items():
                path = directory / f"failures-{job.domain_gpus}-{seed}-{index}.csv"
                write_trace(failures_of(trace, job), path)
                of_job = (("domain_gpus", job.domain_gpus), ("stages", job.layout.pipeline))
                for variant in variants:
                    scenario = scenario_of(trace, path, variant, *more)
                    labels = (("variant", variant), ("trace", index), *of_job)
                    yield Point(scenario, seed, labels=labels)


def loop_points(directory: Path, seeds: int, count: int) -> Iterator[Point]:
    """Yield the runs of the study's job under every variant."""
    return _points(directory, seeds, count, {study_job(): ()}, VARIANTS)


def domain_points(directory: Path, seeds: int, count: int) -> Iterator[Point]:
    """Yield the runs under every scheme, on domains of every size."""
    jobs = {job: _domain_settings(job) for job in map(job_that_fits, failures.DOMAIN_SIZES)}
    return _points(directory, seeds, count, jobs, DOMAIN_SCHEMES)


def loop_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs of the loop with ``goodput``, ``degraded``, and ``how``, the variant's mode.

    Goodput is relative to the same time without failures and checkpoints. Degraded is the share of
    the training time lost to smaller batches and resharding.
    """
    trained_s = runs.compute_s + runs.all_reduce_s + runs.degraded_s
    return runs.assign(
        goodput=1.0 / runs.time_to_train_ratio,
        degraded=runs.degraded_s / trained_s,
        how=runs.variant.str.replace("^[^,]*", "", regex=True),
    )


def domain_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return `loop_table` with ``batches_per_day``, of 1,024 sequences."""
    table = loop_table(runs)
    full_batches = [
        failures.DAY_S / job.rules.healthy_s * job.batch / BATCH_SEQUENCES
        for job in map(job_that_fits, runs.domain_gpus)
    ]
    return table.assign(batches_per_day=table.goodput * full_batches)


def _domain_settings(job: StudyJob) -> list[str]:
    """Return the settings of a scenario of the study's job on domains of another size."""
    shape = {
        "job.groups": job.replicas,
        "job.gpus": job.gpus,
        "model.pipeline": job.layout.pipeline,
        "model.tensor": job.domain_gpus,
        "model.micro_batches": job.rules.local_batch,
        "failures.gpus_per_domain": job.domain_gpus,
    }
    return [f"{key}={value}" for key, value in (modelled_settings(job) | shape).items()]
