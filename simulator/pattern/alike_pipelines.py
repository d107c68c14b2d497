"""Kinds of changed pipelines: on an even platform, alike pipelines take equal time.

A step whose gradients hide behind no passes is as slow as its slowest pipeline. So a state with any
number of changed pipelines needs no simulation of its own: one of each kind of pipeline suffices,
for all states and all schemes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from faultline.simulator.pattern.plan_shares import StepShares
from faultline.strategies.interface.step_shares import Pipeline, idle, reduced_pipeline

Kind = tuple[Pipeline, ...]
"""A pipeline, or several that share nodes, as those of the first groups: each stage is on the node
of its place, unless another stage before it is on the same node."""


def kinds_of(
    shares: StepShares, stages: int, micro_batches: int, tensor: int
) -> tuple[list[Kind], bool]:
    """Return the kinds of a step's changed pipelines, and whether other groups work as usual.

    Pipelines with less work than others, but else alike, are left out: they are never slower.

    Parameters
    ----------
    shares : StepShares
        The members of the step, with their shares.
    stages, micro_batches, tensor : int
        A pipeline of an undisturbed step.
    """
    usual = reduced_pipeline(0, stages, micro_batches, tensor)
    working = {one.group: one for one in shares.pipelines if one.stages}
    changed = {group: one for group, one in working.items() if one != _moved(usual, group)}
    unchanged = {group for group in shares.computing_groups if group not in changed}
    beside = [(usual,)] if unchanged else []
    found = (_kind(one, stages) for one in _sharing_nodes(changed, unchanged, usual))
    kinds = list(dict.fromkeys([*beside, *found]))
    slowest = (one for one in kinds if not any(_is_within(one, other) for other in kinds))
    return [kind for kind in slowest if kind not in beside], bool(unchanged)


def for_all(kind: Kind, groups: int) -> tuple[Pipeline, ...]:
    """Return the pipelines of a job whose groups are all of one kind; groups that are left idle."""
    found: list[Pipeline] = []
    for first in range(0, groups - len(kind) + 1, len(kind)):
        found += (_moved(one, first) for one in kind)
    return (*found, *map(idle, range(len(found), groups)))


@lru_cache(maxsize=4096)
def _is_within(kind: Kind, other: Kind) -> bool:
    """Return whether a pipeline has the work of another, or less of it."""
    one, whole = kind[0], other[0]
    if kind[1:] != other[1:] or any(each.stages for each in kind[1:]):
        return False
    if one == whole or len(one.stages) != len(whole.stages):
        return False
    stages = tuple(
        share._replace(forward=most.forward, backward=most.backward)
        for share, most in zip(one.stages, whole.stages, strict=True)
    )
    micro_batches = one.micro_batches if one.orders else whole.micro_batches
    if replace(one, stages=stages, micro_batches=micro_batches) != whole:
        return False
    return one.micro_batches <= whole.micro_batches and all(
        share.forward <= most.forward and share.backward <= most.backward
        for share, most in zip(one.stages, whole.stages, strict=True)
    )


@lru_cache(maxsize=4096)
def _busy_nodes(pipeline: Pipeline) -> frozenset[tuple[int, int]]:
    """Return the nodes that compute for a pipeline; a stage without work only sends."""
    return frozenset(
        stage[:2]
        for stage in pipeline.stages
        if stage.forward or stage.backward or stage.shadows is not None
    )


def _sharing_nodes(
    changed: Mapping[int, Pipeline], unchanged: Collection[int], usual: Pipeline
) -> Iterator[tuple[Pipeline, ...]]:
    """Yield changed pipelines, together with all that compute on the same nodes."""
    groups_on = defaultdict[tuple[int, int], set[int]](set)
    for group, pipeline in changed.items():
        for owner, node in _busy_nodes(pipeline):
            groups_on[owner, node] |= {group, owner} if owner in unchanged else {group}
    linked = {group: {group} for group in changed}
    for groups in groups_on.values():
        for group in groups if len(groups) > 1 else ():
            linked[group] = linked.get(group, set()) | groups
    seen = set[int]()
    for first in changed:
        found, waiting = {first}, [] if first in seen else [first]
        while waiting:
            new = linked[waiting.pop()] - found
            found |= new
            waiting += new
        if first not in seen:
            yield tuple(changed.get(group) or _moved(usual, group) for group in sorted(found))
        seen |= found


@lru_cache(maxsize=4096)
def _moved(pipeline: Pipeline, groups: int) -> Pipeline:
    """Return a pipeline on the nodes of other groups, by how much their numbers are larger."""
    stages = tuple(stage._replace(group=stage.group + groups) for stage in pipeline.stages)
    return replace(pipeline, group=pipeline.group + groups, stages=stages)


@lru_cache(maxsize=4096)
def _kind(pipelines: tuple[Pipeline, ...], nodes_per_group: int) -> Kind:
    """Return the kind of some pipelines.

    A pipeline of more stages than a group has nodes uses those of the next groups, which are idle.
    """
    places: dict[tuple[int, int], tuple[int, int]] = {}
    found: list[Pipeline] = []
    for one in pipelines:
        first, stages = len(found), []
        for place, stage in enumerate(one.stages):
            further, own = divmod(place, nodes_per_group)
            group, node = places.setdefault(stage[:2], (first + further, own))
            stages.append(stage._replace(group=group, node=node))
        found.append(replace(one, group=first, stages=tuple(stages)))
        last = first + (len(stages) - 1) // nodes_per_group
        found += map(idle, range(first + 1, last + 1))
    return tuple(found)
