"""Oobleck's planner: the best templates, and the fastest pipelines that use all nodes.

Dynamic programming over stages and layers finds the exact optimum of a template's cost T
(`strategies.schemes.takeover.templates`). T is ``2 sum + (2 S + 1) slowest`` plus the slack: the
time by which the stages before the slowest are faster than it. Of two divisions of the same layers
with the same slowest stage, the one with the smaller sum and slack is therefore never worse, for
any other stages before or behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from faultline.strategies.schemes.takeover.pipelines import micro_batch_shares
from faultline.strategies.schemes.takeover.templates import Template, TemplateStage

StageTime = Callable[[int, int], float]
"""``f(first, end)``: time of one micro-batch, forward and backward, in layers first to end - 1 on a
node."""


class _Part(NamedTuple):
    """A division of some layers into stages."""

    slowest: float
    total: float
    slack: float
    """Total time by which the stages before the slowest are faster than it."""
    stages: tuple[TemplateStage, ...]

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
            stage = _Part(time, time, 0.0, (TemplateStage(first, end, time),))
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


def instantiated(
    templates: Mapping[int, Template], nodes: int, micro_batches: int
) -> tuple[Template, ...]:
    """Return the fastest pipelines that use all nodes, the longest first.

    All multisets of templates are tried, and the least ``max(b_i T_i)`` wins. T grows with the
    stages, so the published criterion favours short pipelines. The result is empty if no sum of
    templates uses all nodes. `templates` are by number of nodes.
    """
    fastest: tuple[Template, ...] = ()
    least = inf
    for sizes in _multisets(sorted(templates), nodes, micro_batches):
        pipelines = tuple(templates[size] for size in reversed(sizes))
        # A lower bound: the time with fractional shares.
        bound = micro_batches / sum(1.0 / template.worth for template in pipelines)
        if bound >= least:
            continue
        paces = [template.time_per_micro_batch for template in pipelines]
        shares = micro_batch_shares(paces, micro_batches)
        times = (b * template.worth for b, template in zip(shares, pipelines, strict=True))
        if (longest := max(times)) < least:
            fastest, least = pipelines, longest
    return fastest


def _multisets(sizes: Sequence[int], total: int, limit: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a total as a sum of at most `limit` sizes, in order."""
    if total == 0:
        yield ()
    if total > 0 and limit > 0:
        for place, size in enumerate(sizes):
            for rest in _multisets(sizes[place:], total - size, limit - 1):
                yield (size, *rest)


def templates_needed(nodes: int, failures: int, least: int) -> range:
    """Return the sizes of templates that sum to any number of nodes left by `failures` failures.

    The sizes are consecutive from `least` on, up to the largest that leaves ``failures + 1``
    pipelines: each number of nodes from ``(failures + 1) least`` on is a sum of them.
    """
    return range(least, nodes - failures * least + 1)
