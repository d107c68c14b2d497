"""The pipelines of a job, their changes after losses, and their shares of a batch.

Oobleck (SOSP 2023): a job on N nodes uses the fastest multiset of templates that uses all nodes. A
pipeline that lost nodes takes a smaller template. If it is too short for any template it borrows
nodes from others, or is merged with another. The micro-batches of a batch are then redistributed so
that the times of pipelines vary least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import inf, sqrt
from typing import TypeVar

from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.step_shares import Pipeline, StageShare, idle
from faultline.strategies.schemes.takeover.templates import Template, even_template

Node = TypeVar("Node")


def regrouped(nodes: Iterable[Sequence[Node]], least: int) -> tuple[tuple[Node, ...], ...]:
    """Return the nodes of each pipeline after some were lost, the longest first.

    The remaining nodes of each pipeline keep their order. The shortest pipeline that has a template
    has `least` nodes, so that its memory is sufficient. Each pipeline begins with one of its own
    nodes. The result is empty if no pipeline can be formed.
    """
    pipelines = sorted((list(each) for each in nodes if each), key=len, reverse=True)
    while pipelines and len(pipelines[-1]) < least:
        if len(pipelines[0]) > least:
            pipelines[-1].append(pipelines[0].pop())
        elif len(pipelines) > 1:
            # The two shortest are merged.
            pipelines[-2:] = [pipelines[-2] + pipelines[-1]]
        else:
            return ()
        pipelines.sort(key=len, reverse=True)
    return tuple(map(tuple, pipelines))


def formed(
    pipelines: Sequence[Sequence[tuple[int, int]]], groups: int, shape: JobShape
) -> list[Pipeline]:
    """Return the re-formed pipeline of each group of a job, by group.

    Whole layers are divided evenly, and whole micro-batches distributed (`micro_batch_shares`).
    `pipelines` lists the nodes of each, by group and stage. A pipeline belongs to the group of its
    first node; groups without a pipeline idle. `shape` is the job's layout without losses.
    """
    paces = {
        length: even_template(shape.layers, length).time_per_micro_batch
        for length in {*map(len, pipelines)}
    }
    shares = micro_batch_shares(
        [paces[len(nodes)] for nodes in pipelines], shape.micro_batches * groups
    )
    at_work = {
        nodes[0][0]: Pipeline(
            nodes[0][0], stages_on(tuple(nodes), shape.layers, shape.stages), share, shape.tensor
        )
        for nodes, share in zip(pipelines, shares, strict=True)
    }
    return [at_work.get(group) or idle(group) for group in range(groups)]


@lru_cache(maxsize=8192)
def stages_on(
    nodes: tuple[tuple[int, int], ...], layers: int, stages: int
) -> tuple[StageShare, ...]:
    """Return the stages of a pipeline on some nodes, each by group and stage.

    With `stages` nodes its layers are divided as without losses. A failure changes few of thousands
    of pipelines: the stages of the others are cached.
    """
    if len(nodes) == stages:
        return tuple(StageShare(*node) for node in nodes)
    cut = even_template(layers, len(nodes)).stages
    return tuple(
        StageShare(*node, stage.end - stage.first) for node, stage in zip(nodes, cut, strict=False)
    )


def micro_batch_shares(paces: Sequence[float], micro_batches: int) -> tuple[int, ...]:
    """Return the micro-batches of each pipeline, at least one, so that times vary least.

    Minimises the variance of ``b_i c_i`` exactly, where the paces c_i are the times of a
    micro-batch in each pipeline. The minimum is that of ``sum (b_i c_i - u)^2`` over whole b_i and
    any u. For a given u the best b_i are found by adding one micro-batch at a time. As u grows,
    micro-batches move one by one to pipelines of a larger c_i. All relevant u are tried.

    Raises
    ------
    StrategyError
        If there are too few micro-batches.
    """
    if micro_batches < len(paces):
        raise StrategyError(
            "micro_batches",
            f"{micro_batches} are too few for {len(paces)} pipelines",
            "give each at least one",
        )
    shares = _least_varied(Counter(paces), micro_batches)
    # Among equal pipelines, the first have one more.
    next_share = {pace: iter(split) for pace, split in shares.items()}
    return tuple(next(next_share[pace]) for pace in paces)


def _least_varied(counts: Mapping[float, int], micro_batches: int) -> dict[float, list[int]]:
    """Return the shares of the pipelines of each pace, largest first."""
    inverse = sum(count / pace for pace, count in counts.items())
    middle = micro_batches / inverse
    first = _Deal(counts, micro_batches, middle)
    # Bound on the distance of the mean time from `middle` (Cauchy and Schwarz: times weighted by
    # 1/c have the mean `middle` for any shares).
    weights = sum(count / pace**2 for pace, count in counts.items()) / inverse**2
    reach = sqrt(first.spread() * weights) * (1 + 1e-9)
    deal = _Deal(counts, micro_batches, middle - reach)
    best, least, reached = first.shares(), first.spread(), middle - reach
    while reached <= middle + reach:
        if (spread := deal.spread()) < least:
            best, least = deal.shares(), spread
        reached = deal.move()
    return best


class _Deal:
    """Micro-batches of pipelines, by pace; equal pipelines differ by one at most.

    Their times are nearest to a level, in the sum of squares.
    """

    def __init__(self, counts: Mapping[float, int], micro_batches: int, level: float) -> None:
        self._counts = counts
        self._sums = {pace: count * max(1, int(level / pace)) for pace, count in counts.items()}
        while (missing := micro_batches - sum(self._sums.values())) > 0:
            pace = min(counts, key=lambda pace: self._price(pace, self._fewest(pace), level))
            self._sums[pace] += min(missing, self._with_fewest(pace))
        while (over := sum(self._sums.values()) - micro_batches) > 0:
            givers = [pace for pace in counts if self._most(pace) > 1]
            pace = max(givers, key=lambda pace: self._price(pace, self._most(pace) - 1, level))
            self._sums[pace] -= min(over, self._with_most(pace))

    @staticmethod
    def _price(pace: float, share: int, level: float) -> float:
        """Return the increase of the sum of squares from `share` to one more."""
        return pace * (pace * (2 * share + 1) - 2 * level)

    def _fewest(self, pace: float) -> int:
        return self._sums[pace] // self._counts[pace]

    def _most(self, pace: float) -> int:
        return -(-self._sums[pace] // self._counts[pace])

    def _with_fewest(self, pace: float) -> int:
        """Return how many pipelines of a pace have its smallest share."""
        return self._counts[pace] - self._sums[pace] % self._counts[pace]

    def _with_most(self, pace: float) -> int:
        return self._sums[pace] % self._counts[pace] or self._counts[pace]

    def move(self) -> float:
        """Move the next micro-batches as the level grows; return that level.

        All moves at one level happen together: the sum of squares around the level does not change,
        and the mean moves in one direction, so the spread is least at one end.
        """
        lowest, taker, giver = inf, 0.0, 0.0
        for slow in self._counts:
            for fast in self._counts:
                if slow > fast and self._most(fast) > 1:
                    more, fewer = 2 * self._fewest(slow) + 1, 2 * self._most(fast) - 1
                    level = (slow * slow * more - fast * fast * fewer) / (2 * (slow - fast))
                    if level < lowest:
                        lowest, taker, giver = level, slow, fast
        if taker:
            moved = min(self._with_fewest(taker), self._with_most(giver))
            self._sums[taker] += moved
            self._sums[giver] -= moved
        return lowest

    def spread(self) -> float:
        """Return the sum of squared deviations of the times from their mean."""
        times = [
            (pace * share, number) for pace in self._counts for share, number in self._split(pace)
        ]
        mean = sum(time * number for time, number in times) / sum(self._counts.values())
        return sum(number * (time - mean) ** 2 for time, number in times)

    def _split(self, pace: float) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the two shares of pipelines of a pace, and how many pipelines have each."""
        share, larger = divmod(self._sums[pace], self._counts[pace])
        return (share + 1, larger), (share, self._counts[pace] - larger)

    def shares(self) -> dict[float, list[int]]:
        """Return the shares of the pipelines of each pace, largest first."""
        return {
            pace: [share for share, number in self._split(pace) for _ in range(number)]
            for pace in self._counts
        }


def iteration_time(
    pipelines: Sequence[Template],
    micro_batches: int,
    time_of: Callable[[Template, int], float] = Template.iteration,
) -> float:
    """Return the time of an iteration: that of the slowest pipeline with its micro-batches.

    `time_of` returns the time of a pipeline with its micro-batches, by default that of 1F1B.
    """
    # Thousands of pipelines use few templates.
    templates = {id(template): template for template in pipelines}
    paces = {key: template.time_per_micro_batch for key, template in templates.items()}
    keys = [id(template) for template in pipelines]
    shares = micro_batch_shares([paces[key] for key in keys], micro_batches)
    return max(time_of(templates[key], share) for key, share in set(zip(keys, shares, strict=True)))
