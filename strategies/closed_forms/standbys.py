"""How many machines to keep on standby, and what too few cost (ByteRobust, arXiv 2509.16293).

Machines that fail in a day are binomial. As many standbys as a quantile of that are enough on all
but so many days; those beyond them are rescheduled.
"""

from __future__ import annotations

from scipy.stats import binom


def standbys_for(machines: int, failures_per_day: float, quantile: float) -> int:
    """Return the least number that as many machines fail on so many days, or fewer.

    Parameters
    ----------
    machines : int
        Of the job.
    failures_per_day : float
        Of all machines together, on average; at most one a machine counts.
    quantile : float
        The share of days.
    """
    return int(binom.ppf(quantile, machines, min(1.0, failures_per_day / machines)))


def excess_of_few(
    machines: int, failures_per_day: float, standbys: int, standby_s: float, reschedule_s: float
) -> float:
    """Return by which share recoveries take longer than with standbys without end.

    ``P(K > s | K >= 1) (reschedule/standby - 1)``, K machines that fail at a time.
    """
    failed = binom(machines, min(1.0, failures_per_day / machines))
    short = float(failed.sf(standbys) / failed.sf(0))
    return short * (reschedule_s / standby_s - 1.0)
