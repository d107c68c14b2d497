"""What holds for a job by the clock, and how often switches with a way around are down."""

from __future__ import annotations

from itertools import takewhile
from math import inf

import pytest
from faultline.simulator.failures.distributions import Constant
from faultline.simulator.failures.failure import Failure
from faultline.simulator.failures.mix import Cause
from faultline.simulator.job.conditions import (
    Conditions,
    Disturbances,
    drawn_outages,
    routable_causes,
)
from faultline.simulator.job.effects import Effect

CAUSE = Cause("switch", "switch", "network", 1e-4, Constant(30.0))


NAMES = ("a", "b")


def effect(failure: Failure) -> Effect:
    return Effect(parts_down=(NAMES[failure.number],))


def outage(begins_s: float, ends_s: float, name: str) -> Failure:
    number, lasts_s = NAMES.index(name), ends_s - begins_s
    return Failure(begins_s, "switch", number, "", "partial", None, range(2), lasts_s)


def under(*outages: Failure) -> Conditions:
    return Conditions(Disturbances(lambda: iter(outages), effect))


def test_what_is_down_by_the_clock() -> None:
    conditions = under(outage(5.0, 20.0, "b"), outage(10.0, 15.0, "a"), outage(12.0, 30.0, "b"))
    seen = []
    while (now_s := conditions.next_change_s) < inf:
        conditions.advance(now_s)
        assert conditions.next_change_s == -inf
        assert conditions.happened() == ([], [])
        seen.append((now_s, conditions.parts_down))
    assert seen == [
        (5.0, ("b",)),
        (10.0, ("a", "b")),
        (12.0, ("a", "b")),
        (15.0, ("b",)),
        (20.0, ("b",)),
        (30.0, ()),
    ]


def test_an_outage_that_was_never_read_is_over() -> None:
    conditions = under(outage(5.0, 20.0, "a"))
    conditions.advance(25.0)
    assert conditions.happened() == ([], [])
    assert (conditions.parts_down, conditions.next_change_s) == ((), inf)


def test_outages_come_at_the_rates_of_their_causes_and_strike_all_alike() -> None:
    other = Cause("cable", "switch", "network", 3e-4)
    drawn = list(
        takewhile(
            lambda outage: outage.time_s < 1e6,
            drawn_outages((CAUSE, other), 100, 2, 3, 60.0, seed=1),
        )
    )
    begins_s = [outage.time_s for outage in drawn]
    assert begins_s == sorted(begins_s)
    # 40,000 are expected: four standard deviations are 800, and of a third 377.
    assert len(drawn) == pytest.approx(40_000, abs=800)
    for switch in range(3):
        assert sum(outage.number == switch for outage in drawn) == pytest.approx(
            len(drawn) / 3, abs=400
        )
    lasting = {round(outage.lasts_s, 6) for outage in drawn}
    assert lasting == {30.0, 60.0}


@pytest.mark.parametrize(("fatal", "around", "ratio"), [(0, 8, 1.0), (4, 2, 0.5), (4, 8, 2.0)])
def test_each_switch_fails_as_often(fatal: int, around: int, ratio: float) -> None:
    (shared,) = routable_causes((CAUSE,), fatal, around)
    assert shared.rate_per_gpu_s == pytest.approx(ratio * CAUSE.rate_per_gpu_s)
