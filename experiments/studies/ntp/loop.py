"""The schemes in the training loop: through 15 days of failures, and inside SPARe and replication.

The first is the job of the study as a scenario, with traces as files that it can read: restarts,
repeated work, and what is left. The second is a job on 600,000 GPUs, where each combination is
played beside its control: the same with r = 1, a job that masks nothing. Where no group ever dies
the two are one run, and the combination is *NTP without a restart*.
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
from faultline.experiments.studies.ntp.placements import lost_shares
from faultline.experiments.studies.ntp.setting import (
    B200,
    PIPELINE_STAGES,
    StudyJob,
    resharding_table,
    study_job,
)
from faultline.experiments.studies.ntp.traces import DAY_S, Trace, TraceRules, trace_rules, traces
from faultline.simulator.badput import CAUSES
from faultline.simulator.failures.failure import Failure, Kind
from faultline.simulator.workload.iteration import iteration_time
from faultline.simulator.workload.known_models import NTP_480B
from faultline.simulator.workload.layout import Layout
from faultline.strategies.nonuniform.replica_plan import Scheme

SCENARIO = "ntp-32k"
REPAIR = "3 or 5 days"
"""How long hardware takes to repair in the loop; one of `traces.REPAIRS_DAYS`."""
REPAIR_S = 4 * DAY_S
"""Mean of the 3 to 5 days of a hardware repair; the study repairs whatever breaks in that time."""
_STALLS_S = (10.0, 60.0)
"""What all wait when a group goes down to a lower degree, and as long again when it comes back."""
RARE_CHECKPOINTS = 256
"""Steps between checkpoints of a scheme that hardly ever restarts."""

_CAUSE_TIMES = [f"{cause}_s" for cause in CAUSES]
_IN_MEMORY = "protection.name=just-in-time"

VARIANTS: Mapping[str, tuple[str, ...]] = {
    "checkpoint": ("strategy.name=checkpoint",),
    "dp-drop": ("strategy.name=dp-drop",),
    "dp-drop, not packed": ("strategy.name=dp-drop", "strategy.dp-drop.packing=false"),
    "ntp": ("strategy.name=ntp",),
    "ntp, resharding hidden": ("strategy.name=ntp", "strategy.ntp.resharding_slowdown=0"),
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


def modelled_settings() -> dict[str, float]:
    """Return those values of the shipped scenario that the model of the job tells.

    Keys are dotted keys of a scenario.
    """
    job = study_job()
    layout = Layout(job.replicas, PIPELINE_STAGES, job.domain_gpus)
    iteration = iteration_time(NTP_480B, layout, B200, 1, job.rules.local_batch)
    compute_s = iteration.total_s - iteration.gradient_sync_s
    resharding = resharding_table().iloc[0]
    of_step = resharding.iteration_slowdown / resharding.backward_slowdown
    return {
        "times.compute_s": compute_s,
        "times.all_reduce_s": iteration.gradient_sync_s,
        "model.least_tensor": job.rules.reduction.least_degree,
        "strategy.ntp.resharding_slowdown": float(resharding.backward_slowdown),
        "model.backward_share": float(of_step * iteration.total_s / compute_s),
    }


def failures_of(trace: Trace, rules: TraceRules) -> list[Failure]:
    """Return the failures of a trace, each with its repair.

    A repair that the trace does not live to see ends behind it, at an unknown time: it is given the
    trace's length.
    """
    gpus_per_replica = PIPELINE_STAGES * study_job().domain_gpus
    failures: list[Failure] = []
    open_failures: dict[int, int] = {}
    for time_s, gpu, change in zip(
        trace.times_s.tolist(), trace.gpus.tolist(), trace.changes.tolist(), strict=True
    ):
        group = range(gpu // gpus_per_replica, gpu // gpus_per_replica + 1)
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


def scenario_of(trace: Trace, rules: TraceRules, path: Path, variant: str, *more: str) -> Scenario:
    """Return the job under one of the `VARIANTS`, with a trace that is written to a file.

    `more` are further settings, ``key=value``.
    """
    if not path.exists():
        write_trace(failures_of(trace, rules), path)
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
    columns += ["restarts", "failures", "played_steps", "time_s", *_CAUSE_TIMES]
    return runs.assign(
        goodput=1.0 / runs.time_to_train_ratio, degraded=runs.degraded_s / trained_s
    )[columns]


def placed_loss(trace: Trace, job: StudyJob, variant: str) -> float:
    """Return the throughput that the placement study finds lost in a trace, mean over time.

    It knows batches and no resharding: not a number for what depends on that, or on no batch.
    """
    name, _, how = variant.partition(", ")
    if name not in {scheme.value for scheme in Scheme}:
        return float("nan")
    if name != Scheme.DP_DROP.value and how != "resharding hidden":
        return float("nan")
    failed = trace.domain_counts(job.domains, job.domain_gpus)
    lost = lost_shares(failed, job, Scheme(name), packing=how != "not packed")
    return trace.mean_over_time(lost)


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
        table = f"strategy.{self.scheme}"
        return [
            *chosen,
            f"{table}.hit_groups={self.hit_groups}",
            f"times.change_of_degree_s={self.stall_s}",
            f"checkpoint.interval_steps={RARE_CHECKPOINTS}",
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
    for variant in WITHIN_VARIANTS:
        common = [
            "failures.component=gpu",
            "model.tensor=32",
            f"job.steps={steps}",
            f"rejoin.repair_s={REPAIR_S}",
        ]
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
    table = runs[[*columns, "restarts", "failures", "mean_stacks", "time_s", *_CAUSE_TIMES]]
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
