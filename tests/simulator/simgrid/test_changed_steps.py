"""What schemes change in a step, as SimGrid runs it: closed forms, folded, by the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from faultline.platforms.outages import bandwidths_with_parts_down
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.job.durations import StepTime
from faultline.simulator.pattern.placed_step import PlacedStep
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.pattern.step_pattern import Held, LayerCut, PartWork, PassWork, StepPattern
from faultline.simulator.processes.process import in_own_process
from faultline.simulator.timing.step_times import TimeStep, with_step_timer
from faultline.simulator.workload.layout import Layout
from faultline.strategies.interface.job_shape import JobShape
from faultline.strategies.interface.scheme import Hit, Strategy
from faultline.strategies.interface.split_backward import SplitBackward
from faultline.strategies.interface.stage_work import Halves, StageWork
from faultline.strategies.interface.step_shares import Pipeline, StageShare
from faultline.strategies.plugins.registry import strategy_class
from faultline.strategies.schemes import bamboo

from tests.simulator.timing.test_step_times import NIC, NVLINK, SPEED, pattern_of
from tests.strategies.helpers import exact_iteration

GROUPS, STAGES, TENSOR, LAYERS = 3, 3, 8, 6
MICRO_BATCHES = 6
LAYOUT = Layout(GROUPS, STAGES, TENSOR)
FORWARD_S, BACKWARD_S, OUTPUT_S = 0.5e-3, 1e-3, 0.3e-3
"""Of a layer; of the output, a third of it forward."""


def pattern(**changes: Any) -> StepPattern:
    """Return a step of milliseconds: two layers a stage, and more at the ends."""
    layer = PartWork(
        PassWork(FORWARD_S * SPEED, 0.1e-3 * NVLINK), PassWork(BACKWARD_S * SPEED, 0.15e-3 * NVLINK)
    )
    output = PartWork(PassWork(OUTPUT_S / 3 * SPEED), PassWork(OUTPUT_S * 2 / 3 * SPEED))
    hidden = 0.5 * ("hidden_gradient_bytes" in changes)
    held = Held(0.8e-3 * hidden * NIC, 0.8e-3 * NIC, 0.2e-3 * SPEED, 0.4e-3 * hidden * NIC)
    usual = pattern_of(
        LAYOUT,
        MICRO_BATCHES,
        parts=(layer.scaled(2), layer.scaled(2), layer.scaled(2) + output),
        gradient_bytes=(2e-3 * NIC, 1.6e-3 * NIC, 2.1e-3 * NIC),
        optimizer_flop=(0.5e-3 * SPEED, 0.4e-3 * SPEED, 0.6e-3 * SPEED),
        layers=LayerCut((2, 2, 2), layer, held),
    )
    return replace(usual, **changes)


def silent() -> StepPattern:
    """Return the same without a message in its passes: only computing takes time."""
    step = pattern(send_bytes=0.0)
    assert step.layers
    parts = (
        PartWork(part.forward._replace(tensor_bytes=0.0), part.backward._replace(tensor_bytes=0.0))
        for part in (step.layers.work, *step.parts)
    )
    layers = replace(step.layers, work=next(parts))
    return replace(step, parts=tuple(parts), layers=layers)


SHAPE = JobShape(
    stages=STAGES, tensor=TENSOR, micro_batches=MICRO_BATCHES, layers=LAYERS, least_tensor=4
)


def scheme(name: str, redundancy: int = 1, groups: int = GROUPS, **options: Any) -> Strategy:
    chosen = strategy_class(name)
    named = chosen.Options(**options)
    return chosen(groups, redundancy, named, SHAPE)


def struck(
    name: str, *lost: tuple[int, int], gpus: int = TENSOR, groups: int = GROUPS, **options: Any
) -> Strategy:
    """Return a scheme that lost nodes, by group and stage; or some GPUs of each."""
    strategy = scheme(name, groups=groups, **options)
    for group, stage in lost:
        first = stage * TENSOR
        strategy.on_hit(Hit(group, first, first + gpus - 1, STAGES * TENSOR))
        strategy.on_failures([group])
    if strategy.repairs_wait_for_restart:
        strategy.restart()
        for group, stage in lost:
            strategy.on_hit(Hit(group, stage * TENSOR, stage * TENSOR + gpus - 1, STAGES * TENSOR))
    return strategy


def overloaded(*lost: tuple[int, int]) -> Strategy:
    """Return Bamboo with shadows that work, however small the job is."""
    with patch.object(bamboo, "_OVERLOADED_SHARE", 1.0):
        return struck("bamboo", *lost)


def shares_of(strategy: Strategy) -> StepShares:
    plan = strategy.plan()
    return StepShares(plan.members, plan.pipelines, plan.stack_size)


EVERYBODY = StepShares(tuple(range(GROUPS)))
CASES = {
    "dropped": StepShares((0, 2)),
    "replication": shares_of(scheme("replication", 3)),
    "mecefo": shares_of(struck("mecefo", (1, 1))),
    "mecefo, two": shares_of(struck("mecefo", (1, 1), (2, 0))),
    "bamboo": shares_of(scheme("bamboo")),
    "bamboo, a shadow works": shares_of(overloaded((1, 0))),
    "bamboo, re-formed": shares_of(struck("bamboo", (1, 0))),
    "oobleck": shares_of(struck("oobleck", (1, 1))),
    "oobleck, merged": shares_of(struck("oobleck", (1, 1), (1, 2))),
    "varuna": shares_of(struck("varuna", (1, 1))),
    "varuna, fewer and longer": shares_of(struck("varuna", (1, 1), (1, 2), (2, 0))),
    "recycle": shares_of(struck("recycle", (1, 1), schedule="split-and-staggered")),
    "recycle, two": shares_of(struck("recycle", (1, 1), (2, 0))),
    "ntp": shares_of(struck("ntp", (1, 1), gpus=1)),
    "ntp-pw": shares_of(struck("ntp-pw", (1, 1), gpus=1)),
    "dp-drop": shares_of(struck("dp-drop", (1, 1), gpus=1)),
}


BOOKED_TWICE = Pipeline(
    1, (StageShare(1, 0), StageShare(0, 1), StageShare(1, 2)), MICRO_BATCHES, TENSOR
)


@pytest.fixture(scope="module")
def platform(servers_of: Callable[..., Path]) -> Path:
    return servers_of(domains=9, domains_per_leaf=9)


def placed(path: Path, step: StepPattern) -> PlacedStep:
    return PlacedStep.in_order(step, read_platform(path).gpu_names)


class Each:
    """A plan that times several steps."""

    def __init__(self, step: PlacedStep, asked: Sequence[StepShares]) -> None:
        self.step, self.asked = step, asked

    def __call__(self, timer: TimeStep) -> list[StepTime]:
        return [timer(self.step.hosts, self.step.pattern, one) for one in self.asked]


def timed(path: Path, step: StepPattern, *asked: StepShares, folds: bool = True) -> list[StepTime]:
    return with_step_timer(path, Each(placed(path, step), asked), folds=folds)


class WithAPartDown(Each):
    """A plan that times steps on servers that have lost a leaf switch."""

    def __init__(
        self, step: PlacedStep, asked: Sequence[StepShares], left: Mapping[str, float]
    ) -> None:
        super().__init__(step, asked)
        self.left = left

    def __call__(self, timer: TimeStep) -> list[StepTime]:
        from faultline.simulator.simgrid.links import narrowed

        with narrowed(self.left):
            return super().__call__(timer)


@pytest.mark.parametrize(
    ("step", "domains_per_leaf", "oversubscription"),
    [
        pytest.param(pattern(), 3, 1, id="a group below it"),
        pytest.param(pattern(), 1, 1, id="a stage below it"),
        pytest.param(pattern(send_bytes=5e-3 * NIC), 2, 1, id="groups across leaves"),
        pytest.param(pattern(send_bytes=5e-3 * NIC), 2, 4, id="classes share a narrow uplink"),
    ],
)
def test_groups_below_a_switch_stand_for_each_other(
    step: StepPattern, domains_per_leaf: int, oversubscription: int, servers_of: Callable[..., Path]
) -> None:
    """Where a narrow link carries messages of both kinds of groups, all are simulated."""
    path = servers_of(
        domains=9, domains_per_leaf=domains_per_leaf, oversubscription=[oversubscription]
    )
    left = bandwidths_with_parts_down(read_platform(path), ["leaf-00001-00"])
    assert 0 < len(left) < 9 * 8
    plan = WithAPartDown(placed(path, step), [EVERYBODY, *CASES.values()], left)
    some, all_ = (with_step_timer(path, plan, folds=folds) for folds in (True, False))
    for name, few, whole in zip(["sound", *CASES], some, all_, strict=True):
        assert few.step_s == pytest.approx(whole.step_s, rel=1e-9), name
        assert few.passes_s == pytest.approx(whole.passes_s, rel=1e-9), name
    assert (some[0].activities < all_[0].activities) == (oversubscription == 1)


def engine_simulates(
    path: Path, step: PlacedStep, asked: Sequence[tuple[StepShares, int]]
) -> list[float]:
    """Return what each step takes in the SimGrid engine, given its stacks; one after the other."""
    import simgrid
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid.loading import actor_on, load_engine
    from faultline.simulator.simgrid.simulated_steps import SimulatedSteps

    engine = load_engine(path)
    simulated = SimulatedSteps(step, path)
    took_s: list[float] = []

    def body() -> None:
        for shares, stacks in asked:
            begun_s = simgrid.Engine.clock
            simulated.passes(shares, dict.fromkeys(shares.members, stacks))
            simulated.sync(shares)
            took_s.append(simgrid.Engine.clock - begun_s)

    actor_on(CONTROLLER_HOST, "steps", body)
    engine.run()
    return took_s


FEW = ("dropped", "mecefo, two", "bamboo, a shadow works", "oobleck", "recycle", "ntp")


@pytest.mark.parametrize(
    ("names", "hidden"),
    [
        pytest.param(FEW, False, id="a few"),
        pytest.param(tuple(CASES), False, id="all", marks=pytest.mark.slow),
        pytest.param(tuple(CASES), True, id="all, hidden", marks=pytest.mark.slow),
    ],
)
def test_folded_unfolded_and_in_the_engine(
    platform: Path, names: Sequence[str], hidden: bool
) -> None:
    """Everybody runs everything in the engine; the timer that folds runs one of each kind."""
    step = pattern()
    if hidden:
        step = pattern(
            hidden_gradient_bytes=(1e-3 * NIC, 0.8e-3 * NIC, 1.1e-3 * NIC),
            hidden_weight_bytes=(0.5e-3 * NIC, 0.4e-3 * NIC, 0.5e-3 * NIC),
        )
    asked = [CASES[name] for name in names]
    folded = timed(platform, step, *asked)
    unfolded = timed(platform, step, *asked, folds=False)
    to_simulate = [(one, 1) for one in asked]
    simulated = in_own_process(engine_simulates, platform, placed(platform, step), to_simulate)
    for name, some, all_, engine_s in zip(names, folded, unfolded, simulated, strict=True):
        assert all_.step_s == pytest.approx(engine_s, rel=1e-6), name
        assert some.step_s == pytest.approx(engine_s, rel=1e-6), name
        assert some.activities <= all_.activities


def one_forward_one_backward(stages: Sequence[tuple[float, float]], micro_batches: int) -> float:
    """Return when a pipeline is through whose messages take no time, of seconds of its passes."""
    work = [
        StageWork(Halves(forward_s), Halves(), Halves(backward_s), Halves())
        for forward_s, backward_s in stages
    ]
    return exact_iteration(work, micro_batches)


LAYER, OUTPUT = (FORWARD_S, BACKWARD_S), (OUTPUT_S / 3, OUTPUT_S * 2 / 3)
"""Seconds of a layer and of the output, forward and backward."""


def stage(layers: float, output: bool = False, backward: float = 1.0) -> tuple[float, float]:
    forward_s = layers * LAYER[0] + output * OUTPUT[0]
    return forward_s, backward * (layers * LAYER[1] + output * OUTPUT[1])


USUAL_S = one_forward_one_backward([stage(2), stage(2), stage(2, True)], MICRO_BATCHES)


def test_pipelines_of_neighbours_and_of_other_lengths(platform: Path) -> None:
    """MeCeFO's and Oobleck's pipelines take as long as their schedules, event by event.

    A node of MeCeFO with two stages that cost x of one computes 2 forward (a third of two) and
    3 x/2 - 1 backward. Oobleck: of pipelines of 3, 3 and 2 nodes the last is cut 3 + 3. A node of
    Bamboo without one before it does both their stages.
    """
    costly = shares_of(struck("mecefo", (1, 1), doubled_cost=1.8))
    oobleck, bamboo = CASES["oobleck"], CASES["bamboo, a shadow works"]
    times = timed(platform, silent(), EVERYBODY, costly, oobleck, bamboo)
    usual, taken_over, re_formed, shadowed = times
    assert usual.passes_s == pytest.approx(USUAL_S, rel=1e-6)
    doubled = [stage(4, backward=(1.5 * 1.8 - 1.0) / 2.0), stage(2, True)]
    expected_s = one_forward_one_backward(doubled, MICRO_BATCHES)
    assert taken_over.passes_s == pytest.approx(expected_s, rel=1e-6)
    assert expected_s > USUAL_S
    shares = {one.group: one.micro_batches for one in oobleck.pipelines}
    cut = one_forward_one_backward([stage(3), stage(3, True)], shares[1])
    others = one_forward_one_backward([stage(2), stage(2), stage(2, True)], shares[0])
    assert sum(shares.values()) == GROUPS * MICRO_BATCHES
    assert re_formed.passes_s == pytest.approx(max(cut, others), rel=1e-6)
    # Its first stage is done by the node of its last: between them they are never idle for long.
    both_s = MICRO_BATCHES * sum(map(sum, (stage(2), stage(2, True))))
    assert both_s <= shadowed.passes_s < 1.25 * both_s


@pytest.mark.parametrize(
    ("name", "options"),
    [("mecefo", {"doubled_cost": 2.0}), ("oobleck", {}), ("varuna", {}), ("recycle", {})],
)
def test_paces_of_split_backward_passes_are_those_of_simulated_steps(
    platform: Path, name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The closed form of a stated compute time follows the job's schedule, not 1F1B's.

    The staggered optimizer takes no time here: a step is its pipelines'.
    """
    split = SplitBackward(backward_share=BACKWARD_S / (FORWARD_S + BACKWARD_S))
    nothing = (0.0,) * STAGES
    step = replace(silent(), gradient_bytes=nothing, optimizer_flop=nothing)
    assert step.layers
    layers = replace(step.layers, held=Held(0.0, 0.0, 0.0, 0.0))
    step = replace(step, parts=step.parts[:1] * STAGES, layers=layers, split=split).scheduled()
    monkeypatch.setattr(f"{__name__}.SHAPE", replace(SHAPE, split=split))
    strategy = struck(name, (1, 1), **options)
    sound, hit = timed(platform, step, EVERYBODY, shares_of(strategy))
    assert sound.step_s == pytest.approx(SHAPE.slots * 2 * (FORWARD_S + BACKWARD_S), rel=1e-6)
    assert strategy.plan().pace == pytest.approx(hit.step_s / sound.step_s, rel=1e-6)


