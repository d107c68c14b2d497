"""The schemes in the training loop, through 15 days of failures, repairs and restarts.

The job of the study as a scenario, with traces as files that it can read: restarts, repeated work,
and what is left.

The same on scale-up domains of other sizes, through the same failures. Larger domains leave less to
the slower network, and lose more with each GPU that breaks. Each size trains as its model of a step
says, with its own resharding, and as many stages as the memory asks for; the GPUs that fail, and
when, are the same for all.

At last NTP inside SPARe and replication on 600,000 GPUs, each combination beside its control: the
same with r = 1, a job that masks nothing. Where no group ever dies the two are one run, and the
combination is *NTP without a restart*.
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
from faultline.experiments.studies.ntp import failures
from faultline.experiments.studies.ntp.setting import (
    B200,
    BATCH_SEQUENCES,
    GPUS,
    StudyJob,
    job_that_fits,
    resharding,
    study_job,
)
from faultline.simulator.badput import CAUSES
from faultline.simulator.failures.failure import Failure, Kind
from faultline.simulator.workload.iteration import iteration_time
from faultline.simulator.workload.known_models import NTP_480B
from faultline.strategies.nonuniform.replica_plan import Scheme

SCENARIO = "ntp-32k"
REPAIR = "3 or 5 days"
"""How long hardware takes to repair in the loop; one of `failures.REPAIRS_DAYS`."""
CAUSE_TIMES = [f"{cause}_s" for cause in CAUSES]
_IN_MEMORY = "protection.name=just-in-time"
POD = 16
"""Replicas that share a pod, where packing is within pods: 4,096 GPUs."""

VARIANTS: Mapping[str, tuple[str, ...]] = {
    "checkpoint": ("strategy.name=checkpoint",),
    "dp-drop": ("strategy.name=dp-drop",),
    "dp-drop, pods of 16": ("strategy.name=dp-drop", f"strategy.dp-drop.pod_groups={POD}"),
    "dp-drop, not packed": ("strategy.name=dp-drop", "strategy.dp-drop.pod_groups=1"),
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


def failures_of(trace: failures.Trace, job: StudyJob) -> list[Failure]:
    """Return the failures of a job's GPUs in a trace, each with its repair.

    A repair that the trace does not live to see ends behind it, at an unknown time: it is given the
    trace's length.
    """
    events = pd.DataFrame({"time_s": trace.times_s, "gpu": trace.gpus, "change": trace.changes})
    known_s = events.groupby("gpu").time_s.shift(-1) - events.time_s
    events["repair_s"] = known_s.fillna(trace.duration_s)
    found = []
    for time_s, gpu, change, repair_s in events[events.gpu < job.gpus].itertuples(index=False):
        if change == 1:
            group = gpu // job.replica_gpus
            kind: Kind = "software" if repair_s < 1.5 * failures.SOFTWARE_REPAIR_S else "hardware"
            of_group = range(group, group + 1)
            found.append(Failure(time_s, "gpu", gpu, kind, kind, repair_s, of_group))
    return found


def scenario_of(trace: failures.Trace, path: Path, variant: str, *more: str) -> Scenario:
    """Return the job under one of the `VARIANTS`, with a trace that is in a file.

    `more` are further settings, ``key=value``.
    """
    span = f"failures.trace_span_s={trace.duration_s}"
    of_trace = ["failures.model=trace", f"failures.trace={path}", span]
    return load_scenario(SCENARIO, [*of_trace, *VARIANTS[variant], *more])


def loop_points(directory: Path, seeds: int, count: int) -> Iterator[Point]:
    """Yield the runs of `count` traces a seed, at Llama 3's rate, under every variant.

    Traces are written into the directory, as files that scenarios can name.
    """
    for seed in range(seeds):
        for index, trace in enumerate(failures.traces(REPAIR, 1, seed, count)):
            path = directory / f"failures-{seed}-{index}.csv"
            write_trace(failures_of(trace, study_job()), path)
            for variant in VARIANTS:
                scenario = scenario_of(trace, path, variant)
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
    columns = ["variant", "seed", "trace", "placed", "goodput", "degraded"]
    columns += ["restarts", "failures", "played_steps", "time_s", *CAUSE_TIMES]
    return _with_losses(runs)[columns]


def _with_losses(runs: pd.DataFrame) -> pd.DataFrame:
    trained_s = runs.compute_s + runs.all_reduce_s + runs.degraded_s
    lost = {"goodput": 1.0 / runs.time_to_train_ratio, "degraded": runs.degraded_s / trained_s}
    return runs.assign(**lost)


def placed_loss(trace: failures.Trace, job: StudyJob, variant: str) -> float:
    """Return the throughput that the placement study finds lost in a trace, mean over time.

    Not a number for what it does not know: resharding that is stated otherwise, or no batch.
    """
    name, _, how = variant.partition(", ")
    if name not in {scheme.value for scheme in Scheme} or how == "resharding at bound":
        return float("nan")
    failed = trace.domain_counts(job.domains, job.domain_gpus)
    lost = failures.lost_shares(
        failed,
        job,
        Scheme(name),
        packing=how != "not packed",
        pod_replicas=POD if how.startswith("pods") else None,
        resharded=how != "resharding hidden",
    )
    return trace.mean_over_time(lost)


_OF_DOMAINS = ("domain_gpus", "stages", "trace", "placed", "batches_per_day")
DOMAIN_SCHEMES = ("checkpoint", "dp-drop", "ntp", "ntp-pw")
"""The first has new hardware at once for all that breaks."""


def domain_settings(job: StudyJob) -> list[str]:
    """Return what a scenario of the study's job sets on domains of another size."""
    modelled = modelled_settings(job)
    cut = {
        "job.groups": job.replicas,
        "job.gpus": job.gpus,
        "model.pipeline": job.layout.pipeline,
        "model.tensor": job.domain_gpus,
        "model.micro_batches": job.rules.local_batch,
        "failures.gpus_per_domain": job.domain_gpus,
        "strategy.ntp-pw.resharding_slowdown": modelled["strategy.ntp.resharding_slowdown"],
    }
    return [f"{key}={value}" for key, value in (modelled | cut).items()]


