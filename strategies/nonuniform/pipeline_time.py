"""How long an iteration of a replica takes, as far as a scheme can know it."""

from __future__ import annotations

from faultline.strategies.nonuniform.replica_plan import IterationTime


def pipeline_time(stages: int) -> IterationTime:
    """Return the iteration time of a 1F1B pipeline of `stages`, one sequence a micro-batch.

    A micro-batch takes a slot on each stage, and an iteration of n sequences ``n + stages - 1``
    slots (Narayanan et al. 2021, Megatron-LM, arXiv 2104.04473, section 2.2.1). A slot is as long
    as a GPU's share of the work. The unit is arbitrary; only ratios count.
    """

    def seconds(degree: int, sequences: int, pace: float) -> float:
        return (sequences + stages - 1) / (degree * pace)

    return seconds
