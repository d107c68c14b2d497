"""The documentation of every key, and the JSON Schema by which editors refuse what we refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import tomlkit
from faultline.experiments.config.keys import (
    Key,
    likely_keys,
    schema_keys,
)
from faultline.experiments.config.reference import explained, find_reference
from faultline.experiments.config.reference_page import DECISIVE, REGENERATE, reference_page
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import read_source, shipped_scenarios

from tests.experiments.command_line import Cli

COMMAND = ("scenario",)

PAGE = Path(__file__).parents[3] / "docs" / "scenario-reference.md"
LEAVES = [known for known in schema_keys(Scenario).values() if not known.is_table]
UNITS = {"s", "bytes", "bytes/s", "steps", "1"}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_page(), f"run: {REGENERATE}"


def test_each_key_has_one_anchor_and_the_decisive_ones_are_twenty() -> None:
    page = reference_page()
    for known in LEAVES:
        assert page.count(f'<a id="{known.dotted}"></a>') == 1, known.dotted
    decisive = [key for keys, _ in DECISIVE.values() for key in keys]
    assert len(set(decisive)) == len(decisive) == 20
    assert set(decisive) <= {known.dotted for known in LEAVES}


def test_the_command_prints_the_page(cli: Cli) -> None:
    assert cli("explain", "--format", "markdown") == reference_page()


@pytest.mark.parametrize("known", LEAVES, ids=lambda known: known.dotted)
def test_every_key_has_a_meaning_and_a_source(known: Key) -> None:
    assert known.meaning.endswith(".")
    assert known.meaning[0].isupper()
    assert known.source
    assert "\n" not in known.meaning + known.source


@pytest.mark.parametrize("known", LEAVES, ids=lambda known: known.dotted)
def test_numbers_have_the_unit_of_their_name_and_names_have_none(known: Key) -> None:
    is_number = "number" in known.kind or known.dotted == "version"
    assert (known.unit in UNITS) == is_number
    assert is_number or known.unit is None
    for ending, unit in {"_bytes_per_s": "bytes/s", "_s": "s", "_bytes": "bytes"}.items():
        if known.dotted.endswith(ending):
            assert known.unit == unit
            break


@pytest.mark.parametrize("known", LEAVES, ids=lambda known: known.dotted)
def test_every_choice_means_something_and_is_one(known: Key) -> None:
    field: Any = known.field
    documented = field.json_schema_extra.get("choices", {})
    kinds = [field.annotation, *get_args(field.annotation)]
    chosen = next((kind for kind in kinds if get_origin(kind) is Literal), None)
    if chosen is not None:
        names = [name for name in get_args(chosen) if isinstance(name, str)]
        assert sorted(documented) == sorted(names)
        assert all(documented.values())
    else:
        assert not documented


@pytest.mark.parametrize("known", LEAVES, ids=lambda known: known.dotted)
def test_conditions_name_keys_and_values_that_exist(known: Key) -> None:
    for needed, values in known.only_with.items():
        condition = schema_keys(Scenario)[tuple(needed.split("."))]
        assert set(values) < set(condition.choices), f"{known.dotted} counts with any {needed}"


@pytest.mark.parametrize("known", LEAVES, ids=lambda known: known.dotted)
def test_the_default_is_the_schemas(known: Key) -> None:
    value: Any = Scenario()
    for part in known.path:
        value = getattr(value, part)
    if value is None:
        assert known.default == "unset"
    else:
        assert tomlkit.value(known.default).unwrap() == value


def test_options_of_a_scheme_count_with_that_scheme() -> None:
    option = schema_keys(Scenario)["strategy", "spare", "patch_compute"]
    assert option.only_with == {"strategy.name": ["spare"]}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("job.groups", "job.groups"),
        ("groups", "job.groups"),
        ("[job]", "job"),
    ],
)
def test_a_key_is_found_by_its_path_or_a_name_of_its_own(name: str, found: str) -> None:
    assert find_reference(name).dotted == found


@pytest.mark.parametrize(
    ("path", "likely"),
    [
        (("groups",), ["job.groups"]),
        (("failures", "groups"), ["job.groups"]),
        (("job", "interval_steps"), ["checkpoint.interval_steps", "protection.interval_steps"]),
        (("jbo",), ["job"]),
        (("restart", "watchdog_s"), ["detection.watchdog_s"]),
        (("xyzzy",), []),
    ],
)
def test_the_likely_key_is_found_wherever_it_stands(
    path: tuple[str, ...], likely: list[str]
) -> None:
    assert likely_keys(path, Scenario) == likely


def test_an_explanation_says_all_there_is_to_say(cli: Cli) -> None:
    printed = cli("explain", "detection.watchdog_s")
    for part in ("600.0", "above 0", "PyTorch", "only with detection.mode = watchdog", " s\n"):
        assert part in printed
    assert "from-detection" in explained(find_reference("failures.clock"))


@pytest.mark.parametrize(
    ("key", "printed"),
    [
        ("job.gruops", "did you mean 'job.groups'?"),
        ("interval_steps", "use checkpoint.interval_steps or protection.interval_steps"),
        ("xyzzy", "unknown key"),
    ],
)
def test_a_key_that_is_none_is_told(key: str, printed: str, cli: Cli) -> None:
    assert printed in cli.refused("explain", key)


@pytest.fixture
def validator(cli: Cli) -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(cli("explain", "--format", "json-schema"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_shipped_scenarios_are_right_by_it(validator: Any) -> None:
    for name in shipped_scenarios():
        tables = read_source(name).tables
        assert [error.message for error in validator.iter_errors(tables)] == [], name


@pytest.mark.parametrize(
    "wrong",
    [
        {"job": {"gruops": 3}},
        {"job": {"groups": 0}},
        {"strategy": {"name": "prayer"}},
    ],
)
def test_mistakes_are_found(validator: Any, wrong: dict[str, Any]) -> None:
    assert not validator.is_valid(wrong)
