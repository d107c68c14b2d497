"""The JSON Schema of scenarios: editors refuse by it what Faultline refuses, and no more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from faultline.experiments.config.scenario_file import read_scenario_tables, shipped_scenarios

from tests.experiments.asking import Ask

jsonschema = pytest.importorskip("jsonschema")


@pytest.fixture
def validator(ask: Ask) -> Any:
    schema = json.loads(ask("scenario", "schema"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_shipped_scenarios_are_right_by_it(validator: Any) -> None:
    for name in shipped_scenarios():
        tables, _ = read_scenario_tables(name)
        assert [error.message for error in validator.iter_errors(tables)] == [], name


@pytest.mark.parametrize(
    "wrong",
    [
        {"job": {"gruops": 3}},
        {"job": {"groups": 0}},
        {"strategy": {"name": "prayer"}},
        {"failures": {"clock": "never"}},
        {"strategy": {"spare": {"patch_compute": "all"}}},
    ],
)
def test_mistakes_are_found(validator: Any, wrong: dict[str, Any]) -> None:
    assert not validator.is_valid(wrong)


def test_keys_are_explained_with_their_unit(ask: Ask) -> None:
    schema = json.loads(ask("scenario", "schema"))
    compute = schema["$defs"]["TimesTable"]["properties"]["compute_s"]
    assert compute["description"].endswith("Unit: s.")
    assert "Time a group computes one shard type" in compute["description"]
