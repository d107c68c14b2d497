"""Pipeline templates: the best division of a model's layers into stages on a number of nodes.

Oobleck (SOSP 2023) plans a template for each possible number of nodes of a pipeline, here with one
stage on each node. The cost of a template of S stages, whose slowest is number k (from 0), is

    T = sum + (2 S + k + 1) slowest + sum of the stages from k on,

the time of an iteration with enough micro-batches to keep S stages busy. Equal layers need no
search (`even_template`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple


class TemplateStage(NamedTuple):
    """Layers ``first`` to ``end - 1`` on a node; `time` is of one micro-batch."""

    first: int
    end: int
    time: float


@dataclass(frozen=True, slots=True)
class Template:
    """A pipeline on some nodes; its stages are in the order of the layers."""

    nodes: int
    stages: tuple[TemplateStage, ...]

    @property
    def slowest(self) -> float:
        """Time of a micro-batch in the slowest stage."""
        return max(stage.time for stage in self.stages)

    @property
    def total(self) -> float:
        """Time of a micro-batch in all stages."""
        return sum(stage.time for stage in self.stages)

    @property
    def worth(self) -> float:
        """T of the module's docstring; less is better."""
        times = [stage.time for stage in self.stages]
        k = times.index(self.slowest)
        return self.total + (2 * len(times) + k + 1) * self.slowest + sum(times[k:])

    @property
    def time_per_micro_batch(self) -> float:
        """T over S, by which micro-batches are distributed."""
        return self.worth / len(self.stages)

    def iteration(self, micro_batches: int) -> float:
        """Return the time of an iteration: ``(b - 1) slowest + sum``; 0 without micro-batches."""
        return (micro_batches - 1) * self.slowest + self.total if micro_batches else 0.0


@lru_cache(maxsize=1024)
def even_template(layers: int, nodes: int) -> Template:
    """Return the best template for equal layers, each of time 1.

    The longer stages come first. Nodes beyond the number of layers idle.
    """
    stages = min(layers, nodes)
    least, longer = divmod(layers, stages)
    ends = [stage * least + min(stage, longer) for stage in range(1, stages + 1)]
    bounds = zip([0, *ends], ends, strict=False)
    return Template(nodes, tuple(TemplateStage(first, end, end - first) for first, end in bounds))
