"""``faultline scenario``: what is shown can be run, and what is wrong is named, all of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import schema_keys
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import (
    command_scenario,
    load_scenario,
    read_source,
    shipped_scenarios,
)
from faultline.experiments.config.toml_text import written
from faultline.experiments.job.check import MOST_MISTAKES
from faultline.experiments.job.resolved_keys import ResolvedScenario, resolve_source, scenario_toml
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.single_run import run

from tests.experiments.command_line import Cli

COMMAND = ("scenario",)


def set_all(settings: Sequence[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def resolve_with(name: str = "spare-study", *settings: str) -> ResolvedScenario:
    return resolve_source(read_source(name, settings))


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


SMALL = ["job.groups=24", "job.steps=60"]


@pytest.mark.parametrize(
    ("name", "settings", "how"),
    [
        ("spare-study", [], []),
        ("spare-study", ["strategy.name=replication"], []),
        ("spare-study", ["strategy.name=checkpoint", "failures.distribution=exponential"], []),
        ("spare-study", ["detection.mode=watchdog", "~times.restart_s"], []),
        ("spare-sound", [], []),
        ("spare-sound", ["failures.model=mix", "~restart.readers"], ["--all"]),
        ("spare-sound", ["failures.model=mix", "rejoin.when=at-checkpoint"], []),
    ],
)
def test_what_is_shown_gives_the_same_record(
    name: str, settings: list[str], how: list[str], tmp_path: Path, cli: Cli
) -> None:
    chosen = [*SMALL, *settings]
    out = cli("show", name, *set_all(chosen), *how)
    shown = load_scenario(write(tmp_path / "shown.toml", out))
    first, again = (run(one, seed=3) for one in (load_scenario(name, chosen), shown))
    assert first["events"] > 0
    assert first == again
    # What was filled in is stated now, and the file, shown again, is stated altogether.
    origins = {
        key.origin
        for key in resolve_source(read_source(str(tmp_path / "shown.toml"))).keys.values()
        if key.counts
    }
    assert origins <= {"stated", "unset"}


def test_what_is_left_open_is_filled_in() -> None:
    shown = resolve_with()
    filled = shown.scenario
    assert filled.strategy.redundancy == 8
    # Published for r = 8: 15 steps.
    assert abs((filled.checkpoint.interval_steps or 0) - 15) <= 1
    assert (filled.job.gpus_of_group, filled.times.all_reduce_s) == (3000, 2.0)
    again = resolve(filled)
    assert again.redundancy == shown.resolved.redundancy
    assert again.interval_steps == shown.resolved.interval_steps
    assert again.durations == shown.resolved.durations
    assert resolve(load_scenario("spare-study", ["strategy.name=checkpoint"])).redundancy == 1


def test_a_trace_is_shown_with_its_span(tmp_path: Path) -> None:
    write(tmp_path / "trace.csv", "time,component,cause,kind\n3600,gpu-17,hbm,hardware\n")
    text = "[failures]\nmodel = 'trace'\ntrace = 'trace.csv'\n"
    shown = resolve_with(write(tmp_path / "mine.toml", text))
    assert shown.keys["failures", "trace_span_s"].value == 3600.0
    assert shown.keys["failures", "trace_span_s"].origin == "derived"
    assert shown.keys["failures", "model"].outcome == "a failure every 3600 s"


def test_every_value_has_its_source(tmp_path: Path) -> None:
    text = "[job]\nsteps = 50\n[strategy]\nname = 'spare'\nredundancy = 3\n"
    path = write(tmp_path / "mine.toml", text)
    keys = resolve_with(path, "job.groups=16").keys
    origins = {
        ("job", "steps"): "stated",
        ("job", "groups"): "--set",
        ("job", "gpus"): "derived",
        ("times", "compute_s"): "unset",
        ("job", "time_limit_s"): "default",
        ("strategy", "redundancy"): "stated",
        ("checkpoint", "interval_steps"): "derived",
    }
    assert {path: keys[path].origin for path in origins} == origins


def test_a_value_on_which_nothing_depends_is_marked_or_left_out() -> None:
    source = read_source("spare-study")
    source.change({"detection.watchdog_s": 700.0})
    text = scenario_toml(resolve_source(source))
    assert "watchdog_s = 700" in text
    assert "[s, --set, not in force]" in text
    with pytest.raises(UserError, match=r"^--set detection\.watchdog_s=9: has no effect"):
        command_scenario("spare-study", ["detection.watchdog_s=9"])
    assert "watchdog_s" not in scenario_toml(resolve_with())
    assert "watchdog_s" in scenario_toml(resolve_with(), everything=True)
    watched = resolve_with("spare-study", "detection.mode=watchdog")
    assert watched.keys["detection", "watchdog_s"].counts
    assert not watched.keys["all_reduce", "failed_fraction"].counts


def test_measured_times_are_shown_beside_the_choice_to_measure() -> None:
    sound = resolve_with("spare-sound", "job.groups=24")
    measured_s = sound.resolved.durations.save_s
    assert sound.keys["times", "checkpoint_write_s"].outcome == f"{measured_s:.6g} s, measured"
    assert f"here {measured_s:.6g} s" in scenario_toml(sound)
    assert sound.keys["times", "all_reduce_s"].outcome.endswith(" s, measured")


def test_every_key_has_a_comment_with_its_unit() -> None:
    text = scenario_toml(resolve_with(), everything=True)
    for known in schema_keys(Scenario).values():
        if known.is_table or known.dotted in ("description", "uncertain"):
            continue
        lines = [line for line in text.splitlines() if line.lstrip("# ").startswith(known.path[-1])]
        assert any(known.summary in line for line in lines), known.dotted
        assert known.unit in (None, "1") or any(f"[{known.unit}, " in line for line in lines)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2e13, "2e13"),
        (300.0, "300.0"),
        (1e-5, "1e-5"),
        (0.1 + 0.2, "0.30000000000000004"),
        (600_000, "600_000"),
        (True, "true"),
        ("spare", '"spare"'),
    ],
)
def test_numbers_are_written_as_people_write_them(value: Any, text: str) -> None:
    assert written(value) == text
    assert tomlkit.value(text).unwrap() == value


def test_json_has_values_and_origins(cli: Cli) -> None:
    shown = cli.json("show", "spare-study", "--set", "job.groups=600")
    stated = Scenario.model_validate(shown["scenario"])
    assert stated == resolve_with("spare-study", "job.groups=600").scenario
    assert shown["keys"]["job.groups"] == {
        "value": 600,
        "unit": "1",
        "origin": "--set",
        "in_force": True,
    }
    assert shown["keys"]["strategy.redundancy"]["origin"] == "derived"


@pytest.mark.parametrize("name", shipped_scenarios())
def test_shipped_scenarios_are_right(name: str, cli: Cli) -> None:
    assert cli("check", name) == f"{name}: ok\n"


BAD = """\
version = 2
names = "mine"

