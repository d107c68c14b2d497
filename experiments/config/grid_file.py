"""Grid files: TOML read into a `Grid`, with errors that say what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from faultline.experiments.config.errors import UserError
from faultline.experiments.config.grid import EngineName, Grid, Settings, Values, dotted_leaves
from faultline.experiments.config.keys import remedy_for, schema_keys
from faultline.experiments.config.mistakes import quote
from faultline.experiments.config.scenario import Scenario
from faultline.experiments.config.scenario_file import describe_mistakes
from faultline.experiments.config.text_file import read_text_file
from faultline.experiments.config.toml_text import parse_toml
from faultline.platforms.errors import nearest
from faultline.platforms.toml_lines import key_lines
from pydantic import BaseModel, ConfigDict, ValidationError

_SHIPPED = files("faultline.experiments.config").joinpath("grids")
_MOST_RUNS = 1_000_000
_LARGEST_SEED = 2**63 - 1


class _GridFile(BaseModel):
    """The tables of a grid file as they stand there."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    scenario: str
    seeds: int | list[int] = 1
    name: str | None = None
    description: str = ""
    engine: EngineName = "replay"
    set: dict[str, Any] = {}
    grid: dict[str, Any] = {}
    cases: list[dict[str, Any]] = []


def shipped_grids() -> list[str]:
    """Return the names of the grids that come with Faultline."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in _SHIPPED.iterdir()
        if entry.name.endswith(".toml")
    )


def read_grid(name_or_path: str) -> Grid:
    """Read a grid file.

    Parameters
    ----------
    name_or_path : str
        The name of a shipped grid, or a TOML file. A scenario that it names by a path is looked
        for from the folder of the grid file.

    Raises
    ------
    UserError
        Names the first mistake: where it is, what is wrong and what would be right.
    """
    text, folder = _read(name_or_path)
    return _Reader(name_or_path, key_lines(text)).grid(text, folder)


def _read(name_or_path: str) -> tuple[str, Path]:
    shipped = shipped_grids()
    if name_or_path in shipped:
        return _SHIPPED.joinpath(f"{name_or_path}.toml").read_text(encoding="utf-8"), Path()
    path = Path(name_or_path)
    try:
        return read_text_file(path), path.parent
    except UserError:
        raise
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "no such file" if missing else getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"{name_or_path}: {reason}{nearest(name_or_path, shipped)}; name a TOML file or a "
            f"shipped grid ({', '.join(shipped)})"
        ) from error


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes a grid of a file's text, and knows the lines of its keys."""

    origin: str
    lines: Mapping[tuple[str, ...], int]

    def grid(self, text: str, folder: Path) -> Grid:
        stated = self._tables(text)
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
                f"{self.origin}: asks for {grid.runs():,} runs; a sweep has at most "
                f"{_MOST_RUNS:,}: list fewer values or seeds"
            )
        return grid

    def _tables(self, text: str) -> _GridFile:
        tables, mistakes = parse_toml(text)
        if mistakes:
            place = self.origin if mistakes[0].line is None else f"{self.origin}:{mistakes[0].line}"
            raise UserError(f"{place}: this is no TOML: {mistakes[0].what}")
        try:
            return _GridFile.model_validate(tables)
        except ValidationError as error:
            first = error.errors()[0]["loc"][:1]
            mistake = describe_mistakes(error, _GridFile)[0]
            raise UserError(f"{self._place(*map(str, first))}: {mistake}") from error

    def _place(self, *path: str) -> str:
        line = self.lines.get(path)
        return self.origin if line is None else f"{self.origin}:{line}"

    def _place_of(self, table: str, key: str) -> str:
        # Several cases may have a key; which line is whose is not known.
        place = self.origin if table == "cases" else self._place(table, *key.split("."))
        return f"{place}: [[cases]]" if table == "cases" else f"{place}: [{table}]"

    def _seeds(self, stated: int | list[int]) -> tuple[int, ...]:
        seeds = range(stated) if isinstance(stated, int) else stated
        if not 0 < len(seeds) <= _MOST_RUNS:
            wrong = True
        else:
            wrong = len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) > _LARGEST_SEED
        if wrong:
            raise UserError(
                f"{self._place('seeds')}: seeds = {quote(stated)}: use a count from 1 (3 stands "
                "for the seeds 0, 1 and 2), or a list of different whole numbers from 0"
            )
        return tuple(seeds)

    def _flat(self, tables: Mapping[str, Any], name: str) -> Settings:
        """Flatten nested tables; ``"a.b" = 1`` and ``a.b = 1`` are the same."""
        known = schema_keys(Scenario)
        flat: Settings = {}
        for key, value in dotted_leaves(tables):
            path = tuple(key.split("."))
            if path not in known:
                remedy = remedy_for(path, Scenario)
                raise UserError(f"{self._place_of(name, key)}: {key}: unknown key; {remedy}")
            if key in flat:
                raise UserError(f"{self._place_of(name, key)}: {key} is there twice; keep one")
            flat[key] = value
        return flat

    def _value_lists(self, tables: Mapping[str, Any], name: str) -> Values:
        values: Values = {}
        for key, value in self._flat(tables, name).items():
            where = f"{self._place_of(name, key)}: {key}"
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
                        f"{self._place_of('grid', key)}: {key} is varied here and in [[cases]]; "
                        "keep one of them"
                    )
        for key in grid.varied_keys():
            if key in grid.fixed:
                raise UserError(
                    f"{self._place_of('set', key)}: {key} is fixed here and varied elsewhere; keep "
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
