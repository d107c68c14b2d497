"""What a slow NVLink, PCIe link or adapter does to a run, alone and with other slow parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.resolved_job import resolve
from faultline.experiments.runs.record import Record
from faultline.experiments.runs.single_run import run
from faultline.platforms import load_preset, write_xml

STEPS = 2


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four servers of eight GPUs: a replica of two stages on each two of them."""
    path = tmp_path_factory.mktemp("links") / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=4, domains_per_leaf=4), path)
    return path


def scenario_on(platform: Path, rows: str, folder: Path) -> Scenario:
    trace = folder / "trace.csv"
    trace.write_text(f"time,component,kind,lasts,factor\n{rows}\n", encoding="utf-8")
    settings = [
        *(f'platform.file="{platform}"', "job.gpus=32", "job.groups=2", f"job.steps={STEPS}"),
        *("model.name=llama3-8b", "model.pipeline=2", "model.micro_batches=4"),
        *("failures.model=trace", f'failures.trace="{trace}"', "failures.trace_span_s=1e9"),
    ]
    return load_scenario("llama3-70b-hgx", settings)


def with_less(platform: Path, link: str, factor: float, folder: Path) -> Path:
    """Return the platform with less bandwidth of a link of GPU 9, written into its XML."""
    text = platform.read_text(encoding="utf-8")
    begin = text.index(f'<link id="{link}-000009" bandwidth="') + len(f'<link id="{link}-000009" ')
    end = text.index('"', begin + len('bandwidth="')) + 1
    rate = {"nvlink": 450e9, "pcie": 64e9, "nic": 50e9}[link]
    edited = folder / "edited.xml"
    less = f'bandwidth="{rate / factor:.0f}Bps"'
    edited.write_text(text[:begin] + less + text[end:], encoding="utf-8")
    return edited


def steps_s(record: Record) -> float:
    """Return the time of the steps, without the checkpoint at the end."""
    spent = (record[f"{part}_s"] for part in ("compute", "all_reduce", "degraded"))
    return sum(map(float, spent))


@pytest.mark.parametrize(
    ("level", "link"), [("nvlink", "nvlink"), ("pcie", "pcie"), ("adapter", "nic")]
)
def test_a_slow_link_of_a_gpu_is_an_xml_with_less_of_it(
    level: str, link: str, servers: Path, tmp_path: Path
) -> None:
    slow = scenario_on(servers, f"0,{level}-9,slow,1e9,6", tmp_path)
    replayed, simulated = (run(slow, 0, engine) for engine in ("replay", "simgrid"))
    assert simulated["time_s"] == pytest.approx(replayed["time_s"], rel=1e-6)
    assert replayed["degraded_s"] > 0.0
    nothing = "1e8,gpu-0,slow,1,2"
    edited = run(scenario_on(with_less(servers, link, 6, tmp_path), nothing, tmp_path), 0)
    sound = run(scenario_on(servers, nothing, tmp_path), 0)
    longer_s = steps_s(edited) - steps_s(sound)
    assert replayed["degraded_s"] == pytest.approx(longer_s, rel=1e-3)


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
def test_slow_parts_of_one_replica_add_up(
    first: str, second: str, servers: Path, tmp_path: Path
) -> None:
    both, alone = f"0,{first}\n0,{second}", [f"0,{first}", f"0,{second}"]
    slow = scenario_on(servers, both, tmp_path)
    replayed, simulated = (run(slow, 0, engine) for engine in ("replay", "simgrid"))
    assert simulated["time_s"] == pytest.approx(replayed["time_s"], rel=1e-6)
    worst_s = max(run(scenario_on(servers, row, tmp_path), 0)["degraded_s"] for row in alone)
    if "gpu-18" in second or "gpu-17" in second:
        assert replayed["degraded_s"] == pytest.approx(worst_s, rel=1e-6)
    else:
        assert replayed["degraded_s"] > 1.01 * worst_s


def test_others_of_the_server_do_the_work_of_a_pcie_link_that_is_gone(
    servers: Path, tmp_path: Path
) -> None:
    gone = (
        run(scenario_on(servers, f"0,{level}-9,partial,1e9,", tmp_path), 0, engine)["time_s"]
        for level in ("pcie", "adapter")
        for engine in ("replay", "simgrid")
    )
    first, *others = gone
    assert others == pytest.approx([first] * 3, rel=1e-6)


def test_a_gpu_stops_with_its_nvlink(servers: Path, tmp_path: Path) -> None:
    stopped = scenario_on(servers, "0.01,nvlink-9,hardware,,", tmp_path)
    assert run(stopped, 0)["failures"] == 1


def test_a_gpu_does_not_go_on_without_nvlink(servers: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nvlink: without its NVLink a GPU cannot go on: state a"):
        resolve(scenario_on(servers, "0,nvlink-9,partial,100,", tmp_path))


def test_what_becomes_slow_just_before_a_checkpoint_holds_nobody_up(
    servers: Path, tmp_path: Path
) -> None:
    """The writer of a checkpoint reports while SimGrid is told of a slow GPU."""
    keys = {"job.steps": 8, "checkpoint.interval_steps": 1, "times.checkpoint_write_s": 0.05}
    step_s = float(run(scenario_on(servers, "1e8,gpu-0,slow,1,2", tmp_path), 0)["step_s"])
    for share in (0.3, 0.9):
        row = f"{(2 + share) * step_s},gpu-3,slow,{1.5 * step_s},2"
        slow = scenario_on(servers, row, tmp_path).with_(keys)
        replayed, simulated = (run(slow, 0, engine) for engine in ("replay", "simgrid"))
        assert simulated["time_s"] == pytest.approx(replayed["time_s"], rel=1e-6)


@pytest.mark.parametrize("scheme", ["checkpoint", "mecefo"])
def test_only_steps_pass_slow_links(scheme: str, servers: Path, tmp_path: Path) -> None:
    """Checkpoints, loads and moves take in both engines what they take on a sound platform."""
    rows = "0,adapter-9,slow,1e7,50\n0.3,gpu-17,hardware,,"
    keys = {"strategy.name": scheme, "job.steps": 4, "checkpoint.interval_steps": 1}
    slow = scenario_on(servers, rows, tmp_path).with_(keys)
    replayed, simulated = (run(slow, 0, engine) for engine in ("replay", "simgrid"))
    for column in ("time_s", "checkpoint_s", "reconfigure_s", "all_reduce_s"):
        assert simulated[column] == pytest.approx(replayed[column], rel=1e-5), column


@pytest.mark.parametrize("waits", ["async-storage", "just-in-time"])
def test_what_a_slow_link_takes_is_no_checkpoint(waits: str, servers: Path, tmp_path: Path) -> None:
    slow = scenario_on(servers, "0,nvlink-9,slow,1e7,4", tmp_path).with_(
        {"protection.name": waits, "job.steps": 6, "checkpoint.interval_steps": 2}
    )
    replayed, simulated = (run(slow, 0, engine) for engine in ("replay", "simgrid"))
    for column in ("time_s", "waiting_s", "degraded_s"):
        assert simulated[column] == pytest.approx(replayed[column], rel=1e-3, abs=1e-3), column


def test_two_slow_gpus_of_one_host_are_swapped(servers: Path, tmp_path: Path) -> None:
    rows = "0,gpu-20,slow,1e7,2\n0,gpu-21,slow,1e7,2"
    swapped = scenario_on(servers, rows, tmp_path).with_(
        {"failures.kinds.slow": "swap", "failures.kinds.slow_found_s": 0.1, "job.steps": 6}
    )
    assert run(swapped, 0)["completed_steps"] == 6
