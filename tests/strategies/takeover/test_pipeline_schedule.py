"""The pipeline's schedule: bounds, cases with a closed form, and a recursion of its own."""

from __future__ import annotations

from functools import cache
from math import inf

import pytest
from faultline.strategies.errors import StrategyError
from faultline.strategies.takeover.pipeline_schedule import (
    Order,
    Transfers,
    approximate_iteration,
    pipeline_timeline,
    stage_order,
)
from faultline.strategies.takeover.stage_work import Halves, StageWork, proportional_work
from hypothesis import given
from hypothesis import strategies as st

halves = st.builds(Halves, st.floats(0.01, 2.0), st.floats(0.0, 2.0))
works = st.builds(StageWork, halves, halves, halves, halves)
pipelines = st.lists(works, min_size=1, max_size=6)
orders = st.sampled_from(["1f1b", "all-forward-first"])
micro_batches = st.integers(1, 9)
transfers = st.builds(Transfers, st.floats(0.0, 1.0), st.floats(0.0, 1.0), overlapped=st.booleans())


def recursion(stages: list[StageWork], count: int, sent: Transfers, order: Order) -> float:
    """The same iteration from the end backwards: when is each pass, and each message, through."""
    last = len(stages) - 1
    orders = [stage_order(place, len(stages), count, order) for place in range(len(stages))]
    message_s = {"forward": sent.activation_s, "backward": sent.gradient_s}
    step_to = {"forward": 1, "backward": -1}

    def goes_on(place: int, direction: str) -> bool:
        return 0 <= place + step_to[direction] <= last

    @cache
    def computed(place: int, direction: str, number: int) -> float:
        position = orders[place].index((direction, number))  # type: ignore[arg-type]
        start = 0.0
        if position:
            before = orders[place][position - 1]
            start = computed(place, *before)
            if not sent.overlapped and goes_on(place, before[0]):
                start += message_s[before[0]]
        source = place - step_to[direction]
        if 0 <= source <= last:
            start = max(start, arrived(source, direction, number))
        work = stages[place]
        return start + (work.forward.total if direction == "forward" else work.backward)

    @cache
    def arrived(place: int, direction: str, number: int) -> float:
        start = computed(place, direction, number)
        if number and sent.overlapped:
            start = max(start, arrived(place, direction, number - 1))
        return start + message_s[direction]

    ends = [computed(place, *orders[place][-1]) for place in range(len(stages))]
    if not sent.overlapped:
        ends = [
            end + (sent.gradient_s if goes_on(place, "backward") else 0.0)
            for place, end in enumerate(ends)
        ]
    return max(ends)


@given(pipelines, micro_batches, transfers, orders)
def test_the_iteration_takes_what_a_recursion_says(
    stages: list[StageWork], count: int, sent: Transfers, order: Order
) -> None:
    """And is no shorter than its chains of work.

    Each stage needs the first activations, then all its work, then what comes before it.
    """
    timeline = pipeline_timeline(stages, count, sent, order)
    assert timeline.iteration_s == pytest.approx(recursion(stages, count, sent, order))
    both_ways = sent.activation_s + sent.gradient_s
    chain = sum(stage.total for stage in stages) + both_ways * (len(stages) - 1)
    assert timeline.iteration_s >= chain - 1e-9
    for place, stage in enumerate(stages):
        above = sum(work.total for work in stages[:place]) + place * both_ways
        assert timeline.iteration_s >= above + count * stage.total - 1e-9
    slowest = max(stage.total for stage in stages)
    one_by_one = count * chain
    assert count * slowest - 1e-9 <= timeline.iteration_s <= one_by_one + 1e-9


@given(pipelines, micro_batches, transfers, orders, st.integers(0, 5), st.floats(1.0, 3.0))
def test_a_slower_stage_or_message_never_shortens_an_iteration(
    stages: list[StageWork], count: int, sent: Transfers, order: Order, place: int, factor: float
) -> None:
    before = pipeline_timeline(stages, count, sent, order).iteration_s
    slower = list(stages)
    slower[place % len(stages)] = slower[place % len(stages)].scaled(factor)
    assert pipeline_timeline(slower, count, sent, order).iteration_s >= before - 1e-9
    longer = Transfers(factor * sent.activation_s, sent.gradient_s, overlapped=sent.overlapped)
    assert pipeline_timeline(stages, count, longer, order).iteration_s >= before - 1e-9
    waiting = Transfers(sent.activation_s, sent.gradient_s, overlapped=False)
    overlapped = Transfers(sent.activation_s, sent.gradient_s)
    if sent.activation_s + sent.gradient_s < min(stage.forward.total for stage in stages):
        # Else a link may be free later than a stage that waits for it.
        assert (
            pipeline_timeline(stages, count, waiting, order).iteration_s
            >= pipeline_timeline(stages, count, overlapped, order).iteration_s - 1e-9
        )


