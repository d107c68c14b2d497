"""Which tensor-parallel degree a domain with failed GPUs runs at."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.strategies.errors import StrategyError


@dataclass(frozen=True, slots=True)
class ReductionRule:
    """How far tensor parallelism goes down for failed GPUs.

    The degree goes down in steps, so that few different shardings have to be kept: 32 GPUs run at
    TP30 with up to two failed ones, at TP28 with three or four, and so on; 64 at TP62. These are
    the published cases. For other sizes a step is a sixteenth of the domain, but never more than
    two GPUs nor less than one: 8 and 16 GPUs lose one at a time.

    Attributes
    ----------
    least_degree : int
        Below it a domain is of no use: its share of the model would not fit the memory of fewer
        GPUs.
    """

    least_degree: int = 1

    def step(self, domain_gpus: int) -> int:
        """Return by how many GPUs the degree goes down at a time."""
        return min(2, max(1, domain_gpus // 16))

    def degree(self, domain_gpus: int, failed: int) -> int:
        """Return the degree of a domain with failed GPUs; 0 if it is of no use.

        Raises
        ------
        StrategyError
            There cannot be so many failed GPUs.
        """
        if not 0 <= failed <= domain_gpus:
            raise StrategyError(
                "failed",
                f"{failed} of {domain_gpus} GPUs cannot have failed",
                f"use 0 to {domain_gpus}",
            )
        step = self.step(domain_gpus)
        steps = -(-failed // step)
        degree = domain_gpus - step * steps
        return degree if degree >= max(1, self.least_degree) else 0

    def is_refused(self, domain_gpus: int, failed: int) -> bool:
        """Return whether it is for the memory alone that such a domain is of no use."""
        return (
            not self.degree(domain_gpus, failed) and ReductionRule().degree(domain_gpus, failed) > 0
        )
