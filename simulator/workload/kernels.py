"""How fast a kind of GPU computes and sends: published rates of kernels and collectives.

Nothing here is fitted to a training run. Matrix products have the rate that the vendor's library
reaches at their size. Memory-bound kernels have the share of the memory's bandwidth that such
kernels reach, and collectives the share of their links that rings of their size reach. A job's own
software is represented by a single factor, `ParallelJob.compute_efficiency`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from typing import Literal, NamedTuple

from faultline.simulator.workload.transformer import WorkloadError

AttentionKernel = Literal["unfused", "flash-2", "flash-3"]
"""Kernel of attention: matrix products and a softmax, or a FlashAttention version."""
MatmulPrecision = Literal["bf16", "fp8"]
"""Numbers that matrix products of weights multiply: 16 bits or 8 bits."""

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Curve:
    """A positive quantity by size, interpolated over the logarithm of the size."""

    # Sizes and values, in ascending order of sizes. Beyond an end, the value of the end applies.
    points: tuple[tuple[float, float], ...]

    def __call__(self, size: float) -> float:
        """Return the value at a size."""
        points = self.points
        place = bisect_left(points, (size, 0.0))
        if place == 0:
            return points[0][1]
        if place == len(points):
            return points[-1][1]
        (below, low), (above, high) = points[place - 1], points[place]
        return low + (high - low) * log(size / below) / log(above / below)


@dataclass(frozen=True, slots=True)
class SizedMatmul:
    """Matrix products whose rate depends on the cube root of ``m n k``, times the batch size."""

    flop_per_s: Curve  # Rate by size.

    def seconds(self, rows: float, columns: float, inner: float, count: float = 1.0) -> float:
        """Return the time of `count` products of a rows x inner with an inner x columns matrix."""
        work = rows * columns * inner * count
        return 2.0 * work / self.flop_per_s(work ** (1 / 3))


@dataclass(frozen=True, slots=True)
class AffineMatmul:
    """Matrix products: FLOP over a rate, plus bytes over another rate, plus a fixed time."""

    flop_per_s: float
    bytes_per_s: float
    launch_s: float  # Overhead of each product, or batch of products.
    factor_bytes: float = 2.0  # Bytes of a number of both factors; the result has 16 bits.

    def seconds(self, rows: float, columns: float, inner: float, count: float = 1.0) -> float:
        """Return the time of `count` products of a rows x inner with an inner x columns matrix."""
        size_bytes = self.factor_bytes * (rows + columns) * inner + 2.0 * rows * columns
        return (
            2.0 * rows * columns * inner * count / self.flop_per_s
            + size_bytes * count / self.bytes_per_s
            + self.launch_s
        )


class AttentionRates(NamedTuple):
    """FLOP per second of a fused kernel of attention, by the tokens of its sequence.

    Masked scores count neither as work nor as time.
    """

    forward: Curve
    backward: Curve


def _rates(
    first_tokens: int, forward: Sequence[float], backward: Sequence[float]
) -> AttentionRates:
    """Return rates given in TFLOP/s at `first_tokens` tokens, and at twice as many each."""
    curves = (
        Curve(tuple((first_tokens * 2.0**place, 1e12 * rate) for place, rate in enumerate(rates)))
        for rates in (forward, backward)
    )
    return AttentionRates(*curves)


_MEASURED_RANKS = 8
"""GPUs of the collectives whose rates are published."""
_HOP_S = 600e-9
"""Latency of a route over NVLink in the shipped clusters. Published times include it; it is
subtracted, and collectives of a step have the latencies of their platform instead."""


class Carried(NamedTuple):
    """The cost of a collective on a GPU's NVLink."""

    size_bytes: float  # Bytes on the link: more than it sends if it cannot use the whole link.
    hops: float  # Number of latencies of a route, one after the other.

    def times(self, factor: float) -> Carried:
        """Return a multiple of the cost."""
        return Carried(factor * self.size_bytes, factor * self.hops)

    def then(self, other: Carried) -> Carried:
        """Return the cost of both, one after the other."""
        return Carried(self.size_bytes + other.size_bytes, self.hops + other.hops)


