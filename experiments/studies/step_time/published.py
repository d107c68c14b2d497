"""Published training steps, ``data/published.csv``, and the software that took them.

The only number of a software that is fitted is the efficiency of its computations: on one published
row, while the study runs. The rest are statements, one a stack (``data/stacks.csv``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, cast

from faultline.experiments.studies.data import read_rows
from faultline.simulator.workload.kernels import KNOWN_KERNELS, AttentionKernel, Kernels
from faultline.simulator.workload.known_models import KNOWN_MODELS
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.memory import Recompute
from faultline.simulator.workload.parallel_job import ParallelJob
from faultline.simulator.workload.transformer import Transformer


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
    attention: AttentionKernel = "flash-2"
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


STACKS: Mapping[str, Stack] = {
    row["name"]: Stack(
        kernels=KNOWN_KERNELS[row["kernels"]],
        **{key: value for key, value in row.items() if key not in ("name", "kernels")},
    )
    for row in read_rows("step_time", "stacks")
}
"""All of them, by name."""


Unit = Literal["s", "TFLOP/s", "%", "tokens/s"]


@dataclass(frozen=True, slots=True)
class Case:
    """A row of a table that somebody has published."""

    label: str  # Its section and what is particular to it.
    stack: str  # Key of `STACKS`.
    model: Transformer  # What is trained.
    layout: Layout  # Degrees of parallelism; replicas count ranks of context parallelism.
    batch: int  # Sequences of a step.
    # Units in which it is published, and the values; the one that its source gives comes first.
    outputs: tuple[tuple[Unit, float | None], ...]
    micro_batch: int = 1  # Sequences of a micro-batch.
    context: int = 1  # Ranks among which a sequence is divided.
    # What the backward pass computes again, if the row says so ({"none", "selective", "full"} or
    # None).
    recompute: Recompute | None = None
    eight_bit: bool = False  # Whether matrix products are in 8 bits.
    # Parts of a stage that are as likely as that of `layout`, where nobody says.
    virtual_choices: tuple[int, ...] = field(default=())

    @property
    def section(self) -> str:
        """The table that it is a row of."""
        return self.label.partition(" ")[0]

    @property
    def software(self) -> Stack:
        """What it runs on."""
        return STACKS[self.stack]

    @property
    def is_fitted(self) -> bool:
        """Whether the efficiency of its stack follows from it."""
        return self.label == self.software.fitted_on

    @property
    def gpus(self) -> int:
        """GPUs of the job."""
        return self.layout.gpus

    def job(self, efficiency: float, virtual_stages: int | None = None) -> ParallelJob:
        """Return the job, at an efficiency of its computations."""
        stack, virtual = self.software, virtual_stages or self.layout.virtual_stages
        layout = replace(self.layout, virtual_stages=virtual)
        overlaps = layout.pipeline == 1 or stack.overlaps_gradients_of_pipelines
        return ParallelJob(
            self.model,
            layout,
            self.micro_batch,
            self.batch * self.context // (layout.data * self.micro_batch),
            stack.kernels,
            compute_efficiency=efficiency,
            recompute=self.recompute or stack.recompute,
            sequence_parallel=stack.sequence_parallel and self.recompute != "full",
            attention=stack.attention,
            shard_optimizer=stack.shard_optimizer,
            context=self.context,
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
        """Return a step time in a unit that a source uses; twice, it is the step time again."""
        if unit == "s":
            return step_s
        amount = {
            "TFLOP/s": self.model_flop() / 1e12,
            "%": 100.0 * self.model_flop() / self.software.kernels.speed_flop_per_s,
            "tokens/s": float(self.batch * self.model.sequence_tokens),
        }[unit]
        return amount / self.gpus / step_s


def _without_recompute(model: Transformer, passes: int = 3) -> float:
    """Return FLOP a token of Korthikanti et al. 2022: masked scores count, nothing twice."""
    layers, hidden = model.layers, model.hidden
    scores = model.sequence_tokens / (6 * hidden)
    logits = model.vocabulary / (4 * passes * layers * hidden)
    return 24.0 * passes * layers * hidden**2 * (1 + scores + logits)


def _with_recompute(model: Transformer) -> float:
    """Return FLOP a token of Narayanan et al. 2021: masked scores count, and the second forward."""
    return _without_recompute(model, passes=4)


def _causal(model: Transformer) -> float:
    """Return six FLOP a weight and token, and the scores that are not masked."""
    weights = model.parameters - model.input_embedding_parameters
    scores = 6.0 * model.layers * model.sequence_tokens * model.hidden
    return 6.0 * weights + scores


_COUNTS: dict[str, Callable[[Transformer], float]] = {
    "A1": _with_recompute,
    "A1b": _with_recompute,
    "A3": _causal,
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
    return Transformer(
        hidden, ffn_hidden=4 * hidden, tied_embeddings=not untied, **cast(Any, dimensions)
    )


def _case(
    models: dict[str, Transformer],
    *,
    model: str,
    outputs: str,
    gpus: int,
    tensor: int,
    pipeline: int,
    virtual: int = 1,
    virtual_choices: str | int = "",
    **rest: Any,
) -> Case:
    published = (output.split(" ") for output in outputs.split("; "))
    return Case(
        model=models[model],
        layout=Layout(gpus // (tensor * pipeline), pipeline, tensor, virtual),
        outputs=tuple(
            (cast(Unit, unit), None if value == "?" else float(value)) for value, unit in published
        ),
        virtual_choices=tuple(map(int, str(virtual_choices).split())),
        **rest,
    )
