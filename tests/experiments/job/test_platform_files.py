"""The platform of a job: a shipped cluster that is too small for it is generated at its size."""

from __future__ import annotations

import pytest
from faultline.experiments.config.cluster import platform_at
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import durations_of
from faultline.experiments.job.platform_files import platform_file, spec_at_size
from faultline.platforms.preset_library import load_preset
from faultline.strategies.interface.recovery import Move, SentMove

from tests.stated_times import NOTHING_MEASURED


def job_of(gpus: int, groups: int, **changes: object) -> Scenario:
    size = {"platform.file": "hgx-h100", "job.groups": groups, "job.gpus": gpus}
    scenario = load_scenario("spare-sound", NOTHING_MEASURED)
    return scenario.change({**size, **changes})


def test_a_cluster_that_is_large_enough_stays_as_it_is_shipped() -> None:
    assert spec_at_size(job_of(256, 8)) == load_preset("hgx-h100")


def test_a_larger_cluster_has_the_same_for_each_gpu() -> None:
    shipped, grown = load_preset("hgx-h100"), spec_at_size(job_of(512, 8))
    assert grown is not None
    assert grown.gpus == 2 * shipped.gpus
    assert grown.storage is not None
    assert shipped.storage is not None
    for name in ("read_bandwidth_bytes_per_s", "write_bandwidth_bytes_per_s"):
        assert getattr(grown.storage, name) == pytest.approx(2 * getattr(shipped.storage, name))
    assert (grown.gpu, grown.nic, grown.host) == (shipped.gpu, shipped.nic, shipped.host)


@pytest.mark.parametrize(("groups", "is_folded"), [(128, True), (4096, False)])
def test_one_rail_stands_for_a_large_cluster_of_whole_domains(groups: int, is_folded: bool) -> None:
    spec = spec_at_size(job_of(16_384, groups))
    assert spec is not None
    assert (spec.plane is not None) == is_folded
    assert (spec.plane.cluster_gpus if spec.plane else spec.gpus) == 16_384


@pytest.mark.parametrize(("gpus", "groups"), [(512, 64), (8192, 512)])
def test_state_moves_over_the_adapters_of_as_many_gpus_as_the_job_has(
    gpus: int, groups: int
) -> None:
    """Each GPU of a replica has an adapter of 50 GB/s; of 256 GPUs, a server had two groups."""
    scenario = job_of(gpus, groups, **{"protection.state_bytes": 2e11})
    sent = SentMove(Move(1, 0, 0, 1), 0)
    expected_s = 2e11 / (gpus / groups * 50e9)
    moves = durations_of(scenario).moves
    assert moves is not None
    assert moves.duration_s([sent]) == pytest.approx(expected_s, rel=0.01)


@pytest.mark.parametrize("groups", [64, 128])
def test_a_rail_plane_has_a_gpu_for_each_group_of_a_job_of_its_size(groups: int) -> None:
    """A job with more groups than the shipped plane could not keep its state in memory."""
    spec = spec_at_size(job_of(16_384, groups, **{"platform.file": "h100-16k"}))
    assert spec is not None
    assert (spec.gpus, spec.storage) == (groups, load_preset("h100-16k").storage)


def test_a_rail_plane_stands_for_as_many_gpus_as_a_larger_job_has() -> None:
    shipped, gpus, groups = load_preset("spare-600k"), 2 * 600_000, 2 * 200
    scenario = job_of(gpus, groups, **{"platform.file": "spare-600k"})
    platform = platform_at(platform_file(scenario))
    assert platform.spec is not None
    assert platform.spec.plane is not None
    assert (platform.spec.plane.cluster_gpus, len(platform.gpus)) == (gpus, groups)
    assert shipped.storage is not None
    assert platform.spec.storage is not None
    grown = platform.spec.storage.read_bandwidth_bytes_per_s
    assert grown == pytest.approx(2 * shipped.storage.read_bandwidth_bytes_per_s)
