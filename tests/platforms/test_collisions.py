"""What hashing flows onto links costs: against Monte Carlo, and against SimGrid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from faultline.platforms import ClusterSpec, PlatformError, simulate_flows
from faultline.platforms.collisions import Rings, busiest_over_mean, hashing_cost

from tests.platforms.helpers import Write, four_by_four, shift


@pytest.mark.parametrize(("flows", "links"), [(8, 8), (32, 16), (1000, 16), (5, 40), (64, 3)])
def test_the_busiest_link_against_monte_carlo(flows: int, links: int) -> None:
    draws = np.random.default_rng(1).multinomial(flows, [1 / links] * links, size=40_000)
    busiest = draws.max(axis=1) * links / flows
    error = busiest.std() / np.sqrt(len(busiest))
    assert abs(busiest_over_mean(flows, links) - busiest.mean()) < 4 * error


def test_the_busiest_link_by_hand() -> None:
    assert busiest_over_mean(7, 1) == pytest.approx(1.0)
    assert busiest_over_mean(1, 9) == pytest.approx(9.0)
    # Two flows meet with probability 1/2 on two links, 1/4 on four.
    assert busiest_over_mean(2, 2) == pytest.approx(1.5)
    assert busiest_over_mean(2, 4) == pytest.approx((1 + 1 / 4) * 2)


def test_a_thousand_flows_on_sixteen_links_are_uneven_as_published() -> None:
    """More than 1.2 times the mean on the busiest (Meta, SIGCOMM 2024)."""
    assert 1.2 < busiest_over_mean(1000, 16) < 1.25


def cluster(**overrides: Any) -> ClusterSpec:
    """Four sets of four domains: each group of 16 GPUs fills one, each leaf switch sends four."""
    sizes = {"domains": 16, "domains_per_leaf": 4, "spines": 4, "oversubscription": [2]}
    return four_by_four(**{**sizes, **overrides})


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param({"failed_spines": [2]}, marks=pytest.mark.slow),
        {"rail_optimised": False, "spines": 8},
        pytest.param({"gpus_per_nic": 2, "oversubscription": [1]}, marks=pytest.mark.slow),
        # The adapters limit what the uplinks would carry.
        {"oversubscription": [1], "spines": 1},
    ],
)
def test_ring_times_against_simgrid(overrides: dict[str, Any], write: Write) -> None:
    """The last of all flows of the rings, latencies apart, in SimGrid on each platform."""
    spec = cluster(**overrides)
    rings = Rings(spec, groups=4)
    flows = shift(spec.gpus, by=spec.gpus // 4, size_bytes=1e12)

    def seconds(**routing: Any) -> float:
        return max(simulate_flows(write(cluster(**overrides, **routing)), flows)) - 2.3e-6

    adaptive_s = seconds()
    for seed in range(2):
        hashed_s = seconds(routing="ecmp", routing_seed=seed)
        assert rings.slowdown("ecmp", seed) == pytest.approx(hashed_s / adaptive_s, rel=1e-6)
    by_destination_s = seconds(routing="d-mod-k")
    assert rings.slowdown("d-mod-k") == pytest.approx(by_destination_s / adaptive_s, rel=1e-6)


def test_more_connections_even_the_links_out() -> None:
    cost = hashing_cost(cluster(oversubscription=[1]), groups=4, seeds=10)
    assert (cost.leaf_flows, cost.leaf_links, cost.d_mod_k) == (4, 4, 1.0)
    means = [float(np.mean(cost.ecmp[connections])) for connections in (1, 4, 16)]
    assert means[0] > means[1] > means[2] > 1.0
    assert len(set(cost.ecmp[16])) > 1
    assert cost == hashing_cost(cluster(oversubscription=[1]), groups=4, seeds=10)


def test_a_lost_spine_doubles_up_destinations() -> None:
    """Four flows on three links of a quarter each: two share one, against three quarters."""
    lost = hashing_cost(cluster(oversubscription=[1], failed_spines=[0]), groups=4, seeds=1)
    assert lost.leaf_links == 3
    assert lost.d_mod_k == pytest.approx(2 / (4 / 3))


@pytest.mark.parametrize(
    ("overrides", "groups", "message"),
    [
        ({}, 3, "3 groups do not divide its 64 GPUs"),
        ({}, 1, "1 groups do not divide its 64 GPUs, or are fewer than two"),
        ({"spines": None}, 4, "scale_out.spines is missing: write their number"),
        ({"domains_per_leaf": 16}, 4, "the rings of 4 groups pass no spine"),
    ],
)
def test_what_has_no_answer(overrides: dict[str, Any], groups: int, message: str) -> None:
    with pytest.raises(PlatformError, match=message):
        hashing_cost(cluster(**overrides), groups, seeds=1)
