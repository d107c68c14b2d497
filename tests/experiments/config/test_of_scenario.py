"""From ``[failures]`` to a model: what fits together, and what runs give back."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.job.failure_model import (
    GPUS_PER_DOMAIN,
    GPUS_PER_HOST,
    GPUS_PER_SWITCH,
    failure_model,
    job_layout,
)
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.single_run import run, scenario_hash
from faultline.platforms.preset_library import load_preset
from faultline.platforms.xml_writer import write_xml
from faultline.simulator.failures.distributions import Weibull
from faultline.simulator.failures.failure import JobLayout
from faultline.simulator.failures.mix import CauseMix
from faultline.simulator.failures.models import IndependentGroups
from faultline.simulator.failures.victims import ComponentChoice

from tests.stated_times import NOTHING_MEASURED

MIX = ["failures.model=mix", "job.groups=200"]
TRACE = (
    "time,component,cause,repair\n100,gpu-97,memory,3d\n5000,host-2,fan,3d\n9000,job,storage,3h\n"
)


def refused(*settings: str, scenario: str = "spare-sound") -> str:
    with pytest.raises(UserError) as caught:
        resolve(load_scenario(scenario, settings))
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "log.csv"
    path.write_text(TRACE, encoding="utf-8")
    return str(path)


def test_groups_fail_independently_unless_the_scenario_says_otherwise() -> None:
    model = failure_model(load_scenario("spare-study"))
    layout = JobLayout(200, 3000, GPUS_PER_HOST, GPUS_PER_DOMAIN, GPUS_PER_SWITCH)
    components = ComponentChoice(layout, "host", 0.78)
    assert model == IndependentGroups(Weibull.from_mean(0.78, 60_000.0), 200, components)
    assert model.mtbf_s == pytest.approx(300.0)


def test_closed_forms_take_the_mean_time_of_the_mix() -> None:
    """Llama 3's rates on 600,000 GPUs: a failure every 304 s; a third of them, every 912 s."""
    own = load_scenario("spare-sound", MIX)
    assert failure_model(own).mtbf_s == pytest.approx(3.0931 * 3600 * 16_384 / 600_000, rel=1e-4)
    size = ["job.groups=200", "job.gpus=200000", *NOTHING_MEASURED]
    few = load_scenario("spare-sound", [*MIX, *size])
    mtbf = f"failures.mtbf_s={failure_model(few).mtbf_s!r}"
    stated = load_scenario("spare-sound", [mtbf, *size])
    assert resolve(few).interval_steps == resolve(stated).interval_steps
    assert resolve(few).interval_steps > resolve(own).interval_steps


def test_a_mix_may_be_rescaled_to_a_mean_time() -> None:
    scenario = load_scenario("spare-sound", [*MIX, "failures.rate=mtbf", "failures.mtbf_s=1800"])
    assert failure_model(scenario).mtbf_s == pytest.approx(1800.0)
    record = run(load_scenario("spare-sound", [*MIX, "job.steps=300"]), 0)
    counted = {key: n for key, n in record.items() if key.startswith("events_by_cause.")}
    assert len(counted) == 18
    assert sum(counted.values()) == record["events"] > 50
    assert record["distribution"] == "mix llama3"


def test_a_trace_is_lived_through_and_counted_by_cause(trace: str) -> None:
    settings = [
        "failures.model=trace",
        f'failures.trace="{trace}"',
        "job.groups=24",
        "job.steps=200",
        "strategy.redundancy=3",
    ]
    record = run(load_scenario("spare-sound", settings), 0)
    assert record["events_by_cause.memory"] == record["events_by_cause.fan"] == 1
    assert record["events_by_cause.storage"] == 1
    assert (record["events"], record["hits"]) == (3, 26)
    assert record["distribution"] == "trace"
    assert run(load_scenario("spare-sound", settings), 1)["events"] == record["events"]


def test_hosts_domains_and_switches_come_from_the_platform(tmp_path: Path) -> None:
    """GB200 racks: 4 GPUs a host, 72 a domain, 8 domains on a set of leaves."""
    shipped = job_layout(load_scenario("spare-sound", ["platform.file=gb200-nvl72"]))
    assert (shipped.gpus_per_host, shipped.gpus_per_domain, shipped.gpus_per_switch) == (4, 72, 576)
    plane = job_layout(load_scenario("spare-sound"))
    assert (plane.gpus_per_host, plane.gpus_per_domain, plane.gpus_per_switch) == (8, 8, 16)
    stated = job_layout(load_scenario("spare-sound", ["failures.gpus_per_host=5"]))
    assert (stated.gpus_per_host, stated.gpus_per_group) == (5, 3000)
    path = tmp_path / "small.xml"
    write_xml(load_preset("gb200-nvl72", domains=2, domains_per_leaf=1), path)
    own = job_layout(load_scenario("spare-sound", [f'platform.file="{path}"']))
    assert (own.gpus_per_host, own.gpus_per_domain, own.gpus_per_switch) == (4, 72, 72)


