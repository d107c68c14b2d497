"""The job of the study as a scenario of the training loop, and traces as files it can read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.config.trace_file import write_trace
from faultline.experiments.studies.ntp.gradient_sync import resharding_table
from faultline.experiments.studies.ntp.setting import B200, PIPELINE_STAGES, study_job
from faultline.experiments.studies.ntp.traces import Trace, TraceRules
from faultline.simulator.failures.failure import Failure, Kind
from faultline.simulator.workload.iteration import iteration_time
from faultline.simulator.workload.known_models import NTP_480B
from faultline.simulator.workload.layout import Layout

SCENARIO = "ntp-32k"

_IN_MEMORY = ("protection.name=just-in-time", "protection.times=stated")

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
        "strategy.ntp-pw.backward_share=0.6667",
    ),
    "checkpoint, in memory": ("strategy.name=checkpoint", *_IN_MEMORY),
    "dp-drop, in memory": ("strategy.name=dp-drop", *_IN_MEMORY),
    "ntp, in memory": ("strategy.name=ntp", *_IN_MEMORY),
    "ntp-pw, in memory": ("strategy.name=ntp-pw", *_IN_MEMORY),
}
"""What is played, by name. Checkpoints alone is with new hardware for everything that breaks; in
memory the state of the last step is found with the survivors of a failure.

The published bound is 4 % of the backward pass; here it is taken of two thirds of a step, as if a
step were nothing but FLOP.
"""


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
        "job.compute_s": compute_s,
        "all_reduce.time_s": iteration.gradient_sync_s,
        "strategy.ntp.least_degree": job.rules.reduction.least_degree,
        "strategy.ntp.resharding_slowdown": float(resharding.backward_slowdown),
        "strategy.ntp.backward_share": float(of_step * iteration.total_s / compute_s),
    }


def failures_of(trace: Trace, rules: TraceRules) -> list[Failure]:
    """Return the failures of a trace, each with its repair.

    A repair that the trace does not live to see ends behind it, at an unknown time: it is given the
    trace's length.
    """
    failures: list[Failure] = []
    open_failures: dict[int, int] = {}
    for time_s, gpu, change in zip(
        trace.times_s.tolist(), trace.gpus.tolist(), trace.changes.tolist(), strict=True
    ):
        group = range(gpu // _GPUS_PER_REPLICA, gpu // _GPUS_PER_REPLICA + 1)
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


_GPUS_PER_REPLICA = PIPELINE_STAGES * study_job().domain_gpus
