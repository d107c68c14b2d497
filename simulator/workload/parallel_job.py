"""The job: a model, its layout over GPUs, and the work of a rank.

All work is derived from the matrix products of one rank, for one micro-batch on one part of the
model. Seconds are those of an undisturbed GPU of the kind that `Kernels` describes.

References
----------
Narayanan et al. 2021, SC21 (arXiv 2104.04473): the interleaved schedule, scatter and gather of what
stages send. Korthikanti et al. 2022 (arXiv 2205.05198): sequence parallelism, selective
recomputation. Rajbhandari et al. 2020 (ZeRO): a sharded optimizer. Grattafiori et al. 2024 (Llama
3): keys and values gathered for context parallelism. Lepikhin et al. 2020 (GShard, arXiv
2006.16668): experts on different GPUs, to which all-to-alls bring the tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from faultline.simulator.pattern.step_pattern import (
    Held,
    LayerCut,
    PartWork,
    PassWork,
    StepPattern,
)
from faultline.simulator.workload.gpu_memory import Recompute
from faultline.simulator.workload.kernels import AttentionKernel, Carried, Kernels, MatmulPrecision
from faultline.simulator.workload.layer_times import LayerTimes
from faultline.simulator.workload.layout import Layout
from faultline.simulator.workload.sharding import check_sharding, unit_messages
from faultline.simulator.workload.transformer import Transformer, WorkloadError
from faultline.strategies.interface.job_shape import Sharding, shards_weights
from faultline.strategies.interface.split_backward import SplitBackward

_BYTES = 2.0
"""Bytes of an activation, a weight, or a gradient within a replica: 16 bits."""
_OPTIMIZER_TRAFFIC = 30.0
"""Bytes per parameter in an Adam step."""


@dataclass(frozen=True, slots=True)
class ParallelJob:
    """A training job.

    Raises
    ------
    WorkloadError
        A degree of parallelism does not divide, or a value is out of range.
    """

    model: Transformer  # The model that is trained.
    layout: Layout  # Degrees of parallelism.
    # Sequences per micro-batch, and micro-batches per replica and step.
    micro_batch_sequences: int
    micro_batches: int
    kernels: Kernels  # The measured performance of its kind of GPU.
    # Share of the tabled rate of matrix products that the job's software reaches: tables are of
    # short runs at full clock. Fused attention, far from a GPU's limits, keeps its tabled rate.
    compute_efficiency: float = 1.0
    recompute: Recompute = "selective"  # Activations that the backward pass recomputes.
    # Whether work outside of tensor parallelism is spread over its ranks as well (Korthikanti et
    # al. 2022, arXiv 2205.05198).
    sequence_parallel: bool = True
    # Attention kernel. A fused one (FlashAttention) keeps scores on the chip and skips masked ones.
    attention: AttentionKernel = "flash-2"
    # State that replicas share. If any, gradients of `gradient_bytes` are reduce-scattered and
    # weights of 16 bits gathered, once per step, or with sharded weights in each micro-batch, layer
    # by layer. Otherwise gradients of 16 bits are all-reduced.
    sharding: Sharding = "optimizer"
    gradient_bytes: float = 4.0
    # Whether sharded weights are gathered again for the backward pass.
    reshard_after_forward: bool = True
    # Whether they are gathered while the layer before is computed, in the backward pass as well.
    backward_prefetch: bool = True
    # Replicas of which the GPUs of a stage share a scale-up domain; None if unknown.
    domain_replicas: int | None = None
    # Ranks among which the tokens of a sequence are divided; a divisor of `layout.data`, which
    # counts them as replicas.
    context: int = 1
    # Whether these ranks have equal shares of the unmasked scores: each has one block of tokens
    # from the front of a sequence and one from its end. Otherwise the rank with the last tokens
    # computes longest (PyTorch until 2.5).
    balanced_context: bool = True
    # Shares of messages that hide behind compute: of tensor parallelism, between stages, and of
    # gradients and weights between replicas. Sharded weights of the first layer, and gradients of
    # the last, never hide.
    tensor_overlap: float = 0.0
    pipeline_overlap: float = 0.0
    gradient_overlap: float = 0.0
    # Precision of matrix products with weights: 16 or 8 bits.
    matmul_precision: MatmulPrecision = "bf16"
    split: SplitBackward | None = None  # How pipelines split their backward pass; None for 1F1B.
    part_layers: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.kernels.attention_rates(self.attention)
        self.kernels.matmul_in(self.matmul_precision)
        if self.model.experts > 1 and self.model.experts % self.layout.tensor:
            raise WorkloadError(
                f"job: {self.layout.tensor} tensor-parallel ranks cannot share "
                f"{self.model.experts} experts evenly: use a divisor"
            )
        if self.layout.data % self.context:
            raise WorkloadError(
                f"job: context parallelism of {self.context} does not divide "
                f"{self.layout.data} replicas: choose a divisor"
            )
        if self.layout.virtual_stages > 1 and self.micro_batches % self.layout.pipeline:
            raise WorkloadError(
                f"job: {self.micro_batches} micro-batches on {self.layout.pipeline} stages with "
                f"{self.layout.virtual_stages} parts each: interleaving needs a multiple of the "
                "stages"
            )
        if self.layout.virtual_stages > 1 and self.split:
            raise WorkloadError(
                f"job: a schedule of split backward passes with {self.layout.virtual_stages} "
                "parts per stage: use one virtual stage, or the 1f1b schedule"
            )
        check_sharding(self.sharding, self.layout, self.domain_replicas)
        if self.split and self.shards_weights:
            raise WorkloadError(
                f'job: sharding = "{self.sharding}" with split backward passes: use the 1f1b '
                'schedule, or "optimizer"'
            )
        parts = self.layout.pipeline * self.layout.virtual_stages
        object.__setattr__(self, "part_layers", layers_of_parts(self.model.layers, parts))

    @property
    def shards_weights(self) -> bool:
        """Whether replicas share weights and gradients."""
        return shards_weights(self.sharding)

    @property
    def shards(self) -> int:
        """Replicas among which state is shared; 1 if it is not."""
        if self.sharding == "hybrid":
            return min(self.layout.data, self.domain_replicas or 1)
        return 1 if self.sharding == "none" else self.layout.data

    def pattern(self) -> StepPattern:
        """Return the work of the job's ranks in a step."""
        layout = self.layout
        last = len(self.part_layers) - 1
        parts = tuple(
            self._part(layers, first=part == 0, last=part == last)
            for part, layers in enumerate(self.part_layers)
        )
        numbers = self.stage_parameters()
        tokens = self._tokens
        sent = _BYTES * tokens * self.model.hidden / layout.tensor
        share = self.kernels.scale_out_share
        gradients, weights = ([each / share for each in kind] for kind in self._ring_sizes(numbers))
        hidden, shards = self.gradient_overlap, self.shards
        pattern = StepPattern(
            data=layout.data,
            pipeline=layout.pipeline,
            tensor=layout.tensor,
            context=self.context,
            micro_batches=self.micro_batches,
            parts=parts,
            send_bytes=sent / share,
            send_blocks=1.0 - self.pipeline_overlap,
            hidden_gradient_bytes=tuple(hidden * each for each in gradients),
            hidden_weight_bytes=tuple(hidden * each for each in weights),
            gradient_bytes=tuple(
                (1 - hidden) * sum(each) for each in zip(gradients, weights, strict=True)
            ),
            optimizer_flop=tuple(
                self._flop(_OPTIMIZER_TRAFFIC * each / shards / self.kernels.memory_bytes_per_s)
                for each in numbers
            ),
            split=self.split,
            unit_overlap=hidden,
            backward_prefetch=self.backward_prefetch,
            shards_in_domains=self.sharding == "hybrid",
        ).scheduled()
        layer, tensor = self._part(1, first=True, last=False), self._tensor_messages()[1]
        backward = layer.backward._replace(tensor_bytes=tensor.size_bytes, tensor_hops=tensor.hops)
        layer = replace(layer, backward=backward)
        share = self._layer_parameters / numbers[0]
        held = Held(*(share * each for each in pattern.held[0]))
        return replace(pattern, layers=LayerCut(self.part_layers, layer, held))

    def stage_parameters(self) -> tuple[float, ...]:
        """Return the weights of one rank of each stage."""
        model, layout = self.model, self.layout
        matrices = model.attention_matrix_parameters + model.ffn_matrix_parameters
        numbers = [
            matrices * sum(self.part_layers[stage :: layout.pipeline])
            for stage in range(layout.pipeline)
        ]
        table = model.vocabulary * model.hidden
        numbers[0] += table
        if layout.pipeline > 1 or not model.tied_embeddings:
            numbers[-1] += table
        return tuple(each / layout.tensor for each in numbers)

    @property
    def _layer_parameters(self) -> float:
        """Weights of one rank of a layer."""
        model = self.model
        matrices = model.attention_matrix_parameters + model.ffn_matrix_parameters
        return matrices / self.layout.tensor

    @property
    def _tokens(self) -> float:
        """Tokens of a micro-batch on one rank of context parallelism."""
        return self.micro_batch_sequences * self.model.sequence_tokens / self.context

    def _flop(self, seconds: float) -> float:
        """Return seconds of an undisturbed GPU as FLOP of a host of that speed."""
        return seconds * self.kernels.speed_flop_per_s

    def _ring_sizes(self, numbers: tuple[float, ...]) -> tuple[list[float], list[float]]:
        """Return the bytes that a rank of each stage sends to replicas: gradients, and weights."""
        data, scattered = self.layout.data, self.gradient_bytes
        for_gradients, for_weights = {
            "none": (2 * _BYTES, 0.0),
            "optimizer": (scattered, _BYTES),
            # Weights, and gradients within the set that shares them, are exchanged in the passes.
            "full": (0.0, 0.0),
            "hybrid": (2 * scattered, 0.0),
        }[self.sharding]
        if self.sharding == "hybrid":
            data //= self.shards
        sent = [(data - 1) / data * each for each in numbers]
        return [for_gradients * each for each in sent], [for_weights * each for each in sent]

    def _part(self, layers: int, *, first: bool, last: bool) -> PartWork:
        times = self.times()
        forward_s, backward_s = (layers * each for each in times.layer())
        if last:
            logits_s, output_backward_s = times.output()
            forward_s, backward_s = forward_s + logits_s, backward_s + output_backward_s
        forward_tensor, backward_tensor = (each.times(layers) for each in self._tensor_messages())
        if self.layout.tensor > 1 and not self.sequence_parallel:
            # Each rank has sent its part; the ranks of the receiving stage gather all parts.
            gather = self._ring(_BYTES * self._tokens * self.model.hidden, 1)
            forward_tensor = forward_tensor if first else forward_tensor.then(gather)
            backward_tensor = backward_tensor if last else backward_tensor.then(gather)
        keys = self._context_messages().times(layers)
        forward = self._pass(forward_s, forward_tensor, keys)
        # Backward, keys and values are gathered again, and so are their gradients. Full
        # recomputation gathers them once more.
        backward_keys = keys.times(3 if self._recomputes_layers else 2)
        backward = self._pass(backward_s, backward_tensor, backward_keys)
        if self.shards_weights and self.shards > 1:
            gathered, reduced = self._unit_messages(layers, first=first, last=last)
            again = gathered.times(self.reshard_after_forward)
            forward = forward.with_units(layers, gathered, (0.0, 0.0))
            backward = backward.with_units(layers, again, reduced)
        return PartWork(forward, backward)

    def _unit_messages(self, layers: int, *, first: bool, last: bool) -> tuple[Carried, Carried]:
        """Return the cost of gathering a part's weights, and of reducing its gradients to shards.

        Each layer is a unit with an equal share of the part's weights.
        """
        table = self.model.vocabulary * self.model.hidden / self.layout.tensor
        tables = first + (last and not (first and self.model.tied_embeddings))
        weights = layers * self._layer_parameters + tables * table
        ways = self.shards, self.domain_replicas, self.kernels
        return (
            unit_messages(_BYTES * weights, max(1, layers), *ways),
            unit_messages(self.gradient_bytes * weights, max(1, layers), *ways),
        )

    def _pass(self, seconds: float, tensor: Carried, context: Carried) -> PassWork:
        sent = tensor.size_bytes, context.size_bytes
        return PassWork(self._flop(seconds), *sent, tensor.hops, context.hops)

    def times(self) -> LayerTimes:
        """Return the price of a layer on one rank."""
        return LayerTimes(
            self.model,
            self.kernels,
            self.layout.tensor,
            self.context,
            self.micro_batch_sequences,
            self.compute_efficiency,
            self.matmul_precision,
            self.attention,
            self.recompute,
            self.sequence_parallel,
            self.balanced_context,
        )

    def _tensor_messages(self) -> tuple[Carried, Carried]:
        """Return the cost of a layer's collectives on a GPU's link, forward and backward."""
        if self.layout.tensor == 1:
            return Carried(0.0, 0.0), Carried(0.0, 0.0)
        activations = _BYTES * self._tokens * self.model.hidden
        # Two all-reduces per pass, or two pairs of reduce-scatter and all-gather. An all-gather
        # carries the precision of the product that follows it.
        gathered = activations if self.matmul_precision == "bf16" else activations / 2
        pair, gather = self._ring((activations + gathered) / 2, 2), self._ring(gathered, 1)
        has_experts = self.model.experts > 1
        pairs = 1 if has_experts else 2
        if has_experts or self.sequence_parallel:
            forward = backward = pair.times(pairs)
            if not self._recomputes_layers:
                # Inputs are kept in parts, and are gathered again for the gradients of weights.
                backward = backward.then(gather.times(pairs))
        else:
            forward = backward = self.kernels.all_reduce(activations, self.layout.tensor).times(2)
        exposed = 1.0 - self.tensor_overlap
        forward, backward = forward.times(exposed), backward.times(exposed)
        if has_experts:
            # A rank sends its tokens to their experts and back, which nothing hides.
            routed = self.model.active_experts / self.layout.tensor * activations
            exchange = self.kernels.exchange(routed, self.layout.tensor).times(2)
            forward, backward = forward.then(exchange), backward.then(exchange)
        if self._recomputes_layers:
            # What follows the last product is not needed: an all-reduce, or a reduce-scatter.
            rest = 0.75 if self.sequence_parallel else 0.5
            share = 1.0 if has_experts or self.recompute == "full" else rest
            backward = backward.then(forward.times(share))
        return forward, backward

    @property
    def _recomputes_layers(self) -> bool:
        return self.recompute in ("full", "early-stop")

    def _ring(self, size_bytes: float, passes: int) -> Carried:
        """Return the cost of a collective of a stage's ranks on a GPU's link."""
        return self.kernels.ring(size_bytes, self.layout.tensor, passes)

    def _context_messages(self) -> Carried:
        """Return the bytes of a layer's keys and values that a rank sends, forward."""
        if self.context == 1:
            return Carried(0.0, 0.0)
        model = self.model
        gathered = (
            4.0
            * self.micro_batch_sequences
            * model.sequence_tokens
            * model.key_value_width
            / self.layout.tensor
        )
        sent = (self.context - 1) / self.context * gathered / self.kernels.scale_out_share
        return Carried(sent, self.context - 1).times(1.0 - self.tensor_overlap)


def layers_of_parts(layers: int, parts: int) -> tuple[int, ...]:
    """Return the layers of each part of a pipeline, as even as possible.

    Parts with a layer less are at the ends, first at the last: the ends also have the embedding and
    the output (Grattafiori et al. 2024, section 3.3.2).

    Raises
    ------
    WorkloadError
        There are fewer layers than half of the parts.
    """
    if 2 * layers < parts:
        raise WorkloadError(
            f"job: {layers} layers are too few for {parts} parts of a pipeline: use at most "
            f"{layers}"
        )
    most = -(-layers // parts)
    counts = [most] * parts
    for parts_down in range(most * parts - layers):
        nearer_end, from_front = divmod(parts_down, 2)
        counts[nearer_end if from_front else parts - 1 - nearer_end] -= 1
    return tuple(counts)
