"""The rows that Faultline's own loop plays: clusters, failures, detection, checkpoints, restarts.

What a source does not say is swept over the range that it leaves, from what is kindest to the job
to what is worst.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.studies.operators.loop import (
    DAY_S,
    EVERY_STEP_KEPT,
    HOUR_S,
    MINUTE_S,
    SAMPLE,
    DrawIncidents,
    Incident,
    IncidentKind,
    LoopJob,
    even,
    scattered,
)
from faultline.experiments.studies.operators.spare_nodes import Cluster, incidents
from faultline.strategies.closed_forms.ettr import job_failures_per_s

RSC_1, RSC_2 = 6.50e-3, 2.34e-3
"""Failures a node and day."""

_NEVER_S = 1e12


def loop_jobs() -> list[LoopJob]:
    """Return all of them."""
    sections = (_rsc, _torchft, _ft_hsdp, _byterobust, _blocking, _llama, _megascale, _gemini)
    others = (_opt, _olmo, _planned_moves, _spare_nodes, _bloom)
    return [job for section in (*sections, *others) for job in section()]


def _rsc() -> Iterator[LoopJob]:
    """A: random failures at RSC's rates."""

    def job(setting: str, gpus: int, rate: float, *minutes: float, days: float = 40.0) -> LoopJob:
        mtbf_s = 1.0 / job_failures_per_s(gpus / 8, rate)
        interval_s, startup_s = (MINUTE_S * each for each in minutes)
        return LoopJob(setting, "ETTR", days, 10.0, interval_s, startup_s, mtbf_s=mtbf_s)

    yield job("A1", 16_000, RSC_1, 60, 5)
    yield job("A2", 16_000, RSC_1, 5, 5)
    yield job("A3", 8_000, RSC_1, 30, 6)
    yield job("A4", 100_000, RSC_2, 2, 2, days=10.0)
    for gpus, queue_min in product((2048, 4096), (0, 10)):
        sweep = f"{gpus:,} GPUs, {queue_min} min in the queue"
        yield replace(job("A5", gpus, RSC_1, 60, 5 + queue_min, days=100.0), sweep=sweep)
    for gpus in (1024, 16_384, 131_072):
        alone = job(f"A6 {gpus:,} GPUs", gpus, RSC_1, 60, 0)
        assert alone.mtbf_s is not None
        days = 1000 * alone.mtbf_s / DAY_S
        yield replace(alone, quantity="hours", days=days, measure="mttf_h")


def _drops(controller_s: float, repair_s: float) -> dict[str, Any]:
    """Return what drops groups: a stall of all, and groups that are back after a time."""
    return {
        "scheme": "replica-drop",
        "changes": {
            **EVERY_STEP_KEPT,
            "times.shrink_s": controller_s,
            "rejoin.when": "at-checkpoint",
            "rejoin.repair_s": repair_s,
            "times.rejoin_s": 0.0,
        },
    }


def _torchft() -> Iterator[LoopJob]:
    """B by replica drop, without a quorum: a killed group is away for 24 s."""
    kills = {"B1": (1100, 60.0, 60.0), "B2": (1015, 0.0, 30.0)}
    measures = (("commits", "commits"), ("mean groups", "mean_groups"))
    for row, (count, least_s, most_s) in kills.items():
        days = count * (least_s + most_s) / 2 / DAY_S
        for error_s, (quantity, measure) in product((0.0, 5.0), measures):
            yield LoopJob(
                row, quantity, days, 9.0, _NEVER_S, 24.0,
                draw=partial(_with_gaps, count, least_s, most_s),
                measure=measure,
                groups=30,
                # Each but the first.
                components=tuple(f"gpu-{8 * (1 + 7 * one % 29)}" for one in range(29)),
                sweep=f"error after {error_s:g} s",
                **_drops(1.0 + error_s, 24.0),
            )  # fmt: skip


def _with_gaps(
    count: int, least_s: float, most_s: float, rng: np.random.Generator
) -> list[Incident]:
    times_s = np.cumsum(rng.uniform(least_s, most_s, count))
    return [Incident(float(time_s), "kill", 0.0) for time_s in times_s]


