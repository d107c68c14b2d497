"""Which stages of which pipelines have lost their nodes, told hit by hit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from faultline.strategies.base import Hit


def stages_of(hit: Hit, stages: int, context: int = 1) -> Sequence[int]:
    """Return the stages whose nodes a hit breaks, where GPUs are dealt out to stages in order.

    Of each of the `context` replicas of a group, a stage has a run of as many GPUs as any other;
    one that loses a GPU is lost. Where there are fewer GPUs than stages, a GPU has several.
    """
    gpus, runs = hit.gpus_per_group, stages * context
    first, last = hit.first_gpu * runs // gpus, ((hit.last_gpu + 1) * runs - 1) // gpus
    return sorted({run % stages for run in range(first, min(last, first + stages) + 1)})


class LostStages:
    """Counts what is broken of each stage.

    A stage that is hit again while it is down is back when both hits are repaired: of independent
    failures each takes its own time.

    Parameters
    ----------
    groups : int
        Pipelines.
    stages : int
        Stages of a pipeline, a node each.
    context : int
        Replicas of a group that share its sequences.
    """

    def __init__(self, groups: int, stages: int, context: int = 1) -> None:
        self.stages, self._context = stages, context
        self._hits: list[Counter[int]] = [Counter() for _ in range(groups)]

    def clear(self) -> None:
        """Nothing is broken."""
        for counter in self._hits:
            counter.clear()

    def add(self, hit: Hit) -> tuple[int, ...]:
        """Take in a hit; returns the stages of its group that were up until then."""
        counter = self._hits[hit.group]
        struck = stages_of(hit, self.stages, self._context)
        newly = tuple(stage for stage in struck if not counter[stage])
        counter.update(struck)
        return newly

    def repair(self, hit: Hit) -> tuple[int, ...]:
        """Take back a hit; returns the stages of its group that are up again."""
        counter, back = self._hits[hit.group], []
        for stage in stages_of(hit, self.stages, self._context):
            if counter[stage]:
                counter[stage] -= 1
                if not counter[stage]:
                    back.append(stage)
        return tuple(back)

    def of(self, group: int) -> frozenset[int]:
        """Return the stages of a group that are down."""
        return frozenset(stage for stage, hits in self._hits[group].items() if hits)

    def live(self, group: int) -> tuple[tuple[int, int], ...]:
        """Return the nodes of a group that are up, by group and stage."""
        lost = self.of(group)
        return tuple((group, stage) for stage in range(self.stages) if stage not in lost)

    def nodes_left(self, group: int) -> int:
        """Return how many nodes of a group are up."""
        return self.stages - len(self.of(group))
