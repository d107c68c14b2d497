"""Cables between switches fail by themselves: messages are slower, or go another way."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.record import Record
from faultline.experiments.runs.single_run import run
from faultline.platforms import load_preset, read_platform, write_xml
from faultline.platforms.outages import cables_between_switches, cables_with_a_way_around

STEPS = 6


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four servers, one a leaf set of eight rails and a group: each rail goes up a 2:1 trunk."""
    path = tmp_path_factory.mktemp("cables") / "servers.xml"
    spec = load_preset("hgx-h100", domains=4, domains_per_leaf=1, oversubscription=[2])
    write_xml(spec, path)
    return path


def scenario_on(servers: Path, row: str, folder: Path) -> Scenario:
    trace = folder / "trace.csv"
    trace.write_text(f"time,component,kind,lasts,factor\n0,{row}\n", encoding="utf-8")
    settings = [
        *(f'platform.file="{servers}"', "job.groups=4", "job.gpus=32", f"job.steps={STEPS}"),
        *("job.parameter_bytes=4e11", "strategy.name=checkpoint", "job.compute_jitter=0"),
        *("failures.model=trace", f'failures.trace="{trace}"', "~restart.readers"),
        "failures.trace_span_s=1e7",
        "times.checkpoint_write_s=1",
    ]
    return load_scenario("spare-sound", settings)


def played(servers: Path, row: str, folder: Path) -> Record:
    scenario = scenario_on(servers, row, folder)
    replayed, simulated = (run(scenario, 0, engine) for engine in ("replay", "simgrid"))
    for column in ("time_s", "degraded_s", "all_reduce_s"):
        assert simulated[column] == pytest.approx(replayed[column], rel=1e-6), column
    return replayed


@pytest.mark.parametrize(
    ("row", "longer"),
    [
        # All that a rail sends passes the trunk, which is the bottleneck as it is.
        pytest.param("cable-5,slow,1e6,3", 3.0, id="a slow trunk"),
        pytest.param("cable-5,partial,1e6,2", 2.0, id="half a trunk"),
        # Without the trunk of a rail, seven others carry what its server sends: 8/7.
        pytest.param("cable-5,partial,1e6,", 8 / 7, id="a trunk that is gone"),
        pytest.param("switch-3,partial,1e6,", 8 / 7, id="a leaf switch that is gone"),
        pytest.param("adapter-9,partial,1e6,", 8 / 7, id="an adapter that is gone"),
        # Half of an adapter is as much as the trunk has.
        pytest.param("adapter-9,slow,1e6,2", 1.0, id="an adapter that is no bottleneck"),
        pytest.param("adapter-9,slow,1e6,6", 3.0, id="an adapter that becomes one"),
    ],
)
def test_the_measured_all_reduce_takes_longer(
    row: str, longer: float, servers: Path, tmp_path: Path
) -> None:
    record = played(servers, row, tmp_path)
    found = 1.0 + record["degraded_s"] / record["all_reduce_s"]
    assert found == pytest.approx(longer, rel=1e-3)


def test_a_switch_that_stops_in_a_trace_is_gone_around_until_its_repair(
    servers: Path, tmp_path: Path
) -> None:
    """As long as another row says that it lasts: the cables say whom a switch takes down."""
    trace = tmp_path / "trace.csv"
    stopped = scenario_on(servers, "switch-3,network,,", tmp_path)
    trace.write_text("time,component,kind,repair\n0,switch-3,network,2min\n", encoding="utf-8")
    records = [run(stopped, 0, engine) for engine in ("replay", "simgrid")]
    around = played(servers, "switch-3,partial,120,", tmp_path)
    for record in records:
        assert record["failures"] == 0
        assert record["degraded_s"] > 0.0
        assert record["time_s"] == pytest.approx(around["time_s"], rel=1e-6)


