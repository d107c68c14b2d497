"""Published training steps, ``data/published.csv``, and the software that ran them.

The only fitted number of a software is the efficiency of its computations, on one published row,
at the start of the study. All others are stated, one line per stack (``data/stacks.csv``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product, starmap
from typing import Any, Literal, NamedTuple, cast

from faultline.experiments.studies.data import read_rows
from faultline.platforms.preset_library import load_preset
from faultline.simulator.workload.gpu_memory import Recompute, gpu_memory
from faultline.simulator.workload.kernels import KNOWN_KERNELS, AttentionKernel, Kernels
from faultline.simulator.workload.known_models import KNOWN_MODELS
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.parallel_job import ParallelJob
from faultline.simulator.workload.transformer import Transformer, training_flop_per_token
from faultline.strategies.interface.job_shape import Sharding


@dataclass(frozen=True, slots=True)
class Stack:
    """A training software on a kind of GPU."""

    title: str  # Its name on the screen.
    cluster: str  # Preset of its servers: see `windows`.
    kernels: Kernels  # Speeds of its GPU.
    fitted_on: str  # Label of the row from which its efficiency follows.
    source: str  # Source of the other values.
    # As in `ParallelJob`; a row may state another `recompute`.
    recompute: Recompute = "selective"
    sequence_parallel: bool = True
    attention: AttentionKernel = "flash-2"
    sharding: Sharding = "optimizer"
    gradient_bytes: float = 4.0
    reshard_after_forward: bool = True
    backward_prefetch: bool = True
    balanced_context: bool = True
    # As in `ParallelJob`.
    tensor_overlap: float = 0.0
    pipeline_overlap: float = 0.0
    gradient_overlap: float = 0.0
    # Whether `gradient_overlap` also holds for pipelines of several stages.
    overlaps_gradients_of_pipelines: bool = True
    # Share of slow servers in its cluster, and their relative slowdown.
    slow_hosts: float = 0.0
    slowdown: float = 0.0


STACKS: Mapping[str, Stack] = {
    row["name"]: Stack(
        kernels=KNOWN_KERNELS[row["kernels"]],
        **{key: value for key, value in row.items() if key not in ("name", "kernels")},
    )
    for row in read_rows("step_time", "stacks")
}
"""All stacks, by name."""


class PublishedChoice(NamedTuple):
    """Decisions about a job that its source may omit."""

    virtual_stages: int  # Parts of a stage.
    micro_batch: int  # Sequences of a micro-batch.
    attention: AttentionKernel  # Kernel of attention.


Unit = Literal["s", "TFLOP/s", "%", "tokens/s"]


@dataclass(frozen=True, slots=True)
class Case:
    """A row of a published table."""

    label: str  # Its section, and its own name within that.
    stack: str  # Key of `STACKS`.
    model: Transformer
    degrees: Layout  # Replicas are times ranks of context parallelism; parts of a stage a choice.
    batch: int  # Sequences of a step.
    # Published units and values; the unit of the source comes first.
    outputs: tuple[tuple[Unit, float | None], ...]
    context: int = 1  # Number of ranks that share a sequence.
    recompute: Recompute | None = None  # That of its software if None.
    eight_bit: bool = False  # Whether matrix products are in 8 bits.
    # Legal parts of a stage and sequences of a micro-batch; the first legal one is the default.
    virtual_choices: tuple[int, ...] = (1,)
    micro_batch_choices: tuple[int, ...] = (1,)
    # Possible kernels of attention; empty means that of its software.
    attention_choices: tuple[AttentionKernel, ...] = ()

    @property
    def section(self) -> str:
        """Table of the row."""
        return self.label.partition(" ")[0]

    @property
    def software(self) -> Stack:
        """Its software."""
        return STACKS[self.stack]

    @property
    def is_fitted(self) -> bool:
        """Whether it is the row for the fit of its stack's efficiency."""
        return self.label == self.software.fitted_on

    @property
    def layout(self) -> Layout:
        """Degrees of parallelism, with the default parts of a stage."""
        return replace(self.degrees, virtual_stages=self.choices[0].virtual_stages)

    @property
    def gpus(self) -> int:
        """GPUs of the job."""
        return self.degrees.gpus

    @property
    def choices(self) -> tuple[PublishedChoice, ...]:
        """All legal choices for unstated values, the default first.

        Interleaving needs micro-batches in multiples of the stages. A micro-batch divides the batch
        of a replica, and its activations fit into the memory of the GPU.
        """
        kernels = self.attention_choices or (self.software.attention,)
        every = tuple(
            starmap(
                PublishedChoice, product(self.virtual_choices, self.micro_batch_choices, kernels)
            )
        )
        return tuple(filter(self._is_legal, every)) or every[:1]

    def _is_legal(self, choice: PublishedChoice) -> bool:
        virtual, micro_batch, kernel = choice
        micro_batches, rest = divmod(self.batch * self.context, self.degrees.data * micro_batch)
        if rest or (virtual > 1 and micro_batches % self.degrees.pipeline):
            return False
        if len(self.micro_batch_choices) == 1:
            return True
        memory = gpu_memory(
            self.model,
            replace(self.degrees, virtual_stages=virtual),
            micro_batch,
            micro_batches,
            recompute=self.recompute or self.software.recompute,
            fused_attention=kernel != "unfused",
            sharding=self.software.sharding,
            keeps_gathered=not self.software.reshard_after_forward,
        )
        return memory.total <= load_preset("hgx-h100").gpu.memory_bytes

    def job(self, efficiency: float, choice: PublishedChoice | None = None) -> ParallelJob:
        """Return the job, at an efficiency of its computations."""
        stack, (virtual, micro_batch, attention) = self.software, choice or self.choices[0]
        layout = replace(self.degrees, virtual_stages=virtual)
        overlaps = layout.pipeline == 1 or stack.overlaps_gradients_of_pipelines
        return ParallelJob(
            self.model,
            layout,
            micro_batch,
            self.batch * self.context // (layout.data * micro_batch),
            stack.kernels,
            compute_efficiency=efficiency,
            recompute=self.recompute or stack.recompute,
            sequence_parallel=stack.sequence_parallel,
            attention=attention,
            sharding=stack.sharding,
            gradient_bytes=stack.gradient_bytes,
            reshard_after_forward=stack.reshard_after_forward,
            backward_prefetch=stack.backward_prefetch,
            domain_replicas=load_preset(stack.cluster).scale_up.gpus_per_domain // layout.tensor,
            context=self.context,
            balanced_context=stack.balanced_context,
            tensor_overlap=stack.tensor_overlap,
            pipeline_overlap=stack.pipeline_overlap,
            gradient_overlap=stack.gradient_overlap if overlaps else 0.0,
            matmul_precision="fp8" if self.eight_bit else "bf16",
        )

    def model_flop(self) -> float:
        """Return the FLOP of a step as its source counts them."""
        count = _COUNTS.get(self.section, _without_recompute)
        return self.batch * self.model.sequence_tokens * count(self.model)

    def in_unit(self, step_s: float, unit: Unit) -> float:
        """Convert between a step time and a unit of a source; the conversion is its own inverse."""
        if unit == "s":
            return step_s
        amount = {
            "TFLOP/s": self.model_flop() / 1e12,
            "%": 100.0 * self.model_flop() / self.software.kernels.speed_flop_per_s,
            "tokens/s": float(self.batch * self.model.sequence_tokens),
        }[unit]
        return amount / self.gpus / step_s


