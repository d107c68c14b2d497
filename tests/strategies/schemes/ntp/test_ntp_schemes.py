"""DP-DROP, NTP and NTP-PW as schemes of the training loop: by hand, and against the placements."""

from __future__ import annotations

import numpy as np
import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.runs.single_run import run
from faultline.experiments.studies.ntp.throughput import (
    batch_sequences,
    packed,
    unpacked,
    worst_first,
)
from faultline.strategies.interface.recovery import Move
from faultline.strategies.interface.scheme import Hit, Strategy, WipeOut
from faultline.strategies.schemes.ntp.job_plan import Damage, domains_in_places, packed_replicas
from faultline.strategies.schemes.ntp.ntp import NtpPw
from faultline.strategies.schemes.ntp.replica_plan import (
    ReplicaRules,
    Scheme,
    pipeline_time,
    replica_plans,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.strategies import helpers

GPUS = 256


def built(scheme: Scheme, groups: int = 128, **options: object) -> Strategy:
    return helpers.built(scheme.value, groups, **options)


def gpu(group: int, *numbers: int) -> list[Hit]:
    return [Hit(group, number, number, GPUS) for number in numbers]


def struck(strategy: Strategy, hits: list[Hit]) -> Strategy:
    strategy.restart()
    for hit in hits:
        strategy.on_hit(hit)
    return strategy


@pytest.mark.parametrize("scheme", Scheme)
def test_every_failure_makes_the_job_restart_and_a_restart_alone_forgets(scheme: Scheme) -> None:
    strategy = built(scheme)
    whole = strategy.plan()
    assert (len(whole.members), whole.pace, whole.batch_share) == (128, 1.0, 1.0)
    strategy.on_hit(*gpu(3, 0))
    assert strategy.on_failures([3]) == WipeOut((3,))
    assert strategy.plan() != whole
    strategy.restart()
    assert strategy.plan() is whole
    assert strategy.forces_restart() == (1.0,)


def test_nine_domains_fill_two_replicas_and_the_most_hit_groups_stay_away() -> None:
    """Groups 5 (three domains) and 9 (two domains, three GPUs) before those with one domain."""
    hits = gpu(5, 0, 40, 70) + gpu(9, 0, 1, 200) + gpu(1, 0) + gpu(2, 0) + gpu(3, 0) + gpu(4, 0)
    plan = struck(built(Scheme.DP_DROP), hits).plan()
    assert set(range(128)) - set(plan.members) == {5, 9}
    assert plan.batch_share == 126 / 128
    apart = struck(built(Scheme.DP_DROP, pod_groups=1), hits).plan()
    assert set(range(128)) - set(apart.members) == {1, 2, 3, 4, 5, 9}
    assert apart.batch_share == 122 / 128


def test_ntp_cuts_the_batch_by_whole_sequences_and_ntp_pw_pays_in_power() -> None:
    """TP30: (7 + 7) 32/30 = 14.9 of 15 slots, so 7 of 8 sequences; TP28: 6; TP26: 5."""
    for failed, sequences in ((1, 7), (2, 7), (3, 6), (4, 6), (5, 5)):
        hits = gpu(0, *range(failed))
        plan = struck(built(Scheme.NTP), hits).plan()
        assert plan.batch_share == pytest.approx(1 - (8 - sequences) / 1024)
        assert len(plan.members) == 128
        boosted = struck(built(Scheme.NTP_PW), hits).plan()
        # TP26 needs 32/26 = 1.23 times the performance, and 1.3 times the power gives 1.156.
        assert boosted.batch_share == (1.0 if failed <= 4 else 1 - 1 / 1024)


def test_whole_replicas_reshard_while_one_is_reduced() -> None:
    strategy = built(Scheme.NTP, resharding_slowdown=0.03, backward_share=0.5)
    assert struck(strategy, gpu(0, 0)).plan().pace == pytest.approx(1.015)
    # TP8 of 32: each core rank receives 24/8 of what it has itself.
    few = built(Scheme.NTP_PW, resharding_slowdown=0.03, backward_share=0.5, micro_batches=64)
    assert struck(few, gpu(0, *range(24))).plan().pace == pytest.approx(1.045)
    assert struck(built(Scheme.DP_DROP), gpu(0, 0)).plan().pace == 1.0


def test_a_domain_below_the_least_degree_takes_its_replica_with_it() -> None:
    strategy = built(Scheme.NTP, least_tensor=29)
    assert len(struck(strategy, gpu(0, 0, 1)).plan().members) == 128
    assert len(struck(strategy, gpu(0, 0, 1, 2)).plan().members) == 127


def test_hosts_and_switches_may_lie_across_domains() -> None:
    """GPUs 28 to 35 are four of the first domain and four of the second; twice is no more."""
    hits = [Hit(0, 28, 35, GPUS), Hit(0, 28, 35, GPUS), Hit(0, 30, 31, GPUS)]
    plan = struck(built(Scheme.NTP, pod_groups=1), hits).plan()
    assert plan.batch_share == 1 - 2 / 1024
    assert struck(built(Scheme.NTP), hits).plan().batch_share == 1 - 2 / 1024


@pytest.mark.parametrize("scheme", Scheme)
def test_a_job_of_which_nothing_is_left_has_no_group_to_work_with(scheme: Scheme) -> None:
    plan = struck(built(scheme, groups=2), [Hit(0, 0, 255, GPUS), Hit(1, 0, 255, GPUS)]).plan()
    assert plan.members == ()
    assert plan.batch_share == 0.0


@given(
    counts=st.lists(st.integers(0, 6), min_size=12, max_size=48).filter(any),
    scheme=st.sampled_from(Scheme),
    pod=st.integers(0, 12),
)
@examples(1.5)
def test_the_batch_is_that_of_the_placement_study(
    counts: list[int], scheme: Scheme, pod: int
) -> None:
    """Any failed GPUs, four domains a replica: as `throughput` has it, pod by pod.

    A pod of one group is no packing.
    """
    counts = counts[: len(counts) // 4 * 4]
    groups = len(counts) // 4
    hits = [
        Hit(domain // 4, domain % 4 * 32 + place, domain % 4 * 32 + place, 128)
        for domain, failed in enumerate(counts)
        for place in range(failed)
    ]
    plan = struck(built(scheme, groups, pod_groups=max(1, pod)), hits).plan()
    plans = replica_plans(scheme, ReplicaRules(32, 8, pipeline_time(3)))
    failed = np.array([counts])
    width = 4 * pod or len(counts)
    pods = [failed[:, first : first + width] for first in range(0, len(counts), width)]
    found = [packed(worst_first(one), one.shape[1], 4) if pod else unpacked(one, 4) for one in pods]
    expected = sum(
        int(batch_sequences(worst, one.shape[1] // 4, plans)[0])
        for worst, one in zip(found, pods, strict=True)
    )
    assert plan.batch_share == pytest.approx(expected / (8 * groups))
    sequences = np.array([p.sequences for p in plans])
    dropped = sum(int((sequences[worst[0]] == 0).sum()) for worst in found)
    assert len(plan.members) == groups - dropped


@given(counts=st.lists(st.integers(0, 3), min_size=16, max_size=48), pod=st.integers(1, 12))
@examples(1.5)
def test_every_domain_has_one_place_and_hit_ones_are_in_their_replica(
    counts: list[int], pod: int
) -> None:
    """No domain leaves its pod, and as few stages move as replicas have broken domains twice.

    A replica can keep each of its broken domains at its stage unless two of them have the same.
    """
    damage = Damage(32)
    for place, failed in enumerate(counts[: len(counts) // 4 * 4]):
        if failed:
            damage.add(Hit(place // 4, place % 4 * 32, place % 4 * 32 + failed - 1, 128))
    replicas = packed_replicas(damage, pod)
    moved = domains_in_places(replicas, 4, pod)
    assert set(moved) == set(moved.values())
    assert all(place != domain for place, domain in moved.items())
    assert all(place[0] // pod == domain[0] // pod for place, domain in moved.items())
    for replica in replicas:
        inside = {moved.get((replica.group, stage), (replica.group, stage)) for stage in range(4)}
        assert {(one.group, one.domain) for one in replica.domains} <= inside
    twice = sum(
        len(replica.domains) - len({one.domain for one in replica.domains}) for replica in replicas
    )
    changed = sum(place[1] != domain[1] for place, domain in moved.items())
    assert twice <= changed <= 2 * twice


def test_a_group_with_another_stage_is_sent_its_state_once() -> None:
    """Of groups 1 and 2 the first domains are hit: they share a replica, one as its second stage.

    The healthy second stage of group 1 goes to the first of group 2. Once repaired, both go back.
    """
    strategy = struck(built(Scheme.NTP), gpu(1, 0) + gpu(2, 0))
    needed = strategy.migration()
    assert needed is not None
    assert needed.moves == (Move(1, 1, 1, 8), Move(2, 0, 0, 8))
    assert strategy.migration() is None
    strategy.restart()
    assert strategy.migration() == needed
    # Of different stages both keep their own, and a pod of one group keeps all.
    assert struck(built(Scheme.NTP), gpu(1, 0) + gpu(2, 40)).migration() is None
    assert struck(built(Scheme.NTP, pod_groups=1), gpu(1, 0) + gpu(2, 0)).migration() is None


def test_groups_with_new_hardware_come_back_and_none_leaves_for_them() -> None:
    """Twelve hit domains are two replicas, and nine still are; those that train go on."""
    hits = [*gpu(5, 0, 40, 70), *gpu(9, 0, 40)]
    hits += [hit for group in range(10, 17) for hit in gpu(group, 0)]
    strategy = struck(built(Scheme.DP_DROP), hits)
    assert set(range(128)) - set(strategy.plan().members) == {5, 9}
    strategy.on_return([5])
    assert set(range(128)) - set(strategy.plan().members) == {9}
    assert strategy.plan().batch_share == 126 / 128
    strategy.on_return([9])
    assert strategy.plan().members == tuple(range(128))
    assert strategy.plan().batch_share == 127 / 128


def test_power_is_raised_in_replicas_that_are_hit_and_costs_energy() -> None:
    """One of 128 replicas draws what keeps it in time; a job's energy has that on top."""
    pw, plain = (struck(built(scheme), gpu(0, 3)) for scheme in (Scheme.NTP_PW, Scheme.NTP))
    assert isinstance(pw, NtpPw)
    (needed,) = {plan.power for plan in pw.plans(32, GPUS // 32)[1:2]}
    assert needed > 1.0
    assert pw.plan().power == pytest.approx(1.0 + (needed - 1.0) / 128)
    assert plain.plan().power == 1.0
    for scheme in ("ntp", "ntp-pw"):
        scenario = load_scenario("ntp-32k", ["job.steps=20000", f"strategy.name={scheme}"])
        record = run(scenario, 1)
        rated_j = 1400.0 * 3600.0 * record["gpu_hours"]
        if scheme == "ntp":
            assert record["energy_j"] == pytest.approx(rated_j)
        else:
            assert rated_j < record["energy_j"] < 1.3 * rated_j
