"""How often to write a checkpoint: the closed forms shared by all schemes.

Derivation (Saxena et al. 2024, in the notation of Lee et al. 2026 (SPARe)). Saving takes the first
T_s of each period T_c, which leaves a share of 1 - T_s/T_c. A life of T_f seconds ends at an
arbitrary moment of a period: it loses T_c/2 on average and costs a restart T_r. To first order in
T_c/T_f the share of time that is progress is therefore

    A(T_c) = (1 - T_s/T_c) * T_f / (T_f + T_r + T_c/2),

and dA/dT_c = 0 gives T_c^2 - 2 T_s T_c - 2 T_s (T_f + T_r) = 0, the root of `best_period_s`.
`theory.lifetimes` has the exact form, also for lives that are short relative to the period.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True, slots=True)
class Costs:
    """Times of the closed forms, all in seconds.

    Attributes
    ----------
    mtbf_s : float
        Mean time between failures of the whole system with all groups up.
    save_s, restart_s : float
        Times of a checkpoint write and of a global restart.
    compute_s, all_reduce_s : float
        Times to compute one shard type, and of a step's all-reduce.
    """

    mtbf_s: float
    save_s: float
    restart_s: float
    compute_s: float
    all_reduce_s: float

    def availability(self, period_s: float, time_to_failure_s: float) -> float:
        """Return A(T_c), the share of time that is progress, at least 0.

        Parameters
        ----------
        period_s : float
            Time T_c between the starts of two checkpoints, including saving, in seconds.
        time_to_failure_s : float
            Mean time T_f from a restart to the failure that causes the next, in seconds.
        """
        # A checkpoint that costs nothing is written continuously.
        saving = 1.0 - self.save_s / period_s if period_s > 0.0 else 1.0
        return max(
            0.0, saving * time_to_failure_s / (time_to_failure_s + self.restart_s + period_s / 2)
        )


def best_period_s(save_s: float, time_to_failure_s: float, restart_s: float) -> float:
    """Return the period T_c* that maximises the availability.

    ``T_c* = T_s + sqrt(T_s^2 + 2 T_s (T_f + T_r))``: the root of dA/dT_c (Saxena et al. 2024).

    Parameters
    ----------
    save_s, time_to_failure_s, restart_s : float
        Saving time T_s, mean time from a restart to the next failure that forces one T_f, restart
        time T_r, in seconds.
    """
    return save_s + sqrt(save_s * save_s + 2.0 * save_s * (time_to_failure_s + restart_s))
