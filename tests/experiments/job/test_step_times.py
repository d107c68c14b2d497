"""A job that names a model takes its step from the platform's XML, in both engines."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario, scenario_from
from faultline.experiments.config.toml_text import parse_toml
from faultline.experiments.job import disturbances
from faultline.experiments.job.platform_files import spec_of
from faultline.experiments.job.resolved_job import ResolvedJob
from faultline.experiments.job.resolving import resolve
from faultline.experiments.job.stated_job import filled_in
from faultline.experiments.job.workload import model_flop_utilisation
from faultline.experiments.runs.record import Record
from faultline.experiments.runs.single_run import run
from faultline.platforms.preset_library import load_preset
from faultline.platforms.topology import servers_of
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.pattern.plan_shares import SlowStep, StepShares

JOB = """
[job]
groups = 2
steps = 6
[model]
name = "llama3-8b"
pipeline = 2
tensor = 4
micro_batches = 4
kernels = "h100"
compute_efficiency = 0.7
sharding = "none"
[strategy]
name = "checkpoint"
[failures]
distribution = "exponential"
mtbf_s = 1e9
[checkpoint]
interval_steps = 2
[times]
checkpoint_write_s = 2.0
restart_s = 5.0
"""

Edit = Callable[[str], str]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two servers of eight GPUs beneath leaves of their own: replicas meet in the core."""
    return servers_in(tmp_path_factory.mktemp("two"), 2)


@pytest.fixture(scope="module")
def four_servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return servers_in(tmp_path_factory.mktemp("four"), 4)


def servers_in(folder: Path, count: int) -> Path:
    path = folder / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=count, domains_per_leaf=1), path)
    return path


def unchanged(xml: str) -> str:
    return xml


def scenario_on(path: Path, edit: Edit = unchanged, **keys: object) -> Scenario:
    edited = path.parent / f"edited-{abs(hash(edit))}.xml"
    edited.write_text(edit(path.read_text()))
    tables, _ = parse_toml(JOB)
    scenario = scenario_from({**tables, "platform": {"file": str(edited)}}, "a test")
    return scenario.change(keys) if keys else scenario


def slower(pattern: str, attribute: str, factor: float) -> Edit:
    """Return an edit that divides what a kind of host or link can do."""

    def edit(xml: str) -> str:
        def divided(match: re.Match[str]) -> str:
            return f"{match[1]}{float(match[2]) / factor:g}{match[3]}"

        edited, count = re.subn(rf'(id="{pattern}[^>]*{attribute}=")([\d.]+)([^"]*")', divided, xml)
        assert count, "nothing was edited"
        return edited

    return edit


def in_both_engines(
    job: Scenario | ResolvedJob, seed: int = 0, rel: float = 1e-6
) -> tuple[Record, Record]:
    """Return what replay and SimGrid compute for a run: the same failures, and the same time."""
    replayed, simulated = run(job, seed, "replay"), run(job, seed, "simgrid")
    assert simulated["events"] == replayed["events"]
    assert simulated["time_s"] == pytest.approx(replayed["time_s"], rel=rel)
    return replayed, simulated


PARTS = ("compute_s", "tensor_s", "pipeline_s", "data_parallel_s", "optimizer_s")
MOVES = ("copy_s", "persist_s", "load_s")
GATHERED = (7 / 50) / (7 / 50 + 7 / 64)
"""Of the time in which a state is loaded, by hand: each of two groups reads its half of 14 bytes a
parameter from host memory at 64 GB/s, and gets the other half over adapters of 50 GB/s."""

EDITS: dict[str, tuple[Edit, dict[str, float]]] = {
    "GPUs at half speed": (slower("gpu-", "speed", 2), {"compute_s": 2.0, "optimizer_s": 2.0}),
    "NVLink at a tenth": (
        slower("nvlink-", "bandwidth", 10),
        {"tensor_s": 9.893, "pipeline_s": 9.86},
    ),
    "adapters at a quarter": (
        slower("nic-", "bandwidth", 4),
        {"data_parallel_s": 4.0, "load_s": 1.0 + GATHERED * 3.0},
    ),
    "PCIe at a hundredth": (
        slower("pcie-", "bandwidth", 100),
        {
            "data_parallel_s": 50 / 0.64,
            "copy_s": 100.0,
            "persist_s": 50 / (8 * 0.64),
            "load_s": (1.0 - GATHERED) * 100.0 + GATHERED * 50 / 0.64,
        },
    ),
}
"""What takes how many times as long. Stages are neighbours on NVLink; a replica fills a server, and
writes 50 GB/s over its eight PCIe links."""


