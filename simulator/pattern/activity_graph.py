"""The graph of a pattern: the activities of its ranks, and which of them wait for which.

An activity is a computation, a message, or a meeting point, which takes no time. It begins when all
activities that it waits for have ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from faultline.simulator.pattern.ordered_passes import OrderedPasses
from faultline.simulator.pattern.step_pattern import PassWork, RingEdge, StepPattern
from faultline.strategies.interface.pipeline_schedule import Pass, stage_passes

Kind = Literal[
    "compute",
    "tensor",
    "context",
    "pipeline",
    "hidden send",
    "unit",
    "gradient",
    "optimizer",
    "meeting",
]


class Rank(NamedTuple):
    """The position of a rank in the job's layout."""

    replica: int
    stage: int
    position: int


Ring = tuple[tuple[Rank, Rank, float], ...]
"""Senders and receivers of a ring, and the share of the bytes between them."""


class Activity(NamedTuple):
    """A computation at a rank, or a message to `peer`.

    Attributes
    ----------
    kind : str
        Its purpose.
    rank : Rank
        The rank that computes or sends.
    peer : Rank or None
        The rank that receives; None for a computation.
    amount : float
        FLOP, or bytes; for a `ring`, the number of latencies beyond that of its messages.
    ring : tuple of (Rank, Rank, float)
        If not empty, the activity is the latency of a ring, taken as the mean over its routes:
        sender, receiver and share in the mean of each.
    """

    kind: Kind
    rank: Rank
    peer: Rank | None
    amount: float
    ring: Ring = ()


@dataclass(slots=True)
class ActivityGraph:
    """Activities, and for each the numbers of those that must have ended before it begins."""

    activities: list[Activity] = field(default_factory=list)
    waits_for: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, activity: Activity, waits_for: tuple[int, ...]) -> int:
        """Add an activity and return its number."""
        self.activities.append(activity)
        self.waits_for.append(waits_for)
        return len(self.activities) - 1


@dataclass(frozen=True, slots=True)
class Fold:
    """The ranks that are simulated; each represents all ranks equal to it.

    Attributes
    ----------
    replicas, positions : tuple of int
        The replicas and tensor-parallel positions that are simulated.
    closes : bool
        Whether tensor-parallel rings close among the simulated positions, if there are several.
        Otherwise messages go to their true receivers, simulated or not.
    """

    replicas: tuple[int, ...]
    positions: tuple[int, ...]
    closes: bool = False

    @classmethod
    def whole(cls, pattern: StepPattern) -> Fold:
        """Return the fold in which all ranks are simulated."""
        return cls(tuple(range(pattern.data)), tuple(range(pattern.tensor)))

    def next_position(self, rank: Rank, pattern: StepPattern) -> Rank:
        """Return the receiver of a rank in its tensor-parallel ring."""
        if self.closes and len(self.positions) > 1:
            place = self.positions.index(rank.position) + 1
            return rank._replace(position=self.positions[place % len(self.positions)])
        return rank._replace(position=(rank.position + 1) % pattern.tensor)

    def edges(self, pattern: StepPattern, stage: int) -> list[RingEdge]:
        """Return the messages between replicas that are simulated.

        If rings close, this includes messages from replicas that are not simulated: such a message
        leaves when the replica that represents its sender sends.
        """
        return self._simulated(pattern.edges(stage))

    def _simulated(self, edges: Iterable[RingEdge]) -> list[RingEdge]:
        simulated = set(self.replicas)
        return [
            edge
            for edge in edges
            if edge.sender in simulated or (self.closes and edge.receiver in simulated)
        ]

    def unit_edges(self, pattern: StepPattern, stage: int) -> list[RingEdge]:
        """Return the messages of units of sharded weights that are simulated; see `edges`."""
        return self._simulated(pattern.unit_edges(stage))

    def next_context(self, rank: Rank, pattern: StepPattern) -> Rank:
        """Return the receiver of a rank's keys and values."""
        first = rank.replica - rank.replica % pattern.context
        replica = first + (rank.replica + 1 - first) % pattern.context
        return Rank(replica, rank.stage, rank.position)


