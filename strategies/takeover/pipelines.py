"""Which pipelines a job has, what happens to them at a loss, and how they share a batch.

Oobleck (SOSP 2023): a job on N nodes takes that multiset of templates which uses all nodes and is
fastest; a pipeline that lost nodes takes a smaller template; one that is too short for any borrows
nodes from the others; where none can spare any, it is merged with another. The micro-batches of a
batch are dealt out anew so that pipelines take times that vary least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import inf, sqrt
from typing import TypeVar

from faultline.strategies.errors import StrategyError
from faultline.strategies.job_shape import JobShape
from faultline.strategies.step_shares import Pipeline, StageShare, idle
from faultline.strategies.takeover.templates import Template, even_template

Node = TypeVar("Node")


def regrouped(nodes: Iterable[Sequence[Node]], least: int) -> tuple[tuple[Node, ...], ...]:
    """Return the nodes of each pipeline after some were lost, the longest first.

    Parameters
    ----------
    nodes : iterable of sequences
        Nodes that are left in each pipeline, in their order.
    least : int
        Nodes of the shortest pipeline that there is a template for: its memory has to do.

    Returns
    -------
    tuple of tuples
        Each begins with a node that was its own. Empty where not even one pipeline can be formed.
    """
    left = sorted((list(each) for each in nodes if each), key=len, reverse=True)
    while left and len(left[-1]) < least:
        if len(left[0]) > least:
            left[-1].append(left[0].pop())
        elif len(left) > 1:
            # Two are merged: the shortest with the next.
            left[-2:] = [left[-2] + left[-1]]
        else:
            return ()
        left.sort(key=len, reverse=True)
    return tuple(map(tuple, left))


def formed(
    pipelines: Sequence[Sequence[tuple[int, int]]], groups: int, shape: JobShape
) -> list[Pipeline]:
    """Return what each group of a job does whose pipelines were re-formed, by group.

    Whole layers are cut evenly, and whole micro-batches dealt out (`dealt_out`). Pipelines come as
    their nodes, each by group and stage, and count as that of their first node's group; groups
    without one idle. `shape` is how the job is cut as long as no node is lost.
    """
    paces = {
        length: even_template(shape.layers, length).time_per_micro_batch
        for length in {*map(len, pipelines)}
    }
    shares = dealt_out([paces[len(nodes)] for nodes in pipelines], shape.micro_batches * groups)
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

    It keeps its layers as they were cut if there are as many nodes as `stages`. A failure changes a
    few of thousands of pipelines: the stages of the others are the same value each time.
    """
    if len(nodes) == stages:
        return tuple(StageShare(*node) for node in nodes)
    cut = even_template(layers, len(nodes)).stages
    return tuple(
        StageShare(*node, stage.end - stage.first) for node, stage in zip(nodes, cut, strict=False)
    )


def dealt_out(paces: Sequence[float], micro_batches: int) -> tuple[int, ...]:
    """Return the micro-batches of each pipeline, at least one, whose times vary least.

    Minimises the variance of ``b_i c_i``, exactly. That is the least of ``sum (b_i c_i - u)^2``
    over whole b_i and any u; for one u the best b_i come one micro-batch at a time, and as u grows
    micro-batches move one by one to pipelines of a larger c_i. All u that matter are tried. The
    paces are the c_i, the times of a micro-batch in each pipeline.

    Raises
    ------
    StrategyError
        There is no pipeline, or there are too few micro-batches.
    """
    if not paces:
        raise StrategyError("pipelines", "there is none", "give one or more")
    if micro_batches < len(paces):
        raise StrategyError(
            "micro_batches",
            f"{micro_batches} are too few for {len(paces)} pipelines",
            "give each at least one",
        )
    shares = _least_varied(Counter(paces), micro_batches)
    # Of pipelines that are alike, the first have one more.
    each = {pace: iter(split) for pace, split in shares.items()}
    return tuple(next(each[pace]) for pace in paces)


