"""All rings of groups of several GPUs, on both engines; who is alike, and who counts if not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import durations_of
from faultline.experiments.job.resolving import resolve
from faultline.platforms.preset_library import load_preset
from faultline.platforms.spec import ClusterSpec
from faultline.platforms.spec_file import parse_spec
from faultline.platforms.symmetry import Symmetry
from faultline.platforms.topology import rail_plane
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.accounting.timeline import EventKind
from faultline.simulator.job.durations import ConstantTime, RingTime
from faultline.simulator.pattern.plan_shares import StepShares
from faultline.simulator.processes.process import run_on_simgrid
from faultline.simulator.simgrid.traffic import Readers, Traffic
from faultline.simulator.timing.transfer_times import ProbeResult, SimulatedStorageTimes, probe
from faultline.strategies.plugins.registry import build_strategy

from tests.simulator.collectives.message_ring import message_rings_s
from tests.simulator.helpers import Scripted, agreed, edited, small_job, traffic_on

NIC = 50e9
"""Of hgx-h100, in bytes/s."""

PAGE = Path(__file__).parents[3] / "docs" / "modelling-a-cluster.md"


def probed(spec: ClusterSpec, groups: int, bytes_per_rank: float, path: Path) -> ProbeResult:
    write_xml(spec, path)
    return probe(path, traffic_on(path, groups, bytes_per_rank))


def servers(domains: int, domains_per_leaf: int, core: int = 1) -> ClusterSpec:
    return load_preset(
        "hgx-h100", domains=domains, domains_per_leaf=domains_per_leaf, oversubscription=[core]
    )


def our_cluster() -> ClusterSpec:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return parse_spec(text, "our-cluster.toml")


def stored(path: Path, traffic: Traffic, measured: ProbeResult) -> SimulatedStorageTimes:
    alike = Symmetry(read_platform(path))
    return SimulatedStorageTimes(path, traffic, lambda: alike, measured.save_s, measured.load_s)


def test_two_gpus_that_share_an_adapter_take_twice_as_long(tmp_path: Path) -> None:
    """The cluster of the page, a server a group: 2 * 15/16 of 125 GB at half of 50 GB/s."""
    measured = probed(our_cluster(), 16, 1e12 / 8, tmp_path / "p.xml")
    assert measured.all_reduce_s == pytest.approx(9.375, rel=1e-4)


def test_groups_that_fill_a_leaf_share_its_uplinks(tmp_path: Path) -> None:
    """Eight rings a rail over a 4:1 core: 2 * 3/4 of 15.625 GB at a quarter of 50 GB/s."""
    measured = probed(servers(32, 8, core=4), 4, 15.625e9, tmp_path / "p.xml")
    assert measured.all_reduce_s == pytest.approx(1.875, rel=1e-4)
    assert measured.ring_unevenness == pytest.approx(0.0, abs=1e-6)


def test_every_message_of_all_rings_takes_as_long_as_steady_flows(
    servers_of: Callable[..., Path],
) -> None:
    path = servers_of(domains=8, domains_per_leaf=2, oversubscription=[4])
    traffic = traffic_on(path, 4, 1e9)
    flows = probe(path, traffic)
    messages_s = message_rings_s(path, list(zip(*traffic.hosts, strict=True)), 1e9)
    assert messages_s == pytest.approx(flows.all_reduce_s, rel=1e-4)
    assert flows.all_reduce_s == pytest.approx(RingTime(0.0, 1e9 / NIC * 4)(4), rel=1e-3)


@pytest.mark.parametrize(
    ("spec", "groups"), [(our_cluster(), 16), (servers(8, 2, core=4), 4)], ids=["page", "4:1"]
)
def test_a_rail_plane_takes_as_long_as_all_rails(
    spec: ClusterSpec, groups: int, tmp_path: Path
) -> None:
    """Folded and unfolded: only where this holds may one rail stand for all."""
    whole = probed(spec, groups, 1e10, tmp_path / "whole.xml")
    plane = probed(rail_plane(spec), groups, 1e10, tmp_path / "plane.xml")
    assert plane.all_reduce_s == pytest.approx(whole.all_reduce_s, rel=1e-9)
    assert plane.empty_all_reduce_s == pytest.approx(whole.empty_all_reduce_s, rel=1e-9)


@pytest.mark.parametrize("core", [1, 2])
def test_a_group_a_server_is_alike_wherever_it_is(core: int, tmp_path: Path) -> None:
    """At 2:1 too: of two servers below a leaf, one at a time goes up.

    Replay must be able to trust a time measured with all groups for any that are left.
    """
    measured = probed(servers(8, 2, core), 8, 1e10, tmp_path / "p.xml")
    assert measured.ring_unevenness < 1e-3


@pytest.mark.parametrize(
    ("domains", "domains_per_leaf", "core", "order", "times"),
    [
        # Four servers below a leaf, two groups of two: side by side they have four times more.
        pytest.param(8, 4, 8, (), 4, id="survivors below one leaf do not pass the thin core"),
        # In this order each edge passes the core, two of them up from each leaf.
        pytest.param(4, 2, 2, (0, 2, 1, 3), 2, id="pairs alike share a trunk all together"),
    ],
)
def test_a_pair_has_more_than_its_part_of_all(
    domains: int,
    domains_per_leaf: int,
    core: int,
    order: Sequence[int],
    times: int,
    servers_of: Callable[..., Path],
) -> None:
    path = servers_of(domains=domains, domains_per_leaf=domains_per_leaf, oversubscription=[core])
    traffic = traffic_on(path, 4, 1e10, order)
    measured = probe(path, traffic)
    assert measured.ring_unevenness == pytest.approx(times - 1, rel=1e-3)
    # That is no theory: two groups, measured.
    pair = probe(path, replace(traffic, hosts=traffic.hosts[:2]))
    assert measured.ring_time()(2) == pytest.approx(times * pair.all_reduce_s, rel=1e-3)


@pytest.mark.parametrize(
    ("readers", "expected_s"),
    [
        # 5 GB/s a GPU until all of them have 100 GB/s: two groups of eight take what one does.
        ("every-group", {1: 2.0, 2: 2.0, 3: 2.4, 5: 4.0, 8: 6.4}),
        # One reads; it passes 10 GB a GPU on at 50 GB/s, if there is somebody.
        ("one-group", {1: 2.0, 2: 2.2, 3: 2.2, 5: 2.2, 8: 2.2}),
    ],
)
def test_a_load_takes_what_those_who_load_share(
    readers: Readers, expected_s: dict[int, float], tmp_path: Path
) -> None:
    spec = servers(8, 4)
    storage = spec.storage.model_copy(update={"client_bandwidth_bytes_per_s": 5e9})
    write_xml(spec.model_copy(update={"storage": storage}), tmp_path / "p.xml")
    traffic = replace(traffic_on(tmp_path / "p.xml", 8, 1e10), readers=readers)
    times = stored(tmp_path / "p.xml", traffic, probe(tmp_path / "p.xml", traffic))
    for groups, load_s in expected_s.items():
        last = list(range(8 - groups, 8))
        assert times.load_s(last) == pytest.approx(load_s, rel=1e-3)


@pytest.mark.parametrize(
    ("told_s", "watchdog_s", "steps"),
    [(0.06, None, 4), (10.0, None, 4), (0.06, 0.1, 0), (0.06, 0.2, 4)],
)
def test_it_takes_what_its_messages_take(
    told_s: float, watchdog_s: float | None, steps: int, servers_of: Callable[..., Path]
) -> None:
    """The SimGrid engine runs messages: what a probe told does not make them faster.

    A watchdog that fires first fails them each time, and one that fires later does not.
    """
    path = servers_of(domains=4, domains_per_leaf=1)
    traffic = replace(traffic_on(path, 4, 4e9), save=False, load=False, storage="")
    needed_s = RingTime(0.0, 4e9 / NIC)(4)
    watched = {"detection": "watchdog", "watchdog_s": watchdog_s} if watchdog_s else {}
    stated = {"all_reduce_s": ConstantTime(told_s), "give_up_after_restarts": 3}
    job = small_job(Scripted({}), groups=4, **stated, **watched)
    progress = run_on_simgrid(job, build_strategy("checkpoint", 4, 1), path, traffic).progress
    assert 0.1 < needed_s < 0.2
    assert progress.completed_steps == steps
    assert progress.seconds["all_reduce"] == pytest.approx(steps * needed_s, rel=1e-3)
    assert progress.restarts == (0 if steps else 3)
    assert progress.seconds["detection"] == pytest.approx(0.1 * progress.restarts)


MULTI_RING = [
    *("job.groups=8", "job.gpus=32", "job.steps=30", "job.compute_jitter=0"),
    *("times.compute_s=2", "job.parameter_bytes=4e11"),
    *("failures.mtbf_s=60", "times.restart_s=30", "checkpoint.interval_steps=5"),
    *("~times.all_reduce_per_group_s", "~times.checkpoint_write_s", "restart.readers=one-group"),
]
"""All-reduces of 14 s, so that most failures fall into one; writes of 8 s."""


@pytest.fixture(scope="module")
def shared_adapters(servers_of: Callable[..., Path]) -> str:
    """Return servers of four GPUs on two adapters, each below a leaf switch and a 4:1 core."""
    shared = {"gpus_per_domain": 4, "gpus_per_nic": 2, "domains": 8, "domains_per_leaf": 1}
    return f'platform.file="{servers_of(**shared, oversubscription=[4])}"'


@pytest.mark.parametrize(
    "scheme", ["checkpoint", pytest.param("replication", marks=pytest.mark.slow), "spare"]
)
@pytest.mark.parametrize(
    "option",
    [
        ["restart.failure_during=absorbed"],
        ["detection.mode=watchdog", "detection.watchdog_s=40"],
        ["detection.failure_in_all_reduce=next-step"],
    ],
    ids=["sound", "watchdog", "next step"],
)
def test_both_engines_simulate_all_rings_of_groups_that_fail(
    scheme: str, option: list[str], shared_adapters: str
) -> None:
    settings = [*MULTI_RING, shared_adapters, f"strategy.name={scheme}", *option]
    if scheme == "checkpoint":
        settings.append("job.time_limit_s=5000")
    else:
        settings.append("strategy.redundancy=2")
    record, events = agreed("spare-sound", settings, seed=3)
    assert record["restarts"] > 1
    assert EventKind.MISSING in {event.kind for event in events}


SOUND_NIC = 6.25e9
"""Bytes/s of an adapter of the study's cluster, 12.5e9, behind its 2:1 core."""
SLOW_NIC = 1e9
"""Bytes/s of the adapter of group 3."""