@dataclass(frozen=True, slots=True)
class Kernels:
    """The measured performance of a kind of GPU."""

    # Speed of the GPU that these rates belong to. A platform's host computes seconds times this
    # speed, so a slower GPU takes longer.
    speed_flop_per_s: float
    matmul: SizedMatmul | AffineMatmul  # Matrix products, 16 bits.
    memory_bytes_per_s: float  # Bandwidth of its memory that element-wise kernels reach.
    flash_2: AttentionRates  # FlashAttention-2.
    # Share of an NVLink's bandwidth that a ring reaches, by the bytes that a GPU sends in it. A
    # ring with fewer bytes than the first point takes as long as that point.
    scale_up_share: Curve
    # As `scale_up_share`, of all-to-alls.
    exchange_share: Curve
    scale_up_bytes_per_s: float  # Bandwidth of the NVLink to which the shares refer.
    scale_out_share: float  # Share of an adapter's bandwidth that large messages reach.
    # FlashAttention-3, or the vendor's kernel of its time; None if the rates are unknown.
    flash_3: AttentionRates | None = None
    # Matrix products, 8 bits; None if it is unknown.
    eight_bit_matmul: AffineMatmul | None = None
    # As `scale_up_share`, of all-reduces that the switch reduces (NVLink SHARP). It may exceed 1,
    # because less is sent than in a ring. None if all-reduces are rings.
    all_reduce_share: Curve | None = None

    def attention_rates(self, kernel: AttentionKernel) -> AttentionRates | None:
        """Return the rates of a fused kernel; None if it is not fused.

        Raises
        ------
        WorkloadError
            The rates of this kernel are unknown for this GPU.
        """
        if kernel == "unfused":
            return None
        rates = self.flash_2 if kernel == "flash-2" else self.flash_3
        if rates is None:
            raise WorkloadError(
                f'job: attention = "{kernel}": its rates are unknown for these kernels; '
                'use "flash-2", or kernels of H100 or GB200'
            )
        return rates

    def matmul_in(self, precision: MatmulPrecision) -> SizedMatmul | AffineMatmul:
        """Return the speed of matrix products whose factors have a precision.

        Raises
        ------
        WorkloadError
            The speed in 8 bits is unknown for this GPU.
        """
        if precision == "bf16":
            return self.matmul
        if self.eight_bit_matmul is None:
            raise WorkloadError(
                f'job: matmul_precision = "{precision}": the speed in 8 bits is unknown for these '
                'kernels; use "bf16", or kernels of H100 or GB200'
            )
        return self.eight_bit_matmul

    def ring(self, size_bytes: float, ranks: int, passes: int) -> Carried:
        """Return the cost of rings on NVLink: each step has a link's latency.

        `passes` is 1 for a reduce-scatter or an all-gather, 2 for both.
        """
        hops = passes * (ranks - 1)
        measured_hops = 2 * (_MEASURED_RANKS - 1)
        return self._carried(hops / ranks * size_bytes, hops, self.scale_up_share, measured_hops)

    def all_reduce(self, size_bytes: float, ranks: int) -> Carried:
        """Return the cost of an all-reduce on NVLink: a ring, or through a switch that reduces."""
        if self.all_reduce_share is None:
            return self.ring(size_bytes, ranks, 2)
        sent = 2 * (ranks - 1) / ranks * size_bytes
        return self._carried(sent, 2, self.all_reduce_share, 2)

    def exchange(self, size_bytes: float, ranks: int) -> Carried:
        """Return the cost of an all-to-all on NVLink: a GPU sends to all others at once.

        A GPU has `size_bytes`, of which it keeps its own part.
        """
        return self._carried((ranks - 1) / ranks * size_bytes, 1, self.exchange_share, 1)

    def _carried(self, sent: float, hops: int, share: Curve, measured_hops: int) -> Carried:
        """Return a published time as bytes at the link's rate, after its latencies are subtracted.

        `measured_hops` are those of the published collectives. None is faster than at the share
        that the largest published one reaches.
        """
        latency = _HOP_S * self.scale_up_bytes_per_s
        size, reached = share.points[-1]
        least = sent * max(0.0, 1.0 / reached - measured_hops * latency / size)
        published = max(sent, share.points[0][0]) / share(sent)
        return Carried(max(least, published - hops * latency), hops)