@pytest.mark.parametrize("name", EDITS)
def test_each_edit_shows_in_the_part_it_should_and_in_both_engines(
    servers: Path, name: str
) -> None:
    """A model's step, and its state in host memory: snapshots for which the job waits."""
    edit, longer = EDITS[name]
    keys = {
        "protection.name": "reft",
        "protection.interval_steps": 2,
        "protection.reft.sharding_group": 2,
        "protection.reft.copying": "blocking",
        "times.checkpoint_write_s": None,
    }
    before, after = (resolve(scenario_on(servers, each, **keys)) for each in (unchanged, edit))
    assert before.step is not None
    for parts, was, has in (
        (PARTS, before.step, after.step),
        (MOVES, before.protected.times, after.protected.times),
    ):
        found = {part: getattr(has, part) / getattr(was, part) for part in parts}
        assert found == pytest.approx({part: longer.get(part, 1.0) for part in parts}, rel=0.01)
    # The last checkpoint is on its way to storage beside steps, whose parts it meets one by one.
    replayed, _ = in_both_engines(after, rel=1e-3)
    assert replayed["checkpoint_s"] >= 2 * after.protected.snapshot_cost.stall_s > 0.0


def test_engines_agree_on_what_is_done_about_slow_parts(
    four_servers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replay takes passes to grow evenly with micro-batches; of slow stages the worst to count."""
    monkeypatch.setattr(disturbances, "_SWAP_S", 0.5)  # The job is too short for a minute.
    trace = four_servers.parent / "slow.csv"
    # The last stage has more to compute, and its GPU goes to the first.
    rows = ["1,gpu-13,slow,100,2.5", "1,gpu-23,slow,6,1.4", "3,adapter-17,slow,2000,4"]
    trace.write_text("\n".join(["time,component,kind,lasts,factor", *rows]), encoding="utf-8")
    keys = {
        "job.groups": 4,
        "job.steps": 12,
        "failures.model": "trace",
        "failures.trace": str(trace),
        "failures.kinds.slow": "ski-rental",
        "failures.kinds.slow_found_s": 1.0,
        "times.restart_s": 5000.0,
        "checkpoint.interval_steps": 100,
    }
    scenario = scenario_on(four_servers, **keys)
    replayed, simulated = in_both_engines(scenario, rel=1e-2)
    remedies = {name: replayed[name] for name in replayed if name.startswith("remedies.")}
    assert remedies == {name: simulated[name] for name in remedies}
    assert remedies["remedies.redeal"]
    assert remedies["remedies.swap"]
    assert simulated["time_s"] != replayed["time_s"]


@pytest.mark.parametrize("scheme", ["checkpoint", "spare", "replication"])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_engines_agree_where_groups_fail_at_any_moment(
    four_servers: Path, scheme: str, seed: int
) -> None:
    keys = {
        "job.groups": 4,
        "strategy.name": scheme,
        "strategy.redundancy": 1 if scheme == "checkpoint" else 2,
        "failures.mtbf_s": 12.0,
        "job.steps": 40,
    }
    scenario = scenario_on(four_servers, **keys)
    replayed, _ = in_both_engines(scenario, seed)
    assert replayed["events"] > 1


@pytest.mark.parametrize(
    "edit",
    [slower("gpu-000003", "speed", 2), slower("nic-00000[0-7]", "bandwidth", 8)],
    ids=["a slow GPU", "slow adapters"],
)
def test_engines_agree_where_the_slow_group_fails(four_servers: Path, edit: Edit) -> None:
    """Steps are faster from then on: replay has to find out which groups are left."""
    keys = {
        "job.groups": 4,
        "strategy.name": "spare",
        "strategy.redundancy": 2,
        "failures.mtbf_s": 8.0,
        "job.steps": 30,
    }
    scenario = scenario_on(four_servers, edit, **keys)
    replayed, _ = in_both_engines(scenario, 1)
    assert replayed["events"] > 1
    assert replayed["step_s"] == pytest.approx(
        sum(value for name, value in replayed.items() if re.fullmatch("step_[a-z_]+_s", name))
    )
    resolved = resolve(scenario)
    assert resolved.step is not None
    assert not resolved.step.is_even
    times = resolved.job(0).work.step_times
    assert times is not None
    assert times.depends_on_members
    others = StepShares((1, 2, 3))
    parts_down = times.passes_s(others) + times.exchange_s(others)
    assert parts_down < 0.9 * resolved.step.step_s


SWITCHES = """
name = "switches"
description = "leaf switches fail all the time, GPUs never"
source = "a test"
[observed]
gpus = 16
span = "30d"
[[cause]]
name = "gpu"
count = 1
level = "gpu"
kind = "hardware"
repair = "1h"
[[cause]]
name = "switch"
count = 200_000
level = "switch"
kind = "network"
repair = "40s"
"""


def test_a_switch_with_a_way_around_slows_steps_until_it_is_repaired(
    servers: Path, tmp_path: Path
) -> None:
    """Each rail of a server has a leaf switch of its own: without one a server sends by seven."""
    mix = tmp_path / "switches.toml"
    mix.write_text(SWITCHES)
    keys = {"job.steps": 40, "model.gradient_overlap": 0.0}
    struck = {**keys, "failures.model": "mix", "failures.mix": str(mix), "failures.rate": "model"}
    whole = resolve(scenario_on(servers, **keys))
    scenario = scenario_on(servers, **struck)
    replayed, _ = in_both_engines(scenario)
    assert replayed["events"] == 0
    times = resolve(scenario).job(0).work.step_times
    assert times is not None
    assert whole.step is not None
    both, without = StepShares((0, 1)), SlowStep(parts_down=("leaf-00000-03",))
    assert times.passes_s(both, without) == pytest.approx(whole.step.passes_s, rel=1e-6)
    slower_s = whole.step.data_parallel_s * (8 / 7 - 1)
    assert times.exchange_s(both, without) == pytest.approx(whole.step.sync_s + slower_s, rel=1e-3)
    calm_s = float(run(whole, 0)["time_s"])
    assert calm_s + 10 * slower_s < replayed["time_s"] < calm_s + 40 * 8 * slower_s


def test_a_measured_all_reduce_is_slowed_as_well(servers: Path, tmp_path: Path) -> None:
    """Where no model is named, its rings pass seven adapters of a server as those of a step do."""
    mix = tmp_path / "switches.toml"
    mix.write_text(SWITCHES)
    keys = ["job.groups=2", "job.gpus=16", "job.steps=40"]
    keys += ["times.compute_s=1", "job.compute_jitter=0"]
    base = ["strategy.name=checkpoint", "~times.all_reduce_per_group_s", "job.parameter_bytes=4e11"]
    scenario = load_scenario("spare-sound", [*keys, *base, f"platform.file={servers}"])
    whole = resolve(scenario.change({"failures.mtbf_s": 1e12}))
    mixed = {"failures.model": "mix", "failures.mix": str(mix), "failures.rate": "model"}
    struck = scenario.change({**mixed, "failures.mtbf_s": None, "failures.clock": "renewal"})
    replayed, _ = in_both_engines(struck)
    assert replayed["events"] == 0
    times = resolve(struck).job(0).work.step_times
    assert times is not None
    all_reduce_s = whole.durations.all_reduce_s(2)
    without = SlowStep(parts_down=("leaf-00000-03",))
    assert times.exchange_s(StepShares((0, 1)), without) == pytest.approx(
        8 / 7 * all_reduce_s, rel=1e-3
    )
    longer_s = replayed["time_s"] - _time_s(whole)
    assert 5 * all_reduce_s / 7 < longer_s < 40 * 8 * all_reduce_s / 7


def test_replicas_that_share_sequences_fail_as_one_and_count_apart(four_servers: Path) -> None:
    """Two groups of two replicas: rings between four, of which two are left with one group."""
    resolved = resolve(
        scenario_on(four_servers, **{"model.context": 2, "model.gradient_overlap": 0.0})
    )
    assert resolved.step is not None
    all_reduce_s = resolved.durations.all_reduce_s
    assert all_reduce_s(2) == pytest.approx(resolved.step.sync_s)
    left = (1 / 2) / (3 / 4)
    alone_s = resolved.step.optimizer_s
    assert all_reduce_s(1) - alone_s == pytest.approx(left * resolved.step.data_parallel_s)
    in_both_engines(resolved.scenario)


def test_what_was_filled_in_requests_the_same(servers: Path) -> None:
    resolved = resolve(scenario_on(servers))
    again = resolve(filled_in(resolved))
    assert again.step == resolved.step
    assert _time_s(again) == _time_s(resolved)


def test_a_stated_time_holds_beside_a_model(servers: Path) -> None:
    resolved = resolve(scenario_on(servers, **{"times.compute_s": 3.0}))
    assert (resolved.step, resolved.compute_s) == (None, 3.0)


def _time_s(resolved: ResolvedJob) -> float:
    return float(run(resolved, 0)["time_s"])


# GPUs 0 to 3 of a replica are its first stage, 4 to 7 its second; of 4 servers each is a replica.
SLOW = {
    "a GPU of the first stage": "gpu-3,slow,1.5",
    "a whole server": "host-1,slow,1.5",
    "an adapter": "adapter-9,slow,4",
    "an adapter that is gone": "adapter-3,partial,",
    "the uplinks of a leaf switch": "switch-0,partial,2",
    "a cable between switches that is gone": "cable-5,partial,",
}


@pytest.mark.parametrize("what", SLOW)
def test_a_slow_part_of_the_platform(what: str, four_servers: Path) -> None:
    """Both engines to 1e-6; a slow GPU lengthens the passes, a slow adapter what is sent.

    A stage of p that computes f times as long, m micro-batches one after the other, adds at most
    f - 1 of the passes, and at least f - 1 of its m computations.
    """
    component, kind, factor = SLOW[what].split(",")
    log = four_servers.parent / "slow.csv"
    log.write_text(f"time,component,kind,lasts,factor\n0,{component},{kind},1e6,{factor}\n")
    keys = {"job.groups": 4, "failures": {"model": "trace", "trace": str(log)}}
    scenario = scenario_on(four_servers, **keys)
    replayed, simulated = (run(scenario, 0, engine) for engine in ("replay", "simgrid"))
    for column in ("time_s", "degraded_s", "all_reduce_s", "compute_s"):
        assert simulated[column] == pytest.approx(replayed[column], rel=1e-6), column
    longer_s = replayed["time_s"] / 6 - (replayed["step_s"] + 2.0 / 2)
    assert longer_s > 1e-3 * replayed["step_s"]
    if component.startswith(("gpu", "host")):
        passes_s = (
            replayed["step_s"] - replayed["step_data_parallel_s"] - replayed["step_optimizer_s"]
        )
        more = float(factor) - 1.0
        assert longer_s <= more * passes_s * (1 + 1e-9)
        assert longer_s >= more * replayed["step_compute_s"] * 0.5


def test_gradients_that_outlast_the_passes_are_all_reduce(servers: Path) -> None:
    """Both engines book what is left of hidden gradients as all-reduce, and nothing as waiting."""
    narrow = slower("nic-", "bandwidth", 40)
    scenario = scenario_on(servers, narrow, **{"model.gradient_overlap": 1.0})
    replayed, simulated = in_both_engines(scenario)
    assert replayed["all_reduce_s"] > 2 * 6 * replayed["step_optimizer_s"]
    for column in ("compute_s", "all_reduce_s"):
        assert simulated[column] == pytest.approx(replayed[column], rel=1e-9), column
    assert simulated["waiting_s"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("scheme", ["checkpoint", "recycle", "oobleck"])
def test_an_interleaved_job_runs_under_schemes_that_change_pipelines(scheme: str) -> None:
    settings = ["model.virtual_stages=2", "job.steps=10", "failures.mtbf_s=60"]
    settings += ["failures.component=gpu", f"strategy.name={scheme}"]
    record = run(load_scenario("llama3-70b-stress", settings), 0)
    assert record["completed_steps"] == 10
    assert record["events"] > 0


def test_a_job_of_one_group_runs_though_nothing_can_stand_in_for_it() -> None:
    record = run(load_scenario("spare-sound", ["job.groups=1", "job.steps=20"]), 0)
    assert record["redundancy"] == 1
    assert record["completed_steps"] == 20


def on_plane(path: Path, cluster: dict[str, object], **keys: object) -> Scenario:
    """Return the job on a rail plane of two groups with two domains of four GPUs each."""
    sizes = {"groups": 2, "plane.cluster_gpus": 16, "plane.domain_gpus": 4}
    write_xml(load_preset("b300-32k", **sizes, **cluster), path)
    return scenario_on(path, **{"model.kernels": "gb200"} | keys)


def test_passes_of_a_rail_plane_are_timed_on_servers_of_its_spec(tmp_path: Path) -> None:
    plane = on_plane(tmp_path / "plane.xml", {})
    spec = spec_of(plane)
    assert spec is not None
    write_xml(servers_of(spec, 2, 2), tmp_path / "servers.xml")
    step = resolve(plane.change({"platform.file": str(tmp_path / "servers.xml")})).step
    assert step is not None
    found = resolve(plane)
    assert found.step is None
    assert found.compute_s == pytest.approx(step.passes_s + step.optimizer_s, rel=1e-12)
    assert found.sources["compute"] == found.sources["all_reduce"] == "measured"
    assert run(plane, 0)["completed_steps"] == 6
    for edit, least in (
        ({"gpu.flops": "1.125PFLOP/s"}, 1.5),
        ({"scale_up.bandwidth": "450GB/s"}, 1.01),
    ):
        edited = resolve(on_plane(tmp_path / "edited.xml", edit))
        assert edited.compute_s > least * found.compute_s


def without_gpu(number: int) -> Edit:
    """Return an edit that takes a GPU with all its cables out."""
    named = rf'"(?:gpu|nvlink|pcie|nic)-{number:06}"'

    def edit(xml: str) -> str:
        edited = re.sub(rf" *<(route|host)[^>]*{named}[^>]*>(?:\n.*?)?</\1>\n", "", xml, flags=re.S)
        edited = re.sub(rf" *<link id={named}[^>]*/>\n", "", edited)
        assert not re.search(named, edited)
        return edited

    return edit


def test_a_stage_on_two_servers_is_refused(four_servers: Path) -> None:
    """Stages have four GPUs; GPU 3 is missing, so the second stage would have GPUs 5 to 8."""
    scenario = scenario_on(four_servers, without_gpu(3))
    with pytest.raises(
        UserError, match=r"domain 0 has 7 GPUs, .* gpu-000005 to gpu-000008, in domains 0 and 1"
    ) as bad:
        resolve(scenario)
    assert "\n" not in str(bad.value)


def test_mixed_gpus_have_their_mean_peak(servers: Path, four_servers: Path) -> None:
    """Of 16 GPUs in use eight are half as fast: the mean peak is three quarters of the first's."""
    half = slower("gpu-00000[0-7]", "speed", 2)
    for path in (servers, four_servers):
        whole, mixed = (
            model_flop_utilisation(each, step_s=1.0)
            for each in (scenario_on(path), scenario_on(path, half))
        )
        assert whole is not None
        assert mixed == pytest.approx(whole / 0.75)


def test_a_rail_plane_refuses_what_its_servers_cannot_show(tmp_path: Path) -> None:
    path = tmp_path / "plane.xml"
    with pytest.raises(UserError, match=r"model\.gradient_overlap = 0\.5: .*use 0"):
        resolve(on_plane(path, {}, **{"model.gradient_overlap": 0.5}))
    plane = on_plane(path, {})
    path = Path(plane.platform.file)
    path.write_text(slower("nic", "bandwidth", 2.0)(path.read_text()))
    with pytest.raises(UserError, match="an edited rail plane cannot time the steps"):
        resolve(plane)


def test_the_groups_that_are_left_exchange_gradients_on_their_own_routes(tmp_path: Path) -> None:
    """Two servers a leaf: of two groups in two leaves, each hop passes two cables and switches.

    A pair in one leaf stands for that in the other; nothing else does.
    """
    path = tmp_path / "servers.xml"
    write_xml(load_preset("hgx-h100", domains=4, domains_per_leaf=2), path)
    layout: dict[str, object] = {"model.pipeline": 1, "model.tensor": 8, "job.groups": 4}
    resolved = resolve(scenario_on(path, **layout))
    assert resolved.step is not None
    assert resolved.step.is_even
    times = resolved.job(0).work.step_times
    assert times is not None
    in_leaf_s, in_other_s, apart_s = (
        times.exchange_s(StepShares(members)) for members in ((0, 1), (2, 3), (0, 2))
    )
    assert in_other_s == in_leaf_s
    assert apart_s - in_leaf_s == pytest.approx(2 * 2 * (100e-9 + 200e-9), rel=1e-6)
