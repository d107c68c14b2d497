"""What schemes change in a step, as SimGrid plays it: in closed forms, folded, and by the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from faultline.platforms import load_preset, read_platform, write_xml
from faultline.simulator.collectives.reshard import NonuniformAllReduce
from faultline.simulator.collectives.schedule import Hop
from faultline.simulator.pattern.placed_step import PlacedStep
from faultline.simulator.pattern.step_pattern import Held, LayerCut, PartWork, StepPattern
from faultline.simulator.pattern.step_shares import StepShares
from faultline.simulator.simgrid_engine.process import in_own_process
from faultline.simulator.simgrid_engine.step_timing import StepTime, Timer, with_timer
from faultline.simulator.workload.layout import Layout
from faultline.strategies.base import Hit, Strategy, StrategyOptions
from faultline.strategies.job_shape import JobShape
from faultline.strategies.registry import strategy_class
from faultline.strategies.step_shares import Pipeline, StageShare

from tests.simulator.test_step_timing import NIC, NVLINK, SPEED, pattern_of

GROUPS, STAGES, TENSOR, LAYERS = 3, 3, 8, 6
MICRO_BATCHES = 6
LAYOUT = Layout(GROUPS, STAGES, TENSOR)


def pattern(**changes: object) -> StepPattern:
    """Return a step of milliseconds: two layers a stage, and more at the ends."""
    layer = PartWork(0.5e-3 * SPEED, 1e-3 * SPEED, 0.1e-3 * NVLINK, 0.15e-3 * NVLINK)
    held = Held(0.0, 0.8e-3 * NIC, 0.2e-3 * SPEED)
    output = PartWork(0.1e-3 * SPEED, 0.2e-3 * SPEED)
    parts = [layer.scaled(2), layer.scaled(2), layer.scaled(2) + output]
    return pattern_of(
        LAYOUT,
        MICRO_BATCHES,
        parts=tuple(parts),
        gradient_bytes=(2e-3 * NIC, 1.6e-3 * NIC, 2.1e-3 * NIC),
        optimizer_flop=(0.5e-3 * SPEED, 0.4e-3 * SPEED, 0.6e-3 * SPEED),
        layers=LayerCut((2, 2, 2), layer, held),
        **changes,
    )


SHAPE = JobShape(
    stages=STAGES,
    tensor=TENSOR,
    micro_batches=MICRO_BATCHES,
    layers=LAYERS,
    least_tensor=4,
)


def scheme(name: str, redundancy: int = 1, **options: object) -> Strategy:
    chosen = strategy_class(name)
    named = chosen.Options(**options).for_job(SHAPE)
    return chosen(GROUPS, redundancy, named)


def struck(name: str, *lost: tuple[int, int], gpus: int = TENSOR, **options: object) -> Strategy:
    """Return a scheme that lost nodes, by group and stage; or some GPUs of each."""
    strategy = scheme(name, **options)
    for group, stage in lost:
        first = stage * TENSOR
        strategy.on_hit(Hit(group, first, first + gpus - 1, STAGES * TENSOR))
        strategy.on_failures([group])
    if strategy.repairs_wait_for_restart:
        strategy.restart()
        for group, stage in lost:
            strategy.on_hit(Hit(group, stage * TENSOR, stage * TENSOR + gpus - 1, STAGES * TENSOR))
    return strategy


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
    "bamboo, a shadow works": shares_of(struck("bamboo", (1, 0), overloaded_share=1.0)),
    "bamboo, re-formed": shares_of(struck("bamboo", (1, 0))),
    "oobleck": shares_of(struck("oobleck", (1, 1))),
    "oobleck, merged": shares_of(struck("oobleck", (1, 1), (1, 2))),
    "ntp": shares_of(struck("ntp", (1, 1), gpus=1)),
    "ntp-pw": shares_of(struck("ntp-pw", (1, 1), gpus=1)),
    "dp-drop": shares_of(struck("dp-drop", (1, 1), gpus=1)),
}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("changed") / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=9, domains_per_leaf=9), path)
    return path


def placed(path: Path, step: StepPattern) -> PlacedStep:
    return PlacedStep.in_order(step, read_platform(path).gpu_names)


class Each:
    """A plan that times several steps."""

    def __init__(self, step: PlacedStep, asked: Sequence[StepShares]) -> None:
        self.step, self.asked = step, asked

    def __call__(self, timer: Timer) -> list[StepTime]:
        return [timer(self.step.hosts, self.step.pattern, one) for one in self.asked]


def timed(path: Path, step: StepPattern, *asked: StepShares, folds: bool = True) -> list[StepTime]:
    return with_timer(path, Each(placed(path, step), asked), folds=folds)


def engine_plays(path: Path, step: PlacedStep, asked: Sequence[StepShares]) -> list[float]:
    """Return what each step takes in the SimGrid engine, one after the other."""
    import simgrid
    from faultline.platforms.xml_names import CONTROLLER_HOST
    from faultline.simulator.simgrid_engine.loading import actor_on, load_engine
    from faultline.simulator.simgrid_engine.played_steps import PlayedSteps

    engine = load_engine(path)
    played = PlayedSteps(step, path)
    took_s: list[float] = []

    def body() -> None:
        for shares in asked:
            begun_s = simgrid.Engine.clock
            played.passes(shares, dict.fromkeys(shares.members, 1))
            played.sync(shares)
            took_s.append(simgrid.Engine.clock - begun_s)

    actor_on(CONTROLLER_HOST, "steps", body)
    engine.run()
    return took_s


@pytest.mark.parametrize("hidden", [False, True])
def test_folded_unfolded_and_in_the_engine(platform: Path, hidden: bool) -> None:
    """Everybody plays everything in the engine; the timer that folds plays one of each kind."""
    step = pattern()
    if hidden:
        step = replace(
            step,
            hidden_gradient_bytes=(1e-3 * NIC,) * STAGES,
            hidden_weight_bytes=(0.5e-3 * NIC,) * STAGES,
        )
    asked = list(CASES.values())
    if hidden:
        # Layers' shares of what hides are not known here.
        asked = [one for name, one in CASES.items() if "oobleck" not in name and "re-f" not in name]
    folded = timed(platform, step, *asked)
    unfolded = timed(platform, step, *asked, folds=False)
    played = in_own_process(engine_plays, platform, placed(platform, step), asked)
    names = [name for name, one in CASES.items() if one in asked]
    for name, some, all_, engine_s in zip(names, folded, unfolded, played, strict=True):
        assert all_.step_s == pytest.approx(engine_s, rel=1e-6), name
        assert some.step_s == pytest.approx(engine_s, rel=1e-2 if hidden else 1e-6), name
        assert some.activities <= all_.activities