def _without_recompute(model: Transformer, passes: int = 3) -> float:
    """Return FLOP per token of Korthikanti et al. 2022: with masked scores, no recomputation."""
    layers, hidden = model.layers, model.hidden
    scores = model.sequence_tokens / (6 * hidden)
    logits = model.vocabulary / (4 * passes * layers * hidden)
    return 24.0 * passes * layers * hidden**2 * (1 + scores + logits)


def _with_recompute(model: Transformer) -> float:
    """Return FLOP per token of Narayanan et al. 2021: with masked scores and recomputation."""
    return _without_recompute(model, passes=4)


def _causal(model: Transformer) -> float:
    """Return six FLOP per weight and token, and the unmasked scores."""
    weights = model.parameters - model.input_embedding_parameters
    scores = 6.0 * model.layers * model.sequence_tokens * model.hidden
    return 6.0 * weights + scores


def _of_its_matrices(model: Transformer) -> float:
    """Return FLOP per token of the matrices that it passes, and of the unmasked scores."""
    masked = 6.0 * model.layers * model.sequence_tokens * model.query_width
    return training_flop_per_token(model) - masked


_COUNTS: dict[str, Callable[[Transformer], float]] = {
    "A1": _with_recompute,
    "A1b": _with_recompute,
    "A3": _causal,
    "A8": _of_its_matrices,
    "A9": _of_its_matrices,
    "A10": _of_its_matrices,
}


@cache
def cases() -> tuple[Case, ...]:
    """Return all rows, in the order of their tables."""
    models = dict(KNOWN_MODELS)
    for row in read_rows("step_time", "models"):
        models[row["name"]] = _model(**{name: row[name] for name in row if name != "name"})
    return tuple(_case(models, **row) for row in read_rows("step_time", "published"))


def _model(
    like: str | None = None, hidden: int = 0, untied: bool = False, **dimensions: int
) -> Transformer:
    if like:
        return replace(KNOWN_MODELS[like], **cast(Any, dimensions))
    inner = dimensions.pop("ffn_hidden", 4 * hidden)
    return Transformer(hidden, inner, tied_embeddings=not untied, **cast(Any, dimensions))


def _case(
    models: dict[str, Transformer],
    *,
    model: str,
    outputs: str,
    gpus: int,
    tensor: int,
    pipeline: int,
    virtual: str | int = 1,
    micro_batch: str | int = 1,
    attention: str = "",
    **rest: Any,
) -> Case:
    published = (output.split(" ") for output in outputs.split("; "))
    return Case(
        model=models[model],
        degrees=Layout(gpus // (tensor * pipeline), pipeline, tensor),
        outputs=tuple(
            (cast(Unit, unit), None if value == "?" else float(value)) for value, unit in published
        ),
        virtual_choices=(
            _divisors(models[model].layers // pipeline)
            if virtual == "?"
            else tuple(map(int, str(virtual).split()))
        ),
        micro_batch_choices=tuple(map(int, str(micro_batch).split())),
        attention_choices=cast(tuple[AttentionKernel, ...], tuple(attention.split())),
        **rest,
    )


def _divisors(layers: int) -> tuple[int, ...]:
    """Return the divisors of the layers of a stage, the one in the middle first."""
    divisors = [number for number in range(1, layers + 1) if layers % number == 0]
    middle = divisors.pop(len(divisors) // 2)
    return (middle, *divisors)
