"""Pipeline templates: the best division of a model's layers into stages on a number of nodes.

Oobleck (SOSP 2023) plans a template for each possible number of nodes of a pipeline, here with one
stage on each node. The cost of a template of S stages, whose slowest is number k (from 0), is

    T = sum + (2 S + k + 1) slowest + sum of the stages from k on,

the time of an iteration with enough micro-batches to keep S stages busy. Dynamic programming over
stages and layers finds the exact optimum. T is ``2 sum + (2 S + 1) slowest``
plus the slack: the time by which the stages before k are faster than k. Of two divisions of the
same layers with the same slowest stage, the one with the smaller sum and slack is therefore never
worse, for any other stages before or behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

StageTime = Callable[[int, int], float]
"""``f(first, end)``: time of one micro-batch, forward and backward, in layers first to end - 1 on a
node."""


class Stage(NamedTuple):
    """Layers ``first`` to ``end - 1`` on a node; `time` is of one micro-batch."""

    first: int
    end: int
    time: float


@dataclass(frozen=True, slots=True)
class Template:
    """A pipeline on some nodes; its stages are in the order of the layers."""

    nodes: int
    stages: tuple[Stage, ...]

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
    return Template(nodes, tuple(Stage(first, end, end - first) for first, end in bounds))


class _Part(NamedTuple):
    """A division of some layers into stages."""

    slowest: float
    total: float
    slack: float
    """Total time by which the stages before the slowest are faster than it."""
    stages: tuple[Stage, ...]

    def worth(self) -> float:
        return 2 * self.total + (2 * len(self.stages) + 1) * self.slowest + self.slack


class TemplatePlanner:
    """Finds the best template for any number of nodes, and caches parts of it."""

    def __init__(self, layers: int, stage_time: StageTime) -> None:
        self._layers = layers
        self._stage_time = stage_time
        self._parts: dict[tuple[int, int], list[_Part]] = {}

    def template(self, nodes: int) -> Template | None:
        """Return the template of least T, a stage on each node; None if layers are too few."""
        divisions = self._divisions(nodes, 0)
        return Template(nodes, min(divisions, key=_Part.worth).stages) if divisions else None

    def templates(self, least: int, most: int) -> Iterator[Template]:
        """Yield the templates of consecutive numbers of nodes, up to the number of layers."""
        for nodes in range(least, most + 1):
            template = self.template(nodes)
            if template is None:
                return
            yield template

    def _divisions(self, stages: int, first: int) -> list[_Part]:
        """Return the divisions of the layers from `first`, without those worse than another."""
        if (stages, first) not in self._parts:
            self._parts[stages, first] = _best(self._cuts(stages, first))
        return self._parts[stages, first]

    def _cuts(self, stages: int, first: int) -> Iterator[_Part]:
        """Yield divisions of layers: the first stage and the rest."""
        last = self._layers - (stages - 1)
        # The last stage has all remaining layers.
        for end in range(first + 1, last + 1) if stages > 1 else (last,):
            time = self._stage_time(first, end)
            stage = _Part(time, time, 0.0, (Stage(first, end, time),))
            if stages > 1:
                yield from _joined(stage, self._divisions(stages - 1, end))
            else:
                yield stage


def _joined(before: _Part, divisions: list[_Part]) -> Iterator[_Part]:
    for behind in divisions:
        slowest, slack = before.slowest, before.slack
        if behind.slowest > slowest:
            slowest = behind.slowest
            slack = len(before.stages) * slowest - before.total + behind.slack
        total = before.total + behind.total
        yield _Part(slowest, total, slack, before.stages + behind.stages)


def _best(parts: Iterable[_Part]) -> list[_Part]:
    """Remove divisions with the same slowest stage as another and no better sum and slack."""
    kept: list[_Part] = []
    for part in sorted(parts, key=lambda part: part[:3]):
        # Parts with equal slowest stages are in the order of their sums; a later part is kept only
        # if its slack is smaller.
        if kept and kept[-1].slowest == part.slowest and kept[-1].slack <= part.slack:
            continue
        kept.append(part)
    return kept
