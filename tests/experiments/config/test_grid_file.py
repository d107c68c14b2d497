"""Grid files: what is read from them, and one line for whatever is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.grid import Grid, read_grid, shipped_grids
from faultline.experiments.runs.sweep_plan import make_plan
from faultline.strategies.golomb import largest_redundancy
from hypothesis import given
from hypothesis import strategies as st


def grid_of(folder: Path, text: str) -> Grid:
    path = folder / "grid.toml"
    path.write_text(text, encoding="utf-8")
    return read_grid(str(path))


def test_a_grid_is_read_with_its_defaults(tmp_path: Path) -> None:
    grid = grid_of(tmp_path, 'scenario = "spare-study"')
    assert (grid.name, grid.scenario, grid.engine) == ("grid", "spare-study", "replay")
    assert (grid.seeds, grid.fixed, grid.varied, grid.cases) == ((0,), {}, {}, ({},))
    assert list(grid.points()) == [{}]


def test_quoted_dotted_and_nested_keys_are_the_same(tmp_path: Path) -> None:
    head = 'scenario = "spare-study"\n'
    quoted = grid_of(tmp_path, head + '[grid]\n"strategy.redundancy" = [3, 5]\n"job.groups" = [60]')
    dotted = grid_of(tmp_path, head + "[grid]\nstrategy.redundancy = [3, 5]\njob.groups = [60]")
    nested = grid_of(
        tmp_path, head + "[grid.strategy]\nredundancy = [3, 5]\n[grid.job]\ngroups = [60]"
    )
    assert quoted.varied == {"strategy.redundancy": [3, 5], "job.groups": [60]}
    assert quoted == dotted == nested


@pytest.mark.parametrize(
    ("stated", "seeds"), [("3", (0, 1, 2)), ("[7]", (7,)), ("[5, 0, 9]", (5, 0, 9))]
)
def test_seeds_are_a_count_or_a_list(stated: str, seeds: tuple[int, ...], tmp_path: Path) -> None:
    assert grid_of(tmp_path, f'scenario = "spare-study"\nseeds = {stated}').seeds == seeds


def test_every_case_has_its_own_values(tmp_path: Path) -> None:
    grid = grid_of(
        tmp_path,
        """
        scenario = "spare-study"
        [grid]
        "strategy.name" = ["spare", "replication"]
        [[cases]]
        "job.groups" = 60
        "strategy.redundancy" = [2, 3]
        [[cases]]
        job.groups = 200
        """,
    )
    assert list(grid.points()) == [
        {"strategy.name": "spare", "job.groups": 60, "strategy.redundancy": 2},
        {"strategy.name": "spare", "job.groups": 60, "strategy.redundancy": 3},
        {"strategy.name": "replication", "job.groups": 60, "strategy.redundancy": 2},
        {"strategy.name": "replication", "job.groups": 60, "strategy.redundancy": 3},
        {"strategy.name": "spare", "job.groups": 200},
        {"strategy.name": "replication", "job.groups": 200},
    ]
    assert grid.runs() == 6


def test_the_full_grid_is_every_redundancy_that_has_a_ruler() -> None:
    grid = read_grid("spare-full")
    expected = {
        (scheme, distribution, groups, redundancy)
        for scheme in ("replication", "spare")
        for distribution in ("weibull", "exponential")
        for groups in (200, 600, 1000)
        for redundancy in range(2, largest_redundancy(groups) + 1)
    }
    keys = ("strategy.name", "failures.distribution", "job.groups", "strategy.redundancy")
    assert {tuple(point[key] for key in keys) for point in grid.points()} == expected
    assert (grid.runs(), len(grid.seeds)) == (660, 3)


@pytest.mark.parametrize("name", shipped_grids())
def test_shipped_grids_are_sound(name: str) -> None:
    plan = make_plan(read_grid(name))
    assert plan.manifest.grid["name"] == name
    assert len(set(plan.manifest.run_ids)) == read_grid(name).runs()


STUDY = 'scenario = "spare-study"\n'


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ["scenario: is missing"]),
        ("scenario = 5", ["grid.toml:1", "scenario = 5", "text"]),
        (STUDY + "seed = 3", ["grid.toml:2", "seed: unknown key", "'seeds'"]),
        (STUDY + "[grids]", ["grid.toml:2", "grids: unknown key", "'grid'"]),
        (STUDY + "engine = 'ns3'", ["grid.toml:2", "engine", "'ns3'", "'simgrid'"]),
        (STUDY + "seeds = 0", ["grid.toml:2", "seeds = 0", "count from 1"]),
        (STUDY + "seeds = []", ["seeds", "count from 1"]),
        (STUDY + "seeds = [1, 1]", ["seeds", "different"]),
        (STUDY + "seeds = [-1]", ["seeds", "from 0"]),
        (STUDY + "seeds = [9223372036854775808]", ["seeds", "from 0"]),
        (STUDY + "seeds = 1000000000000", ["seeds", "count from 1"]),
        (STUDY + "seeds = 2.5", ["grid.toml:2: seeds = 2.5", "whole numbers"]),
        (STUDY + "seeds = true", ["grid.toml:2: seeds = true", "whole numbers"]),
        (STUDY + "grid = 5", ["grid = 5", "dictionary"]),
        (STUDY + "[cases]\njob.groups = 3", ["cases", "list"]),
        (STUDY + "[grid]\njob.groups = 60", ["grid.toml:3", "job.groups = 60", "[set]"]),
        (STUDY + "[grid]\njob.groups = []", ["grid.toml:3", "job.groups = []", "at least one"]),
        (STUDY + "[grid]\njob.groups = [60, 60]", ["grid.toml:3", "60 is listed twice"]),
        (STUDY + "[grid]\njob.groups = [[60]]", ["grid.toml:3", "a list is no value"]),
        (STUDY + "[grid]\njob.groups = [{a = 1}]", ["a table is no value"]),
        (STUDY + "[grid]\njob.groups = [1979-05-27]", ["1979-05-27 is no value"]),
        (STUDY + "[grid]\njob.grops = [60]", ["grid.toml:3", "[grid]", "'job.groups'"]),
        (STUDY + '[set]\n"strategy.redundncy" = 3', ["grid.toml:3", "'strategy.redundancy'"]),
        (STUDY + "[[cases]]\njbo.groups = 3", ["[[cases]]", "jbo.groups", "'job.groups'"]),
        (STUDY + "[set]\n'job..groups' = 3", ["job..groups: unknown key"]),
        (STUDY + "[grid]\nname = ['a', 'b']", ["name cannot be varied"]),
        (STUDY + "[grid]\njob = [3]", ["job cannot be varied"]),
        (
            STUDY + "[grid]\n'job.groups' = [60]\n[grid.job]\ngroups = [90]",
            ["job.groups is stated twice"],
        ),
        (
            STUDY + "[grid]\njob.groups = [60]\n[[cases]]\njob.groups = 90",
            ["grid.toml:3", "job.groups", "[[cases]]", "keep one"],
        ),
        (STUDY + "[set]\njob.steps = 9\n[grid]\njob.steps = [9]", ["grid.toml:3", "fixed", "keep"]),
        (
            STUDY + "seeds = 1000\n[grid]\njob.groups = [1, 2]\njob.steps = "
            f"{list(range(1, 1001))}",
            ["2,000,000 runs", "1,000,000"],
        ),
        (STUDY + "[grid\n", ["grid.toml:2", "no TOML"]),
    ],
)
def test_a_bad_grid_is_told_in_one_line(text: str, printed: list[str], tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        grid_of(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    for part in ["grid.toml", *printed]:
        assert part in message


def test_what_is_no_grid_file_is_told(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x7fELF\x80\x00")
    for name in (str(tmp_path / "none.toml"), str(tmp_path), "", "a\0b", str(binary)):
        with pytest.raises(UserError):
            read_grid(name)
    with pytest.raises(UserError, match=r"did you mean 'spare-full'\?"):
        read_grid("spare-ful")


values = st.one_of(
    st.integers(-3, 10**20), st.booleans(), st.text("ab", max_size=3), st.floats(allow_nan=False)
)
tables = st.dictionaries(
    st.sampled_from(["job.groups", "job", "groups", "strategy.name", "strategy.redundancy", "x"]),
    st.one_of(values, st.lists(values, max_size=3)),
    max_size=3,
)


@given(seeds=st.one_of(values, st.lists(values, max_size=3)), fixed=tables, varied=tables)
def test_any_grid_is_planned_or_refused(
    seeds: Any, fixed: Any, varied: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = ['scenario = "spare-study"', f"seeds = {_toml(seeds)}", "[set]"]
    lines += [f'"{key}" = {_toml(value)}' for key, value in fixed.items()]
    lines += ["[grid]", *(f'"{key}" = {_toml(value)}' for key, value in varied.items())]
    path = tmp_path_factory.getbasetemp() / "any-grid.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    printed = _mistake(str(path))
    assert printed is None or "any-grid.toml" in printed
    assert "TOML" not in (printed or "")


def _mistake(path: str) -> str | None:
    try:
        make_plan(read_grid(path))
    except UserError as error:
        return str(error)
    return None


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value).lower() if isinstance(value, (bool, float)) else repr(value)
