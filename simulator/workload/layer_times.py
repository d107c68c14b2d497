"""How long a rank computes on a layer, and on the output: each part at the rate of its kernel.

Only products of a layer's weights are in the job's precision. Attention, logits, norms and the
router stay in 16 bits (TransformerEngine and torchao leave them so), and numbers in 8 bits cost the
traffic of their conversion.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from faultline.simulator.workload.gpu_memory import Recompute
from faultline.simulator.workload.kernels import AttentionKernel, Kernels, MatmulPrecision
from faultline.simulator.workload.transformer import Transformer

_FORWARD_TRAFFIC = (22.0, 16.0)
"""Bytes per token and hidden unit that norms, biases, dropouts and activation functions move
through memory in a layer's forward pass: outside of tensor parallelism, and within. Experts move
`_ACTIVATION_TRAFFIC` and `_PERMUTE_TRAFFIC` instead of the latter."""
_ACTIVATION_TRAFFIC = 2.0
"""Bytes of a number that an activation function reads or writes."""
_PERMUTE_TRAFFIC = (2.0, 14.0)
"""Bytes per token and hidden unit, and per copy of it for an expert, of the permutations around
experts. Each copy is read and written to sort it by GPU, by expert, and back to each of these
orders; the last step sums a token's copies."""
_SCORES_TRAFFIC = 13.0
"""Bytes per score of attention if the kernel is not fused."""
_QUANTIZE_TRAFFIC = 6.0
"""Bytes per number that is converted to 8 bits: read in 16 bits for the largest, read again, and
written once by rows and once by columns."""
_BACKWARD_TRAFFIC = 1.6
"""Memory traffic of the backward pass over that of the forward pass."""
_LOGITS_TRAFFIC = 10.0
"""Bytes per logit, of the vocabulary or of the router."""


class Passes(NamedTuple):
    """Seconds of a forward and of a backward pass."""

    forward: float
    backward: float