def _ring_share(link_bytes_per_s: float, floor_s: float, bus: Mapping[float, float]) -> Curve:
    """Return shares of a link by bytes sent, given the bus bandwidths of all-reduces on 8 GPUs.

    `bus` is in bytes/s by MiB. An all-reduce of 256 KiB takes `floor_s`, and no other takes less.
    """
    sent = 2 * 7 / 8 * _MIB
    rates = {0.25: 0.25 * sent / floor_s, **bus}
    return Curve(tuple((size * sent, rate / link_bytes_per_s) for size, rate in rates.items()))


def _exchange_share(link_bytes_per_s: float, *bus: float) -> Curve:
    """Return shares of a link by bytes sent, given the bus bandwidths of all-to-alls on 8 GPUs.

    `bus` is in GB/s, at 1 MiB and each four times as much, and at 2 GiB.
    """
    sizes = [min(4.0**place, 2048.0) for place in range(len(bus))]
    return Curve(
        tuple(
            (7 / 8 * size * _MIB, rate * 1e9 / link_bytes_per_s)
            for size, rate in zip(sizes, bus, strict=True)
        )
    )


A100 = Kernels(
    speed_flop_per_s=312e12,
    matmul=SizedMatmul(
        Curve(
            (
                (512, 27e12),
                (1024, 88e12),
                (1536, 150e12),
                (2048, 195e12),
                (3072, 235e12),
                (4096, 258e12),
                (6144, 277e12),
                (8192, 290e12),
            )
        )
    ),
    memory_bytes_per_s=0.85 * 2.04e12,
    flash_2=_rates(512, *2 * [(99, 133, 155, 173, 182, 189)]),
    scale_up_share=_ring_share(
        300e9, 44e-6, {1: 18e9, 4: 72e9, 16: 106e9, 64: 172e9, 256: 194e9, 1024: 229e9}
    ),
    exchange_share=_exchange_share(450e9, 17, 98, 139, 268, 309, 336, 340),
    scale_up_bytes_per_s=300e9,
    scale_out_share=0.96,
)
"""A100 80 GB SXM.

Squares of cuBLAS in 16 bits from NVIDIA's figure; FlashAttention-2 (Dao 2023, arXiv 2307.08691) by
length, causal, heads of 128, forward and backward together; nccl-tests on eight GPUs; 192 of 200
GB/s between hosts (NVIDIA). All-to-alls reach the bandwidth that they do on H100, of which they use
less than A100 has.
"""

_H100_ALL_REDUCE = _ring_share(
    450e9, 15e-6, {1: 67e9, 4: 135e9, 16: 237e9, 64: 362e9, 256: 422e9, 1024: 466e9}
)

H100 = Kernels(
    speed_flop_per_s=989e12,
    matmul=AffineMatmul(1042e12, 5.7e12, 6e-6),
    memory_bytes_per_s=0.85 * 3.35e12,
    flash_2=_rates(512, (191, 260, 298, 319, 333, 335), (154, 208, 254, 285, 299, 325)),
    flash_3=_rates(512, (292, 423, 521, 579, 602, 616), (316, 424, 501, 542, 559, 561)),
    scale_up_share=_ring_share(450e9, 15e-6, {1: 67e9, 4: 135e9, 16: 237e9, 64: 361e9}),
    exchange_share=_exchange_share(450e9, 17, 98, 139, 268, 309, 336, 340),
    scale_up_bytes_per_s=450e9,
    scale_out_share=0.96,
    eight_bit_matmul=AffineMatmul(1403 / 795 * 1042e12, 5.7e12, 6e-6, 1.0),
    all_reduce_share=_H100_ALL_REDUCE,
)
"""H100 80 GB SXM.

Matrix products: XLA's measured table in 16 bits, 29 shapes within 5 % on average; in 8 bits faster
by the ratio of the best sustained products (ML engineering handbook), with factors of one byte.
Attention by length, causal, heads of 128: FlashAttention-2 (arXiv 2307.08691), backward from its
rates forward and together; FlashAttention-3 (Shah et al. 2024, arXiv 2407.08608, figures 5 and 6).
nccl-tests on eight GPUs: reduce-scatter and all-gather (361 to 363 GB/s), and all-reduce with
reductions in the switch; all-to-all of XLA's table; 48 of 50 GB/s for a 400 Gb/s adapter.
"""

