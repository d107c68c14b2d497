"""A step in which groups do different work: the teams that compute and exchange gradients.

A team is the set of nodes that compute a group's shard type: the group's own stages, or those of a
scheme's `Pipeline`. Its passes are simulated as a step of its own, on the GPUs of its nodes. After
them it exchanges each weight's gradients with the teams that hold the same weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import add
from typing import NamedTuple

from faultline.simulator.pattern.activity_graph import Rank
from faultline.simulator.pattern.changed_parts import at_degree, of_share
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.pattern.step_pattern import (
    Held,
    RingEdge,
    StepPattern,
    edges_across,
    edges_within,
    resharding,
    ring_edges,
)
from faultline.strategies.interface.step_shares import Pipeline, StageShare

Hosts = Sequence[Sequence[Sequence[str]]]
"""GPU hosts by replica, stage and tensor-parallel position."""
DomainOf = Callable[[Rank], Hashable]
"""Returns the scale-up domain of a rank of the job."""


@dataclass(frozen=True, slots=True)
class Team:
    """The nodes that compute a group's share of the batch.

    Attributes
    ----------
    group : int
        The group whose share it computes.
    pattern : StepPattern
        Its passes; if gradients hide behind them, with one more replica for each of `beside`.
    nodes : tuple of (int, int)
        For each of its stages, the group and stage whose GPUs compute it.
    holds : tuple of int
        For each unit of the model's weights, the stage of the team that holds it.
    beside : tuple of (int, int)
        Replicas of other teams with which its rings exchange gradients: number of the team, and the
        replica's place in it.
    """

    group: int
    pattern: StepPattern
    nodes: tuple[tuple[int, int], ...]
    holds: tuple[int, ...]
    beside: tuple[tuple[int, int], ...] = ()

    @property
    def kind(self) -> object:
        """A key that is equal for teams of equal time if all groups are alike."""
        own = tuple((group - self.group, stage) for group, stage in self.nodes)
        return self.pattern, own if not any(group for group, _ in own) else self.nodes

    @property
    def hides(self) -> bool:
        """Whether gradients or weights hide behind its passes."""
        return self.pattern.hides


EdgesOf = Callable[[Sequence[Hashable]], tuple[RingEdge, ...]]
"""Returns messages between members, given the domain of each."""


class _Edges(NamedTuple):
    """A ring's messages by sender, and by receiver."""

    sent: list[list[RingEdge]]
    received: list[list[RingEdge]]


