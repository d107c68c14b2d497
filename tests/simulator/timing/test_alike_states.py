"""States of equal time: how many groups work below a leaf switch, not which."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolving import resolve
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.pattern.plan_shares import SOUND_STEP, SlowStep, StepShares
from faultline.simulator.timing import step_times
from faultline.simulator.timing.alike_states import AlikeStates
from faultline.simulator.timing.step_times import SimulatedStepTimes, step_time
from faultline.strategies.interface.scheme import Hit

GROUPS = 16


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> SimulatedStepTimes:
    """Sixteen groups of 32 GPUs, eight groups below each set of eight leaf switches."""
    path = tmp_path_factory.mktemp("platform") / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=64), path)
    settings = [f'platform.file="{path}"', f"job.groups={GROUPS}"]
    found = resolve(load_scenario("llama3-70b-stress", settings)).job(0).work.step_times
    assert isinstance(found, SimulatedStepTimes)
    assert found.is_even
    assert not found.step.keeps_ranks_apart
    return found


def without(*groups: int) -> StepShares:
    return StepShares(tuple(group for group in range(GROUPS) if group not in groups))


@pytest.mark.parametrize(
    ("gone", "leaf"), [((), "leaf-00001-07"), ((12,), "leaf-00000-01"), ((0, 11), "leaf-00001-03")]
)
def test_the_time_is_that_of_the_very_state(
    times: SimulatedStepTimes, gone: tuple[int, ...], leaf: str
) -> None:
    slow = SlowStep(parts_down=(leaf,))
    exact = step_time(times.platform, times.step, without(*gone), slow)
    assert times.passes_s(without(*gone), slow) == pytest.approx(exact.passes_s, rel=1e-9)
    assert times.exchange_s(without(*gone), slow) == pytest.approx(exact.sync_s, rel=2e-3)


def test_the_time_of_a_number_of_members_follows_from_two(times: SimulatedStepTimes) -> None:
    for members in (15, 13, 11, 9, 5):
        shares = StepShares(tuple(range(members)))
        exact = step_time(times.platform, times.step, shares)
        assert times.passes_s(shares) == pytest.approx(exact.passes_s, rel=1e-6)
        assert times.exchange_s(shares) == pytest.approx(exact.sync_s, rel=1e-3)


def test_alike_states_are_simulated_once(
    times: SimulatedStepTimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One group of a pod is gone, whichever, and one of its leaf switches is down, whichever."""
    simulated = set()

    def counted(*arguments: object) -> object:
        simulated.add(repr(arguments[2:]))
        return step_time(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(step_times, "step_time", counted)
    fresh = SimulatedStepTimes(times.platform, times.step, True, times.symmetry)
    found = {
        fresh.exchange_s(without(group), SlowStep(parts_down=(f"leaf-0000{group // 8}-0{rail}",)))
        for group, rail in ((0, 0), (3, 1), (9, 5), (15, 7))
    }
    # All groups, half of them, and all but one below the switch.
    assert (len(found), len(simulated)) == (1, 3)
    fresh.exchange_s(without(0), SlowStep(parts_down=("leaf-00001-00",)))
    assert len(simulated) == 4


def test_links_beside_which_nothing_works_have_no_effect(times: SimulatedStepTimes) -> None:
    states = AlikeStates(read_platform(times.platform), times.step)
    _, left = states.canonical(range(8, GROUPS), (("nic-000000", 0.5),)) or (None, None)
    assert left == ()
    assert times.exchange_s(without(*range(8)), SlowStep((("nic-000000", 0.5),))) == (
        times.exchange_s(without(*range(8)), SOUND_STEP)
    )


def test_a_narrowed_server_keeps_its_stage(times: SimulatedStepTimes) -> None:
    """The second server of group 11: the second of the first group stands for it."""
    states = AlikeStates(read_platform(times.platform), times.step)
    found = states.canonical(range(GROUPS), ((f"nic-{11 * 32 + 9:06d}", 0.5),))
    assert found == (tuple(range(GROUPS)), (("nic-000009", 0.5),))
    assert states.canonical(range(GROUPS), (("a-link-of-nobody", 0.5),)) is None


def test_changed_pipelines_and_narrowed_links_add_up(
    times: SimulatedStepTimes, tmp_path: Path
) -> None:
    """A group runs on three of its four servers, and another group has a slow server."""
    settings = [f'platform.file="{times.platform}"', f"job.groups={GROUPS}"]
    scenario = load_scenario("llama3-70b-stress", [*settings, "strategy.name=recycle"])
    scheme = resolve(scenario).strategy()
    scheme.on_hit(Hit(2, 9, 1, 8))
    scheme.on_failures((2,))
    plan = scheme.plan()
    shares = StepShares(plan.members, plan.pipelines)
    slow = SlowStep(((f"nic-{11 * 32 + 9:06d}", 0.5),))
    exact = step_time(times.platform, times.step, shares, slow)
    found = times.passes_s(shares, slow) + times.exchange_s(shares, slow)
    assert found == pytest.approx(exact.step_s, rel=5e-3)


@pytest.mark.parametrize("scheme_name", ["bamboo", "mecefo", "oobleck", "recycle", "varuna"])
def test_one_pipeline_of_each_kind_gives_the_time_of_a_state(
    times: SimulatedStepTimes, scheme_name: str
) -> None:
    """Three groups lose a server each; the state itself is simulated for comparison."""
    settings = [f'platform.file="{times.platform}"', f"job.groups={GROUPS}"]
    scenario = load_scenario("llama3-70b-stress", [*settings, f'strategy.name="{scheme_name}"'])
    scheme = resolve(scenario).strategy()
    for group, server in ((2, 0), (7, 3), (12, 1)):
        scheme.on_hit(Hit(group, 8 * server, 8 * server + 7, 32))
    scheme.on_failures((2, 7, 12))
    plan = scheme.plan()
    assert plan.pipelines
    shares = StepShares(plan.members, plan.pipelines)
    exact = step_time(times.platform, times.step, shares)
    assert times.passes_s(shares) == pytest.approx(exact.passes_s, rel=1e-4)
    found = times.passes_s(shares) + times.exchange_s(shares)
    assert found == pytest.approx(exact.step_s, rel=2e-3)