H100_500W = replace(
    H100,
    matmul=AffineMatmul(600e12, 5.7e12, 6e-6),
    eight_bit_matmul=AffineMatmul(1170e12, 5.7e12, 6e-6, 1.0),
    memory_bytes_per_s=0.85 * 2.4e12,
)
"""An H100 of 500 W with 2.4 TB/s of memory (Liang et al. 2024, torchtitan, arXiv 2410.06511).

Large products at that power, in 16 and in 8 bits by rows: FBGEMM, pull request 2546. Small ones
cost what they cost on H100.
"""

GB200 = Kernels(
    speed_flop_per_s=2500e12,
    matmul=AffineMatmul(1822e12, 8 / 3.35 * 5.7e12, 6e-6),
    memory_bytes_per_s=0.85 * 8e12,
    flash_2=_rates(512, (53, 135, 241, 325, 375, 397, 406), (36, 107, 191, 265, 309, 331, 342)),
    flash_3=_rates(2048, (1097, 1408, 1574, 1708, 1622), (885, 1148, 1332, 1328, 1226)),
    scale_up_share=Curve(
        tuple((size, min(share, 680 / 900)) for size, share in H100.scale_up_share.points)
    ),
    exchange_share=_exchange_share(900e9, 52, 94, 277, 438, 546, 610, 614),
    scale_up_bytes_per_s=900e9,
    scale_out_share=0.96,
    eight_bit_matmul=AffineMatmul(4200e12, 8e12, 5.75e-6, 1.0),
    all_reduce_share=Curve(
        tuple((size, min(share, 850 / 900)) for size, share in _H100_ALL_REDUCE.points)
    ),
)
"""A GPU of a GB200 NVL72.

Best sustained matrix products in 16 bits (ML engineering handbook), small ones by H100's and the
bandwidth of memory; in 8 bits a fit to 125 shapes of XLA's measured table on B200, 9 to 13 % off in
the mean square. Attention by length, causal, heads of 128: PyTorch's FlashAttention-2 on B200, and
in place of FlashAttention-3 cuDNN on GB200 (NVIDIA, cudnn-frontend). 8 TB/s of memory and 900 GB/s
of NVLink each way by specification (NVIDIA), of which rings of 32 GPUs reach 680, all-reduces with
reductions in the switch 850, and all-to-alls of eight what XLA's table measured.
"""


FLAT = Kernels(
    speed_flop_per_s=1.0,
    matmul=AffineMatmul(1.0, inf, 0.0),
    memory_bytes_per_s=inf,
    flash_2=_rates(1, (1e-12,), (1e-12,)),
    scale_up_share=H100.scale_up_share,
    exchange_share=H100.exchange_share,
    scale_up_bytes_per_s=H100.scale_up_bytes_per_s,
    scale_out_share=H100.scale_out_share,
)
"""Any GPU of which only the speed is known.

It computes all FLOP at that speed, and memory traffic takes no time. Rings reach the same shares of
their links as on H100.
"""

KNOWN_KERNELS: Mapping[str, Kernels] = {
    "flat": FLAT,
    "a100": A100,
    "h100": H100,
    "h100-500w": H100_500W,
    "gb200": GB200,
}
"""Kinds of GPU, by name."""
