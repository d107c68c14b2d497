"""From a scenario to its protection: memory that does not fit, intervals, stated and measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.durations import durations_of
from faultline.experiments.job.protected import protected_job
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import resolve
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from faultline.strategies.interface.errors import StrategyError
from faultline.strategies.interface.recovery import Move, SentMove

from tests.simulator.helpers import alike, traced
from tests.stated_times import SNAPSHOT_SETTINGS, SNAPSHOTS

STATED = (
    "times.all_reduce_per_group_s=0.01",
    "times.checkpoint_write_s=50",
    "~restart.readers",
    *SNAPSHOT_SETTINGS,
)
SMALL = ("job.groups=24", "job.gpus=384", "job.parameter_bytes=1e11")


def resolve_with(*settings: str, name: str = "reft") -> ResolvedJob:
    return resolve(load_scenario("spare-sound", [*STATED, f"protection.name={name}", *settings]))


@pytest.mark.parametrize("name", ["reft", "gemini"])
def test_memory_that_does_not_fit_is_one_clear_line(name: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve_with("protection.host_memory_bytes=1e8", name=name)
    message = str(caught.value)
    assert message.startswith(f'protection.name = "{name}": needs ')
    assert "GB of host memory per node, a node has 0 GB; use more nodes per replica" in message
    assert "\n" not in message


def test_memory_is_that_of_a_whole_server_on_a_rail_plane() -> None:
    """A quarter of a terabyte for each of eight GPUs; REFT needs 2 S/(n - 1) of it."""
    state = "protection.state_bytes={}".format
    fits = 2e12 * 15 / 2 * 3000 / 8
    assert resolve_with(state(0.99 * fits)).protected.protection.memory_bytes_per_node < 2e12
    with pytest.raises(UserError, match=r"needs 2,020 GB .* a node has 2,000 GB"):
        resolve_with(state(1.01 * fits))


@pytest.mark.parametrize(
    ("groups", "gpus", "nodes_a_group", "nodes"),
    [
        (24, 384, 2, 48),
        # 500 GPUs are 62.5 servers; by rounding there once were 202 replicas of 200 groups.
        (200, 100_000, 62, 200 * 62),
        # Groups that share a node count it once.
        (24, 96, 1, 12),
    ],
)
def test_nodes_and_shares_of_a_job(groups: int, gpus: int, nodes_a_group: int, nodes: int) -> None:
    """A row of nodes is a group, though it ends within a node."""
    changes = [f"job.groups={groups}", f"job.gpus={gpus}", "job.parameter_bytes=1e11"]
    job = protected_job(load_scenario("spare-sound", changes), compute_s=1.0)
    assert (job.groups, job.nodes_per_group, job.nodes) == (groups, nodes_a_group, nodes)
    assert (job.gpus_per_node, job.state_bytes_per_gpu) == (8, 1e11 * groups / gpus)


def test_stated_times_are_taken_as_they_are() -> None:
    times = resolve_with(
        "times.snapshot_copy_s=3", "times.snapshot_load_s=4", "times.snapshot_rebuild_s=5"
    ).protected.times
    assert (times.copy_s, times.load_s, times.rebuild_s, times.fetch_s) == (3.0, 4.0, 5.0, 10.0)
    assert (times.encode_s, times.persist_s) == (0.0, 50.0)


@pytest.mark.parametrize(
    ("name", "lost_node_s"), [("reft", 70.0), ("gemini", 20.0), ("just-in-time", 3.0 + 20.0)]
)
def test_a_lost_node_is_rebuilt_or_fetched_each_in_its_own_time(
    name: str, lost_node_s: float
) -> None:
    protected = resolve_with(
        "times.snapshot_copy_s=3",
        "times.snapshot_rebuild_s=70",
        "times.snapshot_fetch_s=20",
        name=name,
    ).protected
    assert protected.protection.load_times(protected.times).peers_s == lost_node_s


def test_measured_times_are_those_of_the_platform() -> None:
    """6.67 GB a GPU, of which 1/16 is copied twice over PCIe at 64 GB/s, half of it for parity.

    A share is loaded, and ends with an all-gather: half of an all-reduce of the state's bytes.
    """
    resolved = resolve_with(*(f"~{key}" for key in SNAPSHOTS))
    times, state = resolved.protected.times, 2e13 / 3000
    assert times.copy_s == pytest.approx(2 * state / 16 / 64e9, rel=1e-6)
    share = state / 16
    assert times.encode_s == pytest.approx(16 / 15 * share / 76.75e9, rel=1e-6)
    half_s = resolved.durations.all_reduce_s(200) / 2
    assert times.load_s == pytest.approx(share / 64e9 + half_s, rel=1e-6)
    # 200 nodes in 12 groups: in the largest, 16 survivors send a share each through the pod's part
    # of the core, 6.25 GB/s; what came is read, and a share written.
    xor_s = 17 * share / 76.75e9
    assert times.rebuild_s == pytest.approx(
        16 * share / 6.25e9 + xor_s + share / 64e9 + half_s, rel=1e-4
    )


def test_a_time_that_is_stated_alone_takes_the_place_of_the_measured_one() -> None:
    unset = [f"~{key}" for key in SNAPSHOTS]
    measured = resolve_with(*unset)
    stated = resolve_with(*unset, "times.snapshot_copy_s=3")
    assert stated.protected.times == replace(measured.protected.times, copy_s=3.0, encode_s=0.0)
    assert measured.sources["snapshot"] == "measured"
    assert resolve_with().sources["snapshot"] == "stated"


def test_a_snapshot_is_whole_before_the_next_is_due() -> None:
    """A free snapshot would be taken at every step, but this one takes 400 s."""
    resolved = resolve_with("times.snapshot_copy_s=400")
    work = resolved.strategy().work_per_step()
    step_s = 64 * work + resolved.durations.all_reduce_s(200)
    interval = resolved.snapshot_interval_steps
    assert (interval - 1) * step_s < 400 <= interval * step_s


def test_stated_intervals_stay() -> None:
    resolved = resolve_with("protection.interval_steps=7", "checkpoint.interval_steps=70")
    assert resolved.snapshot_interval_steps == 7
    assert resolved.interval_steps == 70


def test_memory_that_holds_makes_checkpoints_on_storage_rare() -> None:
    """Just in time waits for the copy of a checkpoint, and loses its memory next to never."""
    rare = resolve_with("times.snapshot_copy_s=1", name="just-in-time").interval_steps
    often = resolve_with("times.snapshot_copy_s=1", name="async-storage").interval_steps
    assert rare > 10 * often


def test_storage_alone_is_what_it_was() -> None:
    """The protection that everything else is compared with changes nothing."""
    resolved = resolve_with(name="storage")
    assert not resolved.protected.in_background
    assert resolved.protected.tiers(resolved.checkpoint_policy(), 0, simulated=False) == ()
    assert resolved.snapshot_interval_steps == 0
    assert resolved.protected.persist_cost.stall_s == 50.0


def test_a_sharding_group_larger_than_the_job_is_reported() -> None:
    with pytest.raises(StrategyError, match=r"25 nodes share .* only 24 hold it"):
        resolve_with(*SMALL, "protection.reft.sharding_group=25")


MODEL = [
    *("model.name=llama3-8b", "model.pipeline=2", "model.tensor=4", "model.micro_batches=8"),
    *("job.groups=4", "job.gpus=32", "times.restart_s=60", "failures.mtbf_s=1e9"),
]
"""Four groups of a server each; a GPU has an eighth of 8.03e9 parameters."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Scenario]:
    """Return what makes a scenario of changes, on as many servers as its job fills."""
    folder = tmp_path_factory.mktemp("servers")

    def of(*changes: str, servers: int = 4) -> Scenario:
        path = folder / f"{servers}.xml"
        if not path.exists():
            write_xml(load_preset("hgx-h100", domains=servers), path)
        return load_scenario("llama3-70b-stress", [*MODEL, f'platform.file="{path}"', *changes])

    return of


