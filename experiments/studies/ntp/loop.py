"""The schemes in the training loop, through 15 days of failures, repairs and restarts.

The job of the study as a scenario, with traces as files that it can read: restarts, repeated work,
and what is left.

The same on scale-up domains of other sizes, through the same failures. Larger domains leave less to
the slower network, and lose more with each GPU that breaks. Each size trains as its model of a step
says, with its own resharding, and as many stages as the memory asks for; the GPUs that fail, and
when, are the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.config.trace_file import write_trace
from faultline.experiments.figures.palette import title_of
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.ntp.placements import lost_shares
from faultline.experiments.studies.ntp.setting import (
    B200,
    BATCH_SEQUENCES,
    GPUS,
    StudyJob,
    job_that_fits,
    resharding,
    study_job,
)
from faultline.experiments.studies.ntp.traces import DAY_S, Trace, TraceRules, trace_rules, traces
from faultline.simulator.badput import CAUSES
from faultline.simulator.failures.failure import Failure, Kind
from faultline.simulator.workload.iteration import iteration_time
from faultline.simulator.workload.known_models import NTP_480B
from faultline.strategies.nonuniform.replica_plan import Scheme

SCENARIO = "ntp-32k"
REPAIR = "3 or 5 days"
"""How long hardware takes to repair in the loop; one of `traces.REPAIRS_DAYS`."""
CAUSE_TIMES = [f"{cause}_s" for cause in CAUSES]
_IN_MEMORY = "protection.name=just-in-time"
POD = 16
"""Replicas that share a pod, where packing is within pods: 4,096 GPUs."""

VARIANTS: Mapping[str, tuple[str, ...]] = {
    "checkpoint": ("strategy.name=checkpoint",),
    "dp-drop": ("strategy.name=dp-drop",),
    "dp-drop, pods of 16": ("strategy.name=dp-drop", f"strategy.dp-drop.pod_groups={POD}"),
    "dp-drop, not packed": ("strategy.name=dp-drop", "strategy.dp-drop.packing=false"),
    "ntp": ("strategy.name=ntp",),
    "ntp, resharding hidden": ("strategy.name=ntp", "strategy.ntp.resharding_slowdown=0"),
    "ntp, pods of 16": ("strategy.name=ntp", f"strategy.ntp.pod_groups={POD}"),
    "ntp-pw": ("strategy.name=ntp-pw",),
    "ntp-pw, resharding hidden": ("strategy.name=ntp-pw", "strategy.ntp-pw.resharding_slowdown=0"),
    "ntp-pw, resharding at bound": (
        "strategy.name=ntp-pw",
        "strategy.ntp-pw.resharding_slowdown=0.04",
        "model.backward_share=0.6667",
    ),
    "checkpoint, in memory": ("strategy.name=checkpoint", _IN_MEMORY),
    "dp-drop, in memory": ("strategy.name=dp-drop", _IN_MEMORY),
    "ntp, in memory": ("strategy.name=ntp", _IN_MEMORY),
    "ntp, in memory, migration free": ("strategy.name=ntp", _IN_MEMORY, "times.migrate_s=0"),
    "ntp-pw, in memory": ("strategy.name=ntp-pw", _IN_MEMORY),
}
"""What is played, by name. Checkpoints alone is with new hardware for everything that breaks; in
memory the state of the last step is found with the survivors of a failure.

The published bound is 4 % of the backward pass; here it is taken of two thirds of a step, as if a
step were nothing but FLOP.
"""


def variant_name(variant: str) -> str:
    """Return a variant of the loop's study in words: "NTP, resharding hidden"."""
    scheme, comma, how = variant.partition(", ")
    return ("all replaced" if scheme == "checkpoint" else title_of(scheme)) + comma + how


def modelled_settings(job: StudyJob | None = None) -> dict[str, float]:
    """Return those values of the shipped scenario that the model of its job tells, or of another.

    Keys are dotted keys of a scenario.
    """
    job = job or study_job()
    iteration = iteration_time(NTP_480B, job.layout, B200, 1, job.rules.local_batch)
    compute_s = iteration.total_s - iteration.gradient_sync_s
    resharded = resharding(job, job.plans(Scheme.NTP)[1].degree or job.domain_gpus - 1)
    of_step = resharded.iteration_slowdown / resharded.backward_slowdown
    return {
        "times.compute_s": compute_s,
        "times.all_reduce_s": iteration.gradient_sync_s,
        "model.least_tensor": job.rules.reduction.least_degree,
        "strategy.ntp.resharding_slowdown": resharded.backward_slowdown,
        "model.backward_share": of_step * iteration.total_s / compute_s,
    }


