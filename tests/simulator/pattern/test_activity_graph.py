"""A step written out: the order of passes, what waits for what, and how soon a death is felt."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import product
from operator import attrgetter

import networkx as nx
import pytest
from faultline.simulator.pattern.activity_graph import (
    ActivityGraph,
    Fold,
    passes_graph,
)
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.pattern.step_pattern import Held, LayerCut, PartWork, PassWork, StepPattern
from faultline.simulator.pattern.sync_graph import sync_graph
from faultline.simulator.pattern.teams import Teams
from faultline.strategies.interface.pipeline_schedule import Pass, stage_passes
from faultline.strategies.interface.scheme import Hit
from faultline.strategies.interface.split_backward import SplitBackward
from faultline.strategies.interface.step_shares import Pipeline, StageShare
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies.helpers import built, lose


def step(pipeline: int = 2, virtual_stages: int = 1, micro_batches: int = 4) -> StepPattern:
    """Return a step in which a forward pass takes 1, a backward pass 2, and messages nothing."""
    return StepPattern(
        data=1,
        pipeline=pipeline,
        tensor=1,
        context=1,
        micro_batches=micro_batches,
        parts=(PartWork(PassWork(1.0), PassWork(2.0)),) * (pipeline * virtual_stages),
        send_bytes=0.0,
        send_blocks=1.0,
        hidden_gradient_bytes=(0.0,) * pipeline,
        gradient_bytes=(0.0,) * pipeline,
        optimizer_flop=(0.5,) * pipeline,
    )


def teams_of(pattern: StepPattern, shares: StepShares) -> Teams:
    """Return the teams of a step whose replicas share no scale-up domain."""
    return Teams(pattern, shares, attrgetter("replica"))


def longest_path(graph: ActivityGraph) -> float:
    """Return when the last activity ends if each takes as long as its amount."""
    network = nx.DiGraph()
    for number, waits_for in enumerate(graph.waits_for):
        network.add_node(number)
        network.add_edges_from((before, number) for before in waits_for)
    ends: dict[int, float] = {}
    for number in nx.topological_sort(network):
        begins = max((ends[before] for before in network.predecessors(number)), default=0.0)
        ends[number] = begins + graph.activities[number].amount
    return max(ends.values())


@pytest.mark.parametrize(
    ("pipeline", "virtual_stages", "micro_batches"),
    [(1, 1, 3), (2, 1, 1), (4, 1, 4), (4, 1, 11), (8, 1, 32), (4, 2, 8), (4, 3, 16), (8, 6, 16)],
)
def test_the_bubble_is_that_of_the_closed_form(
    pipeline: int, virtual_stages: int, micro_batches: int
) -> None:
    """(p - 1)/(v m) of the ideal time; v = 1 is one forward, one backward."""
    pattern = step(pipeline, virtual_stages, micro_batches)
    ideal = 3.0 * micro_batches * virtual_stages
    bubble = longest_path(passes_graph(pattern, Fold.whole(pattern))) / ideal - 1.0
    assert bubble == pytest.approx((pipeline - 1) / (virtual_stages * micro_batches))


def test_who_sends_what_how_often() -> None:
    """Of two replicas with two tensor-parallel ranks a stage."""
    ring = PartWork(PassWork(1.0, 3.0), PassWork(2.0, 4.0))
    pattern = replace(
        step(2, 2, 4),
        data=2,
        tensor=2,
        parts=(ring,) * 4,
        send_bytes=10.0,
        send_blocks=0.75,
        hidden_gradient_bytes=(6.0, 6.0),
        hidden_weight_bytes=(8.0, 8.0),
        gradient_bytes=(5.0, 5.0),
    )
    whole = Fold.whole(pattern)
    ranks, passes, micro_batches = 8, 2 * 2 * 4, 4
    sent: defaultdict[str, float] = defaultdict(float)
    number: Counter[str] = Counter()
    for activity in passes_graph(pattern, whole).activities:
        sent[activity.kind] += activity.amount
        number[activity.kind] += 1
    assert number["compute"] == ranks * passes
    assert sent["compute"] == ranks * 2 * micro_batches * (1.0 + 2.0)
    assert sent["tensor"] == ranks * 2 * micro_batches * (3.0 + 4.0)
    # Three borders between four parts, each way, of four pairs of ranks.
    messages = 2 * 2 * 3 * 2 * micro_batches
    assert number["pipeline"] == number["hidden send"] == messages
    assert sent["pipeline"] == messages * 7.5
    assert sent["hidden send"] == messages * 2.5
    # Gradients and weights, an equal share for each of the two parts of a stage.
    assert number["gradient"] == ranks * 2 * 2
    assert sent["gradient"] == ranks * (6.0 + 8.0)
    after = sync_graph(teams_of(pattern, StepShares((0, 1))), whole.positions)
    kinds = Counter((activity.kind, activity.peer is None) for activity in after.activities)
    assert (kinds["gradient", False], kinds["optimizer", True]) == (ranks, ranks)
    # Each of four rings pays its second hop.
    assert [one.amount for one in after.activities if one.ring] == [1.0] * 4


def test_a_hidden_message_shows_only_where_it_outlasts_its_pass() -> None:
    """Alone, without a pipeline: gradients behind the last backward pass, weights behind the first.

    Three micro-batches of 1 and 2: 9; 2 of gradients hide behind the backward pass of 2, and 3 last
    1 longer. Weights of 1 hide behind the forward pass of 1, and 3 delay it by 2.
    """
    alone = replace(step(1, 1, 3), data=2)
    for gradients, weights, expected in ((2.0, 1.0, 9.0), (3.0, 0.0, 10.0), (2.0, 3.0, 11.0)):
        pattern = replace(alone, hidden_gradient_bytes=(gradients,), hidden_weight_bytes=(weights,))
        graph = passes_graph(pattern, Fold((0,), (0,)))
        assert longest_path(graph) == pytest.approx(expected)


def test_who_skips_attention_sends_nothing_for_it_backward() -> None:
    """Of two rings a layer one is attention's, and its keys and values stay where they are."""
    part = PartWork(PassWork(1.0, 4.0, 3.0), PassWork(2.0, 4.0, 6.0))
    pattern = replace(step(), tensor=2, data=2, context=2, parts=(part, part))
    shares = (StageShare(0, 0, None, 1.0, 0.5, skips_attention=True), StageShare(0, 1))
    (team,) = teams_of(pattern, StepShares((0,), (Pipeline(0, shares, 4, 2),))).teams
    skipping = PartWork(PassWork(1.0, 4.0, 3.0), PassWork(1.0, 2.0))
    assert team.pattern.parts == (skipping, part)