_REPLICAS, _GAP_S, _STEP_S = 12, 18 * MINUTE_S, 20.0
_EACH_REPLICA = tuple(f"gpu-{8 * replica}" for replica in (0, 5, 10, 3, 8, 1, 6, 11, 4, 9, 2, 7))


def _at_random(mean_s: float, span_s: float, rng: np.random.Generator) -> list[Incident]:
    times_s = np.cumsum(rng.exponential(mean_s, round(2 * span_s / mean_s) + 10))
    return [Incident(float(time_s), "failure", 0.0) for time_s in times_s if time_s < span_s]


def _ft_hsdp() -> Iterator[LoopJob]:
    """C: a failure every 18 min. The broken step is part of what a failure takes."""
    days, broken_s = 10.0, _STEP_S
    draws: Mapping[str, DrawIncidents] = {
        "": lambda _: even(_GAP_S, int(days * DAY_S / _GAP_S)),
        " exponential gaps": partial(_at_random, _GAP_S, days * DAY_S),
    }
    drops = {"restart_s": 600.0, **_drops(180.0 - broken_s, 600.0 - broken_s)}
    for gaps, draw in draws.items():
        stops = LoopJob(
            f"C1{gaps}", "ETTR", days, _STEP_S, _NEVER_S, 600.0 - broken_s, draw=draw,
            groups=_REPLICAS, components=_EACH_REPLICA, changes=EVERY_STEP_KEPT,
        )  # fmt: skip
        yield from (stops, replace(stops, setting=f"C2{gaps}", **drops))


_INCIDENTS = {"D1": (90.0, (128, 15, 20, 12)), "D2": (30.0, (71, 9, 31, 14))}
"""Days; explicit and implicit faults, manual restarts, rollbacks."""


def _byterobust() -> Iterator[LoopJob]:
    """D1, D2: incidents by kind, detected and located as the tables say."""
    for setting, (days, (explicit, implicit, manual, rollbacks)) in _INCIDENTS.items():
        for sweep, locate_s, standby_s, rolled_back_s in (
            ("all found by inspection, standby 46 s, rollback 57 s", (0.0, 0.0), 46.0, 57.0),
            ("2 to 15 min to locate, standby 83 s, rollback 57 s", (120.0, 900.0), 83.0, 57.0),
            ("2 to 15 min to locate, 120 s, rollback 4,289 s", (120.0, 900.0), 120.0, 4289.0),
        ):
            kinds = (
                IncidentKind("explicit", explicit, (2.0, 60.0), locate_s, standby_s),
                IncidentKind("implicit", implicit, (600.0, 600.0), locate_s, standby_s),
                IncidentKind("manual", manual, restart_s=57.0),
                IncidentKind("rollback", rollbacks, (2.0, 60.0), locate_s, rolled_back_s),
            )
            yield LoopJob(
                setting, "ETTR", days, 20.0, 10 * MINUTE_S, 0.0,
                draw=partial(scattered, kinds, days * DAY_S, 0.0),
                components=("gpu-0", "gpu-8"), sweep=sweep, changes=EVERY_STEP_KEPT,
            )  # fmt: skip


BLOCKING_S = {
    "D3": {
        "Megatron": {128: 6.77, 256: 7.14},
        "memory": {128: 1.84, 256: 1.69},
        "ByteRobust": {128: 0.04, 256: 0.03},
    },
    "D4": {
        "Megatron": {512: 13.02, 1024: 12.98},
        "memory": {512: 0.22, 1024: 0.18},
        "ByteRobust": {512: 0.01, 1024: 0.02},
    },
}
"""What a checkpoint blocks a step for, in seconds, by hosts."""

CALIBRATED = {"D3": (6.77, 0.3984), "D4": (13.02, 0.4307)}
"""The one cell of each that says how long a step is: blocking, and the share of MFU kept."""


