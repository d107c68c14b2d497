"""Kinds of changed pipelines: those that decide the time of a step on an even platform."""

from __future__ import annotations

from dataclasses import replace

from faultline.simulator.pattern.alike_pipelines import for_all, kinds_of
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.strategies.interface.step_shares import (
    Pipeline,
    StageShare,
    idle,
    reduced_pipeline,
)

GROUPS, STAGES, MICRO_BATCHES, TENSOR = 8, 3, 16, 8
EVERYONE = tuple(range(GROUPS))


def kinds(*pipelines: Pipeline) -> tuple[list[tuple[Pipeline, ...]], bool]:
    return kinds_of(StepShares(EVERYONE, pipelines), STAGES, MICRO_BATCHES, TENSOR)


def on(group: int, *nodes: tuple[int, int]) -> Pipeline:
    """Return a pipeline of a group on nodes, each by its group and place."""
    stages = tuple(StageShare(owner, node) for owner, node in nodes)
    return Pipeline(group, stages, MICRO_BATCHES, TENSOR)


def test_a_group_that_works_as_usual_is_no_kind() -> None:
    assert kinds(reduced_pipeline(3, STAGES, MICRO_BATCHES, TENSOR)) == ([], True)


def test_which_groups_nodes_a_pipeline_uses_has_no_effect() -> None:
    merged = on(2, (2, 1), (2, 1), (2, 2)), on(6, (6, 0), (6, 0), (6, 2))
    assert kinds(merged[0]) == kinds(merged[1]) == kinds(*merged)
    assert kinds(merged[0])[0] == [(on(0, (0, 0), (0, 0), (0, 2)),)]
    # Whole nodes of a group that was dissolved: as if they were its own.
    assert kinds(on(2, (2, 0), (7, 1), (7, 2)), idle(7)) == ([], True)


def test_a_pipeline_with_less_work_than_another_decides_nothing() -> None:
    long = reduced_pipeline(1, STAGES, MICRO_BATCHES + 2, TENSOR)
    longer = reduced_pipeline(4, STAGES, MICRO_BATCHES + 3, TENSOR)
    short = reduced_pipeline(5, STAGES, MICRO_BATCHES - 1, TENSOR)
    assert kinds(long, longer, short) == ([(replace(longer, group=0, stages=own(0)),)], True)
    everyone = [replace(short, group=group, stages=own(group)) for group in EVERYONE]
    assert kinds(*everyone) == ([(everyone[0],)], False)


def test_pipelines_that_compute_on_one_node_are_one_kind() -> None:
    """Group 4 computes its own stages, and the last one of group 1."""
    (kind,), is_usual = kinds(on(1, (1, 0), (1, 1), (4, 2)))
    assert is_usual
    assert kind == (on(0, (0, 0), (0, 1), (0, 2)), on(1, (1, 0), (1, 1), (0, 2)))
    # Without work there it only passes messages on.
    lacking = on(1, (1, 0), (1, 1), (4, 2))
    lacking = replace(
        lacking, stages=(*lacking.stages[:2], StageShare(4, 2, None, 0.0, 0.0)), micro_batches=20
    )
    ((only,),), _ = kinds(lacking)
    assert [stage[:2] for stage in only.stages] == [(0, 0), (0, 1), (0, 2)]


def test_a_longer_pipeline_uses_nodes_of_idle_groups() -> None:
    long = on(1, (1, 0), (1, 1), (1, 2), (6, 0))
    (kind,), _ = kinds(long, idle(6))
    assert kind == (on(0, (0, 0), (0, 1), (0, 2), (1, 0)), idle(1))


def own(group: int) -> tuple[StageShare, ...]:
    return tuple(StageShare(group, stage) for stage in range(STAGES))


def test_all_groups_of_a_kind_use_their_own_nodes() -> None:
    longer = on(0, (0, 0), (0, 1), (0, 2), (1, 0))
    assert for_all((longer, idle(1)), 5) == (
        *(longer, idle(1)),
        *(on(2, (2, 0), (2, 1), (2, 2), (3, 0)), idle(3)),
        idle(4),
    )
