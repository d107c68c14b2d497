"""The end of a step: gradients of ranks that hold the same weights, and the optimizer."""

from __future__ import annotations

from collections.abc import Sequence

from faultline.simulator.pattern.activity_graph import Activity, ActivityGraph, Rank, pay_latencies
from faultline.simulator.pattern.step_pattern import resharding
from faultline.simulator.pattern.teams import Team, Teams


def sync_graph(teams: Teams, positions: Sequence[int]) -> ActivityGraph:
    """Return the work after the passes: gradients of ranks with the same weights, the optimizer.

    Weights with the same holders share their rings: one message to each neighbour. All messages of
    a ring are sent at once, so each takes as long as the ring, except for the latencies of the hops
    after the first. If degrees differ, replicas of a higher degree have resharded to the lowest
    during their passes, and reshard back after the ring (Arfeen et al. 2025, arXiv 2504.06095);
    then all tensor-parallel `positions` are simulated.
    """
    graph, ready = ActivityGraph(), dict[Rank, tuple[int, ...]]()
    holders = zip(*(team.holds for team in teams.teams), strict=True)
    by_holders: dict[tuple[int, ...], tuple[int, float]] = {}
    for number, (held, unit) in enumerate(zip(holders, teams.units, strict=True)):
        first, size = by_holders.get(held, (number, 0.0))
        by_holders[held] = first, size + teams.left_bytes(unit)
    for first, size in by_holders.values():
        if teams.replicas > 1 and size > 0.0:
            _reduce(teams, graph, first, teams.ring_share * size, positions, ready)
    for place in range(teams.pattern.context):
        stepped: set[tuple[tuple[int, int], tuple[int, ...]]] = set()
        for team in teams.teams:
            for stage, flop in enumerate(team.pattern.optimizer_flop):
                # A node that has the same weights in several pipelines updates them once.
                units = tuple(unit for unit, holder in enumerate(team.holds) if holder == stage)
                if (team.nodes[stage], units) in stepped:
                    continue
                stepped.add((team.nodes[stage], units))
                for position in _simulated(team, positions):
                    rank = teams.rank(team, stage, place, position)
                    graph.add(Activity("optimizer", rank, None, flop), ready.get(rank, ()))
    return graph


def _reduce(
    teams: Teams,
    graph: ActivityGraph,
    unit: int,
    size: float,
    positions: Sequence[int],
    ready: dict[Rank, tuple[int, ...]],
) -> None:
    """Write the rings of weights; `unit` is one of them.

    `size` is the bytes that a rank sends at the pattern's degree. The activities for which each
    rank's optimizer waits are added to `ready`.
    """
    lowest, ring = min(teams.degrees), teams.ring(unit)
    vector = size * teams.pattern.tensor / 2 / (1.0 - 1.0 / teams.replicas)
    arrived: dict[Rank, tuple[int, ...]] = {}
    for position in [each for each in positions if each < lowest]:
        # A node that has the weights in several pipelines adds their gradients locally.
        ranks = list(dict.fromkeys(teams.rank(*member, position) for member in ring))
        domains = list(map(teams.domain_of, ranks))
        edges = teams.edges_of(domains)
        each_sends = size * teams.pattern.tensor / lowest
        links = tuple((ranks[sender], ranks[to], share) for sender, to, share in edges)
        messages = tuple(
            graph.add(Activity("gradient", sender, receiver, each_sends * share), ())
            for sender, receiver, share in links
        )
        # Gradients are reduced and distributed in 2 (n - 1) hops, from member to member.
        members = len({*domains}) if teams.pattern.shards_in_domains else len(ranks)
        hops = 2.0 * (members - 1)
        reduced = pay_latencies(graph, "gradient", links, hops, messages) if links else ()
        for rank in ranks:
            arrived[rank] = reduced
            ready[rank] = (*ready.get(rank, ()), *reduced)
    for team, stage, place in ring:
        for spare, core, amount in resharding(vector, team.pattern.tensor, lowest):
            sender = teams.rank(team, stage, place, core)
            receiver = teams.rank(team, stage, place, spare)
            message = graph.add(Activity("gradient", sender, receiver, amount), arrived[sender])
            ready[receiver] = (*ready.get(receiver, ()), message)


def _simulated(team: Team, positions: Sequence[int]) -> list[int]:
    return [position for position in positions if position < team.pattern.tensor]