def calibrated_step_s(row: str) -> float:
    """Return the step that explains the one cell: ``share = T / (T + blocking)``, in seconds."""
    blocking_s, kept = CALIBRATED[row]
    return blocking_s * kept / (1.0 - kept)


def _blocking() -> Iterator[LoopJob]:
    """D3, D4: a checkpoint each step, and nothing fails."""
    for row, systems in BLOCKING_S.items():
        step_s = calibrated_step_s(row)
        for system, by_hosts in systems.items():
            for hosts, blocking_s in by_hosts.items():
                setting = f"{row} {system} {hosts:,}"
                yield LoopJob(setting, "share", 0.05, step_s, step_s, 0.0, blocking_s)


def _llama() -> Iterator[LoopJob]:
    """E1: 419 failures at random; 47 stops that are planned lose a restart and a write each."""
    days, failures, planned = 54.0, (IncidentKind("failure", 419),), 47
    for restart_min, interval_min, write_s in product((3, 15), (5, 20, 60), (0, 60)):
        restart_s = restart_min * MINUTE_S
        left_days = days - planned * (restart_s + write_s) / DAY_S
        yield LoopJob(
            "E1", "ETTR", left_days, 10.0, interval_min * MINUTE_S, restart_s, float(write_s),
            draw=partial(scattered, failures, left_days * DAY_S, restart_s),
            factor=left_days / days,
            sweep=f"restart {restart_min} min, interval {interval_min} min, write {write_s} s",
        )  # fmt: skip


def _megascale() -> Iterator[LoopJob]:
    """E2: caught up within 15 min, 5 min of it what is done again, but for 10 % of the stops."""
    for weeks, restarts, manual_h in product((3, 6), (100, 130), (1, 8)):
        by_hand = restarts // 10
        kinds = (
            IncidentKind("automatic", restarts - by_hand, (0.0, 600.0)),
            IncidentKind("by hand", by_hand, (manual_h * HOUR_S, manual_h * HOUR_S)),
        )
        yield LoopJob(
            "E2", "ETTR", weeks * 7.0, 10.0, 10 * MINUTE_S, 5 * MINUTE_S,
            draw=partial(scattered, kinds, weeks * 7 * DAY_S, 5 * MINUTE_S),
            sweep=f"{weeks} weeks, {restarts} restarts, {manual_h} h by hand",
        )  # fmt: skip


def _gemini() -> Iterator[LoopJob]:
    """E3: 33 slices; one leaves, and the others train on at 97 %."""
    days, slices = 8.0, 33
    for stops, stall_s in product((2, 4, 6), (20.0, 55.0, 90.0)):
        yield LoopJob(
            "E3", "share", days, 5.0, _NEVER_S, 600.0,
            draw=partial(_at_random, HOUR_S / stops, days * DAY_S),
            groups=slices,
            components=tuple(f"gpu-{8 * one}" for one in range(slices)),
            measure="reconfiguring",
            sweep=f"{stops} stops an hour, {stall_s:g} s each",
            **_drops(stall_s, 600.0),
        )  # fmt: skip


def _opt() -> Iterator[LoopJob]:
    """E8: about 90 restarts in 56 days."""
    for interval_h, hours in product((1, 4), (1, 6, 12)):
        kinds = (IncidentKind("restart", 90, (hours * HOUR_S, hours * HOUR_S)),)
        yield LoopJob(
            "E8", "share", 56.0, 60.0, interval_h * HOUR_S, 0.0,
            draw=partial(scattered, kinds, 56 * DAY_S, 0.0),
            sweep=f"{hours} h a restart, a checkpoint every {interval_h} h",
        )  # fmt: skip


def _olmo() -> Iterator[LoopJob]:
    """E9: recoveries with a median of 3.7 and a mean of 38.9 min: lognormal."""
    mean_s, median_s = 2334.0, 222.0
    spread = float(np.sqrt(2.0 * np.log(mean_s / median_s)))
    for days, stops in product((6.2, 7.0), (4, 9)):
        yield LoopJob(
            "E9", "share", days, 10.0, HOUR_S, mean_s,
            draw=partial(scattered, (IncidentKind("stop", stops),), days * DAY_S, mean_s),
            measure="availability", sweep=f"{days:g} days, {stops} stops",
            changes={"recovery.spread": spread},
        )  # fmt: skip


