"""The schemes in the training loop, through 15 days: restarts, repeated work, and what is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.player import play
from faultline.experiments.runs.point import Point
from faultline.experiments.studies.ntp.loop_setting import VARIANTS, scenario_of
from faultline.experiments.studies.ntp.placements import lost_shares
from faultline.experiments.studies.ntp.setting import StudyJob, study_job
from faultline.experiments.studies.ntp.trace_study import trace_rules, traces
from faultline.experiments.studies.ntp.traces import Trace
from faultline.simulator.badput import CAUSES
from faultline.strategies.nonuniform.replica_plan import Scheme

REPAIR = "3 or 5 days"
"""One of `trace_study.REPAIRS_DAYS`."""


def loop_table(
    directory: Path,
    seeds: Sequence[int],
    count: int,
    workers: int | None = None,
    on_done: Callable[[], None] | None = None,
) -> pd.DataFrame:
    """Play traces at Llama 3's rate under every variant; return a row a seed, trace and variant.

    Columns: `variant`, `seed`, `trace`; `goodput`, the batches trained over those of as long a time
    without failures and checkpoints; `degraded`, the share of the training time lost to smaller
    batches and resharding; `placed`, what the placement study finds lost of the throughput for the
    same trace, mean over time (not a number for what it does not know); `restarts`, `failures`; and
    the time by cause.

    Parameters
    ----------
    directory : Path
        Where traces are written to, as files that scenarios can name.
    """
    directory.mkdir(parents=True, exist_ok=True)
    rules = trace_rules(REPAIR, 1)
    tasks: list[Point] = []
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        for index, trace in enumerate(traces(REPAIR, 1, seed, count)):
            path = directory / f"failures-{seed}-{index}.csv"
            path.unlink(missing_ok=True)
            for variant in VARIANTS:
                question = resolve(scenario_of(trace, rules, path, variant))
                tasks.append(Point.of(question, seed))
                placed = placed_loss(trace, study_job(), variant)
                rows.append({"variant": variant, "seed": seed, "trace": index, "placed": placed})
    records = play(tasks, workers=workers, on_done=on_done)
    for row, record in zip(rows, records, strict=True):
        trained_s = sum(record[f"{cause}_s"] for cause in ("compute", "all_reduce", "degraded"))
        row["goodput"] = 1.0 / record["time_to_train_ratio"]
        row["degraded"] = record["degraded_s"] / trained_s
        row |= {key: record[key] for key in ("restarts", "failures", "played_steps", "time_s")}
        row |= {f"{cause}_s": record[f"{cause}_s"] for cause in CAUSES}
    return pd.DataFrame(rows)


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
    return trace.mean_over_time(lost, 0.0)