DEGREES = {
    "stages": st.integers(1, 6),
    "virtual_stages": st.integers(1, 4),
    "rounds": st.integers(1, 4),
    "stage": st.integers(0, 5),
}


@given(**DEGREES)
def test_every_pass_comes_once_and_forward_first(
    stages: int, virtual_stages: int, rounds: int, stage: int
) -> None:
    stage %= stages
    micro_batches = rounds * stages
    passes = list(stage_passes(stage, stages, virtual_stages, micro_batches))
    parts = range(stage, stages * virtual_stages, stages)
    expected = {Pass(*each) for each in product((True, False), parts, range(micro_batches))}
    assert len(passes) == len(expected)
    assert set(passes) == expected
    place = {pass_: number for number, pass_ in enumerate(passes)}
    for part, micro_batch in product(parts, range(micro_batches)):
        assert place[Pass(True, part, micro_batch)] < place[Pass(False, part, micro_batch)]


def test_interleaving_as_its_authors_draw_it() -> None:
    """Narayanan et al. 2021, figure 4: the first of four stages takes four of part 0, then part 4.

    It has 2 (p - 1) + (v - 1) p = 10 forward passes ahead of its first backward pass.
    """
    passes = list(stage_passes(0, 4, 2, 8))
    ahead = [(pass_.part, pass_.micro_batch) for pass_ in passes[:11]]
    first_round = [(0, 0), (0, 1), (0, 2), (0, 3), (4, 0), (4, 1), (4, 2), (4, 3)]
    assert ahead == [*first_round, (0, 4), (0, 5), (0, 6)]
    assert passes[11] == Pass(False, 4, 0)


def test_pipelines_of_all_schemes_follow_the_schedule_of_sound_steps() -> None:
    """16 micro-batches take 16 times 3 without bubbles; 17 of a stage that lost a node, 17."""
    whole = replace(step(4, 1, 16), data=64, split=SplitBackward()).scheduled()
    alone = Fold((0,), (0,))
    assert longest_path(passes_graph(whole, alone)) == pytest.approx(16 * 3, abs=1)
    layout = {"stages": 4, "tensor": 1, "micro_batches": 16, "split": whole.split}
    taken = {}
    for scheme in ("recycle", "mecefo", "oobleck"):
        strategy = built(scheme, 64, **layout)
        lose(strategy, Hit(1, 0, 0, 4))
        plan = strategy.plan()
        cut = LayerCut((8,) * 4, PartWork(PassWork(1 / 8), PassWork(2 / 8)), Held())
        shares = StepShares(plan.members, plan.pipelines)
        teams = teams_of(replace(whole, layers=cut), shares).teams
        assert all("W" in "".join(team.pattern.orders) for team in teams)
        taken[scheme] = max(longest_path(passes_graph(team.pattern, alone)) for team in teams)
    assert taken["recycle"] == pytest.approx(17 * 3, abs=1)
    # A node with two stages takes 1.129 of one (`mecefo.node_costs`), in no bubbles.
    assert taken["mecefo"] == pytest.approx(16 * 3 * 1.129, rel=0.01)
