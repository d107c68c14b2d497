"""The question of a sweep: every key of the scenario, versions, hashes, caveats."""

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

# Left open, these are filled in for each run; records have the values.
_FILLED_IN = {
    "strategy.redundancy": "redundancy",
    "checkpoint.interval_steps": "checkpoint_interval_steps",
}


def scenario_sections(
    fixed: Mapping[str, Any], axes: Mapping[str, Sequence[Any]], frame: pd.DataFrame
) -> list[dict[str, Any]]:
    """Return all keys of the scenario by section, in the order of the schema.

    A section has a ``name``, a ``summary`` and ``settings``: each of them its dotted ``key``, its
    ``value`` or those that the sweep gives it, its ``meaning``, whether it is ``varied``, and
    whether other settings make it ``idle``. Runs are needed as their records say what became of
    values that were left open. Keys that this version does not know are told without a meaning: a
    sweep may be older.
    """
    known = [reference.dotted for reference in scenario_reference().values()]
    played = {**{key: [value] for key, value in fixed.items()}, **axes}
    keys = [key for key in known if key in played] + [key for key in played if key not in known]
    sections: dict[str, list[dict[str, Any]]] = {}
    for key in keys:
        if key in _NOT_OF_THE_QUESTION:
            continue
        values = ", ".join(value_text(key, value) for value in played[key])
        setting = {
            "key": key,
            "value": values + _filled_in(key, played, frame),
            "meaning": meaning_of(key),
            "varied": key in axes,
            "idle": _is_idle(_reference(key), played),
        }
        sections.setdefault(key.partition(".")[0], []).append(setting)
    return [
        {"name": name.replace("_", " "), "summary": meaning_of(name), "settings": settings}
        for name, settings in sections.items()
    ]


def meaning_of(key: str) -> str:
    """Return what a dotted key of a scenario means, or nothing for a key that it does not have."""
    reference = _reference(key)
    return reference.meaning if reference else ""


def value_text(key: str, value: Any) -> str:
    """Write a value of a scenario's key with its unit; open values are named so."""
    if is_missing(value):
        return "left open"
    reference = _reference(key)
    return with_unit(value, reference.unit if reference else None)


def _reference(key: str) -> KeyReference | None:
    return scenario_reference().get(tuple(key.split(".")))


def _filled_in(key: str, played: Mapping[str, Sequence[Any]], frame: pd.DataFrame) -> str:
    column = _FILLED_IN.get(key)
    if column not in frame or not any(map(is_missing, played[key])):
        return ""
    left_open = frame[frame[key].isna()] if key in frame else frame
    return f" (filled in: {number_range(left_open[column])})"


def _is_idle(reference: KeyReference | None, played: Mapping[str, Sequence[Any]]) -> bool:
    conditions = reference.only_with if reference else {}
    return any(
        key in played and not {_as_toml(value) for value in played[key]} & set(wanted)
        for key, wanted in conditions.items()
    )


def _as_toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def grid_text(grid: Mapping[str, Any]) -> str:
    """Return the grid file of a sweep, written anew from its manifest.

    ``grid`` of the manifest is the file as read, with dotted keys.
    """
    stated = {key: value for key, value in grid.items() if key != "cases" and value != {}}
    cases = [dict(case) for case in grid.get("cases", []) if case]
    return tomlkit.dumps({**stated, **({"cases": cases} if cases else {})}).strip() + "\n"


def provenance_table(frame: pd.DataFrame, manifest: Mapping[str, Any]) -> Table:
    """Return versions, seeds, engine and hashes.

    What made the runs comes from the sweep, so that it is true on any machine; the versions of the
    libraries are those that wrote the page.
    """
    rows = {
        "Sweep planned by": f"Faultline {manifest['faultline']}",
        "Runs played by": f"Faultline {', '.join(_values(frame, 'version')) or 'unknown'}; "
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
        (text("what", "what"), text("value", "value", "prose")),
        [{"what": name, "value": value} for name, value in rows.items()],
    )


def installed_versions() -> dict[str, str]:
    """Return the versions of Faultline, Python and what the numbers pass through."""
    return {
        "Faultline": _version(DISTRIBUTION),
        "Python": platform.python_version(),
        **{name: _version(name.lower()) for name in ("SimGrid", "numpy", "pandas")},
    }


def seeds_text(seeds: Sequence[int]) -> str:
    """Return seeds as people write them: ``0 to 9``, or ``1, 5, 7``."""
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
    return f"{len(hashes):,} different ones, one a point: in the last column of all points"


def _values(frame: pd.DataFrame, column: str) -> list[str]:
    return [str(value) for value in frame[column].dropna().unique()] if column in frame else []


def notices(sweep: Sweep) -> tuple[str, ...]:
    """Return what a reader must know of the runs before believing the numbers, a sentence each."""
    sentences = []
    there = len(sweep.frame)
    if there < sweep.planned:
        sentences.append(
            f"This sweep is not finished: {there:,} of {sweep.planned:,} runs are there. The same "
            "faultline sweep command again plays the rest."
        )
    if sweep.problems:
        count = len(sweep.problems)
        what = "1 file was" if count == 1 else f"{count:,} files were"
        sentences.append(f"{what} left out: damaged, or not of this sweep.")
    if sweep.frame["code"].nunique() > 1:
        sentences.append("These runs were played by different states of Faultline's code.")
    return (*sentences, *caveats(sweep.frame))
