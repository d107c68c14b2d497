"""Published training steps: what was run, and how long it took.

A value of None has not been looked at: it is predicted, and compared by others.

References
----------
A1: Narayanan et al. 2021, SC21, arXiv 2104.04473, table 1. A1b: Megatron-LM's repository, 2020. A2:
Korthikanti et al. 2022, arXiv 2205.05198, table 5. A3: Grattafiori et al. 2024, arXiv 2407.21783,
table 4. A4: Jiang et al. 2024 (MegaScale), arXiv 2402.15627, tables 2 and 3. A5: Megatron-Core 0.8,
README, July 2024. A6: MLPerf training 3.1, GPT-3 175B, NVIDIA Eos. A7: NVIDIA's
dgxc-benchmarking 24.11. A8: Megatron-Bridge 26.06; torchtitan (arXiv 2410.06511).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from faultline.experiments.studies.step_time.stacks import STACKS, Stack
from faultline.simulator.workload.known_models import LLAMA3_8B, LLAMA3_70B, LLAMA3_405B
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.memory import Recompute
from faultline.simulator.workload.parallel_job import ParallelJob
from faultline.simulator.workload.transformer import Transformer

Unit = Literal["s", "TFLOP/s", "%", "tokens/s"]

_MOST_PARTS = 8
"""Where nobody says how many parts a stage has: the largest divisor of its layers up to this."""


@dataclass(frozen=True, slots=True)
class Case:
    """A row of a table that somebody has published.

    Attributes
    ----------
    label : str
        Its section and what is particular to it.
    stack : str
        Key of `STACKS`.
    model : Transformer
        What is trained.
    layout : Layout
        Degrees of parallelism; replicas count ranks of context parallelism.
    batch : int
        Sequences of a step.
    outputs : tuple of (str, float or None)
        Units in which it is published, and the values; the one that its source gives comes first.
    micro_batch : int
        Sequences of a micro-batch.
    context : int
        Ranks among which a sequence is divided.
    recompute : {"none", "selective", "full"} or None
        What the backward pass computes again, if the row says so.
    eight_bit : bool
        Whether matrix products are in 8 bits.
    virtual_choices : tuple of int
        Parts of a stage that are as likely as that of `layout`, where nobody says.
    """

    label: str
    stack: str
    model: Transformer
    layout: Layout
    batch: int
    outputs: tuple[tuple[Unit, float | None], ...]
    micro_batch: int = 1
    context: int = 1
    recompute: Recompute | None = None
    eight_bit: bool = False
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
        stack = self.software
        layout = self.layout
        if virtual_stages is not None:
            layout = replace(layout, virtual_stages=virtual_stages)
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
            fused_attention=stack.fused_attention,
            shard_optimizer=stack.shard_optimizer,
            context=self.context,
            tensor_overlap=stack.tensor_overlap,
            pipeline_overlap=stack.pipeline_overlap,
            gradient_overlap=stack.gradient_overlap if overlaps else 0.0,
            matmul_speedup=stack.kernels.eight_bit_speedup if self.eight_bit else 1.0,
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


def _with_recompute(model: Transformer) -> float:
    """Return FLOP a token of Narayanan et al. 2021: masked scores count, and the second forward."""
    layers, hidden = model.layers, model.hidden
    scores, logits = _scores(model), model.vocabulary / (16 * layers * hidden)
    return 96.0 * layers * hidden**2 * (1 + scores + logits)


def _without_recompute(model: Transformer) -> float:
    """Return FLOP a token of Korthikanti et al. 2022: masked scores count, nothing twice."""
    layers, hidden = model.layers, model.hidden
    scores, logits = _scores(model), model.vocabulary / (12 * layers * hidden)
    return 72.0 * layers * hidden**2 * (1 + scores + logits)


def _scores(model: Transformer) -> float:
    return model.sequence_tokens / (6 * model.hidden)


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


def cases() -> tuple[Case, ...]:
    """Return all rows, in the order of their tables."""
    sections = (
        _sc21,
        _repository,
        _korthikanti,
        _llama,
        _megascale,
        _core,
        _mlperf,
        _recipes,
        _bridge,
        _torchtitan,
    )
    return tuple(case for section in sections for case in section())


def _gpt(
    hidden: int, layers: int, heads: int, sequence_tokens: int = 2048, vocabulary: int = 51_200
) -> Transformer:
    return Transformer(hidden, 4 * hidden, heads, layers, sequence_tokens, vocabulary)


def _sc21() -> Iterator[Case]:
    # Billions, h, L, a; t, p, v, b; GPUs, batch; TFLOP/s.
    table = (
        ("1.7B", 2304, 24, 24, 1, 1, 1, 16, 32, 512, 137.0),
        ("3.6B", 3072, 30, 32, 2, 1, 1, 16, 64, 512, None),
        ("7.5B", 4096, 36, 32, 4, 1, 1, 16, 128, 512, 142.0),
        ("18.4B", 6144, 40, 48, 8, 1, 1, 8, 256, 1024, 135.0),
        ("39.1B", 8192, 48, 64, 8, 2, 1, 4, 512, 1536, None),
        ("76.1B", 10240, 60, 80, 8, 4, 3, 2, 1024, 1792, 140.0),
        ("145.6B", 12288, 80, 96, 8, 8, 2, 2, 1536, 2304, None),
        ("310.1B", 16384, 96, 128, 8, 16, 2, 1, 1920, 2160, None),
        ("529.6B", 20480, 105, 128, 8, 35, 3, 1, 2520, 2520, 163.0),
        ("1008B", 25600, 128, 160, 8, 64, 1, 1, 3072, 3072, 163.0),
    )
    for size, hidden, layers, heads, t, p, v, b, gpus, batch, rate in table:
        yield Case(
            f"A1 {size}",
            "megatron-2021",
            _gpt(hidden, layers, heads),
            Layout(gpus // (t * p), p, t, v),
            batch,
            (("TFLOP/s", rate),),
            micro_batch=b,
        )


def _repository() -> Iterator[Case]:
    # Seconds of one replica, and of 128.
    table = (
        ("1B", 1920, 24, 15, 1, 1.076, 1.153),
        ("2B", 2304, 30, 18, 2, None, None),
        ("4B", 3072, 36, 24, 4, None, None),
        ("8B", 4096, 42, 32, 8, 1.343, 1.380),
    )
    for size, hidden, layers, heads, tensor, alone_s, many_s in table:
        for replicas, step_s in ((1, alone_s), (128, many_s)):
            yield Case(
                f"A1b {size} {replicas} replica{'s' if replicas > 1 else ''}",
                "megatron-2021",
                _gpt(hidden, layers, heads, sequence_tokens=1024),
                Layout(replicas, 1, tensor),
                16 * replicas,
                (("s", step_s),),
                micro_batch=16,
            )


def _korthikanti() -> Iterator[Case]:
    # h, L, a; p, v, b; batch; seconds with full and with selective recomputation, MFU of the last.
    table = (
        ("22B", 6144, 48, 64, 1, 1, 4, 4, None, None, None),
        ("175B", 12288, 96, 96, 8, 3, 1, 64, 18.13, 13.75, 51.4),
        ("530B", 20480, 105, 128, 35, 3, 1, 280, None, None, None),
        ("1T", 25600, 128, 160, 64, 1, 1, 512, 94.42, 71.49, 56.3),
    )
    for size, hidden, layers, heads, p, v, b, batch, full_s, selective_s, mfu in table:
        selective = Case(
            f"A2 {size} selective",
            "megatron-2022",
            _gpt(hidden, layers, heads),
            Layout(1, p, 8, v),
            batch,
            (("s", selective_s), ("%", mfu)),
            micro_batch=b,
        )
        full = replace(selective, label=f"A2 {size} full", outputs=(("s", full_s),))
        yield replace(full, recompute="full")
        yield selective
        if size == "530B":
            yield replace(
                selective,
                label="A2 530B d8 selective",
                layout=replace(selective.layout, data=8),
                batch=8 * batch,
                outputs=(("%", None), ("s", None)),
            )


def _llama() -> Iterator[Case]:
    longer = replace(LLAMA3_405B, sequence_tokens=131_072)
    # Replicas, context; sequences a replica; TFLOP/s.
    table = (
        ("8192 8K", LLAMA3_405B, 64, 1, 32, 430.0),
        ("16384 8K", LLAMA3_405B, 128, 1, 16, None),
        ("16384 131K", longer, 8, 16, 16, None),
    )
    for label, model, replicas, context, sequences, rate in table:
        yield Case(
            f"A3 {label}",
            "llama-3",
            model,
            # 126 layers are 128 parts of one, without the first and the last.
            Layout(replicas * context, 16, 8, _MOST_PARTS),
            replicas * sequences,
            (("TFLOP/s", rate), ("s", None)),
            context=context,
            virtual_choices=(2, 4),
        )


def _megascale() -> Iterator[Case]:
    model = _gpt(12288, 96, 128, vocabulary=64_000)
    # GPUs, batch; seconds and MFU of Megatron-LM and of MegaScale.
    table = (
        (256, 768, (40.0, 53.0), (32.0, 65.3)),
        (512, 768, (None, None), (None, None)),
        (768, 768, (15.2, 46.7), (11.5, 61.3)),
        (1024, 768, (None, None), (None, None)),
        (3072, 6144, (29.02, 48.7), (23.66, 59.1)),
        (6144, 6144, (None, None), (None, None)),
        (8192, 6144, (12.24, 43.3), (9.56, 54.9)),
        (12288, 6144, (None, None), (None, None)),
    )
    for gpus, batch, *published in table:
        stacks = ("megatron-2023", "Megatron-LM"), ("megascale", "MegaScale")
        for (stack, name), (step_s, mfu) in zip(stacks, published, strict=True):
            yield Case(
                f"A4 {gpus} {name}",
                stack,
                model,
                Layout(gpus // 64, 8, 8, 6),
                batch,
                (("s", step_s), ("%", mfu)),
            )


def _core() -> Iterator[Case]:
    # h, L, a; t, p; GPUs, batch; TFLOP/s.
    table = (
        ("1.7B", 2048, 24, 16, 1, 1, 48, 192, 408.8),
        ("7.1B", 4096, 30, 32, 2, 1, 96, 192, None),
        ("16B", 6144, 32, 48, 4, 1, 192, 192, 489.1),
        ("32B", 7168, 48, 56, 8, 1, 384, 192, None),
        ("70B", 8192, 84, 64, 8, 2, 768, 384, 419.7),
        ("119B", 10240, 92, 80, 8, 4, 1536, 768, None),
        ("177B", 12288, 96, 96, 8, 6, 2304, 1152, 432.8),
        ("314B", 16384, 96, 128, 8, 8, 3072, 1536, None),
        ("462B", 18432, 112, 144, 8, 16, 6144, 3072, 459.9),
        # Strong scaling.
        ("177B 96", 12288, 96, 96, 8, 6, 96, 1152, 463.0),
        ("177B 288", 12288, 96, 96, 8, 6, 288, 1152, None),
        ("177B 576", 12288, 96, 96, 8, 6, 576, 1152, 457.0),
        ("177B 1152", 12288, 96, 96, 8, 6, 1152, 1152, None),
        ("177B 2304", 12288, 96, 96, 8, 6, 2304, 1152, 436.0),
        ("177B 4608", 12288, 96, 96, 8, 6, 4608, 1152, None),
    )
    for size, hidden, layers, heads, t, p, gpus, batch, rate in table:
        model = Transformer(hidden, 4 * hidden, heads, layers, 4096, 131_072, tied_embeddings=False)
        *others, most = _divisors(layers // p) if p > 1 else (1,)
        yield Case(
            f"A5 {size}",
            "megatron-core",
            model,
            Layout(gpus // (t * p), p, t, most),
            batch,
            (("TFLOP/s", rate),),
            virtual_choices=tuple(others),
        )


def _divisors(layers: int) -> tuple[int, ...]:
    return tuple(parts for parts in range(1, _MOST_PARTS + 1) if layers % parts == 0)


def _mlperf() -> Iterator[Case]:
    table = (
        (512, 2048, 11.05),
        (768, 3072, None),
        (4096, 2048, None),
        (8192, 4096, 1.619),
        (10240, 2560, None),
    )
    for gpus, batch, step_s in table:
        layout = Layout(gpus // 32, 8, 4, 12)
        model = _gpt(12288, 96, 96)
        yield Case(f"A6 {gpus}", "mlperf", model, layout, batch, (("s", step_s),), eight_bit=True)


def _recipes() -> Iterator[Case]:
    # A vocabulary of 256,000: NVIDIA 2024, Nemotron-4 340B technical report.
    nemotron = Transformer(
        18432, 73_728, 96, 96, 4096, 256_000, key_value_heads=8, tied_embeddings=False
    )
    # t, p, v, c; GPUs, batch; seconds, by GPUs.
    table = (
        ("175B", _gpt(12288, 96, 96), 4, 8, 12, 1, 2.0, {128: 8.91, 512: 9.09, 2048: None}),
        ("340B", nemotron, 8, 8, 12, 1, 32 / 128, {128: 4.61, 2048: None}),
        ("405B", LLAMA3_405B, 8, 9, 7, 2, 252 / 576, {576: 17.20, 2304: None}),
        ("70B", LLAMA3_70B, 4, 4, 5, 2, 2.0, {64: 14.72, 2048: None}),
    )
    for size, model, t, p, v, context, batch_per_gpu, published in table:
        for gpus, step_s in published.items():
            yield Case(
                f"A7 {size} {gpus}",
                "nemo",
                model,
                Layout(gpus // (t * p), p, t, v),
                round(batch_per_gpu * gpus),
                (("s", step_s),),
                context=context,
            )


def _bridge() -> Iterator[Case]:
    yield Case(
        "A8 GB200 405B",
        "megatron-bridge",
        LLAMA3_405B,
        Layout(4, 16, 4, 4),
        1536,
        (("tokens/s", 843.0),),
        eight_bit=True,
    )
    yield Case(
        "A8 GB200 70B",
        "megatron-bridge",
        LLAMA3_70B,
        Layout(64, 1, 1),
        256,
        (("tokens/s", None),),
        micro_batch=2,
        eight_bit=True,
    )
    # The same vendor's software in 8 bits on the same GPU: MLPerf's efficiency has to do.
    yield Case(
        "A8 H100 405B",
        "megatron-bridge-h100",
        LLAMA3_405B,
        Layout(16, 8, 8, 8),
        1536,
        (("tokens/s", 326.0),),
        context=2,
        eight_bit=True,
    )


def _torchtitan() -> Iterator[Case]:
    for gpus, rate in ((8, 5762.0), (128, 5605.0)):
        yield Case(
            f"A8 torchtitan 8B {gpus}",
            "torchtitan",
            LLAMA3_8B,
            Layout(gpus, 1, 1),
            2 * gpus,
            (("tokens/s", rate),),
            micro_batch=2,
        )
    # As many micro-batches as stages, which is torchtitan's default, and two parts a stage.
    for name, parts, rate in (("1F1B", 1, 100.0), ("interleaved", 2, 128.0)):
        yield Case(
            f"A8 torchtitan 405B {name}",
            "torchtitan-fp8",
            LLAMA3_405B,
            Layout(8, 8, 8, parts),
            64,
            (("tokens/s", rate),),
            recompute="full",
            eight_bit=True,
        )
