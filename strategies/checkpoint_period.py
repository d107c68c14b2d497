"""How often to write a checkpoint: the closed forms shared by all schemes.

Derivation (Saxena et al. 2024, in the notation of Lee et al. 2026 (SPARe)). Of every period T_c the
first T_s go into saving, a share 1 - T_s/T_c is left. A life of T_f seconds ends at an arbitrary
moment of a period, so T_c/2 of it is lost, and costs a restart T_r. To first order in T_c/T_f the
share of time that is progress is therefore

    A(T_c) = (1 - T_s/T_c) * T_f / (T_f + T_r + T_c/2),

and dA/dT_c = 0 gives T_c^2 - 2 T_s T_c - 2 T_s (T_f + T_r) = 0, the root of `best_period_s`. For
lives that are not long beside the period, `closed_forms.lifetimes` has the exact form.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True, slots=True)
class Costs:
    """Times that the closed forms need, all in seconds.

    Attributes
    ----------
    mtbf_s : float
        Mean time between failures of the whole system, all groups up.
    save_s, restart_s : float
        Time to write a checkpoint, and of a global restart.
    compute_s, all_reduce_s : float
        Time to compute one shard type, and of the all-reduce of a step.
    """

    mtbf_s: float
    save_s: float
    restart_s: float
    compute_s: float
    all_reduce_s: float

    def availability(self, period_s: float, time_to_failure_s: float) -> float:
        """Return A(T_c), the share of the time that goes into progress; 0 where none is left.

        Parameters
        ----------
        period_s : float
            Time T_c between the starts of two checkpoints, saving included, in seconds.
        time_to_failure_s : float
            Mean time T_f from a restart to the failure that causes the next, in seconds.
        """
        # What costs nothing is done all the time.
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
        Saving time T_s, mean time between restarts' causes T_f, restart time T_r, in seconds.
    """
    return save_s + sqrt(save_s * save_s + 2.0 * save_s * (time_to_failure_s + restart_s))
