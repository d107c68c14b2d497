"""The pipeline's schedule: bounds, cases with a closed form, and a recursion of its own."""

from __future__ import annotations

from functools import cache

import pytest
from faultline.strategies.interface.pipeline_schedule import (
    Pass,
    approximate_iteration,
    stage_passes,
)
from faultline.strategies.interface.stage_work import Halves, StageWork
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.helpers import exact_iteration

halves = st.builds(Halves, st.floats(0.01, 2.0), st.floats(0.0, 2.0))
works = st.builds(StageWork, halves, halves, halves, halves)
pipelines = st.lists(works, min_size=1, max_size=6)
micro_batches = st.integers(1, 9)


def proportional_work(cost: float) -> StageWork:
    """Return work in the proportions 1 : 1 : 1 of a normal task, `cost` in all.

    For schedules that have only the total time of a stage.
    """
    third = Halves(ffn=cost / 3)
    return StageWork(third, Halves(), third, third)


def recursion(stages: list[StageWork], count: int) -> float:
    """The same iteration from the end backwards: when is each pass through."""
    last = len(stages) - 1
    orders = [list(stage_passes(place, len(stages), 1, count)) for place in range(len(stages))]

    @cache
    def through(step: Pass) -> float:
        order = orders[step.part]
        position = order.index(step)
        start = through(order[position - 1]) if position else 0.0
        source = step.part - 1 if step.forward else step.part + 1
        if 0 <= source <= last:
            start = max(start, through(step._replace(part=source)))
        work = stages[step.part]
        return start + (work.forward.total if step.forward else work.backward)

    return max(through(order[-1]) for order in orders)


@given(pipelines, micro_batches)
def test_the_iteration_takes_what_a_recursion_gives(stages: list[StageWork], count: int) -> None:
    """And is no shorter than its chains of work.

    Each stage needs the first activations, then all its work, then what comes before it.
    """
    iteration_s = exact_iteration(stages, count)
    assert iteration_s == pytest.approx(recursion(stages, count))
    chain = sum(stage.total for stage in stages)
    assert chain - 1e-9 <= iteration_s <= count * chain + 1e-9
    for place, stage in enumerate(stages):
        above = sum(work.total for work in stages[:place])
        assert iteration_s >= above + count * stage.total - 1e-9


@given(pipelines, micro_batches, st.integers(0, 5), st.floats(1.0, 3.0))
def test_a_slower_stage_never_shortens_an_iteration(
    stages: list[StageWork], count: int, place: int, factor: float
) -> None:
    slower = list(stages)
    slower[place % len(stages)] = slower[place % len(stages)].scaled(factor)
    assert exact_iteration(slower, count) >= exact_iteration(stages, count) - 1e-9


@given(st.integers(1, 8), st.floats(0.1, 2.0), st.floats(0.1, 4.0), micro_batches)
def test_equal_stages_take_the_closed_form(
    stages: int, forward_s: float, backward_s: float, count: int
) -> None:
    work = StageWork(Halves(forward_s), Halves(), Halves(backward_s), Halves())
    exact = exact_iteration([work] * stages, count)
    assert exact == pytest.approx(approximate_iteration([work.total] * stages, count))


@given(st.integers(1, 8), st.integers(0, 7), st.floats(1.0, 3.0), micro_batches)
def test_one_slow_stage_costs_at_most_the_closed_form(
    stages: int, place: int, cost: float, count: int
) -> None:
    costs = [1.0] * stages
    costs[place % stages] = cost
    exact = exact_iteration([proportional_work(each) for each in costs], count)
    assert exact <= approximate_iteration(costs, count) + 1e-9
    if place % stages == stages - 1:
        assert exact == pytest.approx(approximate_iteration(costs, count))


def test_a_double_load_slows_down_by_22_over_15_at_the_end_and_by_less_before() -> None:
    slowdowns = [
        exact_iteration([proportional_work(2.0 if stage == slow else 1.0) for stage in range(7)], 8)
        / 15
        for slow in range(7)
    ]
    # One third of a micro-batch, the forward pass, is what each stage behind still adds.
    assert slowdowns == pytest.approx([(18 + 2 * slow / 3) / 15 for slow in range(7)])
    assert approximate_iteration([1.0] * 6 + [2.0], 8) / 15 == pytest.approx(22 / 15)
    # Interleaved by 2, the six others are waited for half as long.
    assert approximate_iteration([1.0] * 6 + [2.0], 8, 2) == pytest.approx(8 * 2 + 6 / 2)
