"""The effective training time ratio (ETTR) of a job that checkpoints, in closed form.

Kokolis et al. 2025 (RSC, arXiv 2410.21680). First order in failures: valid for few failures per
interval, ``rate * (startup + interval) << 1``.
"""

from __future__ import annotations

_DAY_S = 86_400.0


def job_failures_per_s(nodes: float, failures_per_node_day: float) -> float:
    """Return the failure rate of a job in 1/s; its nodes fail independently."""
    return nodes * failures_per_node_day / _DAY_S


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