def passes_graph(pattern: StepPattern, fold: Fold) -> ActivityGraph:
    """Return the forward and backward passes of a step, with the messages hidden behind them."""
    graph = ActivityGraph()
    for replica in fold.replicas:
        _Replica(pattern, fold, replica, graph).write()
    return graph


def meet(graph: ActivityGraph, numbers: tuple[int, ...], rank: Rank) -> tuple[int, ...]:
    """Return one activity that ends when all of several have; it is added if there are several."""
    if len(numbers) < 2:
        return numbers
    return (graph.add(Activity("meeting", rank, None, 0.0), numbers),)


def pay_latencies(
    graph: ActivityGraph, kind: Kind, ring: Ring, hops: float, messages: tuple[int, ...]
) -> tuple[int, ...]:
    """Add the latencies of a ring after its messages, which include the first of them."""
    rank = ring[0][0]
    if hops <= 1.0:
        return meet(graph, messages, rank)
    return (graph.add(Activity(kind, rank, None, hops - 1.0, ring), messages),)


class _Replica:
    """Writes the passes of one replica."""

    def __init__(
        self, pattern: StepPattern, fold: Fold, replica: int, graph: ActivityGraph
    ) -> None:
        self._pattern, self._fold = pattern, fold
        self._replica, self._graph = replica, graph
        stages = range(pattern.pipeline)
        self._edges = [self._own(fold.edges(pattern, stage)) for stage in stages]
        self._unit_edges = [self._own(fold.unit_edges(pattern, stage)) for stage in stages]
        self._arrived: dict[tuple[Pass, int], tuple[int, ...]] = {}
        self._free: dict[tuple[int, int], tuple[int, ...]] = {}
        self._gathered: dict[Rank, tuple[int, ...]] = {}
        self._ordered: OrderedPasses | None = None
        if pattern.orders:
            self._ordered = OrderedPasses(pattern.orders, pattern.staggered)
        self._done: dict[tuple[Pass, int], tuple[int, ...]] = {}

    def _own(self, edges: Iterable[RingEdge]) -> list[RingEdge]:
        """Return messages that it sends, and those to it from replicas that are not simulated."""
        own, simulated = self._replica, set(self._fold.replicas)
        return [
            edge
            for edge in edges
            if edge.sender == own or (edge.receiver == own and edge.sender not in simulated)
        ]

    def write(self) -> None:
        """Write all passes, each once its input is known."""
        for stage, pass_ in self._in_order():
            self._write(stage, pass_)

    def _passes(self, stage: int) -> Iterable[Pass]:
        pattern = self._pattern
        if self._ordered:
            return self._ordered.stages[stage]
        return stage_passes(stage, pattern.pipeline, pattern.virtual_stages, pattern.micro_batches)

    def _in_order(self) -> Iterator[tuple[int, Pass]]:
        """Yield the passes of all stages, each after the pass that its input comes from.

        Stages on the same node take turns.
        """
        waiting = {stage: deque(self._passes(stage)) for stage in range(self._pattern.pipeline)}
        written: set[Pass | None] = {None}
        at_once = 1 if self._pattern.nodes else None
        while any(waiting.values()):
            for stage, queue in waiting.items():
                for _ in range(at_once or len(queue)):
                    if not queue or self._input_of(queue[0]) not in written:
                        break
                    written.add(queue[0])
                    yield stage, queue.popleft()

    def _input_of(self, pass_: Pass) -> Pass | None:
        """Return the pass whose result a pass needs; None for a forward pass of the first part."""
        if self._ordered:
            return self._ordered.input_of(pass_)
        last = len(self._pattern.parts) - 1
        if pass_.forward:
            before = pass_.part - 1
            return Pass(True, before, pass_.micro_batch) if before >= 0 else None
        if pass_.part == last:
            return Pass(True, last, pass_.micro_batch)
        return Pass(False, pass_.part + 1, pass_.micro_batch)

    def _write(self, stage: int, pass_: Pass) -> None:
        pattern, graph, fold = self._pattern, self._graph, self._fold
        part, forward = pattern.parts[pass_.part], pass_.forward
        work = part.forward if forward else part.backward
        flop, tensor, context, tensor_hops, context_hops = work[:5]
        needed = self._ordered.input_of(pass_) if self._ordered else None
        if self._ordered and not forward:
            flop *= self._ordered.share_of_backward(pass_)
            tensor, context = (0.0, 0.0) if pass_.weights else (tensor, context)
        ranks = [Rank(self._replica, stage, position) for position in fold.positions]
        done: dict[Rank, tuple[int, ...]] = {}
        for rank in ranks:
            free = self._free.get((self._node(stage), rank.position), ())
            waits_for = (*free, *self._arrived.pop((pass_, rank.position), ()))
            if needed is not None and needed.part != stage and needed.forward != forward:
                waits_for += self._done[needed, rank.position]
            if work.units:
                done[rank] = self._write_units(rank, work, waits_for)
            else:
                done[rank] = (graph.add(Activity("compute", rank, None, flop), waits_for),)
            done[rank] += self._hide(rank, pass_, waits_for)
        if tensor > 0.0:
            ring = tuple((rank, fold.next_position(rank, pattern), 1.0) for rank in ranks)
            messages = tuple(
                graph.add(Activity("tensor", rank, peer, tensor), done[rank])
                for rank, peer, _ in ring
            )
            done = dict.fromkeys(ranks, pay_latencies(graph, "tensor", ring, tensor_hops, messages))
        if context > 0.0:
            for rank, before in done.items():
                peer = fold.next_context(rank, pattern)
                message = graph.add(Activity("context", rank, peer, context), before)
                hop = ((rank, peer, 1.0),)
                done[rank] = pay_latencies(graph, "context", hop, context_hops, (message,))
        for rank, before in done.items():
            if self._ordered:
                self._done[pass_, rank.position] = before
            free = self._send(rank, pass_, before)
            if forward and part.beside_flop:
                free = (graph.add(Activity("compute", rank, None, part.beside_flop), free),)
            self._free[self._node(stage), rank.position] = free

    def _write_units(
        self, rank: Rank, work: PassWork, waits_for: tuple[int, ...]
    ) -> tuple[int, ...]:
        """Write the computation of a pass between messages of its sharded weights.

        While a unit is computed, the weights of the next one are gathered, and the gradients of the
        one before are reduced. With n equal units that take c to compute and g to gather, this
        lasts ``g + (n - 1) max(c, g) + c``: so one unit is gathered before, all but the last are
        computed while all but the first are gathered, then the last is computed. Messages that do
        not hide are sent before or after the computation. The gradients of the last unit delay no
        computation. Returns the activities that the next pass waits for.
        """
        graph, overlap = self._graph, self._pattern.unit_overlap
        one = 1.0 / max(1.0, work.units)
        rest = 1.0 - one
        links: Ring = tuple(
            (rank._replace(replica=sender), rank._replace(replica=receiver), share)
            for sender, receiver, share in self._unit_edges[rank.stage]
        )

        def compute(share: float, before: tuple[int, ...]) -> tuple[int, ...]:
            if share < 1e-9:
                return before
            return (graph.add(Activity("compute", rank, None, share * work.flop), before),)

        def send(kind: Kind, size: float, before: tuple[int, ...]) -> tuple[int, ...]:
            if size <= 0.0:
                return ()
            return tuple(
                graph.add(Activity(kind, sender, receiver, size * share), before)
                for sender, receiver, share in links
            )

        def wait(size: float, hops: float, before: tuple[int, ...]) -> tuple[int, ...]:
            sent = send("unit", size, before)
            return pay_latencies(graph, "unit", links, hops, sent) if sent else before

        size, hops = work.gather_bytes, work.gather_hops
        is_ahead = self._pattern.backward_prefetch or not work.reduce_bytes
        shown = one + (1.0 - overlap * is_ahead) * rest
        ready = wait(shown * size, shown * hops, waits_for)
        ahead = wait((1.0 - shown) * size, (1.0 - shown) * hops, ready)
        if not work.reduce_bytes:
            return compute(one, (*compute(rest, ready), *ahead))
        begun = compute(one, ready) if rest else ready
        done = compute(one, (*compute(rest - one, begun), *ahead))
        send("gradient", overlap * rest * work.reduce_bytes, begun)
        send("gradient", one * work.reduce_bytes, done)
        late = (1.0 - overlap) * rest
        return wait(late * work.reduce_bytes, late * work.reduce_hops, done)

    def _node(self, stage: int) -> int:
        """Return the stage whose GPUs compute a stage."""
        return self._pattern.nodes[stage] if self._pattern.nodes else stage

    def _hide(self, rank: Rank, pass_: Pass, waits_for: tuple[int, ...]) -> tuple[int, ...]:
        """Send the messages hidden behind a pass: weights, or gradients of its part.

        Returns the activities that the next pass waits for; only the step's end waits for
        gradients.
        """
        pattern, graph, stage = self._pattern, self._graph, rank.stage
        if not (pass_.micro_batch == 0 if pass_.forward else self._is_last(stage, pass_)):
            return ()
        hidden = pattern.hidden_weight_bytes if pass_.forward else pattern.hidden_gradient_bytes
        part = 1.0 / pattern.virtual_stages
        if hidden and hidden[stage] > 0.0:
            # Parts are gathered one after the other; a pass waits for its own part only.
            before = self._gathered.get(rank, ()) if pass_.forward else waits_for
            messages = tuple(
                graph.add(
                    Activity(
                        "gradient",
                        rank._replace(replica=edge.sender),
                        rank._replace(replica=edge.receiver),
                        hidden[stage] * part * edge.share,
                    ),
                    before,
                )
                for edge in self._edges[stage]
            )
            if pass_.forward:
                self._gathered[rank] = messages
                return messages
        if pattern.resharded and not pass_.forward:
            for spare, core, size in pattern.resharded[stage]:
                if spare == rank.position:
                    peer = rank._replace(position=core)
                    graph.add(Activity("gradient", rank, peer, size * part), waits_for)
        return ()

    def _is_last(self, stage: int, pass_: Pass) -> bool:
        """Return whether the gradients of a part are complete after a backward pass."""
        if self._ordered:
            return pass_ == self._ordered.stages[stage][-1]
        return pass_.micro_batch == self._pattern.micro_batches - 1

    def _send(self, rank: Rank, pass_: Pass, done: tuple[int, ...]) -> tuple[int, ...]:
        """Send a pass's result; return the activities that its rank's next pass waits for."""
        if self._ordered:
            for follows in self._ordered.receivers(pass_):
                done = self._send_to(rank, follows, done)
            return done
        part = pass_.part + (1 if pass_.forward else -1)
        if not 0 <= part < len(self._pattern.parts):
            return done
        return self._send_to(rank, Pass(pass_.forward, part, pass_.micro_batch), done)

    def _send_to(self, rank: Rank, follows: Pass, done: tuple[int, ...]) -> tuple[int, ...]:
        """Send the input of a pass; return the activities that the sender waits for."""
        pattern = self._pattern
        stage = follows.part % pattern.pipeline
        if self._node(stage) == self._node(rank.stage):
            self._arrived[follows, rank.position] = done
            return done
        peer = Rank(rank.replica, stage, rank.position)
        message = Activity("pipeline", rank, peer, pattern.send_bytes * pattern.send_blocks)
        free = done
        if message.amount > 0.0:
            free = (self._graph.add(message, done),)
        arrived = free
        if pattern.send_blocks < 1.0:
            rest = pattern.send_bytes * (1.0 - pattern.send_blocks)
            arrived = (self._graph.add(Activity("hidden send", rank, peer, rest), free),)
        self._arrived[follows, rank.position] = arrived
        return free
