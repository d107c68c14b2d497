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
from dataclasses import asdict, dataclass
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


_MEAN_REPAIR_S = 4 * failures.DAY_S
"""Mean of the 3 to 5 days of a hardware repair; the study repairs whatever breaks in that time."""
_STALLS_S = (10.0, 60.0)
"""What all wait when a group goes down to a lower degree, and as long again when it comes back."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A scheme as it is played."""

    scheme: str  # Its name.
    redundancy: int  # Its redundancy.
    hit_groups: str = "die"  # How the job lives with hit groups; "die" where they do not live on.
    stall_s: float = 0.0  # What all wait for a group that changes its degree, in seconds.

    @property
    def settings(self) -> list[str]:
        """What it sets of the scenario."""
        chosen = [f"strategy.name={self.scheme}", f"strategy.redundancy={self.redundancy}"]
        if self.hit_groups == "die":
            return chosen
        # Checkpoints are rare where a scheme hardly ever restarts.
        return [
            *chosen,
            f"strategy.{self.scheme}.hit_groups={self.hit_groups}",
            f"times.change_of_degree_s={self.stall_s}",
            "checkpoint.interval_steps=256",
        ]


CONTROL_REDUNDANCY = 1
"""Each shard type once: whatever a hit group cannot work on from is a restart."""


def _on_ntp(scheme: str, redundancy: int) -> list[Variant]:
    return [
        Variant(f"{scheme}-ntp", redundancy, hit_groups, stall_s)
        for hit_groups in ("slow", "boosted", "smaller-batch")
        for stall_s in _STALLS_S
    ]


# SPARe's best redundancy at 200 groups is 8, and the least that replication has is 2.
WITHIN_VARIANTS = (
    *_on_ntp("spare", CONTROL_REDUNDANCY),
    Variant("spare", 8),
    *_on_ntp("spare", 8),
    Variant("replication", 2),
    *_on_ntp("replication", 2),
    Variant("spare", 2),
    *(Variant("spare-ntp", 2, "slow", stall_s) for stall_s in _STALLS_S),
)
"""All that is played: the controls first; at last SPARe with as few copies as it has."""


def within_points(seeds: int, steps: int) -> Iterator[Point]:
    """Yield a job on the cluster of SPARe's study, where single GPUs fail, under every variant.

    A failure every 300 s, each of one GPU in a domain of 32; a restart takes an hour and finds new
    hardware for everything. Plain schemes save as often as is best for them.
    """
    common = ["failures.component=gpu", "model.tensor=32", f"job.steps={steps}"]
    common.append(f"rejoin.repair_s={_MEAN_REPAIR_S}")
    for variant in WITHIN_VARIANTS:
        scenario = load_scenario("spare-sound", [*common, *variant.settings])
        for seed in range(seeds):
            yield Point(scenario, seed, labels=tuple(asdict(variant).items()))


def within_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what runs of `within_points` came to, a row a run.

    Columns: those of `Variant`, `seed`, `time_to_train_ratio`, `restarts`, `failures`,
    `mean_stacks`, `time_s` and the time by cause, and `without_a_restart`: whether the run is that
    of its control, of the same seed, to all digits.
    """
    columns = ["scheme", "redundancy", "hit_groups", "stall_s", "seed", "time_to_train_ratio"]
    table = runs[[*columns, "restarts", "failures", "mean_stacks", "time_s", *CAUSE_TIMES]]
    return table.assign(without_a_restart=equals_control(table))


def equals_control(table: pd.DataFrame) -> pd.Series:
    """Return for each run whether it takes as long as its control, to all digits.

    The control of a run is that of redundancy 1 whose hit groups work on alike, with the same
    stalls and seed; runs in which hit groups die have none.
    """
    keys = ["hit_groups", "stall_s", "seed"]
    controls = table[table.redundancy == CONTROL_REDUNDANCY].set_index(keys).time_to_train_ratio
    found = controls.reindex(pd.MultiIndex.from_frame(table[keys])).to_numpy()
    return table.time_to_train_ratio == found