@pytest.mark.parametrize(
    ("sharding", "bytes_a_parameter"),
    [("optimizer", 2 + 12 / 4), ("none", 14), ("full", 14 / 4)],
)
def test_what_moves_is_what_a_group_holds(
    sharding: str, bytes_a_parameter: float, built: Callable[..., Scenario]
) -> None:
    """Weights of 2 bytes, and 12 of the optimizer's; four groups share both, one or none."""
    scenario = built(f"model.sharding={sharding}")
    moves = durations_of(scenario).moves
    assert moves is not None
    parameters = scenario.job.parameter_bytes / 2
    stage, whole = Move(1, 0, 0, 2), Move(2, 0, 0, 1)
    assert moves.size_bytes([whole]) == pytest.approx(bytes_a_parameter * parameters)
    alone_s = bytes_a_parameter * parameters / 8 / 50e9
    for move in (stage, whole):
        taken_s = moves.duration_s([SentMove(move, 3)])
        assert taken_s == pytest.approx(alone_s, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "sharding", "loaded", "gathered"),
    [
        # A quarter of the state; then all weights, or all of the state.
        (["gemini"], "optimizer", 14 / 4, 2),
        (["gemini"], "none", 14 / 4, 14),
        # Two nodes share the weights; a share of the optimizer's state is on no other node.
        (["reft", "protection.reft.sharding_group=2"], "optimizer", 2 / 2 + 12 / 4, 2),
        (["reft", "protection.reft.sharding_group=2"], "none", 14 / 2, 14),
        (["just-in-time"], "optimizer", 2 + 12 / 4, 0),
        (["just-in-time"], "none", 14, 0),
        # Each node has its shard of everything, and nothing else.
        (["gemini"], "full", 14 / 4, 0),
        (["reft", "protection.reft.sharding_group=2"], "full", 14 / 4, 0),
        (["just-in-time"], "full", 14 / 4, 0),
    ],
)
def test_each_loads_what_its_server_keeps_and_gathers_the_rest(
    kind: list[str],
    sharding: str,
    loaded: float,
    gathered: float,
    built: Callable[..., Scenario],
) -> None:
    """From host memory over PCIe at 64 GB/s; three quarters come from others at 50 GB/s."""
    scenario = built(f"model.sharding={sharding}", f"protection.name={kind[0]}", *kind[1:])
    of_gpu = scenario.job.parameter_bytes / 2 / 8
    load_s = of_gpu * (loaded / 64e9 + gathered * 3 / 4 / 50e9)
    times = resolve(scenario).protected.times
    assert times.load_s == pytest.approx(load_s, rel=1e-3)


