"""The simulated rows: ``data/jobs.csv``, BLOOM's training, closed forms, phases of a recovery.

Unstated values are swept over their possible range, from the best to the worst case for the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import recovery_prices
from faultline.experiments.studies.data import read_rows, settings_of
from faultline.experiments.studies.operators.incidents import DAY_S, HOUR_S, MINUTE_S, Incident
from faultline.experiments.studies.operators.loop import (
    RSC_RATES,
    SAMPLE,
    LoopJob,
    job_failures_per_s,
)
from faultline.strategies.interface.recovery import RESTART
from faultline.strategies.theory.ettr import expected_ettr


def loop_jobs() -> list[LoopJob]:
    """Return all jobs that the training loop simulates."""
    return [*(LoopJob(**row) for row in read_rows("operators", "jobs")), *_bloom()]


# BLOOM's training, 18 March to 4 July 2022 (bigscience, tr11-176B-ml chronicles), in stretches. The
# result is the share of time in steps of 105.2 s. Planned restarts, hangs in an evaluation and the
# conversion at the end come after a save, so they only take time. Work that a failure undoes is
# simulated.
_BLOOM_STEP_S, _BLOOM_WRITE_S = 105.2, 40.0
_EVALUATION_S = 12 * MINUTE_S / 1000
"""12 min per 1,000 steps, evenly spread over steps."""
_SLOW_STEP_S = 111.0
_BLOOM_ROWS: Mapping[str, tuple[str, ...]] = {
    "E4": ("18 Mar", "22 Mar", "12 Apr", "30 Apr"),
    "E5": ("18 Mar", "22 Mar"),
    "E6": ("18 Mar", "22 Mar", "12 Apr"),
    "E7": ("30 Apr",),
}


def _bloom() -> Iterator[LoopJob]:
    """Yield E4 to E7: each stretch of BLOOM's run, at each of the unstated values."""
    unstated, stretches = (
        read_rows("operators", f"bloom_{name}") for name in ("unstated", "stretches")
    )
    for values, stretch in product(unstated, stretches):
        part = {**values, **stretch}
        stopped_s = part.get("saved_stops", 0) * part["restart_s"]
        stopped_s += part.get("stopped_h", 0.0) * HOUR_S
        stopped_s += part["maintenance_s"] * part.get("has_maintenance", False)
        days = part["days"] - stopped_s / DAY_S
        slow_share = part["slow_days"] / part["days"] * part.get("may_be_slow", False)
        step_s = _BLOOM_STEP_S + slow_share * (_SLOW_STEP_S - _BLOOM_STEP_S) + _EVALUATION_S
        yield LoopJob(
            f"BLOOM {part['start']}", "share", days, step_s, part["restart_s"],
            part["interval"] * step_s, _BLOOM_WRITE_S,
            draw=partial(_failed_gpus, part, days * DAY_S),
            factor=_BLOOM_STEP_S / step_s * days / part["days"],
            sweep=part["name"],
        )  # fmt: skip


def _failed_gpus(
    part: Mapping[str, Any], span_s: float, rng: np.random.Generator
) -> list[Incident]:
    """Draw the failures of GPUs in a stretch of the training, at some of the unstated values."""
    failures = []
    if steps := part.get("first_death_steps"):
        writes_s = steps // part["interval"] * _BLOOM_WRITE_S
        failures.append(Incident(steps * (_BLOOM_STEP_S + _EVALUATION_S) + writes_s, "gpu", 0.0))
    if "deaths_from_days" in part:
        at_s, gap_s = part["deaths_from_days"] * DAY_S, 7 * DAY_S / part["deaths_a_week"]
        while (at_s := at_s + rng.exponential(gap_s)) < span_s:
            unseen = rng.random() < part["unseen_share"]
            failures.append(Incident(at_s, "gpu", part["unseen_s"] if unseen else 0.0))
    return failures


