"""ReCycle: the schedule of re-routed micro-batches, and which node does which stage."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, product
from math import ceil
from typing import Any

import pytest
from faultline.simulator.pattern.activity_graph import Fold, passes_graph
from faultline.strategies.interface.recovery import Communicators, Move
from faultline.strategies.interface.rerouted_schedule import ScheduleTechniques, rerouted
from faultline.strategies.interface.scheme import Continue, Hit, Strategy, WipeOut
from faultline.strategies.interface.split_backward import SplitBackward
from faultline.testing import check_scheme
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.simulator.pattern.test_activity_graph import longest_path, step
from tests.strategies import helpers

ALL, NONE = (
    ScheduleTechniques(),
    ScheduleTechniques(split_backward=False, staggered_optimizer=False),
)


def time_of(
    lost: list[int], micro_batches: int, pipelines: int, allowed: ScheduleTechniques = ALL
) -> float:
    loads = [ceil(micro_batches * pipelines / (pipelines - n)) for n in lost]
    return rerouted(tuple(loads), micro_batches, 2 / 3, allowed).time


@examples(0.6)
@given(
    stages=st.integers(1, 12), more=st.integers(0, 20), pipelines=st.integers(2, 12), data=st.data()
)
def test_the_bound_is_met_to_one_micro_batch(
    stages: int, more: int, pipelines: int, data: st.DataObject
) -> None:
    """T >= max(m + p - 1, m D/(D - F)) t where m >= p, whichever stages have lost how many."""
    lost = data.draw(st.lists(st.integers(0, pipelines * 2 // 3), min_size=stages, max_size=stages))
    micro_batches = stages + more
    longest = micro_batches * pipelines / (pipelines - max(lost))
    bound = max(micro_batches + stages - 1, longest)
    taken = max(micro_batches + stages - 1, time_of(lost, micro_batches, pipelines))
    assert bound - 1e-6 <= taken < bound + 1.0 + 1e-6


@pytest.mark.parametrize(
    ("stages", "micro_batches", "pipelines", "lost"),
    [
        (2, 2, 2, (1, 0)),
        (2, 4, 2, (0, 1)),
        (2, 3, 2, (1, 1)),
        (3, 3, 2, (0, 1, 0)),
        (3, 2, 3, (0, 0, 2)),
        (4, 2, 2, (0, 0, 1, 0)),
    ],
)
def test_it_is_a_third_of_a_micro_batch_from_the_best_there_is(
    stages: int, micro_batches: int, pipelines: int, lost: tuple[int, ...]
) -> None:
    best = _best_schedule(stages, micro_batches, pipelines, lost)
    ours = 3 * time_of(
        list(lost), micro_batches, pipelines, ScheduleTechniques(activations_held=100)
    )
    assert abs(best - ours) < 1 + 1e-6


def _best_schedule(stages: int, micro_batches: int, pipelines: int, lost: tuple[int, ...]) -> int:
    """Return the shortest iteration of every worker, in thirds of t, by trying all orders.

    Lost are the nodes of a stage in the first pipelines. Each pass takes a third; a worker has its
    micro-batches in one order, and may do any next one of each kind, or wait for its stage's turn.
    """
    mine: dict[tuple[int, int], list[int]] = {}
    for stage, number in product(range(stages), range(micro_batches * pipelines)):
        peers = range(lost[stage], pipelines)
        worker = number % pipelines
        if worker not in peers:
            worker = peers[number // pipelines % len(peers)]
        mine.setdefault((stage, worker), []).append(number)
    turns = product(*(range(stage, stage + 3) for stage in range(1, stages)))
    begins = [(0, *turn) for turn in turns]
    least = 3 * max(map(len, mine.values()))
    return next(
        taken
        for taken in count(least)
        if any(_is_possible(stages, mine, begin, taken) for begin in begins)
    )


def _is_possible(
    stages: int, mine: dict[tuple[int, int], list[int]], begins: tuple[int, ...], taken: int
) -> bool:
    """Return whether each stage can do all between its beginning and so many thirds later."""
    workers = list(mine)
    reached = {tuple((0, 0, 0) for _ in workers)}
    whole = tuple((len(mine[worker]),) * 3 for worker in workers)
    for now in range(max(begins) + taken):
        following = set()
        for state in reached:
            did = [
                {
                    (worker[0], number)
                    for worker, done in zip(workers, state, strict=True)
                    for number in mine[worker][: done[kind]]
                }
                for kind in (0, 1)
            ]
            choices = []
            for worker, done in zip(workers, state, strict=True):
                stage, own, options = worker[0], mine[worker], []
                if now < begins[stage]:
                    options.append(done)
                else:
                    forward, gradient, weight = done
                    if forward < len(own) and (not stage or (stage - 1, own[forward]) in did[0]):
                        options.append((forward + 1, gradient, weight))
                    if gradient < forward and (
                        stage == stages - 1 or (stage + 1, own[gradient]) in did[1]
                    ):
                        options.append((forward, gradient + 1, weight))
                    if weight < gradient:
                        options.append((forward, gradient, weight + 1))
                choices.append(options or [done])
            following |= set(product(*choices))
        reached = {
            state
            for state in following
            if all(
                begins[worker[0]] + taken > now + 1 or done == end
                for worker, done, end in zip(workers, state, whole, strict=True)
            )
        }
    return whole in reached


@examples(0.4)
@given(
    stages=st.integers(1, 5),
    more=st.integers(0, 6),
    pipelines=st.integers(2, 5),
    split=st.booleans(),
    data=st.data(),
)
def test_what_is_simulated_takes_as_long_as_the_schedule(
    stages: int, more: int, pipelines: int, split: bool, data: st.DataObject
) -> None:
    """Forward passes of 1, backward passes of 2, messages of nothing: t is 3."""
    lost = data.draw(st.lists(st.integers(0, pipelines - 1), min_size=stages, max_size=stages))
    staggered = split and data.draw(st.booleans())
    micro_batches = stages + more
    loads = [ceil(micro_batches * pipelines / (pipelines - n)) for n in lost]
    found = rerouted(tuple(loads), micro_batches, 2 / 3, ScheduleTechniques(split, staggered))
    pattern = replace(step(stages, 1, micro_batches), orders=found.orders, staggered=staggered)
    graph = passes_graph(pattern, Fold.whole(pattern))
    assert len(graph.activities) == sum(
        order.count(kind) for order in found.orders for kind in "FBW"
    )
    # Without a barrier a stage may have its gradients a pass sooner than there are any.
    least = 3 * found.time - staggered
    assert least - 1e-6 <= longest_path(graph) <= 3 * found.time + 1e-6


def test_all_nodes_that_are_left_make_up_pipelines() -> None:
    """Of 3 pipelines two are whole; the third has the two nodes left, and lacks two stages."""
    scheme = recycle()
    lose(scheme, (1, 2), (0, 1))
    pipelines = scheme.plan().pipelines
    assert len(pipelines) == 3
    nodes = [share[:2] for one in pipelines for share in one.stages if share.forward]
    assert len(set(nodes)) == len(nodes) == 10
    assert {(1, 2), (0, 1)}.isdisjoint(nodes)
    lacking = [share for one in pipelines for share in one.stages if not share.forward]
    assert [share.node for share in lacking] == [1, 2]
    for one in pipelines:
        assert [share.node for share in one.stages] == [0, 1, 2, 3]
        assert [order.count("F") for order in one.orders] == [6, 6, 6, 6]


@pytest.mark.parametrize(("fit", "refused"), [(float("inf"), False), (6.5, False), (5.9, True)])
def test_activations_of_re_routed_micro_batches_have_to_fit(fit: float, refused: bool) -> None:
    """Two of three nodes take 6 micro-batches for 4: 6 of them under way, where 4 were."""
    scheme = recycle(micro_batches_that_fit=fit, schedule="split-and-staggered")
    lose(scheme, (1, 0))
    assert scheme.states_refused == refused
    pipeline = next(one for one in scheme.plan().pipelines if one.stages)
    order, held, most = pipeline.orders[0], 0, 0
    for kind in order:
        held += (kind == "F") - (kind == "W")
        most = max(most, held)
    assert most == (5 if refused else 6) <= fit


@pytest.mark.parametrize(
    ("split", "sound", "degraded"), [(None, 16 + 3, 17 + 3), (SplitBackward(), 16, 17)]
)
def test_a_lost_node_costs_a_micro_batch_where_sound_steps_follow_the_same_schedule(
    split: SplitBackward | None, sound: int, degraded: int
) -> None:
    """64 pipelines of 4 stages, 16 micro-batches each: 63 nodes take 1,024 of them, 17 at most.

    By one forward, one backward 3 micro-batches of bubbles are added to both.
    """
    scheme = recycle(64, micro_batches=16, split=split)
    assert (scheme.plan().pace, scheme.plan().pipelines) == (1.0, ())
    lose(scheme, (1, 0))
    assert scheme.plan().pace == pytest.approx(degraded / sound, rel=1e-9)
    # What a sound step may not do is a named choice.
    paper = recycle(64, micro_batches=16, schedule="split-and-staggered")
    lose(paper, (1, 0))
    assert paper.plan().pace == 1.0


@examples(0.25)
@given(
    groups=st.integers(2, 8),
    stages=st.integers(1, 8),
    more=st.integers(0, 8),
    split=st.booleans(),
    swaps=st.booleans(),
    data=st.data(),
)
def test_more_losses_never_cost_less(
    groups: int, stages: int, more: int, split: bool, swaps: bool, data: st.DataObject
) -> None:
    """Nodes are lost one after the other, in any order."""
    shape = {"stages": stages, "micro_batches": stages + more}
    scheme = recycle(groups, role_swaps=swaps, split=SplitBackward() if split else None, **shape)
    nodes = data.draw(st.permutations(list(product(range(groups), range(stages)))))
    paces = [1.0]
    for group, stage in nodes:
        if isinstance(helpers.lose(scheme, Hit(group, stage, stage, stages)), WipeOut):
            break
        paces.append(scheme.plan().pace)
    assert paces == pytest.approx(sorted(paces), rel=1e-12)


def test_each_technique_helps_and_re_routing_alone_costs_most() -> None:
    """8 pipelines of 8 stages, 16 micro-batches, a node lost of stage 7: 18.3 fit into 23."""
    lost = [0] * 7 + [1]
    split = ScheduleTechniques(staggered_optimizer=False)
    times = [time_of(lost, 16, 8, allowed) for allowed in (NONE, split, ALL)]
    assert times == sorted(times, reverse=True)
    assert times[0] > 24.5
    assert times[2] < 23.0
    # Nothing lost and nothing split: (m + p - 1) t.
    assert time_of([0] * 8, 16, 8, NONE) == pytest.approx(23.0)


def lose(scheme: Strategy, *nodes: tuple[int, int]) -> Any:
    return helpers.lose(scheme, *(Hit(group, node, node, 4) for group, node in nodes))


def recycle(groups: int = 3, **stated: object) -> Any:
    return helpers.built("recycle", groups, **{"stages": 4, "micro_batches": 4} | stated)


def test_a_loss_moves_nothing_and_a_second_of_the_stage_swaps_roles() -> None:
    scheme = recycle(schedule="split-and-staggered")
    first = lose(scheme, (1, 2))
    assert isinstance(first, Continue)
    assert first.recovery is not None
    assert first.recovery.moves == ()
    assert first.recovery.communicators == (Communicators(1, 1 / 4), Communicators(1, 1 / 3))
    assert first.patch == {0: 1, 1: 1, 2: 1}
    # 4 micro-batches, 3 pipelines: 6 of a stage with two nodes fit into 4 + 4 - 1.
    assert scheme.plan().pace == 1.0
    second = lose(scheme, (0, 2))
    assert second.recovery.moves == (Move(0, 0, 2, 4),)
    assert scheme.plan().pace == 1.0
    # The node of stage 0 does stage 2 now: its loss is one of stage 2.
    third = lose(scheme, (0, 0))
    assert third.recovery.moves == (Move(0, 1, 2, 4),)
    # The first back takes the role that lacks most, its own if that does.
    back = scheme.on_repair(Hit(1, 2, 2, 4))
    assert back.is_expected
    assert len(back.moves) == 1
    assert lose(recycle(role_swaps=False), (1, 2), (0, 2)).recovery.moves == ()


def test_a_loss_costs_more_where_sound_pipelines_are_interleaved() -> None:
    """16 micro-batches, 5 pipelines: 20 of a stage with 4 nodes, and 7 / v idle slots."""
    scheme = recycle(5, stages=8, micro_batches=16, virtual_stages=4)
    assert scheme.plan().pace == 1.0
    lose(scheme, (1, 2))
    plan = scheme.plan()
    assert plan.pace == pytest.approx((20 + 7 / 4) / (16 + 7 / 4))
    # Pipelines stay interleaved: no stage has an order of its own.
    assert {one.orders for one in plan.pipelines} == {()}
    stage_work = [
        sum(one.stages[stage].forward * one.micro_batches for one in plan.pipelines)
        for stage in range(8)
    ]
    assert stage_work == pytest.approx([5 * 16.0] * 8)
    # The paper's schedule is of plain pipelines, whose sound step was longer.
    paper = recycle(5, stages=8, micro_batches=16, virtual_stages=4, schedule="split-and-staggered")
    lose(paper, (1, 2))
    assert 19.9 / 17.75 < paper.plan().pace < plan.pace


def test_all_but_one_of_each_stage_may_be_lost_and_no_more() -> None:
    scheme = recycle()
    for number, node in enumerate((g, s) for g in (0, 1) for s in range(4)):
        assert isinstance(lose(scheme, node), Continue), number
    assert scheme.plan().pace >= 12 / 7
    assert isinstance(lose(scheme, (2, 0)), WipeOut)
    # All that have a stage's state at once.
    scheme = recycle()
    assert isinstance(lose(scheme, (0, 1), (1, 1), (2, 1)), WipeOut)
    # From storage, the others do that stage too.
    scheme.restart()
    for group in range(3):
        scheme.on_hit(Hit(group, 1, 1, 4))
    assert scheme.plan().members == (0, 1, 2)
    assert scheme.masked_failures() == pytest.approx(12 * sum(1 / k for k in range(4, 13)))


@pytest.mark.parametrize("stated", [{}, {"role_swaps": False, "schedule": "split"}])
def test_it_keeps_the_contract(stated: dict[str, object]) -> None:
    scheme = type(recycle())
    check_scheme(scheme, groups=6, options=scheme.Options(**stated), engines=not stated)
