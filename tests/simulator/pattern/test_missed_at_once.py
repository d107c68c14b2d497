"""How soon somebody waits for a rank that dies within a step: by brute force over its graph."""

from __future__ import annotations

from math import inf

import pytest
from faultline.simulator.pattern.activity_graph import (
    Activity,
    ActivityGraph,
    Fold,
    Rank,
    passes_graph,
)
from faultline.simulator.pattern.step_pattern import PartWork, StepPattern

FORWARD, BACKWARD, RING = 1.0, 2.0, 0.1


def lasts(activity: Activity) -> float:
    return RING if activity.kind == "tensor" else activity.amount


def ends(graph: ActivityGraph, dead: Rank | None = None, dies: float = inf) -> list[float]:
    """Return when each activity ends; never, if one that has died by then is part of it."""
    times: list[float] = []
    for activity, waits_for in zip(graph.activities, graph.waits_for, strict=True):
        end = max((times[one] for one in waits_for), default=0.0) + lasts(activity)
        takes_part = dead in (activity.rank, activity.peer) and activity.kind != "meeting"
        times.append(inf if takes_part and end > dies else end)
    return times


def first_hang(graph: ActivityGraph, dead: Rank, dies: float) -> float:
    """Return when a rank that lives begins to wait for what never comes."""
    times = ends(graph, dead, dies)
    begins = inf
    for number, activity in enumerate(graph.activities):
        needed = [times[one] for one in graph.waits_for[number]]
        partner = activity.peer if activity.rank == dead else activity.rank
        if activity.kind == "meeting" or partner in (dead, None):
            continue
        ready = max((time for time in needed if time < inf), default=0.0)
        if times[number] == inf and (inf in needed or dead in (activity.rank, activity.peer)):
            begins = min(begins, max(ready, dies))
    return begins


@pytest.mark.parametrize("tensor", [2, 4])
def test_a_death_is_felt_within_a_pass_of_its_stage(tensor: int) -> None:
    """Its tensor-parallel peers wait for it from the next pass on that they would meet in."""
    stages, micro_batches = 3, 6
    part = PartWork(FORWARD, BACKWARD, 1.0, 1.0)
    nothing = (0.0,) * stages
    pattern = StepPattern(
        1, stages, tensor, 1, micro_batches, (part,) * stages, 0.0, 1.0, nothing, nothing, nothing
    )
    graph = passes_graph(pattern, Fold.whole(pattern))
    undisturbed = ends(graph)
    for stage in range(stages):
        dead = Rank(0, stage, 1)
        own = [
            end
            for end, activity in zip(undisturbed, graph.activities, strict=True)
            if activity.rank == dead and activity.kind == "tensor"
        ]
        last = max(own)
        for percent in range(1, 100, 7):
            dies = last * percent / 100
            hangs = first_hang(graph, dead, dies)
            following = min(end for end in own if end > dies)
            assert dies <= hangs <= following
