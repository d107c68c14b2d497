"""How much faster a GPU computes at more than its rated power, and what power a pace takes."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.strategies.errors import StrategyError


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """Performance over power, both over their values at the rated power (TDP).

    ``perf(p) = p (1 - linear (p - 1) - quadratic (p - 1)^2)`` from p = 1 on. The coefficients are a
    fit through two published points (Arfeen et al. 2025): performance per watt is 2.8 % lower at
    1.1 times the power and 6.5 % lower at 1.2 times.

    Attributes
    ----------
    most_power : float
        The power that a GPU can draw at most: 1.3 times TDP.
    """

    linear: float = 0.235
    quadratic: float = 0.45
    most_power: float = 1.3

    def performance(self, power: float) -> float:
        """Return the performance at a power.

        Raises
        ------
        StrategyError
            The power is out of range.
        """
        if not 1.0 <= power <= self.most_power:
            raise StrategyError(
                "power", f"is {power} times TDP", f"use a value from 1 to {self.most_power}"
            )
        more = power - 1.0
        return power * (1.0 - self.linear * more - self.quadratic * more**2)

    @property
    def most_performance(self) -> float:
        """Performance at the highest power."""
        return self.performance(self.most_power)

    def within_budget(self, working: int, fed: int) -> float:
        """Return the performance of GPUs that share the power of all that their rack is fed for.

        Parameters
        ----------
        working, fed : int
            GPUs that work, and those whose rated power there is.
        """
        return self.performance(min(self.most_power, fed / working))

    def power(self, performance: float) -> float | None:
        """Return the lowest power for a performance; None if no power is enough.

        A performance up to 1 takes the rated power: GPUs are not slowed down.
        """
        if performance <= 1.0:
            return 1.0
        if performance > self.most_performance:
            return None
        # Not at import: every scheme is imported when the command line starts.
        from scipy.optimize import brentq

        return float(
            brentq(lambda power: self.performance(power) - performance, 1.0, self.most_power)
        )
