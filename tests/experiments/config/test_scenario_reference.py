"""The documentation of every key, and the JSON Schema by which editors refuse what we refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import tomlkit
from faultline.experiments.config.keys import (
    Key,
    first_sentence,
    likely_keys,
    schema_keys,
    schema_path,
)
from faultline.experiments.config.reference import (
    REGENERATE,
    explained,
    find_reference,
    reference_page,
)
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import read_source, shipped_scenarios
from faultline.experiments.config.tables.table import key
from pydantic import BaseModel

from tests.experiments.command_line import Cli

COMMAND = ("scenario",)

PAGE = Path(__file__).parents[3] / "docs" / "scenario-reference.md"
LEAVES = [known for known in schema_keys(Scenario).values() if not known.is_table]
UNITS = {"s", "bytes", "bytes/s", "steps", "1"}


def dotted(known: Key) -> str:
    return known.dotted


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_page(), f"run: {REGENERATE}"


def test_the_command_prints_the_page(cli: Cli) -> None:
    assert cli("explain", "--format", "markdown") == reference_page()


def test_every_field_of_the_schema_is_there() -> None:
    def fields(model: type[BaseModel]) -> int:
        inner = [info.annotation for info in model.model_fields.values()]
        tables = [kind for kind in inner if isinstance(kind, type) and issubclass(kind, BaseModel)]
        return len(inner) + sum(map(fields, tables))

    assert len(schema_keys(Scenario)) == fields(Scenario)
    assert len(LEAVES) > 40


@pytest.mark.parametrize("known", LEAVES, ids=dotted)
def test_every_key_has_a_meaning_and_a_source(known: Key) -> None:
    assert known.meaning.endswith(".")
    assert known.meaning[0].isupper()
    assert known.source
    assert "\n" not in known.meaning + known.source


@pytest.mark.parametrize("known", LEAVES, ids=dotted)
def test_numbers_have_a_unit_and_names_have_none(known: Key) -> None:
    is_number = "number" in known.kind or known.dotted == "version"
    assert (known.unit in UNITS) == is_number
    assert is_number or known.unit is None


@pytest.mark.parametrize("known", LEAVES, ids=dotted)
def test_units_are_those_of_the_names(known: Key) -> None:
    endings = {"_bytes_per_s": "bytes/s", "_s": "s", "_bytes": "bytes", "_steps": "steps"}
    for ending, unit in endings.items():
        if known.dotted.endswith(ending):
            assert known.unit == unit
            break


@pytest.mark.parametrize("known", LEAVES, ids=dotted)
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


@pytest.mark.parametrize("known", LEAVES, ids=dotted)
def test_conditions_name_keys_and_values_that_exist(known: Key) -> None:
    for needed, values in known.only_with.items():
        condition = schema_keys(Scenario)[tuple(needed.split("."))]
        assert set(values) < set(condition.choices), f"{known.dotted} counts with any {needed}"


@pytest.mark.parametrize("known", LEAVES, ids=dotted)
def test_the_default_is_the_schemas(known: Key) -> None:
    value: Any = Scenario()
    for part in known.path:
        value = getattr(value, part)
    if value is None:
        assert known.default == "unset"
    else:
        assert tomlkit.value(known.default).unwrap() == value


def test_an_option_that_a_scheme_does_not_document_is_the_schemes_choice() -> None:
    class Bare(BaseModel):
        pace: int = 3

    known = schema_keys(Bare)["pace",]
    assert (known.source, known.default, known.kind) == (
        "choice of the scheme",
        "3",
        "whole number",
    )
    assert (known.unit, known.choices, known.meaning) == (None, {}, "")


def test_options_of_a_scheme_count_with_that_scheme() -> None:
    option = schema_keys(Scenario)["strategy", "spare", "patch_compute"]
    assert option.only_with == {"strategy.name": ["spare"]}


def test_documentation_keeps_what_it_was_told() -> None:
    class Told(BaseModel):
        pace: int = key(3, "", "assumption", "s", only_with={"a.b": "c", "d": ("e", "f")})

    printed = schema_keys(Told)["pace",]
    assert (printed.source, printed.unit) == ("assumption", "s")
    assert printed.only_with == {"a.b": ["c"], "d": ["e", "f"]}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("job.groups", "job.groups"),
        ("groups", "job.groups"),
        ("[job]", "job"),
        ("strategy.spare", "strategy.spare"),
        ("hand_back_s", "times.hand_back_s"),
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
        (("job", "step"), ["job.steps"]),
        (("jobs", "groups"), ["job.groups"]),
        (("jbo",), ["job"]),
        (("mtbf",), ["failures.mtbf_s"]),
        (("spare",), ["strategy.spare"]),
        (("restart", "watchdog_s"), ["detection.watchdog_s"]),
        (("xyzzy",), []),
        (("a" * 5000,), []),
    ],
)
def test_the_likely_key_is_found_wherever_it_stands(
    path: tuple[str, ...], likely: list[str]
) -> None:
    assert likely_keys(path, Scenario) == likely


def test_positions_in_lists_are_no_part_of_a_path_in_the_schema() -> None:
    class Inner(BaseModel):
        rate: float = 1.0

    class Outer(BaseModel):
        causes: list[Inner] = []

    assert list(schema_keys(Outer)) == [("causes",), ("causes", "rate")]
    assert schema_path(("causes", 3, "rat"), Outer) == ("causes", "rat")
    assert likely_keys(("causes", "rat"), Outer) == ["causes.rate"]


def test_the_first_sentence_is_not_cut_at_an_abbreviation() -> None:
    assert (
        first_sentence("As in Lee et al. 2026 (SPARe). Or not.") == "As in Lee et al. 2026 (SPARe)."
    )


def test_an_explanation_says_all_there_is_to_say(cli: Cli) -> None:
    printed = cli("explain", "detection.watchdog_s")
    for part in ("600.0", "above 0", "PyTorch", "only with detection.mode = watchdog", " s\n"):
        assert part in printed
    assert "from-detection" in explained(find_reference("failures.clock"))


@pytest.mark.parametrize("key", [known.dotted for known in schema_keys(Scenario).values()])
def test_everything_can_be_explained(key: str, cli: Cli) -> None:
    assert key in cli("explain", key)


def test_without_a_key_all_tables_are_told(cli: Cli) -> None:
    printed = cli("explain")
    for known in schema_keys(Scenario).values():
        if known.is_table:
            assert f"[{known.dotted}]" in printed


@pytest.mark.parametrize(
    ("key", "printed"),
    [
        ("job.gruops", "did you mean 'job.groups'?"),
        ("interval_steps", "use checkpoint.interval_steps or protection.interval_steps"),
        ("xyzzy", "unknown key"),
        ("", "unknown key"),
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
        {"failures": {"clock": "never"}},
        {"strategy": {"spare": {"patch_compute": "all"}}},
    ],
)
def test_mistakes_are_found(validator: Any, wrong: dict[str, Any]) -> None:
    assert not validator.is_valid(wrong)


def test_keys_are_explained_with_their_unit(cli: Cli) -> None:
    schema = json.loads(cli("explain", "--format", "json-schema"))
    compute = schema["$defs"]["TimesTable"]["properties"]["compute_s"]
    assert compute["description"].endswith("Unit: s.")
    assert "Time in which a group computes one shard type" in compute["description"]