ACROSS = "model.pipeline=3", "job.gpus=48"
"""Four groups of 12 GPUs on six servers of eight: every other server has GPUs of two groups."""


@pytest.mark.parametrize(
    ("kind", "kept", "lost"),
    [
        # Groups 0 and 2 share what they hold, and so do 1 and 3; server 1 has 4 GPUs of 0 and of 1.
        (["reft", "protection.reft.sharding_group=2"], ([1], [0, 1], [1, 2]), ([0, 3], [1, 4])),
        (["gemini"], ([1], [1, 2]), ([0, 1],)),
        (["just-in-time"], ([1], [0, 1, 2]), ([0, 1, 3, 4],)),
    ],
    ids=lambda kind: kind[0] if isinstance(kind[0], str) else "",
)
def test_servers_that_two_groups_share_lose_what_both_have_there(
    kind: list[str],
    kept: Sequence[list[int]],
    lost: Sequence[list[int]],
    built: Callable[..., Scenario],
) -> None:
    scenario = built(*ACROSS, f"protection.name={kind[0]}", *kind[1:], servers=6)
    protection = resolve(scenario).protected.protection
    assert [protection.recovery(servers) for servers in kept] == ["peers"] * len(kept)
    assert [protection.recovery(servers) for servers in lost] == [None] * len(lost)


def test_a_server_that_two_groups_share_is_rebuilt_for_both(
    built: Callable[..., Scenario],
) -> None:
    """Half of the weights, and a quarter of the rest: copied twice, half of that for the parity.

    Of a lost server, four GPUs in each of two places get their share of a GPU of another group at
    50 GB/s; the server reads and writes both at 614 GB/s. Memory holds two snapshots with parity.
    """
    reft = "protection.name=reft", "protection.reft.sharding_group=2"
    protected = resolve(built(*ACROSS, *reft, servers=6)).protected
    times, job = protected.times, protected.protection.job
    assert (job.nodes, job.nodes_per_group, job.gpus_per_node, job.slices) == (12, 3, 4, 2)
    share = job.replicated_bytes_per_gpu / 2 + job.shared_bytes_per_gpu / 4
    assert times.copy_s == pytest.approx(2 * share / 64e9, rel=1e-3)
    assert times.encode_s == pytest.approx(2 * 8 * share / 614e9, rel=1e-6)
    rebuilt_s = share / 50e9 + 2 * 8 * share / 614e9
    assert times.rebuild_s - times.load_s == pytest.approx(rebuilt_s, rel=1e-3)
    assert protected.protection.memory_bytes_per_node == pytest.approx(2 * 2 * share * 4)


def test_engines_agree_where_two_groups_share_a_server(
    built: Callable[..., Scenario], tmp_path: Path
) -> None:
    """A GPU of the second group takes its server along, which has GPUs of the first one."""
    reft = "protection.name=reft", "protection.reft.sharding_group=2", "job.steps=20"
    failing = *traced(tmp_path, "2.5,gpu-13,hardware"), "failures.trace_span_s=1e9"
    scenario = built(*ACROSS, *reft, *failing, "times.checkpoint_write_s=1", servers=6)
    record = alike(scenario)
    assert (record["events"], record["restarts"]) == (1, 1)


def test_more_copies_than_machines_of_a_plane_are_refused() -> None:
    settings = ["protection.name=gemini", "protection.gemini.replicas=8"]
    scenario = load_scenario("spare-sound", ["job.groups=4", "job.steps=1", *settings])
    with pytest.raises(UserError, match=r"8 machines .* spare-600k has 4 for it"):
        resolve(scenario)