def test_a_switch_takes_down_as_many_as_a_scenario_states(servers: Path, tmp_path: Path) -> None:
    stated = scenario_on(servers, "switch-3,network,,", tmp_path).with_(
        {"failures.gpus_per_switch": 8}
    )
    assert run(stated, 0, "replay")["failures"] == 1


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("switch-40,network,,", "component switch-40: .* has switch-0 to switch-31"),
        ("cable-32,slow,100,2", "cable-32: of cables between .* has cable-0 to cable-31"),
        (
            "cable-3,hardware,,",
            "takes nobody down by a failure of kind hardware: use partial, slow",
        ),
    ],
)
def test_what_no_cable_does_is_refused(row: str, said: str, servers: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        resolve(scenario_on(servers, row, tmp_path))


def test_a_cable_that_is_the_only_way_is_not_gone_around(tmp_path: Path) -> None:
    """One rail: behind its leaf switch there is one trunk for each server, and no other."""
    path = tmp_path / "one-rail.xml"
    spec = load_preset("hgx-h100", domains=4, domains_per_leaf=1, rails=1)
    write_xml(spec, path)
    platform = read_platform(path)
    assert len(cables_between_switches(platform)) == 4
    assert cables_with_a_way_around(platform) == ()
    with pytest.raises(UserError, match=r"cable-2 \(.*\) is the only way of some GPUs"):
        resolve(scenario_on(path, "cable-2,partial,100,", tmp_path))


def test_a_mix_strikes_cables(servers: Path, tmp_path: Path) -> None:
    mix = tmp_path / "cables.toml"
    cause = '[[cause]]\nname = "flaky"\nlevel = "cable"\nper_1000_node_days = 3e6\n'
    text = f'source = "made up"\n{cause}kind = "partial"\nlasts = "1min"\n'
    mix.write_text(text, encoding="utf-8")
    changes = {"failures.model": "mix", "failures.mix": str(mix)}
    changes |= dict.fromkeys(("failures.trace", "failures.trace_span_s"))
    scenario = scenario_on(servers, "job,software,,", tmp_path).with_(changes)
    replayed, simulated = (run(scenario, 0, engine) for engine in ("replay", "simgrid"))
    assert replayed["disturbances.flaky"] > 0
    assert replayed["degraded_s"] > 0.0
    assert simulated["time_s"] == pytest.approx(replayed["time_s"], rel=1e-6)
    mix.write_text(text.replace("partial", "hang"), encoding="utf-8")
    with pytest.raises(UserError, match="a cable between switches takes nobody down"):
        resolve(scenario)


@pytest.mark.parametrize(
    ("row", "keys"),
    [
        (
            "1,cable-3,slow,1e5,2",
            {"failures.kinds.slow": "evict", "protection.name": "just-in-time"},
        ),
        ("1,switch-3,slow,1e5,2", {"failures.kinds.slow": "evict"}),
        ("1,switch-3,flap,100,", {"failures.kinds.retry_s": 30.0}),
    ],
)
def test_nothing_that_has_a_way_around_stops_anybody(
    row: str, keys: dict[str, object], servers: Path, tmp_path: Path
) -> None:
    """However long it is slow, or away."""
    scenario = scenario_on(servers, "job,software,,", tmp_path)
    trace = tmp_path / "trace.csv"
    trace.write_text(f"time,component,kind,lasts,factor\n{row}\n", encoding="utf-8")
    record = run(scenario.with_(keys), 0, "replay")
    assert record["failures"] == 0
    assert record["completed_steps"] == STEPS


def test_a_slow_cable_of_those_who_have_left_slows_nobody(servers: Path, tmp_path: Path) -> None:
    """What is left of the network is asked for those who are there, and what hides a slow part."""
    trace = tmp_path / "trace.csv"
    scenario = scenario_on(servers, "job,software,,", tmp_path).with_(
        {"strategy.name": "replica-drop", "job.steps": 30}
    )
    for rows in (
        "50,group-3,hardware,,\n0,cable-31,slow,1e6,3",
        "0,cable-5,slow,1e6,3\n0,switch-3,partial,1e6,",
    ):
        trace.write_text(f"time,component,kind,lasts,factor\n{rows}\n", encoding="utf-8")
        replayed, simulated = (run(scenario, 0, engine) for engine in ("replay", "simgrid"))
        for column in ("time_s", "all_reduce_s", "degraded_s"):
            assert simulated[column] == pytest.approx(replayed[column], rel=1e-5), column


def test_what_is_slow_by_nothing_is_not_gone(servers: Path, tmp_path: Path) -> None:
    assert played(servers, "cable-5,slow,1e6,1", tmp_path)["degraded_s"] == pytest.approx(0.0)


def test_a_host_is_not_lost_in_part(servers: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="host: of a host there is no part that others do without"):
        resolve(scenario_on(servers, "host-0,partial,1e6,2", tmp_path))
