"""Grid files: what is read from them, and one line for whatever is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
from faultline.experiments.config.errors import UserError
from faultline.experiments.config.grid import Grid, read_grid, shipped_grids
from faultline.experiments.runs.sweep_plan import make_plan
from faultline.strategies.schemes.spare.golomb import largest_redundancy


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
    assert plan.stored.grid["name"] == name
    assert plan.stored.count == read_grid(name).runs()


STUDY = 'scenario = "spare-study"\n'


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ["scenario: is missing"]),
        (STUDY + "seed = 3", ["grid.toml:2", "seed: unknown key", "'seeds'"]),
        (STUDY + "seeds = 0", ["grid.toml:2", "seeds = 0", "count from 1"]),
        (STUDY + "seeds = [1, 1]", ["seeds", "different"]),
        (STUDY + "[grid]\njob.groups = 60", ["grid.toml:3", "job.groups = 60", "[set]"]),
        (STUDY + "[grid]\njob.groups = []", ["grid.toml:3", "job.groups = []", "at least one"]),
        (STUDY + "[grid]\njob.groups = [60, 60]", ["grid.toml:3", "60 is listed twice"]),
        (STUDY + "[grid]\njob.grops = [60]", ["grid.toml:3", "[grid]", "'job.groups'"]),
        (STUDY + "[[cases]]\njbo.groups = 3", ["[[cases]]", "jbo.groups", "'job.groups'"]),
        (STUDY + "[grid]\nname = ['a', 'b']", ["name cannot be varied"]),
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
    ],
)
def test_a_bad_grid_is_told_in_one_line(text: str, printed: list[str], tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        grid_of(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    for part in ["grid.toml", *printed]:
        assert part in message


def test_a_grid_that_is_not_shipped_is_told_with_the_likely_one() -> None:
    with pytest.raises(UserError, match=r"did you mean 'spare-full'\?"):
        read_grid("spare-ful")
