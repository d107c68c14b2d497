"""Where the GPUs of a job are: invariants of placements."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faultline.platforms.xml_reader import read_platform
from faultline.simulator.workload.layout import Layout, place, place_on_platform, stage_layers
from faultline.simulator.workload.transformer import WorkloadError
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


def test_on_a_platform_replicas_meet_on_rails(servers_of: Callable[..., Path]) -> None:
    path = servers_of(domains=4)
    placed = place_on_platform(Layout(2, 2, 8), read_platform(path))
    assert placed[0][1][3] == "gpu-000011"
    assert placed[1][1][3] == "gpu-000027"


def test_layers_are_dealt_as_evenly_as_can_be() -> None:
    assert stage_layers(100, Layout(1, 8, 1)) == (13, 13, 13, 13, 12, 12, 12, 12)
    with pytest.raises(WorkloadError, match="100 layers are too few for 8 stages of 13"):
        stage_layers(100, Layout(1, 8, 1, virtual_stages=13))