def _planned_moves() -> Iterator[LoopJob]:
    """F2: a planned move every 10 min; nothing is lost."""
    # Communicators as a delta and the copy of one machine's state, 7 and 7.5 s (TrainMover): what
    # an unplanned move takes less its detection.
    moved_s = 14.5
    yield LoopJob(
        "F2", "ETTR", 1.0, 0.5, 10 * MINUTE_S, moved_s,
        draw=lambda _: even(600.0, 140, "planned move"),
        components=("gpu-0", "gpu-8"), changes=EVERY_STEP_KEPT,
    )  # fmt: skip


def _spare_nodes() -> Iterator[LoopJob]:
    """G3: 128 nodes and 4 spares for 28 days."""
    days = 28.0
    variants: dict[str, tuple[float, float, Cluster]] = {
        f"G3 {minutes}": (minutes, 300.0, Cluster()) for minutes in (10, 30, 90, 240, 15, 60, 300)
    }
    variants |= {
        "G3 no spares": (30, 300.0, Cluster(spares=0)),
        "G3 saves of 0.5 min every 29.5": (29.5, 30.0, Cluster()),
        "G3 32 nodes at 600 h": (30, 300.0, Cluster(frail_nodes=32)),
    }
    for setting, (interval_min, write_s, cluster) in variants.items():
        yield LoopJob(
            setting, "goodput", days, 10.0, interval_min * MINUTE_S, cluster.restart_s, write_s,
            draw=partial(incidents, cluster, days * DAY_S),
            # The fewer checkpoints, the less is played, and the more chance there is in it.
            seeds=48 if interval_min >= 60 else 16,
        )  # fmt: skip


# BLOOM's training, 18 March to 4 July 2022 (bigscience, tr11-176B-ml chronicles), in stretches. The
# share of the time that steps of 105.2 s make up. Planned restarts, hangs in an evaluation and the
# conversion at the end come after a save: they only take time. What a dying GPU undoes is played.
_BLOOM_STEP_S, _BLOOM_WRITE_S = 105.2, 40.0
_EVALUATION_S = 12 * MINUTE_S / 1000
"""12 min in every 1,000 steps, dealt out to each."""
_SLOW_STEP_S = 111.0
_WEEK_S = 7 * DAY_S
_FIRST_INTERVAL, _INTERVAL = 250, 100


@dataclass(frozen=True, slots=True)
class _Unstated:
    """What the chronicles leave open."""

    name: str  # How it is called.
    restart_s: float  # A restart.
    deaths_a_week: float  # GPUs that die from April on.
    # How long a hang after such a death goes unseen, and after which share of them.
    unseen_s: float
    unseen_share: float
    maintenance_s: float  # The emergency maintenance of 22 March.
    slow_days: float  # Days with a slow GPU, after 28 April.


