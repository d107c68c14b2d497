"""Numbers with units: one rule in files, on the command line, in grids and in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.grid import grid_from, read_grid
from faultline.experiments.config.keys import path_of, value_at
from faultline.experiments.config.scenario_file import load_scenario
from faultline.experiments.config.toml_text import written

WRITTEN = [
    ("rejoin.repair_s", "3h", 10_800.0),
    ("rejoin.repair_s", "300", 300.0),
    ("failures.mtbf_s", "30min", 1800.0),
    ("job.parameter_bytes", "140GB", 1.4e11),
    ("job.groups", "1e2", 100),
    ("job.steps", "1.5M", 1_500_000),
]


@pytest.mark.parametrize(("key", "text", "value"), WRITTEN)
def test_a_number_with_a_unit_means_the_same_everywhere(
    key: str, text: str, value: float, tmp_path: Path
) -> None:
    table, name = key.split(".")
    file = tmp_path / "job.toml"
    file.write_text(f'[{table}]\n{name} = "{text}"\n')
    study = load_scenario("spare-study")
    found = [
        load_scenario("spare-study", [f"{key}={text}"]),
        load_scenario("spare-study", {key: text}),
        load_scenario(str(file)),
        study.change({key: text}),
    ]
    assert [value_at(one, path_of(key)) for one in found] == [value] * 4
    assert type(value_at(found[0], path_of(key))) is type(value)
    grid = tmp_path / "grid.toml"
    grid.write_text(f'scenario = "spare-study"\n[grid]\n{key} = ["{text}"]\n')
    assert read_grid(str(grid)).varied == {key: [value]}
    grid.write_text(f'scenario = "spare-study"\n[grid]\n{key} = ["{text}", {written(value)}]\n')
    with pytest.raises(UserError, match="is listed twice"):
        read_grid(str(grid))


def test_tokens_are_counted_in_the_words_of_the_field() -> None:
    for text in ("2T", "2e12", "2_000G", "2000B"):
        changes = ["~job.steps", f"job.tokens={text}"]
        assert load_scenario("llama3-70b-stress", changes).job.tokens == 2e12, text


def test_the_bounds_of_a_prior_have_the_unit_of_its_key(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(
        '[uncertain]\n"rejoin.repair_s" = { kind = "log-uniform", low = "3h", high = "4d", '
        'source = "our log" }\n'
    )
    prior = load_scenario(str(file)).uncertain["rejoin.repair_s"]
    assert (prior.low, prior.high) == (10_800.0, 345_600.0)


@pytest.mark.parametrize(
    ("setting", "printed"),
    [
        ("job.steps=", "job.steps = '': is empty: write a whole number, such as 500 or 100k"),
        ("job.steps=1.5", "job.steps = 1.5: should be a whole number, such as 500 or 100k"),
        ("rejoin.repair_s=", "'': is empty: write a time, such as 5min, or a number of seconds"),
        ("rejoin.repair_s=3H", "rejoin.repair_s = '3H': has an unknown unit: write 3h"),
        ("rejoin.repair_s=3GB", "'3GB': is a size in bytes, not a time (written like 5min"),
        ("rejoin.repair_s=soon", "should be a time, such as 5min, or a number of seconds"),
        ("job.parameter_bytes=1Gb", "is in bits: sizes are in bytes, written like 1GB"),
    ],
)
def test_a_text_that_is_no_number_is_refused_with_its_remedy(setting: str, printed: str) -> None:
    with pytest.raises(UserError) as caught:
        load_scenario("spare-study", [setting])
    assert printed in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [np.int64(24), np.float64(24), np.array(24)])
def test_numbers_of_numpy_are_numbers(value: Any) -> None:
    scenario = load_scenario("spare-study", {"job.groups": value})
    assert (scenario.job.groups, type(scenario.job.groups)) == (24, int)


def test_arrays_of_numpy_are_lists() -> None:
    values = np.arange(24, 97, 24)
    grid = grid_from({"scenario": "spare-study", "grid": {"job.groups": values}}, "grid")
    assert grid.varied == {"job.groups": [24, 48, 72, 96]}
