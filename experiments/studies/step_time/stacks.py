"""Software on a kind of GPU: what its authors say of it, and what has to be assumed.

The only number of a stack that is fitted is the efficiency of its computations: on one published
row, while the study runs. The rest are statements, one a stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from faultline.simulator.workload.kernels import A100, GB200, H100, Kernels
from faultline.simulator.workload.memory import Recompute


@dataclass(frozen=True, slots=True)
class Stack:
    """A training software on a kind of GPU.

    Attributes
    ----------
    title : str
        What it is called on the screen.
    cluster : str
        Preset of its servers: see `windows`.
    kernels : Kernels
        What its GPU reaches.
    fitted_on : str
        Label of the row from which its efficiency follows.
    source : str
        Where the rest comes from.
    recompute, sequence_parallel, fused_attention, shard_optimizer
        As in `ParallelJob`; a row may state another `recompute`.
    tensor_overlap, pipeline_overlap, gradient_overlap : float
        As in `ParallelJob`.
    overlaps_gradients_of_pipelines : bool
        Whether `gradient_overlap` holds for pipelines of several stages too.
    slow_hosts, slowdown : float
        Share of its cluster's servers that compute more slowly, and by what part.
    """

    title: str
    cluster: str
    kernels: Kernels
    fitted_on: str
    source: str
    recompute: Recompute = "selective"
    sequence_parallel: bool = True
    fused_attention: bool = True
    shard_optimizer: bool = True
    tensor_overlap: float = 0.0
    pipeline_overlap: float = 0.0
    gradient_overlap: float = 0.0
    overlaps_gradients_of_pipelines: bool = True
    slow_hosts: float = 0.0
    slowdown: float = 0.0


_HIDDEN = 0.8
"""Of messages that software is said to overlap; an assumption, the same for all that do."""

_MEGATRON_CORE = Stack(
    "Megatron-Core, H100",
    "hgx-h100",
    H100,
    "A5 177B",
    "overlapped tensor, pipeline and data parallelism as its README says; share assumed",
    tensor_overlap=_HIDDEN,
    pipeline_overlap=_HIDDEN,
    gradient_overlap=_HIDDEN,
)

_LATER_H100 = replace(H100, attention_flop_per_s=740e12, attention_backward_flop_per_s=1.6 * 350e12)
"""With the attention kernels of late 2024: FlashAttention-3 (Shah et al. 2024, arXiv 2407.08608),
forward up to 740 TFLOP/s, backward 1.5 to 1.75 times its predecessor."""
_LATER_GB200 = replace(
    GB200,
    attention_flop_per_s=1822 / 795 * _LATER_H100.attention_flop_per_s,
    attention_backward_flop_per_s=1822 / 795 * _LATER_H100.attention_backward_flop_per_s,
)

_TORCHTITAN = Stack(
    "torchtitan, H100 of 500 W",
    "hgx-h100",
    replace(H100, memory_bytes_per_s=0.85 * 2.4e12),
    "A8 torchtitan 8B 8",
    "overlap of FSDP and of sends assumed",
    pipeline_overlap=_HIDDEN,
    gradient_overlap=_HIDDEN,
)

STACKS: Mapping[str, Stack] = {
    "megatron-2021": Stack(
        "Megatron-LM 2021, A100",
        "hgx-a100",
        A100,
        "A1 7.5B",
        "SC21 paper: attention not fused, everything recomputed, gradients overlapped in models "
        "without a pipeline only; that 70 % of them hide is an assumption",
        recompute="full",
        sequence_parallel=False,
        fused_attention=False,
        shard_optimizer=False,
        gradient_overlap=0.7,
        overlaps_gradients_of_pipelines=False,
    ),
    "megatron-2022": Stack(
        "Megatron-LM 2022, A100",
        "hgx-a100",
        A100,
        "A2 175B selective",
        "Korthikanti et al. 2022: attention not fused; overlaps as in 2021",
        fused_attention=False,
        shard_optimizer=False,
    ),
    "llama-3": Stack(
        "Llama 3, H100",
        "hgx-h100",
        H100,
        "A3 8192 8K",
        "Llama 3 paper: FSDP without resharding, keys and values gathered; overlap of FSDP and of "
        "sends assumed",
        recompute="none",
        pipeline_overlap=_HIDDEN,
        gradient_overlap=_HIDDEN,
    ),
    "megatron-2023": Stack(
        "Megatron-LM 2023, A100",
        "hgx-a100",
        A100,
        "A4 256 Megatron-LM",
        "MegaScale paper, its baseline: nothing overlapped, 0.5 % of the hosts 10 % slow; fused "
        "attention and a sharded optimizer assumed",
        slow_hosts=0.005,
        slowdown=0.1,
    ),
    "megascale": Stack(
        "MegaScale, A100",
        "hgx-a100",
        A100,
        "A4 256 MegaScale",
        "MegaScale paper: overlapped tensor, pipeline and data parallelism, 0.5 % of the hosts "
        "10 % slow; share of the overlap assumed, and that slow hosts were not sorted out",
        tensor_overlap=_HIDDEN,
        pipeline_overlap=_HIDDEN,
        gradient_overlap=_HIDDEN,
        slow_hosts=0.005,
        slowdown=0.1,
    ),
    "megatron-core": _MEGATRON_CORE,
    "mlperf": replace(
        _MEGATRON_CORE,
        title="NVIDIA FP8, H100",
        fitted_on="A6 512",
        source="as Megatron-Core, in 8 bits",
    ),
    "nemo": replace(
        _MEGATRON_CORE,
        title="NeMo 24.11, H100",
        kernels=_LATER_H100,
        fitted_on="A7 175B 128",
        source="as Megatron-Core",
    ),
    "megatron-bridge": replace(
        _MEGATRON_CORE,
        title="Megatron-Bridge FP8, GB200",
        cluster="gb200-nvl72",
        kernels=_LATER_GB200,
        fitted_on="A8 GB200 405B",
        source="as Megatron-Core, in 8 bits",
    ),
    "megatron-bridge-h100": replace(
        _MEGATRON_CORE,
        title="Megatron-Bridge FP8, H100",
        kernels=_LATER_H100,
        fitted_on="A6 512",
        source="as Megatron-Core, in 8 bits, at the efficiency of MLPerf's",
    ),
    "torchtitan": _TORCHTITAN,
    "torchtitan-fp8": replace(
        _TORCHTITAN,
        title="torchtitan FP8, H100 of 500 W",
        fitted_on="A8 torchtitan 405B 1F1B",
        source="compiled, in 8 bits, with pipelines: other software than its FSDP in 16 bits",
    ),
}
"""All of them, by name."""