_BLOOM_SWEEP = (
    _Unstated("restart 10 min, 1 death a week, seen at once", 600, 1.0, 0, 0.0, HOUR_S, 2),
    _Unstated("restart 30 min, 1.5 deaths a week, a quarter unseen for 4 h", 1800, 1.5, 4 * HOUR_S,
              0.25, 4 * HOUR_S, 7),
    _Unstated("restart 60 min, 2 deaths a week, half unseen for 8 h", 3600, 2.0, 8 * HOUR_S,
              0.5, 12 * HOUR_S, 20),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A part of the run."""

    days: float  # Its length, in days.
    interval: int  # Steps between checkpoints.
    saved_stops: int = 0  # Stops right after a save, that take a restart each.
    stopped_h: float = 0.0  # Hours that such stops were noticed late.
    # From when on GPUs die about weekly, in days; None where they do not.
    deaths_from_days: float | None = None
    # Steps, evaluations and writes included, after which the first GPU dies; in the first stretch
    # only.
    first_death_steps: int | None = None
    # Whether the site's maintenance, and the days with a slow GPU, fall into it.
    has_maintenance: bool = False
    may_be_slow: bool = False


_BLOOM_STRETCHES: Mapping[str, _Stretch] = {
    # On 21 March a GPU died 2 steps before a checkpoint.
    "18 Mar": _Stretch(4.0, _FIRST_INTERVAL, first_death_steps=11 * _FIRST_INTERVAL - 2),
    "22 Mar": _Stretch(20.9, _INTERVAL, 7, deaths_from_days=10.0, has_maintenance=True),
    "12 Apr": _Stretch(18.2, _INTERVAL, deaths_from_days=0.0),
    "30 Apr": _Stretch(
        65.0, _INTERVAL, 4, 18 + 6 + 11 + 0.8, deaths_from_days=0.0, may_be_slow=True
    ),
}

_BLOOM_ROWS: Mapping[str, tuple[str, ...]] = {
    "E4": ("18 Mar", "22 Mar", "12 Apr", "30 Apr"),
    "E5": ("18 Mar", "22 Mar"),
    "E6": ("18 Mar", "22 Mar", "12 Apr"),
    "E7": ("30 Apr",),
}


def _deaths(
    stretch: _Stretch, unstated: _Unstated, span_s: float, rng: np.random.Generator
) -> list[Incident]:
    found = []
    if stretch.first_death_steps is not None:
        writes_s = stretch.first_death_steps // stretch.interval * _BLOOM_WRITE_S
        at_s = stretch.first_death_steps * (_BLOOM_STEP_S + _EVALUATION_S) + writes_s
        found.append(Incident(at_s, "gpu", 0.0))
    if stretch.deaths_from_days is not None:
        at_s = stretch.deaths_from_days * DAY_S
        while (at_s := at_s + rng.exponential(_WEEK_S / unstated.deaths_a_week)) < span_s:
            unseen = rng.random() < unstated.unseen_share
            found.append(Incident(at_s, "gpu", unstated.unseen_s if unseen else 0.0))
    return found


def _bloom() -> Iterator[LoopJob]:
    """E4 to E7: each stretch of BLOOM's run, at each end of what is not stated."""
    for unstated in _BLOOM_SWEEP:
        for start, stretch in _BLOOM_STRETCHES.items():
            stopped_s = stretch.saved_stops * unstated.restart_s + stretch.stopped_h * HOUR_S
            stopped_s += unstated.maintenance_s * stretch.has_maintenance
            days = stretch.days - stopped_s / DAY_S
            slow_share = unstated.slow_days / stretch.days * stretch.may_be_slow
            step_s = _BLOOM_STEP_S + slow_share * (_SLOW_STEP_S - _BLOOM_STEP_S) + _EVALUATION_S
            yield LoopJob(
                f"BLOOM {start}", "share", days, step_s, stretch.interval * step_s,
                unstated.restart_s, _BLOOM_WRITE_S,
                draw=partial(_deaths, stretch, unstated, days * DAY_S),
                factor=_BLOOM_STEP_S / step_s * days / stretch.days,
                sweep=unstated.name,
            )  # fmt: skip


def bloom_rows(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the samples of BLOOM's rows, which are made of stretches, beside all others."""
    of_bloom = samples.setting.str.startswith("BLOOM ")
    stretches = samples[of_bloom]
    wide = stretches.assign(start=stretches.setting.str.removeprefix("BLOOM ")).pivot_table(
        index=["scheme", "quantity", "sweep", "seed"], columns="start", values="value", sort=False
    )
    # A stretch in which nothing is drawn was played once.
    wide = wide.groupby("sweep", sort=False).transform(lambda values: values.ffill())
    rows = [samples[~of_bloom]]
    for setting, starts in _BLOOM_ROWS.items():
        days = np.array([_BLOOM_STRETCHES[start].days for start in starts])
        value = (wide[list(starts)] * days).sum(axis=1) / days.sum()
        rows.append(value.rename("value").reset_index().assign(setting=setting)[list(SAMPLE)])
    return pd.concat(rows, ignore_index=True)
