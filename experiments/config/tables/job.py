"""The tables of the job, of the model that determines its numbers, and of the platform."""

from __future__ import annotations

from typing import Any, Literal, get_args

from faultline.experiments.config.tables.table import ScenarioTable, count, key, share
from faultline.simulator.workload.gpu_memory import Recompute
from faultline.simulator.workload.kernels import AttentionKernel, MatmulPrecision
from faultline.strategies.interface.job_shape import OptimizerBackup, Sharding

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
GpuKind = Literal["a100-sxm4", "a800-sxm4", "h100-sxm5", "b200", "gb200", "b300", "gb300"]
"""Those of `preset_library.GPU_KINDS`."""

MOST_STEPS = 10**9
HUNDRED_YEARS_S = 100 * 365.25 * 86_400.0
_MODELLED = {"model.name": get_args(ModelName)[1:]}
_CUSTOM = {"model.name": ["custom", "stated"]}
_LLAMA = "Grattafiori et al. 2024 (Llama 3, arXiv 2407.21783), table 3: 70B"


class JobTable(ScenarioTable):
    """``[job]``: the training job."""

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
        "Training steps to complete. If job.tokens is stated, they follow from it.",
        "choice: a round number; state yours, or job.tokens",
        "steps",
        between=(1, MOST_STEPS),
    )
    tokens: float | None = key(
        None,
        "Tokens to train on: job.steps is this divided by the tokens per step, rounded up. A step "
        "has job.groups * model.micro_batches * model.micro_batch_sequences * "
        "model.sequence_tokens.",
        "choice: unset; job.steps applies",
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
        "The step without failures to which time-to-train ratios and goodput refer.",
        "choice: the same job without failures",
        choices={
            "with-jitter": "all groups wait for the slowest group: its mean under compute_jitter",
            "nominal": "all groups take times.compute_s; T_0 of Lee et al. 2026 (SPARe)",
        },
    )
    parameter_bytes: float = key(
        1.4e11,
        "Size of the parameters of a replica, and of the gradients that groups reduce. If "
        "model.name names a model, it follows from that.",
        "choice: 70e9 parameters of 16 bits; state yours, or a model",
        "bytes",
        above=(0, 1e18),
    )
    time_limit_s: float | None = key(
        HUNDRED_YEARS_S,
        "Simulated time after which the run ends unfinished.",
        "choice: a hundred years, longer than any job",
        "s",
        gt=0,
    )
    give_up_after_restarts: int = count(
        1000,
        "Restarts without a new checkpoint after which the run ends unfinished.",
        "choice: a job without progress must end",
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
        """GPUs of all groups; leftover GPUs do not belong to the job."""
        return self.gpus_of_group * self.groups


class PlatformTable(ScenarioTable):
    """``[platform]``: the cluster that runs the job."""

    file: str = key(
        "hgx-h100",
        "A shipped cluster, or a platform XML relative to the scenario's file.",
        "choice: 256 H100, the GPU of most published runs",
        max_length=4096,
    )
    gpu_hosts: str | None = key(
        None,
        "The hosts that are GPUs, by a shell pattern of their names, of a platform XML that "
        'Faultline did not write: "node-*". Unset: those with the property role = gpu, or whose '
        "name starts with gpu-.",
        "derived: the platform's hosts",
        max_length=200,
    )


def _dimension(default: int, meaning: str, most: int) -> Any:
    return count(default, meaning, _LLAMA, most, only_with=_CUSTOM)


def _overlap(messages: str, work: str) -> Any:
    meaning = f"Share of {messages} that overlaps with {work}."
    return share(0.0, meaning, "assumption: none", only_with=_MODELLED)


def _by_memory(meaning: str) -> Any:
    return count(None, meaning, "derived: memory of the platform's GPUs", 10_000)


class ModelTable(ScenarioTable):
    """``[model]``: a transformer on pp x tp GPUs per group, which gives the job its numbers."""

    name: ModelName = key(
        "stated",
        "The model. job.parameter_bytes, job.gpus and protection.state_bytes follow from it, and "
        "the times of a step from simulating it on the platform.",
        "choice: published studies state their times",
        choices={
            "stated": "none: the numbers of [job] apply; the keys of the layout and the dimensions "
            "describe to schemes how the job is split",
            "gpt3-175b": "Brown et al. 2020, table 2.1",
            "llama2-7b": "Touvron et al. 2023",
            "llama3-8b": "Grattafiori et al. 2024, table 3",
            "llama3-70b": "Grattafiori et al. 2024, table 3",
            "llama3-405b": "Grattafiori et al. 2024, table 3",
            "ntp-480b": "Arfeen et al. 2025 (NTP)",
            "custom": "the dimensions below",
        },
    )
    gpu: GpuKind | None = key(
        None,
        "The GPU of a platform XML that does not describe its own: all its hosts get this GPU's "
        "speed at the dense peak, and its memory. Unset: the GPU that the platform describes.",
        "derived: the platform's GPUs",
        choices={
            "a100-sxm4": "as in hgx-a100",
            "a800-sxm4": "as in hgx-a800",
            "h100-sxm5": "as in hgx-h100",
            "b200": "as in hgx-b200",
            "gb200": "as in gb200-nvl72",
            "b300": "as in b300-32k",
            "gb300": "as in gb300-nvl72",
        },
        only_with=_MODELLED,
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
    micro_batches: int = count(8, "Micro-batches of a group per step.", "choice", 10**6)
    context: int = count(
        1,
        "Context-parallel ranks, which share the tokens of a sequence. They multiply the GPUs of a "
        "group.",
        "choice",
        1000,
        only_with=_MODELLED,
    )
    balanced_context: bool = key(
        True,
        "Whether context-parallel ranks share the unmasked scores evenly, each with a block of "
        "tokens from both halves of a sequence. If not, the rank with the last tokens is slowest.",
        "choice: as Megatron-LM, and PyTorch from 2.6",
        only_with=_MODELLED,
    )
    schedule: Literal["1f1b", "split-backward"] = key(
        "1f1b",
        "Order in which a pipeline stage computes its micro-batches, under every scheme, with and "
        "without failures.",
        "choice: the schedule of most published runs",
        choices={
            "1f1b": "one forward, one backward; all stages step their optimizers together",
            "split-backward": "weight gradients are computed apart from input gradients, and each "
            "stage steps its optimizer alone (Qi et al. 2024, zero-bubble, arXiv 2401.10241; "
            "Gandhi et al. 2024, ReCycle)",
        },
        only_with=_MODELLED,
    )
    kernels: Literal["flat", "a100", "h100", "h100-500w", "gb200"] = key(
        "flat",
        "Measured speed of matrix products, attention and memory-bound kernels.",
        "choice: FLOP alone; state your GPU if its rates are known",
        choices={
            "flat": "matrix products of any size at the GPU's speed, nothing else",
            "a100": "A100 80 GB: cuBLAS by size, FlashAttention-2, memory traffic",
            "h100": "H100 80 GB: XLA's table of matrix products, FlashAttention, memory traffic",
            "h100-500w": "H100 of 500 W with 2.4 TB/s of memory (torchtitan, arXiv 2410.06511)",
            "gb200": "GB200: best sustained products in 16 bits, B200's by size in 8, cuDNN's "
            "attention",
        },
        only_with=_MODELLED,
    )
    compute_efficiency: float = key(
        0.5,
        "Share of the speed of model.kernels that the job's software reaches.",
        "assumption: a typical value for flat",
        "1",
        above=(0, 1.5),
        only_with=_MODELLED,
    )
    matmul_precision: MatmulPrecision = key(
        "bf16",
        "Number format of the products with weights of layers. Attention and logits stay in 16 "
        "bits.",
        "choice: the format of most published runs",
        choices={
            "bf16": "16 bits",
            "fp8": "8 bits: products up to 1.76 times as fast on H100, 2.3 times on GB200, less "
            "the conversion of their inputs; needs kernels of one of these",
        },
        only_with=_MODELLED,
    )
    attention: AttentionKernel = key(
        "flash-2",
        "Attention kernel. Fused kernels keep scores on the chip and skip masked ones.",
        "choice: FlashAttention-2, arXiv 2307.08691",
        choices={
            "unfused": "matrix products and a softmax, with scores in memory",
            "flash-2": "FlashAttention-2: 99 to 189 TFLOP/s on A100, by length, up to 335 on H100",
            "flash-3": "FlashAttention-3 (arXiv 2407.08608) on H100, forward up to 616 TFLOP/s, "
            "cuDNN's kernel on GB200; needs kernels of one of these",
        },
        only_with=_MODELLED,
    )
    tensor_overlap: float = _overlap(
        "tensor- and context-parallel messages, but all-to-alls of experts,", "compute"
    )
    pipeline_overlap: float = _overlap("messages between stages", "compute")
    gradient_overlap: float = _overlap(
        "messages between groups", "the last micro-batch; with sharded weights, with each layer"
    )
    recompute: Recompute = key(
        "selective",
        "Activations that the backward pass recomputes.",
        "choice: Korthikanti et al. 2022, arXiv 2205.05198",
        choices={
            "none": "none",
            "selective": "attention scores",
            "operator": "all but the output of attention and every second product, as torchtitan",
            "early-stop": "all layers up to the input of their last product: PyTorch's checkpoints "
            "since 2.1 stop there",
            "full": "all layers",
        },
        only_with=_MODELLED,
    )
    sharding: Sharding = key(
        "optimizer",
        "State that is sharded over the replicas.",
        "choice: the optimizer's, as in most runs with tensor parallelism",
        choices={
            "none": "none: each replica has all of it",
            "optimizer": "the optimizer's (ZeRO stage 1)",
            "full": "weights, gradients and the optimizer's (FSDP, ZeRO stage 3): each "
            "micro-batch gathers the weights of each layer, and reduces its gradients to shards",
            "hybrid": "as full, among the replicas of a scale-up domain; each domain has all of it",
        },
        only_with=_MODELLED,
    )
    reshard_after_forward: bool = key(
        True,
        "Whether gathered weights are freed after a layer's forward pass and gathered again for "
        "its backward pass.",
        "choice: PyTorch's default for FSDP",
        only_with={"model.sharding": ["full", "hybrid"]},
    )
    backward_prefetch: bool = key(
        True,
        "Whether a layer's weights for the backward pass are gathered while the gradients of the "
        "layer before are computed.",
        "choice: PyTorch's default for FSDP, BACKWARD_PRE",
        only_with={"model.sharding": ["full", "hybrid"]},
    )
    optimizer_backup: OptimizerBackup = key(
        "neighbour",
        "Copy of a group's shard of the state, if that is sharded.",
        "choice: a copy in memory at each step, as in ByteRobust (arXiv 2509.16293)",
        choices={
            "neighbour": "two neighbouring groups keep each other's shard in host memory; copying "
            "is assumed to be hidden",
            "none": "none: a lost group takes its shard with it, and the job restarts",
        },
        only_with=_MODELLED,
    )
    stages_that_fit: int | None = _by_memory(
        "Number of stages whose state and activations fit into one GPU. Unset: by the GPU's "
        "memory if model.name names a model, else any number."
    )
    least_stages: int | None = _by_memory(
        "Stages of the shortest pipeline that holds the model. Unset: likewise, else 1."
    )
    least_tensor: int | None = _by_memory(
        "Lowest tensor-parallel degree at which the model fits. Unset: likewise, else 1."
    )
    backward_share: float = share(
        2 / 3,
        "Share of a step's compute that is the backward pass.",
        "choice: twice the FLOP of the forward pass",
    )
    hidden: int = _dimension(8_192, "Width of the residual stream.", 10**7)
    ffn_hidden: int = _dimension(28_672, "Inner width of the feed-forward network.", 10**8)
    heads: int = _dimension(64, "Attention heads.", 10**5)
    key_value_heads: int = _dimension(8, "Heads of keys and values.", 10**5)
    head_size: int | None = key(
        None,
        "Width of an attention head. Unset: the heads share the hidden width.",
        "derived: model.hidden / model.heads",
        "1",
        between=(1, 10**5),
        only_with={"model.name": ["custom", "stated"]},
    )
    layers: int = _dimension(80, "Transformer layers.", 10**5)
    sequence_tokens: int = _dimension(8_192, "Tokens of a training sequence.", 10**8)
    vocabulary: int = _dimension(128_256, "Rows of the embedding table.", 10**8)
    experts: int = _dimension(
        1,
        "Feed-forward networks of a layer (mixture of experts), spread over the tensor-parallel "
        "ranks of a stage; 1: a dense model.",
        10**5,
    )
    active_experts: int = _dimension(1, "Experts that each token passes.", 10**5)
    ffn_matrices: int = key(
        3,
        "Matrices of the feed-forward network: 3 if it is gated.",
        _LLAMA,
        "1",
        between=(2, 3),
        only_with=_CUSTOM,
    )
