"""A step in which not every group does the same: who computes what, and who shares gradients.

A team is the nodes that compute a group's shard type: its own stages as ever, or what a scheme's
`Pipeline` says. What it does is a step of its own, on the GPUs of its nodes; with the others it
meets in the sync, weight by weight with whoever holds the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import add

from faultline.simulator.pattern.activity_graph import Activity, ActivityGraph, Rank, meet
from faultline.simulator.pattern.step_pattern import Held, PartWork, StepPattern
from faultline.simulator.pattern.step_shares import StepShares
from faultline.strategies.step_shares import Pipeline, StageShare

Hosts = Sequence[Sequence[Sequence[str]]]
"""GPU hosts by replica, stage and tensor-parallel position."""


@dataclass(frozen=True, slots=True)
class Team:
    """The nodes that compute a group's share of the batch.

    Attributes
    ----------
    group : int
        Whose share.
    pattern : StepPattern
        Its passes; where gradients hide behind them, with as many replicas more, which stand for
        the team that they go to.
    nodes : tuple of (int, int)
        By its stage: group and stage of the GPUs that do it.
    holds : tuple of int
        By the units that the model's weights are shared in: which of its stages has it.
    """

    group: int
    pattern: StepPattern
    nodes: tuple[tuple[int, int], ...]
    holds: tuple[int, ...]

    @property
    def kind(self) -> object:
        """What teams have in common that take as long where all groups are alike."""
        own = tuple((group - self.group, stage) for group, stage in self.nodes)
        return self.pattern, own if not any(group for group, _ in own) else self.nodes


class Teams:
    """The teams of a step.

    Parameters
    ----------
    pattern : StepPattern
        What all groups do in an undisturbed step.
    shares : StepShares
        Who takes part, and with what.

    Attributes
    ----------
    teams : tuple of Team
        Those with something to do, in the order of the members.
    """

    def __init__(self, pattern: StepPattern, shares: StepShares) -> None:
        self._pattern, self._shares = pattern, shares
        usual = Pipeline(-1, (), pattern.micro_batches, pattern.tensor)
        changed = {one.group: one for one in shares.pipelines}
        idle = {group for group, one in changed.items() if not one.stages}
        working = [group for group in shares.members if group not in idle]
        self._by_layer = any(stage.layers for one in shares.pipelines for stage in one.stages)
        self._units = pattern.held_by_layer if self._by_layer else pattern.held
        self._replicas = len(working) * pattern.context
        # Rings over n replicas move (n - 1)/n of what they reduce.
        self._ring_share = 1.0
        if self._replicas != pattern.data:
            whole = (pattern.data - 1) / pattern.data
            self._ring_share = (self._replicas - 1) / self._replicas / whole
        self.teams = tuple(self._team(group, changed.get(group, usual)) for group in working)
        self.degrees = {team.pattern.tensor for team in self.teams}

    def kinds(self) -> tuple[list[Team], list[Team]]:
        """Return teams that stand for all, if these are alike where they do the same.

        First one of each kind; then those that have to be played at once, as gradients go from one
        kind to another behind their passes.
        """
        teams, hides = self.teams, any(one.pattern.data > one.pattern.context for one in self.teams)
        apart: dict[object, Team] = {}
        near: dict[Team, None] = {}
        for number, team in enumerate(teams):
            before, after = teams[number - 1], teams[(number + 1) % len(teams)]
            if hides and not before.kind == team.kind == after.kind:
                near.update(dict.fromkeys((before, team)))
            else:
                apart.setdefault(team.kind, team)
        return list(apart.values()), list(near)

    def after(self, team: Team) -> Team:
        """Return whom a team sends gradients to."""
        return self.teams[(self.teams.index(team) + 1) % len(self.teams)]

    def touched(self, team: Team) -> set[int]:
        """Return the groups on whose GPUs a team computes, or to which it sends meanwhile."""
        hides = team.pattern.data > team.pattern.context
        nodes = team.nodes + (self.after(team).nodes if hides else ())
        return {group for group, _ in nodes}

    def hosts(self, team: Team, hosts: Hosts) -> Hosts:
        """Return the GPUs of a team, by the replicas of its pattern, given those of the job."""
        context, tensor = self._pattern.context, team.pattern.tensor
        nodes = list(team.nodes)
        placed = [
            [hosts[group * context + place][stage][:tensor] for group, stage in nodes]
            for place in range(context)
        ]
        if team.pattern.data == context:
            return placed
        after = self.after(team)
        there = [after.nodes[after.holds[team.holds.index(stage)]] for stage in range(len(nodes))]
        for place in range(context):
            names = [hosts[group * context + place][node] for group, node in there]
            degree = after.pattern.tensor
            placed.append([[each[at % degree] for at in range(tensor)] for each in names])
        return placed

    def rank_of(self, seen: tuple[Team, Rank]) -> Rank:
        """Return a rank of the job, given its team and which it is in the team's pattern."""
        team, rank = seen
        return self._rank(team, rank.stage, rank.replica, rank.position)

    def sync(self, positions: Sequence[int]) -> ActivityGraph:
        """Return what follows the passes: gradients of who holds the same, and the optimizer.

        Weights with the same holders go round in one ring: one message to the next; with all of
        them under way, each takes as long as the ring. Where degrees differ, replicas of a higher
        one reshard to the lowest, and back behind the ring: the ranks beyond it send what they
        have to the others (Arfeen et al. 2025, arXiv 2504.06095).

        Parameters
        ----------
        positions : sequence of int
            Tensor-parallel positions that are played: all of them where degrees differ.
        """
        graph, ready = ActivityGraph(), dict[Rank, tuple[int, ...]]()
        holders = zip(*(team.holds for team in self.teams), strict=True)
        by_holders: dict[tuple[int, ...], float] = {}
        for held, unit in zip(holders, self._units, strict=True):
            by_holders[held] = by_holders.get(held, 0.0) + unit.gradient_bytes
        for held, size in by_holders.items():
            if self._replicas > 1 and size > 0.0:
                self._reduce(graph, held, self._ring_share * size, positions, ready)
        for place in range(self._pattern.context):
            for team in self.teams:
                for stage, flop in enumerate(team.pattern.optimizer_flop):
                    for position in self._played(team, positions):
                        rank = self._rank(team, stage, place, position)
                        graph.add(Activity("optimizer", rank, None, flop), ready.get(rank, ()))
        return graph

    def _reduce(
        self,
        graph: ActivityGraph,
        held: tuple[int, ...],
        size: float,
        positions: Sequence[int],
        ready: dict[Rank, tuple[int, ...]],
    ) -> None:
        """Write the rings of weights, given what a rank of a whole stage sends, by their holders.

        Adds to what the optimizer of each rank waits for.
        """
        lowest, context = min(self.degrees), self._pattern.context
        # Members of a ring: a replica each, by its team, stage and place in the team.
        ring = [
            (team, stage, place)
            for team, stage in zip(self.teams, held, strict=True)
            for place in range(context)
        ]
        vector = size * self._pattern.tensor / 2 / (1.0 - 1.0 / self._replicas)
        resharding = [list(_resharding(vector, team.pattern.tensor, lowest)) for team, *_ in ring]
        arrived: dict[Rank, tuple[int, ...]] = {}
        for (team, stage, place), moved in zip(ring, resharding, strict=True):
            for spare, core, amount in moved:
                here = self._rank(team, stage, place, spare)
                there = self._rank(team, stage, place, core)
                message = graph.add(Activity("gradient", here, there, amount), ())
                arrived[there] = (*arrived.get(there, ()), message)
        for position in [each for each in positions if each < lowest]:
            ranks = [self._rank(*member, position) for member in ring]
            each_sends = size * self._pattern.tensor / lowest
            messages = tuple(
                graph.add(Activity("gradient", here, there, each_sends), arrived.get(here, ()))
                for here, there in zip(ranks, [*ranks[1:], ranks[0]], strict=True)
            )
            reduced = meet(graph, messages, ranks[0])
            for rank in ranks:
                arrived[rank] = reduced
                ready[rank] = (*ready.get(rank, ()), *reduced)
        for (team, stage, place), moved in zip(ring, resharding, strict=True):
            for spare, core, amount in moved:
                here = self._rank(team, stage, place, core)
                there = self._rank(team, stage, place, spare)
                message = graph.add(Activity("gradient", here, there, amount), arrived[here])
                ready[there] = (*ready.get(there, ()), message)

    def _played(self, team: Team, positions: Sequence[int]) -> list[int]:
        return [position for position in positions if position < team.pattern.tensor]

    def _rank(self, team: Team, stage: int, place: int, position: int) -> Rank:
        group, node = team.nodes[stage]
        return Rank(group * self._pattern.context + place, node, position)

    def _team(self, group: int, changed: Pipeline) -> Team:
        whole = self._pattern
        stages = changed.stages or tuple(
            StageShare(group, stage) for stage in range(whole.pipeline)
        )
        counts = [stage.layers for stage in stages if stage.layers is not None]
        parts = _at_degree(whole.cut_into(counts) if counts else whole.parts, whole, changed)
        parts = [
            _of_share(part, stages[number % len(stages)], parts, number - number % len(stages))
            for number, part in enumerate(parts)
        ]
        virtual, runs = len(parts) // len(stages), [[stage] for stage in range(len(stages))]
        if virtual == 1:
            # Neighbouring stages of a node are one stage.
            by_node = groupby(range(len(stages)), key=lambda stage: stages[stage][:2])
            runs = [list(run) for _, run in by_node]
            parts = [reduce(add, [parts[stage] for stage in run]) for run in runs]
        nodes = tuple((stages[run[0]].group, stages[run[0]].node) for run in runs)
        holds = self._holds(runs, counts)
        micro_batches = changed.micro_batches * self._shares.stack_size
        if virtual > 1:
            # Interleaving takes a multiple of the stages.
            micro_batches = -(-micro_batches // len(runs)) * len(runs)
        more = whole.tensor / changed.tensor
        kept = [Held()] * len(runs)
        for stage, unit in zip(holds, self._units, strict=True):
            kept[stage] = Held(*(a + more * b for a, b in zip(kept[stage], unit, strict=True)))
        shared = self._replicas > 1
        gathered = tuple(self._ring_share * one.hidden_weight_bytes for one in kept)
        hidden = tuple(self._ring_share * one.hidden_gradient_bytes for one in kept)
        gathers = shared and self._shares.gathers and any(gathered)
        reduces = shared and self._shares.reduces and any(hidden)
        nothing = (0.0,) * len(runs)
        return Team(
            group,
            StepPattern(
                whole.context * (2 if gathers or reduces else 1),
                len(runs),
                changed.tensor,
                whole.context,
                micro_batches,
                tuple(parts),
                whole.send_bytes * more,
                whole.send_blocks,
                hidden if reduces else nothing,
                nothing,
                tuple(one.optimizer_flop for one in kept),
                gathered if gathers else (),
                tuple(map(nodes.index, nodes)) if len(set(nodes)) < len(nodes) else (),
            ),
            nodes,
            holds,
        )

    def _holds(self, runs: Sequence[Sequence[int]], counts: Sequence[int]) -> tuple[int, ...]:
        """Return which stage of a team has each unit, given what its stages are runs of."""
        run_of = {stage: number for number, run in enumerate(runs) for stage in run}
        if not self._by_layer:
            return tuple(run_of[stage] for stage in range(self._pattern.pipeline))
        cut = self._pattern.layers
        assert cut is not None
        stages = len(run_of)
        each = counts or cut.counts
        return tuple(run_of[part % stages] for part, count in enumerate(each) for _ in range(count))


def _at_degree(
    parts: Sequence[PartWork], whole: StepPattern, changed: Pipeline
) -> Sequence[PartWork]:
    """Return what a rank does of parts at another tensor-parallel degree.

    A rank has so much more of the work; its rings send (t - 1)/t of all.
    """
    if changed.tensor == whole.tensor:
        return parts
    more = whole.tensor / changed.tensor
    ring = (1.0 - 1.0 / changed.tensor) / (1.0 - 1.0 / whole.tensor)
    return [
        replace(
            part.scaled(more),
            forward_tensor_bytes=ring * part.forward_tensor_bytes,
            backward_tensor_bytes=ring * part.backward_tensor_bytes,
        )
        for part in parts
    ]


def _of_share(part: PartWork, share: StageShare, parts: Sequence[PartWork], first: int) -> PartWork:
    """Return a part as its node does it; the parts of one round of stages begin at `first`."""
    beside = 0.0 if share.shadows is None else parts[first + share.shadows].forward_flop
    return replace(
        part,
        forward_flop=share.forward * part.forward_flop,
        backward_flop=share.backward * part.backward_flop,
        beside_flop=beside,
    )


def _resharding(vector: float, degree: int, lowest: int) -> Iterator[tuple[int, int, float]]:
    """Yield who sends how much to whom: shards of ranks beyond the lowest degree, dealt out evenly.

    Given the bytes of a vector over all ranks.
    """
    own, spares = vector / degree, degree - lowest
    gets = own * spares / lowest
    for spare in range(spares):
        for core in range(lowest):
            amount = min((spare + 1) * own, (core + 1) * gets) - max(spare * own, core * gets)
            if amount > 1e-9 * own:
                yield lowest + spare, core, amount
