"""Packing, throughput, spares and availability against plain Python and brute force."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from faultline.experiments.studies.ntp.setting import backward_slowdown
from faultline.experiments.studies.ntp.throughput import (
    available_fraction,
    batch_sequences,
    packed,
    unpacked,
    worst_first,
)
from faultline.strategies.schemes.ntp.replica_plan import (
    ReplicaPlan,
    ReplicaRules,
    Scheme,
    pipeline_time,
    replica_plans,
    resharding_bytes,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom


def plain_batch(
    failed: Sequence[int], domains_per_replica: int, plans: Sequence[ReplicaPlan], *, packing: bool
) -> int:
    """Sequences of the job: domains fill replicas in their order, or sorted, the worst left out."""
    replicas = len(failed) // domains_per_replica
    order = sorted(failed)[: replicas * domains_per_replica] if packing else list(failed)
    total = 0
    for replica in range(replicas):
        first = replica * domains_per_replica
        total += plans[max(order[first : first + domains_per_replica])].sequences
    return total


def best_batch(
    failed: Sequence[int], domains_per_replica: int, plans: Sequence[ReplicaPlan]
) -> int:
    """Sequences of the job under the best of all assignments of domains to replicas."""
    if len(failed) < domains_per_replica:
        return 0
    best = 0
    # Either the last domain is left out, or it is in a replica with some of the others.
    if len(failed) % domains_per_replica:
        best = best_batch(failed[:-1], domains_per_replica, plans)
    for chosen in combinations(range(len(failed) - 1), domains_per_replica - 1):
        rest = [value for place, value in enumerate(failed[:-1]) if place not in chosen]
        worst = max([failed[-1], *(failed[place] for place in chosen)])
        mine = plans[worst].sequences
        best = max(best, mine + best_batch(rest, domains_per_replica, plans))
    return best


def available(gpus: int, domain_gpus: int, failed: int) -> Fraction:
    """The chance that a domain has no failed GPU, from numbers of subsets."""
    return Fraction(comb(gpus - domain_gpus, failed), comb(gpus, failed))


DOMAIN_GPUS = 32
RULES = ReplicaRules(DOMAIN_GPUS, 8, pipeline_time(0.0))
PLANS = {scheme: replica_plans(scheme, RULES) for scheme in Scheme}

# Mostly healthy, as failures are rare.
failed_gpus = st.one_of(st.just(0), st.just(0), st.integers(0, DOMAIN_GPUS))
domain_lists = st.lists(failed_gpus, min_size=6, max_size=24)


def batch(failed: list[int], per_replica: int, scheme: Scheme, *, packing: bool) -> int:
    states = np.array([failed])
    replicas = len(failed) // per_replica
    worst = (
        packed(worst_first(states), len(failed), per_replica)
        if packing
        else unpacked(states, per_replica)
    )
    return int(batch_sequences(worst, replicas, PLANS[scheme])[0])


@given(domain_lists, st.integers(1, 6), st.sampled_from(Scheme), st.booleans())
def test_arrays_do_as_plain_python(
    failed: list[int], per_replica: int, scheme: Scheme, packing: bool
) -> None:
    expected = plain_batch(failed, per_replica, PLANS[scheme], packing=packing)
    assert batch(failed, per_replica, scheme, packing=packing) == expected


@given(
    st.lists(st.integers(0, 7), min_size=3, max_size=8), st.integers(1, 3), st.sampled_from(Scheme)
)
def test_no_assignment_beats_packing(failed: list[int], per_replica: int, scheme: Scheme) -> None:
    best = best_batch(failed, per_replica, PLANS[scheme])
    assert batch(failed, per_replica, scheme, packing=True) == best


@given(domain_lists, st.integers(1, 6), st.data())
def test_invariants(failed: list[int], per_replica: int, data: st.DataObject) -> None:
    """Packing never hurts, a better scheme never does less, a further failure never helps."""
    worse = list(failed)
    place = data.draw(st.integers(0, len(failed) - 1))
    worse[place] = min(DOMAIN_GPUS, worse[place] + 1)
    for packing in (True, False):
        done = [batch(failed, per_replica, scheme, packing=packing) for scheme in Scheme]
        assert done == sorted(done)
        for scheme, before in zip(Scheme, done, strict=True):
            assert batch(worse, per_replica, scheme, packing=packing) <= before
    for scheme in Scheme:
        assert batch(failed, per_replica, scheme, packing=True) >= batch(
            failed, per_replica, scheme, packing=False
        )


@given(st.lists(domain_lists, min_size=1, max_size=4), st.sampled_from(Scheme))
def test_many_states_at_once_are_each_alone(states: list[list[int]], scheme: Scheme) -> None:
    domains = min(map(len, states))
    table = np.array([state[:domains] for state in states])
    worst = packed(worst_first(table), domains, 3)
    together = batch_sequences(worst, domains // 3, PLANS[scheme])
    alone = [batch(list(row), 3, scheme, packing=True) for row in table.tolist()]
    assert together.tolist() == alone


def test_worst_first_sorts_every_state() -> None:
    table = np.array([[0, 2, 0, 5], [0, 0, 0, 0], [1, 3, 2, 0]])
    assert worst_first(table).tolist() == [[5, 2, 0], [0, 0, 0], [3, 2, 1]]
    assert worst_first(np.zeros((2, 4), dtype=int)).shape == (2, 0)


@pytest.mark.parametrize(
    ("size", "share"), [(8, 0.992), (16, 0.984), (32, 0.968), (64, 0.938), (72, 0.930)]
)
def test_availability_at_a_thousandth(size: int, share: float) -> None:
    """32,768 GPUs, 33 of them failed; computed by hand from 1 - (1 - 0.001)^n, within 0.05 points.

    The published value for 64 is 94 %.
    """
    assert available_fraction(32_768, size, 33) == pytest.approx(share, abs=1e-3)


@given(st.integers(1, 60), st.data())
def test_availability_is_hypergeometric(gpus: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, gpus))
    failed = data.draw(st.integers(0, gpus))
    found = available_fraction(gpus, size, failed)
    assert found == pytest.approx(float(available(gpus, size, failed)), abs=1e-12)
    assert found == pytest.approx(float(hypergeom.pmf(0, gpus, failed, size)), abs=1e-9)


def test_resharding_by_hand() -> None:
    """960 bytes on 32 ranks, 30 each; two spare ranks give 60 to 30 core ranks: 2 each, so 32."""
    moved = resharding_bytes(960.0, 32, 30)
    assert (moved.spare_sends, moved.core_receives, moved.core_syncs) == (30.0, 2.0, 32.0)
    assert moved.largest == 30.0
    # Half of the ranks: each core rank receives as much as a spare one sends.
    half = resharding_bytes(960.0, 32, 16)
    assert half.spare_sends == half.core_receives == 30.0
    assert resharding_bytes(960.0, 32, 32).largest == 0.0
    # Twice 30 bytes at 10 bytes/s, over 100 s of backward pass.
    assert backward_slowdown(30.0, 1000.0, 10.0, 10.0) == pytest.approx(0.06)