class Teams:
    """The teams of a step.

    Parameters
    ----------
    pattern : StepPattern
        The work of all groups in an undisturbed step.
    shares : StepShares
        The members and their shares.
    domain_of : callable
        Which ranks share a scale-up domain.

    Attributes
    ----------
    pattern : StepPattern
        As given.
    teams : tuple of Team
        Those with something to do, in the order of the members.
    replicas : int
        Number of their replicas.
    units : tuple of Held
        The work of a rank for each unit of the weights: a stage, or a layer if stages are cut
        differently.
    ring_share : float
        Bytes of a ring over the replicas, over those of a ring over the pattern's replicas.
    degrees : set of int
        The teams' tensor-parallel degrees.
    """

    def __init__(self, pattern: StepPattern, shares: StepShares, domain_of: DomainOf) -> None:
        self.pattern, self._shares, self.domain_of = pattern, shares, domain_of
        usual = Pipeline(-1, (), pattern.micro_batches, pattern.tensor)
        changed = {one.group: one for one in shares.pipelines}
        idle = {group for group, one in changed.items() if not one.stages}
        working = [group for group in shares.members if group not in idle]
        self._by_layer = any(stage.layers for one in shares.pipelines for stage in one.stages)
        self.units = pattern.held_by_layer if self._by_layer else pattern.held
        self.replicas = len(working) * pattern.context
        # Rings over n replicas move (n - 1)/n of what they reduce.
        self.ring_share = 1.0
        if self.replicas != pattern.data:
            whole = (pattern.data - 1) / pattern.data
            self.ring_share = (self.replicas - 1) / self.replicas / whole
        self.degrees = {changed.get(group, usual).tensor for group in working}
        self.teams = tuple(self._team(group, changed.get(group, usual)) for group in working)
        self._rings: dict[tuple[int, EdgesOf], _Edges] = {}
        self.teams = tuple(self._ringed(*one) for one in enumerate(self.teams))

    def kinds(self, classes: Mapping[int, object]) -> tuple[list[Team], list[Team]]:
        """Return teams that represent all, if teams with the same work are alike.

        The first list has one team of each kind. Those of the second must be simulated together:
        they send gradients to another kind behind their passes, or share a node with other teams.
        Teams on groups of different `classes` are of different kinds.
        """
        shared = self._shared_nodes()
        apart: dict[object, Team] = {}
        near: dict[Team, None] = {}
        for team in self.teams:
            neighbours = {number: self.teams[number] for number, _ in team.beside}.values()
            if any(neighbour.kind != team.kind for neighbour in neighbours):
                near.update(dict.fromkeys((team, *neighbours)))
            elif not shared.isdisjoint(team.nodes):
                near[team] = None
            else:
                node_classes = tuple(classes[group] for group, _ in team.nodes)
                apart.setdefault((team.kind, node_classes), team)
        return list(apart.values()), list(near)

    def beside_each_other(
        self, apart: Sequence[Team], near: Sequence[Team], far: int
    ) -> tuple[list[Team], list[Team]]:
        """Return the teams of `kinds` to simulate separately, and those to simulate together.

        Replicas of one scale-up domain share its switch, and the shares of their traffic in it
        differ. So teams that hide gradients are simulated together with all teams of their domain.
        Group `far` represents the groups like it, because its gradients arrive last.
        """
        at_once = dict.fromkeys(near)
        for team in apart:
            if team.hides:
                equals = (each for each in self.teams if each.kind == team.kind)
                farthest = next((each for each in equals if each.group == far), team)
                domains = self._domains(farthest)
                sharing = [
                    each for each in self.teams if not domains.isdisjoint(self._domains(each))
                ]
                at_once.update(dict.fromkeys(sharing if len(sharing) > 1 else ()))
        return [team for team in apart if team not in at_once], list(at_once)

    def _domains(self, team: Team) -> set[Hashable]:
        """Return the scale-up domains of the nodes of a team."""
        ranks = (
            self.rank(team, stage, place, 0)
            for stage in range(team.pattern.pipeline)
            for place in range(self.pattern.context)
        )
        return {self.domain_of(rank) for rank in ranks}

    def _shared_nodes(self) -> set[tuple[int, int]]:
        """Return the nodes that several teams list; their computations add up."""
        teams_of = Counter(node for team in self.teams for node in set(team.nodes))
        return {node for node, teams in teams_of.items() if teams > 1}

    def left_bytes(self, unit: Held) -> float:
        """Return the gradients of a unit of the weights that are exchanged after the passes."""
        hidden = 0.0 if self._shares.reduces else unit.hidden_gradient_bytes
        return unit.gradient_bytes + hidden

    def ring(self, unit: int) -> list[tuple[Team, int, int]]:
        """Return the holders of a unit of the weights: a replica each, by team, stage and place."""
        return [
            (team, team.holds[unit], place)
            for team in self.teams
            for place in range(self.pattern.context)
        ]

    def touched(self, team: Team) -> set[int]:
        """Return the groups whose GPUs a team computes on, or sends to during its passes."""
        context = team.pattern.context
        rings = (*team.pattern.rings, *team.pattern.unit_rings)
        sent_to = {edge.receiver for edges in rings for edge in edges}
        others = (team.beside[replica - context][0] for replica in sent_to if replica >= context)
        nodes = [*team.nodes, *(node for number in others for node in self.teams[number].nodes)]
        return {group for group, _ in nodes}

    def hosts(self, team: Team, hosts: Hosts) -> Hosts:
        """Return the GPUs of a team, by the replicas of its pattern, given those of the job."""
        context, tensor = self.pattern.context, team.pattern.tensor
        nodes = list(team.nodes)
        placed = [
            [hosts[group * context + place][stage][:tensor] for group, stage in nodes]
            for place in range(context)
        ]
        for number, place in team.beside:
            peer = self.teams[number]
            peer_nodes = [
                peer.nodes[peer.holds[team.holds.index(run)]] for run in range(len(nodes))
            ]
            names = [hosts[group * context + place][node] for group, node in peer_nodes]
            degree = peer.pattern.tensor
            placed.append([[each[at % degree] for at in range(tensor)] for each in names])
        return placed

    def rank_of(self, placed: tuple[Team, Rank]) -> Rank:
        """Return a rank of the job, given its team and the rank in the team's pattern."""
        team, rank = placed
        return self.rank(team, rank.stage, rank.replica, rank.position)

    def rank(self, team: Team, stage: int, place: int, position: int) -> Rank:
        """Return the rank of the job that computes a stage of a team, at a place in its group."""
        group, node = team.nodes[stage]
        return Rank(group * self.pattern.context + place, node, position)

    def _team(self, group: int, changed: Pipeline) -> Team:
        whole = self.pattern
        stages = changed.stages or tuple(
            StageShare(group, stage) for stage in range(whole.pipeline)
        )
        counts = [stage.layers for stage in stages if stage.layers is not None]
        parts = at_degree(whole.cut_into(counts) if counts else whole.parts, whole, changed)
        parts = [
            of_share(part, stages[number % len(stages)], parts, number - number % len(stages))
            for number, part in enumerate(parts)
        ]
        if not whole.shards_in_domains:
            parts = [part.on_fewer(self.ring_share) for part in parts]
        if changed.orders:
            # Given orders do not interleave, so a stage's parts become one.
            parts = [reduce(add, parts[stage :: len(stages)]) for stage in range(len(stages))]
        virtual, runs = len(parts) // len(stages), [[stage] for stage in range(len(stages))]
        if virtual == 1:
            # Consecutive stages on the same node become one stage.
            by_node = groupby(range(len(stages)), key=lambda stage: stages[stage][:2])
            runs = [list(run) for _, run in by_node]
            parts = [reduce(add, [parts[stage] for stage in run]) for run in runs]
        nodes = tuple((stages[run[0]].group, stages[run[0]].node) for run in runs)
        holds = self._holds(runs, counts)
        micro_batches = changed.micro_batches * self._shares.stack_size
        if virtual > 1:
            # Interleaving needs a multiple of the stages.
            micro_batches = -(-micro_batches // len(runs)) * len(runs)
        more = whole.tensor / changed.tensor
        kept = [Held()] * len(runs)
        for stage, unit in zip(holds, self.units, strict=True):
            kept[stage] = Held(*(a + more * b for a, b in zip(kept[stage], unit, strict=True)))
        gathered = tuple(self.ring_share * one.hidden_weight_bytes for one in kept)
        hidden = tuple(self.ring_share * one.hidden_gradient_bytes for one in kept)
        gathers = self._shares.gathers and any(gathered)
        nothing = (0.0,) * len(runs)
        return Team(
            group,
            StepPattern(
                whole.context,
                len(runs),
                changed.tensor,
                whole.context,
                micro_batches,
                tuple(parts),
                whole.send_bytes * more,
                whole.send_blocks,
                hidden if self._shares.reduces else nothing,
                nothing,
                tuple(one.optimizer_flop for one in kept),
                gathered if gathers else (),
                tuple(map(nodes.index, nodes)) if len(set(nodes)) < len(nodes) else (),
                resharded=self._resharded(kept, changed.tensor),
                orders=changed.orders,
                staggered=changed.staggered,
                split=whole.split,
                unit_overlap=whole.unit_overlap,
                backward_prefetch=whole.backward_prefetch,
                shards_in_domains=whole.shards_in_domains,
            ).scheduled(),
            nodes,
            holds,
        )

    def _ringed(self, number: int, team: Team) -> Team:
        """Return a team with the messages of its rings that hide behind its passes."""
        if not team.hides:
            return team
        context = self.pattern.context
        own = range(number * context, (number + 1) * context)
        names = {replica: place for place, replica in enumerate(own)}

        def rings(edges_of: EdgesOf) -> tuple[tuple[RingEdge, ...], ...]:
            return tuple(
                self._around(own, team.holds.index(stage), edges_of, names)
                for stage in range(team.pattern.pipeline)
            )

        of_units = rings(edges_within) if self.pattern.shards_in_domains else ()
        of_gradients = rings(self.edges_of)
        pattern = replace(team.pattern, rings=of_gradients, unit_rings=of_units, data=len(names))
        return replace(
            team,
            pattern=pattern,
            beside=tuple(divmod(replica, context) for replica in names if replica not in own),
        )

    @property
    def edges_of(self) -> EdgesOf:
        """The messages of gradients: those between domains if each has summed up its own."""
        return edges_across if self.pattern.shards_in_domains else ring_edges

    def _around(
        self, own: range, unit: int, edges_of: EdgesOf, names: dict[int, int]
    ) -> tuple[RingEdge, ...]:
        """Return the messages of a unit's rings from and to some replicas, by their `names`.

        Replicas without a name get one.
        """
        sent, received = self._edges(unit, edges_of)
        edges = [edge for replica in own for edge in sent[replica]]
        edges += [edge for replica in own for edge in received[replica] if edge.sender not in own]
        for edge in edges:
            for replica in edge[:2]:
                names.setdefault(replica, len(names))
        return tuple(RingEdge(names[sender], names[to], share) for sender, to, share in edges)

    def _edges(self, unit: int, edges_of: EdgesOf) -> _Edges:
        """Return the ring of a unit, by sender and by receiver."""
        known = self._rings.get((unit, edges_of))
        if known is None:
            ranks = [self.rank(*member, 0) for member in self.ring(unit)]
            domains = [self.domain_of(rank) for rank in ranks]
            known = _Edges([[] for _ in ranks], [[] for _ in ranks])
            for edge in edges_of(domains):
                known.sent[edge.sender].append(edge)
                known.received[edge.receiver].append(edge)
            # The order is the same for all teams, so that teams alike have equal patterns.
            for edges in known.received:
                edges.sort(key=lambda edge: domains[edge.sender] != domains[edge.receiver])
            self._rings[unit, edges_of] = known
        return known

    def _resharded(
        self, kept: Sequence[Held], degree: int
    ) -> tuple[tuple[tuple[int, int, float], ...], ...]:
        """Return the bytes that each stage of a team reshards to the lowest degree."""
        lowest = min(self.degrees)
        if degree == lowest or not self._shares.reduces:
            return ()
        whole = self.pattern
        vectors = (
            whole.gradient_vector_bytes(one.hidden_gradient_bytes + one.gradient_bytes)
            * degree
            / whole.tensor
            for one in kept
        )
        return tuple(tuple(resharding(each, degree, lowest)) for each in vectors)

    def _holds(self, runs: Sequence[Sequence[int]], counts: Sequence[int]) -> tuple[int, ...]:
        """Return the stage of a team that holds each unit, given the layers of its parts."""
        run_of = {stage: number for number, run in enumerate(runs) for stage in run}
        if not self._by_layer:
            return tuple(run_of[stage] for stage in range(self.pattern.pipeline))
        cut = self.pattern.layers
        assert cut is not None
        stages = len(run_of)
        each = counts or cut.counts
        return tuple(run_of[part % stages] for part, count in enumerate(each) for _ in range(count))
