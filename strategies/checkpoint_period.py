"""How often to write a checkpoint: the closed forms shared by all schemes."""

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
        """Share of the time that goes into progress; 0 where no progress is left.

        ``A(T_c) = (1 - T_s/T_c) T_f / (T_f + T_r + T_c/2)`` with the period T_c between the starts
        of two checkpoints, its saving time T_s included (Saxena et al. 2024, as used by Lee et al.
        2026 (SPARe)): a period loses T_s to saving; a failure costs the restart T_r and, on
        average, half a period of work.
        """
        saving = 1.0 - self.save_s / period_s
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
