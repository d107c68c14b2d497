"""NTP inside SPARe and replication: hit groups work on, and die as the inner scheme has it."""

from __future__ import annotations

import pytest
from faultline.strategies.base import Continue, Hit, Strategy, WipeOut
from faultline.strategies.nonuniform.replica_plan import PowerCurve
from faultline.strategies.recovery import Move
from faultline.strategies.registry import build_strategy
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies.helpers import lose, options_of

GPUS = 3000


def built(scheme: str, groups: int = 24, redundancy: int = 3, **options: object) -> Strategy:
    return build_strategy(scheme, groups, redundancy, options_of(scheme, **options))


def gpus(group: int, first: int, count: int = 1) -> Hit:
    return Hit(group, first, first + count - 1, GPUS)


SCHEMES = ["replication-ntp", "spare-ntp"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_group_with_a_broken_gpu_works_on_and_all_wait_for_it(scheme: str) -> None:
    strategy = built(scheme)
    verdict = lose(strategy, gpus(4, 0))
    assert isinstance(verdict, Continue)
    assert (verdict.dropped, verdict.carried_on) == ((), (4,))
    assert verdict.recovery is not None
    assert verdict.recovery.kind == "change-of-degree"
    # What the broken one of a domain's 32 GPUs held.
    assert verdict.recovery.moves == (Move(4, 0, 0, 1, 1 / 32),)
    assert strategy.plan().members == tuple(range(24))
    assert strategy.plan().pace == pytest.approx(32 / 30)
    # A second one in another domain changes nothing, a third in the first domain does.
    before = strategy.plan()
    lose(strategy, gpus(4, 40), gpus(4, 1))
    assert strategy.plan() is before
    lose(strategy, gpus(4, 2))
    assert strategy.plan().pace == pytest.approx(32 / 28)


def test_spare_groups_compute_the_step_anew() -> None:
    strategy = built("spare-ntp")
    verdict = lose(strategy, gpus(4, 0))
    assert isinstance(verdict, Continue)
    assert verdict.patch == {4: strategy.plan().stacks}


def test_replicas_compute_anew_only_where_all_copies_are_gone() -> None:
    strategy = built("replication-ntp")
    one = lose(strategy, gpus(4, 0))
    all_three = lose(strategy, gpus(6, 0), gpus(7, 0), gpus(8, 0), gpus(9, 0))
    assert isinstance(one, Continue)
    assert isinstance(all_three, Continue)
    assert one.patch == {}
    assert all_three.patch == {6: 1, 7: 1, 8: 1}
    assert all_three.carried_on == (6, 7, 8, 9)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("hit", "lives"),
    [
        (gpus(4, 0, 4), True),
        (gpus(4, 0, 5), False),
        (gpus(4, 28, 8), True),
        (gpus(4, 0, GPUS), False),
    ],
)
def test_a_group_dies_that_has_lost_too_much_of_a_domain(
    scheme: str, hit: Hit, lives: bool
) -> None:
    strategy, inner = built(scheme), build_strategy(scheme.removesuffix("-ntp"), 24, 3)
    verdict = lose(strategy, hit)
    assert isinstance(verdict, Continue)
    assert (verdict.dropped == ()) == lives
    if not lives:
        assert verdict == inner.on_failures([4])
        assert strategy.plan() == inner.plan()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_deaths_alone_lead_to_a_restart(scheme: str) -> None:
    """Groups 0 to 2 are a replica set, and 23 die of whatever there is before the last one."""
    strategy = built(scheme)
    for group in range(24):
        assert isinstance(lose(strategy, gpus(group, 0)), Continue)
    verdicts = [lose(strategy, gpus(group, 0, 40)) for group in range(23)]
    assert any(isinstance(verdict, WipeOut) for verdict in verdicts)
    strategy.restart()
    assert (len(strategy.plan().members), strategy.plan().pace) == (24, 1.0)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_repaired_gpus_change_the_degree_again(scheme: str) -> None:
    strategy = built(scheme)
    first, second = gpus(4, 0), gpus(4, 1, 2)
    lose(strategy, first)
    lose(strategy, second)
    assert strategy.plan().pace == pytest.approx(32 / 28)
    back = strategy.on_repair(second)
    assert back is not None
    assert (back.kind, back.is_expected) == ("change-of-degree", True)
    assert strategy.plan().pace == pytest.approx(32 / 30)
    assert strategy.on_repair(first) == back
    assert strategy.plan().pace == 1.0
    # It died, or was replaced in a restart: nothing comes back.
    lose(strategy, gpus(4, 0, 40))
    assert strategy.on_repair(gpus(4, 0, 40)) is None


