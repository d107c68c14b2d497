"""A grid: which values of a scenario are varied, and with which seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal

from faultline.experiments.config.scenario_file import shipped_scenarios

EngineName = Literal["replay", "simgrid"]
Settings = dict[str, Any]
Values = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class Grid:
    """A grid file, read: all keys dotted, all varied values in lists.

    Attributes
    ----------
    origin : str
        How to call it in messages.
    name : str
        Stated, or that of the file.
    scenario : str
        A shipped scenario or a TOML file, as stated.
    folder : Path
        From where a TOML file is looked for.
    engine : {"replay", "simgrid"}
        Which engine plays.
    seeds : tuple of int
        The seeds that every point is played with.
    fixed : dict
        ``[set]``: dotted keys and their one value.
    varied : dict of str to list
        ``[grid]``: dotted keys and their values.
    cases : tuple of dict of str to list
        ``[[cases]]``: the product of each with `varied` is played; there is at least one.
    """

    origin: str
    name: str
    scenario: str
    folder: Path
    engine: EngineName
    seeds: tuple[int, ...]
    fixed: Settings
    varied: Values
    cases: tuple[Values, ...]

    def scenario_source(self) -> str:
        """Return the shipped scenario's name, or the path of the file."""
        shipped = self.scenario in shipped_scenarios()
        return self.scenario if shipped else str(self.folder / self.scenario)

    def varied_keys(self) -> list[str]:
        """Return all keys that a point may set, in the order of the file."""
        return list(dict.fromkeys((*self.varied, *(key for case in self.cases for key in case))))

    def runs(self) -> int:
        """Return the number of runs; more than there will be where cases have points in common."""
        in_grid = prod(len(values) for values in self.varied.values())
        in_cases = sum(prod(len(values) for values in case.values()) for case in self.cases)
        return in_grid * in_cases * len(self.seeds)

    def points(self) -> Iterator[Settings]:
        """Yield what each point sets; the last key of a case varies fastest."""
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
    """Yield the dotted key and the value of everything in nested tables that is no table."""
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from dotted_leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
