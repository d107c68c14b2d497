"""What slow NVLinks, PCIe links, adapters and cables do to a run, alone and with other parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.record import Record
from faultline.experiments.runs.single_run import run
from faultline.platforms.outages import cables_between_switches, with_detours
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_reader import read_platform
from faultline.platforms.xml_writer import write_xml

from tests.simulator.helpers import alike, edited, traced

On = Callable[..., Scenario]
STEPS = 2
CABLED_STEPS = 6


@pytest.fixture
def on_model(servers_of: Callable[..., Path], tmp_path: Path) -> On:
    """Four servers of eight GPUs: a replica of two stages on each two of them."""
    servers = servers_of(domains=4, domains_per_leaf=4)

    def on(*rows: str, platform: Path = servers) -> Scenario:
        settings = [
            *(f'platform.file="{platform}"', "job.gpus=32", "job.groups=2", f"job.steps={STEPS}"),
            *("model.name=llama3-8b", "model.pipeline=2", "model.micro_batches=4"),
            *(*traced(tmp_path, *rows), "failures.trace_span_s=1e9"),
        ]
        return load_scenario("llama3-70b-stress", settings)

    return on


@pytest.fixture
def on_cables(servers_of: Callable[..., Path], tmp_path: Path) -> On:
    """Four servers, one a leaf set of eight rails and a group: each rail goes up a 2:1 trunk."""
    servers = servers_of(domains=4, domains_per_leaf=1, oversubscription=[2])

    def on(*rows: str, platform: Path = servers) -> Scenario:
        settings = [
            *(f'platform.file="{platform}"', "job.groups=4", "job.gpus=32"),
            *(f"job.steps={CABLED_STEPS}", "job.parameter_bytes=4e11", "job.compute_jitter=0"),
            *(*traced(tmp_path, *rows), "failures.trace_span_s=1e7"),
            *("strategy.name=checkpoint", "~restart.readers", "times.checkpoint_write_s=1"),
        ]
        return load_scenario("spare-sound", settings)

    return on


def steps_s(record: Record) -> float:
    """Return the time of the steps, without the checkpoint at the end."""
    spent = (record[f"{part}_s"] for part in ("compute", "all_reduce", "degraded"))
    return sum(map(float, spent))


@pytest.mark.parametrize(
    ("level", "link", "bytes_per_s"),
    [("nvlink", "nvlink", 450e9), ("pcie", "pcie", 64e9), ("adapter", "nic", 50e9)],
)
def test_a_slow_link_of_a_gpu_is_an_xml_with_less_of_it(
    level: str,
    link: str,
    bytes_per_s: float,
    on_model: On,
    servers_of: Callable[..., Path],
    tmp_path: Path,
) -> None:
    slowed = alike(on_model(f"0,{level}-9,slow,1e9,6"))
    assert slowed["degraded_s"] > 0.0
    nothing = "1e8,gpu-0,slow,1,2"
    servers, with_less = servers_of(domains=4, domains_per_leaf=4), tmp_path / "less.xml"
    pattern, less = rf'(<link id="{link}-000009" bandwidth=)"[^"]+"', f"{bytes_per_s / 6:.0f}Bps"
    edited(servers, with_less, pattern, rf'\1"{less}"')
    narrow, sound = run(on_model(nothing, platform=with_less), 0), run(on_model(nothing), 0)
    assert slowed["degraded_s"] == pytest.approx(steps_s(narrow) - steps_s(sound), rel=1e-3)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("gpu-1,slow,1e9,2", "gpu-9,slow,1e9,1.5", id="two stages"),
        pytest.param("gpu-17,slow,1e9,2", "nvlink-18,slow,1e9,4", id="GPU and NVLink of a stage"),
        pytest.param("nvlink-1,slow,1e9,4", "nvlink-9,slow,1e9,3", id="NVLink of two stages"),
        pytest.param("gpu-17,slow,1e9,2", "gpu-18,slow,1e9,1.5", id="two GPUs of a stage"),
        pytest.param("gpu-1,slow,1e9,2", "gpu-17,slow,1e9,1.9", id="two replicas"),
    ],
)
def test_slow_parts_of_one_replica_add_up(first: str, second: str, on_model: On) -> None:
    rows = f"0,{first}", f"0,{second}"
    both = alike(on_model(*rows))
    worst_s = max(run(on_model(row), 0)["degraded_s"] for row in rows)
    if "gpu-18" in second or "gpu-17" in second:
        assert both["degraded_s"] == pytest.approx(worst_s, rel=1e-6)
    else:
        assert both["degraded_s"] > 1.01 * worst_s


def test_others_of_the_server_do_the_work_of_a_pcie_link_that_is_gone(on_model: On) -> None:
    first, second = (alike(on_model(f"0,{one}-9,partial,1e9")) for one in ("pcie", "adapter"))
    assert first["time_s"] == pytest.approx(second["time_s"], rel=1e-6)


def test_a_gpu_stops_with_its_nvlink(on_model: On) -> None:
    assert run(on_model("0.01,nvlink-9,hardware"), 0)["events"] == 1


@pytest.mark.parametrize("scheme", ["checkpoint", "mecefo"])
def test_only_steps_pass_slow_links(scheme: str, on_model: On) -> None:
    """Checkpoints, loads and moves take in both engines what they take on a sound platform."""
    keys = {"strategy.name": scheme, "job.steps": 4, "checkpoint.interval_steps": 1}
    slow = on_model("0,adapter-9,slow,1e7,50", "0.3,gpu-17,hardware").change(keys)
    alike(slow, 0, "time_s", "checkpoint_s", "reconfigure_s", "all_reduce_s", rel=1e-5)


MEASURED = "time_s", "degraded_s", "all_reduce_s"


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
        pytest.param("cable-5,slow,1e6,1", 1.0, id="slow by nothing is not gone"),
    ],
)
def test_the_measured_all_reduce_takes_longer(row: str, longer: float, on_cables: On) -> None:
    record = alike(on_cables(f"0,{row}"), 0, *MEASURED)
    found = 1.0 + record["degraded_s"] / record["all_reduce_s"]
    assert found == pytest.approx(longer, rel=1e-3)


def test_a_switch_that_stops_in_a_trace_is_gone_around_until_its_repair(on_cables: On) -> None:
    """As long as another row states: the cables determine which groups a switch stops."""
    stopped = alike(on_cables("0,switch-3,network,,,2min"), 0, "time_s", "events", "degraded_s")
    around = alike(on_cables("0,switch-3,partial,120"), 0, *MEASURED)
    assert stopped["events"] == 0
    assert stopped["degraded_s"] > 0.0
    assert stopped["time_s"] == pytest.approx(around["time_s"], rel=1e-6)


def test_a_switch_takes_down_as_many_as_a_scenario_states(on_cables: On) -> None:
    stated = on_cables("0,switch-3,network").change({"failures.gpus_per_switch": 8})
    assert run(stated, 0)["events"] == 1


@pytest.mark.parametrize(
    ("platform", "row", "message"),
    [
        ("on_model", "nvlink-9,partial,100", "nvlink: a GPU stops without its NVLink: st"),
        ("on_cables", "switch-40,network", "component switch-40: .* has switch-0 to switch-31"),
        ("on_cables", "cable-32,slow,100,2", "has cable-0 to cable-31 of cables between switches"),
        (
            "on_cables",
            "cable-3,hardware",
            "cannot have a failure of kind hardware: use partial, slow",
        ),
        ("on_cables", "host-0,partial,1e6,2", "host: a host cannot have a failure of kind partial"),
    ],
)
def test_what_no_link_does_is_refused(
    platform: str, row: str, message: str, request: pytest.FixtureRequest
) -> None:
    with pytest.raises(UserError, match=message):
        resolve(request.getfixturevalue(platform)(f"0,{row}"))


def test_a_cable_that_is_the_only_way_is_not_gone_around(on_cables: On, tmp_path: Path) -> None:
    """One rail: behind its leaf switch there is one trunk for each server, and no other."""
    path = tmp_path / "one-rail.xml"
    write_xml(load_preset("hgx-h100", domains=4, domains_per_leaf=1, rails=1), path)
    platform = read_platform(path)
    assert len(cables_between_switches(platform)) == 4
    assert with_detours(platform, cables_between_switches(platform)) == ()
    with pytest.raises(UserError, match=r"cable-2 \(.*\) is the only route of some GPUs"):
        resolve(on_cables("0,cable-2,partial,100", platform=path))


def test_a_mix_strikes_cables(on_cables: On, tmp_path: Path) -> None:
    mix = tmp_path / "cables.toml"
    cause = '[[cause]]\nname = "flaky"\nlevel = "cable"\nper_1000_node_days = 3e6\n'
    text = f'source = "made up"\n{cause}kind = "partial"\nlasts = "1min"\n'
    mix.write_text(text, encoding="utf-8")
    changes = {"failures.model": "mix", "failures.mix": str(mix)}
    changes |= dict.fromkeys(("failures.trace", "failures.trace_span_s"))
    scenario = on_cables().change(changes)
    record = alike(scenario)
    assert record["disturbances.flaky"] > 0
    assert record["degraded_s"] > 0.0
    mix.write_text(text.replace("partial", "hang"), encoding="utf-8")
    with pytest.raises(UserError, match="a cable between switches cannot have a failure"):
        resolve(scenario)


@pytest.mark.parametrize(
    ("row", "keys"),
    [
        ("cable-3,slow,1e5,2", {"protection.name": "just-in-time", "failures.kinds.slow": "evict"}),
        ("switch-3,slow,1e5,2", {"failures.kinds.slow": "evict"}),
        ("switch-3,flap,100", {"failures.kinds.retry_s": 30.0}),
    ],
)
def test_nothing_that_has_a_way_around_stops_a_group(
    row: str, keys: dict[str, object], on_cables: On
) -> None:
    """However long it is slow, or away."""
    record = run(on_cables(f"1,{row}").change(keys), 0)
    assert record["events"] == 0
    assert record["completed_steps"] == CABLED_STEPS
