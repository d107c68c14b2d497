"""What is trained, and where: the job, the model that gives it its numbers, the platform."""

from __future__ import annotations

from typing import Literal, get_args

from faultline.experiments.config.tables.table import Table, count, key, share
from faultline.simulator.workload.kernels import AttentionKernel, MatmulPrecision
from faultline.strategies.job_shape import OptimizerBackup

ModelName = Literal[
    "stated",
    "gpt3-175b",
    "llama2-7b",
    "llama3-8b",
    "llama3-70b",
    "llama3-405b",
    "ntp-480b",
    "custom",
]
MOST_STEPS = 10**9
LEAST_COMPUTE_FACTOR = 0.1
"""Of times.compute_s, however it is drawn: as in the simulator of SPARe (arXiv 2603.00357)."""
HUNDRED_YEARS_S = 100 * 365.25 * 86_400.0
_MODELLED = {"model.name": get_args(ModelName)[1:]}
_CUSTOM = {"model.name": ["custom", "stated"]}
_LLAMA = "Grattafiori et al. 2024 (Llama 3, arXiv 2407.21783), table 3: 70B"


class JobTable(Table):
    """``[job]``: what is trained."""

    groups: int = count(
        8,
        "Data-parallel groups N; each holds one replica.",
        "choice: a small job; state yours",
        100_000,
    )
    gpus: int | None = count(
        None,
        "GPUs of the whole job; each group has gpus / groups, rounded down. Unset: all GPUs of the "
        "platform.",
        "derived: all GPUs of the platform",
        10**9,
    )
    steps: int = key(
        100_000,
        "Training steps to complete; follows from job.tokens where that is stated.",
        "choice: a round number; state yours, or job.tokens",
        "steps",
        between=(1, MOST_STEPS),
    )
    tokens: float | None = key(
        None,
        "Tokens to train on: job.steps is this over the tokens of a step, rounded up. A step has "
        "job.groups * model.micro_batches * model.micro_batch_sequences * model.sequence_tokens.",
        "choice: unset; job.steps counts",
        "1",
        above=(0, 1e18),
    )
    compute_jitter: float = key(
        0.0,
        "Standard deviation of the factor N(1, jitter^2), at least 0.1, on times.compute_s.",
        "choice: none, all groups compute equally fast",
        "1",
        between=(0, 10),
    )
    undisturbed_step: Literal["with-jitter", "nominal"] = key(
        "with-jitter",
        "The step over which time-to-train ratios and goodput are counted.",
        "choice: what the same job takes without failures",
        choices={
            "with-jitter": "all groups wait for the slowest of them: its mean under compute_jitter",
            "nominal": "all groups take times.compute_s; T_0 of Lee et al. 2026 (SPARe)",
        },
    )
    parameter_bytes: float = key(
        1.4e11,
        "Size of a model replica's parameters, and of the gradients that are reduced; "
        "follows from model.name where that names a model.",
        "choice: 70e9 parameters of 16 bits; state yours, or a model",
        "bytes",
        above=(0, 1e18),
    )
    time_limit_s: float | None = key(
        HUNDRED_YEARS_S,
        "Give up after this much simulated time.",
        "choice: a hundred years, which no real job takes",
        "s",
        gt=0,
    )
    give_up_after_restarts: int = count(
        1000,
        "Give up after this many restarts without a new checkpoint.",
        "choice: a job that makes no progress has to end",
        10**9,
    )

    @property
    def gpus_of_group(self) -> int:
        """GPUs of one group, at least 1.

        Raises ValueError if the GPUs of the job are neither stated nor yet filled in
        (`Scenario.completed`).
        """
        if self.gpus is None:
            raise ValueError(
                "job.gpus is open; read the scenario by faultline.experiments.config.scenario_file"
            )
        return max(1, self.gpus // self.groups)

    @property
    def all_gpus(self) -> int:
        """GPUs of all groups; those that are left over are none of the job's."""
        return self.gpus_of_group * self.groups


class PlatformTable(Table):
    """``[platform]``: where the job runs."""

    file: str = key(
        "hgx-h100",
        "A shipped cluster, or a platform XML relative to the scenario's file.",
        "choice: 256 GPUs of the kind that most published runs had",
        max_length=4096,
    )


class ModelTable(Table):
    """``[model]``: a transformer on pp x tp GPUs a group, which gives the job its numbers."""

    name: ModelName = key(
        "stated",
        "Which model; job.parameter_bytes, job.gpus and "
        "protection.state_bytes follow from it, and the times of a step from playing it on the "
        "platform.",
        "choice: studies state their times",
        choices={
            "stated": "none: the numbers of [job] hold as they are; the keys of the layout and the "
            "dimensions tell schemes how it is cut",
            "gpt3-175b": "Brown et al. 2020, table 2.1",
            "llama2-7b": "Touvron et al. 2023",
            "llama3-8b": "Grattafiori et al. 2024, table 3",
            "llama3-70b": "Grattafiori et al. 2024, table 3",
            "llama3-405b": "Grattafiori et al. 2024, table 3",
            "ntp-480b": "Arfeen et al. 2025 (NTP)",
            "custom": "the dimensions below",
        },
    )
    pipeline: int = count(1, "Pipeline stages pp of a group.", "choice", 10_000)
    tensor: int = count(
        8,
        "Tensor-parallel ranks tp of a stage: at most the GPUs of a scale-up domain.",
        "choice: an HGX server",
        10_000,
    )
    virtual_stages: int = count(
        1,
        "Interleaved parts of the model on each stage.",
        "choice: a plain pipeline",
        1000,
    )
    micro_batch_sequences: int = count(1, "Sequences of a micro-batch.", "choice", 10**6)
    micro_batches: int = count(8, "Micro-batches that a group takes a step.", "choice", 10**6)
    context: int = count(
        1,
        "Ranks that share the tokens of a sequence; a group has so many times the GPUs.",
        "choice",
        1000,
        only_with=_MODELLED,
    )
    schedule: Literal["1f1b", "split-backward"] = key(
        "1f1b",
        "In which order a stage of a pipeline computes its micro-batches, under every scheme and "
        "before as after failures.",
        "choice: what most published runs had",
        choices={
            "1f1b": "one forward, one backward; all stages step their optimizers together",
            "split-backward": "weight gradients apart from those of inputs, and each stage steps "
            "its optimizer by itself (Qi et al. 2024, zero-bubble, arXiv 2401.10241; Gandhi et al. "
            "2024, ReCycle)",
        },
        only_with=_MODELLED,
    )
    kernels: Literal["flat", "a100", "h100", "h100-500w", "gb200"] = key(
        "flat",
        "What the GPUs reach in matrix products, attention and memory-bound kernels.",
        "choice: counts FLOP only; state your GPU where its rates are known",
        choices={
            "flat": "matrix products at the GPU's speed whatever their size, nothing else",
            "a100": "A100 80 GB: cuBLAS by size, FlashAttention-2, memory traffic",
            "h100": "H100 80 GB: XLA's table of matrix products, FlashAttention, memory traffic",
            "h100-500w": "H100 of 500 W with 2.4 TB/s of memory (torchtitan, arXiv 2410.06511)",
            "gb200": "GB200: best sustained products, what is not published scaled from H100",
        },
        only_with=_MODELLED,
    )
    compute_efficiency: float = key(
        0.5,
        "Share of what model.kernels say that the job's software reaches.",
        "assumption of a usual size for flat",
        "1",
        above=(0, 1.5),
        only_with=_MODELLED,
    )
    sequence_parallel: bool = key(
        True,
        "Whether what lies outside of tensor parallelism is spread over its ranks, too.",
        "choice: Korthikanti et al. 2022, arXiv 2205.05198",
        only_with=_MODELLED,
    )
    matmul_precision: MatmulPrecision = key(
        "bf16",
        "Numbers that products with weights multiply; attention stays in 16 bits.",
        "choice: what most published runs used",
        choices={
            "bf16": "16 bits",
            "fp8": "8 bits: 1.76 times the speed on H100, 1.98 on GB200 (best sustained rates, ML "
            "engineering handbook); needs kernels of one of these",
        },
        only_with=_MODELLED,
    )
    attention: AttentionKernel = key(
        "flash-2",
        "Kernel of attention. Fused ones keep scores on the chip and leave masked ones out.",
        "choice: FlashAttention-2, arXiv 2307.08691",
        choices={
            "unfused": "matrix products and a softmax whose scores go through memory",
            "flash-2": "FlashAttention-2: 230 TFLOP/s on A100, 350 on H100",
            "flash-3": "FlashAttention-3 (arXiv 2407.08608): forward 740 TFLOP/s on H100, backward "
            "560; scaled to GB200; needs kernels of one of these",
        },
        only_with=_MODELLED,
    )
    tensor_overlap: float = share(
        0.0,
        "Share of tensor- and context-parallel messages that hides behind compute.",
        "assumption: none",
        only_with=_MODELLED,
    )
    pipeline_overlap: float = share(
        0.0,
        "Share of a message between stages that hides behind compute.",
        "assumption: none",
        only_with=_MODELLED,
    )
    gradient_overlap: float = share(
        0.0,
        "Share of gradients and weights between groups that hides behind the last micro-batch.",
        "assumption: none",
        only_with=_MODELLED,
    )
    recompute: Literal["none", "selective", "full"] = key(
        "selective",
        "What the backward pass computes again.",
        "choice: Korthikanti et al. 2022, arXiv 2205.05198",
        choices={
            "none": "nothing",
            "selective": "the scores of attention",
            "full": "every layer",
        },
        only_with=_MODELLED,
    )
    shard_optimizer: bool = key(
        True,
        "Whether groups share the optimizer's state among them (ZeRO stage 1).",
        "choice",
        only_with=_MODELLED,
    )
    optimizer_backup: OptimizerBackup = key(
        "neighbour",
        "Who else has a group's share of the optimizer's state, where they share it.",
        "choice: state in memory at each step, as at ByteRobust (arXiv 2509.16293)",
        choices={
            "neighbour": "two groups next to each other have each other's, in host memory; copies "
            "are taken to be hidden",
            "none": "nobody: who is lost takes its share along, and the job restarts",
        },
        only_with=_MODELLED,
    )
    stages_that_fit: int | None = count(
        None,
        "Stages whose state and activations fit into a GPU together; unset: by the GPU's memory "
        "where model.name names a model, else any number.",
        "derived: memory of the platform's GPUs",
        10_000,
    )
    least_stages: int | None = count(
        None,
        "Stages of the shortest pipeline that the model fits into; unset: likewise, else 1.",
        "derived: memory of the platform's GPUs",
        10_000,
    )
    least_tensor: int | None = count(
        None,
        "Lowest tensor-parallel degree at which the model fits; unset: likewise, else 1.",
        "derived: memory of the platform's GPUs",
        10_000,
    )
    backward_share: float = share(
        2 / 3,
        "Share of a step's compute that is the backward pass.",
        "choice: twice the FLOP of the forward pass, and nothing but FLOP",
    )
    hidden: int = count(8_192, "Width of the residual stream.", _LLAMA, 10**7, only_with=_CUSTOM)
    ffn_hidden: int = count(
        28_672, "Inner width of the feed-forward network.", _LLAMA, 10**8, only_with=_CUSTOM
    )
    heads: int = count(64, "Attention heads.", _LLAMA, 10**5, only_with=_CUSTOM)
    key_value_heads: int = count(8, "Heads of keys and values.", _LLAMA, 10**5, only_with=_CUSTOM)
    layers: int = count(80, "Transformer layers.", _LLAMA, 10**5, only_with=_CUSTOM)
    sequence_tokens: int = count(
        8_192, "Tokens of a training sequence.", _LLAMA, 10**8, only_with=_CUSTOM
    )
    vocabulary: int = count(
        128_256, "Rows of the embedding table.", _LLAMA, 10**8, only_with=_CUSTOM
    )
    ffn_matrices: int = key(
        3,
        "Matrices of the feed-forward network: 3 where it is gated.",
        _LLAMA,
        "1",
        between=(2, 3),
        only_with=_CUSTOM,
    )
