"""Incidents of long runs: when a job stops, why, and how long until it could go on."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0


class Incident(NamedTuple):
    """A stop of the whole job."""

    time_s: float  # When it happens, in seconds from the start.
    cause: str  # What it is.
    # From there to where processes are started again: detection, diagnosis, waiting for people or
    # machines, in seconds.
    down_s: float


@dataclass(frozen=True, slots=True)
class IncidentKind:
    """Incidents of one kind in a run."""

    cause: str  # What it is.
    count: int  # How many there were.
    # From the failure to where it is known, and to where it is known what to do: least and
    # greatest, all between equally likely, in seconds.
    detect_s: tuple[float, float] = (0.0, 0.0)
    locate_s: tuple[float, float] = (0.0, 0.0)
    # What bringing the job back takes longer than the run's own restart, in seconds.
    restart_s: float = 0.0


def scattered(
    kinds: Sequence[IncidentKind], span_s: float, restart_s: float, rng: np.random.Generator
) -> list[Incident]:
    """Return the incidents of a run at random moments at which it is up.

    Parameters
    ----------
    kinds : sequence of IncidentKind
        What happened how often.
    span_s : float
        Length of the run, in seconds.
    restart_s : float
        The run's own restart, in seconds.
    rng : numpy.random.Generator
        Where chance comes from.
    """
    causes = rng.permutation([kind.cause for kind in kinds for _ in range(kind.count)])
    by_cause = {kind.cause: kind for kind in kinds}
    downs_s = [
        float(rng.uniform(*by_cause[cause].detect_s) + rng.uniform(*by_cause[cause].locate_s))
        + by_cause[cause].restart_s
        for cause in causes
    ]
    up_s = np.sort(rng.uniform(0.0, span_s - sum(downs_s) - len(downs_s) * restart_s, len(causes)))
    down_before_s = 0.0
    found = []
    for cause, at_s, down_s in zip(causes, up_s, downs_s, strict=True):
        found.append(Incident(float(at_s) + down_before_s, str(cause), down_s))
        down_before_s += down_s + restart_s
    return found


def even(gap_s: float, count: int, cause: str = "failure") -> list[Incident]:
    """Return incidents with equal gaps from start to start, in seconds."""
    return [Incident(gap_s * (number + 1), cause, 0.0) for number in range(count)]


def write_incidents(
    incidents: Iterable[Incident], path: Path, components: Sequence[str] = ("job",)
) -> Path:
    """Write incidents as a trace that scenarios read; they strike the components in turn."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("time", "component", "cause", "repair"))
        for number, one in enumerate(incidents):
            struck = components[number % len(components)]
            rows.writerow((repr(one.time_s), struck, one.cause, repr(one.down_s)))
    return path
