"""Where the GPUs of a job are."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.platforms import load_preset, read_platform, write_xml
from faultline.simulator.workload.errors import WorkloadError
from faultline.simulator.workload.layout import Layout, place, place_on_platform, stage_layers
from hypothesis import given
from hypothesis import strategies as st


def domains_of(count: int, gpus: int) -> list[list[tuple[int, int]]]:
    """GPUs named by domain and position."""
    return [[(domain, position) for position in range(gpus)] for domain in range(count)]


@given(
    tensor=st.integers(1, 8),
    pipeline=st.integers(1, 4),
    gpus=st.integers(8, 20),
    blocks=st.integers(1, 4),
    data=st.integers(1, 8),
)
def test_a_placement_keeps_its_promises(
    tensor: int, pipeline: int, gpus: int, blocks: int, data: int
) -> None:
    """Stages inside a domain, a replica's stages in different ones, no GPU twice, equal places."""
    slots = gpus // tensor
    data = min(data, blocks * slots)
    placed = place(Layout(data, pipeline, tensor), domains_of(blocks * pipeline, gpus))
    assert len(placed) == data
    used = [gpu for replica in placed for stage in replica for gpu in stage]
    assert len(used) == len(set(used)) == data * pipeline * tensor
    for number, replica in enumerate(placed):
        homes = [{domain for domain, _ in stage} for stage in replica]
        assert all(len(home) == 1 for home in homes)
        assert len(set.union(*homes)) == pipeline
        # The same positions in every stage, and in every replica of the same slot.
        positions = {tuple(position for _, position in stage) for stage in replica}
        assert positions == {tuple(range(number % slots * tensor, (number % slots + 1) * tensor))}


def test_the_job_of_ntp_fills_its_cluster() -> None:
    placed = place(Layout(128, 8, 32), domains_of(1024, 32))
    assert placed[0][0] == tuple((0, position) for position in range(32))
    assert placed[127][7][31] == (1023, 31)


def test_on_a_platform_replicas_meet_on_rails(tmp_path: Path) -> None:
    path = tmp_path / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=4), path)
    placed = place_on_platform(Layout(2, 2, 8), read_platform(path))
    assert placed[0][1][3] == "gpu-000011"
    assert placed[1][1][3] == "gpu-000027"
    with pytest.raises(WorkloadError, match="tensor parallelism of 9 does not fit"):
        place_on_platform(Layout(1, 1, 9), read_platform(path))


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (Layout(1, 1, 33), "tensor parallelism of 33 does not fit a scale-up domain of 32 GPUs"),
        (Layout(3, 2, 32), "3 replicas of 2 domains, 1 to a block, do not fit 5 .*at most 2"),
        (Layout(1, 6, 32), "do not fit 5 scale-up domains: use at most 0"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(layout: Layout, message: str) -> None:
    with pytest.raises(WorkloadError, match=message) as error:
        place(layout, domains_of(5, 32))
    assert "\n" not in str(error.value)


def test_layers_are_dealt_as_evenly_as_can_be() -> None:
    assert stage_layers(100, Layout(1, 8, 1)) == (13, 13, 13, 13, 12, 12, 12, 12)
    with pytest.raises(WorkloadError, match="100 layers are too few for 8 stages of 13"):
        stage_layers(100, Layout(1, 8, 1, virtual_stages=13))
    with pytest.raises(WorkloadError, match="pipeline is 0"):
        Layout(1, 0, 1)
