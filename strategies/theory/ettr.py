"""The effective training time ratio (ETTR) of a job that checkpoints, in closed form.

Kokolis et al. 2025 (RSC, arXiv 2410.21680). First order in failures: valid for few failures per
interval, ``rate * (startup + interval) << 1``.
"""

from __future__ import annotations


def expected_ettr(
    failures_per_s: float, startup_s: float, interval_s: float, write_s: float = 0.0
) -> float:
    """Return ``(1 - rate (u0 + dt / 2)) / (1 + w / dt)``; negative outside its range of validity.

    Parameters
    ----------
    failures_per_s : float
        Failures of the whole job, in 1/s.
    startup_s : float
        u0: time from a failure until the job trains again, in seconds.
    interval_s : float
        dt: time between two checkpoints, in seconds.
    write_s : float
        w: time for which a checkpoint stops the job, in seconds.
    """
    lost = failures_per_s * (startup_s + interval_s / 2)
    return (1.0 - lost) / (1.0 + write_s / interval_s)