def test_several_types_at_once_and_one_by_one(platform: Path) -> None:
    """Replication fills its pipeline once for r types: (r m + p - 1)/(m + p - 1), equal stages.

    A stack of two fills it twice, and meets once: passes double, the sync does not.
    """
    step = silent()
    step = replace(step, parts=step.parts[:1] * STAGES)
    once, thrice = timed(platform, step, EVERYBODY, CASES["replication"])
    slots = MICRO_BATCHES + STAGES - 1
    assert thrice.passes_s / once.passes_s == pytest.approx((3 * MICRO_BATCHES + 2) / slots)
    assert thrice.sync_s == pytest.approx(once.sync_s)
    asked = [(EVERYBODY, 1), (EVERYBODY, 2)]
    one_s, two_s = in_own_process(engine_simulates, platform, placed(platform, step), asked)
    assert one_s == pytest.approx(once.step_s)
    assert two_s == pytest.approx(2 * once.passes_s + once.sync_s)


def test_a_lower_degree(platform: Path) -> None:
    """NTP: a rank computes 8/7 as much of fewer micro-batches, and gradients meet at 7 ranks."""
    step, shares = silent(), CASES["ntp"]
    (one,) = shares.pipelines
    assert (one.tensor, one.micro_batches) == (7, 5)
    whole = shares._replace(pipelines=())
    full = shares._replace(pipelines=(replace(one, micro_batches=MICRO_BATCHES),))
    usual, cut, slow = timed(platform, step, whole, shares, full)
    assert slow.passes_s == pytest.approx(8 / 7 * USUAL_S, rel=1e-6)
    # Five of them on seven ranks keep up with six on eight, as far as stages are equal.
    assert cut.passes_s == pytest.approx(USUAL_S, rel=0.01)
    vector = max(step.gradient_bytes) * TENSOR / (2 * (GROUPS - 1) / GROUPS)
    # Seven rings, each of a seventh of the gradients. Whole replicas reshard before them, hidden
    # behind the last backward pass, and back: the spare rank sends, then receives, its eighth.
    rings_s = 2 * (GROUPS - 1) / GROUPS * vector / one.tensor / NIC
    back_s = vector / TENSOR / NVLINK
    # All but the latencies of messages; the optimizer of whole replicas is behind the last.
    assert cut.sync_s == pytest.approx(rings_s + back_s + usual.optimizer_s, rel=0.01)
    assert cut.sync_s > usual.sync_s + usual.data_parallel_s / 7


