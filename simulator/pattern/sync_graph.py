"""What follows the passes of a step: gradients of whoever holds the same weights, the optimizer."""

from __future__ import annotations

from collections.abc import Sequence

from faultline.simulator.pattern.activity_graph import Activity, ActivityGraph, Rank, meet
from faultline.simulator.pattern.step_pattern import resharding
from faultline.simulator.pattern.teams import Team, Teams


def sync_graph(teams: Teams, positions: Sequence[int]) -> ActivityGraph:
    """Return what follows the passes: gradients of who holds the same, and the optimizer.

    Weights with the same holders go round in one ring: one message to the next; with all of
    them under way, each takes as long as the ring. Where degrees differ, replicas of a higher
    one have resharded to the lowest behind their passes, and reshard back behind the ring
    (Arfeen et al. 2025, arXiv 2504.06095).

    Parameters
    ----------
    teams : Teams
        Who does what.
    positions : sequence of int
        Tensor-parallel positions that are played: all of them where degrees differ.
    """
    graph, ready = ActivityGraph(), dict[Rank, tuple[int, ...]]()
    holders = zip(*(team.holds for team in teams.teams), strict=True)
    by_holders: dict[tuple[int, ...], float] = {}
    for held, unit in zip(holders, teams.units, strict=True):
        by_holders[held] = by_holders.get(held, 0.0) + unit.gradient_bytes
    for held, size in by_holders.items():
        if teams.replicas > 1 and size > 0.0:
            _reduce(teams, graph, held, teams.ring_share * size, positions, ready)
    for place in range(teams.pattern.context):
        stepped: set[tuple[tuple[int, int], tuple[int, ...]]] = set()
        for team in teams.teams:
            for stage, flop in enumerate(team.pattern.optimizer_flop):
                # A node steps weights once that it has in several pipelines.
                units = tuple(unit for unit, at in enumerate(team.holds) if at == stage)
                if (team.nodes[stage], units) in stepped:
                    continue
                stepped.add((team.nodes[stage], units))
                for position in _played(team, positions):
                    rank = teams.rank(team, stage, place, position)
                    graph.add(Activity("optimizer", rank, None, flop), ready.get(rank, ()))
    return graph


def _reduce(
    teams: Teams,
    graph: ActivityGraph,
    held: tuple[int, ...],
    size: float,
    positions: Sequence[int],
    ready: dict[Rank, tuple[int, ...]],
) -> None:
    """Write the rings of weights, given what a rank of a whole stage sends, by their holders.

    Adds to what the optimizer of each rank waits for.
    """
    lowest, context = min(teams.degrees), teams.pattern.context
    # Members of a ring: a replica each, by its team, stage and place in the team.
    ring = [
        (team, stage, place)
        for team, stage in zip(teams.teams, held, strict=True)
        for place in range(context)
    ]
    vector = size * teams.pattern.tensor / 2 / (1.0 - 1.0 / teams.replicas)
    arrived: dict[Rank, tuple[int, ...]] = {}
    for position in [each for each in positions if each < lowest]:
        # A node that has the weights in several pipelines adds their gradients up by itself.
        ranks = list(dict.fromkeys(teams.rank(*member, position) for member in ring))
        each_sends = size * teams.pattern.tensor / lowest
        messages = tuple(
            graph.add(Activity("gradient", here, there, each_sends), ())
            for here, there in zip(ranks, [*ranks[1:], ranks[0]], strict=True)
        )
        reduced = meet(graph, messages, ranks[0])
        for rank in ranks:
            arrived[rank] = reduced
            ready[rank] = (*ready.get(rank, ()), *reduced)
    for team, stage, place in ring:
        for spare, core, amount in resharding(vector, team.pattern.tensor, lowest):
            here = teams.rank(team, stage, place, core)
            there = teams.rank(team, stage, place, spare)
            message = graph.add(Activity("gradient", here, there, amount), arrived[here])
            ready[there] = (*ready.get(there, ()), message)


def _played(team: Team, positions: Sequence[int]) -> list[int]:
    return [position for position in positions if position < team.pattern.tensor]
