"""Scenarios are varied in one way, and keys of version 1 stand for those of today everywhere."""

from __future__ import annotations

import pickle
from math import nextafter
from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.grid import grid_from
from faultline.experiments.config.keys import MODES, RENAMED, schema_keys, value_at
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import (
    load_scenario,
    read_source,
    scenario_from,
    shipped_scenarios,
)
from faultline.experiments.runs.sweep_plan import make_plan
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.asking import Ask

OLD_STUDY = """\
version = 1
name = "spare-study"
[job]
compute_s = 64.0
[all_reduce]
time = "stated"
time_per_group_s = 0.01
[checkpoint]
write = "stated"
write_s = 58.8
[restart]
duration_s = 3600.0
load = "included"
controller_s = 0.1
"""
COPY, SEND = "times.snapshot_copy_s", "times.snapshot_send_s"


def test_no_old_key_is_one_of_today_and_every_new_one_is() -> None:
    known = {key.dotted for key in schema_keys(Scenario).values()}
    assert not known & {*RENAMED, *MODES}
    assert known >= {*RENAMED.values(), *(key for mode in MODES.values() for key in mode.keys)}


def test_what_is_shipped_is_of_today() -> None:
    assert [name for name in shipped_scenarios() if read_source(name).names_of_file] == []


def test_a_file_of_version_1_asks_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "old.toml"
    path.write_text(OLD_STUDY, encoding="utf-8")
    old = load_scenario(str(path))
    assert old.version == 2
    assert old.times == load_scenario("spare-study").times
    assert not any(old.measured)
    told = capsys.readouterr().err
    assert told == (
        f"faultline: {path}: job.compute_s is times.compute_s since version 2 (and 4 more)\n"
    )


def test_mistakes_of_an_old_file_are_told_with_their_line_and_json_stays_json(
    tmp_path: Path, ask: Ask
) -> None:
    path = tmp_path / "old.toml"
    path.write_text(OLD_STUDY.replace("3600.0", "-1.0"), encoding="utf-8")
    status, out, _ = ask.all("scenario", "check", path, "--json")
    assert status == 2
    assert f"{path}:12: times.restart_s = -1.0: should be greater than 0" in out
    assert "since version 2" not in out


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_name_sets_the_new_key(old: str, new: str) -> None:
    value: Any = "every-group" if new == "restart.readers" else 2.5
    modes = ["restart.load=measured", "protection.times=stated"]
    study = load_scenario("spare-study", modes)
    asked = study.with_({new: value})
    assert value_at(asked, tuple(new.split("."))) == value
    assert load_scenario("spare-study", [*modes, f"{old}={value}"]) == asked
    assert study.with_({**dict(mode.split("=") for mode in modes), old: value}) == asked


@pytest.mark.parametrize(
    ("settings", "same"),
    [
        (["all_reduce.time=measured", "all_reduce.time_s=3"], ["~times.all_reduce_per_group_s"]),
        (["all_reduce.time_s=3"], ["times.all_reduce_s=3"]),
        (["all_reduce.time=stated"], []),
        (["~all_reduce.time"], []),
        (["checkpoint.write=measured"], ["~times.checkpoint_write_s"]),
        (["restart.time=modelled"], ["~times.restart_s"]),
        (["restart.load=measured"], ["restart.readers=one-group"]),
        (["restart.load_by=every-group"], []),
        (
            ["restart.readers=every-group", "restart.load=measured"],
            ["restart.readers=every-group"],
        ),
        (["protection.copy_s=3"], []),
        (
            ["protection.times=stated", "protection.copy_s=3"],
            [
                *(f"{key}={value}" for key, value in MODES["protection.times"].keys.items()),
                f"{COPY}=3",
            ],
        ),
    ],
)
def test_what_old_modes_meant(settings: list[str], same: list[str]) -> None:
    assert load_scenario("spare-study", settings) == load_scenario("spare-study", same)


def test_a_file_in_which_an_old_time_did_not_count_does_not_state_it() -> None:
    tables: dict[str, Any] = {"protection": {"name": "reft", "copy_s": 3.0}}
    assert scenario_from(tables, "old").times.snapshots() == {}
    assert tables["protection"]["copy_s"] == 3.0
    tables["protection"]["times"] = "stated"
    stated = scenario_from(tables, "old").times.snapshots()
    assert (stated["copy_s"], stated["send_s"], stated["fetch_s"]) == (3.0, 1.0, 10.0)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            ["restart.duration_s=3", "times.restart_s=4"],
            "--set times.restart_s: is there by its name of version 1, too; keep one",
        ),
        (
            ["restart.time=stated", "~times.restart_s"],
            '--set restart.time = "stated": needs times.restart_s',
        ),
        (["restart.time=often"], "--set restart.time = 'often': is gone; state times.restart_s"),
        (["restart.duration_s=-3"], "--set restart.duration_s=-3: times.restart_s = -3"),
    ],
)
def test_what_cannot_be_meant_is_one_clear_line(settings: list[str], told: str, ask: Ask) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    assert ask.refused("run", "spare-study", *words).startswith(f"faultline: {told}")


