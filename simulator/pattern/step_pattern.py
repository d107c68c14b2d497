"""A training step as a value: the work and messages of each rank, without times."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import NamedTuple

from faultline.strategies.interface.split_backward import SplitBackward


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


def edges_within(domains: Sequence[Hashable]) -> tuple[RingEdge, ...]:
    """Return the messages of a ring in each domain, given the domain of each member."""
    blocks = _blocks(domains).values()
    return tuple(
        RingEdge(member, block[(place + 1) % len(block)], 1.0)
        for block in blocks
        if len(block) > 1
        for place, member in enumerate(block)
    )


def edges_across(domains: Sequence[Hashable]) -> tuple[RingEdge, ...]:
    """Return the messages of `ring_edges` that leave a domain."""
    edges = ring_edges(domains)
    return tuple(edge for edge in edges if domains[edge.sender] != domains[edge.receiver])


def _blocks(domains: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    """Return the members of each domain."""
    members: dict[Hashable, list[int]] = {}
    for member, domain in enumerate(domains):
        members.setdefault(domain, []).append(member)
    return members


def ring_edges(domains: Sequence[Hashable]) -> tuple[RingEdge, ...]:
    """Return the messages of a collective's members, given the domain of each.

    NCCL cuts a collective into one ring per member of the smallest domain. Each ring passes all
    members of a domain and leaves it through the adapter of a different member. So a member sends
    to its neighbour in the domain, and its part of the bytes to the member at the same place in the
    next domain.

    With n members in each domain, an adapter carries 1/n of the bytes. So a domain sends the same
    bytes as a single GPU in a ring of GPUs.
    """
    members = _blocks(domains)
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


class PassWork(NamedTuple):
    """A pass of one micro-batch over one part of the model, for each tensor-parallel rank."""

    flop: float = 0.0  # Computation that the GPU's host executes.
    # Bytes that a rank sends to the next in the rings of its tensor-parallel group, and in the ring
    # that shares its sequences.
    tensor_bytes: float = 0.0
    context_bytes: float = 0.0
    # Number of latencies to the next rank that these rings take, one after the other.
    tensor_hops: float = 0.0
    context_hops: float = 0.0
    # If replicas share weights: the units that are gathered one after the other, the bytes that a
    # rank sends in the rings that gather their weights and reduce their gradients to shards, and
    # the latencies of these.
    units: float = 0.0
    gather_bytes: float = 0.0
    gather_hops: float = 0.0
    reduce_bytes: float = 0.0
    reduce_hops: float = 0.0

    def then(self, other: PassWork) -> PassWork:
        """Return the work of both passes, one after the other."""
        return PassWork(*map(add, self, other))

    def scaled(self, factor: float) -> PassWork:
        """Return a multiple of the work."""
        return PassWork(*(amount * factor for amount in self))

    def with_units(
        self, units: float, gather: tuple[float, float], reduce: tuple[float, float]
    ) -> PassWork:
        """Return the pass with units of sharded weights, given bytes and latencies of messages."""
        gathered = self._replace(units=units, gather_bytes=gather[0], gather_hops=gather[1])
        return gathered._replace(reduce_bytes=reduce[0], reduce_hops=reduce[1])

    def on_fewer(self, share: float) -> PassWork:
        """Return the pass if a rank sends only a share of the bytes between replicas."""
        gather, reduce = share * self.gather_bytes, share * self.reduce_bytes
        return self._replace(gather_bytes=gather, reduce_bytes=reduce)

    def slower(self, factor: float) -> PassWork:
        """Return work that takes `factor` times as long to compute."""
        return self._replace(flop=self.flop * factor)


_NO_WORK = PassWork()


@dataclass(frozen=True, slots=True)
class PartWork:
    """One micro-batch on one part of the model."""

    forward: PassWork = _NO_WORK
    backward: PassWork = _NO_WORK
    # Computation after the forward pass for which only the next pass of the same rank waits.
    beside_flop: float = 0.0

    def __add__(self, other: PartWork) -> PartWork:
        """Return the work of both parts, one after the other."""
        return PartWork(
            self.forward.then(other.forward),
            self.backward.then(other.backward),
            self.beside_flop + other.beside_flop,
        )

    def scaled(self, factor: float) -> PartWork:
        """Return a multiple of the work."""
        passes = (self.forward.scaled(factor), self.backward.scaled(factor))
        return PartWork(*passes, self.beside_flop * factor)

    def on_fewer(self, share: float) -> PartWork:
        """Return the part if a rank sends only a share of the bytes between replicas."""
        passes = (self.forward.on_fewer(share), self.backward.on_fewer(share))
        return PartWork(*passes, self.beside_flop)

    def slower(self, factor: float) -> PartWork:
        """Return work that takes `factor` times as long to compute."""
        passes = (self.forward.slower(factor), self.backward.slower(factor))
        return PartWork(*passes, self.beside_flop * factor)


class Held(NamedTuple):
    """The work of a rank for its weights outside of the passes; see `StepPattern`."""

    hidden_gradient_bytes: float = 0.0
    gradient_bytes: float = 0.0
    optimizer_flop: float = 0.0
    hidden_weight_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class LayerCut:
    """The layers of a model's parts, so that the model can be cut into other parts.

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

    A rank has a replica, a stage and a tensor-parallel position. With p stages, part v p + s of the
    model is the v-th part on stage s.

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
        Bytes of a micro-batch's activations, or of their gradients, from a rank to its peer in the
        next stage.
    send_blocks : float
        Share of a send during which its sender does nothing else.
    hidden_gradient_bytes : tuple of float
        By stage: bytes that each rank sends to other replicas while its last micro-batch is
        computed, in equal shares for the stage's parts of the model.
    gradient_bytes : tuple of float
        By stage: bytes that each rank sends to other replicas after the passes.
    optimizer_flop : tuple of float
        By stage: computation of the optimizer.
    hidden_weight_bytes : tuple of float
        By stage: bytes of updated weights that each rank sends to other replicas while its first
        micro-batch is computed. The second one waits for them. Empty if there are none.
    nodes : tuple of int
        By stage: the stage whose GPUs compute it. Empty if each stage has GPUs of its own.
    layers : LayerCut or None
        The layers of the parts, if known.
    resharded : tuple of tuples of (int, int, float)
        By stage: sender, receiver and bytes of gradients that positions send to fewer positions
        during the backward pass of the last micro-batch. Empty if there are none.
    rings : tuple of tuple of RingEdge
        By stage: messages between replicas. If empty, each replica sends all bytes to the next.
    orders, staggered
        As in `strategies.step_shares.Pipeline`; each stage then has one part.
    split : SplitBackward or None
        How pipelines without orders of their own split their backward pass; None for 1F1B.
    unit_overlap : float
        Share of a unit's messages between replicas that hides behind the units before or after it.
    backward_prefetch : bool
        Whether that holds for weights of the backward pass.
    shards_in_domains : bool
        Whether only replicas of the same scale-up domain share weights.
    unit_rings : tuple of tuple of RingEdge
        As `rings`, of units of sharded weights.
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
    unit_overlap: float = 0.0
    backward_prefetch: bool = True
    shards_in_domains: bool = False
    unit_rings: tuple[tuple[RingEdge, ...], ...] = ()

    def scheduled(self) -> StepPattern:
        """Return the step with the orders of its schedule, unless it has orders already.

        Stages that share a node cannot be staggered.
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
        """Return the bytes of a stage's gradients, given those that each rank sends in its ring."""
        return sent_bytes * self.tensor / 2 / (1.0 - 1.0 / self.data) if self.data > 1 else 0.0

    def edges(self, stage: int) -> tuple[RingEdge, ...]:
        """Return the messages between replicas of a stage."""
        return self.rings[stage] if self.rings else ring_edges(range(self.data))

    def unit_edges(self, stage: int) -> tuple[RingEdge, ...]:
        """Return the messages between replicas of a stage that share weights."""
        return self.unit_rings[stage] if self.unit_rings else self.edges(stage)

    @property
    def has_units(self) -> bool:
        """Whether replicas share weights, which each pass gathers."""
        return any(part.forward.gather_bytes > 0.0 for part in self.parts)

    @property
    def hides(self) -> bool:
        """Whether replicas exchange gradients or weights during the passes."""
        hidden = any(self.hidden_gradient_bytes) or any(self.hidden_weight_bytes)
        return hidden or self.has_units

    @property
    def virtual_stages(self) -> int:
        """Parts of the model on each stage."""
        return len(self.parts) // self.pipeline

    @property
    def stage_flop(self) -> list[float]:
        """The computation of a rank of each stage for a micro-batch."""
        parts = [part.forward.flop + part.backward.flop + part.beside_flop for part in self.parts]
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
            If its layers are unknown.
        """
        if self.layers is None:
            raise ValueError("the layers of the step's model are unknown")
        layer, first, last = self.layers.work, self.parts[0], self.parts[-1]
        # The work of the first and last part beyond their layers: output, and all-gathers between
        # parts.
        output = last + layer.scaled(-self.layers.counts[-1])
        border = first + layer.scaled(-self.layers.counts[0])
        forward_gather = backward_gather = PartWork()
        if len(self.parts) > 1:
            received, sent = output.forward, border.backward
            forward_gather = PartWork(
                PassWork(tensor_bytes=received.tensor_bytes, tensor_hops=received.tensor_hops)
            )
            backward_gather = PartWork(
                backward=PassWork(tensor_bytes=sent.tensor_bytes, tensor_hops=sent.tensor_hops)
            )
        parts = []
        for place, count in enumerate(counts):
            part = layer.scaled(count)
            if place > 0:
                part += forward_gather
            if place < len(counts) - 1:
                part += backward_gather
            else:
                part += PartWork(PassWork(output.forward.flop), PassWork(output.backward.flop))
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
    """Yield messages by sender, receiver and bytes that reshard a vector to the lowest degree.

    The ranks beyond that degree send their shards to the others in equal amounts. `vector` is in
    bytes over all ranks.
    """
    own, spares = vector / degree, degree - lowest
    added = own * spares / lowest
    for spare in range(spares):
        for core in range(lowest):
            amount = min((spare + 1) * own, (core + 1) * added) - max(spare * own, core * added)
            if amount > 1e-9 * own:
                yield lowest + spare, core, amount
