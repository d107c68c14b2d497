"""Bytes between pairs of ranks, by algorithm: how many, from whom to whom, and over which rail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil, log2

import networkx as nx
import pytest
from faultline.simulator.collectives.algorithms import (
    ALGORITHMS,
    Collective,
    CollectiveError,
    LinkShares,
    bus_factor,
    collectives_of,
    double_tree,
)

WHOLE = LinkShares(in_switch=1.0)
Domains = Sequence[Sequence[int]]


def servers(count: int, gpus: int = 8) -> Domains:
    return [range(gpus * number, gpus * (number + 1)) for number in range(count)]


SHAPES = [servers(1), servers(4), servers(5, 4), servers(6, 1), [range(8), range(8, 12), [12, 13]]]


def collective(name: str, algorithm: str, domains: Domains) -> Collective:
    return collectives_of(name, algorithm, domains, WHOLE)[algorithm]


def leaving(one: Collective, *, inside: bool) -> Counter[int]:
    """Return the bytes that leave each rank inside its domain, or to other domains."""
    sent: Counter[int] = Counter()
    for (near, far, _), size in one.sent.items():
        if (one.place[near][0] is one.place[far][0]) == inside:
            sent[near] += size
    return sent


@pytest.mark.parametrize(("name", "passes"), [("all-reduce", 2), ("all-gather", 1)])
def test_a_ring_sends_its_share_over_each_adapter(name: str, passes: int) -> None:
    """32 ranks in four servers: 31/32 of the buffer per pass, an eighth of it on each rail."""
    ring = collective(name, "ring", servers(4))
    assert leaving(ring, inside=True) == pytest.approx(dict.fromkeys(range(32), passes * 31 / 32))
    rail = dict.fromkeys(range(32), passes * 31 / 32 / 8)
    assert leaving(ring, inside=False) == pytest.approx(rail)
    steps = passes * 31
    assert ring.latency[1::2] == (steps - passes * 3, passes * 3)


def test_a_tree_sends_all_bytes_up_and_down_its_edges() -> None:
    """Its efficiency of 92 % aside, servers with two children and a parent send 2 of the buffer."""
    tree = collective("all-reduce", "tree", servers(4))
    by_server: Counter[int] = Counter()
    for rank, size in leaving(tree, inside=False).items():
        by_server[rank // 8] += 0.92 * size
    assert by_server == pytest.approx({0: 1.0, 1: 2.0, 2: 2.0, 3: 1.0})
    assert sum(leaving(tree, inside=True).values()) * 0.92 == pytest.approx(4 * 2 * 7)
    assert tree.latency[1::2] == (14, 4)


def test_a_switch_reduces_a_domain_and_a_tree_the_domains() -> None:
    alone = collective("all-reduce", "nvls", servers(1))
    assert leaving(alone, inside=True) == pytest.approx(dict.fromkeys(range(8), 1.75))
    four = collective("all-reduce", "nvls", servers(4))
    assert leaving(four, inside=True) == pytest.approx(dict.fromkeys(range(32), 1.75))
    assert max(leaving(four, inside=False).values()) == pytest.approx(6 / 5 * 2 / 8)


def test_parts_for_other_servers_take_the_receivers_rail() -> None:
    """A rank sends 8/16 to the other server, and over NVLink seven parts twice."""
    one = collective("all-to-all", "direct", servers(2))
    assert leaving(one, inside=False) == pytest.approx(dict.fromkeys(range(16), 8 / 16))
    assert leaving(one, inside=True) == pytest.approx(dict.fromkeys(range(16), 14 / 16))


@pytest.mark.parametrize("domains", SHAPES, ids=lambda shape: "+".join(str(len(d)) for d in shape))
def test_all_ranks_take_part_and_domains_meet_on_rails(domains: Domains) -> None:
    for name, algorithms in ALGORITHMS.items():
        for algorithm in algorithms:
            if algorithm == "nvls" and min(map(len, domains)) < 2:
                continue
            one = collective(name, algorithm, domains)
            graph: nx.DiGraph = nx.DiGraph([(near, far) for near, far, _ in one.sent])
            assert set(graph) == set(one.place)
            assert nx.is_strongly_connected(graph)
            for near, far, _ in one.sent:
                (here, position), (there, other) = one.place[near], one.place[far]
                # A smaller domain has no rank on the last rails.
                assert here is there or position == other or other >= len(here)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 17, 248])
def test_two_trees_span_all_nodes_with_four_edges_at_most(count: int) -> None:
    edges = list(double_tree(count))
    degrees: Counter[int] = Counter()
    for tree in (edges[::2], edges[1::2]):
        graph: nx.Graph = nx.Graph(tree)
        assert set(graph) == set(range(count))
        assert nx.is_tree(graph)
        assert len({child for child, _ in tree}) == count - 1
        degrees.update(node for edge in tree for node in edge)
        (root,) = set(range(count)) - {child for child, _ in tree}
        assert nx.eccentricity(graph, root) <= ceil(log2(count))
    assert max(degrees.values()) <= 4


@pytest.mark.parametrize(
    ("name", "factor"),
    [("all-reduce", 1.75), ("reduce-scatter", 0.875), ("all-to-all", 0.875), ("send-recv", 1.0)],
)
def test_bus_bandwidth_has_the_factors_of_nccl_tests(name: str, factor: float) -> None:
    assert bus_factor(name, 8) == factor


@pytest.mark.parametrize(
    ("name", "algorithm", "domains", "printed"),
    [
        ("all-reduse", None, servers(1), r"no collective is called 'all-reduse'.*all-gather"),
        ("all-to-all", "ring", servers(1), "all-to-all has no algorithm 'ring'; use one of direct"),
        ("all-reduce", "nvls", servers(1), "nvls needs GPUs with NVLink SHARP"),
        ("all-gather", None, [[0]], "at least 2 ranks"),
    ],
)
def test_wrong_requests_are_refused_in_one_line(
    name: str, algorithm: str | None, domains: Domains, printed: str
) -> None:
    with pytest.raises(CollectiveError, match=printed):
        collectives_of(name, algorithm, domains, LinkShares())


def test_only_algorithms_that_fit_are_candidates() -> None:
    assert set(collectives_of("all-reduce", None, servers(2), WHOLE)) == {"ring", "tree", "nvls"}
    assert set(collectives_of("all-reduce", None, servers(2), LinkShares())) == {"ring", "tree"}
    assert set(collectives_of("all-reduce", None, servers(4, 1), WHOLE)) == {"ring", "tree"}
