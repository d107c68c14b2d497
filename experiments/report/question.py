"""The question of a sweep: the keys of its scenario, versions, hashes, caveats."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pandas as pd
import tomlkit
from faultline.experiments.analysis.quantities import is_missing, number_range, with_unit
from faultline.experiments.analysis.selection import caveats
from faultline.experiments.config.distribution import DISTRIBUTION
from faultline.experiments.config.reference import KeyReference, scenario_reference
from faultline.experiments.report.tables import Table, table_of, text
from faultline.experiments.runs.table import Sweep

_NOT_OF_THE_QUESTION = ("version", "name", "description")

# Open keys that each run fills in, with the columns of their values.
_FILLED_IN = {
    "strategy.redundancy": "redundancy",
    "checkpoint.interval_steps": "checkpoint_interval_steps",
}


def scenario_sections(
    fixed: Mapping[str, Any], axes: Mapping[str, Sequence[Any]], frame: pd.DataFrame
) -> list[dict[str, Any]]:
    """Return all keys of the scenario by section, in the order of the schema.

    A section has a ``name``, a ``summary`` and ``settings``. A setting has its dotted ``key``, its
    ``value`` or values, its ``meaning``, whether it is ``varied``, and whether other settings make
    it ``idle``. The records of runs in `frame` provide the values of open keys. Unknown keys, as
    sweeps of other versions may have, have no meaning.
    """
    known = [reference.dotted for reference in scenario_reference().values()]
    stated = {**{key: [value] for key, value in fixed.items()}, **axes}
    keys = [key for key in known if key in stated] + [key for key in stated if key not in known]
    sections: dict[str, list[dict[str, Any]]] = {}
    for key in keys:
        if key in _NOT_OF_THE_QUESTION:
            continue
        values = ", ".join(value_text(key, value) for value in stated[key])
        setting = {
            "key": key,
            "value": values + _filled_in(key, stated, frame),
            "meaning": meaning_of(key),
            "varied": key in axes,
            "idle": _is_idle(_reference(key), stated),
        }
        sections.setdefault(key.partition(".")[0], []).append(setting)
    return [
        {"name": name.replace("_", " "), "summary": meaning_of(name), "settings": settings}
        for name, settings in sections.items()
    ]


def meaning_of(key: str) -> str:
    """Return the meaning of a dotted key of a scenario; empty for an unknown key."""
    reference = _reference(key)
    return reference.meaning if reference else ""


def value_text(key: str, value: Any) -> str:
    """Return a value of a scenario's key with its unit, or that it is left open."""
    if is_missing(value):
        return "left open"
    reference = _reference(key)
    return with_unit(value, reference.unit if reference else None)


def _reference(key: str) -> KeyReference | None:
    return scenario_reference().get(tuple(key.split(".")))


def _filled_in(key: str, stated: Mapping[str, Sequence[Any]], frame: pd.DataFrame) -> str:
    column = _FILLED_IN.get(key)
    if column not in frame or not any(map(is_missing, stated[key])):
        return ""
    left_open = frame[frame[key].isna()] if key in frame else frame
    return f" (filled in: {number_range(left_open[column])})"


def _is_idle(reference: KeyReference | None, stated: Mapping[str, Sequence[Any]]) -> bool:
    conditions = reference.only_with if reference else {}
    return any(
        key in stated and not {_as_toml(value) for value in stated[key]} & set(wanted)
        for key, wanted in conditions.items()
    )


def _as_toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def grid_text(grid: Mapping[str, Any]) -> str:
    """Return the grid file of a sweep, from the ``grid`` of its manifest."""
    stated = {key: value for key, value in grid.items() if key != "cases" and value != {}}
    cases = [dict(case) for case in grid.get("cases", []) if case]
    return tomlkit.dumps({**stated, **({"cases": cases} if cases else {})}).strip() + "\n"


def provenance_table(frame: pd.DataFrame, manifest: Mapping[str, Any]) -> Table:
    """Return versions, seeds, engine and hashes.

    The versions that made the runs come from the sweep. The versions of libraries are those that
    write the page.
    """
    rows = {
        "Sweep planned by": f"Faultline {manifest['faultline']}",
        "Runs simulated by": f"Faultline {', '.join(_values(frame, 'version')) or 'unknown'}; "
        f"digest of its code: {', '.join(_values(frame, 'code'))}",
        "Page written by": ", ".join(
            f"{name} {number}" for name, number in installed_versions().items()
        ),
        "Engine": str(manifest["engine"]),
        "Seeds": seeds_text(manifest["seeds"]),
        "Scenario hash": _hashes(frame),
    }
    return table_of(
        "provenance-table",
        "Versions, seeds and hashes",
        (text("name", "name"), text("value", "value", "prose")),
        [{"name": name, "value": value} for name, value in rows.items()],
    )


def installed_versions() -> dict[str, str]:
    """Return the versions of Faultline, Python and the numerical libraries."""
    return {
        "Faultline": _version(DISTRIBUTION),
        "Python": platform.python_version(),
        **{name: _version(name.lower()) for name in ("SimGrid", "numpy", "pandas")},
    }


def seeds_text(seeds: Sequence[int]) -> str:
    """Return seeds as text: ``0 to 9``, or ``1, 5, 7``."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    shown = ", ".join(map(str, seeds[:20]))
    return f"{shown} and {len(seeds) - 20:,} more" if len(seeds) > 20 else shown


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _hashes(frame: pd.DataFrame) -> str:
    hashes = _values(frame, "scenario_hash")
    if len(hashes) == 1:
        return hashes[0]
    return f"{len(hashes):,} different ones, one per point, in the last column of all points"


def _values(frame: pd.DataFrame, column: str) -> list[str]:
    return [str(value) for value in frame[column].dropna().unique()] if column in frame else []


def notices(sweep: Sweep) -> tuple[str, ...]:
    """Return warnings about the runs, a sentence each."""
    sentences = []
    there = len(sweep.frame)
    if there < sweep.planned:
        sentences.append(
            f"This sweep is not finished: {there:,} of {sweep.planned:,} runs are there. Repeat "
            "the faultline sweep command to execute the others."
        )
    if sweep.problems:
        count = len(sweep.problems)
        files = "1 file was" if count == 1 else f"{count:,} files were"
        sentences.append(f"{files} ignored: damaged, or not of this sweep.")
    if sweep.frame["code"].nunique() > 1:
        sentences.append("These runs were simulated by different versions of Faultline's code.")
    return (*sentences, *caveats(sweep.frame))
