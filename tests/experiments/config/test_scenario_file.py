"""Scenarios: what is read from files and settings, and one line for whatever is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.keys import path_of, value_at
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import (
    command_scenario,
    load_scenario,
    shipped_scenarios,
)
from faultline.experiments.job.resolving import resolve
from faultline.experiments.runs.single_run import scenario_hash

STUDY = "spare-study"


def test_the_study_is_as_published() -> None:
    study = load_scenario(STUDY)
    assert study.name == STUDY
    assert (study.job.groups, study.job.steps, study.job.gpus) == (200, 10_000, 600_000)
    assert (study.failures.shape, study.failures.mtbf_s) == (0.78, 300.0)
    assert study.times.checkpoint_write_s == pytest.approx(2e13 / 340e9, abs=0.05)
    assert study.times.restart_s == 3600


@pytest.mark.parametrize(
    ("setting", "key", "value"),
    [
        ("job.steps=2_000", "job.steps", 2000),
        ("times.compute_s=1e2", "times.compute_s", 100.0),
        ('strategy.name="replication"', "strategy.name", "replication"),
        (" failures . mtbf_s = 600 ", "failures.mtbf_s", 600.0),
        ("platform.file=a=b.xml", "platform.file", "a=b.xml"),
    ],
)
def test_a_setting_changes_its_key(setting: str, key: str, value: object) -> None:
    assert value_at(load_scenario(STUDY, [setting]), path_of(key)) == value


def test_the_last_setting_of_a_key_counts() -> None:
    assert load_scenario(STUDY, ["job.groups=24", "job.groups=60"]).job.groups == 60


def test_a_file_is_named_after_itself_and_the_rest_are_defaults(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[job]\ngroups = 24\n", encoding="utf-8")
    mine = load_scenario(str(path))
    assert mine.name == "mine"
    assert mine.job.groups == 24
    assert mine.job.steps == Scenario().job.steps


def test_the_hash_tells_what_is_asked_and_not_how_it_is_called() -> None:
    def hashed(*settings: str) -> str:
        return scenario_hash(resolve(load_scenario(STUDY, settings)))

    assert hashed() == hashed("name=other")
    assert hashed() != hashed("job.steps=9999")
    # Stated or found: what counts is what is simulated.
    assert hashed() == hashed("strategy.redundancy=8", "times.all_reduce_s=2.0")
    assert hashed() != hashed("strategy.redundancy=7")


@pytest.mark.parametrize(
    ("setting", "printed"),
    [
        ("job.group=3", ["job.group: unknown key", "did you mean 'job.groups'?"]),
        ("jbo.groups=3", ["jbo: unknown key", "did you mean 'job'?"]),
        (
            "strategy.spare.patch_comptue=one-stack",
            ["unknown key", "'strategy.spare.patch_compute'"],
        ),
        ("strategy.name=spair", ["strategy.name", "'spair': did you mean 'spare'?"]),
        ("times.compute_s=-1", ["times.compute_s", "-1", "greater than 0"]),
        ("failures.mtbf_s=nan", ["failures.mtbf_s", "finite"]),
        ("job.groups=2.5", ["job.groups", "2.5", "whole number"]),
        ("job.groups", ["--set job.groups", "key=value"]),
        ("name.more=3", ["name", "not a table"]),
    ],
)
def test_a_bad_setting_is_told_in_one_line(setting: str, printed: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        load_scenario(STUDY, [setting])
    message = str(caught.value)
    assert "\n" not in message
    for part in printed:
        assert part in message


@pytest.mark.parametrize(
    ("content", "printed"),
    [
        (b"groups = = 3", "this is no TOML"),
        (b"\xff\xfe\x00binary\x80", "not UTF-8"),
    ],
)
def test_a_bad_file_is_told_with_its_name(content: bytes, printed: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        load_scenario(str(path))
    assert str(path) in str(caught.value)
    assert printed in str(caught.value)


def test_a_missing_file_and_a_directory_are_told(tmp_path: Path) -> None:
    for name in (str(tmp_path / "none.toml"), str(tmp_path), ""):
        with pytest.raises(UserError) as caught:
            load_scenario(name)
        assert "spare-study" in str(caught.value)
        assert "\n" not in str(caught.value)


IDLE = """
[failures]
model = "mix"
mix = "llama3"
mtbf_s = 600.0
[detection]
mode = "all-reduce"
watchdog_s = 9.0
[strategy.replication]
controller_sees = "all"
"""


def test_keys_of_a_file_that_have_no_effect_are_named_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options of another scheme wait for it; a setting that makes a key idle is no fault of it."""
    path = tmp_path / "idle.toml"
    path.write_text(IDLE, encoding="utf-8")
    command_scenario(str(path), [])
    printed = capsys.readouterr().err
    assert printed.startswith(
        f"faultline: {path}:5: failures.mtbf_s: has no effect with failures.rate = 'model'; set "
        "failures.rate to mtbf, or leave it out"
    )
    assert printed.endswith("(and 1 more)\n")
    command_scenario(str(path), ["failures.rate=mtbf", "detection.mode=watchdog"])
    load_scenario(str(path))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", shipped_scenarios())
def test_keys_of_shipped_scenarios_have_effects(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command_scenario(name, [])
    assert capsys.readouterr().err == ""
