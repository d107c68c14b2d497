"""The all-reduce of groups of several GPUs: all their rings, on both engines, and who is alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from faultline.platforms import (
    ClusterSpec,
    load_preset,
    parse_spec,
    rail_plane,
    read_platform,
    write_xml,
)
from faultline.simulator.collectives.schedule import Fidelity
from faultline.simulator.durations import ConstantTime, RingTime
from faultline.simulator.job import Rules
from faultline.simulator.progress import Progress
from faultline.simulator.simgrid_engine.probes import ProbeResult, probe
from faultline.simulator.simgrid_engine.process import run_on_simgrid
from faultline.simulator.simgrid_engine.traffic import Traffic
from faultline.simulator.timeline import EventKind
from faultline.strategies.registry import build_strategy

from tests.simulator.helpers import SOUND, Scripted, agreed, small_job

NIC = 50e9
"""Of hgx-h100, in bytes/s."""

PAGE = Path(__file__).parents[2] / "docs" / "modelling-a-cluster.md"


def traffic_on(
    spec: ClusterSpec,
    groups: int,
    bytes_per_rank: float,
    path: Path,
    fidelity: Fidelity = "flow",
    order: Sequence[int] = (),
) -> Traffic:
    """Write a platform; place groups on it in order, or in another one."""
    write_xml(spec, path)
    platform = read_platform(path)
    names = platform.gpu_names
    size = len(names) // groups
    hosts = [names[group * size : (group + 1) * size] for group in order or range(groups)]
    storage = platform.storage or ""
    return Traffic(hosts, storage, bytes_per_rank, True, True, True, fidelity)


def probed(spec: ClusterSpec, groups: int, bytes_per_rank: float, path: Path) -> ProbeResult:
    return probe(path, traffic_on(spec, groups, bytes_per_rank, path))


def servers(domains: int, domains_per_leaf: int, core: int = 1) -> ClusterSpec:
    return load_preset(
        "hgx-h100", domains=domains, domains_per_leaf=domains_per_leaf, oversubscription=[core]
    )


def our_cluster() -> ClusterSpec:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return parse_spec(text, "our-cluster.toml")


def test_two_gpus_that_share_an_adapter_take_twice_as_long(tmp_path: Path) -> None:
    """The cluster of the page, a server a group: 2 * 15/16 of 125 GB at half of 50 GB/s."""
    measured = probed(our_cluster(), 16, 1e12 / 8, tmp_path / "p.xml")
    assert measured.all_reduce_s == pytest.approx(9.375, rel=1e-4)


def test_groups_that_fill_a_leaf_share_its_uplinks(tmp_path: Path) -> None:
    """Eight rings a rail over a 4:1 core: 2 * 3/4 of 15.625 GB at a quarter of 50 GB/s."""
    measured = probed(servers(32, 8, core=4), 4, 15.625e9, tmp_path / "p.xml")
    assert measured.all_reduce_s == pytest.approx(1.875, rel=1e-4)
    assert measured.ring_unevenness == pytest.approx(0.0, abs=1e-6)


def test_every_message_of_all_rings_takes_as_long_as_steady_flows(tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    traffic = traffic_on(servers(8, 2, core=4), 4, 1e9, path)
    flows, messages = probe(path, traffic), probe(path, replace(traffic, fidelity="chunk"))
    assert messages.all_reduce_s == pytest.approx(flows.all_reduce_s, rel=1e-4)
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


class TestUnevenness:
    """Replay must be able to trust a time measured with all groups for any that are left."""

    @pytest.mark.parametrize("core", [1, 2])
    def test_a_group_a_server_is_alike_wherever_it_is(self, core: int, tmp_path: Path) -> None:
        """At 2:1 too: of two servers below a leaf, one at a time goes up."""
        measured = probed(servers(8, 2, core), 8, 1e10, tmp_path / "p.xml")
        assert measured.ring_unevenness < 1e-3
        assert measured.storage_unevenness < 1e-3

    def test_survivors_below_one_leaf_do_not_pass_the_thin_core(self, tmp_path: Path) -> None:
        """Four servers below a leaf, two groups of two: side by side they have four times more."""
        path = tmp_path / "p.xml"
        traffic = traffic_on(servers(8, 4, core=8), 4, 1e10, path)
        measured = probe(path, traffic)
        assert measured.ring_unevenness == pytest.approx(3.0, rel=1e-3)
        # That is no theory: two groups of one leaf, measured.
        neighbours = probe(path, replace(traffic, hosts=traffic.hosts[:2]))
        assert measured.ring_time()(2) == pytest.approx(4 * neighbours.all_reduce_s, rel=1e-3)

    def test_pairs_alike_that_share_a_trunk_all_together(self, tmp_path: Path) -> None:
        """In this order each edge passes the 2:1 core, two of them up from each leaf."""
        path = tmp_path / "p.xml"
        traffic = traffic_on(servers(4, 2, core=2), 4, 1e10, path, order=(0, 2, 1, 3))
        measured = probe(path, traffic)
        assert measured.ring_unevenness == pytest.approx(1.0, rel=1e-3)
        pair = probe(path, replace(traffic, hosts=traffic.hosts[:2]))
        assert measured.ring_time()(2) == pytest.approx(2 * pair.all_reduce_s, rel=1e-3)

    @pytest.mark.parametrize("gpu", [3, 24])
    def test_one_adapter_of_a_long_latency_is_seen(self, gpu: int, tmp_path: Path) -> None:
        """Also where it is not the first of its group."""
        path = tmp_path / "p.xml"
        traffic = traffic_on(servers(4, 2), 4, 1e10, path)
        link = rf'(<link id="nic-{gpu:06d}" bandwidth="50GBps" latency=)"600ns"'
        edited, count = re.subn(link, r'\1"1s"', path.read_text(encoding="utf-8"))
        assert count == 1
        path.write_text(edited, encoding="utf-8")
        measured = probe(path, traffic)
        assert measured.ring_unevenness > 1.0
        assert measured.storage_unevenness > 0.1


class TestWithoutDeadline:
    """The SimGrid engine plays messages; what a probe told it does not make them faster."""

    def played(self, told_s: float, rules: Rules, path: Path) -> tuple[Progress, float]:
        """Play four steps of a job that was told another time; return that of the messages too."""
        traffic = replace(
            traffic_on(servers(4, 1), 4, 4e9, path), save=False, load=False, storage=""
        )
        needed_s = RingTime(0.0, 4e9 / NIC)(4)
        job = small_job(
            Scripted({}),
            rules,
            groups=4,
            all_reduce_s=ConstantTime(told_s),
            give_up_after_restarts=3,
        )
        result = run_on_simgrid(job, build_strategy("checkpoint", 4, 1), path, traffic)
        return result.progress, needed_s

    @pytest.mark.parametrize("told_s", [0.06, 10.0])
    def test_it_takes_what_its_messages_take(self, told_s: float, tmp_path: Path) -> None:
        progress, needed_s = self.played(told_s, SOUND, tmp_path / "p.xml")
        assert progress.completed_steps == 4
        assert progress.seconds["all_reduce"] == pytest.approx(4 * needed_s, rel=1e-3)

    def test_a_watchdog_that_fires_first_fails_it(self, tmp_path: Path) -> None:
        watched = replace(SOUND, detection="watchdog", watchdog_s=0.1)
        progress, needed_s = self.played(0.06, watched, tmp_path / "p.xml")
        assert needed_s > 0.1
        assert progress.completed_steps == 0
        assert progress.restarts == 3
        assert progress.seconds["all_reduce"] == 0.0
        assert progress.seconds["detection"] == pytest.approx(3 * 0.1)

    def test_a_watchdog_that_fires_later_does_not(self, tmp_path: Path) -> None:
        watched = replace(SOUND, detection="watchdog", watchdog_s=0.2)
        progress, needed_s = self.played(0.06, watched, tmp_path / "p.xml")
        assert progress.completed_steps == 4
        assert progress.seconds["all_reduce"] == pytest.approx(4 * needed_s, rel=1e-3)


MULTI_RING = [
    *("job.groups=8", "job.gpus=32", "job.steps=30", "job.compute_jitter=0"),
    *("times.compute_s=2", "job.parameter_bytes=4e11"),
    *("failures.mtbf_s=60", "times.restart_s=30", "checkpoint.interval_steps=5"),
    *("~times.all_reduce_per_group_s", "~times.checkpoint_write_s", "restart.readers=one-group"),
]
"""All-reduces of 14 s, so that most failures fall into one; writes of 8 s."""


def write_shared_adapters(path: Path) -> None:
    """Write servers of four GPUs on two adapters, each below a leaf switch and a 4:1 core."""
    shared = {"gpus_per_domain": 4, "gpus_per_nic": 2, "domains": 8, "domains_per_leaf": 1}
    write_xml(load_preset("hgx-h100", **shared, oversubscription=[4]), path)


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
def test_both_engines_play_all_rings_of_groups_that_fail(
    scheme: str, option: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "p.xml"
    write_shared_adapters(path)
    settings = [*MULTI_RING, f'platform.file="{path}"', f"strategy.name={scheme}", *option]
    if scheme == "checkpoint":
        settings.append("job.time_limit_s=5000")
    else:
        settings.append("strategy.redundancy=2")
    record, events = agreed("spare-sound", settings, seed=3)
    assert record["restarts"] > 1
    assert EventKind.MISSING in {event.kind for event in events}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("fidelity", ["flow", "chunk"])
@pytest.mark.parametrize("scenario", ["spare-study", "spare-sound"])
def test_both_engines_play_all_rings_however_exactly(
    scenario: str, fidelity: str, seed: int, tmp_path: Path
) -> None:
    path = tmp_path / "p.xml"
    write_shared_adapters(path)
    settings = [*MULTI_RING, f'platform.file="{path}"', "strategy.redundancy=2"]
    agreed(scenario, [*settings, f"all_reduce.fidelity={fidelity}"], seed)
