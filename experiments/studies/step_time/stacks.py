"""Software on a kind of GPU: what its authors say of it, and what has to be assumed.

The only number of a stack that is fitted is the efficiency of its computations: on one published
row, while the study runs. The rest are statements, one a stack (``data/stacks.csv``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from faultline.experiments.studies.data import read_rows
from faultline.simulator.workload.kernels import A100, GB200, H100, Kernels
from faultline.simulator.workload.memory import Recompute


@dataclass(frozen=True, slots=True)
class Stack:
    """A training software on a kind of GPU."""

    title: str  # What it is called on the screen.
    cluster: str  # Preset of its servers: see `windows`.
    kernels: Kernels  # What its GPU reaches.
    fitted_on: str  # Label of the row from which its efficiency follows.
    source: str  # Where the rest comes from.
    # As in `ParallelJob`; a row may state another `recompute`.
    recompute: Recompute = "selective"
    sequence_parallel: bool = True
    fused_attention: bool = True
    shard_optimizer: bool = True
    # As in `ParallelJob`.
    tensor_overlap: float = 0.0
    pipeline_overlap: float = 0.0
    gradient_overlap: float = 0.0
    # Whether `gradient_overlap` holds for pipelines of several stages too.
    overlaps_gradients_of_pipelines: bool = True
    # Share of its cluster's servers that compute more slowly, and by what part.
    slow_hosts: float = 0.0
    slowdown: float = 0.0


_LATER_H100 = replace(H100, attention_flop_per_s=740e12, attention_backward_flop_per_s=1.6 * 350e12)
"""With the attention kernels of late 2024: FlashAttention-3 (Shah et al. 2024, arXiv 2407.08608),
forward up to 740 TFLOP/s, backward 1.5 to 1.75 times its predecessor."""
_LATER_GB200 = replace(
    GB200,
    attention_flop_per_s=1822 / 795 * _LATER_H100.attention_flop_per_s,
    attention_backward_flop_per_s=1822 / 795 * _LATER_H100.attention_backward_flop_per_s,
)
_KERNELS = {
    "A100": A100,
    "H100": H100,
    "H100 of 500 W": replace(H100, memory_bytes_per_s=0.85 * 2.4e12),
    "H100, late 2024": _LATER_H100,
    "GB200, late 2024": _LATER_GB200,
}

STACKS: Mapping[str, Stack] = {
    row["name"]: Stack(
        kernels=_KERNELS[row["kernels"]],
        **{key: value for key, value in row.items() if key not in ("name", "kernels")},
    )
    for row in read_rows("step_time", "stacks")
}
"""All of them, by name."""