def test_a_mix_strikes_whom_the_cables_cut_off(tmp_path: Path) -> None:
    """A leaf switch of one rail cuts nobody off, one of whole servers all of its sixteen GPUs."""
    rails, plain = tmp_path / "rails.xml", tmp_path / "plain.xml"
    for path, rail_optimised in ((rails, True), (plain, False)):
        spec = load_preset("hgx-h100", domains=4, domains_per_leaf=2, rail_optimised=rail_optimised)
        write_xml(spec, path)

    def mix_on(file: object, *more: str) -> CauseMix:
        settings = ["job.groups=4", "job.gpus=32", "failures.model=mix", f'platform.file="{file}"']
        settings.append("failures.rate=model")
        model = failure_model(load_scenario("spare-sound", [*settings, *more]))
        assert isinstance(model, CauseMix)
        return model

    by_switch = mix_on(plain)
    layout = by_switch.layout
    assert (layout.gpus_per_host, layout.gpus_per_domain, layout.gpus_per_switch) == (8, 8, 16)
    batch = next(by_switch.batches(seed=1)) + next(by_switch.batches(seed=2))
    struck = {one.groups for one in batch if one.level == "switch"}
    assert struck == {range(2), range(2, 4)}
    parts_down = mix_on(rails)
    assert parts_down.layout.gpus_per_switch == 0
    assert set(by_switch.causes) - set(parts_down.causes) == {"switch-or-cable"}
    assert {one.level for one in next(parts_down.batches(seed=1))} == {"gpu", "host"}
    # What interrupts the job is rarer by what strikes switches: 35 of 419 interruptions.
    assert parts_down.mtbf_s == pytest.approx(by_switch.mtbf_s * 419 / 384)
    # So it is on a shipped cluster, where a step is simulated on its cables.
    assert mix_on("hgx-h100").layout.gpus_per_switch == 0
    assert [cause.name for cause in mix_on("hgx-h100").harmless] == ["switch-or-cable"]
    assert not mix_on(rails, "failures.gpus_per_switch=16").harmless
    assert mix_on("hgx-h100", "times.all_reduce_per_group_s=0.01").layout.gpus_per_switch == 256
    assert mix_on(rails, "failures.gpus_per_switch=16") == by_switch


def test_a_mix_of_switches_only_needs_somebody_to_strike(tmp_path: Path) -> None:
    mix = tmp_path / "switches.toml"
    mix.write_text(
        'source = "our log"\n[[cause]]\nname = "cable"\nlevel = "switch"\nkind = "network"\n'
        "per_1000_node_days = 0.2\n",
        encoding="utf-8",
    )
    platform = tmp_path / "rails.xml"
    write_xml(load_preset("hgx-h100", domains=2), platform)
    settings = [f'platform.file="{platform}"', "failures.model=mix", f'failures.mix="{mix}"']
    refused = r"all its failures are of switches, .* set failures.gpus_per_switch"
    with pytest.raises(UserError, match=refused):
        failure_model(load_scenario("spare-sound", settings))


@pytest.mark.parametrize(
    ("settings", "printed"),
    [
        (["failures.clock=from-detection"], 'failures.clock = "renewal"'),
        (["failures.mix=nowhere.toml"], "nowhere.toml"),
        (["failures.trace=log.csv"], 'failures.model = "trace"'),
        (["failures.model=trace"], "needs failures.trace"),
        (["restart.failure_during=begins-anew", "times.restart_s=1e6"], "failure_during"),
    ],
)
def test_keys_that_do_not_fit_together(settings: list[str], printed: str) -> None:
    assert printed in refused(*MIX, *NOTHING_MEASURED, *settings)


def test_keys_of_a_trace_that_do_not_fit_together(trace: str) -> None:
    model = ["failures.model=trace", f'failures.trace="{trace}"']
    assert "at 9000 s" in refused(*model, "failures.trace_span_s=8999")
    assert "no timestamp" in refused(*model, "failures.trace_start=2024-05-01")
    assert "independent" in refused(f'failures.trace="{trace}"')
    assert "gpu-0 to gpu-95" in refused(*model, *NOTHING_MEASURED, "job.gpus=96", "job.groups=24")
    repeated = [*model, "failures.after_end=repeat", "restart.failure_during=begins-anew"]
    assert "failure_during" in refused(*repeated, "times.restart_s=9000")


def test_paths_in_a_scenario_file_are_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (folder / "log.csv").write_text(TRACE, encoding="utf-8")
    (folder / "ours.toml").write_text(
        '[failures]\nmodel = "trace"\ntrace = "log.csv"\n[platform]\nfile = "hgx-h100"\n',
        encoding="utf-8",
    )
    monkeypatch.chdir(elsewhere)
    scenario = load_scenario("../folder/ours.toml")
    assert failure_model(scenario).mtbf_s == 3000.0
    assert scenario.platform.file == "hgx-h100"
    with pytest.raises(UserError, match=r"log\.csv"):
        failure_model(load_scenario("../folder/ours.toml", ["failures.trace=log.csv"]))


def test_an_edited_trace_or_mix_is_another_scenario(trace: str, tmp_path: Path) -> None:
    mix = tmp_path / "ours.toml"
    mix.write_text(
        'source = "x"\n[[cause]]\nname = "a"\nper_1000_node_days = 1\nlevel = "gpu"\n'
        'kind = "hardware"\n',
        encoding="utf-8",
    )
    for model, path in (("trace", Path(trace)), ("mix", mix)):
        scenario = load_scenario(
            "spare-sound", [f"failures.model={model}", f'failures.{model}="{path}"']
        )
        before, mtbf_s = scenario_hash(resolve(scenario)), failure_model(scenario).mtbf_s
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("9000,", "9900,").replace("days = 1", "days = 2"), "utf-8")
        assert scenario_hash(resolve(scenario)) != before
        assert failure_model(scenario).mtbf_s != mtbf_s
