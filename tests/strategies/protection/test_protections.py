"""What each protection moves, costs, needs and survives."""

from __future__ import annotations

from itertools import combinations
from typing import Any, get_args

import pytest
from faultline.simulator.simgrid.state_transfers import StateTransferTimes
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.plugins.registry import all_protections, protection_class
from faultline.strategies.protection.base import ProtectedJob, Protection, hidden_interference_s
from faultline.strategies.protection.node_groups import Placement
from hypothesis import given
from hypothesis import strategies as st

PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
STATE = 12e9

# No two of them are alike, so that a mix-up shows.
TIMES = StateTransferTimes(
    copy_s=2.0,
    copy_interference_s=0.5,
    encode_s=0.25,
    send_s=8.0,
    send_interference_s=3.0,
    load_s=7.0,
    rebuild_s=31.0,
    fetch_s=17.0,
    persist_s=100.0,
    host_memory_bytes=None,
)


def job(groups: int = 8, nodes_per_group: int = 2, compute_s: float = 60.0) -> ProtectedJob:
    nodes = groups * nodes_per_group
    return ProtectedJob(groups, nodes_per_group, nodes, 4, STATE, compute_s)


def protect(name: str, of: ProtectedJob | None = None, **options: Any) -> Protection:
    """Return a protection; REFT with groups that the small jobs of these tests have nodes for."""
    if name == "reft":
        options = {"sharding_group": 4} | options
    chosen = protection_class(name)
    return chosen(of or job(), chosen.Options.model_validate(options))


@st.composite
def protections(draw: st.DrawFn) -> Protection:
    groups, nodes_per_group = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    of = job(groups, nodes_per_group)
    name = draw(st.sampled_from(sorted(all_protections())))
    placement = draw(st.sampled_from(PLACEMENTS))
    if name == "reft":
        size, code = draw(st.integers(1, groups)), draw(st.sampled_from(["raim5", "none"]))
        return protect(name, of, sharding_group=size, code=code, placement=placement)
    if name == "gemini":
        replicas = draw(st.integers(1, of.nodes))
        return protect(name, of, replicas=replicas, placement=placement)
    return protect(name, of)


def test_all_are_known() -> None:
    assert set(all_protections()) >= {
        *("storage", "async-storage", "reft", "gemini", "just-in-time")
    }
    with pytest.raises(StrategyError, match="there is no protection 'magic'"):
        protection_class("magic")


@given(protection=protections(), data=st.data())
def test_what_is_in_memory_is_where_the_peers_are(
    protection: Protection, data: st.DataObject
) -> None:
    """Nothing lost: local. Something: at the peers, if no group of them loses too many."""
    lost = data.draw(st.sets(st.integers(0, protection.job.nodes - 1)))
    way, peers = protection.recovery(lost), protection.peers
    if peers is None:
        assert way is None
        return
    most = max(len(lost & set(peers.nodes_of(group))) for group in range(peers.groups))
    if most > peers.tolerated:
        assert way is None
    else:
        assert way == ("peers" if lost else "local")


@given(protection=protections())
def test_peers_hold_the_same_part_or_each_others(protection: Protection) -> None:
    """REFT and just-in-time rebuild a part from those that have it too; GEMINI may take anyone."""
    peers = protection.peers
    if peers is None or protection.name == "gemini":
        return
    parts = protection.job.nodes_per_group
    for group in range(peers.groups):
        assert len({node % parts for node in peers.nodes_of(group)}) == 1


@given(protection=protections())
def test_nothing_costs_less_than_nothing(protection: Protection) -> None:
    for cost in (protection.snapshot_cost(TIMES), protection.persist_cost(TIMES)):
        assert cost.stall_s >= 0.0
        assert cost.lag_s >= 0.0
    moved = protection.transfers
    assert 0.0 <= moved.snapshot_bytes_per_gpu <= 2 * STATE
    assert protection.memory_bytes_per_node >= 0.0
    if protection.takes_snapshots and protection.peers is not None:
        assert protection.memory_bytes_per_node > 0.0


@pytest.mark.parametrize("size", [2, 4, 8])
def test_reft_keeps_a_share_and_a_parity(size: int) -> None:
    """S/n and S/(n(n - 1)) are S/(n - 1), for two snapshots and four GPUs (Wang et al. 2023)."""
    reft = protect("reft", sharding_group=size)
    assert reft.memory_bytes_per_node == pytest.approx(2 * 4 * STATE / (size - 1))
    bare = protect("reft", sharding_group=size, code="none")
    assert bare.memory_bytes_per_node == pytest.approx(2 * 4 * STATE / size)


