"""Schedules with real numbers: every algorithm computes what its collective promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from faultline.simulator.collectives.catalogue import (
    ALGORITHMS,
    CollectiveError,
    Setting,
    algorithm_of,
    bus_factor,
    schedule_of,
)
from faultline.simulator.collectives.exchange import PairwiseAllToAll
from faultline.simulator.collectives.hierarchical import HierarchicalAllReduce
from faultline.simulator.collectives.ring import RingAllGather, RingAllReduce, RingReduceScatter
from faultline.simulator.collectives.schedule import Schedule

from tests.simulator.collectives.numeric_runner import simulate

MEMBERS = (2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 33)


def numbers(schedule: Schedule) -> np.ndarray:
    random = np.random.default_rng(7)
    return random.integers(0, 1000, (schedule.members, schedule.piece_count)).astype(float)


def hierarchical(domains: int, rails: int) -> HierarchicalAllReduce:
    """Members numbered rail after rail, so that position and place in the domain differ."""
    members = domains * rails
    return HierarchicalAllReduce(
        members, 1e6, [range(number, members, domains) for number in range(domains)]
    )


def promises() -> Iterator[tuple[Schedule, np.ndarray, np.ndarray]]:
    """Yield what members have before and after; NaN stands for nothing before, any value after."""
    all_reduces: list[Schedule] = [
        *(RingAllReduce(n, 1e6) for n in MEMBERS),
        *(hierarchical(*shape) for shape in ((1, 4), (4, 1), (2, 2), (3, 4), (5, 3))),
    ]
    for schedule in all_reduces:
        given = numbers(schedule)
        yield schedule, given, np.tile(given.sum(axis=0), (schedule.members, 1))
    for n in MEMBERS:
        own, diagonal = np.arange(1.0, n + 1.0), np.eye(n, dtype=bool)
        # Member p has the sum of piece p, or everybody the part of everybody.
        given = numbers(RingReduceScatter(n, 1e6))
        yield RingReduceScatter(n, 1e6), given, np.where(diagonal, given.sum(axis=0), np.nan)
        yield RingAllGather(n, 1e6), np.where(diagonal, own, np.nan), np.tile(own, (n, 1))
        # Everybody has what was meant for them: of rows by sender, a column by receiver.
        meant = np.arange(float(n * n)).reshape(n, n)
        from_me = np.where(diagonal[:, :, None], meant[:, None, :], np.nan).reshape(n, n * n)
        to_me = np.where(diagonal[:, None, :], meant, np.nan).reshape(n, n * n)
        yield PairwiseAllToAll(n, 1e6), from_me, to_me


@pytest.mark.parametrize(("schedule", "given", "promised"), list(promises()), ids=str)
def test_everybody_has_what_the_collective_promises(
    schedule: Schedule, given: np.ndarray, promised: np.ndarray
) -> None:
    buffers = given.copy()
    simulate(schedule, buffers)
    assert ((buffers == promised) | np.isnan(promised)).all()


@pytest.mark.parametrize("members", [2, 3, 6, 8, 17])
@pytest.mark.parametrize("collective", list(ALGORITHMS))
def test_flows_carry_what_the_messages_carry(collective: str, members: int) -> None:
    """Edge by edge and stage by stage, and senders and receivers speak of the same pieces."""
    setting = Setting(members, 1e7, [range(members)])
    for algorithm in ALGORITHMS[collective]:
        schedule = schedule_of(collective, algorithm, setting)
        for position in range(members):
            for stage in schedule.stages(position):
                sent: Counter[int] = Counter()
                received: Counter[int] = Counter()
                for turn in stage.rounds():
                    sent.update({m.peer: m.pieces for m in turn.sends})
                    received.update({m.peer: m.pieces for m in turn.receives})
                flows_out: Counter[int] = Counter()
                flows_in: Counter[int] = Counter()
                for share in stage.sends:
                    flows_out[share.peer] += int(share.pieces)
                for share in stage.receives:
                    flows_in[share.peer] += int(share.pieces)
                assert sent == flows_out
                assert received == flows_in


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        ("all-reduce", 1.75),
        ("reduce-scatter", 0.875),
        ("all-gather", 0.875),
        ("all-to-all", 0.875),
    ],
)
def test_bus_bandwidth_has_the_factors_of_nccl_tests(collective: str, factor: float) -> None:
    assert bus_factor(collective, 8) == factor


@pytest.mark.parametrize(
    ("collective", "algorithm", "printed"),
    [
        ("all-reduse", None, r"no collective is called 'all-reduse'.*all-gather"),
        ("all-to-all", "ring", r"all-to-all has no algorithm 'ring': use one of pairwise"),
        ("all-reduce", "hierarchical", "equally many ranks in every scale-up domain"),
    ],
)
def test_wrong_requests_are_told_in_one_line(
    collective: str, algorithm: str | None, printed: str
) -> None:
    setting = Setting(3, 1e6, [[0, 1], [2]])
    with pytest.raises(CollectiveError, match=printed):
        schedule_of(collective, algorithm_of(collective, algorithm), setting)
