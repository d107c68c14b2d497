"""A training step as a value: the work and messages of each rank, without times."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import NamedTuple

from faultline.strategies.rerouted_schedule import SplitBackward


class RingEdge(NamedTuple):
    """A message of a ring.

    Attributes
    ----------
    sender, receiver : int
        Members, by their numbers.
    share : float
        Share of the bytes that a member sends in a single ring.
    """

    sender: int
    receiver: int
    share: float


def ring_edges(domains: Sequence[Hashable]) -> tuple[RingEdge, ...]:
    """Return the messages of a collective's members, given the domain of each.

    NCCL cuts a collective into rings, as many as the domain with the fewest members has. Each ring
    passes all members of a domain and leaves it by another member's adapter. So a member sends to
    its neighbour in the domain, and its part of the bytes to the member of its place in the next
    domain.

    An adapter carries 1/n of the bytes for n members in each domain. So a domain sends as many
    bytes as a ring of single GPUs would, once.
    """
    members: dict[Hashable, list[int]] = {}
    for member, domain in enumerate(domains):
        members.setdefault(domain, []).append(member)
    if len(domains) < 2:
        return ()
    blocks, apart = list(members.values()), len(members) > 1
    rings = min(map(len, blocks))
    edges = []
    for number, block in enumerate(blocks):
        following = blocks[(number + 1) % len(blocks)]
        for place, member in enumerate(block):
            if len(block) > 1:
                inside = 1.0 - 1.0 / len(block) if apart else 1.0
                edges.append(RingEdge(member, block[(place + 1) % len(block)], inside))
            if apart and place < rings:
                edges.append(RingEdge(member, following[place], 1.0 / rings))
    return tuple(edges)


@dataclass(frozen=True, slots=True)
class PartWork:
    """One micro-batch on one part of the model, for each of its tensor-parallel ranks.

    Attributes
    ----------
    forward_flop, backward_flop : float
        Computation, as the GPU's host is given it.
    forward_tensor_bytes, backward_tensor_bytes : float
        Bytes that each rank sends to the next in the rings of its tensor-parallel group.
    forward_context_bytes, backward_context_bytes : float
        Bytes that each rank sends to the next in the ring that shares its sequences.
    beside_flop : float
        Computation behind the forward pass that only its rank's next pass waits for.
    forward_tensor_hops, backward_tensor_hops : float
        Latencies of a message to the next rank that these rings pay, one after the other.
    forward_context_hops, backward_context_hops : float
        The same of the ring that shares sequences.
    """

    forward_flop: float
    backward_flop: float
    forward_tensor_bytes: float = 0.0
    backward_tensor_bytes: float = 0.0
    forward_context_bytes: float = 0.0
    backward_context_bytes: float = 0.0
    beside_flop: float = 0.0
    forward_tensor_hops: float = 0.0
    backward_tensor_hops: float = 0.0
    forward_context_hops: float = 0.0
    backward_context_hops: float = 0.0

    def __add__(self, other: PartWork) -> PartWork:
        """Return both, one behind the other."""
        return PartWork(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def scaled(self, factor: float) -> PartWork:
        """Return a multiple of the work."""
        return PartWork(*(amount * factor for amount in astuple(self)))

    def slower(self, factor: float) -> PartWork:
        """Return work that takes `factor` times as long to compute."""
        return replace(
            self,
            forward_flop=self.forward_flop * factor,
            backward_flop=self.backward_flop * factor,
            beside_flop=self.beside_flop * factor,
        )


class Held(NamedTuple):
    """The work of a rank for its weights, besides the passes; see `StepPattern`."""

    hidden_gradient_bytes: float = 0.0
    gradient_bytes: float = 0.0
    optimizer_flop: float = 0.0
    hidden_weight_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class LayerCut:
    """How the parts of a model are made of layers, so that they can be cut otherwise.

    Attributes
    ----------
    counts : tuple of int
        Layers of each part.
    work : PartWork
        One layer.
    held : Held
        The weights of one layer.
    """

    counts: tuple[int, ...]
    work: PartWork
    held: Held


@dataclass(frozen=True, slots=True)
class StepPattern:
    """The work of a job's ranks in a step.

    A rank has a replica, a stage and a tensor-parallel position. Part v p + s of the model is the
    v-th on stage s of p.

    Attributes
    ----------
    data, pipeline, tensor : int
        Replicas, stages, tensor-parallel ranks of a stage.
    context : int
        Neighbouring replicas that share their sequences.
    micro_batches : int
        Micro-batches of a replica.
    parts : tuple of PartWork
        The parts of the model, in order; a multiple of the stages.
    send_bytes : float
        Activations of a micro-batch, or their gradients, from a rank to its peer in the next stage.
    send_blocks : float
        Share of a send during which its sender does nothing else.
    hidden_gradient_bytes : tuple of float
        By stage: bytes of each rank to other replicas while its last micro-batch is computed,
        an equal part of it for each of the stage's parts of the model.
    gradient_bytes : tuple of float
        The same, behind that.
    optimizer_flop : tuple of float
        By stage: computation of the optimizer.
    hidden_weight_bytes : tuple of float
        The same as `hidden_gradient_bytes`, while its first micro-batch is computed: updated
        weights, without which no second one begins. Nothing if empty.
    nodes : tuple of int
        By stage: the stage whose GPUs do it, if some do several; each its own if empty.
    layers : LayerCut or None
        The layers of the parts, if known.
    resharded : tuple of tuples of (int, int, float)
        By stage: which position sends which other how many bytes of gradients while its last
        micro-batch goes backward, so that fewer ranks have all of them. Nothing if empty.
    rings : tuple of tuple of RingEdge
        By stage: sender, receiver and share of the bytes between replicas; each all
        of them to the next one if empty.
    orders, staggered
        As in `strategies.step_shares.Pipeline`; a stage then has one part.
    split : SplitBackward or None
        How pipelines without orders of their own split their backward pass; None for 1F1B.
    """

    data: int
    pipeline: int
    tensor: int
    context: int
    micro_batches: int
    parts: tuple[PartWork, ...]
    send_bytes: float
    send_blocks: float
    hidden_gradient_bytes: tuple[float, ...]
    gradient_bytes: tuple[float, ...]
    optimizer_flop: tuple[float, ...]
    hidden_weight_bytes: tuple[float, ...] = ()
    nodes: tuple[int, ...] = ()
    layers: LayerCut | None = None
    resharded: tuple[tuple[tuple[int, int, float], ...], ...] = ()
    rings: tuple[tuple[RingEdge, ...], ...] = ()
    orders: tuple[str, ...] = ()
    staggered: bool = False
    split: SplitBackward | None = None

    def scheduled(self) -> StepPattern:
        """Return the step with the orders of its schedule, unless it has some.

        Stages that share a node cannot each count time from their own beginning.
        """
        if self.split is None or self.orders:
            return self
        sound = self.split.healthy(self.pipeline, self.micro_batches)
        return replace(self, orders=sound.orders, staggered=not self.nodes)

    def slower(self, factor: float) -> StepPattern:
        """Return the step with passes that take `factor` times as long to compute."""
        layers = self.layers
        if layers is not None:
            layers = replace(layers, work=layers.work.slower(factor))
        return replace(self, parts=tuple(part.slower(factor) for part in self.parts), layers=layers)

    def gradient_vector_bytes(self, sent_bytes: float) -> float:
        """Return the gradients of all ranks of a stage, from the bytes of each in rings of all."""
        return sent_bytes * self.tensor / 2 / (1.0 - 1.0 / self.data) if self.data > 1 else 0.0

    def edges(self, stage: int) -> tuple[RingEdge, ...]:
        """Return the messages between replicas of a stage."""
        return self.rings[stage] if self.rings else ring_edges(range(self.data))

    @property
    def hides(self) -> bool:
        """Whether gradients or weights hide behind the passes."""
        return any(self.hidden_gradient_bytes) or any(self.hidden_weight_bytes)

    @property
    def virtual_stages(self) -> int:
        """Parts of the model on each stage."""
        return len(self.parts) // self.pipeline

    @property
    def stage_flop(self) -> list[float]:
        """The computation of a rank of each stage for a micro-batch."""
        parts = [part.forward_flop + part.backward_flop + part.beside_flop for part in self.parts]
        return [sum(parts[stage :: self.pipeline]) for stage in range(self.pipeline)]

    @property
    def held(self) -> tuple[Held, ...]:
        """The work of a rank of each stage for its weights."""
        gathered = self.hidden_weight_bytes or (0.0,) * self.pipeline
        kinds = (self.hidden_gradient_bytes, self.gradient_bytes, self.optimizer_flop, gathered)
        return tuple(map(Held, *kinds))

    def cut_into(self, counts: Sequence[int]) -> tuple[PartWork, ...]:
        """Return the parts of the same model with other numbers of layers.

        Raises
        ------
        ValueError
            If nothing is known of its layers.
        """
        if self.layers is None:
            raise ValueError("the step says nothing of the model's layers")
        layer, first, last = self.layers.work, self.parts[0], self.parts[-1]
        # Work of the ends besides their layers: the output, and the gathering at a border.
        output = last + layer.scaled(-self.layers.counts[-1])
        border = first + layer.scaled(-self.layers.counts[0])
        forward_gather = backward_gather = PartWork(0.0, 0.0)
        if len(self.parts) > 1:
            forward_gather = replace(
                forward_gather,
                forward_tensor_bytes=output.forward_tensor_bytes,
                forward_tensor_hops=output.forward_tensor_hops,
            )
            backward_gather = replace(
                backward_gather,
                backward_tensor_bytes=border.backward_tensor_bytes,
                backward_tensor_hops=border.backward_tensor_hops,
            )
        parts = []
        for place, count in enumerate(counts):
            part = layer.scaled(count)
            if place > 0:
                part += forward_gather
            if place < len(counts) - 1:
                part += backward_gather
            else:
                part += PartWork(output.forward_flop, output.backward_flop)
            parts.append(part)
        return tuple(parts)

    @property
    def held_by_layer(self) -> tuple[Held, ...]:
        """The work of a rank for each layer's weights; the ends include their own weights."""
        assert self.layers is not None
        counts, held = self.layers.counts, self.layers.held
        each = [held] * sum(counts)
        of_stages = self.held
        for place, stage in ((0, 0), (-1, self.pipeline - 1)):
            own = sum(counts[stage :: self.pipeline])
            each[place] = Held(
                *(
                    whole - own * one + kept
                    for whole, one, kept in zip(of_stages[stage], held, each[place], strict=True)
                )
            )
            if self.pipeline == 1:
                break
        return tuple(each)


def resharding(vector: float, degree: int, lowest: int) -> Iterator[tuple[int, int, float]]:
    """Yield sender, receiver and size: shards of ranks beyond the lowest degree, dealt out evenly.

    Given the bytes of a vector over all ranks.
    """
    own, spares = vector / degree, degree - lowest
    gets = own * spares / lowest
    for spare in range(spares):
        for core in range(lowest):
            amount = min((spare + 1) * own, (core + 1) * gets) - max(spare * own, core * gets)
            if amount > 1e-9 * own:
                yield lowest + spare, core, amount
