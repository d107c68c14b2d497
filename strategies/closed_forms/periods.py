"""The best checkpoint period when it is known how long a life lasts, not only its mean.

`checkpoint_period` takes the loss at a wipe-out for half a period. That holds where lives are long
beside the period, whatever their distribution. With little redundancy they are not: then a life
often ends before its first checkpoint, and the distribution decides.
"""

from __future__ import annotations

import numpy as np
from faultline.strategies.closed_forms.lifetimes import Life

_COUNTED = 256


def kept_periods(life: Life, period_s: float) -> float:
    """Return the mean number of periods of a life that are over, and so saved, by its end.

    The sum over j >= 1 of the probability that a life lasts j periods; beyond the first few hundred
    the sum is as good as the integral, by the midpoint rule.

    Parameters
    ----------
    period_s : float
        Period T_c between the starts of two checkpoints, saving included, in seconds; positive.
    """
    few = life.outlasting(period_s * np.arange(1.0, _COUNTED + 1.0))
    return float(few.sum()) + life.mean_beyond_s((_COUNTED + 0.5) * period_s) / period_s


def availability_of_lives(life: Life, period_s: float, save_s: float, restart_s: float) -> float:
    """Return the share of the time that goes into progress, by renewal and reward.

    ``A = (T_c - T_s) * (mean periods kept) / (T_f + T_r)``, exact for a fixed period. For lives
    much longer than the period the number kept is about T_f / T_c - 1/2. Then A is greatest near
    ``T_c = sqrt(2 T_s T_f)``, whatever a restart takes; the form of `checkpoint_period` has the
    same value to first order, but its best period grows with T_r.

    Parameters
    ----------
    period_s, save_s, restart_s : float
        T_c, T_s and T_r, in seconds.
    """
    kept = kept_periods(life, period_s)
    return max(0.0, period_s - save_s) * kept / (life.mean_s + restart_s)


def best_period_of_lives_s(life: Life, save_s: float, shortest_s: float) -> float:
    """Return the fixed period that maximises `availability_of_lives`, in seconds.

    Parameters
    ----------
    save_s : float
        T_s, in seconds.
    shortest_s : float
        Shortest period that comes into question, such as one step and T_s, in seconds; positive.
    """
    from scipy.optimize import minimize_scalar

    def loss(period_s: float) -> float:
        return -availability_of_lives(life, period_s, save_s, 0.0)

    # Lives of little spread have several local maxima, one for each number of periods that fit.
    trials_s = np.geomspace(shortest_s, max(4.0 * life.mean_s, 20.0 * shortest_s), 200).tolist()
    best = int(np.argmin([loss(period_s) for period_s in trials_s]))
    around_s = trials_s[max(0, best - 1)], trials_s[min(len(trials_s) - 1, best + 1)]
    return float(minimize_scalar(loss, bounds=around_s, method="bounded").x)
