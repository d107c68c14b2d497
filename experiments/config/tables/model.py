"""The model, where compute and sizes of the job follow from it."""

from __future__ import annotations

from typing import Literal

from faultline.experiments.config.field_documentation import about
from faultline.experiments.config.tables.table import Table
from pydantic import Field

KNOWN = (
    "gpt3-175b",
    "llama2-7b",
    "llama3-8b",
    "llama3-70b",
    "llama3-405b",
    "ntp-480b",
)
_MODELLED = {"model.name": (*KNOWN, "custom")}
_CUSTOM = {"model.name": "custom"}
_LLAMA = "Grattafiori et al. 2024 (Llama 3, arXiv 2407.21783), table 3: 70B"


class ModelTable(Table):
    """``[model]``: a transformer on pp x tp GPUs a group, which gives the job its numbers."""

    name: Literal[
        "stated",
        "gpt3-175b",
        "llama2-7b",
        "llama3-8b",
        "llama3-70b",
        "llama3-405b",
        "ntp-480b",
        "custom",
    ] = Field(
        "stated",
        description="Which model; job.compute_s, job.parameter_bytes, job.gpus, job.gpus_per_group "
        "and protection.state_bytes follow from it and the platform's GPUs.",
        json_schema_extra=about(
            "choice: studies state their times",
            choices={
                "stated": "none: the numbers of [job] hold as they are",
                "gpt3-175b": "Brown et al. 2020, table 2.1",
                "llama2-7b": "Touvron et al. 2023",
                "llama3-8b": "Grattafiori et al. 2024, table 3",
                "llama3-70b": "Grattafiori et al. 2024, table 3",
                "llama3-405b": "Grattafiori et al. 2024, table 3",
                "ntp-480b": "Arfeen et al. 2025 (NTP)",
                "custom": "the dimensions below",
            },
        ),
    )
    pipeline: int = Field(
        1,
        ge=1,
        le=10_000,
        description="Pipeline stages pp of a group.",
        json_schema_extra=about("choice", unit="1", only_with=_MODELLED),
    )
    tensor: int = Field(
        8,
        ge=1,
        le=10_000,
        description="Tensor-parallel ranks tp of a stage: at most the GPUs of a scale-up domain.",
        json_schema_extra=about("choice: an HGX server", unit="1", only_with=_MODELLED),
    )
    virtual_stages: int = Field(
        1,
        ge=1,
        le=1000,
        description="Interleaved parts of the model on each stage.",
        json_schema_extra=about("choice: a plain pipeline", unit="1", only_with=_MODELLED),
    )
    micro_batch_sequences: int = Field(
        1,
        ge=1,
        le=10**6,
        description="Sequences of a micro-batch.",
        json_schema_extra=about("choice", unit="1", only_with=_MODELLED),
    )
    micro_batches: int = Field(
        8,
        ge=1,
        le=10**6,
        description="Micro-batches that a group takes a step.",
        json_schema_extra=about("choice", unit="1", only_with=_MODELLED),
    )
    compute_efficiency: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Share of a GPU's peak that matrix products reach.",
        json_schema_extra=about("assumption of a usual size", unit="1", only_with=_MODELLED),
    )
    tensor_overlap: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the tensor-parallel collectives that hides behind compute.",
        json_schema_extra=about("assumption: none", unit="1", only_with=_MODELLED),
    )
    recompute: Literal["none", "selective", "full"] = Field(
        "selective",
        description="What the backward pass computes again, for the memory of a GPU.",
        json_schema_extra=about(
            "choice: Korthikanti et al. 2022, arXiv 2205.05198",
            choices={
                "none": "nothing",
                "selective": "the scores of attention",
                "full": "every layer",
            },
            only_with=_MODELLED,
        ),
    )
    shard_optimizer: bool = Field(
        True,
        description="Whether groups share the optimizer's state among them (ZeRO stage 1), for the "
        "memory of a GPU.",
        json_schema_extra=about("choice", only_with=_MODELLED),
    )
    hidden: int = Field(
        8_192,
        ge=1,
        le=10**7,
        description="Width of the residual stream.",
        json_schema_extra=about(_LLAMA, unit="1", only_with=_CUSTOM),
    )
    ffn_hidden: int = Field(
        28_672,
        ge=1,
        le=10**8,
        description="Inner width of the feed-forward network.",
        json_schema_extra=about(_LLAMA, unit="1", only_with=_CUSTOM),
    )
    heads: int = Field(
        64,
        ge=1,
        le=10**5,
        description="Attention heads.",
        json_schema_extra=about(_LLAMA, unit="1", only_with=_CUSTOM),
    )
    key_value_heads: int = Field(
        8,
        ge=1,
        le=10**5,
        description="Heads of keys and values.",
        json_schema_extra=about(_LLAMA, unit="1", only_with=_CUSTOM),
    )
    layers: int = Field(
        80,
        ge=1,
        le=10**5,
        description="Transformer layers.",
        json_schema_extra=about(_LLAMA, unit="1", only_with=_CUSTOM),
    )
    sequence_tokens: int = Field(
        8_192,
        ge=1,
        le=10**8,
        description="Tokens of a training sequence.",
        json_schema_extra=about(_LLAMA, unit="1", only_with=_CUSTOM),
    )
    vocabulary: int = Field(
        128_256,
        ge=1,
        le=10**8,
        description="Rows of the embedding table.",
        json_schema_extra=about(_LLAMA, unit="1", only_with=_CUSTOM),
    )
    ffn_matrices: int = Field(
        3,
        ge=2,
        le=3,
        description="Matrices of the feed-forward network: 3 where it is gated.",
        json_schema_extra=about(_LLAMA, unit="1", only_with=_CUSTOM),
    )