def test_reft_copies_the_blocks_of_its_parity_and_rebuilds_shares() -> None:
    """N - 1 blocks of S/(n(n - 1)) are as much as the share of S/n itself."""
    moved = protect("reft").transfers
    assert moved.snapshot_bytes_per_gpu == pytest.approx(STATE / 4 + 3 * STATE / (4 * 3))
    assert moved.share_bytes_per_gpu == pytest.approx(STATE / 4)
    assert protect("reft", code="none").transfers.snapshot_bytes_per_gpu == STATE / 4


def test_reft_hides_what_fits_into_the_compute_of_a_step() -> None:
    assert protect("reft").snapshot_cost(TIMES).stall_s == 0.0
    # Half of the copy of 2 s fits; the other half meets the all-reduce.
    assert protect("reft", job(compute_s=1.0)).snapshot_cost(TIMES).stall_s == 0.25
    free = protect("reft", copying="free-running").snapshot_cost(TIMES)
    assert (free.stall_s, free.lag_s) == (0.5, 2.25)
    blocking = protect("reft", copying="blocking").snapshot_cost(TIMES)
    assert (blocking.stall_s, blocking.lag_s) == (2.25, 0.0)


def test_without_a_code_reft_survives_nothing() -> None:
    bare = protect("reft", code="none")
    assert bare.recovery([]) == "local"
    assert bare.recovery([3]) is None
    assert bare.snapshot_cost(TIMES).lag_s == 2.0


def test_a_sharding_group_of_one_has_no_node_to_rebuild_it() -> None:
    alone = protect("reft", sharding_group=1)
    assert alone.recovery([0]) is None
    assert alone.transfers.snapshot_bytes_per_gpu == STATE


def test_reft_survives_one_loss_a_sharding_group() -> None:
    """8 replicas of 2 nodes, groups of 4 across domains: nodes 0, 4, 8, 12 are one."""
    reft = protect("reft")
    for pair in combinations(range(16), 2):
        assert (reft.recovery(pair) is None) == ((pair[0] - pair[1]) % 4 == 0)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_replica_that_is_lost_whole_costs_reft_one_node_a_group(placement: Placement) -> None:
    reft = protect("reft", placement=placement)
    assert reft.recovery([4, 5]) == "peers"


def test_gemini_loses_neighbours_with_their_domain() -> None:
    domain = [4, 5]
    assert protect("gemini", placement="neighbours").recovery(domain) is None
    assert protect("gemini", placement="across-domains").recovery(domain) == "peers"
    assert protect("gemini", placement="neighbours", replicas=3).recovery(domain) == "peers"


def test_gemini_keeps_a_part_of_each_replica_m_times() -> None:
    """An eighth of the state a GPU, its own and that of m - 1 others, twice for two versions."""
    gemini = protect("gemini", replicas=3)
    assert gemini.transfers.snapshot_bytes_per_gpu == STATE / 8
    assert gemini.transfers.copies == 2
    assert gemini.memory_bytes_per_node == 2 * 3 * 4 * STATE / 8
    cost = gemini.snapshot_cost(TIMES)
    assert (cost.stall_s, cost.lag_s) == (0.0, 10.0)
    late = protect("gemini", job(compute_s=5.0)).snapshot_cost(TIMES)
    assert late.stall_s == pytest.approx(3.5 / 2)


def test_just_in_time_needs_one_replica_of_each_part() -> None:
    late = protect("just-in-time", job(groups=3))
    assert late.recovery([0, 2, 5]) == "peers"
    assert late.recovery([0, 2, 4]) is None
    load = late.load_times(TIMES)
    # What is left is saved first.
    assert (load.local_s, load.peers_s) == (9.0, 19.0)
    assert not late.takes_snapshots


def test_what_checkpoints_on_storage_stop() -> None:
    waits, goes_on = (protect(name).persist_cost(TIMES) for name in ("storage", "async-storage"))
    assert (waits.stall_s, waits.lag_s) == (100.0, 0.0)
    assert (goes_on.stall_s, goes_on.lag_s) == (2.0, 100.0)
    for name in ("reft", "gemini"):
        cost = protect(name).persist_cost(TIMES)
        assert (cost.stall_s, cost.lag_s) == (0.0, 100.0)


@given(transfer_s=st.floats(0, 1e3), interference_s=st.floats(0, 1e3), compute_s=st.floats(0, 1e3))
def test_hidden_interference_is_a_part_of_it(
    transfer_s: float, interference_s: float, compute_s: float
) -> None:
    stall_s = hidden_interference_s(transfer_s, interference_s, compute_s)
    assert 0.0 <= stall_s <= interference_s
    if compute_s >= transfer_s:
        assert stall_s == 0.0
    assert stall_s >= hidden_interference_s(transfer_s, interference_s, compute_s + 1.0)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("reft", {"sharding_group": 9}, "9 nodes share the snapshot of one part"),
        ("gemini", {"replicas": 17}, "17 machines per group, but the job has only 16"),
    ],
)
def test_a_job_that_is_too_small_is_refused(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(StrategyError, match=message):
        protect(name, **options)