[job]
groups = 0
stepps = 50
watchdog_s = 3

[failures]
groups = 5
distribution = "wiebull"
mtbf_s = "often"

[tmies]
restart_s = 60

[platform]
file = "nowhere.xml"
"""


def test_every_mistake_is_named_with_its_line(tmp_path: Path, cli: Cli) -> None:
    path = write(tmp_path / "bad.toml", BAD)
    status, out, err = cli.all("check", path)
    assert status == 2
    printed = out.splitlines()
    assert len(printed) == 9
    for line, parts in {
        2: ["names: unknown key", "did you mean 'name'?"],
        5: ["job.groups = 0: should be greater than or equal to 1"],
        6: ["job.stepps: unknown key", "did you mean 'job.steps'?"],
        7: ["job.watchdog_s: unknown key", "did you mean 'detection.watchdog_s'?"],
        10: ["failures.groups: unknown key", "did you mean 'job.groups'?"],
        11: ["failures.distribution = 'wiebull'", "did you mean 'weibull'?"],
        12: ["failures.mtbf_s = 'often': should be a time, such as 5min"],
        14: ["tmies: unknown key", "did you mean 'times'?"],
        18: ["nowhere.xml': no such file"],
    }.items():
        at_line = [one for one in printed if one.startswith(f"{path}:{line}: ")]
        assert len(at_line) == 1
        for part in parts:
            assert part in at_line[0]
    assert printed == sorted(printed, key=lambda line: int(line.split(":")[1]))
    assert err == "faultline: scenario check: 9 mistakes in it\n"


def test_syntax_mistakes_do_not_hide_each_other_nor_the_rest(tmp_path: Path, cli: Cli) -> None:
    text = """\