def test_layers_meet_where_they_are(platform: Path) -> None:
    """Three and two stages: the node with three layers of one ring hears from two of the other.

    Two pipelines, cut 2 + 2 + 2 and 3 + 3: each of the latter sends three layers' gradients, more
    than any of the former, and what the ends have besides.
    """
    shares = shares_of(struck("oobleck", (1, 1), groups=2))
    step = replace(silent(), data=2)
    usual, re_formed = timed(platform, step, EVERYBODY._replace(members=(0, 1)), shares)
    assert usual.sync_s == pytest.approx(2.1e-3 + 0.6e-3, rel=1e-2)
    assert re_formed.sync_s == pytest.approx(2.9e-3 + 0.8e-3, rel=1e-2)


def test_a_node_that_two_pipelines_list_computes_for_both(platform: Path) -> None:
    """Folded, unfolded and in the engine; its stage takes at least twice as long."""
    step, shares = pattern(), StepShares(tuple(range(GROUPS)), (BOOKED_TWICE,))
    sound, folded = timed(platform, step, EVERYBODY, shares)
    (whole,) = timed(platform, step, shares, folds=False)
    assert folded.passes_s == pytest.approx(whole.passes_s)
    assert folded.passes_s >= 2 * MICRO_BATCHES * 2 * (FORWARD_S + BACKWARD_S)
    assert folded.passes_s > 1.5 * sound.passes_s
    simulated_s = in_own_process(engine_simulates, platform, placed(platform, step), [(shares, 1)])
    assert simulated_s == pytest.approx([folded.step_s], rel=1e-4)
