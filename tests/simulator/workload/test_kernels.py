"""How fast GPUs compute and send: what curves and formulas promise."""

from __future__ import annotations

import pytest
from faultline.simulator.workload.kernels import A100, GB200, H100, KNOWN_KERNELS, Curve
from hypothesis import given
from hypothesis import strategies as st

MIB = 2**20


@given(st.floats(1.0, 1e12))
def test_a_curve_stays_between_its_points(size: float) -> None:
    curve = Curve(((10.0, 1.0), (100.0, 3.0), (1000.0, 4.0)))
    assert 1.0 <= curve(size) <= 4.0
    assert curve(size) <= curve(2 * size)


def test_a_curve_runs_through_its_points_and_over_the_logarithm() -> None:
    curve = Curve(((10.0, 1.0), (1000.0, 3.0)))
    assert [curve(size) for size in (1.0, 10.0, 100.0, 1000.0, 1e6)] == [1, 1, 2, 3, 3]


@pytest.mark.parametrize(("size", "rate"), [(1024, 88e12), (4096, 258e12), (8192, 290e12)])
def test_squares_run_at_the_published_rate_of_cublas(size: int, rate: float) -> None:
    assert 2 * size**3 / A100.matmul.seconds(size, size, size) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("shape", "rate"),
    [((1024, 1024, 4096), 470e12), ((4096, 1024, 2048), 632e12), ((2048, 4096, 4096), 754e12)],
)
def test_h100_is_near_the_measured_table(shape: tuple[int, int, int], rate: float) -> None:
    """XLA's table; 5 % on average over 29 shapes."""
    m, n, k = shape
    assert 2 * m * n * k / H100.matmul.seconds(m, n, k) == pytest.approx(rate, rel=0.12)


@pytest.mark.parametrize("name", KNOWN_KERNELS)
def test_no_gpu_beats_its_specification_by_much(name: str) -> None:
    """H100's fit was made on short runs at full clocks, and 5 % is its accuracy."""
    kernels = KNOWN_KERNELS[name]
    rate = 2 * 16384**3 / kernels.matmul.seconds(16384, 16384, 16384)
    assert 0.6 * kernels.speed_flop_per_s < rate < 1.05 * kernels.speed_flop_per_s
    assert all(0 < share <= 1 for _, share in kernels.scale_up_share.points)


@pytest.mark.parametrize(("mib", "rate"), [(4, 72e9), (64, 172e9), (1024, 229e9)])
def test_a_ring_takes_as_long_as_published(mib: int, rate: float) -> None:
    sent = 2 * 7 / 8 * mib * MIB
    assert A100.ring_bytes(mib * MIB, 8, 2) / 300e9 == pytest.approx(sent / rate)


def test_reductions_in_the_switch_help_all_reduces_alone() -> None:
    """More than the 450 GB/s of a link: 466 of eight H100, and 850 of 900 of GB200."""
    size = 1024 * MIB
    sent = 2 * 7 / 8 * size
    assert sent / H100.all_reduce_bytes(size, 8) * 450 == pytest.approx(466)
    assert sent / H100.ring_bytes(size, 8, 2) * 450 == pytest.approx(361)
    assert KNOWN_KERNELS["gb200"].all_reduce_bytes(size, 8) == pytest.approx(sent * 900 / 850)
    assert A100.all_reduce_bytes(size, 8) == A100.ring_bytes(size, 8, 2)


def test_a_short_ring_takes_the_shortest_time_there_is() -> None:
    assert A100.ring_bytes(1.0, 8, 2) / 300e9 == pytest.approx(44e-6)
    assert A100.ring_bytes(1.0, 2, 1) == A100.ring_bytes(1.0, 8, 2)


def test_eight_bits_are_faster_where_the_gpu_has_them() -> None:
    assert A100.eight_bit_speedup == 1.0
    assert 1.5 < H100.eight_bit_speedup < GB200.eight_bit_speedup < 2.0
