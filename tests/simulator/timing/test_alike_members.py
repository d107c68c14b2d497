"""Members of equal time on a platform of which one leaf switch has fewer servers."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from faultline.experiments.config.scenario_file import scenario_from
from faultline.experiments.config.toml_text import parse_toml
from faultline.experiments.job.step_times import simulated_step_times
from faultline.platforms.preset_library import load_preset
from faultline.platforms.symmetry import Symmetry
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.timing.alike_members import AlikeMembers
from faultline.simulator.timing.step_times import SimulatedStepTimes, step_time

GROUPS, SERVER, LEAF = 40, 8, 16
"""Groups of one GPU; those of a server, and of the first leaf switches. The last has a server."""


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
    return AlikeMembers(read_platform(times.platform), times.symmetry(), times.step)


def without(groups: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(group for group in range(GROUPS) if group not in groups)


def place_of(group: int) -> tuple[bool, int, int]:
    """Return whether a group is below the last leaf switch, its leaf switch, and its server."""
    return group >= 2 * LEAF, group // LEAF, group // SERVER


def lost(groups: tuple[int, ...]) -> object:
    """Return how many groups are lost: of each server of each leaf switch."""
    leaves: dict[tuple[bool, int], dict[int, int]] = {}
    for group in groups:
        is_last, leaf, server = place_of(group)
        counts = leaves.setdefault((is_last, leaf), {})
        counts[server] = counts.get(server, 0) + 1
    return sorted((is_last, sorted(counts.values())) for (is_last, _), counts in leaves.items())


@pytest.mark.parametrize("number", [1, 2, 3])
def test_one_set_represents_all_that_lose_as_many_below_alike_switches(
    times: SimulatedStepTimes, number: int
) -> None:
    members = alike_members(times)
    by_loss: dict[str, set[tuple[int, ...]]] = {}
    for gone in combinations(range(GROUPS), number):
        found = members.first(without(gone))
        rest = tuple({*range(GROUPS)} - {*found})
        assert lost(rest) == lost(gone)
        assert members.first(found) == found
        by_loss.setdefault(str(lost(gone)), set()).add(found)
    assert {len(found) for found in by_loss.values()} == {1}
    assert len(by_loss) == {1: 2, 2: 5, 3: 9}[number]


@pytest.mark.parametrize("gone", [(3,), (35,), (3, 20), (0, 9, 38), tuple(range(8, 16))])
def test_the_time_is_that_of_the_very_members(
    times: SimulatedStepTimes, gone: tuple[int, ...]
) -> None:
    exact = step_time(times.platform, times.step, StepShares(without(gone)))
    shares = StepShares(without(gone))
    assert times.passes_s(shares) + times.exchange_s(shares) == pytest.approx(
        exact.step_s, rel=1e-5
    )


def test_a_group_of_several_servers_is_in_the_part_that_contains_them(tmp_path: Path) -> None:
    """Three servers below a leaf switch, two in a group: the second group is below both."""
    path = tmp_path / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=6, domains_per_leaf=3), path)
    layout = {"job.groups": 3, "model.tensor": 8, "model.pipeline": 2, "model.sharding": "none"}
    times = times_on(path, **layout)
    members = alike_members(times)
    assert members.first((0, 1)) == members.first((1, 2)) == (0, 1)
    assert members.first((0, 2)) == (0, 2)


def test_without_a_known_symmetry_each_set_stands_for_itself(times: SimulatedStepTimes) -> None:
    unknown = replace(read_platform(times.platform), flow_routes={"a": ()})
    members = AlikeMembers(unknown, Symmetry(unknown), times.step)
    for gone in ((3,), (4, 20)):
        assert members.first(without(gone)) == without(gone)


def test_a_slow_gpu_is_like_no_other(times: SimulatedStepTimes) -> None:
    """GPU 20, below the second leaf switch: its loss is not that of its neighbours."""
    platform = read_platform(times.platform)
    gpus = tuple(
        replace(gpu, speed_flop_per_s=gpu.speed_flop_per_s / (2 if number == 20 else 1))
        for number, gpu in enumerate(platform.gpus)
    )
    members = AlikeMembers(replace(platform, gpus=gpus), times.symmetry(), times.step)
    found = {gone: members.first(without((gone,))) for gone in (3, 18, 20, 21, 28)}
    assert 20 not in found[20]
    assert all(20 in found[gone] for gone in (3, 18, 21, 28))
    assert len({*found.values()}) == 4
    assert found[18] == found[21]