class Product(NamedTuple):
    """Some products with weights: rows x inner times inner x columns."""

    rows: float
    columns: float
    inner: float
    repeats: float = 1.0  # Equal products: experts.


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """The price of one micro-batch on one rank of a stage; attributes are as in `ParallelJob`."""

    model: Transformer
    kernels: Kernels
    tensor: int
    context: int
    micro_batch_sequences: int
    compute_efficiency: float
    matmul_precision: MatmulPrecision
    attention: AttentionKernel
    recompute: Recompute
    sequence_parallel: bool
    balanced_context: bool

    @property
    def tokens(self) -> float:
        """Tokens of a micro-batch on one rank of context parallelism."""
        return self.micro_batch_sequences * self.model.sequence_tokens / self.context

    def layer(self) -> Passes:
        """Return the seconds of a layer's passes, including recomputation."""
        products = (*self._projections(), *self.networks())
        forward_s = sum(self.product_s(each) for each in products)
        gradients_s = sum(
            self.product_s(each._replace(columns=each.inner, inner=each.columns))
            + self.product_s(Product(each.columns, each.inner, each.rows, each.repeats))
            for each in products
        )
        traffic_s, traffic_backward_s = self._traffic()
        router, scores = self._router(), self._attention()
        converted, converted_backward = self._conversions()
        kept_s = 0.0
        if self.recompute == "operator":
            kept_s = scores.forward + forward_s / 2
        elif self.recompute == "early-stop":
            # Nothing needs the output of the last product.
            kept_s = self.product_s(products[-1])
        passes = Passes(
            forward_s + converted + traffic_s + router.forward + scores.forward,
            gradients_s
            + converted_backward
            + traffic_backward_s
            + router.backward
            + scores.backward,
        )
        again_s = 0.0
        if self.recompute in ("full", "early-stop", "operator"):
            again_s = passes.forward - kept_s
        elif self.recompute == "selective" and self.attention == "unfused":
            again_s = scores.forward
        return passes._replace(backward=passes.backward + again_s)

    def output(self) -> Passes:
        """Return the seconds of logits and loss."""
        columns = self.model.vocabulary / self.tensor
        return self._logits(columns)

    def _projections(self) -> Iterable[Product]:
        """Return the products before and after attention."""
        model = self.model
        heads = (model.query_width + 2 * model.key_value_width) / self.tensor
        yield Product(self.tokens, heads, model.hidden)
        yield Product(self.tokens, model.hidden, model.query_width / self.tensor)

    def networks(self) -> Iterable[Product]:
        """Return the products of the dense network, whose width the ranks share, or of experts.

        The ranks share the experts, and tokens are spread evenly over them.
        """
        model = self.model
        rows, width, count = self.tokens, model.ffn_hidden / self.tensor, 1.0
        if model.experts > 1:
            rows *= model.active_experts / model.experts
            width, count = float(model.ffn_hidden), model.experts / self.tensor
        yield Product(rows, (model.ffn_matrices - 1) * width, model.hidden, count)
        yield Product(rows, model.hidden, width, count)

    def product_s(self, product: Product) -> float:
        """Return the seconds of products with weights: those of experts are called one by one."""
        rows, columns, inner, repeats = product
        matmul = self.kernels.matmul_in(self.matmul_precision)
        return repeats * matmul.seconds(rows, columns, inner) / self.compute_efficiency

    def _conversions(self) -> Passes:
        """Return the seconds in which inputs, and gradients of outputs, become numbers of 8 bits.

        With sequence parallelism ranks convert their parts before they gather them. Weights are
        converted once per step, which is left out.
        """
        model = self.model
        if self.matmul_precision == "bf16":
            return Passes(0.0, 0.0)
        copies, spread = model.active_experts, self.tensor if self.sequence_parallel else 1
        # Inputs: of the queries, of the output of attention, and of both sides of the network.
        residual = (1 + copies) * model.hidden / (spread if model.experts == 1 else self.tensor)
        inputs = residual + (model.query_width + copies * model.ffn_hidden) / self.tensor
        heads = model.query_width + 2 * model.key_value_width
        inner = (model.ffn_matrices - 1) * copies * model.ffn_hidden
        gradients = residual + (heads + inner) / self.tensor
        token_s = self.tokens * _QUANTIZE_TRAFFIC / self.kernels.memory_bytes_per_s
        return Passes(inputs * token_s, gradients * token_s)

    def _traffic(self) -> Passes:
        """Return the seconds of memory-bound kernels."""
        model = self.model
        outside, inside = _FORWARD_TRAFFIC
        permuted = 0.0
        if model.experts > 1:
            copies = model.active_experts
            inside = _ACTIVATION_TRAFFIC * model.ffn_matrices * copies * model.ffn_hidden
            inside /= model.hidden
            once, per_copy = _PERMUTE_TRAFFIC
            permuted = (once + per_copy * copies) / self.tensor
        spread = self.tensor if self.sequence_parallel else 1
        hidden_s = self.tokens * model.hidden / self.kernels.memory_bytes_per_s
        forward_s = hidden_s * (outside / spread + inside / self.tensor)
        permuted_s = hidden_s * permuted
        return Passes(forward_s + permuted_s, _BACKWARD_TRAFFIC * forward_s + permuted_s)

    def _router(self) -> Passes:
        """Return the seconds of the router's logits; ranks share its tokens."""
        if self.model.experts == 1:
            return Passes(0.0, 0.0)
        return self._logits(self.model.experts / self.tensor)

    def _logits(self, columns: float) -> Passes:
        """Return the seconds of a product to logits in 16 bits, and of what reads them."""
        product_s = self.kernels.matmul.seconds(self.tokens, columns, self.model.hidden)
        product_s /= self.compute_efficiency
        traffic_s = _LOGITS_TRAFFIC * self.tokens * columns / self.kernels.memory_bytes_per_s
        return Passes(product_s + traffic_s / 2, 2 * product_s + traffic_s / 2)

    def _attention(self) -> Passes:
        """Return the seconds of attention's scores and their product with values."""
        model, kernels, tokens = self.model, self.kernels, self.tokens
        heads, length, width = model.heads / self.tensor, model.sequence_tokens, model.head_width
        rows = length / self.context
        rates = kernels.attention_rates(self.attention)
        if rates is not None:
            # Half of the scores are masked; the backward pass has five products instead of two.
            flop = 4.0 * tokens * length * width * heads / 2
            if not self.balanced_context:
                # The rank with the last tokens has all scores of its rows but half of a block.
                flop *= 2.0 - 1.0 / self.context
            return Passes(flop / rates.forward(rows), 2.5 * flop / rates.backward(rows))
        batch = self.micro_batch_sequences * heads
        products_s = kernels.matmul.seconds(rows, length, width, batch)
        products_s += kernels.matmul.seconds(rows, width, length, batch)
        products_s /= self.compute_efficiency
        traffic_s = _SCORES_TRAFFIC * heads * tokens * length / kernels.memory_bytes_per_s
        return Passes(products_s + traffic_s, 2 * products_s + _BACKWARD_TRAFFIC * traffic_s)
