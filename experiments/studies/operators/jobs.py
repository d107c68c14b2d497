"""The rows that Faultline's own loop runs: those of ``data/jobs.csv``, and BLOOM's training.

Values that a source does not state are swept over the range that is left, from the kindest to the
job to the worst.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from faultline.experiments.studies.data import read_rows
from faultline.experiments.studies.operators.incidents import DAY_S, HOUR_S, MINUTE_S, Incident
from faultline.experiments.studies.operators.loop import SAMPLE, LoopJob

_CALIBRATED = {"D3": (6.77, 0.3984), "D4": (13.02, 0.4307)}
"""The one cell of each that says how long a step is: blocking, and the share of MFU kept."""


def loop_jobs() -> list[LoopJob]:
    """Return all of them."""
    return [*(_listed(**row) for row in read_rows("operators", "jobs")), *_bloom()]


def calibrated_step_s(row: str) -> float:
    """Return the step that explains the one cell: ``share = T / (T + blocking)``, in seconds."""
    blocking_s, kept = _CALIBRATED[row]
    return blocking_s * kept / (1.0 - kept)


def _listed(step_of: str = "", **row: Any) -> LoopJob:
    """Return the job of a row; one with `step_of` writes a checkpoint each calibrated step."""
    if step_of:
        row["step_s"] = row["interval_s"] = calibrated_step_s(step_of)
    return LoopJob(**row)


# BLOOM's training, 18 March to 4 July 2022 (bigscience, tr11-176B-ml chronicles), in stretches. The
# share of the time that steps of 105.2 s make up. Planned restarts, hangs in an evaluation and the
# conversion at the end come after a save: they only take time. Work that a failure undoes is
# simulated.
_BLOOM_STEP_S, _BLOOM_WRITE_S = 105.2, 40.0
_EVALUATION_S = 12 * MINUTE_S / 1000
"""12 min in every 1,000 steps, dealt out to each."""
_SLOW_STEP_S = 111.0
_WEEK_S = 7 * DAY_S


@dataclass(frozen=True, slots=True)
class _Unstated:
    """Values that the chronicles leave open."""

    name: str
    restart_s: float
    deaths_a_week: float  # Failed GPUs per week, from April on.
    # Length of a hang after such a failure that goes unseen, and the share of them that hang so.
    unseen_s: float
    unseen_share: float
    maintenance_s: float  # The emergency maintenance of 22 March.
    slow_days: float  # Days with a slow GPU, after 28 April.


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A part of the run."""

    start: str
    days: float  # Its length, in days.
    interval: int  # Steps between checkpoints.
    saved_stops: int = 0  # Stops right after a save, that take a restart each.
    stopped_h: float = 0.0  # Hours that such stops were noticed late.
    # Days until GPUs begin to fail about weekly; None if they do not.
    deaths_from_days: float | None = None
    # Steps, evaluations and writes included, until the first GPU fails; in the first stretch only.
    first_death_steps: int | None = None
    # Whether the site's maintenance, and the days with a slow GPU, fall into it.
    has_maintenance: bool = False
    may_be_slow: bool = False


_BLOOM_SWEEP = [_Unstated(**row) for row in read_rows("operators", "bloom_unstated")]
_BLOOM_STRETCHES = [_Stretch(**row) for row in read_rows("operators", "bloom_stretches")]
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
    """E4 to E7: each stretch of BLOOM's run, at each of the unstated values."""
    for unstated in _BLOOM_SWEEP:
        for stretch in _BLOOM_STRETCHES:
            stopped_s = stretch.saved_stops * unstated.restart_s + stretch.stopped_h * HOUR_S
            stopped_s += unstated.maintenance_s * stretch.has_maintenance
            days = stretch.days - stopped_s / DAY_S
            slow_share = unstated.slow_days / stretch.days * stretch.may_be_slow
            step_s = _BLOOM_STEP_S + slow_share * (_SLOW_STEP_S - _BLOOM_STEP_S) + _EVALUATION_S
            yield LoopJob(
                f"BLOOM {stretch.start}", "share", days, step_s, unstated.restart_s,
                stretch.interval * step_s, _BLOOM_WRITE_S,
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
    # A stretch in which nothing is drawn was simulated once.
    wide = wide.groupby("sweep", sort=False).transform(lambda values: values.ffill())
    rows = [samples[~of_bloom]]
    for setting, starts in _BLOOM_ROWS.items():
        days = np.array([one.days for one in _BLOOM_STRETCHES if one.start in starts])
        value = (wide[list(starts)] * days).sum(axis=1) / days.sum()
        rows.append(value.rename("value").reset_index().assign(setting=setting)[list(SAMPLE)])
    return pd.concat(rows, ignore_index=True)
