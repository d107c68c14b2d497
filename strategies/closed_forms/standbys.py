"""How many machines to keep on standby, and what too few cost (ByteRobust, arXiv 2509.16293).

Machines that fail in a day are binomial. As many standbys as a quantile of that are enough on all
but so many days; those beyond them are rescheduled.
"""

from __future__ import annotations

from scipy.special import bdtr, bdtrc, bdtrik


def standbys_for(machines: int, failures_per_day: float, quantile: float) -> int:
    """Return the least number that as many machines fail on a share of days (quantile), or fewer.

    Failures are of all machines together, on average; at most one a machine counts.
    """
    share = min(1.0, failures_per_day / machines)
    if share == 1.0 or quantile == 1.0:
        return machines
    number = int(bdtrik(quantile, machines, share))
    return number if bdtr(number, machines, share) >= quantile else number + 1


def excess_of_few(
    machines: int, failures_per_day: float, standbys: int, standby_s: float, reschedule_s: float
) -> float:
    """Return by which share recoveries take longer than with standbys without end.

    ``P(K > s | K >= 1) (reschedule/standby - 1)``, K machines that fail at a time.
    """
    share = min(1.0, failures_per_day / machines)
    # How likely more than that many fail; of machines there are no more than all.
    more_than = bdtrc(min(standbys, machines), machines, share)
    short = float(more_than / bdtrc(0, machines, share))
    return short * (reschedule_s / standby_s - 1.0)