@given(pipelines, micro_batches, transfers, orders)
def test_a_stage_does_one_thing_at_a_time_and_all_of_it(
    stages: list[StageWork], count: int, sent: Transfers, order: Order
) -> None:
    timeline = pipeline_timeline(stages, count, sent, order)
    for stage, spans in zip(stages, timeline.stages, strict=True):
        free_s = 0.0
        for span in spans:
            assert span.start_s >= free_s
            free_s = span.end_s
        worked = sum(span.end_s - span.start_s for span in spans if span.kind != "send")
        assert worked == pytest.approx(count * stage.total)
        backwards = {span.micro_batch: span for span in spans if span.kind == "input_gradient"}
        for span in spans:
            if span.kind == "forward":
                assert span.end_s <= backwards[span.micro_batch].start_s


@given(st.integers(1, 8), st.floats(0.1, 2.0), st.floats(0.1, 4.0), micro_batches, orders)
def test_equal_stages_take_the_closed_form(
    stages: int, forward_s: float, backward_s: float, count: int, order: Order
) -> None:
    work = StageWork(Halves(forward_s), Halves(), Halves(backward_s), Halves())
    exact = pipeline_timeline([work] * stages, count, order=order).iteration_s
    assert exact == pytest.approx(approximate_iteration([work.total] * stages, count))


@given(st.lists(st.floats(0.1, 3.0), min_size=1, max_size=8), micro_batches)
def test_with_all_forward_first_the_closed_form_is_exact(costs: list[float], count: int) -> None:
    stages = [proportional_work(cost) for cost in costs]
    exact = pipeline_timeline(stages, count, order="all-forward-first").iteration_s
    assert exact == pytest.approx(approximate_iteration(costs, count))


@given(st.integers(1, 8), st.integers(0, 7), st.floats(1.0, 3.0), micro_batches)
def test_with_1f1b_one_slow_stage_costs_at_most_the_closed_form(
    stages: int, place: int, cost: float, count: int
) -> None:
    costs = [1.0] * stages
    costs[place % stages] = cost
    exact = pipeline_timeline([proportional_work(each) for each in costs], count).iteration_s
    assert exact <= approximate_iteration(costs, count) + 1e-9
    if place % stages == stages - 1:
        assert exact == pytest.approx(approximate_iteration(costs, count))


def test_a_double_load_slows_down_by_22_over_15_at_the_end_and_by_less_before() -> None:
    slowdowns = [
        pipeline_timeline(
            [proportional_work(2.0 if stage == slow else 1.0) for stage in range(7)], 8
        ).iteration_s
        / 15
        for slow in range(7)
    ]
    # One third of a micro-batch, the forward pass, is what each stage behind still adds.
    assert slowdowns == pytest.approx([(18 + 2 * slow / 3) / 15 for slow in range(7)])
    assert approximate_iteration([1.0] * 6 + [2.0], 8) / 15 == pytest.approx(22 / 15)


def test_1f1b_alternates_once_the_pipeline_is_full() -> None:
    assert stage_order(1, 4, 4) == [
        ("forward", 0),
        ("forward", 1),
        ("forward", 2),
        ("backward", 0),
        ("forward", 3),
        ("backward", 1),
        ("backward", 2),
        ("backward", 3),
    ]


@given(st.integers(1, 9), st.integers(0, 8), micro_batches, orders)
def test_a_stage_does_each_pass_once_forward_before_backward(
    stages: int, stage: int, count: int, order: Order
) -> None:
    steps = stage_order(stage % stages, stages, count, order)
    assert len(steps) == len(set(steps)) == 2 * count
    assert all(steps.index(("forward", n)) < steps.index(("backward", n)) for n in range(count))


@pytest.mark.parametrize("bad", [-1.0, -inf, float("nan")])
def test_impossible_times_are_refused(bad: float) -> None:
    with pytest.raises(StrategyError, match="cannot be"):
        Transfers(activation_s=bad)
    with pytest.raises(StrategyError, match="cannot be"):
        StageWork(Halves(bad), Halves(), Halves(), Halves())


def test_a_pipeline_without_stages_or_micro_batches_is_refused() -> None:
    with pytest.raises(StrategyError, match="needs a stage"):
        pipeline_timeline([], 8)
    with pytest.raises(StrategyError, match="too few"):
        approximate_iteration([1.0], 0)