def bloom_rows(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the samples of BLOOM's rows, summed over stretches, and all others."""
    of_bloom = samples.setting.str.startswith("BLOOM ")
    stretches = samples[of_bloom]
    wide = stretches.assign(start=stretches.setting.str.removeprefix("BLOOM ")).pivot_table(
        index=["scheme", "quantity", "sweep", "seed"], columns="start", values="value", sort=False
    )
    # A stretch without random draws was simulated once.
    wide = wide.groupby("sweep", sort=False).transform(lambda values: values.ffill())
    rows = [samples[~of_bloom]]
    for setting, starts in _BLOOM_ROWS.items():
        stretches = read_rows("operators", "bloom_stretches")
        days = np.array([one["days"] for one in stretches if one["start"] in starts])
        value = (wide[list(starts)] * days).sum(axis=1) / days.sum()
        rows.append(value.rename("value").reset_index().assign(setting=setting)[list(SAMPLE)])
    return pd.concat(rows, ignore_index=True)


SampleRow = tuple[str, str, str, str, int, float]
"""A row with the columns of `loop.SAMPLE`."""


def closed_form_samples() -> pd.DataFrame:
    """Return the samples of closed forms and of phases of a recovery, one per row."""
    rows = [*_forms(), *_restarts(), *_quotients()]
    return pd.DataFrame(rows, columns=list(SAMPLE))


def _forms() -> Iterator[SampleRow]:
    """Yield A by RSC's closed form: the jobs of the loop, and A3 with a minute in a queue."""
    for job in loop_jobs():
        if job.setting in ("A1", "A2", "A4", "A5"):
            failures_per_s = job_failures_per_s(job.nodes, RSC_RATES[job.rate])
            value = expected_ettr(failures_per_s, job.restart_s, job.interval_s)
            sweep = job.sweep.removesuffix(" in the queue")
            yield job.setting, "ETTR", "RSC's form", sweep, 0, value
    failures_per_s = job_failures_per_s(1000, RSC_RATES["RSC-1"])
    queued = expected_ettr_with_queue(failures_per_s, 300.0, 1800.0, 60.0, 40 * DAY_S)
    yield "A3", "ETTR", "RSC's form", "", 0, queued


def _restarts() -> Iterator[SampleRow]:
    """Yield F1: restarts of Megatron-LM without loading."""
    for gpus in (32, 128, 256, 512, 1024):
        keys = {
            **settings_of("operators", "Megatron restart"),
            "recovery.warm_up_s": float(44.0 + 5.5 * np.log2(gpus / 64)),
            "model.name": "stated",
            "job.gpus": gpus,
            "job.groups": min(64, gpus),
        }
        value = recovery_prices(load_scenario("head-to-head", keys)).duration_s(RESTART)
        yield f"F1 Megatron restart {gpus:,} GPUs", "seconds", "phases", "", 0, value


def _quotients() -> Iterator[SampleRow]:
    """Yield ``data/quotients.csv``: bytes over bandwidth, and sums of time-outs."""
    for row in read_rows("operators", "quotients"):
        value = row["amount"] / row["rate"]
        yield row["setting"], "seconds", row["scheme"], row["sweep"], 0, value


def expected_ettr_with_queue(
    failures_per_s: float,
    startup_s: float,
    interval_s: float,
    queue_s: float,
    productive_s: float,
) -> float:
    """Return the form with a queue: ``(1 - rate (u0 + dt/2)) / (1 + (u0 + q) / R + rate q)``.

    Parameters
    ----------
    failures_per_s, startup_s, interval_s
        As in `expected_ettr`.
    queue_s : float
        q: time in the queue, at the start and after each failure, in seconds.
    productive_s : float
        R: productive time of the whole job, in seconds.
    """
    kept = 1.0 - failures_per_s * (startup_s + interval_s / 2)
    return kept / (1.0 + (startup_s + queue_s) / productive_s + failures_per_s * queue_s)