@pytest.fixture(scope="module")
def slow_adapter(
    platform_of: Callable[[int], Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("uneven") / "slow.xml"
    return edited(platform_of(8), path, r'("nic-000003" bandwidth=)"12.5GBps"', r'\1"1GBps"')


@pytest.fixture(scope="module")
def thin_core(servers_of: Callable[..., Path]) -> Path:
    """Four servers a leaf, two a group: neighbours pass the 8:1 core, or do not."""
    return servers_of(domains=8, domains_per_leaf=4, oversubscription=[8])


def on_slow(path: Path, *more: str) -> list[str]:
    return ["job.groups=8", f'platform.file="{path}"', *more]


def on_core(path: Path, *more: str) -> list[str]:
    job = ["job.groups=4", "job.gpus=64", "job.parameter_bytes=1e11"]
    return [*job, f'platform.file="{path}"', *more]


@pytest.mark.parametrize("scheme", ["spare", "replica-drop", "checkpoint"])
@pytest.mark.parametrize(
    "kept",
    [
        ["~restart.readers"],
        pytest.param(["restart.readers=every-group"], marks=pytest.mark.slow),
        pytest.param(["protection.name=async-storage"], marks=pytest.mark.slow),
        pytest.param(["protection.name=gemini"], marks=pytest.mark.slow),
    ],
    ids=lambda kept: kept[0],
)
@pytest.mark.parametrize(
    "platform", ["slow_adapter", pytest.param("thin_core", marks=pytest.mark.slow)]
)
def test_engines_agree_whoever_is_left(
    platform: str, kept: list[str], scheme: str, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(platform)
    on = on_slow if platform == "slow_adapter" else on_core
    changes = ["job.steps=60", "job.compute_jitter=0", "failures.mtbf_s=1000"]
    changes += [f"strategy.name={scheme}", *kept]
    changes += ["strategy.redundancy=2"] * (scheme == "spare")
    record, _ = agreed("spare-sound", on(path, *changes), seed=0)
    assert record["events"] >= 6


def test_the_slow_one_slows_as_long_as_it_is_there(slow_adapter: Path) -> None:
    """2 (n - 1)/n of its bytes pass its adapter; without it, all is as where no adapter is slow."""
    sound_s = durations_of(load_scenario("spare-sound", ["job.groups=8"])).all_reduce_s
    scenario = load_scenario("spare-sound", on_slow(slow_adapter))
    assert durations_of(scenario).rings_are_uneven
    rings = resolve(scenario).job(0).work.step_times
    assert rings is not None
    everybody, others = tuple(range(8)), (0, 1, 2, 4, 5, 6, 7)
    with_it, without_it = (rings.exchange_s(StepShares(members)) for members in (everybody, others))
    size_bytes = with_it * SLOW_NIC / (2 * 7 / 8)
    assert without_it == pytest.approx(sound_s(7), rel=1e-3)
    pair = rings.exchange_s(StepShares((2, 3)))
    assert pair == pytest.approx(size_bytes / SLOW_NIC, rel=1e-3)


def test_the_storage_waits_for_who_is_slow(slow_adapter: Path, tmp_path: Path) -> None:
    """A group writes and reads through its adapter; passed on, all wait for who gets it slowly."""
    storage_link = r'(id="storage-(read|write)" bandwidth=)"[^"]+"'
    path = edited(slow_adapter, tmp_path / "fast-storage.xml", storage_link, r'\1"1TBps"', 2)
    settings = on_slow(path, "~times.checkpoint_write_s", "restart.readers=one-group")
    storage = durations_of(load_scenario("spare-sound", settings)).storage
    assert storage is not None
    size_bytes = storage.save_s(3) * SLOW_NIC
    assert storage.save_s(0) == pytest.approx(size_bytes / SOUND_NIC, rel=1e-3)
    read_s, passed_s = size_bytes / SOUND_NIC, size_bytes / SLOW_NIC
    assert storage.load_s((0, 1, 2)) == pytest.approx(2 * read_s, rel=1e-2)
    assert storage.load_s((0, 1, 3)) == pytest.approx(read_s + passed_s, rel=1e-2)
    assert storage.load_s((3, 4, 5)) == pytest.approx(2 * passed_s, rel=1e-2)


def test_nothing_is_simulated_where_all_are_alike() -> None:
    alike = durations_of(load_scenario("spare-sound", ["job.groups=8"]))
    assert not alike.rings_are_uneven
    assert alike.storage is not None
    assert {alike.storage.save_s(group) for group in range(8)} == {alike.save_s}
