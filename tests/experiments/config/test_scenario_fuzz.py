"""Whatever a scenario file holds, it is read, or each mistake is told in one line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from annotated_types import Ge, Le, Lt
from faultline.experiments.config.errors import EXPLAINED
from faultline.experiments.config.keys import schema_keys
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import load_scenario, read_source
from faultline.experiments.config.toml_text import parse_toml, written
from faultline.experiments.job.check import check_scenario
from faultline.experiments.job.resolved_keys import resolve_source, scenario_toml
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.stated_times import NOTHING_MEASURED

STUDY = "spare-study"
LEAVES = [known.dotted for known in schema_keys(Scenario).values() if not known.is_table]
KEYS = [known.path[-1] for known in schema_keys(Scenario).values()]


def refusal(act: Callable[[], object]) -> str | None:
    """What a user would be told; None if all went well. Any other error comes through."""
    try:
        act()
    except EXPLAINED as error:
        return str(error)
    return None


def assert_one_line(said: str | None) -> None:
    assert said is None or (said != "" and said.splitlines() == [said] and said.isprintable())


def assert_file_told(path: Path) -> None:
    """A file is read, or each of its mistakes is told in a line with its name."""
    said = refusal(lambda: load_scenario(str(path)))
    assert_one_line(said)
    assert said is None or str(path) in said
    for line in check_scenario(str(path)):
        assert_one_line(line)
        assert len(line) < len(str(path)) + 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


words = st.one_of(
    st.text(max_size=20),
    st.text(alphabet=st.characters(), max_size=8),
    st.sampled_from(
        ["", "\x00", "\x1b[31m", "\ud800", "\u2028", "\r\n", '"""', "é" * 70, "x" * 999]
    ),
)
numbers = st.one_of(
    st.integers(),
    st.integers(-(10**50), 10**50),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0, -1, 2**63, 2**64, 10**300, 10**400, 1e308, -1e308, 5e-324, -0.0]),
)
scalars = st.one_of(
    numbers,
    words,
    st.booleans(),
    st.sampled_from([date(1979, 5, 27), time(7, 32), datetime(1979, 5, 27, 7, 32)]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*KEYS, "x", ""]), inner)
    ),
    max_leaves=6,
)


pieces = st.one_of(
    st.sampled_from(
        ["job", "groups", "strategy", "1", "1e999", "0x1", "nan", "true", "1979-05-27"]
    ),
    st.sampled_from(list("[]{}=='\"#,.-\n\n\\\x00 ")),
    st.sampled_from(["[[", "]]", '"""', "'''", "\\u0000", " = "]),
)


@given(text=st.lists(pieces, max_size=30).map("".join))
def test_any_pieces_of_toml_are_read_or_refused(text: str, folder: Path) -> None:
    path = folder / "pieces.toml"
    path.write_text(text, encoding="utf-8", newline="")
    assert_file_told(path)


@given(text=st.lists(pieces, max_size=30).map("".join))
def test_toml_without_mistakes_is_what_the_library_reads(text: str) -> None:
    tables, mistakes = parse_toml(text)
    try:
        known = tomlkit.parse(text).unwrap()
    except (tomlkit.exceptions.TOMLKitError, ValueError):
        # The two libraries differ in what they let pass, but not in what they read.
        return
    if not mistakes:
        assert repr(tables) == repr(known)


@examples(1.5)
@given(changes=st.dictionaries(st.sampled_from(LEAVES), values, min_size=1, max_size=2))
def test_a_mutated_scenario_is_resolved_or_refused(changes: dict[str, Any]) -> None:
    """And what is resolved is shown so that it can be loaded, and is the same."""

    def show() -> None:
        source = read_source(STUDY)
        for dotted, value in changes.items():
            inner = source.tables
            *above, last = dotted.split(".")
            for part in above:
                inner = inner.setdefault(part, {})
            inner[last] = value
        source.change(NOTHING_MEASURED)
        shown = resolve_source(source)
        tables, mistakes = parse_toml(scenario_toml(shown, everything=True))
        assert not mistakes
        assert Scenario.model_validate(tables) == shown.scenario

    assert_one_line(refusal(show))


def ends_of_range(path: tuple[str, ...]) -> list[str]:
    """The smallest and the largest value that the schema lets pass, or all choices."""
    limits = {type(limit): limit for limit in schema_keys(Scenario)[path].field.metadata}
    low = limits[Ge].ge if Ge in limits else 5e-324
    high = limits[Le].le if Le in limits else 0.99 if Lt in limits else 10**18
    return list(schema_keys(Scenario)[path].choices) or [str(low), str(high)]


ENDS = {
    ".".join(path): ends_of_range(path)
    for path, known in schema_keys(Scenario).items()
    if ("number" in known.kind or known.choices) and path not in {("version",), ("job", "groups")}
}


@examples(1.5)
@given(
    changes=st.lists(
        st.sampled_from([f"{key}={end}" for key, ends in ENDS.items() for end in ends]),
        min_size=1,
        max_size=8,
    )
)
@example(["times.compute_s=5e-324", "times.all_reduce_s=0"])
@example(["failures.shape=1000", "times.restart_s=1e9", "failures.mtbf_s=1e5"])
def test_the_ends_of_all_ranges_are_resolved_or_refused(changes: list[str]) -> None:
    """And what is filled in lies within the ranges too."""

    def show() -> None:
        shown = resolve_source(read_source(STUDY, ["job.groups=24", *changes, *NOTHING_MEASURED]))
        assert Scenario.model_validate(shown.scenario.model_dump()) == shown.scenario

    assert_one_line(refusal(show))


@given(value=st.one_of(numbers, st.text(st.characters(exclude_categories=["Cs"])), st.booleans()))
def test_what_is_written_is_read_again(value: Any) -> None:
    if isinstance(value, int) and abs(value) > 10**300:
        return
    assert repr(parse_toml(f"value = {written(value)}")[0]["value"]) == repr(value)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 20_000,
        "job" + ".a" * 20_000 + " = 1",
        'name = "[/no] [bold]markup"\ndescription = "[/of] rich"',
    ],
    ids=lambda text: repr(text[:20]),
)
def test_extreme_files_end_in_one_line(text: str, folder: Path) -> None:
    path = folder / "extreme.toml"
    path.write_text(text, encoding="utf-8", newline="")
    assert_file_told(path)