name = mine
[job]
groups = 24
groups = 25
steps = = 3
[failures
mtbf_s = 3
[strategy.replication]
checkpoint_waits = True
[job]
steps = 4
[detection]
mode = "x"
"""
    path = write(tmp_path / "bad.toml", text)
    _, out, _ = cli.all("check", path)
    assert out.splitlines() == [
        f'{path}:1: this is no TOML: text needs quotes: name = "mine"',
        f"{path}:4: this is no TOML: job.groups is there already in line 3; keep one of them",
        f"{path}:5: this is no TOML: invalid value at column 9",
        f"{path}:6: this is no TOML: expected ']' at the end of a table declaration at column 10",
        f"{path}:9: this is no TOML: write checkpoint_waits = true",
        f"{path}:10: this is no TOML: job is there already in line 2; keep one of them",
        f"{path}:13: detection.mode = 'x': should be 'all-reduce' or 'watchdog'",
    ]


@pytest.mark.parametrize(
    ("text", "line", "printed"),
    [
        ("[strategy]\nname = 'spare'\nredundancy = 80\n", 3, "Golomb ruler"),
        ("[strategy]\nname = 'checkpoint'\nredundancy = 2\n", 3, "leave it unset or use 1"),
        (
            "[failures]\nmtbf_s = 0.001\n[times]\nrestart_s = 1e9\n",
            2,
            "more than a million failures",
        ),
        (
            "[times]\nall_reduce_s = 1\n[detection]\nmode = 'watchdog'\nwatchdog_s = 1e-3\n",
            5,
            "healthy all-reduce",
        ),
        (
            "version = 3\n[job]\nnew_key = 3\n",
            1,
            "this Faultline reads version 2 of scenarios only",
        ),
        ("[job]\ngroups = 200.5\n", 2, "should be a whole number"),
        ("[times]\ncompute_s = nan\n", 2, "finite"),
        ("[strategy.replication]\ncheckpoint_waits = 'yes'\n", 2, "should be true or false"),
        ("job = 3\n", 1, "job = 3: should be a table"),
    ],
)
def test_one_mistake_is_one_line(
    text: str, line: int, printed: str, tmp_path: Path, cli: Cli
) -> None:
    path = write(tmp_path / "bad.toml", text)
    status, out, err = cli.all("check", path)
    assert status == 2
    assert out.startswith(f"{path}:{line}: ")
    assert printed in out
    assert out.count("\n") == err.count("\n") == 1
    # `run` reports the same.
    cli.before = ("run",)
    assert printed in cli.refused(path)


def test_several_files_are_checked_at_once(tmp_path: Path, cli: Cli) -> None:
    good = write(tmp_path / "good.toml", "[job]\ngroups = 16\n")
    bad = write(tmp_path / "bad.toml", "[job]\ngruops = 24\n")
    missing = str(tmp_path / "missing.toml")
    status, out, err = cli.all("check", good, bad, missing, "spare-study")
    assert status == 2
    first, second, third, fourth = out.splitlines()
    assert (first, fourth) == (f"{good}: ok", "spare-study: ok")
    assert second.startswith(f"{bad}:2: job.gruops")
    assert third.startswith(f"{missing}: no such file")
    assert err == "faultline: scenario check: 2 mistakes in 2 of 4 files\n"


def test_more_mistakes_than_anybody_reads_are_counted(tmp_path: Path, cli: Cli) -> None:
    path = write(tmp_path / "bad.toml", "".join(f"key{n} = 1\n" for n in range(5000)))
    _, out, _ = cli.all("check", path)
    assert len(out.splitlines()) == MOST_MISTAKES + 1
    assert out.splitlines()[-1] == f"{path}: and {5000 - MOST_MISTAKES:,} more"


def test_a_mistake_of_a_file_is_reported_with_its_line(tmp_path: Path, cli: Cli) -> None:
    path = write(tmp_path / "bad.toml", BAD)
    err = cli.refused("show", path)
    assert err.startswith(f"faultline: {path}:")
    assert "(and 7 more)" in err


def test_check_simulates_nothing(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "job.toml"
    text = 'version = 2\n[model]\nname = "llama3-8b"\n[job]\ngroups = 32\n'
    for protection in ("storage", "reft"):
        file.write_text(f'{text}[protection]\nname = "{protection}"\n')
        assert cli("check", file) == f"{file}: ok\n"
    assert list(tmp_path.rglob("platforms"))
    assert not list(tmp_path.rglob("probes"))
    file.write_text(text.replace("32", "4"))  # A part of the platform.
    assert cli("check", file) == f"{file}: ok\n"
    file.write_text("version = 2\n[job]\ngroups = 24\n")
    _, out, _ = cli.all("check", file)
    assert "represents 256 GPUs, the job has 24 groups of 10" in out