def failures_of(trace: Trace, rules: TraceRules, job: StudyJob) -> list[Failure]:
    """Return the failures of a job's GPUs in a trace, each with its repair.

    A repair that the trace does not live to see ends behind it, at an unknown time: it is given the
    trace's length.
    """
    failures: list[Failure] = []
    open_failures: dict[int, int] = {}
    for time_s, gpu, change in zip(
        trace.times_s.tolist(), trace.gpus.tolist(), trace.changes.tolist(), strict=True
    ):
        group = range(gpu // job.replica_gpus, gpu // job.replica_gpus + 1)
        if group.start >= job.replicas:
            continue
        if change == 1:
            open_failures[gpu] = len(failures)
            failures.append(
                Failure(time_s, "gpu", gpu, "hardware", "hardware", rules.duration_s, group)
            )
        else:
            place = open_failures.pop(gpu)
            repair_s = time_s - failures[place].time_s
            software = repair_s < 1.5 * rules.software_repair_s
            kind: Kind = "software" if software else "hardware"
            failures[place] = failures[place]._replace(repair_s=repair_s, kind=kind, cause=kind)
    return failures


def scenario_of(
    trace: Trace,
    rules: TraceRules,
    path: Path,
    variant: str,
    *more: str,
    job: StudyJob | None = None,
) -> Scenario:
    """Return the job under one of the `VARIANTS`, with a trace that is written to a file.

    `more` are further settings, ``key=value``.
    """
    if not path.exists():
        write_trace(failures_of(trace, rules, job or study_job()), path)
    return load_scenario(
        SCENARIO,
        [
            "failures.model=trace",
            f"failures.trace={path}",
            f"failures.trace_span_s={rules.duration_s}",
            *VARIANTS[variant],
            *more,
        ],
    )


def loop_points(directory: Path, seeds: int, count: int) -> Iterator[Point]:
    """Yield the runs of `count` traces a seed, at Llama 3's rate, under every variant.

    Traces are written into the directory, as files that scenarios can name.
    """
    directory.mkdir(parents=True, exist_ok=True)
    rules = trace_rules(REPAIR, 1)
    for seed in range(seeds):
        for index, trace in enumerate(traces(REPAIR, 1, seed, count)):
            path = directory / f"failures-{seed}-{index}.csv"
            path.unlink(missing_ok=True)
            for variant in VARIANTS:
                scenario = scenario_of(trace, rules, path, variant)
                placed = placed_loss(trace, study_job(), variant)
                labels = (("variant", variant), ("trace", index), ("placed", placed))
                yield Point(scenario, seed, labels=labels)


def loop_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what runs of `loop_points` came to, a row a run.

    Columns: `variant`, `seed`, `trace`; `goodput`, the batches trained over those of as long a time
    without failures and checkpoints; `degraded`, the share of the training time lost to smaller
    batches and resharding; `placed`, what the placement study finds lost of the throughput for the
    same trace, mean over time (not a number for what it does not know); `restarts`, `failures`; and
    the time by cause.
    """
    trained_s = runs.compute_s + runs.all_reduce_s + runs.degraded_s
    columns = ["variant", "seed", "trace", "placed", "goodput", "degraded"]
    columns += ["restarts", "failures", "played_steps", "time_s", *CAUSE_TIMES]
    return runs.assign(
        goodput=1.0 / runs.time_to_train_ratio, degraded=runs.degraded_s / trained_s
    )[columns]


def placed_loss(trace: Trace, job: StudyJob, variant: str) -> float:
    """Return the throughput that the placement study finds lost in a trace, mean over time.

    Not a number for what it does not know: resharding that is stated otherwise, or no batch.
    """
    name, _, how = variant.partition(", ")
    if name not in {scheme.value for scheme in Scheme} or how == "resharding at bound":
        return float("nan")
    failed = trace.domain_counts(job.domains, job.domain_gpus)
    lost = lost_shares(
        failed,
        job,
        Scheme(name),
        packing=how != "not packed",
        pod_replicas=POD if how.startswith("pods") else None,
        resharded=how != "resharding hidden",
    )
    return trace.mean_over_time(lost)


DOMAIN_SIZES = (8, 16, 32, 64, 72)
"""GPUs of a domain: those that the paper compares."""
DOMAIN_SCHEMES = ("checkpoint", "dp-drop", "ntp", "ntp-pw")
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
            for size in DOMAIN_SIZES:
                job = job_that_fits(size)
                path = directory / f"domains-{size}-{seed}-{index}.csv"
                path.unlink(missing_ok=True)
                for scheme in DOMAIN_SCHEMES:
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
