"""Grid files: the varied values of a scenario, and the seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal

from faultline.experiments.config.errors import UserError, quote
from faultline.experiments.config.keys import mistakes_in, path_of, remedy_for, schema_keys
from faultline.experiments.config.numbers import plain
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import shipped_scenarios
from faultline.experiments.config.toml_text import Library, TomlSource, parse_toml
from pydantic import BaseModel, ConfigDict, ValidationError

EngineName = Literal["replay", "simgrid"]
Settings = dict[str, Any]
Values = dict[str, list[Any]]

_GRIDS = Library("grid", "grids")
_MOST_RUNS = 1_000_000
_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Grid:
    """The content of a grid file: all keys are dotted, all varied values are in lists."""

    origin: str  # Its name in messages.
    name: str  # Stated, or that of the file.
    scenario: str  # A shipped scenario or a TOML file, as stated.
    folder: Path  # Base of a relative path.
    engine: EngineName  # One of "replay", "simgrid".
    seeds: tuple[int, ...]  # The seeds of every point.
    fixed: Settings  # ``[set]``: dotted keys and their one value.
    varied: Values  # ``[grid]``: dotted keys and their values.
    # ``[[cases]]``: the product of each with `varied` is simulated; there is at least one.
    cases: tuple[Values, ...]

    def scenario_source(self) -> str:
        """Return the shipped scenario's name, or the path of the file."""
        shipped = self.scenario in shipped_scenarios()
        return self.scenario if shipped else str(self.folder / self.scenario)

    def varied_keys(self) -> list[str]:
        """Return all keys that a point may set, in the order of the file."""
        return list(dict.fromkeys((*self.varied, *(key for case in self.cases for key in case))))

    def runs(self) -> int:
        """Return the number of runs; points that several cases have in common count in each."""
        in_grid = prod(len(values) for values in self.varied.values())
        in_cases = sum(prod(len(values) for values in case.values()) for case in self.cases)
        return in_grid * in_cases * len(self.seeds)

    def points(self) -> Iterator[Settings]:
        """Yield the keys and values of each point; the last key of a case varies fastest."""
        for case in self.cases:
            lists = {**self.varied, **case}
            for values in product(*lists.values()):
                yield dict(zip(lists, values, strict=True))

    def as_tables(self) -> dict[str, Any]:
        """Return the grid as a file would state it."""
        return {
            "name": self.name,
            "scenario": self.scenario,
            "engine": self.engine,
            "seeds": list(self.seeds),
            "set": self.fixed,
            "grid": self.varied,
            "cases": list(self.cases),
        }


