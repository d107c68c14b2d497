"""Who takes over failed stages, against all ways to cut a pipeline into pieces."""

from __future__ import annotations

from itertools import combinations

import pytest
from faultline.strategies.errors import StrategyError
from faultline.strategies.takeover.neighbours import tasks_by_node
from hypothesis import given
from hypothesis import strategies as st


def best_by_trying(stages: int, failed: set[int]) -> int:
    """Tasks of the fullest node over all cuts that leave every node its own stage."""
    live = [stage for stage in range(stages) if stage not in failed]
    best = stages
    for cuts in combinations(range(1, stages), len(live) - 1):
        pieces = list(zip((0, *cuts), (*cuts, stages), strict=True))
        if all(first <= node < end for node, (first, end) in zip(live, pieces, strict=True)):
            best = min(best, max(end - first for first, end in pieces))
    return best


@given(st.integers(1, 9), st.data())
def test_all_stages_are_done_and_the_fullest_node_has_few(stages: int, data: st.DataObject) -> None:
    failed = data.draw(st.sets(st.integers(0, stages - 1), max_size=stages - 1))
    tasks = tasks_by_node(stages, failed)
    assert len(tasks) == stages - len(failed)
    assert sum(tasks) == stages
    assert min(tasks) >= 1
    assert max(tasks) == best_by_trying(stages, failed)
    # Each node's piece has its own stage in it.
    first = 0
    for node, mine in zip(sorted(set(range(stages)) - failed), tasks, strict=True):
        assert first <= node < first + mine
        first += mine


def test_by_hand() -> None:
    assert tasks_by_node(8, []) == (1,) * 8
    assert tasks_by_node(8, [3]) == (1, 1, 2, 1, 1, 1, 1)
    assert tasks_by_node(8, [0]) == (2, 1, 1, 1, 1, 1, 1)
    assert tasks_by_node(8, [3, 4]) == (1, 1, 2, 2, 1, 1)
    assert tasks_by_node(8, [0, 1]) == (3, 1, 1, 1, 1, 1)
    assert tasks_by_node(4, [0, 2]) == (2, 2)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(StrategyError, match="no node of the pipeline is left"):
        tasks_by_node(2, [0, 1])
    with pytest.raises(StrategyError, match="no stage 8"):
        tasks_by_node(8, [8])
