"""The number of standby machines, and the cost of too few (ByteRobust, arXiv 2509.16293).

The number of machines that fail in a day is binomial. Its quantile is the number of standbys that
is enough on that share of days; failures beyond it wait for rescheduling.
"""

from __future__ import annotations

from scipy.special import bdtr, bdtrc, bdtrik


def standbys_for(machines: int, failures_per_day: float, quantile: float) -> int:
    """Return the least number of standbys that is enough on a share of days (`quantile`).

    `failures_per_day` is the mean over all machines together; each machine fails at most once.
    """
    share = min(1.0, failures_per_day / machines)
    if share == 1.0 or quantile == 1.0:
        return machines
    number = int(bdtrik(quantile, machines, share))
    return number if bdtr(number, machines, share) >= quantile else number + 1


def excess_of_few(
    machines: int, failures_per_day: float, standbys: int, standby_s: float, reschedule_s: float
) -> float:
    """Return the relative excess of recovery times over those with unlimited standbys.

    ``P(K > s | K >= 1) (reschedule/standby - 1)``, where K machines fail at a time.
    """
    share = min(1.0, failures_per_day / machines)
    # Probability that more fail than there are standbys.
    more_than = bdtrc(min(standbys, machines), machines, share)
    short = float(more_than / bdtrc(0, machines, share))
    return short * (reschedule_s / standby_s - 1.0)
