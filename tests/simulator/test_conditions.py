"""Switches around which there is a way: what is down when, and how often."""

from __future__ import annotations

from itertools import takewhile
from math import inf

import pytest
from faultline.simulator.conditions import (
    Detours,
    NetworkOutage,
    drawn_outages,
    shared_out,
)
from faultline.simulator.failures.distributions import Constant
from faultline.simulator.failures.mix import Cause

CAUSE = Cause("switch", "switch", "network", 1e-4, Constant(30.0))
SWITCHES = ("leaf-0", "leaf-1", "spine-0")


def test_what_is_down_by_the_clock() -> None:
    outages = [
        NetworkOutage(5.0, 20.0, "b"),
        NetworkOutage(10.0, 15.0, "a"),
        NetworkOutage(12.0, 30.0, "b"),
    ]
    detours = Detours(iter(outages))
    seen = []
    while detours.next_change_s < inf:
        now_s = detours.next_change_s
        seen.append((now_s, detours.advance(now_s), detours.without))
    assert seen == [
        (5.0, True, ("b",)),
        (10.0, True, ("a", "b")),
        (12.0, False, ("a", "b")),
        (15.0, True, ("b",)),
        (20.0, False, ("b",)),
        (30.0, True, ()),
    ]


def test_an_outage_that_nobody_looked_at_is_over() -> None:
    detours = Detours(iter([NetworkOutage(5.0, 20.0, "a")]))
    assert not detours.advance(25.0)
    assert (detours.without, detours.next_change_s) == ((), inf)


def test_outages_come_as_often_as_their_causes_say_and_strike_all_alike() -> None:
    other = Cause("cable", "switch", "network", 3e-4)
    drawn = list(
        takewhile(
            lambda outage: outage.begins_s < 1e6,
            drawn_outages((CAUSE, other), 100, SWITCHES, 60.0, seed=1),
        )
    )
    begins_s = [outage.begins_s for outage in drawn]
    assert begins_s == sorted(begins_s)
    # 40,000 are expected: four standard deviations are 800, and of a third 377.
    assert len(drawn) == pytest.approx(40_000, abs=800)
    for switch in SWITCHES:
        assert sum(outage.switch == switch for outage in drawn) == pytest.approx(
            len(drawn) / 3, abs=400
        )
    lasting = {round(outage.ends_s - outage.begins_s, 6) for outage in drawn}
    assert lasting == {30.0, 60.0}


@pytest.mark.parametrize(("fatal", "around", "ratio"), [(0, 8, 1.0), (4, 2, 0.5), (4, 8, 2.0)])
def test_each_switch_fails_as_often(fatal: int, around: int, ratio: float) -> None:
    (shared,) = shared_out((CAUSE,), fatal, around)
    assert shared.rate_per_gpu_s == pytest.approx(ratio * CAUSE.rate_per_gpu_s)