def domain_points(directory: Path, seeds: int, count: int) -> Iterator[Point]:
    """Yield 15 days of `count` traces a seed under every scheme, on domains of every size."""
    for seed in range(seeds):
        for index, trace in enumerate(failures.traces(REPAIR, 1, seed, count)):
            for job in map(job_that_fits, failures.DOMAIN_SIZES):
                path = directory / f"domains-{job.domain_gpus}-{seed}-{index}.csv"
                write_trace(failures_of(trace, job), path)
                # Of all GPUs without failures; those that make up no whole replica are idle.
                full_batches = failures.DAY_S / job.rules.healthy_s * job.batch / BATCH_SEQUENCES
                settings, domain = domain_settings(job), (job.domain_gpus, job.layout.pipeline)
                for scheme in DOMAIN_SCHEMES:
                    scenario = scenario_of(trace, path, scheme, *settings)
                    values = *domain, index, placed_loss(trace, job, scheme), full_batches
                    yield Point(scenario, seed, labels=tuple(zip(_OF_DOMAINS, values, strict=True)))


def domain_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what runs of `domain_points` came to, a row a run.

    Columns: `domain_gpus`, `stages`, `strategy`, `seed`, `trace`; `goodput`, of a job of that size
    without failures; `degraded`, the share of the training time lost to smaller batches and
    resharding; `placed`, what the placement study finds of it; `batches_per_day`, of 1,024
    sequences; `restarts`; and `idle_gpus`, in no replica.
    """
    found = _with_losses(runs)
    jobs = (job_that_fits(size) for size in runs.domain_gpus)
    columns = ["domain_gpus", "stages", "strategy", "seed", "trace", "placed", "restarts"]
    return found[[*columns, "goodput", "degraded"]].assign(
        batches_per_day=found.goodput * runs.batches_per_day,
        idle_gpus=[GPUS - job.gpus for job in jobs],
    )
