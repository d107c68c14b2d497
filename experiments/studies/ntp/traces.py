"""Failures and repairs of single GPUs over some days, event by event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from faultline.experiments.config.errors import UserError
from faultline.experiments.studies.ntp.published import INTERRUPTIONS, OBSERVED_DAYS, OBSERVED_GPUS
from numpy.typing import NDArray

DAY_S = 86_400.0
HOUR_S = 3_600.0
LLAMA3_FAILURES_PER_GPU_S = INTERRUPTIONS / (OBSERVED_DAYS * DAY_S * OBSERVED_GPUS)
"""Llama 3's rate: 419 interruptions in 54 days on 16,384 GPUs, each taken for one GPU."""


@dataclass(frozen=True, slots=True)
class TraceRules:
    """How GPUs fail and come back.

    Attributes
    ----------
    gpus : int
        GPUs of the cluster, all healthy at the start.
    duration_s : float
        Length of the trace.
    failures_per_gpu_s : float
        Rate at which a healthy GPU fails; times between failures are exponential.
    hardware_share : float
        Share of failures that need a repair of the hardware.
    hardware_repair_s : tuple of float
        How long that takes; each of the values is as likely as the others.
    software_repair_s : float
        How long a GPU is gone else.
    """

    gpus: int
    duration_s: float = 15 * DAY_S
    failures_per_gpu_s: float = LLAMA3_FAILURES_PER_GPU_S
    hardware_share: float = 0.78
    hardware_repair_s: tuple[float, ...] = (5 * DAY_S,)
    software_repair_s: float = 3 * HOUR_S

    def __post_init__(self) -> None:
        durations = (self.duration_s, self.software_repair_s, *self.hardware_repair_s)
        if not self.hardware_repair_s or min(*durations, self.failures_per_gpu_s) <= 0.0:
            raise UserError("trace: durations and rates must be above 0")
        if not 0.0 <= self.hardware_share <= 1.0:
            raise UserError(
                f"trace: hardware_share is {self.hardware_share}; use a share from 0 to 1"
            )


@dataclass(frozen=True, slots=True)
class Trace:
    """Events in the order of time.

    Attributes
    ----------
    times_s : array of float, shape (events,)
        When a GPU fails or comes back.
    gpus : array of int, shape (events,)
        Which one.
    changes : array of int, shape (events,)
        1 if it fails, -1 if it comes back.
    duration_s : float
        When the trace ends.
    """

    times_s: NDArray[np.float64]
    gpus: NDArray[np.int64]
    changes: NDArray[np.int16]
    duration_s: float

    @property
    def failed(self) -> NDArray[np.int64]:
        """Failed GPUs from each event on, shape (events,)."""
        total: NDArray[np.int64] = np.cumsum(self.changes, dtype=np.int64)
        return total

    @property
    def local_peaks(self) -> NDArray[np.bool_]:
        """Whether the next event is a repair, or there is none, shape (events,).

        States in which less has failed than in the one before or behind are no worse than it.
        """
        following = np.append(self.changes[1:], np.int16(-1))
        return np.asarray((self.changes == 1) & (following == -1))

    @property
    def lengths_s(self) -> NDArray[np.float64]:
        """How long the state after each event lasts, shape (events,)."""
        return np.diff(self.times_s, append=self.duration_s)

    def share_of_time(self, chosen: NDArray[np.bool_]) -> float:
        """Return the share of the trace that is spent in chosen states."""
        return float(self.lengths_s[chosen].sum() / self.duration_s)

    def mean_over_time(self, values: NDArray[np.float64], at_start: float) -> float:
        """Return the mean over time of a value of each state, and of one before any event."""
        first_s = self.times_s[0] if self.times_s.size else self.duration_s
        total = at_start * first_s + float(values @ self.lengths_s)
        return float(total / self.duration_s)

    def domain_counts(self, domains: int, domain_gpus: int) -> NDArray[np.int16]:
        """Return the failed GPUs of each domain after each event, shape (events, domains).

        GPUs beyond the last whole domain belong to none.
        """
        steps = np.zeros((self.times_s.size, domains), dtype=np.int16)
        domain = self.gpus // domain_gpus
        inside = domain < domains
        steps[np.flatnonzero(inside), domain[inside]] = self.changes[inside]
        return np.cumsum(steps, axis=0, dtype=np.int16)


def simulate_trace(rules: TraceRules, rng: np.random.Generator) -> Trace:
    """Play failures and repairs.

    Failures of the whole cluster come at the summed rate of all GPUs; one that would hit a GPU
    which is being repaired does not happen, so every healthy GPU fails at its own rate.
    """
    rate_per_s = rules.gpus * rules.failures_per_gpu_s
    back_s: dict[int, float] = {}
    events: list[tuple[float, int, int]] = []
    now_s = rng.exponential(1 / rate_per_s)
    while now_s < rules.duration_s:
        gpu = int(rng.integers(rules.gpus))
        if back_s.get(gpu, 0.0) <= now_s:
            back_s[gpu] = now_s + _repair_s(rules, rng)
            events.append((now_s, gpu, 1))
            if back_s[gpu] < rules.duration_s:
                events.append((back_s[gpu], gpu, -1))
        now_s += rng.exponential(1 / rate_per_s)
    events.sort()
    times_s, gpus, changes = zip(*events, strict=True) if events else ((), (), ())
    return Trace(
        np.array(times_s, dtype=np.float64),
        np.array(gpus, dtype=np.int64),
        np.array(changes, dtype=np.int16),
        rules.duration_s,
    )


def _repair_s(rules: TraceRules, rng: np.random.Generator) -> float:
    if rng.random() >= rules.hardware_share:
        return rules.software_repair_s
    return rules.hardware_repair_s[int(rng.integers(len(rules.hardware_repair_s)))]
