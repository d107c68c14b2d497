"""Members of about equal time: one set stands for all with as many left in the emptiest server."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from faultline.experiments.config.scenario_file import scenario_from
from faultline.experiments.config.toml_text import parse_toml
from faultline.experiments.job.step_times import simulated_step_times
from faultline.platforms.preset_library import load_preset
from faultline.platforms.symmetry import Symmetry
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.timing.alike_members import AlikeMembers, Place, places_of
from faultline.simulator.timing.step_times import SimulatedStepTimes, step_time

GROUPS, SERVER = 40, 8
"""Groups of one GPU, and those of a server."""


JOB = """
[job]
groups = 40
[model]
name = "llama3-8b"
tensor = 1
micro_batches = 2
kernels = "h100"
compute_efficiency = 0.7
gradient_overlap = 0.8
sharding = "hybrid"
"""


def times_on(path: Path, **changes: object) -> SimulatedStepTimes:
    tables, _ = parse_toml(JOB)
    scenario = scenario_from({**tables, "platform": {"file": str(path)}}, "a test")
    return simulated_step_times(scenario.change(changes), is_even=False)


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> SimulatedStepTimes:
    """The groups of a server share weights; all exchange gradients behind their passes."""
    path = tmp_path_factory.mktemp("platform") / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=5, domains_per_leaf=2), path)
    return times_on(path)


def alike_members(times: SimulatedStepTimes) -> AlikeMembers:
    return AlikeMembers(places_of(read_platform(times.platform), times.step, times.symmetry()))


def without(groups: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted({*range(GROUPS)} - {*groups}))


def fewest(members: tuple[int, ...]) -> int:
    """Return the members in the server that has the fewest, of those that have any."""
    return min(Counter(group // SERVER for group in members).values())


def losses(number: int) -> list[list[int]]:
    draw = Random(number)
    return [draw.sample(range(GROUPS), number) for _ in range(20)]


@pytest.mark.parametrize("number", [1, 3, 8, 16])
def test_one_set_represents_all_with_as_many_in_the_emptiest_server(
    times: SimulatedStepTimes, number: int
) -> None:
    members = alike_members(times)
    found = defaultdict[int, set[tuple[int, ...]]](set)
    for gone in losses(number):
        first = members.first(without(gone))
        assert members.first(first) == first
        found[fewest(without(gone))].add(first)
    for left, sets in found.items():
        (first,) = sets
        assert (fewest(first), len(first)) == (left, GROUPS - SERVER + left)


def test_levels_halve_the_servers_and_keep_them_full(times: SimulatedStepTimes) -> None:
    """Of the two leaf switches with two servers, and of that with one, about a half stays."""
    levels = alike_members(times).levels
    assert [len(level) for level in levels] == [40, 24, 16]
    assert all(fewest(level) == SERVER for level in levels)


@pytest.mark.parametrize(
    "gone", [(3,), (35,), (3, 20), (0, 9, 38), range(8, 16), range(0, 40, 3), range(1, 40, 2)]
)
@pytest.mark.parametrize("hidden", [True, False])
def test_the_time_is_about_that_of_the_very_members(
    times: SimulatedStepTimes, gone: Sequence[int], hidden: bool
) -> None:
    shares = StepShares(without(gone), gathers=hidden, reduces=hidden)
    exact = step_time(times.platform, times.step, shares)
    assert times.passes_s(shares) + times.exchange_s(shares) == pytest.approx(
        exact.step_s, rel=2e-3 if len(gone) > GROUPS / 3 else 1e-4
    )


@pytest.mark.parametrize("gone", [(3,), (3, 20, 21), range(0, 40, 3)])
@pytest.mark.parametrize("sharding", ["optimizer", "full"])
def test_so_it_is_however_weights_are_kept(
    times: SimulatedStepTimes, gone: Sequence[int], sharding: str
) -> None:
    other = times_on(times.platform, **{"model.sharding": sharding, "model.tensor": 1})
    test_the_time_is_about_that_of_the_very_members(other, gone, hidden=True)


def test_of_groups_with_domains_of_their_own_only_the_number_matters() -> None:
    members = AlikeMembers([Place(domains=group, kind="server") for group in range(12)])
    assert members.are_all_alike
    assert members.first((0, 2)) == members.first((11,)) == tuple(range(12))
    assert members.levels == [tuple(range(number)) for number in (12, 6, 3, 2)]


def test_without_a_known_symmetry_each_set_stands_for_itself(times: SimulatedStepTimes) -> None:
    unknown = replace(read_platform(times.platform), flow_routes={"a": ()})
    members = AlikeMembers(places_of(unknown, times.step, Symmetry(unknown)))
    for gone in ((3,), (4, 20), range(0, 40, 3)):
        assert members.first(without(gone)) == without(gone)
    assert members.levels == [without(())]


def test_a_slow_gpu_is_like_no_other(times: SimulatedStepTimes) -> None:
    """GPU 20, in the third server: its loss is not that of its neighbours."""
    platform = read_platform(times.platform)
    gpus = tuple(
        replace(gpu, speed_flop_per_s=gpu.speed_flop_per_s / (2 if number == 20 else 1))
        for number, gpu in enumerate(platform.gpus)
    )
    members = AlikeMembers(places_of(replace(platform, gpus=gpus), times.step, times.symmetry()))
    assert not members.are_all_alike
    found = {gone: members.first(without((gone,))) for gone in (3, 18, 20, 21, 28)}
    assert found[20] == without((20,))
    assert all(
        20 in first and fewest(first) == SERVER - 1 for first in found.values() if 20 in first
    )
    assert len({*found.values()}) == 2