def test_repairs_may_wait_for_a_restart() -> None:
    strategy = built("spare-ntp", repairs="at-restart")
    lose(strategy, gpus(4, 0))
    assert strategy.on_repair(gpus(4, 0)) is None
    assert strategy.plan().pace == pytest.approx(32 / 30)


def test_power_makes_up_for_tp28_and_not_for_tp26() -> None:
    strategy = built("spare-ntp", hit_groups="boosted", least_degree_share=0.5)
    lose(strategy, gpus(4, 0, 4))
    assert strategy.plan().pace == 1.0
    lose(strategy, gpus(5, 0, 5))
    assert strategy.plan().pace == pytest.approx(32 / 26 / PowerCurve().most_performance)


def test_smaller_batches_keep_the_pace() -> None:
    """TP30 and TP28 keep 7 of 8 sequences: 8 * 30/32 = 7.5 and 8 * 28/32 = 7."""
    strategy = built("spare-ntp", hit_groups="smaller-batch")
    lose(strategy, gpus(4, 0), gpus(5, 0, 3))
    assert strategy.plan().pace == 1.0
    assert strategy.plan().batch_share == pytest.approx(1 - 2 / 8 / 24)
    copies = built("replication-ntp", hit_groups="smaller-batch")
    lose(copies, gpus(3, 0), gpus(4, 0))
    assert copies.plan().batch_share == 1.0
    lose(copies, gpus(5, 0))
    assert copies.plan().batch_share == pytest.approx(1 - 1 / 8 / 8)


def test_groups_that_return_are_whole() -> None:
    strategy = built("spare-ntp")
    lose(strategy, gpus(4, 0))
    lose(strategy, gpus(4, 0, 40))
    assert 4 not in strategy.plan().members
    strategy.on_return([4])
    assert strategy.plan() == built("spare-ntp").plan()


@given(
    scheme=st.sampled_from(SCHEMES),
    strikes=st.lists(
        st.tuples(st.integers(0, 11), st.integers(0, 90), st.integers(1, 9), st.booleans()),
        max_size=40,
    ),
    mode=st.sampled_from(["slow", "boosted", "smaller-batch"]),
)
@settings(max_examples=100, deadline=None)
def test_members_are_those_who_never_lost_too_much(
    scheme: str, strikes: list[tuple[int, int, int, bool]], mode: str
) -> None:
    """Kept apart as sets of GPUs in three domains; repairs take back what they had broken."""
    strategy = built(scheme, 12, 3, hit_groups=mode)
    broken: dict[int, list[Hit]] = {}
    dead: set[int] = set()
    for group, first, count, repaired in strikes:
        if group in dead:
            continue
        hit = Hit(group, first, min(first + count - 1, 95), 96)
        broken.setdefault(group, []).append(hit)
        verdict = lose(strategy, hit)
        lost = {gpu for one in broken[group] for gpu in range(one.first_gpu, one.last_gpu + 1)}
        dies = max(sum(gpu // 32 == domain for gpu in lost) for domain in range(3)) > 4
        if isinstance(verdict, WipeOut):
            assert dies
            return
        assert verdict.dropped == ((group,) if dies else ())
        if dies:
            dead.add(group)
            del broken[group]
        elif repaired:
            strategy.on_repair(broken[group].pop())
        plan = strategy.plan()
        assert set(plan.members) == set(range(12)) - dead
        assert 1.0 <= plan.pace <= 32 / 28 + 1e-9
        assert 0.75 <= plan.batch_share <= 1.0
        whole = not any(broken.values())
        assert not whole or (plan.pace, plan.batch_share) == (1.0, 1.0)
