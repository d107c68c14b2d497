"""What a scheme does as its groups fail: all that a prediction has to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from faultline.strategies.closed_forms.wipe_out import FloatArray, WipeOutLaw


@dataclass(frozen=True, slots=True)
class FailureCourse:
    """What a scheme does as its groups fail one after another; index k stands for k failed groups.

    Attributes
    ----------
    law : WipeOutLaw
        When it has to restart.
    stacks : array of float, shape (N,)
        Stacks that each group computes before the all-reduce.
    patch : array of float, shape (N,)
        Mean patch compute of the k-th failure, in stacks.
    stack_size : int
        Shard types in a stack.
    """

    law: WipeOutLaw
    stacks: FloatArray
    patch: FloatArray
    stack_size: int = 1

    def work_per_failure(self) -> tuple[float, float]:
        """Return mean stacks and mean patch compute, in shard types, with a step a failure.

        ``Sbar = sum of P(k) (S_k + rho_k) / sum of P(k)``: the mean that Lee et al. 2026 (SPARe)
        take, over the failures of a life, but with the exact chance P(k) to live that long in the
        place of a sharp end at floor(mu).
        """
        weights = self.law.outliving / self.law.outliving.sum() * self.stack_size
        return float(weights @ self.stacks), float(weights @ self.patch)


@runtime_checkable
class Predictable(Protocol):
    """A scheme whose course is known in closed form."""

    def failure_course(self) -> FailureCourse:
        """Return what the scheme does as groups fail, with its groups, redundancy and options."""
        ...
