"""The dimensions of a decoder-only transformer, its parameters, and the FLOP of its training.

A multiplication and an addition are 2 FLOP. Only matrix products count. Each weight costs 2 FLOP
per token in the forward pass, 2 for the gradient of the inputs and 2 for that of the weights. The
scores of attention, ``Q K^T``, and their product with V have no weights: they cost ``4 s h``
forward, with the width h of all heads, and twice that for the gradient of their inputs. Masked
positions count, as in the source.

References
----------
Narayanan et al. 2021, Efficient large-scale language model training on GPU clusters using
Megatron-LM, SC21, appendix: ``96 B s l h^2 (1 + s/(6 h) + V/(16 l h))`` for a batch of B sequences
with full recomputation.
"""

from __future__ import annotations

from dataclasses import dataclass

from faultline.strategies.interface.stage_work import Halves


class WorkloadError(ValueError):
    """A model, layout or machine is impossible; the message names valid values."""


@dataclass(frozen=True, slots=True)
class Transformer:
    """A decoder-only transformer.

    Raises
    ------
    WorkloadError
        The heads do not divide the hidden width, or more experts are active than exist.
    """

    hidden: int  # Width of the residual stream.
    ffn_hidden: int  # Inner width of the feed-forward network.
    heads: int  # Attention heads.
    layers: int  # Transformer layers.
    sequence_tokens: int  # Tokens of a training sequence.
    vocabulary: int  # Rows of the embedding table.
    # Heads of keys and values (grouped-query attention, Ainslie et al. 2023); `heads` if None.
    key_value_heads: int | None = None
    # 2 for an up and a down projection, 3 for a gated network (SwiGLU, Shazeer 2020).
    ffn_matrices: int = 2
    tied_embeddings: bool = True  # Whether the output projection is the embedding table.
    # Whether there is a table of position embeddings, with one row per token of the sequence.
    learned_positions: bool = False
    biases: bool = False  # Whether linear layers and norms have biases (GPT) or not (Llama).
    # Feed-forward networks of a layer (mixture of experts, Shazeer et al. 2017, arXiv 1701.06538);
    # 1 is a dense model.
    experts: int = 1
    active_experts: int = 1  # Experts that each token passes.
    head_size: int | None = None  # Width of a head; if None, the heads share the hidden width.

    def __post_init__(self) -> None:
        if self.active_experts > self.experts:
            raise WorkloadError(
                f"transformer: {self.active_experts} active experts are more than the "
                f"{self.experts} of a layer: use at most {self.experts}"
            )
        if self.head_size is None and self.hidden % self.heads:
            raise WorkloadError(
                f"transformer: {self.heads} heads do not divide a hidden width of {self.hidden}: "
                "choose a divisor, or state the size of a head"
            )
        if self.heads % self.shared_heads:
            raise WorkloadError(
                f"transformer: {self.shared_heads} key-value heads do not divide {self.heads} "
                "heads: choose a divisor"
            )

    @property
    def shared_heads(self) -> int:
        """Heads of keys and values."""
        return self.heads if self.key_value_heads is None else self.key_value_heads

    @property
    def key_value_width(self) -> int:
        """Width of the keys, and of the values, of a token."""
        return self.head_width * self.shared_heads

    @property
    def head_width(self) -> int:
        """Width of a head."""
        return self.hidden // self.heads if self.head_size is None else self.head_size

    @property
    def query_width(self) -> int:
        """Width of the queries of a token, and of the heads' output."""
        return self.head_width * self.heads

    @property
    def attention_matrix_parameters(self) -> int:
        """Numbers in the projections of one layer's attention: query, key, value, output."""
        return 2 * self.hidden * (self.query_width + self.key_value_width)

    @property
    def ffn_matrix_parameters(self) -> int:
        """Numbers in the matrices of one layer's feed-forward networks, and in their router."""
        router = self.hidden * self.experts if self.experts > 1 else 0
        return self.experts * self._expert_parameters + router

    @property
    def active_ffn_parameters(self) -> int:
        """Numbers in the matrices of the feed-forward networks that one token passes."""
        return self.active_experts * self._expert_parameters

    @property
    def _expert_parameters(self) -> int:
        return self.ffn_matrices * self.hidden * self.ffn_hidden

    @property
    def vector_parameters(self) -> int:
        """Numbers in one layer's norms and biases."""
        norms = 2 * self.hidden
        if not self.biases:
            return norms
        attention = self.hidden + self.query_width + 2 * self.key_value_width
        ffn = self.experts * ((self.ffn_matrices - 1) * self.ffn_hidden + self.hidden)
        return 2 * norms + attention + ffn

    @property
    def layer_parameters(self) -> int:
        """Numbers in one layer."""
        return (
            self.attention_matrix_parameters + self.ffn_matrix_parameters + self.vector_parameters
        )

    @property
    def input_embedding_parameters(self) -> int:
        """Numbers in the tables that the first stage of a pipeline looks up."""
        positions = self.sequence_tokens if self.learned_positions else 0
        return (self.vocabulary + positions) * self.hidden

    @property
    def output_parameters(self) -> int:
        """Numbers after the last layer: a norm, and the output table unless it is tied."""
        table = 0 if self.tied_embeddings else self.vocabulary * self.hidden
        return self.hidden * (2 if self.biases else 1) + table

    @property
    def parameters(self) -> int:
        """Numbers in the whole model.

        A GPT has ``12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h))``, except for its last norm
        (Narayanan et al. 2021, Efficient large-scale language model training on GPU clusters using
        Megatron-LM, SC21, section 5.1).
        """
        return (
            self.layers * self.layer_parameters
            + self.input_embedding_parameters
            + self.output_parameters
        )


@dataclass(frozen=True, slots=True)
class TokenFlop:
    """FLOP for one token: of one layer in each of three passes, and of the output projection.

    The output projection costs `vocabulary` in each pass.
    """

    forward: Halves
    input_gradient: Halves
    weight_gradient: Halves
    vocabulary: float

    @property
    def layer_total(self) -> float:
        """FLOP of one layer in all three passes."""
        return self.forward.total + self.input_gradient.total + self.weight_gradient.total


def token_flop(model: Transformer) -> TokenFlop:
    """Return the FLOP of a model for one token."""
    projections = 2.0 * model.attention_matrix_parameters
    scores = 4.0 * model.sequence_tokens * model.query_width
    ffn = 2.0 * model.active_ffn_parameters
    return TokenFlop(
        forward=Halves(projections + scores, ffn),
        input_gradient=Halves(projections + 2 * scores, ffn),
        weight_gradient=Halves(projections, ffn),
        vocabulary=2.0 * model.hidden * model.vocabulary,
    )


def training_flop_per_token(model: Transformer) -> float:
    """Return the FLOP of forward and backward for one token, without recomputation."""
    flop = token_flop(model)
    return model.layers * flop.layer_total + 3 * flop.vocabulary