def _least_varied(counts: Mapping[float, int], micro_batches: int) -> dict[float, list[int]]:
    """Return the shares of the pipelines of each pace, largest first."""
    inverse = sum(count / pace for pace, count in counts.items())
    middle = micro_batches / inverse
    first = _Deal(counts, micro_batches, middle)
    # The mean of the times is at most so far from `middle` (Cauchy and Schwarz; times weighted by
    # 1/c have the mean `middle`, whatever the shares are).
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
    """Micro-batches of pipelines, by pace: pipelines that are alike differ by one at most.

    Made so that their times are nearest to a level, in the sum of squares.
    """

    def __init__(self, counts: Mapping[float, int], micro_batches: int, level: float) -> None:
        self._counts = counts
        self._sums = {pace: count * max(1, int(level / pace)) for pace, count in counts.items()}
        while (missing := micro_batches - sum(self._sums.values())) > 0:
            pace = min(counts, key=lambda one: self._price(one, self._fewest(one), level))
            self._sums[pace] += min(missing, self._with_fewest(pace))
        while (over := sum(self._sums.values()) - micro_batches) > 0:
            givers = [pace for pace in counts if self._most(pace) > 1]
            pace = max(givers, key=lambda one: self._price(one, self._most(one) - 1, level))
            self._sums[pace] -= min(over, self._with_most(pace))

    @staticmethod
    def _price(pace: float, share: int, level: float) -> float:
        """Return what one more than `share` adds to the sum of squares."""
        return pace * (pace * (2 * share + 1) - 2 * level)

    def _fewest(self, pace: float) -> int:
        return self._sums[pace] // self._counts[pace]

    def _most(self, pace: float) -> int:
        return -(-self._sums[pace] // self._counts[pace])

    def _with_fewest(self, pace: float) -> int:
        """Return how many pipelines of a pace have the fewest of it."""
        return self._counts[pace] - self._sums[pace] % self._counts[pace]

    def _with_most(self, pace: float) -> int:
        return self._sums[pace] % self._counts[pace] or self._counts[pace]

    def move(self) -> float:
        """Move the micro-batches that move next as the level grows; returns that level.

        All that move at one level move together: the sum of squares around the level stays the same
        meanwhile, and the mean moves one way, so the spread is least at one end.
        """
        found, taker, giver = inf, 0.0, 0.0
        for slow in self._counts:
            for fast in self._counts:
                if slow > fast and self._most(fast) > 1:
                    more, fewer = 2 * self._fewest(slow) + 1, 2 * self._most(fast) - 1
                    level = (slow * slow * more - fast * fast * fewer) / (2 * (slow - fast))
                    if level < found:
                        found, taker, giver = level, slow, fast
        if taker:
            moved = min(self._with_fewest(taker), self._with_most(giver))
            self._sums[taker] += moved
            self._sums[giver] -= moved
        return found

    def spread(self) -> float:
        """Return the sum of squared deviations of the times from their mean."""
        times = [
            (pace * share, number) for pace in self._counts for share, number in self._split(pace)
        ]
        mean = sum(time * number for time, number in times) / sum(self._counts.values())
        return sum(number * (time - mean) ** 2 for time, number in times)

    def _split(self, pace: float) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the two shares that pipelines of a pace have, and how many have each."""
        each, more = divmod(self._sums[pace], self._counts[pace])
        return (each + 1, more), (each, self._counts[pace] - more)

    def shares(self) -> dict[float, list[int]]:
        """Return the shares of the pipelines of each pace, largest first."""
        return {
            pace: [share for share, number in self._split(pace) for _ in range(number)]
            for pace in self._counts
        }


def iteration_time(
    pipelines: Sequence[Template],
    micro_batches: int,
    taken: Callable[[Template, int], float] = Template.iteration,
) -> float:
    """Return the time of an iteration: the slowest pipeline's, with micro-batches dealt out.

    `taken` is the time of a pipeline with its micro-batches; that of 1F1B by default.
    """
    # Thousands of pipelines are of a few templates.
    known = {id(one): one for one in pipelines}
    paces = {key: one.time_per_micro_batch for key, one in known.items()}
    keys = [id(one) for one in pipelines]
    shares = dealt_out([paces[key] for key in keys], micro_batches)
    return max(taken(known[key], share) for key, share in set(zip(keys, shares, strict=True)))


def instantiated(
    templates: Mapping[int, Template], nodes: int, micro_batches: int, all_reduce: float = 0.0
) -> tuple[Template, ...]:
    """Return the fastest pipelines that use all nodes, the longest first.

    Every multiset of templates is tried; least ``max(b_i T_i)`` wins, and the all-reduce of a layer
    where there are several pipelines. T grows with the stages: the published criterion favours
    short pipelines. Empty where the nodes are no sum of templates, which come by their nodes;
    `all_reduce` is the time of one layer's, in the unit of their times.
    """
    found: tuple[Template, ...] = ()
    least = inf
    for sizes in _multisets(sorted(templates), nodes, micro_batches):
        pipelines = tuple(templates[size] for size in reversed(sizes))
        together = all_reduce if len(pipelines) > 1 else 0.0
        # Not even shares that need not be whole would be faster than this.
        bound = micro_batches / sum(1.0 / one.worth for one in pipelines)
        if bound + together >= least:
            continue
        shares = dealt_out([one.time_per_micro_batch for one in pipelines], micro_batches)
        longest = max(share * one.worth for share, one in zip(shares, pipelines, strict=True))
        if longest + together < least:
            found, least = pipelines, longest + together
    return found


def _multisets(sizes: Sequence[int], total: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a total as at most `most` sizes, in the order that they come in."""
    if total == 0:
        yield ()
    if total > 0 and most > 0:
        for place, size in enumerate(sizes):
            for rest in _multisets(sizes[place:], total - size, most - 1):
                yield (size, *rest)


def templates_needed(nodes: int, failures: int, least: int) -> range:
    """Return the sizes of templates that make up any number of nodes left by so many failures.

    Consecutive sizes from `least` on, none so large that fewer than ``failures + 1`` pipelines
    are left: every number of nodes from ``(failures + 1) least`` on is a sum of them.
    """
    return range(least, nodes - failures * least + 1)