def test_grids_have_old_keys_too() -> None:
    fixed = {"all_reduce.time": "stated", "restart.controller_s": 2.0, "job.groups": 8}
    old = {"scenario": "spare-sound", "set": fixed, "grid": {"all_reduce.time_s": [1.0, 2.0]}}
    fixed = {"times.shrink_s": 2.0, "job.groups": 8}
    new = {"scenario": "spare-sound", "set": fixed, "grid": {"times.all_reduce_s": [1.0, 2.0]}}
    plans = [make_plan(grid_from(tables, "grid")) for tables in (old, new)]
    assert plans[0].manifest.run_ids == plans[1].manifest.run_ids
    assert plans[0].manifest.keys == ["times.all_reduce_s"]
    with pytest.raises(UserError, match=r"times\.shrink_s is there twice; keep one"):
        grid_from({**old, "set": {"restart.controller_s": 1, "times.shrink_s": 2}}, "grid")


CHANGES = {
    "job.groups": 16,
    "job.compute_jitter": 0.25,
    "strategy.name": "spare",
    "strategy.redundancy": 3,
    "strategy.replication.checkpoint_waits": True,
    "times.all_reduce_s": 3,
}
SETTINGS = [f"{key}={str(value).lower()}" for key, value in CHANGES.items()]


@pytest.mark.parametrize("name", shipped_scenarios())
def test_values_change_a_scenario_as_settings_do(name: str) -> None:
    by_settings = load_scenario(name, SETTINGS)
    assert load_scenario(name).with_(CHANGES) == by_settings
    assert load_scenario(name, CHANGES) == by_settings
    assert by_settings.with_({}) == by_settings
    assert load_scenario(name).with_(CHANGES).stated() == by_settings.stated()


@given(mtbf_s=st.floats(1e-3, 1e15))
def test_numbers_arrive_as_they_are(mtbf_s: float) -> None:
    study = load_scenario("spare-study")
    exact = nextafter(mtbf_s, 1.0)
    assert study.with_({"failures.mtbf_s": max(exact, 1e-3)}).failures.mtbf_s == max(exact, 1e-3)


def test_what_was_not_stated_follows_the_change() -> None:
    whole = Scenario().with_({"model.name": "llama3-70b", "model.pipeline": 4})
    half = whole.with_({"model.pipeline": 8})
    assert half.job.gpus_per_group == 2 * whole.job.gpus_of_group
    assert half.with_({"model.pipeline": 4}) == whole
    open_job = Scenario().with_({"platform.file": "gb200-nvl72"})
    assert open_job.job.gpus != Scenario().with_({}).job.gpus


def test_a_time_given_alone_counts_and_none_takes_it_back() -> None:
    sound = Scenario().with_({})
    stated = sound.with_({"times.checkpoint_write_s": 60.0})
    assert (sound.measured.checkpoint, stated.measured.checkpoint) == (True, False)
    assert stated.with_({"times.checkpoint_write_s": None}) == sound


def test_a_change_survives_other_processes() -> None:
    changed = Scenario().with_({"model.name": "llama3-70b", "model.pipeline": 4})
    again: Scenario = pickle.loads(pickle.dumps(changed))
    assert again == changed
    assert again.stated() == changed.stated()


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("job.group", 3, "job.group: unknown key; did you mean 'job.groups'?"),
        ("job.groups", 0, "job.groups = 0: should be greater than or equal to 1"),
        ("job.groups", "16", "job.groups = '16': should be a valid integer"),
        ("job.groups.more", 3, "job.groups.more: groups is a value, not a table"),
        ("model.name", "llama3-405b", "does not say what its domains are like"),
    ],
)
def test_a_bad_change_is_told_in_one_line(key: str, value: object, told: str) -> None:
    study = load_scenario("spare-study")
    for change in (study.with_, lambda changes: load_scenario("spare-study", changes)):
        with pytest.raises(UserError) as caught:
            change({key: value})
        assert told in str(caught.value)
        assert "\n" not in str(caught.value)
