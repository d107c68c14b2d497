"""Pipeline templates: the best division of a model's layers into stages on a number of nodes.

Oobleck (SOSP 2023) plans a template for each possible number of nodes of a pipeline. No stage spans
nodes; the GPUs of a node are shared among its stages. The cost of a template of S stages, whose
slowest is number k (from 0), is

    T = sum + (2 S + k + 1) slowest + sum of the stages from k on,

the time of an iteration with enough micro-batches to keep S stages busy. Dynamic programming over
(stages, layers, nodes, GPUs of a node) finds the exact optimum. T is ``2 sum + (2 S + 1) slowest``
plus the slack: the time by which the stages before k are faster than k. Of two divisions of the
same layers with the same slowest stage, the one with the smaller sum and slack is therefore never
worse, for any other stages before or behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

StageTime = Callable[[int, int, int], float]
"""``f(first, end, gpus)``: time of one micro-batch, forward and backward, in layers first to
end - 1 on `gpus` GPUs of a node, including the collectives inside the stage."""


class Stage(NamedTuple):
    """Layers ``first`` to ``end - 1`` on some GPUs of a node; `time` is of one micro-batch."""

    first: int
    end: int
    gpus: int
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
    """Return the best template for equal layers, each of time 1, and nodes of one GPU.

    The longer stages come first. Nodes beyond the number of layers idle.
    """
    stages = min(layers, nodes)
    each, more = divmod(layers, stages)
    ends = [(place + 1) * each + min(place + 1, more) for place in range(stages)]
    cut = zip([0, *ends], ends, strict=False)
    return Template(nodes, tuple(Stage(first, end, 1, end - first) for first, end in cut))


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

    def __init__(self, layers: int, stage_time: StageTime, gpus_per_node: int = 1) -> None:
        self._layers = layers
        self._stage_time = stage_time
        self._gpus = gpus_per_node
        self._parts: dict[tuple[int, int, int, int, int], list[_Part]] = {}

    def template(self, nodes: int) -> Template | None:
        """Return the template of least T over all numbers of stages; None if layers are too few."""
        most = min(self._layers, nodes * self._gpus)
        found = [
            part
            for stages in range(nodes, most + 1)
            for part in self._ways(stages, 0, self._layers, nodes, self._gpus)
        ]
        return Template(nodes, min(found, key=_Part.worth).stages) if found else None

    def templates(self, least: int, most: int) -> Iterator[Template]:
        """Yield the templates of consecutive numbers of nodes, as far as there are layers."""
        for nodes in range(least, most + 1):
            template = self.template(nodes)
            if template is None:
                return
            yield template

    def _ways(self, stages: int, first: int, end: int, nodes: int, gpus: int) -> list[_Part]:
        """Return the divisions of layers into stages of which none is worse than another."""
        key = (stages, first, end, nodes, gpus)
        if key not in self._parts:
            self._parts[key] = _best(self._cuts(*key))
        return self._parts[key]

    def _cuts(self, stages: int, first: int, end: int, nodes: int, gpus: int) -> Iterator[_Part]:
        """Yield divisions of layers: the first node and the rest, or a node's first stage."""
        if stages < nodes or stages > min(end - first, nodes * gpus):
            return
        if stages == 1:
            time = self._stage_time(first, end, gpus)
            yield _Part(time, time, 0.0, (Stage(first, end, gpus, time),))
        elif nodes > 1:
            for here in range(1, min(gpus, stages - nodes + 1) + 1):
                for middle in range(first + here, end - (stages - here) + 1):
                    left = self._ways(here, first, middle, 1, gpus)
                    yield from _joined(
                        left, self._ways(stages - here, middle, end, nodes - 1, gpus)
                    )
        else:
            for own in range(1, gpus - stages + 2):
                for middle in range(first + 1, end - stages + 2):
                    left = self._ways(1, first, middle, 1, own)
                    yield from _joined(left, self._ways(stages - 1, middle, end, 1, gpus - own))


def _joined(left: list[_Part], right: list[_Part]) -> Iterator[_Part]:
    for before in left:
        for behind in right:
            slowest, slack = before.slowest, before.slack
            if behind.slowest > slowest:
                slowest = behind.slowest
                slack = len(before.stages) * slowest - before.total + behind.slack
            total = before.total + behind.total
            yield _Part(slowest, total, slack, before.stages + behind.stages)


def _best(parts: Iterable[_Part]) -> list[_Part]:
    """Remove divisions with the same slowest stage as another and no better sum and slack."""
    kept: list[_Part] = []
    for part in sorted(parts, key=lambda one: one[:3]):
        # Parts with one slowest stage are in order of their sums: a later one needs less slack.
        if kept and kept[-1].slowest == part.slowest and kept[-1].slack <= part.slack:
            continue
        kept.append(part)
    return kept