def dotted_leaves(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted key of each value in nested tables, and the value."""
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from dotted_leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


class _GridFile(BaseModel):
    """The schema of a grid file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    scenario: str
    seeds: Any = 1
    name: str | None = None
    description: str = ""
    engine: EngineName = "replay"
    set: dict[str, Any] = {}
    grid: dict[str, Any] = {}
    cases: list[dict[str, Any]] = []


def grid_descriptions() -> dict[str, str]:
    """Return what each shipped grid is for, by its name."""
    texts = {name: parse_toml(_GRIDS.text(name))[0] for name in shipped_grids()}
    return {name: str(tables["description"]) for name, tables in texts.items()}


def shipped_grids() -> list[str]:
    """Return the names of the grids that come with Faultline."""
    return _GRIDS.names()


def read_grid(name_or_path: str) -> Grid:
    """Read a shipped grid, or a TOML file; the path of its scenario is relative to its folder.

    Raises UserError, which names the first mistake.
    """
    text = _GRIDS.text(name_or_path)
    folder = Path() if name_or_path in shipped_grids() else Path(name_or_path).parent
    return _GridReader.of_text(name_or_path, text).grid(folder)


def grid_from(tables: dict[str, Any], origin: str) -> Grid:
    """Return a grid from nested tables; its paths are relative to the working directory.

    Raises UserError, which names the first mistake.
    """
    return _GridReader(origin, tables).grid(Path())


class _GridReader(TomlSource):
    """Makes a grid from the tables of a file."""

    def grid(self, folder: Path) -> Grid:
        self.check_syntax()
        if "job" in self.tables and "scenario" not in self.tables:
            raise UserError(f"{self.origin}: that is a scenario, for faultline run; name a grid")
        try:
            stated = _GridFile.model_validate(self.tables)
        except ValidationError as error:
            raise self.refusal(mistakes_in(error, _GridFile)) from error
        grid = Grid(
            self.origin,
            stated.name or Path(self.origin).stem,
            stated.scenario,
            folder,
            stated.engine,
            self._seeds(stated.seeds),
            self._flat(stated.set, "set"),
            self._value_lists(stated.grid, "grid"),
            tuple(self._value_lists(case, "cases") for case in stated.cases) or ({},),
        )
        self._check_stated_once(grid)
        if grid.runs() > _MOST_RUNS:
            raise UserError(
                f"{self.origin}: has {grid.runs():,} runs; a sweep has at most "
                f"{_MOST_RUNS:,}: list fewer values or seeds"
            )
        return grid

    def _where(self, table: str, key: str) -> str:
        # Several cases may have the key, and lines are known by key alone.
        place = self.origin if table == "cases" else self.place_of((table, *path_of(key)))
        return f"{place}: [[cases]]" if table == "cases" else f"{place}: [{table}]"

    def _seeds(self, stated: Any) -> tuple[int, ...]:
        seeds = range(stated) if type(stated) is int else stated
        are_seeds = (
            isinstance(seeds, (range, list))
            and 0 < len(seeds) <= _MOST_RUNS
            and all(type(seed) is int and 0 <= seed <= _LARGEST_SEED for seed in seeds)
            and len(set(seeds)) == len(seeds)
        )
        if not are_seeds:
            place = self.place_of(("seeds",))
            raise UserError(
                f"{place}: seeds = {quote(stated)}: use a count from 1 (3 means the seeds 0, 1 "
                "and 2), or a list of different whole numbers from 0"
            )
        return tuple(seeds)

    def _flat(self, tables: Mapping[str, Any], name: str) -> Settings:
        """Flatten nested tables; ``"a.b" = 1`` and ``a.b = 1`` are the same."""
        known = schema_keys(Scenario)
        flat: Settings = {}
        for key, value in dotted_leaves(plain(tables)):
            path = path_of(key)
            if path not in known:
                remedy = remedy_for(path, Scenario)
                raise UserError(f"{self._where(name, key)}: {key}: unknown key; {remedy}")
            if key in flat:
                raise UserError(f"{self._where(name, key)}: {key} is stated twice; keep one")
            listed = isinstance(value, list)
            flat[key] = [*map(known[path].number, value)] if listed else known[path].number(value)
        return flat

    def _value_lists(self, tables: Mapping[str, Any], name: str) -> Values:
        values: Values = {}
        for key, value in self._flat(tables, name).items():
            where = f"{self._where(name, key)}: {key}"
            if "." not in key:
                raise UserError(
                    f"{where} cannot be varied; vary a key within it, such as strategy.redundancy"
                )
            if not isinstance(value, list) and name == "grid":
                raise UserError(f"{where} = {quote(value)}: list its values, or move it to [set]")
            values[key] = value if isinstance(value, list) else [value]
            _check_values(values[key], where)
        return values

    def _check_stated_once(self, grid: Grid) -> None:
        for case in grid.cases:
            for key in case:
                if key in grid.varied:
                    raise UserError(
                        f"{self._where('grid', key)}: {key} is varied here and in [[cases]]; "
                        "keep one of them"
                    )
        for key in grid.varied_keys():
            if key in grid.fixed:
                raise UserError(
                    f"{self._where('set', key)}: {key} is fixed here and varied elsewhere; keep "
                    "one of them"
                )


def _check_values(values: list[Any], where: str) -> None:
    if not values:
        raise UserError(f"{where} = []: list at least one value, or leave the key out")
    for value in values:
        if not isinstance(value, (str, int, float)):
            raise UserError(f"{where}: {quote(value)} is no value: use texts, numbers, true, false")
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise UserError(f"{where}: {quote(twice)} is listed twice; keep one")
