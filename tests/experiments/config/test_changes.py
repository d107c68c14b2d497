"""Scenarios are varied in one way."""

from __future__ import annotations

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import (
    load_scenario,
    shipped_scenarios,
)

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
    assert load_scenario(name).change(CHANGES) == by_settings
    assert load_scenario(name, CHANGES) == by_settings
    assert by_settings.change({}) == by_settings
    assert load_scenario(name).change(CHANGES).stated() == by_settings.stated()


def test_what_was_not_stated_follows_the_change() -> None:
    whole = Scenario().change({"model.name": "llama3-70b", "model.pipeline": 4})
    half = whole.change({"model.pipeline": 8})
    assert half.job.gpus_of_group == 2 * whole.job.gpus_of_group
    assert half.change({"model.pipeline": 4}) == whole
    open_job = Scenario().change({"platform.file": "gb200-nvl72"})
    assert open_job.job.gpus != Scenario().change({}).job.gpus


def test_a_time_given_alone_counts_and_none_takes_it_back() -> None:
    sound = Scenario().change({})
    stated = sound.change({"times.checkpoint_write_s": 60.0})
    assert (sound.measured.checkpoint, stated.measured.checkpoint) == (True, False)
    assert stated.change({"times.checkpoint_write_s": None}) == sound


def test_steps_replace_tokens_and_tokens_steps() -> None:
    by_tokens = load_scenario("llama3-70b-hgx")
    assert by_tokens.job.tokens is not None
    short = by_tokens.change({"job.steps": 50})
    assert (short.job.tokens, short.job.steps) == (None, 50)
    assert load_scenario("llama3-70b-hgx", ["job.steps=50"]) == short
    assert short.change({"job.tokens": by_tokens.job.tokens}) == by_tokens
    with pytest.raises(UserError, match=r"leave out job\.tokens"):
        by_tokens.change({"job.steps": 50, "job.tokens": 2e12})


@pytest.mark.parametrize(
    ("key", "value", "printed"),
    [
        ("job.group", 3, "job.group: unknown key; did you mean 'job.groups'?"),
        ("job.groups.more", 3, "job.groups.more: groups is a value, not a table"),
        ("model.name", "llama3-405b", "has no scale-up domains"),
    ],
)
def test_a_bad_change_is_told_in_one_line(key: str, value: object, printed: str) -> None:
    study = load_scenario("spare-study")
    for change in (study.change, lambda changes: load_scenario("spare-study", changes)):
        with pytest.raises(UserError) as caught:
            change({key: value})
        assert printed in str(caught.value)
        assert "\n" not in str(caught.value)
