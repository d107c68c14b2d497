"""Schemes that work around lost stages: MeCeFO, Bamboo, Oobleck, Varuna, notified hit by hit."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from faultline.experiments.studies.mecefo.runs import cost_of_other_model
from faultline.simulator.loop.contract import Contract
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.recovery import Communicators, Move, SentMove
from faultline.strategies.interface.scheme import Continue, Hit, StrategyOptions, Task, WipeOut
from faultline.strategies.schemes import bamboo
from faultline.strategies.schemes.checkpoint import Checkpoint
from faultline.strategies.schemes.mecefo.carriers import Carriers, Side, tasks_by_node
from faultline.strategies.schemes.mecefo.node_costs import measured_cost
from faultline.strategies.schemes.takeover.pipeline_scheme import LostStages, stages_of
from faultline.strategies.theory.checkpoint_period import Costs
from hypothesis import given
from hypothesis import strategies as st

from tests.simulator.helpers import state_in
from tests.strategies.helpers import built, lose

SCHEMES = ["mecefo", "bamboo", "oobleck", "varuna"]


def gpu(group: int, number: int, gpus: int = 8) -> Hit:
    return Hit(group, number, number, gpus)


def test_gpus_are_dealt_out_to_stages_in_order() -> None:
    assert [stages_of(gpu(0, n, 32), 8) for n in (0, 3, 4, 31)] == [[0], [0], [1], [7]]
    assert stages_of(Hit(0, 0, 7, 16), 8) == [0, 1, 2, 3]
    assert stages_of(gpu(0, 0, 1), 8) == list(range(8))


@pytest.mark.parametrize(("context", "stages", "tensor"), [(1, 4, 2), (2, 4, 2), (4, 2, 1)])
def test_a_gpu_is_lost_with_the_stage_that_is_placed_on_it(
    context: int, stages: int, tensor: int
) -> None:
    """Ranks are placed position by position, stage by stage, replica by replica."""
    gpus = context * stages * tensor
    names = [str(number) for number in range(gpus)]
    state = state_in([names], 1.0, gpus, storage="storage", context=context)
    for stage in range(stages):
        placed = [
            (replica * stages + stage) * tensor + position
            for replica in range(context)
            for position in range(tensor)
        ]
        lost = [n for n in range(gpus) if stages_of(gpu(0, n, gpus), stages, context) == [stage]]
        assert lost == placed
        flows = state.state_flows([SentMove(Move(0, stage, stage, stages), None)])
        assert [int(receiver) for _, receiver, _ in flows] == placed
    # A server of a whole replica has all stages.
    assert stages_of(Hit(0, 0, stages * tensor - 1, gpus), stages, context) == list(range(stages))


def test_a_stage_hit_twice_is_back_after_both_repairs() -> None:
    lost = LostStages(2, 8)
    assert lost.add(gpu(1, 3)) == (3,)
    assert lost.add(gpu(1, 3)) == ()
    assert lost.repair(gpu(1, 3)) == ()
    assert lost.of(1) == {3}
    assert lost.repair(gpu(1, 3)) == (3,)
    assert (lost.of(1), lost.nodes_left(1)) == (frozenset(), 8)
    # A repair whose failure was never reported changes nothing.
    assert lost.repair(gpu(0, 2)) == ()


@given(
    stages=st.integers(1, 9), side=st.sampled_from(["lighter", "before", "split"]), data=st.data()
)
def test_every_stage_is_done_by_a_node(stages: int, side: Side, data: st.DataObject) -> None:
    carriers, down = Carriers(stages, side), set[int]()
    for stage in data.draw(st.lists(st.integers(0, stages - 1), max_size=30)):
        if stage in down:
            down.remove(stage)
            carriers.come_back(stage)
        else:
            down.add(stage)
            carriers.fail(stage)
        tasks = carriers.tasks()
        assert len(tasks) == stages - len(down)
        assert sum(tasks) == (stages if tasks else 0)
        assert all(task >= 1 for task in tasks)
    for stage in down:
        carriers.come_back(stage)
    assert carriers.tasks() == (1,) * stages


@pytest.mark.parametrize(
    ("side", "failed", "back", "then", "tasks"),
    [
        # 3 goes to 2 and 4 to 5. When 3 is back, 2 fails: 1 and 3 do one stage each, so the one
        # before takes it.
        ("lighter", (3, 4), None, None, (1, 1, 2, 2, 1, 1)),
        ("lighter", (3, 4), 3, 2, (1, 2, 1, 2, 1, 1)),
        # Always the one before: 2 has both; when 4 is back and 6 fails, 2 keeps 3 and 5 takes 6.
        ("before", (3, 4), None, None, (1, 1, 3, 1, 1, 1)),
        ("before", (3, 4), 4, 6, (1, 1, 2, 1, 2, 1)),
        ("split", (3, 4), None, None, (1, 1, 2, 2, 1, 1)),
        ("split", (3, 4), 3, 2, (1, 2, 1, 2, 1, 1)),
        # 3 takes 4, and when it fails leaves both stages to another, or to both.
        ("lighter", (4, 3), None, None, (1, 1, 3, 1, 1, 1)),
        ("split", (4, 3), None, None, (1, 1, 2, 2, 1, 1)),
    ],
)
def test_take_over_by_hand(
    side: Side, failed: tuple[int, ...], back: int | None, then: int | None, tasks: tuple[int, ...]
) -> None:
    """Two of eight stages fail; then one comes back and another fails."""
    carriers = Carriers(8, side)
    for stage in failed:
        carriers.fail(stage)
    if back is not None and then is not None:
        carriers.come_back(back)
        carriers.fail(then)
    assert carriers.tasks() == tasks


@pytest.mark.parametrize(
    ("options", "pace"),
    [
        ({"doubled_cost": 1.5}, (8 * 1.5 + 6) / 15),
        ({"doubled_cost": 0.9}, 1.0),
        ({"techniques": "none"}, 28120 / 19110),
        ({}, 28120 / 28060),
        ({"cost_model": "flop", "techniques": "none"}, 22 / 15),
    ],
)
def test_all_wait_for_the_pipeline_that_lost_a_stage(options: dict[str, Any], pace: float) -> None:
    """8 x + 6 over 15 with eight micro-batches; measured: 28.12k tokens/s without a fault."""
    scheme = built("mecefo", **options)
    verdict = lose(scheme, gpu(2, 5))
    assert isinstance(verdict, Continue)
    assert (verdict.dropped, verdict.carried_on, verdict.patch) == ((), (2,), {2: 1})
    assert scheme.plan().pace == pytest.approx(pace)
    assert scheme.plan() is scheme.plan()
    assert scheme.plan().batch_share == 1.0
    assert scheme.on_repair(gpu(2, 5)) is not None
    assert scheme.plan().pace == 1.0


def test_a_node_that_takes_a_stage_over_fetches_it_from_another_pipeline() -> None:
    scheme = built("mecefo")
    recovery = lose(scheme, gpu(0, 1)).recovery
    assert (recovery.kind, recovery.moves) == ("take-over", (Move(0, 0, 1, 8),))
    # The stage's ring of all pipelines, and the pipeline itself.
    assert recovery.communicators == (Communicators(1, 1 / 8), Communicators(1, 1 / 4))
    # Node 0 does two stages by now: when it goes, both move on.
    assert lose(scheme, gpu(0, 0)).recovery.moves == (Move(0, 2, 0, 8), Move(0, 2, 1, 8))
    assert lose(scheme, gpu(2, 7), gpu(3, 1)).recovery.moves == (Move(2, 6, 7, 8), Move(3, 0, 1, 8))
    back = scheme.on_repair(gpu(0, 1))
    assert back is not None
    assert (back.kind, back.moves, back.is_expected) == ("hand-back", (Move(0, 1, 1, 8),), True)


@pytest.mark.parametrize("name", ["mecefo", "bamboo", "oobleck"])
def test_a_failure_of_what_is_down_interrupts_nothing(name: str) -> None:
    scheme = built(name)
    lose(scheme, gpu(0, 1))
    before = scheme.plan()
    verdict = lose(scheme, gpu(0, 1))
    assert verdict == Continue((), carried_on=(0,), recovery=None)
    assert scheme.plan() == before
    assert scheme.on_repair(gpu(0, 1)) is None
    assert scheme.on_repair(gpu(0, 1)) is not None


def test_a_pipeline_that_cannot_work_idles_until_nodes_are_back() -> None:
    scheme = built("mecefo", stages=4, stages_that_fit=2, doubled_cost=1.0)
    assert lose(scheme, gpu(1, 0, 4), gpu(1, 1, 4)).patch == {}
    plan = scheme.plan()
    assert (plan.members, plan.batch_share) == ((0, 1, 2, 3), 0.75)
    assert plan.pace == 1.0
    scheme.on_repair(gpu(1, 0, 4))
    assert scheme.plan().batch_share == 1.0


def test_stages_of_nodes_that_do_several_have_approximate_gradients() -> None:
    scheme = built("mecefo", stages_that_fit=2)
    assert (scheme.plan().approximate, scheme.plan().approximate_share) == ((), 0.0)
    lose(scheme, gpu(0, 3))
    # By hand: node 2 does stages 2 and 3 of pipeline 0, two of 32 gradients.
    assert scheme.plan().approximate == (Task(0, 2, 2), Task(0, 3, 2))
    assert scheme.plan().approximate_share == 2 / 32
    # Nodes 0 and 1 of pipeline 2 are next to each other: three stages do not fit, it idles.
    lose(scheme, gpu(2, 0), gpu(2, 1))
    assert (scheme.plan().idle, len(scheme.plan().approximate)) == ((2,), 2)
    assert scheme.plan().approximate_share == 2 / 24
    exact = built("mecefo", techniques="none")
    lose(exact, gpu(0, 3))
    assert exact.plan().approximate == ()


@given(data=st.data(), rule=st.sampled_from(["lighter", "before", "split", "rebalanced"]))
def test_tasks_are_as_many_as_shared_nodes_do(data: st.DataObject, rule: str) -> None:
    scheme = built("mecefo", takes_over=rule)
    down: list[Hit] = []
    for _ in range(data.draw(st.integers(1, 12))):
        if down and data.draw(st.booleans()):
            scheme.on_repair(down.pop(data.draw(st.integers(0, len(down) - 1))))
        else:
            down.append(gpu(data.draw(st.integers(0, 1)), data.draw(st.integers(0, 7))))
            lose(scheme, down[-1])
    plan = scheme.plan()
    for group in range(2):
        nodes = Counter(task.node for task in plan.approximate if task.group == group)
        tasks = scheme.tasks(group)
        assert sorted(nodes.values()) == sorted(number for number in tasks if number > 1)


def test_nothing_left_is_a_wipe_out_and_a_restart_waits_for_hardware() -> None:
    scheme = built("mecefo", groups=2, stages=2)
    assert isinstance(lose(scheme, Hit(0, 0, 1, 2)), Continue)
    assert lose(scheme, Hit(1, 0, 1, 2)) == WipeOut((1,))
    scheme.restart()
    scheme.on_hit(Hit(0, 0, 1, 2))
    assert scheme.plan().batch_share == 0.5
    scheme.restart()
    for group in (0, 1):
        scheme.on_hit(Hit(group, 0, 1, 2))
    assert scheme.plan().members == ()
    scheme.restart()
    scheme.on_hit(Hit(0, 0, 1, 2))
    assert scheme.plan().batch_share == 0.5


def test_cost_of_another_model() -> None:
    """All of the time in attention leaves 2/3; the measured model has its own cost."""
    known = measured_cost()
    assert cost_of_other_model(known, 1.0) == pytest.approx(known)
    assert cost_of_other_model(known, 0.0) == pytest.approx(2 / 3)


def test_bamboo_spreads_the_work_over_the_nodes_that_are_left() -> None:
    scheme = built("bamboo")
    # Of 32 nodes, twice the one that is overloaded is more than 5 %.
    assert lose(scheme, gpu(0, 3)).recovery.kind == "re-form"
    assert scheme.plan().pace == pytest.approx(32 / 31)
    assert scheme.on_repair(gpu(0, 3)).kind == "re-form"
    assert scheme.plan().pace == 1.0
    half = built("bamboo", spread_share=0.5)
    lose(half, gpu(0, 3))
    assert half.plan().pace == pytest.approx(1 + 0.5 / 31)


def kind(verdict: Any) -> str:
    return str(verdict.recovery.kind)


def test_a_node_and_its_shadow_are_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bamboo, "_OVERLOADED_SHARE", 1.0)
    assert kind(lose(built("bamboo"), Hit(0, 3, 4, 8))) == "re-form"
    assert kind(lose(built("bamboo"), gpu(0, 0), gpu(0, 7))) == "re-form"
    assert kind(lose(built("bamboo"), gpu(0, 3), gpu(0, 5))) == "local-rendezvous"


def test_an_overload_lasts_until_too_many_are_or_a_node_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bamboo, "_OVERLOADED_SHARE", 0.1)
    scheme = built("bamboo")
    recovery = lose(scheme, gpu(0, 3)).recovery
    # The shadow has the state, and its pipeline alone meets.
    assert (recovery.moves, recovery.communicators) == ((), (Communicators(1, 1 / 4),))
    assert scheme.plan().pace == pytest.approx(1.5)
    # The shadow of stage 3, on node 2, is lost as well: all meet, and no node is overloaded.
    assert kind(lose(scheme, gpu(0, 2))) == "re-form"
    assert scheme.plan().pace == pytest.approx(32 / 30)
    assert kind(lose(scheme, gpu(1, 2))) == "local-rendezvous"
    assert scheme.plan().pace == pytest.approx(1.5 * 32 / 30)
    # Twice two of 32 are more than a tenth.
    assert kind(lose(scheme, gpu(2, 2))) == "re-form"
    assert scheme.plan().pace == pytest.approx(32 / 28)
    assert scheme.on_repair(gpu(0, 2)).kind == "re-form"


def test_pipelines_that_are_re_formed_make_a_communicator_a_layer() -> None:
    scheme = built("oobleck", layers=24)
    recovery = lose(scheme, gpu(0, 3)).recovery
    assert recovery.communicators == (Communicators(24, 1 / 8),)
    assert {move.receiver for move in recovery.moves} == {0, 1, 2, 4, 5, 6, 7}
    assert sum(move.share for move in recovery.moves) == pytest.approx(1.0)
    back = scheme.on_repair(gpu(0, 3))
    assert (back.starts_processes, back.is_expected) == (True, True)


@pytest.mark.parametrize("name", ["bamboo", "oobleck"])
def test_less_than_a_pipeline_is_a_wipe_out(name: str) -> None:
    scheme = built(name, groups=2, least_stages=8)
    assert isinstance(lose(scheme, Hit(0, 0, 7, 8)), Continue)
    assert lose(scheme, gpu(1, 2)) == WipeOut((1,))
    scheme.restart()
    for hit in (Hit(0, 0, 7, 8), gpu(1, 2)):
        scheme.on_hit(hit)
    assert scheme.plan().pace == 1.0


@pytest.mark.parametrize("name", ["mecefo", "oobleck"])
def test_a_loss_costs_more_where_sound_pipelines_are_interleaved(name: str) -> None:
    """They have fewer bubbles; the changed pipelines of Oobleck are plain."""
    paces = []
    for parts in (1, 4):
        scheme = built(name, layers=32, micro_batches=16, virtual_stages=parts)
        assert scheme.plan().pace == 1.0
        lose(scheme, gpu(0, 3))
        paces.append(scheme.plan().pace)
    assert 1.0 < paces[0] < paces[1]


def restarted_without(scheme: Any, *hits: Hit) -> Any:
    """Return the plan after a restart with some nodes lost."""
    scheme.restart()
    for hit in hits:
        scheme.on_hit(hit)
    return scheme.plan()


def test_varuna_restarts_with_the_nodes_that_are_left() -> None:
    """Four pipelines of seven nodes, the longest stage with 5 of 32 layers: 67 for 60 layers."""
    scheme = built("varuna")
    assert lose(scheme, gpu(0, 3)) == WipeOut((0,))
    plan = restarted_without(scheme, gpu(0, 3))
    assert plan.pace == pytest.approx((7 * 5 + 32) / (7 * 4 + 32))
    assert [len(one.stages) for one in plan.pipelines] == [7] * 4


def test_varuna_on_127_of_128_nodes_loses_a_whole_pipeline() -> None:
    """A prime number: 15 of 16 pipelines are whole, and their micro-batches grow from 8 to 9."""
    plan = restarted_without(built("varuna", 16), gpu(3, 0))
    assert plan.pace == pytest.approx((8 * 4 + 32) / (7 * 4 + 32))
    assert {one.group for one in plan.pipelines if not one.stages} == {3}


@given(
    st.integers(1, 6),
    st.integers(1, 8),
    st.integers(1, 12),
    st.integers(8, 33),
    st.integers(1, 8),
    st.data(),
)
def test_varuna_takes_the_fastest_of_all_partitions(
    groups: int, stages: int, micro_batches: int, layers: int, least: int, data: Any
) -> None:
    """Of every number of pipelines of every length that the nodes left can form."""
    least = min(least, stages)
    nodes = st.tuples(st.integers(0, groups - 1), st.integers(0, stages - 1))
    lost = data.draw(st.sets(nodes, min_size=1, max_size=groups * stages))
    job = {"stages": stages, "micro_batches": micro_batches, "layers": layers}
    scheme = built("varuna", groups, least_stages=least, **job)
    plan = restarted_without(scheme, *(gpu(*node, stages) for node in sorted(lost)))
    left = groups * stages - len(lost)
    groups_left = {g for g in range(groups) for stage in range(stages) if (g, stage) not in lost}
    times = [
        (-(-micro_batches * groups // pipelines) - 1) * -(-layers // length) + layers
        for length in range(least, layers + 1)
        for pipelines in range(1, len(groups_left) + 1)
        if pipelines * length <= left
    ]
    assert bool(plan.members) == bool(times)
    if not times:
        return
    healthy = (micro_batches - 1) * -(-layers // stages) + layers
    assert plan.pace == pytest.approx(max(1.0, min(times) / healthy))
    Contract(scheme, groups).enter()
    changed = {one.group: one for one in plan.pipelines}
    at_work = [node for one in plan.pipelines for node in (stage[:2] for stage in one.stages)]
    at_work += [
        (group, place) for group in range(groups) if group not in changed for place in range(stages)
    ]
    assert len(set(at_work)) == len(at_work) <= left
    assert all(one.stages[0].group == one.group for one in plan.pipelines if one.stages)
    assert lost.isdisjoint(at_work)
    shares = [changed[g].micro_batches if g in changed else micro_batches for g in range(groups)]
    assert sum(shares) == micro_batches * groups


def test_varuna_does_not_interleave_pipelines_of_another_length() -> None:
    """Two virtual stages: 8 + 7/2 slots of four layers when whole, and no other is as fast."""
    whole = 8 * 4 + 7 * 4 / 2
    plan = restarted_without(built("varuna", virtual_stages=2), gpu(0, 3))
    # Three pipelines of 8 need 11 micro-batches each, which interleaving rounds up to 16.
    assert plan.pace == pytest.approx(min(7 * 5 + 32, 16 * 4 + 14) / whole)


def test_varuna_does_not_restart_for_a_node_that_idles() -> None:
    """Of 31 nodes 28 work; the three others are the last of their groups."""
    scheme = built("varuna")
    plan = restarted_without(scheme, gpu(0, 3))
    at_work = {stage[:2] for one in plan.pipelines for stage in one.stages}
    idle = next(node for node in ((1, stage) for stage in range(8)) if node not in at_work)
    assert lose(scheme, gpu(*idle)) == Continue((), carried_on=(1,), recovery=None)
    assert scheme.plan() is plan
    assert lose(scheme, gpu(*idle)).recovery is None
    assert lose(scheme, gpu(*next(iter(at_work)))) == WipeOut((next(iter(at_work))[0],))
    # A failure whose component is unknown stops its group.
    assert scheme.on_failures((2,)) == WipeOut((2,))


def test_varuna_saves_as_often_as_it_is_best_for_a_job_that_restarts() -> None:
    costs = Costs(300.0, 60.0, 600.0, 1.0, 1.0)
    plain = Checkpoint(4, 1, StrategyOptions(), JobShape())
    assert built("varuna").best_interval_steps(costs) == plain.best_interval_steps(costs) > 1


@pytest.mark.parametrize("name", ["mecefo", "bamboo", "oobleck"])
@pytest.mark.parametrize("stages", [2, 8, 16])
def test_closed_forms_see_the_stages(name: str, stages: int) -> None:
    """All nodes have failed after n H_n failures on the mean, by the stages there are."""
    nodes = 4 * stages
    expected = sum(nodes / k for k in range(1, nodes + 1))
    assert built(name, stages=stages).masked_failures() == pytest.approx(expected)


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
